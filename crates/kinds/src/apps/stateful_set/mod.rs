//! StatefulSet: pods with an identity and storage of their own.

mod validation;

use jiff::Timestamp;
use k8s_openapi::api::apps::v1::StatefulSet;
use serde_json::Value;

use crate::pod_spec::{cells, defaults, template, warnings};
use crate::{Cell, Column, FieldErrors, Resource, Strategy};
use crate::{fill, table};

pub(crate) fn resource() -> Resource {
    Resource::of::<StatefulSet>(StatefulSets).short(&["sts"]).in_all().counted().status().scale()
}

struct StatefulSets;

impl Strategy for StatefulSets {
    fn default(&self, object: &mut Value) {
        let Some(spec) = object.get_mut("spec").filter(|spec| spec.is_object()) else { return };
        fill::field(spec, "podManagementPolicy", "OrderedReady");
        fill::field(spec, "replicas", 1);
        fill::field(spec, "revisionHistoryLimit", 10);
        if let Some(strategy) = fill::object(spec, "updateStrategy") {
            fill::field(strategy, "type", "RollingUpdate");
            if strategy["type"] == "RollingUpdate"
                && let Some(rolling) = fill::object(strategy, "rollingUpdate")
            {
                fill::field(rolling, "partition", 0);
            }
        }
        if let Some(retention) = fill::object(spec, "persistentVolumeClaimRetentionPolicy") {
            fill::field(retention, "whenDeleted", "Retain");
            fill::field(retention, "whenScaled", "Retain");
        }
        template::fill_in(spec, "template");
        for claim in fill::items(spec, "volumeClaimTemplates") {
            template::drop_creation_time(claim);
            defaults::claim_template(claim);
        }
    }

    fn validate(&self, object: &Value, errors: &mut FieldErrors) {
        validation::validate(object, errors);
    }

    fn validate_update(&self, object: &Value, old: &Value, errors: &mut FieldErrors) {
        validation::validate_update(object, old, errors);
    }

    fn warnings(&self, object: &Value) -> Vec<String> {
        warnings::of_workload(object)
    }

    fn columns(&self) -> Option<Vec<Column>> {
        Some(table::texts_and_wide(&["Name", "Ready", "Age"], &["Containers", "Images"]))
    }

    fn row(&self, object: &Value, now: Timestamp) -> Vec<Cell> {
        let (spec, status) = (&object["spec"], &object["status"]);
        let count = |value: &Value| value.as_i64().unwrap_or(0);
        let ready = format!("{}/{}", count(&status["readyReplicas"]), count(&spec["replicas"]));
        let [names, images] = cells::containers_and_images(&spec["template"]["spec"]);
        vec![table::name(object), ready.into(), table::age(object, now), names, images]
    }
}

#[cfg(test)]
mod tests;
