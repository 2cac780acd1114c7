//! From the bytes of a request to a checked, defaulted object.

use minik8s_protobuf::DecodeError;
use minik8s_schema::{DuplicateField, Mismatch, UnknownField};
use serde_json::Value;

use super::{Call, Registry};
use crate::catalog::Served;
use crate::error::{ApiError, Result};
use crate::request::FieldValidation;

/// No request body may be larger.
pub const MAX_BODY: usize = 3 * 1024 * 1024;

/// YAML 1.1 knows more booleans than people do.
const UNQUOTED: &str =
    "in YAML y, n, yes, no, on, off, true, false are booleans and digits are numbers; put it in quotes";

/// Objects nest at most this deep.
const MAX_DEPTH: usize = 64;

/// A body as it was read.
pub struct Parsed {
    pub value: Value,
    /// Keys that stand twice; the last one counts.
    pub duplicates: Vec<DuplicateField>,
    /// Its booleans may have been meant as text.
    is_yaml: bool,
}

impl Registry {
    /// The object in a request body: right kind, known fields, right types, defaults filled in.
    pub fn decode_body(&self, call: &Call, content_type: &str, body: &[u8]) -> Result<Value> {
        let mut parsed = read(call, content_type, body)?;
        check_identity(&call.served, &mut parsed.value)?;
        self.check_parsed(call, &mut parsed)?;
        call.served.strategy.default(&mut parsed.value);
        Ok(parsed.value)
    }

    /// Unknown and repeated fields are reported, unknown ones dropped, wrong types refused. A custom kind's
    /// wrong types are reported by validation, as upstream does.
    pub fn check_parsed(&self, call: &Call, parsed: &mut Parsed) -> Result<()> {
        let Parsed { value, duplicates, is_yaml } = parsed;
        if *is_yaml {
            check_quoted_name(value)?;
        }
        let unknown = find_unknown(call, value, *is_yaml)?;
        report_fields(call, &unknown, duplicates)
    }

    /// As [`Registry::check_parsed`], for an object that was not read as such.
    pub fn check_schema(&self, call: &Call, object: &mut Value) -> Result<()> {
        let unknown = find_unknown(call, object, false)?;
        report_fields(call, &unknown, &[])
    }
}

/// A name that YAML takes for something else would be no name, and the message about that a riddle.
fn check_quoted_name(object: &Value) -> Result<()> {
    let name = &object["metadata"]["name"];
    let what = match name {
        Value::Bool(_) => "boolean",
        Value::Number(_) => "number",
        _ => return Ok(()),
    };
    Err(ApiError::bad_request(format!("metadata.name is the {what} {name} and must be text: {UNQUOTED}")))
}

/// Drops the unknown fields and lists them.
fn find_unknown(call: &Call, object: &mut Value, is_yaml: bool) -> Result<Vec<UnknownField>> {
    let schema = call.served.schema();
    if call.served.is_custom() {
        schema.drop_nulls(object);
        let unknown = schema.prune(object);
        schema.apply_defaults(object);
        return Ok(unknown);
    }
    let findings = schema.check(object);
    refuse_mismatches(call, &findings.mismatches, is_yaml)?;
    Ok(findings.unknown)
}

/// A body of no kind of its own; fields that stand twice are reported.
pub fn parse(call: &Call, content_type: &str, body: &[u8]) -> Result<Value> {
    let parsed = read(call, content_type, body)?;
    report_fields(call, &[], &parsed.duplicates)?;
    Ok(parsed.value)
}

/// An applied configuration, which is YAML and may be JSON.
pub fn read_yaml(body: &[u8]) -> Result<Parsed> {
    // Most of what is called YAML is JSON, which is read far faster as such. Only YAML's parser knows lines.
    if body.trim_ascii_start().starts_with(b"{")
        && let Ok((value, duplicates)) = minik8s_schema::parse_json(body)
        && duplicates.is_empty()
    {
        check_depth(&value)?;
        return Ok(Parsed { value, duplicates, is_yaml: false });
    }
    let text = std::str::from_utf8(body)
        .map_err(|e| ApiError::bad_request(format!("the body of the request is not UTF-8: {e}")))?;
    let (value, duplicates) = minik8s_schema::parse_yaml(text)
        .map_err(|e| ApiError::bad_request(format!("the body of the request is not valid YAML: {e}")))?;
    check_depth(&value)?;
    Ok(Parsed { value, duplicates, is_yaml: true })
}

fn read(call: &Call, content_type: &str, body: &[u8]) -> Result<Parsed> {
    let media = content_type.split(';').next().unwrap_or_default().trim();
    let parsed = match media {
        "" | "application/json" | "text/json" | "*/*" => {
            let (value, duplicates) = minik8s_schema::parse_json(body).map_err(|e| {
                ApiError::bad_request(format!("the body of the request is not valid JSON: {e}"))
            })?;
            Parsed { value, duplicates, is_yaml: false }
        }
        "application/yaml" | "text/yaml" | "application/x-yaml" => read_yaml(body)?,
        minik8s_protobuf::MEDIA_TYPE => {
            Parsed { value: parse_protobuf(call, body)?, duplicates: Vec::new(), is_yaml: false }
        }
        other => {
            let supported = ["application/json", "application/yaml", minik8s_protobuf::MEDIA_TYPE];
            return Err(ApiError::unsupported_media(other, &supported));
        }
    };
    if !parsed.value.is_object() {
        return Err(ApiError::bad_request("the body of the request must be an object"));
    }
    check_depth(&parsed.value)?;
    Ok(parsed)
}

/// Kubernetes' protobuf, as Go clients send it.
fn parse_protobuf(call: &Call, body: &[u8]) -> Result<Value> {
    let decoded = minik8s_protobuf::decode(body).map_err(|error| {
        let text = format!("the body of the request is not valid protobuf: {error}");
        match error {
            DecodeError::UnknownKind { .. } => ApiError::new(415, "UnsupportedMediaType", text),
            _ => ApiError::bad_request(text),
        }
    })?;
    for field in decoded.unknown {
        call.warn(format!("unknown {field} was dropped: send JSON to keep it"));
    }
    Ok(decoded.object)
}

/// Refuses what nests so deep that it could not be read back: parsing stops at 128 levels, and
/// `managedFields` repeats an object's depth some levels further down.
pub fn check_depth(value: &Value) -> Result<()> {
    if depth_exceeds(value, MAX_DEPTH) {
        return Err(ApiError::bad_request(format!("the object nests deeper than {MAX_DEPTH} levels")));
    }
    Ok(())
}

fn depth_exceeds(value: &Value, left: usize) -> bool {
    if left == 0 {
        return true;
    }
    match value {
        Value::Array(items) => items.iter().any(|item| depth_exceeds(item, left - 1)),
        Value::Object(map) => map.values().any(|item| depth_exceeds(item, left - 1)),
        _ => false,
    }
}

/// `apiVersion` and `kind` must be the resource's own; a body may leave them out.
pub fn check_identity(served: &Served, object: &mut Value) -> Result<()> {
    for (field, expected) in [("apiVersion", served.api_version.as_str()), ("kind", served.kind.as_str())] {
        match &object[field] {
            Value::Null => object[field] = expected.into(),
            Value::String(given) if given.is_empty() => object[field] = expected.into(),
            Value::String(given) if given == expected => {}
            given => {
                return Err(ApiError::bad_request(format!(
                    "{} in the body, {given}, does not match {expected:?} of the URL",
                    field
                )));
            }
        }
    }
    Ok(())
}

fn refuse_mismatches(call: &Call, mismatches: &[Mismatch], is_yaml: bool) -> Result<()> {
    if mismatches.is_empty() {
        return Ok(());
    }
    let texts: Vec<String> = mismatches.iter().map(ToString::to_string).collect();
    let (kind, version) = (&call.served.kind, &call.served.version);
    let mut text =
        format!("{kind} in version \"{version}\" cannot be handled as a {kind}: {}", texts.join("; "));
    if is_yaml && mismatches.iter().any(Mismatch::is_unquoted_text) {
        text = format!("{text} ({UNQUOTED})");
    }
    Err(ApiError::bad_request(text))
}

/// Problems that `fieldValidation` decides about.
fn report_fields(call: &Call, unknown: &[UnknownField], duplicates: &[DuplicateField]) -> Result<()> {
    if unknown.is_empty() && duplicates.is_empty() {
        return Ok(());
    }
    match call.options.field_validation {
        FieldValidation::Ignore => {}
        FieldValidation::Warn => {
            let (unknown, duplicates) = (texts(unknown), texts(duplicates));
            unknown.into_iter().chain(duplicates).for_each(|text| call.warn(text));
        }
        FieldValidation::Strict => {
            let found = strict_texts(unknown, duplicates, call.served.is_custom()).join(", ");
            return Err(ApiError::bad_request(format!("strict decoding error: {found}")));
        }
    }
    Ok(())
}

/// In upstream's order: its YAML parser stops at what stands twice, its parser of built-in kinds finds both,
/// and custom kinds are pruned after parsing.
fn strict_texts(unknown: &[UnknownField], duplicates: &[DuplicateField], is_custom: bool) -> Vec<String> {
    let of_yaml = yaml_error(duplicates);
    match of_yaml {
        Some(error) => std::iter::once(error).chain(texts(unknown)).collect(),
        None if is_custom => texts(duplicates).into_iter().chain(texts(unknown)).collect(),
        None => texts(unknown).into_iter().chain(texts(duplicates)).collect(),
    }
}

/// Keys that stand twice in YAML, as one error.
pub fn yaml_error(duplicates: &[DuplicateField]) -> Option<String> {
    duplicates.first()?.line?;
    Some(format!("yaml: unmarshal errors:\n  {}", texts(duplicates).join("\n  ")))
}

fn texts(found: &[impl ToString]) -> Vec<String> {
    found.iter().map(ToString::to_string).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strict_errors_stand_in_upstreams_order() {
        let check = |text: &str, is_yaml: bool, is_custom: bool, expected: &str| {
            let (_, duplicates) = match is_yaml {
                true => minik8s_schema::parse_yaml(text).unwrap(),
                false => minik8s_schema::parse_json(text.as_bytes()).unwrap(),
            };
            let path = minik8s_schema::Path::new("spec").field("unknownField");
            let unknown = [UnknownField { path, meant: None }];
            assert_eq!(strict_texts(&unknown, &duplicates, is_custom).join(", "), expected, "{text}");
        };
        let json = r#"{"spec": {"replicas": 2, "replicas": 3}}"#;
        check(json, false, false, r#"unknown field "spec.unknownField", duplicate field "spec.replicas""#);
        check(json, false, true, r#"duplicate field "spec.replicas", unknown field "spec.unknownField""#);
        check(
            "spec:\n  a: 1\n  a: 1\n  b: 1\n  b: 1\n",
            true,
            false,
            "yaml: unmarshal errors:\n  line 3: key \"a\" already set in map\n  \
             line 5: key \"b\" already set in map, unknown field \"spec.unknownField\"",
        );
        check("{}", false, false, r#"unknown field "spec.unknownField""#);
    }
}
