//! Types that JSON Schema cannot say by itself: free-form JSON, quantities, int-or-string.

use serde_json::{Map, Value, json};

const META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1";
const APIEXTENSIONS: &str = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1";

pub(super) const INT_OR_STRING: &str = "x-kubernetes-int-or-string";
pub(super) const PRESERVE_UNKNOWN: &str = "x-kubernetes-preserve-unknown-fields";

/// Brings a generated definition into the form that compiling and publishing start from.
pub(super) fn correct(name: &str, definition: &mut Map<String, Value>) {
    tidy(definition);
    metadata_is_optional(definition);
    if is_any_json(name) {
        definition.remove("type");
        definition.remove("oneOf");
        definition.insert(PRESERVE_UNKNOWN.to_owned(), json!(true));
    } else if is_any_object(name) {
        definition.insert(PRESERVE_UNKNOWN.to_owned(), json!(true));
    } else if name == "io.k8s.apimachinery.pkg.api.resource.Quantity" {
        definition.insert("format".to_owned(), json!("quantity"));
    }
    // A key of a map list that users leave out must have a default for elements to be told apart.
    if matches!(name, "io.k8s.api.core.v1.ContainerPort" | "io.k8s.api.core.v1.ServicePort")
        && let Some(protocol) = definition.get_mut("properties").and_then(|p| p.get_mut("protocol"))
    {
        protocol["default"] = json!("TCP");
    }
}

/// Any JSON value.
fn is_any_json(name: &str) -> bool {
    let Some(name) = name.strip_prefix(APIEXTENSIONS) else { return false };
    matches!(
        name,
        ".JSON" | ".JSONSchemaPropsOrArray" | ".JSONSchemaPropsOrBool" | ".JSONSchemaPropsOrStringArray"
    )
}

/// Any JSON object.
fn is_any_object(name: &str) -> bool {
    name == "io.k8s.apimachinery.pkg.runtime.RawExtension"
        || name.strip_prefix(META).is_some_and(|name| matches!(name, ".FieldsV1" | ".Patch"))
}

/// The Rust types always hold metadata; in the API it may be left out.
fn metadata_is_optional(definition: &mut Map<String, Value>) {
    if definition.get("properties").is_none_or(|properties| properties.get("metadata").is_none()) {
        return;
    }
    if let Some(Value::Array(required)) = definition.get_mut("required") {
        required.retain(|name| name != "metadata");
        if required.is_empty() {
            definition.remove("required");
        }
    }
}

/// Undoes what derived Rust types add: an `Option` is a field that may be left out, not one that holds null.
fn tidy(schema: &mut Map<String, Value>) {
    schema.remove("nullable");
    schema.remove("$schema");
    if let Some(Value::Array(branches)) = schema.get_mut("anyOf") {
        branches.retain(|branch| branch.get("nullable").is_none_or(|nullable| *nullable != true));
        if branches.len() == 1 && branches[0].get("$ref").is_some() {
            let only = schema.remove("anyOf").unwrap_or_default();
            schema.insert("allOf".to_owned(), only);
        }
    }
    each_subschema(schema, &mut tidy);
}

/// Calls `visit` with each schema directly below.
pub(super) fn each_subschema(
    schema: &mut Map<String, Value>,
    visit: &mut dyn FnMut(&mut Map<String, Value>),
) {
    if let Some(Value::Object(properties)) = schema.get_mut("properties") {
        properties.values_mut().filter_map(Value::as_object_mut).for_each(&mut *visit);
    }
    for name in ["items", "additionalProperties", "not"] {
        if let Some(Value::Object(below)) = schema.get_mut(name) {
            visit(below);
        }
    }
    for name in ["allOf", "anyOf", "oneOf"] {
        if let Some(Value::Array(branches)) = schema.get_mut(name) {
            branches.iter_mut().filter_map(Value::as_object_mut).for_each(&mut *visit);
        }
    }
}
