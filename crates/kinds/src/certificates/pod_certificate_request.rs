//! PodCertificateRequest: a kubelet asks for the certificate of a pod.

use jiff::Timestamp;
use k8s_openapi::api::certificates::v1::PodCertificateRequest;
use serde_json::{Value, json};

use super::{certificate, signer};
use crate::At;
use crate::{Cell, Column, FieldErrors, Resource, Strategy, format};
use crate::{fill, table};

const DEFAULT_EXPIRATION: i64 = 86_400;
const MIN_EXPIRATION: i64 = 3600;
/// Conditions that end a request.
const DECISIONS: &[&str] = &["Denied", "Failed", "Issued"];

pub(crate) fn resource() -> Resource {
    Resource::of::<PodCertificateRequest>(Requests).status()
}

struct Requests;

impl Strategy for Requests {
    fn default(&self, object: &mut Value) {
        if let Some(spec) = fill::object(object, "spec") {
            fill::field(spec, "maxExpirationSeconds", DEFAULT_EXPIRATION);
        }
    }

    fn prepare_create(&self, object: &mut Value) {
        object["status"] = json!({});
    }

    fn validate(&self, object: &Value, errors: &mut FieldErrors) {
        let spec = At::root(object).field("spec");
        signer::validate_name(&spec.field("signerName"), errors);
        for field in ["podName", "serviceAccountName", "nodeName"] {
            spec.field(field).need_form(errors, format::subdomain);
        }
        for field in ["podUID", "serviceAccountUID", "nodeUID"] {
            spec.field(field).need(errors);
        }
        let expiration = spec.field("maxExpirationSeconds");
        let seconds = expiration.int().unwrap_or_default();
        let most = signer::max_expiration(spec.field("signerName").text());
        expiration.problems(errors, format::in_range(seconds, MIN_EXPIRATION, most));
        signer::validate_annotations(&spec.field("unverifiedUserAnnotations"), errors);
        validate_key(&spec, errors);
    }

    fn validate_update(&self, object: &Value, old: &Value, errors: &mut FieldErrors) {
        At::root(object).field("spec").unchanged(errors, &At::root(old).field("spec"));
    }

    /// A decision is made once. What a signer issues is for the key that was proven, and no longer than asked for.
    fn validate_change(&self, subresource: &str, object: &Value, old: &Value, errors: &mut FieldErrors) {
        if subresource != "status" {
            return;
        }
        let status = At::root(object).field("status");
        let conditions = status.field("conditions");
        let mut decided = 0;
        for condition in conditions.items() {
            condition.field("type").need_one_of(errors, DECISIONS);
            condition.field("status").need_one_of(errors, &["True"]);
            decided += 1;
        }
        if decided > 1 {
            conditions.invalid(
                errors,
                "there may be at most one condition with type \"Issued\", \"Denied\", or \"Failed\"",
            );
        }
        if state(old) != PENDING {
            if old["status"] != object["status"] {
                let why = "immutable after PodCertificateRequest is issued, denied, or failed";
                errors.invalid(status.path, OMITTED, why);
            }
            return;
        }
        match state(object).as_str() {
            "Issued" => certificate::validate(object, &status, errors),
            PENDING => {}
            _ if ["certificateChain", "notBefore", "notAfter", "beginRefreshAt"]
                .iter()
                .any(|field| status.field(field).is_set()) =>
            {
                let why = "non-condition status fields must be empty when denying or failing the PodCertificateRequest";
                errors.invalid(status.path, OMITTED, why);
            }
            _ => {}
        }
    }

    fn selectable(&self, object: &Value) -> Vec<(&'static str, String)> {
        let spec = |field: &str| table::text_or(&object["spec"][field], "");
        vec![
            ("spec.signerName", spec("signerName")),
            ("spec.podName", spec("podName")),
            ("spec.nodeName", spec("nodeName")),
        ]
    }

    fn selectable_names(&self) -> &'static [&'static str] {
        &["spec.signerName", "spec.podName", "spec.nodeName"]
    }

    fn columns(&self) -> Option<Vec<Column>> {
        Some(table::texts(&[
            "Name",
            "PodName",
            "ServiceAccountName",
            "NodeName",
            "SignerName",
            "State",
            "Age",
        ]))
    }

    fn row(&self, object: &Value, now: Timestamp) -> Vec<Cell> {
        let spec = |field: &str| json!(table::text_or(&object["spec"][field], ""));
        vec![
            table::name(object),
            spec("podName"),
            spec("serviceAccountName"),
            spec("nodeName"),
            spec("signerName"),
            state(object).into(),
            table::age(object, now),
        ]
    }
}

const PENDING: &str = "Pending";
const OMITTED: &str = "<value omitted>";

/// A request proves that whoever asks has the key. The older form, a key and a signature beside it, is not taken: nobody
/// checks it here.
fn validate_key(spec: &At<'_>, errors: &mut FieldErrors) {
    let stub = spec.field("stubPKCS10Request");
    if ["pkixPublicKey", "proofOfPossession"].iter().any(|field| spec.field(field).is_set()) {
        errors.invalid(
            spec.path.clone(),
            OMITTED,
            "pkixPublicKey and proofOfPossession are not served: set stubPKCS10Request",
        );
    } else if !stub.is_set() {
        stub.required(errors, "");
    } else if let Err(why) = certificate::check_request(stub.text()) {
        errors.invalid(stub.path.clone(), OMITTED, why);
    }
}

fn state(object: &Value) -> String {
    let conditions = object["status"]["conditions"].as_array().into_iter().flatten();
    let mut decisions = conditions.filter(|condition| condition["status"] == "True");
    decisions
        .find(|condition| matches!(condition["type"].as_str(), Some("Issued" | "Denied" | "Failed")))
        .map_or(PENDING.to_owned(), |condition| table::text_or(&condition["type"], ""))
}

#[cfg(test)]
#[path = "pod_certificate_request_tests.rs"]
mod tests;
