//! DaemonSet: one pod on every node that fits.

use jiff::Timestamp;
use k8s_openapi::api::apps::v1::DaemonSet;
use serde_json::Value;

use crate::kinds::pod_spec::{cells, template};
use crate::kinds::{fill, table};
use crate::{Cell, Column, Resource, Strategy};

pub(in crate::kinds) fn resource() -> Resource {
    Resource::of::<DaemonSet>(DaemonSets).short(&["ds"]).in_all().counted().status()
}

struct DaemonSets;

impl Strategy for DaemonSets {
    fn default(&self, object: &mut Value) {
        let Some(spec) = object.get_mut("spec").filter(|spec| spec.is_object()) else { return };
        fill::field(spec, "revisionHistoryLimit", 10);
        if let Some(strategy) = fill::object(spec, "updateStrategy") {
            fill::field(strategy, "type", "RollingUpdate");
            if strategy["type"] == "RollingUpdate"
                && let Some(rolling) = fill::object(strategy, "rollingUpdate")
            {
                fill::field(rolling, "maxUnavailable", 1);
                fill::field(rolling, "maxSurge", 0);
            }
        }
        template::fill_in(spec, "template");
    }

    fn columns(&self) -> Option<Vec<Column>> {
        let numbers = ["Desired", "Current", "Ready", "Up-to-date", "Available"];
        let mut columns = vec![Column::new("Name", "string")];
        columns.extend(numbers.map(|name| Column::new(name, "integer")));
        columns.extend(table::texts(&["Node Selector", "Age"]));
        columns.extend(cells::wide_columns(&["Containers", "Images", "Selector"]));
        Some(columns)
    }

    fn row(&self, object: &Value, now: Timestamp) -> Vec<Cell> {
        let (spec, status) = (&object["spec"], &object["status"]);
        let numbers = [
            "desiredNumberScheduled",
            "currentNumberScheduled",
            "numberReady",
            "updatedNumberScheduled",
            "numberAvailable",
        ];
        let mut row = vec![table::name(object)];
        row.extend(numbers.map(|field| cells::number(&status[field])));
        row.push(table::labels(&spec["template"]["spec"]["nodeSelector"]).into());
        row.push(table::age(object, now));
        row.extend(cells::wide_cells(spec));
        row
    }
}
