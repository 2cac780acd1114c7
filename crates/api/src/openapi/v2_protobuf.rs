//! OpenAPI v2 in protobuf (`openapi.v2.Document` of gnostic), the only form of it that kubectl asks for.
//!
//! It carries what clients read: definitions with their types, descriptions, required fields and vendor
//! extensions, and paths with their operations and parameters. Patterns and bounds are in the JSON form
//! only. Numbers after a dot are the messages' field numbers.

use std::collections::HashSet;

use serde_json::{Map, Value};

use super::definitions::each_definition;
use super::v2::Published;
use super::wire::Message;
use super::{operations, v2};
use crate::Resource;

/// The `Content-Type` of the answer. Go's clients cannot read the form with an `@` that they ask for.
pub const V2_PROTOBUF: &str = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf";

/// What clients put into `Accept`, besides [`V2_PROTOBUF`].
pub const V2_PROTOBUF_REQUEST: &str = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf";

/// The answer of `/openapi/v2` in protobuf.
pub fn v2_protobuf(resources: &[&Resource], others: &Published) -> Vec<u8> {
    let mut document = Message::default();
    document.string(1, "2.0");
    document.message(2, |info| {
        info.string(1, "minik8s");
        info.string(2, v2::API_LEVEL);
    });
    let (mut names, mut own) = (Vec::new(), HashSet::new());
    document.message(9, |definitions| {
        names = each_definition(resources, &mut |name, definition| {
            let definition = v2::published(name, definition);
            definitions.message(1, |named| named_schema(named, name, &definition));
            own.insert(name.to_owned());
        });
        for (name, definition) in others.beside(&own) {
            definitions.message(1, |named| named_schema(named, name, definition));
        }
    });
    document.message(8, |paths| {
        let mut add = |template: &str, value: &Value| {
            paths.message(2, |named| {
                named.string(1, template);
                named.message(2, |item| path_item(item, value));
            });
        };
        for (resource, name) in resources.iter().zip(&names) {
            for path in operations::paths_of(resource, name) {
                add(&path.template, &v2::path_item(&path));
            }
        }
        others.paths.iter().for_each(|(path, item)| add(path, item));
    });
    document.into_bytes()
}

fn named_schema(named: &mut Message, name: &str, value: &Value) {
    named.string(1, name);
    named.message(2, |message| schema(message, value));
}

fn schema(message: &mut Message, value: &Value) {
    let Value::Object(fields) = value else { return };
    for (name, value) in fields {
        match (name.as_str(), value) {
            ("$ref", Value::String(text)) => message.string(1, text),
            ("format", Value::String(text)) => message.string(2, text),
            ("title", Value::String(text)) => message.string(3, text),
            ("description", Value::String(text)) => message.string(4, text),
            ("default", value) => message.message(5, |default| any(default, value)),
            ("required", Value::Array(names)) => strings(message, 19, names),
            ("enum", Value::Array(values)) => {
                for value in values {
                    message.message(20, |element| any(element, value));
                }
            }
            ("additionalProperties", Value::Bool(open)) => {
                message.message(21, |item| item.bool(2, *open));
            }
            ("additionalProperties", values) => {
                message.message(21, |item| item.message(1, |inner| schema(inner, values)));
            }
            ("type", Value::String(ty)) => message.message(22, |item| item.string(1, ty)),
            ("items", items) => message.message(23, |item| item.message(1, |inner| schema(inner, items))),
            ("properties", Value::Object(properties)) => message.message(25, |item| {
                for (name, property) in properties {
                    item.message(1, |named| named_schema(named, name, property));
                }
            }),
            _ => {}
        }
    }
    extensions(message, 31, fields);
}

fn path_item(message: &mut Message, value: &Value) {
    let methods = [("get", 2), ("put", 3), ("post", 4), ("delete", 5), ("patch", 8)];
    for (method, number) in methods {
        if let Some(Value::Object(fields)) = value.get(method) {
            message.message(number, |inner| operation(inner, fields));
        }
    }
    parameters(message, 9, value.get("parameters"));
}

fn operation(message: &mut Message, fields: &Map<String, Value>) {
    let list = |name: &str| fields.get(name).and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    strings(message, 1, list("tags"));
    message.string(5, text(fields.get("operationId")));
    strings(message, 6, list("produces"));
    strings(message, 7, list("consumes"));
    parameters(message, 8, fields.get("parameters"));
    message.message(9, |responses| {
        for (code, response) in fields.get("responses").and_then(Value::as_object).into_iter().flatten() {
            responses.message(1, |named| {
                named.string(1, code);
                named.message(2, |value| {
                    value.message(1, |inner| {
                        inner.string(1, text(response.get("description")));
                        inner.message(2, |item| item.message(1, |inner| schema(inner, &response["schema"])));
                    });
                });
            });
        }
    });
    extensions(message, 13, fields);
}

/// `ParametersItem.parameter`, which is of the body or one of the places outside of it.
fn parameters(message: &mut Message, number: u32, list: Option<&Value>) {
    for value in list.and_then(Value::as_array).into_iter().flatten() {
        message.message(number, |item| item.message(1, |inner| parameter(inner, value)));
    }
}

fn parameter(message: &mut Message, value: &Value) {
    let place = text(value.get("in"));
    let required = value["required"] == true;
    if place == "body" {
        return message.message(1, |body| {
            body.string(2, text(value.get("name")));
            body.string(3, place);
            body.bool(4, required);
            body.message(5, |inner| schema(inner, &value["schema"]));
        });
    }
    let (number, type_number) = if place == "path" { (4, 5) } else { (3, 6) };
    message.message(2, |non_body| {
        non_body.message(number, |inner| {
            inner.bool(1, required);
            inner.string(2, place);
            inner.string(4, text(value.get("name")));
            inner.string(type_number, text(value.get("type")));
        });
    });
}

/// `NamedAny` for every field that starts with `x-`.
fn extensions(message: &mut Message, number: u32, fields: &Map<String, Value>) {
    for (name, value) in fields.iter().filter(|(name, _)| name.starts_with("x-")) {
        message.message(number, |named| {
            named.string(1, name);
            named.message(2, |inner| any(inner, value));
        });
    }
}

/// `Any.yaml`: JSON is YAML.
fn any(message: &mut Message, value: &Value) {
    message.string(2, &value.to_string());
}

fn strings(message: &mut Message, number: u32, list: &[Value]) {
    list.iter().filter_map(Value::as_str).for_each(|element| message.element(number, element));
}

fn text(value: Option<&Value>) -> &str {
    value.and_then(Value::as_str).unwrap_or_default()
}
