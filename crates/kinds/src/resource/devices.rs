//! What claims ask for: shared by claims and the templates that make them.

use std::collections::HashSet;

use minik8s_cel::device::DeviceSelector;
use serde_json::Value;

use crate::At;
use crate::fill;
use crate::{FieldErrors, format};

const MAX_REQUESTS: usize = 32;
const MAX_ALTERNATIVES: usize = 8;
const MAX_SELECTORS: usize = 32;
const MAX_CONSTRAINTS: usize = 32;
const LONGEST_IDENTIFIER: usize = 32;

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
    validate_constraints(&spec.field("devices"), errors);
    validate_config(&spec.field("devices"), errors);
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

fn validate_expression(expression: &At<'_>, errors: &mut FieldErrors) {
    if expression.need(errors)
        && let Err(why) = DeviceSelector::compile(expression.text())
    {
        expression.invalid(errors, why);
    }
}

/// What devices must have in common, or must not: by an attribute with its domain, over requests that there are.
fn validate_constraints(devices: &At<'_>, errors: &mut FieldErrors) {
    let constraints = devices.field("constraints");
    if constraints.len() > MAX_CONSTRAINTS {
        errors.too_many(constraints.path.clone(), constraints.len(), MAX_CONSTRAINTS);
    }
    for constraint in constraints.items() {
        validate_references(&constraint.field("requests"), devices, errors);
        let kinds = ["matchAttribute", "distinctAttribute"].map(|name| constraint.field(name));
        match kinds.iter().filter(|attribute| attribute.is_set()).count() {
            1 => {}
            0 => constraint.required(errors, "one of `matchAttribute` or `distinctAttribute` is required"),
            _ => constraint
                .invalid(errors, "at most one of `matchAttribute` or `distinctAttribute` may be set"),
        }
        for attribute in kinds.iter().filter(|attribute| attribute.is_set()) {
            match attribute.text().split_once('/') {
                Some((domain, name)) => {
                    attribute.problems(errors, format::subdomain(domain));
                    if !minik8s_cel::is_identifier(name) || name.len() > LONGEST_IDENTIFIER {
                        attribute.invalid(errors, "must be a C identifier of at most 32 characters");
                    }
                }
                None => attribute.invalid(errors, "must include a domain: DOMAIN/NAME"),
            }
        }
    }
}

fn validate_references(references: &At<'_>, devices: &At<'_>, errors: &mut FieldErrors) {
    for reference in references.items() {
        if !is_request(reference.text(), devices) {
            reference.invalid(errors, "must be the name of a request in the claim");
        }
    }
}

/// Whether a claim with these devices has such a request: `REQUEST`, or `REQUEST/ALTERNATIVE`.
pub(super) fn is_request(name: &str, devices: &At<'_>) -> bool {
    let (main, alternative) = name.split_once('/').map_or((name, None), |(main, sub)| (main, Some(sub)));
    let request = devices.field("requests").items().find(|request| request.field("name").text() == main);
    request.is_some_and(|request| {
        let mut alternatives = request.field("firstAvailable").items();
        alternative.is_none_or(|name| alternatives.any(|one| one.field("name").text() == name))
    })
}

/// Words for drivers, which alone understand them.
fn validate_config(devices: &At<'_>, errors: &mut FieldErrors) {
    for config in devices.field("config").items() {
        validate_references(&config.field("requests"), devices, errors);
        let opaque = config.field("opaque");
        match opaque.exists() {
            true => opaque.field("driver").need_form(errors, format::subdomain),
            false => opaque.required(errors, ""),
        }
    }
}

pub(super) fn validate_selectors(selectors: &At<'_>, errors: &mut FieldErrors) {
    if selectors.len() > MAX_SELECTORS {
        errors.too_many(selectors.path.clone(), selectors.len(), MAX_SELECTORS);
    }
    for selector in selectors.items() {
        let cel = selector.field("cel");
        match cel.exists() {
            true => validate_expression(&cel.field("expression"), errors),
            false => cel.required(errors, ""),
        }
    }
}
