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

/// The schema as documents show it.
pub(super) fn published(schema: &Value) -> Map<String, Value> {
    let mut schema = schema.as_object().cloned().unwrap_or_default();
    schema.entry("type").or_insert_with(|| json!("object"));
    let properties = schema.entry("properties").or_insert_with(|| json!({}));
    for name in ["apiVersion", "kind"] {
        if properties.get(name).is_none() {
            properties[name] = json!({"type": "string"});
        }
    }
    properties["metadata"] = json!({"$ref": format!("{REFERENCE}{OBJECT_META}")});
    schema
}

/// The schema that objects are checked against. `object_meta` is that of all kinds.
///
/// A schema that cannot be compiled takes every object: definitions are checked when they are created, so
/// only one from elsewhere comes here, and its objects must stay readable.
pub(super) fn compile(schema: &Value, object_meta: &Arc<Schema>) -> Arc<Schema> {
    let metadata = restricted(object_meta, &schema["properties"]["metadata"]);
    let mut resolve = |name: &str| (name == OBJECT_META).then(|| metadata.clone());
    Schema::compile(&Value::Object(published(schema)), &mut resolve)
        .unwrap_or_else(|_| Arc::new(Schema { preserve_unknown: true, ..Schema::default() }))
}

/// Metadata under the rules that the author made for names.
fn restricted(object_meta: &Arc<Schema>, metadata: &Value) -> Arc<Schema> {
    if metadata["properties"].as_object().is_none_or(Map::is_empty) {
        return object_meta.clone();
    }
    let Ok(restriction) = Schema::compile(metadata, &mut |_| None) else { return object_meta.clone() };
    let rules = Rules { all_of: vec![restriction], ..Rules::default() };
    Arc::new(Schema { rules: Some(Box::new(rules)), ..Schema::clone(object_meta) })
}
