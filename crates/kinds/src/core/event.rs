//! Event: something that happened to an object.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Event;
use serde_json::{Value, json};

use crate::At;
use crate::table;
use crate::{Cell, Column, FieldErrors, NameRule, Resource, Strategy, format};

const MAX_REASON: usize = 128;
const MAX_NOTE: usize = 1024;

pub(crate) fn resource() -> Resource {
    Resource::of::<Event>(Events).created_by_put().short(&["ev"]).named(NameRule::PathSegment)
}

struct Events;

impl Strategy for Events {
    fn validate(&self, object: &Value, errors: &mut FieldErrors) {
        validate_namespace(object, "involvedObject", errors);
        if object["eventTime"].is_string() {
            validate_reporter(object, "reportingComponent", errors);
        }
    }

    fn selectable(&self, object: &Value) -> Vec<(&'static str, String)> {
        let text = |value: &Value| table::text_or(value, "");
        let involved = |field: &str| text(&object["involvedObject"][field]);
        let reporter = text(&object["reportingComponent"]);
        let source = table::text_or(&object["source"]["component"], &reporter);
        vec![
            ("involvedObject.kind", involved("kind")),
            ("involvedObject.namespace", involved("namespace")),
            ("involvedObject.name", involved("name")),
            ("involvedObject.uid", involved("uid")),
            ("involvedObject.apiVersion", involved("apiVersion")),
            ("involvedObject.resourceVersion", involved("resourceVersion")),
            ("involvedObject.fieldPath", involved("fieldPath")),
            ("reason", text(&object["reason"])),
            ("reportingComponent", reporter),
            ("source", source),
            ("type", text(&object["type"])),
        ]
    }

    fn selectable_names(&self) -> &'static [&'static str] {
        &[
            "involvedObject.kind",
            "involvedObject.namespace",
            "involvedObject.name",
            "involvedObject.uid",
            "involvedObject.apiVersion",
            "involvedObject.resourceVersion",
            "involvedObject.fieldPath",
            "reason",
            "reportingComponent",
            "source",
            "type",
        ]
    }

    fn columns(&self) -> Option<Vec<Column>> {
        Some(columns())
    }

    fn row(&self, object: &Value, now: Timestamp) -> Vec<Cell> {
        row(object, now)
    }
}

/// An event is in the namespace of its object; those of cluster-wide objects are in `default`.
pub(crate) fn validate_namespace(object: &Value, field: &str, errors: &mut FieldErrors) {
    let root = At::root(object);
    let own = root.field("metadata").field("namespace").text();
    let involved = root.field(field).field("namespace");
    let good = match involved.text() {
        "" => matches!(own, "" | "default" | "kube-system"),
        namespace => namespace == own,
    };
    if !good {
        errors.invalid(involved.path.clone(), involved.text(), "does not match event.namespace");
    }
}

/// Who saw it, what they did and why: required of events with an `eventTime`.
pub(crate) fn validate_reporter(object: &Value, reporter: &str, errors: &mut FieldErrors) {
    let root = At::root(object);
    root.field(reporter).need_form(errors, format::qualified_name);
    root.field("reportingInstance").need(errors);
    for field in ["reportingInstance", "action", "reason"].map(|name| root.field(name)) {
        if field.text().len() > MAX_REASON {
            errors.invalid(field.path, "", format!("can have at most {MAX_REASON} characters"));
        }
    }
    root.field("action").need(errors);
    root.field("reason").need(errors);
    for note in ["message", "note"].map(|name| root.field(name)) {
        if note.text().len() > MAX_NOTE {
            errors.invalid(note.path, "", format!("can have at most {MAX_NOTE} characters"));
        }
    }
}

pub(crate) fn columns() -> Vec<Column> {
    let mut columns = table::texts(&["Last Seen", "Type", "Reason", "Object"]);
    columns.extend(table::texts_and_wide(&[], &["Subobject", "Source"]));
    columns.extend(table::texts_and_wide(&["Message"], &["First Seen", "Count", "Name"]));
    columns
}

/// Of the stored form, which both API versions share.
pub(crate) fn row(object: &Value, now: Timestamp) -> Vec<Cell> {
    let text = |value: &Value| table::text_or(value, "");
    let series = &object["series"];
    let time = |fields: &[&Value]| {
        let set = fields.iter().find(|value| value.is_string());
        set.map_or(table::UNKNOWN.to_owned(), |time| table::since(time, now))
    };
    let (first, last, at) = (&object["firstTimestamp"], &object["lastTimestamp"], &object["eventTime"]);
    let count = series["count"].as_i64().or(object["count"].as_i64()).filter(|&count| count > 0).unwrap_or(1);
    let involved = &object["involvedObject"];
    let kind = text(&involved["kind"]).to_lowercase();
    let target = match text(&involved["name"]) {
        name if name.is_empty() => kind,
        name => format!("{kind}/{name}"),
    };
    vec![
        time(&[&series["lastObservedTime"], last, first, at]).into(),
        text(&object["type"]).into(),
        text(&object["reason"]).into(),
        target.into(),
        text(&involved["fieldPath"]).into(),
        source(object).into(),
        text(&object["message"]).trim().into(),
        time(&[first, at]).into(),
        json!(count),
        table::name(object),
    ]
}

/// `component` or `component, host`, from the old fields or the new ones.
fn source(object: &Value) -> String {
    let component = table::text_or(&object["source"]["component"], "");
    let component = match component.is_empty() {
        true => table::text_or(&object["reportingComponent"], ""),
        false => component,
    };
    let host = table::text_or(&object["source"]["host"], &table::text_or(&object["reportingInstance"], ""));
    if host.is_empty() { component } else { format!("{component}, {host}") }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use crate::check;

    #[test]
    fn validation() {
        let event = |own: &str, involved: &str| json!({"metadata": {"name": "a", "namespace": own}, "involvedObject": {"namespace": involved}});
        check::errors("events", event("a", "a"), &[]);
        check::errors("events", event("default", ""), &[]);
        check::errors(
            "events",
            event("a", ""),
            &["involvedObject.namespace: Invalid value: \"\": does not match event.namespace"],
        );
        check::errors(
            "events",
            event("a", "b"),
            &["involvedObject.namespace: Invalid value: \"b\": does not match"],
        );
        let mut timed = event("a", "a");
        timed["eventTime"] = json!("2026-01-01T11:00:00.000000Z");
        check::errors(
            "events",
            timed,
            &[
                "reportingComponent: Required value",
                "reportingInstance: Required value",
                "action: Required value",
                "reason: Required value",
            ],
        );
    }

    #[test]
    fn columns() {
        check::row(
            "events",
            json!({
                "metadata": {"name": "web.1"}, "type": "Normal", "reason": "Pulled", "message": "Image pulled\n",
                "involvedObject": {"kind": "Pod", "name": "web", "fieldPath": "spec.containers{web}"},
                "source": {"component": "kubelet", "host": "n1"},
                "firstTimestamp": "2026-01-01T11:50:00Z", "lastTimestamp": "2026-01-01T11:59:50Z", "count": 3,
            }),
            &[
                "10s",
                "Normal",
                "Pulled",
                "pod/web",
                "spec.containers{web}",
                "kubelet, n1",
                "Image pulled",
                "10m",
                "3",
                "web.1",
            ],
        );
        check::row(
            "events",
            json!({
                "metadata": {"name": "n"}, "involvedObject": {"kind": "Node"}, "reportingComponent": "x",
                "eventTime": "2026-01-01T11:58:00.000000Z",
                "series": {"count": 5, "lastObservedTime": "2026-01-01T11:59:59.000000Z"},
            }),
            &["1s", "", "", "node", "", "x", "", "2m", "5", "n"],
        );
    }
}
