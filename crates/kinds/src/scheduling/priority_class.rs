//! PriorityClass: how important a pod is.

use jiff::Timestamp;
use k8s_openapi::api::scheduling::v1::PriorityClass;
use serde_json::{Value, json};

use crate::At;
use crate::{Cell, Column, FieldErrors, Resource, Strategy};
use crate::{fill, table};

/// Priorities above this are for the system.
const MAX_USER_VALUE: i64 = 1_000_000_000;
const SYSTEM_PREFIX: &str = "system-";
const SYSTEM: &[(&str, i64)] =
    &[("system-cluster-critical", 2_000_000_000), ("system-node-critical", 2_000_001_000)];

pub(crate) fn resource() -> Resource {
    Resource::of::<PriorityClass>(PriorityClasses).short(&["pc"]).counted()
}

struct PriorityClasses;

impl Strategy for PriorityClasses {
    fn default(&self, object: &mut Value) {
        fill::field(object, "preemptionPolicy", "PreemptLowerPriority");
    }

    fn validate(&self, object: &Value, errors: &mut FieldErrors) {
        let root = At::root(object);
        let (name, value) = (root.field("metadata").field("name"), root.field("value"));
        let number = value.int().unwrap_or_default();
        let reserved = |errors: &mut FieldErrors, why: String| {
            name.forbidden(
                errors,
                format!("priority class names with '{SYSTEM_PREFIX}' prefix are reserved for system use only. error: {why}"),
            );
        };
        match SYSTEM.iter().find(|(system, _)| *system == name.text()) {
            Some(&(system, fixed)) if number != fixed => {
                reserved(errors, format!("value of {system} PriorityClass must be {fixed}"));
            }
            Some(_) => {}
            None if name.text().starts_with(SYSTEM_PREFIX) => {
                reserved(errors, format!("{} is not a known system priority class", name.text()));
            }
            None if number > MAX_USER_VALUE => value.forbidden(
                errors,
                format!("maximum allowed value of a user defined priority is {MAX_USER_VALUE}"),
            ),
            None => {}
        }
        root.field("preemptionPolicy").one_of(errors, &["Never", "PreemptLowerPriority"]);
    }

    fn validate_update(&self, object: &Value, old: &Value, errors: &mut FieldErrors) {
        let (new, old) = (At::root(object), At::root(old));
        let value = |of: &At<'_>| of.field("value").int().unwrap_or_default();
        if value(&new) != value(&old) {
            new.field("value").forbidden(errors, "may not be changed in an update.");
        }
        new.field("preemptionPolicy").unchanged(errors, &old.field("preemptionPolicy"));
    }

    fn columns(&self) -> Option<Vec<Column>> {
        Some(vec![
            Column::new("Name", "string"),
            Column::new("Value", "integer"),
            Column::new("Global-Default", "boolean"),
            Column::new("Age", "string"),
            Column::new("PreemptionPolicy", "string"),
        ])
    }

    fn row(&self, object: &Value, now: Timestamp) -> Vec<Cell> {
        vec![
            table::name(object),
            json!(object["value"].as_i64().unwrap_or_default()),
            json!(object["globalDefault"] == true),
            table::age(object, now),
            table::text_or(&object["preemptionPolicy"], "").into(),
        ]
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use crate::check;

    fn class(name: &str, value: i64) -> Value {
        json!({"metadata": {"name": name}, "value": value})
    }

    #[test]
    fn validation() {
        #[track_caller]
        fn check(name: &str, value: i64, expected: &[&str]) {
            check::errors("priorityclasses", class(name, value), expected);
        }
        check("high", 1000, &[]);
        check("low", -1000, &[]);
        check("system-node-critical", 2_000_001_000, &[]);
        check(
            "system-node-critical",
            1,
            &["metadata.name: Forbidden: priority class names with 'system-' prefix"],
        );
        check("system-own", 1, &["metadata.name: Forbidden: priority class names with 'system-' prefix"]);
        check(
            "high",
            1_000_000_001,
            &["value: Forbidden: maximum allowed value of a user defined priority is 1000000000"],
        );
        check::update_errors(
            "priorityclasses",
            class("a", 1),
            class("a", 2),
            &["value: Forbidden: may not be changed in an update."],
        );
    }

    #[test]
    fn columns() {
        let object = check::defaulted("priorityclasses", class("a", 7));
        check::row("priorityclasses", object, &["a", "7", "false", "<unknown>", "PreemptLowerPriority"]);
    }
}
