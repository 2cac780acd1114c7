//! `PodTemplateSpec`: the metadata and spec that a workload gives to its pods.

use serde_json::Value;

use super::defaults;
use super::equality::same;
use super::validation::{self, Place};
use crate::At;
use crate::fill;
use crate::{FieldErrors, LabelSelector, metadata, validate_label_selector};

/// Fills in the template in a field of a workload's spec.
pub(crate) fn fill_in(holder: &mut Value, field: &str) {
    let Some(template) = holder.get_mut(field).filter(|template| template.is_object()) else { return };
    drop_creation_time(template);
    if let Some(spec) = template.get_mut("spec") {
        defaults::template_spec(spec);
    }
}

/// Old clients send `creationTimestamp: null` in templates; nothing was created.
pub(crate) fn drop_creation_time(template: &mut Value) {
    if let Some(metadata) = template.get_mut("metadata")
        && metadata["creationTimestamp"].is_null()
    {
        fill::remove(metadata, "creationTimestamp");
    }
}

pub(crate) fn validate(template: &At<'_>, errors: &mut FieldErrors) {
    validate_with_claims(template, &[], errors);
}

fn validate_with_claims(template: &At<'_>, claims: &[&str], errors: &mut FieldErrors) {
    let at = template.field("metadata");
    let (labels, annotations) = (at.field("labels"), at.field("annotations"));
    metadata::validate_labels(labels.value, &labels.path, errors);
    metadata::validate_annotations(annotations.value, &annotations.path, errors);
    validation::pod_spec_with_claims(&template.field("spec"), Place::Template, claims, errors);
}

/// The template of a workload that replaces pods: they may not end by themselves. `claims` are volumes
/// that the workload adds.
pub(crate) fn validate_lasting(template: &At<'_>, kind: &str, claims: &[&str], errors: &mut FieldErrors) {
    validate_with_claims(template, claims, errors);
    let spec = template.field("spec");
    if spec.field("restartPolicy").is_set() && spec.field("restartPolicy").text() != "Always" {
        spec.field("restartPolicy").not_supported(errors, &["Always"]);
    }
    if spec.field("activeDeadlineSeconds").exists() {
        spec.field("activeDeadlineSeconds")
            .forbidden(errors, format!("activeDeadlineSeconds in {kind} is not Supported"));
    }
}

/// `selector` of a workload: valid, not empty, and the template's labels fulfil it.
pub(crate) fn validate_selector(spec: &At<'_>, kind: &str, errors: &mut FieldErrors) {
    let selector = spec.field("selector");
    if !selector.exists() {
        return selector.required(errors, "");
    }
    validate_label_selector(selector.value, &selector.path, errors);
    let counted = |field: &str| selector.field(field).len();
    if counted("matchLabels") + counted("matchExpressions") == 0 {
        selector.invalid(errors, format!("empty selector is invalid for {}", kind.to_lowercase()));
    }
    match LabelSelector::from_value(Some(selector.value)) {
        Ok(parsed) => validate_labels_match(&spec.field("template"), &parsed, errors),
        Err(_) => selector.invalid(errors, "invalid label selector"),
    }
}

pub(crate) fn validate_labels_match(template: &At<'_>, selector: &LabelSelector, errors: &mut FieldErrors) {
    let labels = template.field("metadata").field("labels");
    if !selector.is_everything() && !selector.matches(labels.value.as_object()) {
        labels.invalid(errors, "`selector` does not match template `labels`");
    }
}

/// Pods are found by the selector: a workload that changed it would lose them.
pub(crate) fn validate_selector_kept(object: &Value, old: &Value, errors: &mut FieldErrors) {
    let (new, old) = (At::root(object).field("spec"), At::root(old).field("spec"));
    if !same(new.field("selector").value, old.field("selector").value) {
        new.field("selector").invalid(errors, "field is immutable");
    }
}
