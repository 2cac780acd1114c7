//! What expressions can name of an object, from the compiled schema of its kind.

use minik8s_cel::Declaration;
use minik8s_schema::{Schema, Type};
use serde_json::{Map, Value, json};

/// Deeper than any kind is, and than any expression looks.
const MAX_DEPTH: usize = 32;

/// What may be anything.
fn any() -> Value {
    json!({"x-kubernetes-int-or-string": true})
}

pub fn declaration(schema: &Schema, name: &str) -> Option<Declaration> {
    Declaration::of_schema(&described(schema, 0), name, false)
}

/// As OpenAPI says it, with everything that is not typed marked as anything.
fn described(schema: &Schema, depth: usize) -> Value {
    if depth > MAX_DEPTH {
        return any();
    }
    match schema.ty {
        Type::String => match &schema.format {
            Some(format) => json!({"type": "string", "format": format}),
            None => json!({"type": "string"}),
        },
        Type::Integer => json!({"type": "integer"}),
        Type::Number => json!({"type": "number"}),
        Type::Boolean => json!({"type": "boolean"}),
        Type::Array => {
            let items = schema.items.as_deref().map_or_else(any, |items| described(items, depth + 1));
            json!({"type": "array", "items": items})
        }
        Type::Object => described_object(schema, depth),
        Type::IntOrString | Type::Any => any(),
    }
}

fn described_object(schema: &Schema, depth: usize) -> Value {
    if let Some(values) = &schema.values {
        return json!({"type": "object", "additionalProperties": described(values, depth + 1)});
    }
    if schema.fields.is_empty() || schema.preserve_unknown {
        return any();
    }
    let properties: Map<String, Value> =
        schema.fields.iter().map(|(name, field)| (name.to_string(), described(field, depth + 1))).collect();
    json!({"type": "object", "properties": properties})
}
