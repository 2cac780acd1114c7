//! OpenAPI v3: an index with a hash per group and version, and one document for each of them.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::definitions::{REFERENCE, each_definition};
use super::fingerprint::fingerprint;
use super::operations::{self, Operation, Path};
use super::special;
use super::v2::{API_LEVEL, Members};
use crate::Resource;

/// The answer of `/openapi/v3`. The hash changes when a document changes, so clients may keep what they have.
pub fn v3_index(resources: &[&Resource]) -> Value {
    let mut groups: BTreeMap<String, Vec<&Resource>> = BTreeMap::new();
    for &resource in resources {
        groups.entry(operations::prefix(&resource.group, &resource.version)).or_default().push(resource);
    }
    let entry = |(prefix, resources): (String, Vec<&Resource>)| {
        let url = format!("/openapi/v3{prefix}?hash={}", fingerprint(&resources));
        (prefix.trim_start_matches('/').to_owned(), json!({"serverRelativeURL": url}))
    };
    json!({"paths": groups.into_iter().map(entry).collect::<Map<_, _>>()})
}

/// The document of one group and version; none if no resource is of it.
pub fn v3_document(group: &str, version: &str, resources: &[&Resource]) -> Option<String> {
    let served: Vec<&Resource> =
        resources.iter().copied().filter(|r| r.group == group && r.version == version).collect();
    if served.is_empty() {
        return None;
    }
    let info = json!({"title": "minik8s", "version": API_LEVEL});
    let mut out = format!(r#"{{"openapi":"3.0.0","info":{info},"components":{{"schemas":"#);
    let mut members = Members::open(&mut out);
    let names =
        each_definition(&served, &mut |name, definition| members.add(name, &published(name, definition)));
    members.close();
    out.push_str(r#"},"paths":"#);
    let mut members = Members::open(&mut out);
    for (resource, name) in served.iter().zip(&names) {
        for path in operations::paths_of(resource, name) {
            members.add(&path.template, &path_item(&path));
        }
    }
    members.close();
    out.push('}');
    Some(out)
}

fn published(name: &str, definition: &Map<String, Value>) -> Value {
    let description = definition.get("description").cloned().unwrap_or_default();
    match name {
        "io.k8s.apimachinery.pkg.api.resource.Quantity" => {
            json!({"description": description, "oneOf": [{"type": "string"}, {"type": "number"}]})
        }
        "io.k8s.apimachinery.pkg.util.intstr.IntOrString" => json!({
            "description": description,
            "format": "int-or-string",
            "oneOf": [{"type": "integer"}, {"type": "string"}],
        }),
        _ => {
            let mut definition = definition.clone();
            wrap_references(&mut definition);
            Value::Object(definition)
        }
    }
}

/// OpenAPI 3.0 ignores what stands beside a `$ref`; inside `allOf` it may have siblings.
fn wrap_references(schema: &mut Map<String, Value>) {
    if schema.len() > 1
        && let Some(reference) = schema.remove("$ref")
    {
        schema.insert("allOf".to_owned(), json!([{"$ref": reference}]));
    }
    special::each_subschema(schema, &mut wrap_references);
}

fn path_item(path: &Path) -> Value {
    let mut item = Map::new();
    for operation in &path.operations {
        item.insert(operation.method.to_owned(), operation_item(operation));
    }
    let path_parameters = ["name", "namespace"].into_iter().filter(|name| path.has(name));
    let parameters: Vec<Value> = path_parameters
        .map(|name| json!({"name": name, "in": "path", "required": true, "schema": {"type": "string"}}))
        .collect();
    if !parameters.is_empty() {
        item.insert("parameters".to_owned(), parameters.into());
    }
    item.into()
}

fn operation_item(operation: &Operation) -> Value {
    let reference = |definition: &str| json!({"schema": {"$ref": format!("{REFERENCE}{definition}")}});
    let parameters: Vec<Value> = operation
        .parameters
        .iter()
        .map(|parameter| json!({"name": parameter.name, "in": "query", "schema": {"type": parameter.ty}}))
        .collect();
    let answer = match &operation.answer {
        Some(definition) => json!({"application/json": reference(definition)}),
        None => json!({"*/*": {"schema": {"type": "string"}}}),
    };
    let mut item = json!({
        "tags": [operation.tag],
        "operationId": operation.id,
        "parameters": parameters,
        "responses": {"200": {"description": "OK", "content": answer}},
        "x-kubernetes-action": operation.action,
        "x-kubernetes-group-version-kind": operation.gvk,
    });
    if let Some((media_types, definition)) = &operation.body {
        let content: Map<String, Value> =
            media_types.iter().map(|&media| (media.to_owned(), reference(definition))).collect();
        let required = !matches!(operation.action, "delete" | "deletecollection");
        item["requestBody"] = json!({"content": content});
        if required {
            item["requestBody"]["required"] = json!(true);
        }
    }
    item
}
