//! Requests and limits.

use crate::At;
use crate::{FieldErrors, Quantity, format};

/// What the resources are of: which names make sense there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Holder {
    Container,
    Pod,
    Claim,
}

/// `resources` of a container or pod.
pub(super) fn validate(holder: &At<'_>, kind: Holder, errors: &mut FieldErrors) {
    let resources = holder.field("resources");
    let (limits, requests) = (resources.field("limits"), resources.field("requests"));
    resource_list(&limits, kind, errors);
    resource_list(&requests, kind, errors);
    for (name, request) in requests.entries() {
        let (Ok(request), limit) = (Quantity::from_json(request.value), &limits.value[name]) else {
            continue;
        };
        match Quantity::from_json(limit) {
            Ok(limit) if request > limit && may_overcommit(name) => {
                let rule = format!("must be less than or equal to {name} limit of {limit}");
                errors.invalid(requests.path.clone(), request.to_string(), rule);
            }
            Ok(limit) if request != limit && !may_overcommit(name) => {
                let rule = format!("must be equal to {name} limit of {limit}");
                errors.invalid(requests.path.clone(), request.to_string(), rule);
            }
            Err(_) if limit.is_null() && !may_overcommit(name) => {
                limits.required(errors, "Limit must be set for non overcommitable resources");
            }
            _ => {}
        }
    }
    let names = || limits.entries().chain(requests.entries()).map(|(name, _)| name);
    if names().any(|name| name.starts_with("hugepages-")) && !names().any(|n| n == "cpu" || n == "memory") {
        resources.forbidden(errors, "HugePages require cpu or memory");
    }
}

/// Names and amounts of one resource list.
pub(super) fn resource_list(list: &At<'_>, kind: Holder, errors: &mut FieldErrors) {
    for (name, amount) in list.entries() {
        for problem in name_problems(name, kind) {
            errors.invalid(amount.path.clone(), name, problem);
        }
        match Quantity::from_json(amount.value) {
            Err(error) => amount.invalid(errors, error.to_string()),
            Ok(quantity) if quantity.is_negative() => {
                amount.invalid(errors, "must be greater than or equal to 0");
            }
            Ok(quantity) if is_counted(name) && !quantity.is_whole() => {
                amount.invalid(errors, "must be an integer");
            }
            Ok(_) => {}
        }
    }
}

/// `resources.claims` name claims of the pod.
pub(super) fn claims(container: &At<'_>, pod_claims: &At<'_>, errors: &mut FieldErrors) {
    let claims = container.field("resources").field("claims");
    super::unique(&claims, "name", errors);
    for claim in claims.items() {
        let name = claim.field("name");
        if name.need(errors) && !pod_claims.items().any(|known| known.field("name").text() == name.text()) {
            errors.not_found(claim.path.clone(), name.text());
        }
    }
}

pub(super) fn resize_policy(policies: &At<'_>, errors: &mut FieldErrors) {
    super::unique(policies, "resourceName", errors);
    for policy in policies.items() {
        policy.field("resourceName").need_one_of(errors, &["cpu", "memory"]);
        policy.field("restartPolicy").need_one_of(errors, &["NotRequired", "RestartContainer"]);
    }
}

fn name_problems(name: &str, kind: Holder) -> Vec<String> {
    let problems = format::qualified_name(name);
    if !problems.is_empty() {
        return problems;
    }
    let huge = name.starts_with("hugepages-");
    let standard = match kind {
        Holder::Container => matches!(name, "cpu" | "memory" | "ephemeral-storage") || huge,
        Holder::Pod => matches!(name, "cpu" | "memory" | "ephemeral-storage") || huge,
        Holder::Claim => name == "storage",
    };
    if standard {
        return Vec::new();
    }
    match (name.contains('/'), kind) {
        (true, _) if name.starts_with("requests.") => {
            vec!["doesn't follow extended resource name standard".to_owned()]
        }
        (true, _) => Vec::new(),
        (false, Holder::Container) => vec!["must be a standard resource for containers".to_owned()],
        (false, _) => vec!["must be a standard resource type or fully qualified".to_owned()],
    }
}

/// Resources of the node itself may be promised more than once, devices may not.
fn may_overcommit(name: &str) -> bool {
    is_native(name) && !name.starts_with("hugepages-")
}

fn is_native(name: &str) -> bool {
    !name.contains('/') || name.contains("kubernetes.io/")
}

/// Devices come in whole numbers.
fn is_counted(name: &str) -> bool {
    !is_native(name)
}
