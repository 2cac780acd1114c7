//! OpenAPI v2: one document of everything, as JSON.

use std::collections::HashSet;
use std::fmt::Write;

use serde_json::{Map, Value, json};

use super::definitions::{REFERENCE, each_definition};
use super::operations::{self, Operation, Path};
use super::special::{self, INT_OR_STRING, PRESERVE_UNKNOWN};
use crate::Resource;

/// The Kubernetes release whose API this is.
pub(super) const API_LEVEL: &str = "v1.37.0";

const DEFINITION: &str = "#/definitions/";

/// Parts of the document that others wrote: extension API servers of the groups that are theirs.
#[derive(Debug, Default)]
pub struct Published {
    pub definitions: Map<String, Value>,
    pub paths: Map<String, Value>,
}

impl Published {
    /// Their definitions but for those that are of this server.
    pub(super) fn beside<'a>(
        &'a self,
        own: &'a HashSet<String>,
    ) -> impl Iterator<Item = (&'a String, &'a Value)> {
        self.definitions.iter().filter(|(name, _)| !own.contains(*name))
    }
}

/// The answer of `/openapi/v2` in JSON.
pub fn v2_json(resources: &[&Resource], others: &Published) -> String {
    let info = json!({"title": "minik8s", "version": API_LEVEL});
    let mut out = format!(r#"{{"swagger":"2.0","info":{info},"definitions":"#);
    let mut members = Members::open(&mut out);
    let mut own = HashSet::new();
    let names = each_definition(resources, &mut |name, definition| {
        members.add(name, &published(name, definition));
        own.insert(name.to_owned());
    });
    others.beside(&own).for_each(|(name, definition)| members.add(name, definition));
    members.close();
    out.push_str(r#","paths":"#);
    let mut members = Members::open(&mut out);
    for (resource, name) in resources.iter().zip(&names) {
        for path in operations::paths_of(resource, name) {
            members.add(&path.template, &path_item(&path));
        }
    }
    others.paths.iter().for_each(|(path, item)| members.add(path, item));
    members.close();
    out.push('}');
    out
}

/// A definition in the words of OpenAPI v2, which has no `oneOf`, no `anyOf` and no `nullable`.
pub(super) fn published(name: &str, definition: &Map<String, Value>) -> Value {
    let description = definition.get("description").cloned().unwrap_or_default();
    match name {
        "io.k8s.apimachinery.pkg.api.resource.Quantity" => {
            json!({"description": description, "type": "string"})
        }
        "io.k8s.apimachinery.pkg.util.intstr.IntOrString" => {
            json!({"description": description, "type": "string", "format": "int-or-string"})
        }
        // Clients complain about every field that a kind does not list, so this one lists none.
        _ if is_set(definition, PRESERVE_UNKNOWN) => {
            let kind = definition.get("x-kubernetes-group-version-kind").cloned().unwrap_or_default();
            json!({"type": "object", "x-kubernetes-group-version-kind": kind})
        }
        _ => {
            let mut definition = definition.clone();
            simplify(&mut definition);
            Value::Object(definition)
        }
    }
}

fn simplify(schema: &mut Map<String, Value>) {
    if let Some(Value::Array(branches)) = schema.remove("allOf")
        && let [only] = &branches[..]
        && let Some(reference) = only.get("$ref")
    {
        schema.insert("$ref".to_owned(), reference.clone());
    }
    if let Some(Value::String(reference)) = schema.get_mut("$ref") {
        *reference = reference.replace(REFERENCE, DEFINITION);
    }
    for name in ["oneOf", "anyOf", "not"] {
        schema.remove(name);
    }
    drop_optional_nulls(schema);
    // Clients refuse a null and fields that a schema does not list; where those are fine it says nothing.
    let nullable = schema.remove("nullable").is_some_and(|nullable| nullable == true);
    let open = is_set(schema, PRESERVE_UNKNOWN);
    if nullable || open {
        for name in ["type", "properties", "items", "additionalProperties"] {
            schema.remove(name);
        }
    }
    if is_set(schema, INT_OR_STRING) {
        schema.remove("type");
    }
    special::each_subschema(schema, &mut simplify);
}

/// A field that may be null loses its type below, and clients would take a null for a missing field.
fn drop_optional_nulls(schema: &mut Map<String, Value>) {
    let Some(Value::Object(properties)) = schema.get("properties") else { return };
    let nullable: Vec<String> = properties
        .iter()
        .filter(|(_, property)| property["nullable"] == true)
        .map(|(name, _)| name.clone())
        .collect();
    if let Some(Value::Array(required)) = schema.get_mut("required") {
        required.retain(|name| nullable.iter().all(|nullable| name != nullable));
    }
}

fn is_set(schema: &Map<String, Value>, name: &str) -> bool {
    schema.get(name) == Some(&Value::Bool(true))
}

pub(super) fn path_item(path: &Path) -> Value {
    let mut item = Map::new();
    for operation in &path.operations {
        item.insert(operation.method.to_owned(), operation_item(operation));
    }
    let path_parameters = ["name", "namespace"].into_iter().filter(|name| path.has(name));
    let parameters: Vec<Value> = path_parameters
        .map(|name| json!({"name": name, "in": "path", "required": true, "type": "string"}))
        .collect();
    if !parameters.is_empty() {
        item.insert("parameters".to_owned(), parameters.into());
    }
    item.into()
}

fn operation_item(operation: &Operation) -> Value {
    let reference = |definition: &str| json!({"$ref": format!("{DEFINITION}{definition}")});
    let mut parameters: Vec<Value> = operation
        .parameters
        .iter()
        .map(|parameter| json!({"name": parameter.name, "in": "query", "type": parameter.ty}))
        .collect();
    let mut consumes = json!(["*/*"]);
    if let Some((media_types, definition)) = &operation.body {
        consumes = json!(media_types);
        let required = !matches!(operation.action, "delete" | "deletecollection");
        parameters.insert(
            0,
            json!({"name": "body", "in": "body", "required": required, "schema": reference(definition)}),
        );
    }
    let (produces, schema) = match &operation.answer {
        Some(definition) => ("application/json", reference(definition)),
        None => ("*/*", json!({"type": "string"})),
    };
    json!({
        "tags": [operation.tag],
        "operationId": operation.id,
        "consumes": consumes,
        "produces": [produces],
        "parameters": parameters,
        "responses": {"200": {"description": "OK", "schema": schema}},
        "x-kubernetes-action": operation.action,
        "x-kubernetes-group-version-kind": operation.gvk,
    })
}

/// Writes an object member by member, so that a large one never exists as values.
pub(super) struct Members<'a> {
    out: &'a mut String,
    separator: char,
}

impl<'a> Members<'a> {
    pub(super) fn open(out: &'a mut String) -> Self {
        Members { out, separator: '{' }
    }

    pub(super) fn add(&mut self, name: &str, value: &Value) {
        let name = Value::from(name);
        // Writing to a String cannot fail.
        let _ = write!(self.out, "{}{name}:{value}", self.separator);
        self.separator = ',';
    }

    pub(super) fn close(self) {
        if self.separator == '{' {
            self.out.push('{');
        }
        self.out.push('}');
    }
}
