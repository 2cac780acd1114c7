//! CertificateSigningRequest: asks a signer for a certificate.

use std::collections::HashSet;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;
use k8s_openapi::api::certificates::v1::CertificateSigningRequest;
use serde_json::{Value, json};

use super::signer;
use crate::At;
use crate::human_duration;
use crate::{Cell, Column, FieldErrors, Resource, Strategy};
use crate::{fill, table};

const MIN_EXPIRATION: i64 = 600;

const USAGES: &[&str] = &[
    "any",
    "cert sign",
    "client auth",
    "code signing",
    "content commitment",
    "crl sign",
    "data encipherment",
    "decipher only",
    "digital signature",
    "email protection",
    "encipher only",
    "ipsec end system",
    "ipsec tunnel",
    "ipsec user",
    "key agreement",
    "key encipherment",
    "microsoft sgc",
    "netscape sgc",
    "ocsp signing",
    "s/mime",
    "server auth",
    "signing",
    "timestamping",
];

pub(crate) fn resource() -> Resource {
    Resource::of::<CertificateSigningRequest>(Requests).short(&["csr"]).status().with(
        "approval",
        "CertificateSigningRequest",
        &["get", "patch", "update"],
    )
}

struct Requests;

impl Strategy for Requests {
    fn prepare_create(&self, object: &mut Value) {
        object["status"] = json!({});
    }

    /// What was asked for is asked for; only decisions follow.
    fn prepare_update(&self, object: &mut Value, old: &Value) {
        fill::restore(object, old, "spec");
    }

    fn validate(&self, object: &Value, errors: &mut FieldErrors) {
        let spec = At::root(object).field("spec");
        signer::validate_name(&spec.field("signerName"), errors);
        let request = spec.field("request");
        let bytes = STANDARD.decode(request.text()).unwrap_or_default();
        if let Err(problem) = signer::check_signing_request(&bytes) {
            request.invalid(errors, problem);
        }
        let usages = spec.field("usages");
        usages.need(errors);
        let mut seen = HashSet::new();
        for usage in usages.items() {
            usage.one_of(errors, USAGES);
            if !seen.insert(usage.text()) {
                usage.duplicate(errors);
            }
        }
        let expiration = spec.field("expirationSeconds");
        if expiration.int().is_some_and(|seconds| seconds < MIN_EXPIRATION) {
            expiration.invalid(errors, "may not specify a duration less than 600 seconds (10 minutes)");
        }
        validate_conditions(&At::root(object).field("status").field("conditions"), errors);
    }

    fn selectable(&self, object: &Value) -> Vec<(&'static str, String)> {
        vec![("spec.signerName", table::text_or(&object["spec"]["signerName"], ""))]
    }

    fn selectable_names(&self) -> &'static [&'static str] {
        &["spec.signerName"]
    }

    fn columns(&self) -> Option<Vec<Column>> {
        Some(table::texts(&["Name", "Age", "SignerName", "Requestor", "RequestedDuration", "Condition"]))
    }

    fn row(&self, object: &Value, now: Timestamp) -> Vec<Cell> {
        let spec = &object["spec"];
        vec![
            table::name(object),
            table::age(object, now),
            table::text_or(&spec["signerName"], table::NONE).into(),
            table::text_or(&spec["username"], "").into(),
            spec["expirationSeconds"].as_i64().map_or(table::NONE.to_owned(), human_duration).into(),
            condition(object).into(),
        ]
    }
}

fn validate_conditions(conditions: &At<'_>, errors: &mut FieldErrors) {
    let has = |ty: &str| conditions.items().any(|condition| condition.value["type"] == ty);
    if has("Approved") && has("Denied") {
        conditions.invalid(errors, "Approved and Denied conditions are mutually exclusive");
    }
    for condition in conditions.items() {
        condition.field("type").need(errors);
        let status = condition.field("status");
        match condition.field("type").text() {
            "Approved" | "Denied" | "Failed" => status.need_one_of(errors, &["True"]),
            _ => status.need_one_of(errors, &["False", "True", "Unknown"]),
        }
    }
}

fn condition(object: &Value) -> String {
    let status = &object["status"];
    let has = |ty: &str| {
        status["conditions"]
            .as_array()
            .is_some_and(|list| list.iter().any(|condition| condition["type"] == ty))
    };
    let mut text = match (has("Denied"), has("Approved")) {
        (true, _) => "Denied",
        (false, true) => "Approved",
        (false, false) => "Pending",
    }
    .to_owned();
    if has("Failed") {
        text.push_str(",Failed");
    }
    if status["certificate"].as_str().is_some_and(|certificate| !certificate.is_empty()) {
        text.push_str(",Issued");
    }
    text
}

#[cfg(test)]
mod tests {
    use base64::Engine;
    use base64::engine::general_purpose::STANDARD;
    use serde_json::json;

    use super::signer;
    use crate::check;

    /// For O=devs, CN=carl.
    const REQUEST: &str = "-----BEGIN CERTIFICATE REQUEST-----\n\
        MIGdMFECAQAwHjENMAsGA1UECgwEZGV2czENMAsGA1UEAwwEY2FybDAqMAUGAytlcAMhAJA0QRvmZhpUee2QgBkKI5VnJYqRkf3fgUsIxosJZwykoAAwBQYDK2VwA0EAXEn3B/CmC9D8AsnnIZMinoQEytFFGe67vjrN6LPv33xIJesTxu78K/9xwEcZ40hiR+2ODGSDxX0xtBXc10VLCA==\n\
        -----END CERTIFICATE REQUEST-----\n";

    #[test]
    fn validation() {
        let asks = |pem: &str| {
            json!({"spec": {"signerName": "kubernetes.io/kube-apiserver-client",
                "request": STANDARD.encode(pem), "usages": ["client auth"]}})
        };
        check::errors("certificatesigningrequests", asks(REQUEST), &[]);
        for (broken, why) in [
            (REQUEST.replace("MIGd", "MIGe"), "the PEM block is not a certificate request"),
            (REQUEST.replace(" REQUEST", ""), "PEM block type must be CERTIFICATE REQUEST"),
            (format!("\0{REQUEST}"), "PEM block type must be CERTIFICATE REQUEST"),
            (String::new(), "PEM block type must be CERTIFICATE REQUEST"),
        ] {
            let problem = signer::check_signing_request(broken.as_bytes()).unwrap_err();
            assert!(problem.starts_with(why), "{problem}");
            let errors = &["spec.request: Invalid value: "];
            check::errors("certificatesigningrequests", asks(&broken), errors);
        }
        check::errors(
            "certificatesigningrequests",
            json!({"spec": {"signerName": "x", "request": "AAAA", "expirationSeconds": 1, "usages": ["client auth", "client auth", "fun"]},
                "status": {"conditions": [{"type": "Approved", "status": "True"}, {"type": "Denied", "status": "False"}]}}),
            &[
                "spec.signerName: Invalid value: \"x\": must be a fully qualified domain and path",
                "spec.request: Invalid value: \"AAAA\": PEM block type must be CERTIFICATE REQUEST",
                "spec.usages[1]: Duplicate value: \"client auth\"",
                "spec.usages[2]: Unsupported value: \"fun\"",
                "spec.expirationSeconds: Invalid value: 1: may not specify a duration less than 600 seconds",
                "status.conditions: Invalid value: ",
                "status.conditions[1].status: Unsupported value: \"False\"",
            ],
        );
    }

    #[test]
    fn columns() {
        check::row(
            "certificatesigningrequests",
            json!({"metadata": {"name": "a"}, "spec": {"signerName": "x/y", "username": "u", "expirationSeconds": 86400},
                "status": {"certificate": "AA==", "conditions": [{"type": "Approved"}]}}),
            &["a", "<unknown>", "x/y", "u", "24h", "Approved,Issued"],
        );
        check::row(
            "certificatesigningrequests",
            json!({"metadata": {"name": "a"}}),
            &["a", "<unknown>", "<none>", "", "<none>", "Pending"],
        );
    }
}
