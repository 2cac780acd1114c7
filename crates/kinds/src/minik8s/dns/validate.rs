//! What a DNS object must look like.

use std::collections::HashSet;
use std::net::IpAddr;

use serde_json::Value;

use minik8s_meta::routing::RESERVED;

use crate::At;
use crate::{FieldErrors, format};

const BAD_IN_PATHS: &[&str] = &["//", "?", "#", "%2f", "%2F", " "];

pub(super) fn dns(object: &Value, errors: &mut FieldErrors) {
    let rules = At::root(object).field("spec").field("rules");
    rules.need(errors);
    let mut hosts = HashSet::new();
    for rule in rules.items() {
        let host = rule.field("host");
        check_host(&host, errors);
        if !host.text().is_empty() && !hosts.insert(host.text()) {
            host.duplicate(errors);
        }
        let paths = rule.field("paths");
        paths.need(errors);
        let mut seen = HashSet::new();
        for entry in paths.items() {
            let path = entry.field("path");
            check_path(&path, errors);
            if !seen.insert(minik8s_meta::routing::normal_path(path.text())) {
                path.duplicate(errors);
            }
            check_service(&entry.field("backend").field("service"), errors);
        }
    }
}

fn check_host(host: &At<'_>, errors: &mut FieldErrors) {
    if !host.need(errors) {
        return;
    }
    let name = host.text();
    if name.parse::<IpAddr>().is_ok() {
        host.invalid(errors, "must be a DNS name, not an IP address");
    } else if name.contains('*') {
        host.invalid(errors, "must not contain '*': nodes cannot resolve such names; use an Ingress");
    } else if RESERVED
        .iter()
        .any(|taken| name.strip_suffix(taken).is_some_and(|r| r.is_empty() || r.ends_with('.')))
    {
        host.invalid(errors, format!("must not be one of {} or below them", RESERVED.join(", ")));
    } else {
        host.problems(errors, format::subdomain(name));
    }
}

fn check_path(path: &At<'_>, errors: &mut FieldErrors) {
    let text = path.text();
    if !text.starts_with('/') {
        path.invalid(errors, "must be an absolute path");
    }
    for bad in BAD_IN_PATHS.iter().filter(|&&bad| text.contains(bad)) {
        path.invalid(errors, format!("must not contain '{bad}'"));
    }
    if text.split('/').any(|element| matches!(element, "." | "..")) {
        path.invalid(errors, "must not contain the elements '.' or '..'");
    }
}

fn check_service(service: &At<'_>, errors: &mut FieldErrors) {
    service.field("name").need_form(errors, format::label);
    let port = service.field("port");
    match port.int() {
        Some(number) => port.problems(errors, format::port_number(number)),
        None => port.need_form(errors, format::port_name),
    }
}
