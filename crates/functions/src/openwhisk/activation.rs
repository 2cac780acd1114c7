//! Activations of OpenWhisk: Invocations that have ended. Pure.

use http::StatusCode;
use minik8s_meta::invocation::Invocation;
use serde_json::{Value, json};

use super::path::Path;
use super::{Refused, Result};

const LISTED: usize = 30;
const MOST_LISTED: usize = 200;

/// The parameters of a call: an object, or nothing.
pub fn payload(body: &[u8]) -> Result<String> {
    if body.iter().all(u8::is_ascii_whitespace) {
        return Ok("{}".to_owned());
    }
    match serde_json::from_slice::<Value>(body) {
        Ok(value @ Value::Object(_)) => Ok(value.to_string()),
        Ok(_) => Err(Refused(StatusCode::BAD_REQUEST, "the parameters are not an object".to_owned())),
        Err(error) => Err(Refused(StatusCode::BAD_REQUEST, format!("the parameters are not JSON: {error}"))),
    }
}

/// How it ended, as OpenWhisk counts: the words, the number, and the result.
fn response(invocation: &Invocation) -> (&'static str, u8, Value) {
    let status = invocation.status.clone().unwrap_or_default();
    let text = status.result.unwrap_or_default();
    let result = serde_json::from_str(&text).unwrap_or(Value::String(text));
    match status.code {
        Some(200..=299) if result.get("error").is_some() => ("application error", 1, result),
        // Actions return objects; what else a function returns is shown as one.
        Some(200..=299) if result.is_object() => ("success", 0, result),
        Some(200..=299) => ("success", 0, json!({"value": result})),
        Some(500 | 502 | 504) => {
            let told = result["errorMessage"].as_str().unwrap_or("the action failed").to_owned();
            ("action developer error", 2, json!({"error": told}))
        }
        _ => {
            let told = result["errorMessage"].as_str().unwrap_or("the action could not be run").to_owned();
            ("whisk internal error", 3, json!({"error": told}))
        }
    }
}

pub fn activation(invocation: &Invocation) -> Value {
    let meta = &invocation.metadata;
    let (words, number, result) = response(invocation);
    let start = meta.creation_timestamp.as_ref().map_or(0, |time| time.0.as_millisecond());
    let end = invocation.status.as_ref().and_then(|status| status.completion_time.as_ref());
    let end = end.map_or(start, |time| time.0.as_millisecond());
    json!({
        "namespace": meta.namespace, "name": invocation.spec.function, "activationId": meta.name,
        "subject": meta.namespace, "version": "0.0.1", "publish": false, "annotations": [], "logs": [],
        "start": start, "end": end, "duration": (end - start).max(0), "statusCode": number,
        "response": {"status": words, "statusCode": number, "success": number == 0, "result": result},
    })
}

/// The whole, or `result`, or `logs`.
pub fn part(invocation: &Invocation, part: &str) -> Value {
    let whole = activation(invocation);
    match part {
        "result" => whole["response"].clone(),
        "logs" => json!({"logs": whole["logs"]}),
        _ => whole,
    }
}

/// What a client that has waited gets.
pub fn answer(invocation: &Invocation, only_result: bool) -> (StatusCode, Value) {
    let whole = activation(invocation);
    let code = match whole["statusCode"].as_u64() {
        Some(0) => StatusCode::OK,
        _ => StatusCode::BAD_GATEWAY,
    };
    (code, if only_result { whole["response"]["result"].clone() } else { whole })
}

/// Those that a list shows, the newest first.
pub fn chosen(all: &[Invocation], path: &Path) -> Value {
    let number = |name: &str| path.text(name).and_then(|text| text.parse::<usize>().ok());
    let name = path.text("name").filter(|name| !name.is_empty());
    let ended = all.iter().filter(|one| one.has_ended() && name.is_none_or(|name| one.spec.function == name));
    let limit = number("limit").filter(|limit| *limit > 0).unwrap_or(LISTED).min(MOST_LISTED);
    ended.skip(number("skip").unwrap_or(0)).take(limit).map(activation).collect()
}
