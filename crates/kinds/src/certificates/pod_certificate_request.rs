//! PodCertificateRequest: a kubelet asks for the certificate of a pod.

use jiff::Timestamp;
use k8s_openapi::api::certificates::v1::PodCertificateRequest;
use serde_json::{Value, json};

use super::signer;
use crate::At;
use crate::{Cell, Column, FieldErrors, Resource, Strategy, format};
use crate::{fill, table};

const DEFAULT_EXPIRATION: i64 = 86_400;
const MIN_EXPIRATION: i64 = 3600;
const MAX_EXPIRATION: i64 = 91 * 86_400;

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
        expiration.problems(errors, format::in_range(seconds, MIN_EXPIRATION, MAX_EXPIRATION));
    }

    fn validate_update(&self, object: &Value, old: &Value, errors: &mut FieldErrors) {
        At::root(object).field("spec").unchanged(errors, &At::root(old).field("spec"));
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

fn state(object: &Value) -> String {
    let conditions = object["status"]["conditions"].as_array().into_iter().flatten();
    let mut decisions = conditions.filter(|condition| condition["status"] == "True");
    decisions
        .find(|condition| matches!(condition["type"].as_str(), Some("Issued" | "Denied" | "Failed")))
        .map_or("Pending".to_owned(), |condition| table::text_or(&condition["type"], ""))
}
