//! autoscaling/v2: any number of metrics.

use jiff::Timestamp;
use k8s_openapi::api::autoscaling::v2::HorizontalPodAutoscaler;
use serde_json::{Value, json};

use super::{columns, defaults, validate};
use crate::{Cell, Column, FieldErrors, Resource, Strategy};

pub(crate) fn resource() -> Resource {
    Resource::of::<HorizontalPodAutoscaler>(Autoscalers).short(&["hpa"]).in_all().status()
}

struct Autoscalers;

impl Strategy for Autoscalers {
    fn default(&self, object: &mut Value) {
        defaults::fill(object);
    }

    fn prepare_create(&self, object: &mut Value) {
        object["status"] = json!({ "desiredReplicas": 0 });
    }

    fn validate(&self, object: &Value, errors: &mut FieldErrors) {
        validate::autoscaler(object, errors);
    }

    fn columns(&self) -> Option<Vec<Column>> {
        Some(columns::columns())
    }

    fn row(&self, object: &Value, now: Timestamp) -> Vec<Cell> {
        columns::row(object, now)
    }
}
