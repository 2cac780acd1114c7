//! autoscaling/v1: one target, the CPU utilization. Everything is judged in the stored form.

use jiff::Timestamp;
use k8s_openapi::api::autoscaling::v1::HorizontalPodAutoscaler;
use serde_json::{Value, json};

use super::{columns, convert, validate};
use crate::fill;
use crate::{Cell, Column, FieldErrors, Resource, Strategy};

pub(crate) fn resource() -> Resource {
    Resource::of::<HorizontalPodAutoscaler>(Autoscalers)
        .short(&["hpa"])
        .in_all()
        .status()
        .stored_as("autoscaling", "v2")
}

struct Autoscalers;

impl Strategy for Autoscalers {
    fn default(&self, object: &mut Value) {
        if let Some(spec) = fill::object(object, "spec") {
            fill::field(spec, "minReplicas", 1);
        }
    }

    fn prepare_create(&self, object: &mut Value) {
        object["status"] = json!({ "currentReplicas": 0, "desiredReplicas": 0 });
    }

    fn validate(&self, object: &Value, errors: &mut FieldErrors) {
        validate::autoscaler(&stored(object), errors);
    }

    fn columns(&self) -> Option<Vec<Column>> {
        Some(columns::columns())
    }

    fn row(&self, object: &Value, now: Timestamp) -> Vec<Cell> {
        columns::row(&stored(object), now)
    }

    fn to_stored(&self, object: &mut Value) {
        convert::to_v2(object);
    }

    fn from_stored(&self, object: &mut Value) {
        convert::to_v1(object);
    }
}

fn stored(object: &Value) -> Value {
    let mut object = object.clone();
    convert::to_v2(&mut object);
    object
}
