//! ConfigMap: small configuration data.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::ConfigMap;
use serde_json::{Value, json};

use super::key_value_data::{MAX_SIZE, decoded_len, validate_frozen, validate_keys};
use crate::At;
use crate::table;
use crate::{Cell, Column, FieldErrors, Path, Resource, Strategy};

pub(crate) fn resource() -> Resource {
    Resource::of::<ConfigMap>(ConfigMaps).short(&["cm"])
}

struct ConfigMaps;

impl Strategy for ConfigMaps {
    fn validate(&self, object: &Value, errors: &mut FieldErrors) {
        let root = At::root(object);
        let (data, binary) = (root.field("data"), root.field("binaryData"));
        validate_keys(&data, errors);
        for (key, value) in data.entries() {
            if binary.value.get(key).is_some() {
                errors.invalid(value.path, key, "duplicate of key present in binaryData");
            }
        }
        validate_keys(&binary, errors);
        let size: usize = data.entries().map(|(_, value)| value.text().len()).sum::<usize>()
            + binary.entries().map(|(_, value)| decoded_len(value.text())).sum::<usize>();
        if size > MAX_SIZE {
            errors.too_long(Path::new("[]"), MAX_SIZE);
        }
    }

    fn validate_update(&self, object: &Value, old: &Value, errors: &mut FieldErrors) {
        validate_frozen(object, old, &["data", "binaryData"], errors);
    }

    fn columns(&self) -> Option<Vec<Column>> {
        Some(table::texts(&["Name", "Data", "Age"]))
    }

    fn row(&self, object: &Value, now: Timestamp) -> Vec<Cell> {
        let keys = table::count(&object["data"]) + table::count(&object["binaryData"]);
        vec![table::name(object), json!(keys), table::age(object, now)]
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use crate::check;

    #[test]
    fn validation() {
        check::errors("configmaps", json!({"data": {"a.b": ""}, "binaryData": {"c": "AAA="}}), &[]);
        check::errors(
            "configmaps",
            json!({"data": {"a b": "", "..": "", "x": ""}, "binaryData": {"x": ""}}),
            &[
                "data[a b]: Invalid value: \"a b\": a valid config key must consist of",
                "data[..]: Invalid value: \"..\": must not be '..'",
                "data[x]: Invalid value: \"x\": duplicate of key present in binaryData",
            ],
        );
        check::errors(
            "configmaps",
            json!({"data": {"a": "x".repeat(1024 * 1024 + 1)}}),
            &["[]: Too long: may not be more than 1048576 bytes"],
        );
        check::errors("configmaps", json!({"data": {"a": "x".repeat(1024 * 1024)}}), &[]);
    }

    #[test]
    fn frozen() {
        let old = json!({"immutable": true, "data": {"a": "1"}});
        check::update_errors(
            "configmaps",
            json!({"data": {"a": "2"}}),
            old.clone(),
            &[
                "immutable: Forbidden: field is immutable when `immutable` is set",
                "data: Forbidden: field is immutable when `immutable` is set",
            ],
        );
        check::update_errors("configmaps", old.clone(), old.clone(), &[]);
        check::update_errors("configmaps", old, json!({"data": {"a": "2"}}), &[]);
    }

    #[test]
    fn columns() {
        let object =
            json!({"metadata": {"name": "a"}, "data": {"x": "1", "y": "2"}, "binaryData": {"z": ""}});
        check::row("configmaps", object, &["a", "3", "<unknown>"]);
    }
}
