//! What an Ingress must look like.

use std::net::IpAddr;

use serde_json::Value;

use super::CLASS_ANNOTATION;
use crate::At;
use crate::{FieldErrors, Path, format};

const PATH_TYPES: &[&str] = &["Exact", "ImplementationSpecific", "Prefix"];
const BAD_IN_PATHS: &[&str] = &["//", "/./", "/../", "%2f", "%2F"];
const BAD_AT_THE_END: &[&str] = &["/..", "/."];

pub(super) fn ingress(object: &Value, errors: &mut FieldErrors) {
    let spec = At::root(object).field("spec");
    let class = spec.field("ingressClassName");
    let annotation = &object["metadata"]["annotations"][CLASS_ANNOTATION];
    if class.exists() && !annotation.is_null() {
        errors.invalid(
            Path::new("annotations").field(CLASS_ANNOTATION),
            annotation.clone(),
            "can not be set when the class field is also set",
        );
    }
    let default = spec.field("defaultBackend");
    if !spec.field("rules").is_set() && !default.exists() {
        spec.invalid(errors, "either `defaultBackend` or `rules` must be specified");
    }
    if default.exists() {
        backend(&default, errors);
    }
    for rule in spec.field("rules").items() {
        host(&rule.field("host"), errors);
        http(&rule.field("http"), errors);
    }
    for tls in spec.field("tls").items() {
        for host in tls.field("hosts").items() {
            host.has_form(errors, dns_name);
        }
        tls.field("secretName").has_form(errors, format::subdomain);
    }
    if class.exists() {
        class.problems(errors, format::subdomain(class.text()));
    }
}

fn host(host: &At<'_>, errors: &mut FieldErrors) {
    if host.text().parse::<IpAddr>().is_ok() {
        host.invalid(errors, "must be a DNS name, not an IP address");
    } else {
        host.has_form(errors, dns_name);
    }
}

fn dns_name(text: &str) -> Vec<String> {
    if text.contains('*') { format::wildcard_subdomain(text) } else { format::subdomain(text) }
}

fn http(http: &At<'_>, errors: &mut FieldErrors) {
    if !http.exists() {
        return;
    }
    http.field("paths").need(errors);
    for entry in http.field("paths").items() {
        path(&entry, errors);
        backend(&entry.field("backend"), errors);
    }
}

fn path(entry: &At<'_>, errors: &mut FieldErrors) {
    let (path, ty) = (entry.field("path"), entry.field("pathType"));
    if !ty.is_set() {
        ty.required(errors, "pathType must be specified");
        return;
    }
    ty.one_of(errors, PATH_TYPES);
    match ty.text() {
        "Exact" | "Prefix" => {
            if !path.text().starts_with('/') {
                path.invalid(errors, "must be an absolute path");
            }
            if !path.text().is_empty() {
                for bad in BAD_IN_PATHS.iter().filter(|&&bad| path.text().contains(bad)) {
                    path.invalid(errors, format!("must not contain '{bad}'"));
                }
                for bad in BAD_AT_THE_END.iter().filter(|&&bad| path.text().ends_with(bad)) {
                    path.invalid(errors, format!("cannot end with '{bad}'"));
                }
            }
        }
        "ImplementationSpecific" if path.is_set() && !path.text().starts_with('/') => {
            path.invalid(errors, "must be an absolute path");
        }
        _ => {}
    }
}

fn backend(backend: &At<'_>, errors: &mut FieldErrors) {
    let (service, resource) = (backend.field("service"), backend.field("resource"));
    match (service.exists(), resource.exists()) {
        (true, true) => {
            errors.invalid(backend.path.clone(), "", "cannot set both resource and service backends");
        }
        (true, false) => service_backend(backend, &service, errors),
        (false, true) => {
            resource.field("apiGroup").has_form(errors, format::subdomain);
            for field in ["kind", "name"].map(|name| resource.field(name)) {
                field.need_form(errors, format::path_segment);
            }
        }
        (false, false) => {
            errors.invalid(backend.path.clone(), "", "resource or service backend is required");
        }
    }
}

fn service_backend(backend: &At<'_>, service: &At<'_>, errors: &mut FieldErrors) {
    service.field("name").need_form(errors, format::label);
    let (name, number) = (service.field("port").field("name"), service.field("port").field("number"));
    let port = number.int().unwrap_or_default();
    match (name.is_set(), port != 0) {
        (true, true) => {
            errors.invalid(backend.path.clone(), "", "cannot set both port name & port number");
        }
        (true, false) => name.has_form(errors, format::port_name),
        (false, true) => number.problems(errors, format::port_number(port)),
        (false, false) => errors.required(backend.path.clone(), "port name or number is required"),
    }
}
