//! What a StatefulSet must say, and what of it may change.

use serde_json::Value;

use crate::At;
use crate::apps::int_or_percent;
use crate::fill;
use crate::pod_spec::{equality, template, validation};
use crate::{FieldErrors, format};

const CHANGEABLE: [&str; 7] = [
    "replicas",
    "ordinals",
    "template",
    "updateStrategy",
    "revisionHistoryLimit",
    "persistentVolumeClaimRetentionPolicy",
    "minReadySeconds",
];

pub(super) fn validate(object: &Value, errors: &mut FieldErrors) {
    let spec = At::root(object).field("spec");
    management(&spec.field("podManagementPolicy"), errors);
    strategy(&spec.field("updateStrategy"), errors);
    let retention = spec.field("persistentVolumeClaimRetentionPolicy");
    for field in ["whenDeleted", "whenScaled"] {
        retention.field(field).one_of(errors, &["Delete", "Retain"]);
    }
    for field in ["replicas", "minReadySeconds", "revisionHistoryLimit"] {
        spec.field(field).not_negative(errors);
    }
    spec.field("ordinals").field("start").not_negative(errors);
    spec.field("serviceName").has_form(errors, format::label);
    template::validate_selector(&spec, "StatefulSet", errors);
    let claims = spec.field("volumeClaimTemplates");
    claim_templates(&claims, errors);
    let names: Vec<&str> = claims.items().map(|claim| claim.field("metadata").field("name").text()).collect();
    template::validate_lasting(&spec.field("template"), "StatefulSet", &names, errors);
}

/// Pods and claims that exist would not follow, so most of it stays.
pub(super) fn validate_update(object: &Value, old: &Value, errors: &mut FieldErrors) {
    let spec = At::root(object).field("spec");
    let old = &old["spec"];
    let mut rest = spec.value.clone();
    for field in CHANGEABLE {
        fill::restore(&mut rest, old, field);
    }
    if !equality::same(&rest, old) {
        spec.forbidden(
            errors,
            "updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', \
             'updateStrategy', 'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and \
             'minReadySeconds' are forbidden",
        );
    }
}

fn management(policy: &At<'_>, errors: &mut FieldErrors) {
    match policy.text() {
        "" => policy.required(errors, ""),
        "OrderedReady" | "Parallel" => {}
        _ => policy.invalid(errors, "must be 'OrderedReady' or 'Parallel'"),
    }
}

fn strategy(strategy: &At<'_>, errors: &mut FieldErrors) {
    let (kind, rolling) = (strategy.field("type"), strategy.field("rollingUpdate"));
    match kind.text() {
        "" => kind.required(errors, ""),
        "OnDelete" if rolling.exists() => {
            rolling.invalid(errors, "only allowed for updateStrategy 'RollingUpdate'");
        }
        "OnDelete" => {}
        "RollingUpdate" => {
            rolling.field("partition").not_negative(errors);
            let unavailable = rolling.field("maxUnavailable");
            int_or_percent::validate(&unavailable, errors);
            int_or_percent::validate_at_most_all(&unavailable, errors);
            if unavailable.exists() && int_or_percent::is_zero(&unavailable) {
                unavailable.invalid(errors, "cannot be 0");
            }
        }
        _ => kind.invalid(errors, "must be 'RollingUpdate' or 'OnDelete'"),
    }
}

fn claim_templates(claims: &At<'_>, errors: &mut FieldErrors) {
    for claim in claims.items() {
        claim.field("metadata").field("name").need_form(errors, format::subdomain);
        validation::claim_spec(&claim.field("spec"), errors);
    }
}
