//! Function: its defaults, its columns, and when it is well-formed.

use jiff::Timestamp;
use minik8s_api::{Cell, Column, FieldErrors, NameRule, Resource, Strategy, fill, table};
use minik8s_meta::function::{Function, FunctionSpec, REVISION_READY};
use serde_json::Value;

use crate::validate;

pub fn resource() -> Resource {
    Resource::of::<Function>(Functions)
        .short(&["fn"])
        .named(NameRule::Label)
        .status()
        .counted()
        .state_metrics(crate::state_metrics::write)
}

struct Functions;

impl Strategy for Functions {
    fn default(&self, object: &mut Value) {
        let usual = FunctionSpec::default();
        let Some(spec) = fill::object(object, "spec") else { return };
        fill::field(spec, "concurrency", usual.concurrency());
        fill::field(spec, "timeoutSeconds", usual.timeout_seconds());
        if let Some(scale) = fill::object(spec, "scale") {
            fill::field(scale, "min", usual.min());
            fill::field(scale, "max", usual.max());
            fill::field(scale, "idleSeconds", usual.idle_seconds());
            fill::field(scale, "scaleDownSeconds", usual.scale_down_seconds());
        }
        if let Some(queue) = fill::object(spec, "queue") {
            fill::field(queue, "seconds", usual.queue_seconds());
        }
    }

    fn validate(&self, object: &Value, errors: &mut FieldErrors) {
        validate::function(object, errors);
    }

    fn columns(&self) -> Option<Vec<Column>> {
        let shown = ["Name", "Runtime", "Ready", "Instances", "Revision", "Age"];
        Some(table::texts_and_wide(&shown, &["URL", "Message"]))
    }

    fn row(&self, object: &Value, now: Timestamp) -> Vec<Cell> {
        let (spec, status) = (&object["spec"], &object["status"]);
        let conditions = status["conditions"].as_array().into_iter().flatten();
        let ready = conditions.clone().find(|condition| condition["type"] == REVISION_READY);
        let problem = conditions.filter(|condition| condition["status"] == "False").map(|c| &c["message"]);
        let first_line = problem.filter_map(|text| text.as_str()?.lines().next()).next().unwrap_or_default();
        let runtime = if spec["image"].is_string() { &spec["image"] } else { &spec["runtime"] };
        let count = |field: &str| table::text_or(&status[field], "0");
        vec![
            table::name(object),
            table::text_or(runtime, table::NONE).into(),
            ready.map_or("Unknown".to_owned(), |ready| table::text_or(&ready["status"], "Unknown")).into(),
            format!("{}/{}", count("readyReplicas"), count("desired")).into(),
            count("servingRevision").into(),
            table::age(object, now),
            table::text_or(&status["url"], table::NONE).into(),
            first_line.into(),
        ]
    }
}
