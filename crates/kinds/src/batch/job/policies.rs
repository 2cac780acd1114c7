//! `podFailurePolicy` and `successPolicy`: when a Job gives up or is done early.

use std::collections::HashSet;

use crate::At;
use crate::pod_spec::containers;
use crate::{FieldErrors, format};

const MAX_RULES: usize = 20;
const MAX_VALUES: usize = 255;

pub(super) fn failure(spec: &At<'_>, errors: &mut FieldErrors) {
    let policy = spec.field("podFailurePolicy");
    if !policy.exists() {
        return;
    }
    let restart = spec.field("template").field("spec").field("restartPolicy");
    if restart.text() != "Never" {
        restart.invalid(errors, "only \"Never\" is supported when podFailurePolicy is specified");
    }
    let replacement = spec.field("podReplacementPolicy");
    if replacement.is_set() && replacement.text() != "Failed" {
        replacement.not_supported(errors, &["Failed"]);
    }
    let rules = policy.field("rules");
    if rules.len() > MAX_RULES {
        errors.too_many(rules.path.clone(), rules.len(), MAX_RULES);
    }
    for rule in rules.items() {
        failure_rule(&rule, spec, errors);
    }
}

fn failure_rule(rule: &At<'_>, spec: &At<'_>, errors: &mut FieldErrors) {
    let action = rule.field("action");
    action.need_one_of(errors, &["Count", "FailIndex", "FailJob", "Ignore"]);
    if action.text() == "FailIndex" && !spec.field("backoffLimitPerIndex").exists() {
        action.invalid(errors, "requires the backoffLimitPerIndex to be set");
    }
    let (codes, conditions) = (rule.field("onExitCodes"), rule.field("onPodConditions"));
    match (codes.exists(), conditions.is_set()) {
        (true, true) => {
            rule.invalid(errors, "specifying both OnExitCodes and OnPodConditions is not supported");
        }
        (false, false) => {
            rule.invalid(errors, "specifying one of OnExitCodes and OnPodConditions is required");
        }
        (true, false) => exit_codes(&codes, spec, errors),
        (false, true) => {
            if conditions.len() > MAX_RULES {
                errors.too_many(conditions.path.clone(), conditions.len(), MAX_RULES);
            }
            for pattern in conditions.items() {
                pattern.field("type").need_form(errors, format::qualified_name);
                pattern.field("status").need_one_of(errors, &["False", "True", "Unknown"]);
            }
        }
    }
}

fn exit_codes(codes: &At<'_>, spec: &At<'_>, errors: &mut FieldErrors) {
    let operator = codes.field("operator");
    operator.need_one_of(errors, &["In", "NotIn"]);
    let container = codes.field("containerName");
    let pod = &spec.value["template"]["spec"];
    if container.exists() && !containers::lasting(pod).any(|c| c["name"] == *container.value) {
        container.invalid(errors, "must be one of the container or initContainer names in the pod template");
    }
    let values = codes.field("values");
    if !values.is_set() {
        values.invalid(errors, "at least one value is required");
    } else if values.len() > MAX_VALUES {
        errors.too_many(values.path.clone(), values.len(), MAX_VALUES);
    }
    let mut seen = HashSet::new();
    let mut last = None;
    for value in values.items() {
        let code = value.int().unwrap_or(0);
        if code == 0 && operator.text() == "In" {
            value.invalid(errors, "must not be 0 for the In operator");
        }
        if !seen.insert(code) {
            value.duplicate(errors);
        } else if last.is_some_and(|last| code < last) {
            values.invalid(errors, "must be ordered");
        }
        last = Some(code);
    }
}

pub(super) fn success(spec: &At<'_>, errors: &mut FieldErrors) {
    let policy = spec.field("successPolicy");
    if !policy.exists() {
        return;
    }
    if spec.field("completionMode").text() != "Indexed" {
        return policy.invalid(errors, "requires indexed completion mode");
    }
    let rules = policy.field("rules");
    if !rules.is_set() {
        rules.required(errors, "at least one rules must be specified when the successPolicy is specified");
    } else if rules.len() > MAX_RULES {
        errors.too_many(rules.path.clone(), rules.len(), MAX_RULES);
    }
    let completions = spec.field("completions").int().unwrap_or(0);
    for rule in rules.items() {
        success_rule(&rule, completions, errors);
    }
}

fn success_rule(rule: &At<'_>, completions: i64, errors: &mut FieldErrors) {
    let (count, indexes) = (rule.field("succeededCount"), rule.field("succeededIndexes"));
    if !count.exists() && !indexes.exists() {
        rule.required(errors, "at least one of succeededCount or succeededIndexes must be specified");
    }
    let mut most = completions;
    if indexes.exists() {
        match total_indexes(indexes.text(), completions) {
            Ok(total) => most = total,
            Err(problem) => indexes.invalid(errors, problem),
        }
    }
    count.not_negative(errors);
    if count.int().is_some_and(|n| n > most) {
        let what = if indexes.exists() { "succeededIndexes" } else { "completions" };
        count.invalid(
            errors,
            format!("must be less than or equal to {most} (the number of specified {what})"),
        );
    }
}

/// How many indexes `1,3-5,7` names; they must rise and stay below the completions.
fn total_indexes(text: &str, completions: i64) -> Result<i64, String> {
    let mut total = 0;
    let mut next = 0;
    for part in text.split(',').filter(|_| !text.is_empty()) {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let number = |text: &str| {
            text.parse::<i64>().map_err(|_| format!("cannot convert string to integer for index: {text:?}"))
        };
        let (first, last) = (number(first)?, number(last)?);
        if last >= completions {
            return Err(format!("too large index: {:?}", last.to_string()));
        }
        if first < next || last < first {
            return Err(format!("non-increasing order, previous: {}, current: {first}", next - 1));
        }
        total += last - first + 1;
        next = last + 1;
    }
    Ok(total)
}
