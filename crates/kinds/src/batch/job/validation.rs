//! What a Job must say.

use serde_json::{Value, json};

use super::generated_selector::UID;
use super::policies;
use crate::At;
use crate::pod_spec::template;
use crate::{FieldErrors, LabelSelector, format, validate_label_selector};

const MAX_INDEXED_PARALLELISM: i64 = 100_000;

pub(super) fn validate(job: &Value, errors: &mut FieldErrors) {
    let job = At::root(job);
    let spec = job.field("spec");
    validate_spec(&spec, errors);
    selector(&job, &spec, errors);
    if spec.field("completionMode").text() == "Indexed" {
        let name = job.field("metadata").field("name");
        let last = spec.field("completions").int().unwrap_or(0) - 1;
        if last >= 0 {
            for problem in format::label(&format!("{}-{last}", name.text())) {
                name.invalid(
                    errors,
                    format!("will not able to create pod with invalid DNS label: {problem}"),
                );
            }
        }
    }
}

/// Everything but the selector, which only a Job of its own has.
pub(in crate::batch) fn validate_spec(spec: &At<'_>, errors: &mut FieldErrors) {
    for field in [
        "parallelism",
        "completions",
        "activeDeadlineSeconds",
        "backoffLimit",
        "ttlSecondsAfterFinished",
        "backoffLimitPerIndex",
        "maxFailedIndexes",
    ] {
        spec.field(field).not_negative(errors);
    }
    completion(spec, errors);
    let managed_by = spec.field("managedBy");
    managed_by.has_form(errors, controller_name_problems);
    spec.field("podReplacementPolicy").one_of(errors, &["Failed", "TerminatingOrFailed"]);
    template::validate(&spec.field("template"), errors);
    restart_policy(&spec.field("template").field("spec").field("restartPolicy"), errors);
    policies::failure(spec, errors);
    policies::success(spec, errors);
}

fn completion(spec: &At<'_>, errors: &mut FieldErrors) {
    let mode = spec.field("completionMode");
    mode.one_of(errors, &["Indexed", "NonIndexed"]);
    let indexed = mode.text() == "Indexed";
    let (completions, parallelism) = (spec.field("completions"), spec.field("parallelism"));
    if indexed {
        if !completions.exists() {
            completions.required(errors, "when completion mode is Indexed");
        }
        if parallelism.int().is_some_and(|n| n > MAX_INDEXED_PARALLELISM) {
            let rule = format!(
                "must be less than or equal to {MAX_INDEXED_PARALLELISM} when completion mode is Indexed"
            );
            parallelism.invalid(errors, rule);
        }
    }
    let (per_index, failed) = (spec.field("backoffLimitPerIndex"), spec.field("maxFailedIndexes"));
    if per_index.exists() && !indexed {
        per_index.invalid(errors, "requires indexed completion mode");
    }
    if failed.exists() {
        if !per_index.exists() {
            per_index.required(errors, "when maxFailedIndexes is specified");
        }
        if let (Some(failed_count), Some(total)) = (failed.int(), completions.int())
            && failed_count > total
        {
            failed.invalid(errors, "must be less than or equal to completions");
        }
    }
}

/// Pods of a Job must be able to end.
fn restart_policy(policy: &At<'_>, errors: &mut FieldErrors) {
    match policy.text() {
        "" | "Always" => policy.required(errors, "valid values: \"OnFailure\", \"Never\""),
        "OnFailure" | "Never" => {}
        _ => policy.not_supported(errors, &["Never", "OnFailure"]),
    }
}

fn selector(job: &At<'_>, spec: &At<'_>, errors: &mut FieldErrors) {
    let selector = spec.field("selector");
    if !selector.exists() {
        return selector.required(errors, "");
    }
    validate_label_selector(selector.value, &selector.path, errors);
    match LabelSelector::from_value(Some(selector.value)) {
        Ok(parsed) => template::validate_labels_match(&spec.field("template"), &parsed, errors),
        Err(_) => selector.invalid(errors, "invalid label selector"),
    }
    let uid = &job.value["metadata"]["uid"];
    let generated = json!({ "matchLabels": { UID: uid } });
    if !spec.field("manualSelector").is_true() && *selector.value != generated {
        selector.invalid(errors, "`selector` not auto-generated");
    }
}

/// `example.com/controller`.
fn controller_name_problems(name: &str) -> Vec<String> {
    match name.split_once('/') {
        _ if name.len() > 63 => vec!["must be no more than 63 bytes".to_owned()],
        Some((domain, path)) if !path.is_empty() => format::subdomain(domain),
        _ => vec!["must be a domain-prefixed path (such as \"acme.io/foo\")".to_owned()],
    }
}
