//! From the bytes of a request to a checked, defaulted object.

use minik8s_protobuf::DecodeError;
/// Kubernetes' protobuf, as Go clients send it.
use minik8s_schema::{Mismatch, UnknownField};
use serde_json::Value;

use super::{Call, Registry};
use crate::catalog::Served;
use crate::error::{ApiError, Result};
use crate::request::FieldValidation;

/// No request body may be larger.
pub const MAX_BODY: usize = 3 * 1024 * 1024;

/// YAML aliases may stand for this much in all.
const MAX_ALIASED: usize = 10_000;

/// Objects nest at most this deep.
const MAX_DEPTH: usize = 64;

impl Registry {
    /// The object in a request body: right kind, known fields, right types, defaults filled in.
    pub fn decode_body(&self, call: &Call, content_type: &str, body: &[u8]) -> Result<Value> {
        let mut object = parse(call, content_type, body)?;
        check_identity(&call.served, &mut object)?;
        self.check_schema(call, &mut object)?;
        call.served.strategy.default(&mut object);
        Ok(object)
    }

    /// Unknown fields are reported and dropped, wrong types refused. A custom kind's wrong types are
    /// reported by validation, as upstream does.
    pub fn check_schema(&self, call: &Call, object: &mut Value) -> Result<()> {
        let schema = call.served.schema();
        if call.served.is_custom() {
            schema.drop_nulls(object);
            let unknown = schema.prune(object);
            schema.apply_defaults(object);
            return report_unknown(call, &unknown);
        }
        let findings = schema.check(object);
        refuse_mismatches(call, &findings.mismatches)?;
        report_unknown(call, &findings.unknown)
    }
}

/// Parses JSON or YAML; fields that stand twice are reported like unknown ones.
pub fn parse(call: &Call, content_type: &str, body: &[u8]) -> Result<Value> {
    let media = content_type.split(';').next().unwrap_or_default().trim();
    let (value, duplicates) = match media {
        "" | "application/json" | "text/json" | "*/*" => {
            let parsed = minik8s_schema::parse_json(body).map_err(|e| {
                ApiError::bad_request(format!("the body of the request is not valid JSON: {e}"))
            })?;
            (parsed.0, parsed.1.iter().map(ToString::to_string).collect())
        }
        "application/yaml" | "text/yaml" | "application/x-yaml" => parse_yaml_with_duplicates(body)?,
        minik8s_protobuf::MEDIA_TYPE => (parse_protobuf(call, body)?, Vec::new()),
        other => {
            let supported = ["application/json", "application/yaml", minik8s_protobuf::MEDIA_TYPE];
            return Err(ApiError::unsupported_media(other, &supported));
        }
    };
    report_fields(call, duplicates)?;
    if !value.is_object() {
        return Err(ApiError::bad_request("the body of the request must be an object"));
    }
    check_depth(&value)?;
    Ok(value)
}

/// YAML that people write, with YAML 1.1's octal numbers (`defaultMode: 0644`).
pub fn parse_yaml(body: &[u8]) -> Result<Value> {
    parse_yaml_with_duplicates(body).map(|(value, _)| value)
}

/// An applied configuration; fields that stand twice are reported like unknown ones.
pub fn parse_applied(call: &Call, body: &[u8]) -> Result<Value> {
    let (value, duplicates) = parse_yaml_with_duplicates(body)?;
    report_fields(call, duplicates)?;
    Ok(value)
}

/// With the fields that stand twice; YAML that is not JSON is refused for them.
fn parse_yaml_with_duplicates(body: &[u8]) -> Result<(Value, Vec<String>)> {
    // Most of what is called YAML is JSON, which is read far faster as such.
    if body.trim_ascii_start().starts_with(b"{")
        && let Ok((value, duplicates)) = minik8s_schema::parse_json(body)
    {
        check_depth(&value)?;
        return Ok((value, duplicates.iter().map(ToString::to_string).collect()));
    }
    let text = std::str::from_utf8(body)
        .map_err(|e| ApiError::bad_request(format!("the body of the request is not UTF-8: {e}")))?;
    let options = serde_saphyr::options! {
        legacy_octal_numbers: true,
        // A few hundred bytes of aliases to aliases would else keep a thread busy for long.
        alias_limits: serde_saphyr::alias_limits! { max_total_replayed_events: MAX_ALIASED },
    };
    let value: Value = serde_saphyr::from_str_with_options(text, options)
        .map_err(|e| ApiError::bad_request(format!("the body of the request is not valid YAML: {e}")))?;
    check_depth(&value)?;
    Ok((value, Vec::new()))
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

fn refuse_mismatches(call: &Call, mismatches: &[Mismatch]) -> Result<()> {
    if mismatches.is_empty() {
        return Ok(());
    }
    let texts: Vec<String> = mismatches.iter().map(ToString::to_string).collect();
    let (kind, version) = (&call.served.kind, &call.served.version);
    let text = format!("{kind} in version \"{version}\" cannot be handled as a {kind}: {}", texts.join("; "));
    Err(ApiError::bad_request(text))
}

fn report_unknown(call: &Call, unknown: &[UnknownField]) -> Result<()> {
    report_fields(call, unknown.iter().map(ToString::to_string).collect())
}

/// Problems that `fieldValidation` decides about.
fn report_fields(call: &Call, texts: Vec<String>) -> Result<()> {
    if texts.is_empty() {
        return Ok(());
    }
    match call.options.field_validation {
        FieldValidation::Ignore => Ok(()),
        FieldValidation::Warn => {
            texts.into_iter().for_each(|text| call.warn(text));
            Ok(())
        }
        FieldValidation::Strict => {
            Err(ApiError::bad_request(format!("strict decoding error: {}", texts.join(", "))))
        }
    }
}
