//! `kubectl get rolebindings` and `clusterrolebindings`.

use jiff::Timestamp;
use serde_json::Value;

use crate::table;
use crate::{Cell, Column};

pub(super) fn columns() -> Vec<Column> {
    table::texts_and_wide(&["Name", "Role", "Age"], &["Users", "Groups", "ServiceAccounts"])
}

pub(super) fn row(object: &Value, now: Timestamp) -> Vec<Cell> {
    let role = &object["roleRef"];
    vec![
        table::name(object),
        format!("{}/{}", table::text_or(&role["kind"], ""), table::text_or(&role["name"], "")).into(),
        table::age(object, now),
        subjects(object, "User").into(),
        subjects(object, "Group").into(),
        subjects(object, "ServiceAccount").into(),
    ]
}

fn subjects(object: &Value, kind: &str) -> String {
    let subjects = object["subjects"].as_array().into_iter().flatten();
    let names: Vec<String> = subjects
        .filter(|subject| subject["kind"] == kind)
        .map(|subject| match kind {
            "ServiceAccount" => {
                format!(
                    "{}/{}",
                    table::text_or(&subject["namespace"], ""),
                    table::text_or(&subject["name"], "")
                )
            }
            _ => table::text_or(&subject["name"], ""),
        })
        .collect();
    names.join(", ")
}
