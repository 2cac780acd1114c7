//! Secret: small confidential data.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Secret;
use serde_json::{Value, json};

use super::key_value_data::{MAX_SIZE, decoded_len, validate_frozen, validate_keys};
use crate::At;
use crate::{Cell, Column, FieldErrors, Resource, Strategy};
use crate::{fill, table};

pub(crate) fn resource() -> Resource {
    Resource::of::<Secret>(Secrets)
}

struct Secrets;

impl Strategy for Secrets {
    fn default(&self, object: &mut Value) {
        fill::field(object, "type", "Opaque");
    }

    fn prepare_create(&self, object: &mut Value) {
        encode_string_data(object);
    }

    fn prepare_update(&self, object: &mut Value, _old: &Value) {
        encode_string_data(object);
    }

    fn validate(&self, object: &Value, errors: &mut FieldErrors) {
        let data = At::root(object).field("data");
        validate_keys(&data, errors);
        if data.entries().map(|(_, value)| decoded_len(value.text())).sum::<usize>() > MAX_SIZE {
            errors.too_long(data.path.clone(), MAX_SIZE);
        }
        validate_type(object, &data, errors);
    }

    fn validate_update(&self, object: &Value, old: &Value, errors: &mut FieldErrors) {
        At::root(object).field("type").unchanged(errors, &At::root(old).field("type"));
        validate_frozen(object, old, &["data"], errors);
    }

    fn selectable(&self, object: &Value) -> Vec<(&'static str, String)> {
        vec![("type", table::text_or(&object["type"], ""))]
    }

    fn selectable_names(&self) -> &'static [&'static str] {
        &["type"]
    }

    fn columns(&self) -> Option<Vec<Column>> {
        Some(table::texts(&["Name", "Type", "Data", "Age"]))
    }

    fn row(&self, object: &Value, now: Timestamp) -> Vec<Cell> {
        vec![
            table::name(object),
            object["type"].clone(),
            json!(table::count(&object["data"])),
            table::age(object, now),
        ]
    }
}

/// `stringData` is for writers only: its values go to `data`, over what is there.
fn encode_string_data(object: &mut Value) {
    let texts = object["stringData"].take();
    fill::remove(object, "stringData");
    let Value::Object(texts) = texts else { return };
    if let Some(data) = fill::map(object, "data") {
        for (key, text) in texts {
            data.insert(key, json!(STANDARD.encode(text.as_str().unwrap_or_default())));
        }
    }
}

/// Some types promise keys.
fn validate_type(object: &Value, data: &At<'_>, errors: &mut FieldErrors) {
    let key = |key: &str| At { path: data.path.key(key), value: &data.value[key] };
    let mut need = |name: &str| {
        if !key(name).exists() {
            key(name).required(errors, "");
        }
    };
    match object["type"].as_str().unwrap_or_default() {
        "kubernetes.io/service-account-token" => {
            let annotation = "kubernetes.io/service-account.name";
            let annotations = At::root(object).field("metadata").field("annotations");
            if annotations.value[annotation].as_str().is_none_or(str::is_empty) {
                errors.required(annotations.path.key(annotation), "");
            }
        }
        "kubernetes.io/dockercfg" => validate_json(&key(".dockercfg"), errors),
        "kubernetes.io/dockerconfigjson" => validate_json(&key(".dockerconfigjson"), errors),
        "kubernetes.io/basic-auth" if !key("username").exists() && !key("password").exists() => {
            need("username");
            need("password");
        }
        "kubernetes.io/ssh-auth" if !key("ssh-privatekey").is_set() => {
            key("ssh-privatekey").required(errors, "");
        }
        "kubernetes.io/tls" => {
            need("tls.crt");
            need("tls.key");
        }
        _ => {}
    }
}

fn validate_json(value: &At<'_>, errors: &mut FieldErrors) {
    if !value.exists() {
        value.required(errors, "");
        return;
    }
    let parsed = STANDARD.decode(value.text()).map(|bytes| serde_json::from_slice::<Value>(&bytes));
    if let Ok(Err(problem)) = parsed {
        errors.invalid(value.path.clone(), "<secret contents redacted>", problem.to_string());
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use crate::check;

    #[test]
    fn string_data_is_encoded() {
        let mut object = json!({"data": {"a": "eA==", "b": "eQ=="}, "stringData": {"b": "new", "c": ""}});
        check::find("secrets").strategy.prepare_create(&mut object);
        assert_eq!(object, json!({"data": {"a": "eA==", "b": "bmV3", "c": ""}}));
    }

    #[test]
    fn validation() {
        #[track_caller]
        fn check(object: serde_json::Value, expected: &[&str]) {
            check::errors("secrets", object, expected);
        }
        check(json!({}), &[]);
        check(json!({"data": {"a b": ""}}), &["data[a b]: Invalid value: \"a b\": a valid config key"]);
        check(
            json!({"type": "kubernetes.io/tls", "data": {"tls.crt": ""}}),
            &["data[tls.key]: Required value"],
        );
        check(
            json!({"type": "kubernetes.io/basic-auth"}),
            &["data[username]: Required value", "data[password]: Required value"],
        );
        check(json!({"type": "kubernetes.io/basic-auth", "data": {"username": ""}}), &[]);
        check(json!({"type": "kubernetes.io/ssh-auth"}), &["data[ssh-privatekey]: Required value"]);
        check(
            json!({"type": "kubernetes.io/service-account-token"}),
            &["metadata.annotations[kubernetes.io/service-account.name]: Required value"],
        );
        check(json!({"type": "kubernetes.io/dockerconfigjson", "data": {".dockerconfigjson": "e30="}}), &[]);
        check(
            json!({"type": "kubernetes.io/dockerconfigjson", "data": {".dockerconfigjson": "eA=="}}),
            &["data[.dockerconfigjson]: Invalid value: \"<secret contents redacted>\""],
        );
    }

    #[test]
    fn updates() {
        check::update_errors(
            "secrets",
            json!({"type": "b"}),
            json!({"type": "a"}),
            &["type: Invalid value: \"b\": field is immutable"],
        );
        check::update_errors(
            "secrets",
            json!({"immutable": true, "data": {"a": ""}}),
            json!({"immutable": true}),
            &["data: Forbidden: field is immutable when `immutable` is set"],
        );
    }
}
