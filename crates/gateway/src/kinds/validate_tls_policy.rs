//! What a BackendTLSPolicy must be like, with the messages of the project's own definitions.

use minik8s_api::{At, FieldErrors};
use minik8s_meta::format;
use serde_json::Value;

use super::validate::most;
use super::validate_references::targets;

pub fn backend_tls_policy(object: &Value, errors: &mut FieldErrors) {
    let spec = At::root(object).field("spec");
    let all = spec.field("targetRefs");
    if all.is_empty() {
        all.required(errors, "should have at least 1 items");
    }
    most(&all, 16, errors);
    targets(&all, errors);
    let validation = spec.field("validation");
    validation.field("hostname").need_form(errors, format::subdomain);
    let given = validation.field("caCertificateRefs").is_set();
    let known = validation.field("wellKnownCACertificates").is_set();
    match (given, known) {
        (true, true) => {
            validation.invalid(errors, "must not contain both CACertificateRefs and WellKnownCACertificates");
        }
        (false, false) => {
            validation.invalid(errors, "must specify either CACertificateRefs or WellKnownCACertificates");
        }
        _ => {}
    }
    validation.field("wellKnownCACertificates").one_of(errors, &["System"]);
    most(&validation.field("subjectAltNames"), 5, errors);
    for name in validation.field("subjectAltNames").items() {
        let kind = name.field("type").text();
        for (known, field) in [("Hostname", "hostname"), ("URI", "uri")] {
            let text = match (kind == known, name.field(field).is_set()) {
                (true, false) => {
                    format!("SubjectAltName element must contain {known}, if Type is set to {known}")
                }
                (false, true) => {
                    format!("SubjectAltName element must not contain {known}, if Type is not set to {known}")
                }
                _ => continue,
            };
            name.invalid(errors, text);
        }
    }
}
