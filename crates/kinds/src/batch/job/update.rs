//! What of a Job may change once it exists.

use serde_json::Value;

use crate::At;
use crate::FieldErrors;
use crate::fill;
use crate::pod_spec::containers::{INIT, MAIN};
use crate::pod_spec::equality::same;

pub(super) fn validate(job: &Value, old: &Value, errors: &mut FieldErrors) {
    let (spec, old_spec) = (At::root(job).field("spec"), At::root(old).field("spec"));
    completions(&spec, &old_spec, errors);
    for field in [
        "selector",
        "completionMode",
        "podFailurePolicy",
        "backoffLimitPerIndex",
        "managedBy",
        "successPolicy",
    ] {
        if !same(spec.field(field).value, old_spec.field(field).value) {
            spec.field(field).invalid(errors, "field is immutable");
        }
    }
    template(&spec.field("template"), old, errors);
}

/// An indexed Job grows and shrinks by changing both numbers together.
fn completions(spec: &At<'_>, old: &At<'_>, errors: &mut FieldErrors) {
    let completions = spec.field("completions");
    if completions.value == old.field("completions").value {
        return;
    }
    let indexed = spec.field("completionMode").text() == "Indexed";
    if indexed && completions.exists() {
        if completions.int() != spec.field("parallelism").int() {
            completions.invalid(errors, "can only be modified in tandem with spec.parallelism");
        }
    } else {
        completions.invalid(errors, "field is immutable");
    }
}

fn template(template: &At<'_>, old: &Value, errors: &mut FieldErrors) {
    let before = &old["spec"]["template"];
    let mut now = template.value.clone();
    let suspended = old["spec"]["suspend"] == true;
    let started = !old["status"]["startTime"].is_null();
    if suspended && !started {
        restore_what_queues_decide(&mut now, before);
    }
    if !same(&now, before) {
        template.invalid(errors, "field is immutable");
    }
}

/// Until a suspended Job starts, a queue may decide where its pods run and what they get.
fn restore_what_queues_decide(template: &mut Value, before: &Value) {
    fill::restore(template, before, "metadata");
    let Some(spec) = template.get_mut("spec") else { return };
    let before = &before["spec"];
    for field in ["nodeSelector", "affinity", "tolerations", "schedulingGates"] {
        fill::restore(spec, before, field);
    }
    for list in [INIT, MAIN] {
        let old = before[list].as_array().map(Vec::as_slice).unwrap_or_default();
        for (container, old) in fill::items(spec, list).zip(old) {
            fill::restore(container, old, "resources");
        }
    }
}
