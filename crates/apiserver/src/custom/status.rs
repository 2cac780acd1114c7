//! What a definition's status says: accepted names, conditions, stored versions.

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::object::Object;
use crate::registry::timestamp;

/// Why the names cannot be served: an older definition of the same group has them.
pub fn conflict(definition: &Value, all: &[Value]) -> Option<(&'static str, String)> {
    let (spec, created) = (&definition["spec"], age_of(definition));
    let older = all.iter().filter(|other| {
        other["spec"]["group"] == spec["group"]
            && other.name() != definition.name()
            && age_of(other) < created
    });
    for other in older {
        let taken = &other["spec"]["names"];
        for (field, reason) in
            [("kind", "KindConflict"), ("singular", "SingularConflict"), ("listKind", "ListKindConflict")]
        {
            let name = &spec["names"][field];
            if name.is_string() && *name == taken[field] {
                return Some((reason, format!("{name} is already in use by {}", other.name())));
            }
        }
    }
    None
}

fn age_of(definition: &Value) -> (&str, &str) {
    (definition["metadata"]["creationTimestamp"].as_str().unwrap_or_default(), definition.name())
}

/// The status as it should be; conditions that hold keep their times.
pub fn of(definition: &Value, all: &[Value], now: Timestamp) -> Value {
    let refused = conflict(definition, all);
    let (names, established) = match &refused {
        None => (
            ("True", "NoConflicts", "no conflicts found".to_owned()),
            ("True", "InitialNamesAccepted", "the initial names have been accepted".to_owned()),
        ),
        Some((reason, message)) => (
            ("False", *reason, message.clone()),
            ("False", "NotAccepted", "not all names are accepted".to_owned()),
        ),
    };
    let old = definition["status"]["conditions"].as_array().cloned().unwrap_or_default();
    let condition = |ty: &str, (status, reason, message): (&str, &str, String)| {
        let before = old.iter().find(|condition| condition["type"] == ty && condition["status"] == status);
        let since = before.and_then(|condition| condition["lastTransitionTime"].as_str());
        let since = since.map_or_else(|| timestamp(now), str::to_owned);
        json!({"type": ty, "status": status, "lastTransitionTime": since, "reason": reason, "message": message})
    };
    let ours = ["NamesAccepted", "Established"];
    let mut conditions: Vec<Value> =
        vec![condition("NamesAccepted", names), condition("Established", established)];
    conditions
        .extend(old.iter().filter(|c| !ours.contains(&c["type"].as_str().unwrap_or_default())).cloned());
    let accepted = if refused.is_none() {
        definition["spec"]["names"].clone()
    } else {
        json!({"plural": "", "kind": ""})
    };
    json!({"conditions": conditions, "acceptedNames": accepted, "storedVersions": stored_versions(definition)})
}

/// Every version in which objects may still be stored.
fn stored_versions(definition: &Value) -> Value {
    let mut stored = definition["status"]["storedVersions"].as_array().cloned().unwrap_or_default();
    let versions = definition["spec"]["versions"].as_array().into_iter().flatten();
    for version in versions.filter(|version| version["storage"] == true) {
        if !stored.contains(&version["name"]) {
            stored.push(version["name"].clone());
        }
    }
    Value::Array(stored)
}
