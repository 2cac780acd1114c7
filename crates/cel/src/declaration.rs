//! What a schema says about a value: its CEL type, and how large it can become.
//!
//! Built from OpenAPI v3 as CustomResourceDefinitions have it. What a schema does not describe cannot be named in
//! an expression: there is no declaration for it.

use std::collections::HashMap;
use std::sync::Arc;

use serde_json::Value as Json;

use crate::escape::escape;
use crate::types::{ObjectField, ObjectType, Type};

/// The largest request that is accepted; no value can be larger.
pub const LARGEST_REQUEST: u64 = 3 * 1024 * 1024;

#[derive(Debug, Clone)]
pub struct Declaration {
    pub ty: Type,
    /// Bytes of a string, elements of a list, entries of a map: at most.
    pub max_elements: u64,
    /// Bytes as JSON: at least.
    pub min_size: u64,
    /// Of a list or a map.
    pub element: Option<Arc<Declaration>>,
    pub list: ListKind,
}

/// How the elements of a list belong together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ListKind {
    Atomic,
    Set,
    /// By the values of these fields.
    Map(Vec<String>),
}

impl Declaration {
    /// What the schema declares, or None where it leaves open what a value is.
    pub fn of_schema(schema: &Json, name: &str, is_resource: bool) -> Option<Self> {
        if schema["x-kubernetes-int-or-string"] == true {
            let longest = max_length(schema).unwrap_or(LARGEST_REQUEST - 2);
            return Some(Declaration { max_elements: longest, ..Declaration::scalar(Type::Dyn, 1) });
        }
        match schema["type"].as_str()? {
            "array" => list(schema, name),
            "object" => object(schema, name, is_resource),
            "string" => Some(string(schema)),
            "boolean" => Some(Declaration::scalar(Type::Bool, 4)),
            "number" => Some(Declaration::scalar(Type::Double, 1)),
            "integer" => Some(Declaration::scalar(Type::Int, 1)),
            _ => None,
        }
    }

    /// A value of which only the type is known.
    pub fn of_type(ty: Type) -> Self {
        Declaration::scalar(ty, 1)
    }

    fn scalar(ty: Type, min_size: u64) -> Self {
        Declaration { ty, max_elements: 0, min_size, element: None, list: ListKind::Atomic }
    }

    pub fn field(&self, escaped: &str) -> Option<&ObjectField> {
        match &self.ty {
            Type::Object(object) => object.fields.get(escaped),
            _ => None,
        }
    }
}

fn list(schema: &Json, name: &str) -> Option<Declaration> {
    let items = schema.get("items")?;
    let element = Declaration::of_schema(items, &format!("{name}.@idx"), is_embedded(items))?;
    let most = schema["maxItems"].as_i64().map(|items| items.max(0).unsigned_abs());
    let kind = match schema["x-kubernetes-list-type"].as_str() {
        Some("set") => ListKind::Set,
        Some("map") => {
            let keys = schema["x-kubernetes-list-map-keys"].as_array().into_iter().flatten();
            ListKind::Map(keys.filter_map(Json::as_str).map(str::to_owned).collect())
        }
        _ => ListKind::Atomic,
    };
    Some(Declaration {
        ty: Type::list(element.ty.clone()),
        // A comma beside each element, brackets around all.
        max_elements: most.unwrap_or((LARGEST_REQUEST - 2) / (element.min_size + 1)),
        min_size: 2,
        element: Some(Arc::new(element)),
        list: kind,
    })
}

fn object(schema: &Json, name: &str, is_resource: bool) -> Option<Declaration> {
    let values = schema.get("additionalProperties").filter(|values| values.is_object());
    if let Some(values) = values.filter(|_| !is_resource) {
        let element = Declaration::of_schema(values, &format!("{name}.@elem"), is_embedded(values))?;
        let most = schema["maxProperties"].as_i64().map(|properties| properties.max(0).unsigned_abs());
        return Some(Declaration {
            ty: Type::map(Type::String, element.ty.clone()),
            // A key, its quotes, a colon and a comma beside each value.
            max_elements: most.unwrap_or((LARGEST_REQUEST - 2) / (element.min_size + 6)),
            min_size: 2,
            element: Some(Arc::new(element)),
            list: ListKind::Atomic,
        });
    }
    let required: Vec<&str> =
        schema["required"].as_array().into_iter().flatten().filter_map(Json::as_str).collect();
    let mut fields = HashMap::new();
    let mut min_size = 2;
    for (property, of) in schema["properties"].as_object().into_iter().flatten() {
        if is_resource && matches!(property.as_str(), "apiVersion" | "kind" | "metadata") {
            continue;
        }
        let path = format!("{name}.{property}");
        let Some(declaration) = Declaration::of_schema(of, &path, is_embedded(of)) else { continue };
        if required.contains(&property.as_str()) && of.get("default").is_none() {
            min_size += property.len() as u64 + declaration.min_size + 4;
        }
        if let Some(escaped) = escape(property) {
            fields.insert(escaped, ObjectField { name: property.clone(), declaration });
        }
    }
    if is_resource {
        fields.extend(type_and_object_meta(name));
    }
    let object = ObjectType { name: name.to_owned(), fields };
    Some(Declaration::scalar(Type::Object(Arc::new(object)), min_size))
}

/// What every resource has, whether its schema says so or not.
fn type_and_object_meta(name: &str) -> [(String, ObjectField); 3] {
    let text = || string(&Json::Null);
    let field =
        |name: &str, declaration| (name.to_owned(), ObjectField { name: name.to_owned(), declaration });
    let names = HashMap::from([field("name", text()), field("generateName", text())]);
    let metadata = ObjectType { name: format!("{name}.metadata"), fields: names };
    let metadata = Declaration::scalar(Type::Object(Arc::new(metadata)), 2);
    [field("apiVersion", text()), field("kind", text()), field("metadata", metadata)]
}

fn string(schema: &Json) -> Declaration {
    let (ty, min_size, longest) = match schema["format"].as_str() {
        Some("byte") => {
            let longest = schema["maxLength"].as_i64().map(|length| length.max(0).unsigned_abs());
            (Type::Bytes, 2, longest.unwrap_or(LARGEST_REQUEST - 2))
        }
        Some("duration") => (Type::Duration, 3, 32),
        Some("date") => (Type::Timestamp, 12, 12),
        Some("date-time") => (Type::Timestamp, 21, 32),
        _ => {
            let values = schema["enum"].as_array().into_iter().flatten().filter_map(Json::as_str);
            let longest_value = values.map(|value| value.len() as u64).max();
            let longest = max_length(schema).or(longest_value).unwrap_or(LARGEST_REQUEST - 2);
            (Type::String, 2, longest)
        }
    };
    Declaration { max_elements: longest, ..Declaration::scalar(ty, min_size) }
}

/// Schemas count characters, requests bytes: up to four each.
fn max_length(schema: &Json) -> Option<u64> {
    schema["maxLength"].as_i64().map(|length| length.max(0).unsigned_abs().saturating_mul(4))
}

pub fn is_embedded(schema: &Json) -> bool {
    schema["x-kubernetes-embedded-resource"] == true
}
