//! The conversation with a webhook: an `AdmissionReview` there and back.

use std::collections::BTreeMap;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use serde::Deserialize;
use serde_json::{Value, json};

use super::hook::Hook;
use crate::admission::matching::Subject;
use crate::admission::{Operation, Request};
use crate::answer::JSON;
use crate::error::{ApiError, Result};
use crate::registry::{Call, Registry};

/// What a webhook said.
pub struct Verdict {
    pub denied: Option<ApiError>,
    /// Operations of a JSON Patch.
    pub patch: Option<Value>,
    pub warnings: Vec<String>,
    /// For the audit log, below the webhook's name.
    pub annotations: BTreeMap<String, String>,
}

#[derive(Deserialize)]
struct Review {
    #[serde(rename = "apiVersion", default)]
    api_version: String,
    #[serde(default)]
    kind: String,
    response: Option<Response>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Response {
    #[serde(default)]
    uid: String,
    #[serde(default)]
    allowed: bool,
    status: Option<Value>,
    patch: Option<String>,
    patch_type: Option<String>,
    #[serde(default)]
    warnings: Option<Vec<String>>,
    #[serde(default)]
    audit_annotations: Option<BTreeMap<String, String>>,
}

/// Err: it could not be asked, or its answer is none.
pub async fn ask(
    registry: &Registry,
    hook: &Hook,
    uid: &str,
    question: Value,
) -> std::result::Result<Verdict, String> {
    let version = format!("admission.k8s.io/{}", hook.review_version());
    let review = json!({"kind": "AdmissionReview", "apiVersion": version, "request": question});
    let answer = hook.client.post(registry, Bytes::from(review.to_string())).await?;
    verdict(&hook.name, &version, uid, &answer)
}

/// The `request` of a review.
pub fn question(uid: &str, subject: &Subject, request: &Request<'_>) -> Value {
    let call = request.call;
    let served = &call.served;
    let kind = |version: &str| match request.is_about_itself() {
        true => json!({"group": served.group, "version": version, "kind": served.kind}),
        false => own_kind(request.object),
    };
    let resource =
        |version: &str| json!({"group": served.group, "version": version, "resource": served.plural});
    let name = request.name();
    let shown = |object: Option<&Value>| match object {
        None => Value::Null,
        Some(object) if request.is_about_itself() => seen(object, call, subject),
        Some(object) => object.clone(),
    };
    let mut question = json!({
        "uid": uid,
        "kind": kind(&subject.version), "resource": resource(&subject.version),
        "requestKind": kind(&served.version), "requestResource": resource(&served.version),
        "name": name,
        "operation": request.operation.name(),
        "userInfo": {"username": call.user.name, "groups": call.user.groups},
        "object": shown((request.operation != Operation::Delete).then_some(&*request.object)),
        "oldObject": shown(request.old),
        "dryRun": call.options.dry_run,
        "options": options(request),
    });
    let optional = [
        ("namespace", &call.namespace),
        ("subResource", &call.subresource),
        ("requestSubResource", &call.subresource),
    ];
    for (field, value) in optional {
        if !value.is_empty() {
            question[field] = value.as_str().into();
        }
    }
    if !call.user.uid.is_empty() {
        question["userInfo"]["uid"] = call.user.uid.as_str().into();
    }
    if !call.user.extra.is_empty() {
        question["userInfo"]["extra"] = json!(call.user.extra);
    }
    question
}

/// Of an object that says itself what it is.
fn own_kind(object: &Value) -> Value {
    let api_version = object["apiVersion"].as_str().unwrap_or_default();
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    json!({"group": group, "version": version, "kind": object["kind"]})
}

fn options(request: &Request<'_>) -> Value {
    let call = request.call;
    let kind = match request.operation {
        Operation::Create => "CreateOptions",
        Operation::Update => "UpdateOptions",
        Operation::Delete => "DeleteOptions",
        Operation::Connect => return Value::Null,
    };
    let mut options = json!({"kind": kind, "apiVersion": "meta.k8s.io/v1"});
    if call.options.dry_run {
        options["dryRun"] = json!(["All"]);
    }
    if request.operation != Operation::Delete && !call.options.field_manager.is_empty() {
        options["fieldManager"] = call.options.field_manager.as_str().into();
    }
    if let Some(wanted) = request.delete {
        wanted.describe(&mut options);
    }
    options
}

/// The object in the version that the webhook or policy asked for.
pub fn seen(object: &Value, call: &Call, subject: &Subject) -> Value {
    let mut object = object.clone();
    object["apiVersion"] = match call.served.group.as_str() {
        "" => subject.version.clone().into(),
        group => format!("{group}/{}", subject.version).into(),
    };
    object["kind"] = call.served.kind.as_str().into();
    object
}

fn verdict(name: &str, version: &str, uid: &str, answer: &[u8]) -> std::result::Result<Verdict, String> {
    let invalid = |why: &str| format!("received invalid webhook response: {why}");
    let review: Review = serde_json::from_slice(answer).map_err(|error| invalid(&error.to_string()))?;
    // v1beta1 asks nobody to repeat what they were asked, or to say what a patch is.
    let is_strict = version == "admission.k8s.io/v1";
    let is_bare = !is_strict && review.kind.is_empty() && review.api_version.is_empty();
    if !is_bare && (review.kind != "AdmissionReview" || review.api_version != version) {
        let (api_version, kind) = (review.api_version, review.kind);
        return Err(invalid(&format!(
            "expected webhook response of {version}, Kind=AdmissionReview, got {api_version}, Kind={kind}"
        )));
    }
    let response = review.response.ok_or_else(|| invalid("webhook response was absent"))?;
    if is_strict && response.uid != uid {
        return Err(invalid(&format!("expected response.uid={uid:?}, got {:?}", response.uid)));
    }
    let patch = match response.patch.as_deref().filter(|patch| !patch.is_empty()) {
        None => None,
        Some(_) if is_strict && response.patch_type.as_deref() != Some("JSONPatch") => {
            return Err(invalid("webhook returned response.patch but not response.patchType=JSONPatch"));
        }
        Some(patch) => {
            let bytes = STANDARD.decode(patch).map_err(|error| invalid(&format!("patch: {error}")))?;
            Some(serde_json::from_slice(&bytes).map_err(|error| invalid(&format!("patch: {error}")))?)
        }
    };
    let denied = (!response.allowed).then(|| denial(name, response.status.unwrap_or_default()));
    let (warnings, annotations) = (response.warnings, response.audit_annotations);
    let (warnings, annotations) = (warnings.unwrap_or_default(), annotations.unwrap_or_default());
    Ok(Verdict { denied, patch, warnings, annotations })
}

/// The webhook's own words and code, with its name before them.
fn denial(name: &str, status: Value) -> ApiError {
    let text = |field: &str| status[field].as_str().unwrap_or_default();
    let denied = format!("admission webhook {name:?} denied the request");
    let message = match (text("message"), text("reason")) {
        ("", "") => format!("{denied} without explanation"),
        ("", reason) => format!("{denied}: {reason}"),
        (message, _) => format!("{denied}: {message}"),
    };
    let code = status["code"].as_u64().and_then(|code| u16::try_from(code).ok()).unwrap_or(400);
    let mut error = ApiError::new(code.clamp(400, 599), known_reason(text("reason")), message);
    error.details = status.get("details").filter(|details| details.is_object()).cloned().map(Box::new);
    error
}

/// Reasons that clients know; others are unknown to them as well.
fn known_reason(reason: &str) -> &'static str {
    const KNOWN: &[&str] = &[
        "Unauthorized",
        "Forbidden",
        "NotFound",
        "AlreadyExists",
        "Conflict",
        "Gone",
        "Invalid",
        "ServerTimeout",
        "Timeout",
        "TooManyRequests",
        "BadRequest",
        "MethodNotAllowed",
        "NotAcceptable",
        "RequestEntityTooLarge",
        "UnsupportedMediaType",
        "InternalError",
        "Expired",
        "ServiceUnavailable",
    ];
    KNOWN.iter().find(|known| **known == reason).copied().unwrap_or_default()
}

/// Applies what the webhook wants. The result is read like a user's object: unknown fields and wrong types included.
pub fn patch(
    registry: &Registry,
    request: &mut Request<'_>,
    hook: &Hook,
    subject: &Subject,
    patch: &Value,
) -> Result<()> {
    let failed = |why: &dyn std::fmt::Display| {
        ApiError::internal(format_args!("failed calling webhook \"{}\": its patch failed: {why}", hook.name))
    };
    let mut object = seen(request.object, request.call, subject);
    minik8s_patch::json::apply(patch, &mut object).map_err(|error| failed(&error))?;
    *request.object = read_changed(registry, request.call, object).map_err(|error| failed(&error))?;
    Ok(())
}

/// An object that a webhook or a policy has changed, read like a user's.
pub fn read_changed(registry: &Registry, call: &Call, mut object: Value) -> Result<Value> {
    object["apiVersion"] = call.served.api_version.as_str().into();
    registry.decode_body(call, JSON, &Bytes::from(object.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(response: Value) -> std::result::Result<Verdict, String> {
        let review =
            json!({"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1", "response": response});
        verdict("a.example.com", "admission.k8s.io/v1", "u", review.to_string().as_bytes())
    }

    #[test]
    fn denial_speaks_in_the_webhooks_words() {
        let check = |status: Value, code: u16, message: &str| {
            let denied = answer(json!({"uid": "u", "status": status})).unwrap().denied.unwrap();
            assert_eq!((denied.code, denied.message.as_str()), (code, message));
        };
        let denied = "admission webhook \"a.example.com\" denied the request";
        check(Value::Null, 400, &format!("{denied} without explanation"));
        check(json!({"reason": "no"}), 400, &format!("{denied}: no"));
        check(json!({"reason": "no", "message": "never", "code": 403}), 403, &format!("{denied}: never"));
        // A refusal is no success, whatever it says.
        check(json!({"code": 200, "message": "never"}), 400, &format!("{denied}: never"));
    }

    #[test]
    fn answer_to_another_question_is_none() {
        let wrong = |response: Value| answer(response).err().unwrap();
        assert!(
            wrong(json!({"uid": "v", "allowed": true})).contains("expected response.uid=\"u\", got \"v\"")
        );
        assert!(wrong(json!({"uid": "u", "allowed": true, "patch": "W10="})).contains("patchType"));
        let typed = json!({"uid": "u", "allowed": true, "patch": "?", "patchType": "JSONPatch"});
        assert!(wrong(typed).contains("patch:"));
        assert!(verdict("a", "admission.k8s.io/v1", "u", b"{}").is_err());
        assert!(verdict("a", "admission.k8s.io/v1", "u", b"<html>").is_err());
    }
}
