//! What is wrong with a pod spec, in the words that Kubernetes users know. One file per subject.
//!
//! Each function takes the place it looks at ([`At`]) and reports every problem below it, so that a user
//! sees all of them at once. None of them changes anything or stops at the first error.

mod affinity;
mod certificate_source;
mod containers;
mod dns;
mod env;
mod field_ref;
mod handlers;
mod mounts;
mod node_selector;
mod ports;
mod resources;
mod security;
mod spread;
mod tolerations;
mod volume_source;
mod volumes;

use crate::At;
use crate::{FieldErrors, format, metadata};

use containers::Containers;

/// Where the spec stands: a few rules differ.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Place {
    Pod,
    Template,
}

pub(crate) use volume_source::claim_spec;

pub(crate) fn pod_spec(spec: &At<'_>, place: Place, errors: &mut FieldErrors) {
    pod_spec_with_claims(spec, place, &[], errors);
}

/// The spec of a StatefulSet's template, whose pods will have these claims as further volumes.
pub(crate) fn pod_spec_with_claims(spec: &At<'_>, place: Place, claims: &[&str], errors: &mut FieldErrors) {
    let mut volumes = volumes::validate(&spec.field("volumes"), errors);
    volumes.extend(claims.iter().map(|&claim| (claim, volumes::Backing::Claim)));
    Containers { spec, volumes: &volumes, place }.validate(errors);
    resources::validate(spec, resources::Holder::Pod, errors);
    resources::resource_list(&spec.field("overhead"), resources::Holder::Pod, errors);
    lifetime(spec, errors);
    names(spec, errors);
    placement(spec, errors);
    dns::validate(spec, errors);
    security::pod(spec, errors);
    operating_system(spec, errors);
}

/// The kernel's limit.
const LONGEST_HOSTNAME: usize = 64;

fn lifetime(spec: &At<'_>, errors: &mut FieldErrors) {
    spec.field("restartPolicy").need_one_of(errors, &["Always", "Never", "OnFailure"]);
    let deadline = spec.field("activeDeadlineSeconds");
    if let Some(seconds) = deadline.int() {
        deadline.problems(errors, format::in_range(seconds, 1, i64::from(i32::MAX)));
    }
    spec.field("preemptionPolicy").one_of(errors, &["Never", "PreemptLowerPriority"]);
    for gate in spec.field("readinessGates").items() {
        gate.field("conditionType").need_form(errors, format::qualified_name);
    }
}

fn names(spec: &At<'_>, errors: &mut FieldErrors) {
    for field in ["hostname", "subdomain"] {
        spec.field(field).has_form(errors, format::label);
    }
    let own = spec.field("hostnameOverride");
    own.has_form(errors, format::subdomain);
    if own.text().len() > LONGEST_HOSTNAME {
        own.invalid(errors, format!("must be no more than {LONGEST_HOSTNAME} bytes"));
    }
    for field in ["hostNetwork", "setHostnameAsFQDN"] {
        if own.is_set() && spec.field(field).is_true() {
            own.forbidden(errors, format!("may not be set when `{field}` is true"));
        }
    }
    for field in ["serviceAccountName", "priorityClassName", "runtimeClassName", "nodeName"] {
        spec.field(field).has_form(errors, format::subdomain);
    }
    for alias in spec.field("hostAliases").items() {
        alias.field("ip").problems(errors, format::ip(alias.field("ip").text()));
        for name in alias.field("hostnames").items() {
            name.problems(errors, format::subdomain(name.text()));
        }
    }
    unique(&spec.field("resourceClaims"), "name", errors);
    for claim in spec.field("resourceClaims").items() {
        claim.field("name").need_form(errors, format::label);
        let sources = ["resourceClaimName", "resourceClaimTemplateName"];
        match sources.iter().filter(|source| claim.field(source).is_set()).count() {
            1 => {}
            0 => {
                claim.invalid(errors, "must specify one of: `resourceClaimName`, `resourceClaimTemplateName`")
            }
            _ => claim.invalid(
                errors,
                "at most one of `resourceClaimName` or `resourceClaimTemplateName` may be specified",
            ),
        }
    }
}

fn placement(spec: &At<'_>, errors: &mut FieldErrors) {
    let node_selector = spec.field("nodeSelector");
    metadata::validate_labels(node_selector.value, &node_selector.path, errors);
    affinity::validate(&spec.field("affinity"), errors);
    tolerations::validate(&spec.field("tolerations"), errors);
    spread::validate(&spec.field("topologySpreadConstraints"), errors);
    let gates = spec.field("schedulingGates");
    unique(&gates, "name", errors);
    for gate in gates.items() {
        gate.field("name").need_form(errors, format::qualified_name);
    }
    if gates.is_set() && spec.field("nodeName").is_set() {
        spec.field("nodeName").forbidden(errors, "cannot be set until all schedulingGates have been cleared");
    }
}

fn operating_system(spec: &At<'_>, errors: &mut FieldErrors) {
    let os = spec.field("os");
    if os.exists() {
        os.field("name").need_one_of(errors, &["linux", "windows"]);
    }
}

/// A field whose value no two elements of a list may share.
fn unique(list: &At<'_>, field: &str, errors: &mut FieldErrors) {
    let mut seen = std::collections::HashSet::new();
    for item in list.items() {
        let at = item.field(field);
        if at.is_set() && !seen.insert(at.text()) {
            at.duplicate(errors);
        }
    }
}

#[cfg(test)]
mod tests;
