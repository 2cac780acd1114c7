//! What claims ask for: shared by claims and the templates that make them.

use std::collections::HashSet;

use serde_json::Value;

use crate::kinds::at::At;
use crate::kinds::fill;
use crate::{FieldErrors, format};

const MAX_REQUESTS: usize = 32;
const MAX_ALTERNATIVES: usize = 8;
const MAX_SELECTORS: usize = 32;

/// One device of each kind asked for, unless the request says otherwise.
pub(super) fn default_claim(spec: &mut Value) {
    let Some(devices) = spec.get_mut("devices") else { return };
    for request in fill::items(devices, "requests") {
        if let Some(exactly) = request.get_mut("exactly") {
            default_request(exactly);
        }
        for alternative in fill::items(request, "firstAvailable") {
            default_request(alternative);
        }
    }
}

fn default_request(request: &mut Value) {
    fill::field(request, "allocationMode", "ExactCount");
    if request["allocationMode"] == "ExactCount" {
        fill::field(request, "count", 1);
    }
    for toleration in fill::items(request, "tolerations") {
        fill::field(toleration, "operator", "Equal");
    }
}

pub(super) fn validate_claim(spec: &At<'_>, errors: &mut FieldErrors) {
    let requests = spec.field("devices").field("requests");
    if requests.len() > MAX_REQUESTS {
        errors.too_many(requests.path.clone(), requests.len(), MAX_REQUESTS);
    }
    let mut names = HashSet::new();
    for request in requests.items() {
        validate_name(&request.field("name"), &mut names, errors);
        let (exactly, alternatives) = (request.field("exactly"), request.field("firstAvailable"));
        match (exactly.exists(), alternatives.is_set()) {
            (true, true) => {
                request.invalid(errors, "exactly one of `exactly` or `firstAvailable` is required");
            }
            (false, false) => {
                request.required(errors, "exactly one of `exactly` or `firstAvailable` is required");
            }
            (true, false) => validate_request(&exactly, errors),
            (false, true) => validate_alternatives(&alternatives, errors),
        }
    }
}

fn validate_alternatives(alternatives: &At<'_>, errors: &mut FieldErrors) {
    if alternatives.len() > MAX_ALTERNATIVES {
        errors.too_many(alternatives.path.clone(), alternatives.len(), MAX_ALTERNATIVES);
    }
    let mut names = HashSet::new();
    for alternative in alternatives.items() {
        validate_name(&alternative.field("name"), &mut names, errors);
        validate_request(&alternative, errors);
    }
}

fn validate_name<'a>(name: &At<'a>, seen: &mut HashSet<&'a str>, errors: &mut FieldErrors) {
    name.need_form(errors, format::label);
    if name.is_set() && !seen.insert(name.text()) {
        name.duplicate(errors);
    }
}

fn validate_request(request: &At<'_>, errors: &mut FieldErrors) {
    request.field("deviceClassName").need_form(errors, format::subdomain);
    validate_selectors(&request.field("selectors"), errors);
    let (mode, count) = (request.field("allocationMode"), request.field("count"));
    mode.one_of(errors, &["All", "ExactCount"]);
    match (mode.text(), count.int()) {
        ("ExactCount", Some(number)) if number <= 0 => count.invalid(errors, "must be greater than zero"),
        ("All", Some(number)) if number != 0 => {
            count.invalid(errors, "must not be specified when allocationMode is 'All'");
        }
        _ => {}
    }
    for toleration in request.field("tolerations").items() {
        toleration.field("key").has_form(errors, format::qualified_name);
        toleration.field("operator").need_one_of(errors, &["Equal", "Exists"]);
        toleration.field("effect").one_of(errors, &["NoExecute", "NoSchedule", "None"]);
    }
}

pub(super) fn validate_selectors(selectors: &At<'_>, errors: &mut FieldErrors) {
    if selectors.len() > MAX_SELECTORS {
        errors.too_many(selectors.path.clone(), selectors.len(), MAX_SELECTORS);
    }
    for selector in selectors.items() {
        let cel = selector.field("cel");
        match cel.exists() {
            true => drop(cel.field("expression").need(errors)),
            false => cel.required(errors, ""),
        }
    }
}
