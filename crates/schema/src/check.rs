//! Checks a decoded body against the schema of a built-in kind, and tidies it, in one walk.
//!
//! It does what decoding into typed structs does for upstream: values of the wrong type are mismatches,
//! unknown fields are dropped and listed, a null leaves its field unset. What a mismatch or an unknown field
//! means for the request (400, a warning, nothing) is for the caller to say. Custom kinds are pruned,
//! defaulted and validated instead: their schemas report wrong types as invalid fields.

use std::fmt;

use serde_json::{Map, Number, Value, json};

use crate::trail::Trail;
use crate::unknown::{self, UnknownField};
use crate::{Path, Schema, Type, format};

/// More than this is not listed: a hostile body must not make a long answer.
const MAX_REPORTED: usize = 100;

/// What a walk found.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Findings {
    pub mismatches: Vec<Mismatch>,
    pub unknown: Vec<UnknownField>,
}

/// A value that its field cannot hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mismatch {
    pub path: Path,
    /// The type, and the value where it is short: `string "three"`.
    pub found: String,
    pub expected: String,
}

impl fmt::Display for Mismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "json: cannot unmarshal {} into field {} of type {}", self.found, self.path, self.expected)
    }
}

impl Mismatch {
    /// A boolean or number where text belongs: in YAML, text that lacks its quotes.
    pub fn is_unquoted_text(&self) -> bool {
        self.expected == "string" && (self.found.starts_with("bool ") || self.found.starts_with("number "))
    }
}

impl Schema {
    /// Reports wrong types and unknown fields; drops unknown fields and nulls.
    pub fn check(&self, value: &mut Value) -> Findings {
        let mut findings = Findings::default();
        findings.node(self, value, &Trail::Base(&Path::root()));
        findings
    }
}

impl Findings {
    fn node(&mut self, schema: &Schema, value: &mut Value, trail: &Trail<'_>) {
        if schema.nullable && value.is_null() {
            return;
        }
        match (schema.ty, &mut *value) {
            (Type::Object | Type::Any, Value::Object(map)) => self.object(schema, map, trail),
            (Type::Array | Type::Any, Value::Array(list)) => self.list(schema, list, trail),
            (Type::Any, _) | (Type::Boolean, Value::Bool(_)) | (Type::Number, Value::Number(_)) => {}
            (Type::String | Type::IntOrString, Value::String(text)) => {
                let known =
                    schema.format.as_deref().filter(|&f| matches!(f, "date-time" | "byte" | "quantity"));
                if known.is_some_and(|name| !format::matches(name, text)) {
                    self.mismatch(schema, value, trail);
                }
            }
            (Type::Integer | Type::IntOrString, Value::Number(number)) if fits(schema, number) => {}
            _ => self.mismatch(schema, value, trail),
        }
    }

    fn object(&mut self, schema: &Schema, map: &mut Map<String, Value>, trail: &Trail<'_>) {
        map.retain(|name, value| {
            if let Some(field) = schema.fields.get(name.as_str()) {
                if value.is_null() && !field.nullable {
                    return false;
                }
                self.node(field, value, &Trail::Field(trail, name));
            } else if let Some(values) = &schema.values {
                self.element(values, value, &Trail::Key(trail, name));
            } else if !schema.is_open() && !schema.is_implied(name) {
                unknown::report(&mut self.unknown, schema, trail, name);
                return false;
            }
            true
        });
    }

    fn list(&mut self, schema: &Schema, list: &mut [Value], trail: &Trail<'_>) {
        let Some(items) = &schema.items else { return };
        for (index, element) in list.iter_mut().enumerate() {
            self.element(items, element, &Trail::Index(trail, index));
        }
    }

    /// An element of a list or map. A null cannot be left out there: it is the type's empty value.
    fn element(&mut self, schema: &Schema, value: &mut Value, trail: &Trail<'_>) {
        if value.is_null() && !schema.nullable {
            *value = empty(schema);
        }
        self.node(schema, value, trail);
    }

    fn mismatch(&mut self, schema: &Schema, value: &Value, trail: &Trail<'_>) {
        if self.mismatches.len() < MAX_REPORTED {
            self.mismatches.push(Mismatch {
                path: trail.path(),
                found: found(value),
                expected: expected(schema),
            });
        }
    }
}

/// Whether an integer field can hold the number.
fn fits(schema: &Schema, number: &Number) -> bool {
    match (schema.ty, schema.format.as_deref()) {
        (Type::IntOrString, Some("quantity")) => true,
        (Type::IntOrString, _) | (_, Some("int32")) => {
            number.as_i64().is_some_and(|n| i32::try_from(n).is_ok())
        }
        (_, Some("uint64")) => number.is_u64(),
        (_, Some("uint32")) => number.as_u64().is_some_and(|n| u32::try_from(n).is_ok()),
        _ => number.is_i64(),
    }
}

fn empty(schema: &Schema) -> Value {
    match schema.ty {
        Type::Object => json!({}),
        Type::Array => json!([]),
        Type::String if schema.format.as_deref() == Some("date-time") => Value::Null,
        Type::String => json!(""),
        Type::IntOrString if schema.format.is_some() => json!("0"),
        Type::Integer | Type::Number | Type::IntOrString => json!(0),
        Type::Boolean => json!(false),
        Type::Any => Value::Null,
    }
}

fn found(value: &Value) -> String {
    const MAX_SHOWN: usize = 60;
    match value {
        Value::Null => "null".to_owned(),
        Value::Bool(b) => format!("bool {b}"),
        Value::Number(n) => format!("number {n}"),
        Value::String(s) if s.len() <= MAX_SHOWN => format!("string {}", Value::from(s.as_str())),
        Value::String(_) => "string".to_owned(),
        Value::Array(_) => "array".to_owned(),
        Value::Object(_) => "object".to_owned(),
    }
}

fn expected(schema: &Schema) -> String {
    let text = match (schema.ty, schema.format.as_deref()) {
        (Type::String, Some("date-time")) => "date-time (RFC 3339, such as 2006-01-02T15:04:05Z)",
        (Type::String, Some("byte")) => "base64",
        (Type::IntOrString, Some("quantity")) => "quantity (such as 500m or 1Gi)",
        (Type::Integer, Some(format)) => format,
        (Type::Object, _) => "object",
        (Type::Array, _) => "array",
        (Type::String, _) => "string",
        (Type::Integer, None) => "int64",
        (Type::Number, _) => "float64",
        (Type::Boolean, _) => "bool",
        (Type::IntOrString, _) => "int32 or string",
        (Type::Any, _) => "any",
    };
    text.to_owned()
}

#[cfg(test)]
mod tests;
