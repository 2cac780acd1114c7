//! Node and pod affinity.

use super::node_selector;
use crate::At;
use crate::{FieldErrors, format, validate_label_selector};

const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
const PREFERRED: &str = "preferredDuringSchedulingIgnoredDuringExecution";

pub(super) fn validate(affinity: &At<'_>, errors: &mut FieldErrors) {
    node_affinity(&affinity.field("nodeAffinity"), errors);
    for kind in ["podAffinity", "podAntiAffinity"].map(|kind| affinity.field(kind)) {
        for term in kind.field(REQUIRED).items() {
            pod_term(&term, errors);
        }
        for weighted in kind.field(PREFERRED).items() {
            weight(&weighted, errors);
            pod_term(&weighted.field("podAffinityTerm"), errors);
        }
    }
}

fn node_affinity(affinity: &At<'_>, errors: &mut FieldErrors) {
    let required = affinity.field(REQUIRED);
    if required.exists() {
        let terms = required.field("nodeSelectorTerms");
        if !terms.is_set() {
            terms.required(errors, "must have at least one node selector term");
        }
        for term in terms.items() {
            node_selector::term(&term, errors);
        }
    }
    for weighted in affinity.field(PREFERRED).items() {
        weight(&weighted, errors);
        node_selector::term(&weighted.field("preference"), errors);
    }
}

fn weight(term: &At<'_>, errors: &mut FieldErrors) {
    let weight = term.field("weight");
    if !(1..=100).contains(&weight.int().unwrap_or(0)) {
        weight.invalid(errors, "must be in the range 1-100");
    }
}

fn pod_term(term: &At<'_>, errors: &mut FieldErrors) {
    for field in ["labelSelector", "namespaceSelector"] {
        let selector = term.field(field);
        validate_label_selector(selector.value, &selector.path, errors);
    }
    for namespace in term.field("namespaces").items() {
        namespace.problems(errors, format::label(namespace.text()));
    }
    let key = term.field("topologyKey");
    match key.is_set() {
        true => key.has_form(errors, format::qualified_name),
        false => key.required(errors, "can not be empty"),
    }
    label_keys(term, errors);
}

/// `matchLabelKeys` and `mismatchLabelKeys` extend the selector by the pod's own labels.
fn label_keys(term: &At<'_>, errors: &mut FieldErrors) {
    for field in ["matchLabelKeys", "mismatchLabelKeys"] {
        let keys = term.field(field);
        if keys.is_set() && !term.field("labelSelector").exists() {
            keys.forbidden(errors, "must not be specified when labelSelector is not set");
        }
        for key in keys.items() {
            key.problems(errors, format::qualified_name(key.text()));
            if field == "mismatchLabelKeys"
                && term.field("matchLabelKeys").items().any(|k| k.text() == key.text())
            {
                key.invalid(errors, "exists in both matchLabelKeys and mismatchLabelKeys");
            }
        }
    }
}
