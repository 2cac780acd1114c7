//! ScalingDecision: all that an autoscaler went by when it last decided. Computed when asked for, never stored; it has
//! the name of its HorizontalPodAutoscaler.

pub mod types;

use jiff::Timestamp;
use serde_json::Value;

use self::types::ScalingDecision;
use crate::kinds::table;
use crate::{Cell, Column, Resource, Strategy};

pub(in crate::kinds) fn resource() -> Resource {
    Resource::of::<ScalingDecision>(Decisions).only(&["get", "list"])
}

struct Decisions;

impl Strategy for Decisions {
    fn columns(&self) -> Option<Vec<Column>> {
        Some(table::texts(&["Name", "Target", "Replicas", "Desired", "Verdict", "When"]))
    }

    fn row(&self, object: &Value, now: Timestamp) -> Vec<Cell> {
        vec![
            table::name(object),
            table::text_or(&object["target"], "").into(),
            table::text_or(&object["replicas"], "").into(),
            table::text_or(&object["desired"], "").into(),
            table::text_or(&object["verdict"], "").into(),
            table::since(&object["at"], now).into(),
        ]
    }
}
