//! Schemas of custom kinds: what the definition's author wrote, with what every object has.

use std::sync::Arc;

use minik8s_schema::{Rules, Schema};
use serde_json::{Map, Value, json};

use super::definitions::{OBJECT_META, REFERENCE};
use crate::Resource;

/// Group backwards, version, kind: `com.example.stable.v1.CronTab`.
pub(super) fn definition_name(resource: &Resource) -> String {
    let group: Vec<&str> = resource.group.rsplit('.').collect();
    format!("{}.{}.{}", group.join("."), resource.version, resource.kind)
}

/// What upstream says about the fields that every object has.
const KIND: &str = "Kind is a string value representing the REST resource this object represents. Servers may infer \
    this from the endpoint the client submits requests to. Cannot be updated. In CamelCase. More info: \
    https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#types-kinds";
const API_VERSION: &str = "APIVersion defines the versioned schema of this representation of an object. Servers \
    should convert recognized schemas to the latest internal value, and may reject unrecognized values. More info: \
    https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#resources";
const METADATA: &str = "Standard object's metadata. More info: \
    https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#metadata";

/// The schema as documents show it.
pub(super) fn published(schema: &Value) -> Map<String, Value> {
    let mut schema = schema.as_object().cloned().unwrap_or_default();
    schema.entry("type").or_insert_with(|| json!("object"));
    describe_embedded(&mut schema);
    add_object_fields(&mut schema);
    schema
}

/// apiVersion, kind and metadata, which are every object's, with upstream's descriptions.
fn add_object_fields(schema: &mut Map<String, Value>) {
    let properties = schema.entry("properties").or_insert_with(|| json!({}));
    if !properties.is_object() {
        return;
    }
    for (name, description) in [("apiVersion", API_VERSION), ("kind", KIND)] {
        // An author may have written rules there.
        if !properties[name].is_object() {
            properties[name] = json!({"type": "string"});
        }
        if properties[name].get("description").is_none() {
            properties[name]["description"] = description.into();
        }
    }
    properties["metadata"] = json!({"$ref": format!("{REFERENCE}{OBJECT_META}"), "description": METADATA});
}

/// The same for the objects inside of it.
fn describe_embedded(schema: &mut Map<String, Value>) {
    let below = ["properties", "items", "additionalProperties"];
    for (key, value) in schema.iter_mut().filter(|(key, _)| below.contains(&key.as_str())) {
        let Value::Object(value) = value else { continue };
        match key.as_str() {
            "properties" => value.values_mut().filter_map(Value::as_object_mut).for_each(describe_embedded),
            _ => describe_embedded(value),
        }
    }
    if schema.get("x-kubernetes-embedded-resource") == Some(&Value::Bool(true)) {
        add_object_fields(schema);
    }
}

/// The schema that objects are checked against. `object_meta` is that of all kinds.
///
/// A schema that cannot be compiled takes every object: definitions are checked when they are created, so
/// only one from elsewhere comes here, and its objects must stay readable.
pub(super) fn compile(schema: &Value, object_meta: &Arc<Schema>) -> Arc<Schema> {
    let mut resolve = |name: &str| (name == OBJECT_META).then(|| object_meta.clone());
    let Ok(compiled) = Schema::compile(&Value::Object(published(schema)), &mut resolve) else {
        return Arc::new(Schema { preserve_unknown: true, ..Schema::default() });
    };
    restrict(&compiled, schema, object_meta, true).unwrap_or(compiled)
}

/// Puts the author's rules about names onto the metadata of the object and of those inside of it. None: there
/// are no rules here or below.
fn restrict(
    compiled: &Schema,
    json: &Value,
    object_meta: &Arc<Schema>,
    is_object: bool,
) -> Option<Arc<Schema>> {
    let mut changed = None;
    let properties = json["properties"].as_object();
    for (name, property) in properties.into_iter().flatten() {
        let Some(field) = compiled.fields.get(name.as_str()) else { continue };
        let restricted = match (is_object || compiled.embedded_resource) && name == "metadata" {
            true => restricted(object_meta, property),
            false => restrict(field, property, object_meta, false),
        };
        if let Some(restricted) = restricted {
            let schema = changed.get_or_insert_with(|| compiled.clone());
            schema.fields.insert(name.as_str().into(), restricted);
        }
    }
    if let Some(items) = compiled.items.as_ref().and_then(|s| restrict(s, &json["items"], object_meta, false))
    {
        changed.get_or_insert_with(|| compiled.clone()).items = Some(items);
    }
    let values = compiled.values.as_ref();
    if let Some(values) = values.and_then(|s| restrict(s, &json["additionalProperties"], object_meta, false))
    {
        changed.get_or_insert_with(|| compiled.clone()).values = Some(values);
    }
    changed.map(Arc::new)
}

/// Metadata under the rules that the author made for names.
fn restricted(object_meta: &Arc<Schema>, metadata: &Value) -> Option<Arc<Schema>> {
    if metadata["properties"].as_object().is_none_or(Map::is_empty) {
        return None;
    }
    let restriction = Schema::compile(metadata, &mut |_| None).ok()?;
    let rules = Rules { all_of: vec![restriction], ..Rules::default() };
    Some(Arc::new(Schema { rules: Some(Box::new(rules)), ..Schema::clone(object_meta) }))
}
