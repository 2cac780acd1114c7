//! What an autoscaler must look like.

use serde_json::Value;

use super::validate_metrics::metrics;
use crate::At;
use crate::{FieldErrors, format};

const MAX_PERIOD: i64 = 1800;
const MAX_WINDOW: i64 = 3600;

pub(super) fn autoscaler(object: &Value, errors: &mut FieldErrors) {
    let spec = At::root(object).field("spec");
    let (min, max) = (spec.field("minReplicas"), spec.field("maxReplicas"));
    if min.int().is_some_and(|min| min < 1) {
        min.invalid(errors, "must be greater than or equal to 1");
    }
    let most = max.int().unwrap_or_default();
    if most < 1 {
        errors.invalid(max.path.clone(), most, "must be greater than 0");
    }
    if min.int().is_some_and(|min| most < min) {
        errors.invalid(max.path.clone(), most, "must be greater than or equal to `minReplicas`");
    }
    object_reference(&spec.field("scaleTargetRef"), errors);
    metrics(&spec.field("metrics"), errors);
    let behavior = spec.field("behavior");
    for direction in ["scaleUp", "scaleDown"].map(|name| behavior.field(name)) {
        if direction.exists() {
            scaling_rules(&direction, errors);
        }
    }
}

/// Kind and name of another object, with the version of its kind.
pub(super) fn object_reference(reference: &At<'_>, errors: &mut FieldErrors) {
    reference.field("kind").need_form(errors, format::path_segment);
    reference.field("name").need_form(errors, format::path_segment);
    let version = reference.field("apiVersion");
    if version.text().split('/').count() > 2 {
        version.invalid(errors, format!("unexpected GroupVersion string: {}", version.text()));
    }
}

fn scaling_rules(rules: &At<'_>, errors: &mut FieldErrors) {
    let window = rules.field("stabilizationWindowSeconds");
    match window.int() {
        Some(seconds) if seconds < 0 => window.invalid(errors, "must be greater than or equal to zero"),
        Some(seconds) if seconds > MAX_WINDOW => {
            window.invalid(errors, format!("must be less than or equal to {MAX_WINDOW}"));
        }
        _ => {}
    }
    rules.field("selectPolicy").one_of(errors, &["Disabled", "Max", "Min"]);
    rules.field("tolerance").quantity_not_negative(errors);
    let policies = rules.field("policies");
    if !policies.is_set() {
        policies.required(errors, "must specify at least one Policy");
    }
    for policy in policies.items() {
        policy.field("type").need_one_of(errors, &["Percent", "Pods"]);
        let (value, period) = (policy.field("value"), policy.field("periodSeconds"));
        for field in [&value, &period] {
            if field.int().unwrap_or_default() <= 0 {
                field.invalid(errors, "must be greater than zero");
            }
        }
        if period.int().is_some_and(|seconds| seconds > MAX_PERIOD) {
            period.invalid(errors, format!("must be less than or equal to {MAX_PERIOD}"));
        }
    }
}
