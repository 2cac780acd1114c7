//! Event of events.k8s.io: the same objects as core Events under newer field names. Stored as core/v1.

use jiff::Timestamp;
use k8s_openapi::api::events::v1::Event;
use serde_json::{Map, Value, json};

use crate::At;
use crate::core::event::{columns, row, validate_namespace, validate_reporter};
use crate::table;
use crate::{Cell, Column, FieldErrors, NameRule, Resource, Strategy};

/// What a field is called here, and in core/v1.
const NAMES: &[(&str, &str)] = &[
    ("regarding", "involvedObject"),
    ("note", "message"),
    ("reportingController", "reportingComponent"),
    ("deprecatedSource", "source"),
    ("deprecatedFirstTimestamp", "firstTimestamp"),
    ("deprecatedLastTimestamp", "lastTimestamp"),
    ("deprecatedCount", "count"),
];

/// Only the series of an event may grow.
const FIXED: &[&str] = &[
    "regarding",
    "related",
    "reason",
    "action",
    "note",
    "type",
    "reportingController",
    "reportingInstance",
    "eventTime",
    "deprecatedSource",
    "deprecatedFirstTimestamp",
    "deprecatedLastTimestamp",
    "deprecatedCount",
];

pub(crate) fn resource() -> Resource {
    Resource::of::<Event>(Events)
        .created_by_put()
        .short(&["ev"])
        .named(NameRule::PathSegment)
        .stored_as("", "v1")
}

struct Events;

impl Strategy for Events {
    fn validate(&self, object: &Value, errors: &mut FieldErrors) {
        let root = At::root(object);
        validate_namespace(object, "regarding", errors);
        root.field("eventTime").need(errors);
        validate_reporter(object, "reportingController", errors);
        let ty = root.field("type");
        if !matches!(ty.text(), "Normal" | "Warning") {
            errors.invalid(ty.path.clone(), "", format!("has invalid value: {}", ty.text()));
        }
        let series = root.field("series");
        if series.exists() {
            if series.field("count").int().unwrap_or_default() < 2 {
                errors.invalid(series.path.field("count"), "", "should be at least 2");
            }
            series.field("lastObservedTime").need(errors);
        }
    }

    fn validate_update(&self, object: &Value, old: &Value, errors: &mut FieldErrors) {
        let (new, old) = (At::root(object), At::root(old));
        for field in FIXED {
            new.field(field).unchanged(errors, &old.field(field));
        }
    }

    fn selectable(&self, object: &Value) -> Vec<(&'static str, String)> {
        let text = |value: &Value| table::text_or(value, "");
        let regarding = |field: &str| text(&object["regarding"][field]);
        vec![
            ("regarding.kind", regarding("kind")),
            ("regarding.namespace", regarding("namespace")),
            ("regarding.name", regarding("name")),
            ("regarding.uid", regarding("uid")),
            ("regarding.apiVersion", regarding("apiVersion")),
            ("regarding.resourceVersion", regarding("resourceVersion")),
            ("regarding.fieldPath", regarding("fieldPath")),
            ("reason", text(&object["reason"])),
            ("reportingController", text(&object["reportingController"])),
            ("type", text(&object["type"])),
        ]
    }

    fn selectable_names(&self) -> &'static [&'static str] {
        &[
            "regarding.kind",
            "regarding.namespace",
            "regarding.name",
            "regarding.uid",
            "regarding.apiVersion",
            "regarding.resourceVersion",
            "regarding.fieldPath",
            "reason",
            "reportingController",
            "type",
        ]
    }

    fn columns(&self) -> Option<Vec<Column>> {
        Some(columns())
    }

    fn row(&self, object: &Value, now: Timestamp) -> Vec<Cell> {
        let mut object = object.clone();
        self.to_stored(&mut object);
        row(&object, now)
    }

    fn to_stored(&self, object: &mut Value) {
        rename(object, "v1", |name| NAMES.iter().find(|(here, _)| *here == name).map(|(_, core)| *core));
    }

    fn from_stored(&self, object: &mut Value) {
        rename(object, "events.k8s.io/v1", |name| {
            NAMES.iter().find(|(_, core)| *core == name).map(|(here, _)| *here)
        });
    }
}

/// Gives top-level fields their other names; their order stays.
fn rename(object: &mut Value, api_version: &str, other: impl Fn(&str) -> Option<&'static str>) {
    let Some(fields) = object.as_object_mut() else { return };
    let renamed: Map<String, Value> = std::mem::take(fields)
        .into_iter()
        .map(|(name, value)| (other(&name).map_or(name, str::to_owned), value))
        .collect();
    *fields = renamed;
    object["apiVersion"] = json!(api_version);
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use crate::check;

    const NAME: &str = "events.events.k8s.io";

    fn event() -> Value {
        json!({
            "apiVersion": "events.k8s.io/v1", "kind": "Event", "metadata": {"name": "a", "namespace": "n"},
            "regarding": {"kind": "Pod", "namespace": "n", "name": "web"}, "note": "x", "type": "Normal",
            "reason": "R", "action": "A", "eventTime": "2026-01-01T11:00:00.000000Z",
            "reportingController": "c", "reportingInstance": "c-1",
            "deprecatedCount": 2, "deprecatedSource": {"component": "c"},
        })
    }

    #[test]
    fn to_core_and_back() {
        let strategy = check::find(NAME).strategy;
        let mut object = event();
        strategy.to_stored(&mut object);
        assert_eq!(object["apiVersion"], "v1");
        assert_eq!(object["involvedObject"]["name"], "web");
        assert_eq!(object["message"], "x");
        assert_eq!(object["reportingComponent"], "c");
        assert_eq!(object["count"], 2);
        assert_eq!(object["source"]["component"], "c");
        strategy.from_stored(&mut object);
        assert_eq!(object, event());
    }

    #[test]
    fn validation() {
        check::errors(NAME, event(), &[]);
        let mut object = event();
        object["type"] = json!("Odd");
        object["series"] = json!({"count": 1});
        object.as_object_mut().unwrap().remove("eventTime");
        check::errors(
            NAME,
            object,
            &[
                "eventTime: Required value",
                "type: Invalid value: \"\": has invalid value: Odd",
                "series.count: Invalid value: \"\": should be at least 2",
                "series.lastObservedTime: Required value",
            ],
        );
        let mut changed = event();
        changed["note"] = json!("y");
        check::update_errors(NAME, changed, event(), &["note: Invalid value: \"y\": field is immutable"]);
    }
}
