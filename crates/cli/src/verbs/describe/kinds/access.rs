//! Roles and bindings.

use base64::Engine;
use serde_json::Value;
use x509_parser::prelude::FromDer;

use super::super::page::{Page, items, shown};
use crate::print::time;
use crate::verbs::rules;

fn names(object: &Value, page: &mut Page) {
    page.field(0, "Name", shown(&object["metadata"]["name"]));
    page.labels(object);
    page.annotations(object);
}

pub fn role(object: &Value, page: &mut Page) {
    names(object, page);
    page.line(0, "PolicyRule:");
    page.table(1, &rules::COLUMNS, &rules::rows(items(&object["rules"])));
}

pub fn binding(object: &Value, page: &mut Page) {
    names(object, page);
    page.line(0, "Role:");
    page.field(1, "Kind", shown(&object["roleRef"]["kind"]));
    page.field(1, "Name", shown(&object["roleRef"]["name"]));
    page.line(0, "Subjects:");
    let row = |subject: &Value| ["kind", "name", "namespace"].map(|field| shown(&subject[field])).to_vec();
    let rows: Vec<Vec<String>> = items(&object["subjects"]).iter().map(row).collect();
    page.table(1, &["Kind", "Name", "Namespace"], &rows);
}

pub fn signing_request(object: &Value, page: &mut Page) {
    let (spec, status) = (&object["spec"], &object["status"]);
    names(object, page);
    page.field(0, "CreationTimestamp", time::long(&object["metadata"]["creationTimestamp"]));
    page.field(0, "Requesting User", shown(&spec["username"]));
    page.maybe(0, "Signer", &spec["signerName"]);
    if spec["expirationSeconds"].is_number() {
        page.field(0, "Requested Duration", format!("{}s", spec["expirationSeconds"]));
    }
    let decided: Vec<String> =
        items(&status["conditions"]).iter().map(|condition| shown(&condition["type"])).collect();
    let mut state = if decided.is_empty() { "Pending".to_owned() } else { decided.join(",") };
    if status["certificate"].is_string() {
        state.push_str(",Issued");
    }
    page.field(0, "Status", state);
    page.line(0, "Subject:");
    let subject = subject(&spec["request"]);
    for (label, kinds) in [
        ("Common Name", "CN"),
        ("Serial Number", "SERIALNUMBER"),
        ("Organization", "O"),
        ("Organizational Unit", "OU"),
    ] {
        let values: Vec<&str> =
            subject.iter().filter(|(kind, _)| kind == kinds).map(|(_, value)| value.as_str()).collect();
        if !values.is_empty() || matches!(kinds, "CN" | "SERIALNUMBER") {
            page.line(0, format!("         {label}:\t{}", values.join(", ")));
        }
    }
}

/// The parts of the name in a request, which is PEM in base64.
fn subject(request: &Value) -> Vec<(String, String)> {
    let text = request.as_str().unwrap_or_default();
    let pem = base64::engine::general_purpose::STANDARD.decode(text).unwrap_or_default();
    let Ok((_, pem)) = x509_parser::pem::parse_x509_pem(&pem) else { return Vec::new() };
    let Ok((_, request)) =
        x509_parser::certification_request::X509CertificationRequest::from_der(&pem.contents)
    else {
        return Vec::new();
    };
    let attribute = |attribute: &x509_parser::x509::AttributeTypeAndValue<'_>| {
        let registry = x509_parser::objects::oid_registry();
        let kind = x509_parser::objects::oid2abbrev(attribute.attr_type(), registry).unwrap_or_default();
        (kind.to_owned(), attribute.as_str().unwrap_or_default().to_owned())
    };
    request.certification_request_info.subject.iter_attributes().map(attribute).collect()
}
