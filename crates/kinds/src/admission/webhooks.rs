//! What both webhook configurations share: nearly everything.

use std::collections::HashSet;

use jiff::Timestamp;
use minik8s_cel::admission;
use serde_json::{Value, json};

use super::matching::{default_scopes, validate_conditions, validate_rule};
use crate::At;
use crate::{Cell, Column, FieldErrors, format, validate_label_selector};
use crate::{fill, table};

pub(super) fn default(object: &mut Value, mutating: bool) {
    for webhook in fill::items(object, "webhooks") {
        fill::field(webhook, "failurePolicy", "Fail");
        fill::field(webhook, "matchPolicy", "Equivalent");
        fill::field(webhook, "namespaceSelector", json!({}));
        fill::field(webhook, "objectSelector", json!({}));
        fill::field(webhook, "timeoutSeconds", 10);
        if mutating {
            fill::field(webhook, "reinvocationPolicy", "Never");
        }
        default_scopes(webhook, "rules");
        if let Some(service) = webhook.pointer_mut("/clientConfig/service") {
            fill::field(service, "port", 443);
        }
    }
}

pub(super) fn validate(object: &Value, errors: &mut FieldErrors) {
    let mut names = HashSet::new();
    for webhook in At::root(object).field("webhooks").items() {
        let name = webhook.field("name");
        name.need_form(errors, three_segments);
        if !names.insert(name.text()) {
            name.duplicate(errors);
        }
        for rule in webhook.field("rules").items() {
            validate_rule(&rule, errors);
        }
        webhook.field("failurePolicy").one_of(errors, &["Fail", "Ignore"]);
        webhook.field("matchPolicy").one_of(errors, &["Equivalent", "Exact"]);
        webhook.field("reinvocationPolicy").one_of(errors, &["IfNeeded", "Never"]);
        webhook.field("sideEffects").need_one_of(errors, &["None", "NoneOnDryRun"]);
        let timeout = webhook.field("timeoutSeconds");
        if timeout.int().is_some_and(|seconds| !(1..=30).contains(&seconds)) {
            timeout.invalid(errors, "the timeout value must be between 1 and 30 seconds");
        }
        for selector in ["namespaceSelector", "objectSelector"].map(|name| webhook.field(name)) {
            validate_label_selector(selector.value, &selector.path, errors);
        }
        validate_review_versions(&webhook.field("admissionReviewVersions"), errors);
        validate_client(&webhook.field("clientConfig"), errors);
        validate_conditions(&webhook.field("matchConditions"), &admission::environment(), errors);
    }
}

pub(super) fn columns() -> Vec<Column> {
    vec![Column::new("Name", "string"), Column::new("Webhooks", "integer"), Column::new("Age", "string")]
}

pub(super) fn row(object: &Value, now: Timestamp) -> Vec<Cell> {
    vec![table::name(object), json!(table::count(&object["webhooks"])), table::age(object, now)]
}

fn three_segments(name: &str) -> Vec<String> {
    let problems = format::subdomain(name);
    match problems.is_empty() && name.split('.').count() < 3 {
        true => vec!["should be a domain with at least three segments separated by dots".to_owned()],
        false => problems,
    }
}

fn validate_review_versions(versions: &At<'_>, errors: &mut FieldErrors) {
    const KNOWN: &[&str] = &["v1", "v1beta1"];
    if !versions.is_set() {
        versions.required(errors, "must specify one of v1, v1beta1");
        return;
    }
    let mut seen = HashSet::new();
    for version in versions.items() {
        version.problems(errors, format::label_1035(version.text()));
        if !seen.insert(version.text()) {
            version.invalid(errors, "duplicate version");
        }
    }
    if !versions.items().any(|version| KNOWN.contains(&version.text())) {
        versions.invalid(errors, "must include at least one of v1, v1beta1");
    }
}

fn validate_client(config: &At<'_>, errors: &mut FieldErrors) {
    let (url, service) = (config.field("url"), config.field("service"));
    match (url.exists(), service.exists()) {
        (true, true) | (false, false) => {
            config.required(errors, "exactly one of url or service is required");
        }
        (true, false) => {
            if !url.text().starts_with("https://") {
                url.invalid(
                    errors,
                    "'https' is the only allowed URL scheme; desired format: https://host[/path]",
                );
            }
        }
        (false, true) => {
            service.field("name").need(errors);
            service.field("namespace").need(errors);
            let (port, path) = (service.field("port"), service.field("path"));
            port.problems(errors, format::port_number(port.int().unwrap_or_default()));
            if path.is_set() && !path.text().starts_with('/') {
                path.invalid(errors, "must start with a '/'");
            }
        }
    }
}
