//! What the addresses of a Service and their families must look like, and what of them may change.
//!
//! Which families the cluster has is not known here: the API server looks at that when it gives addresses.

use std::collections::HashSet;
use std::net::IpAddr;

use minik8s_meta::IpFamily;
use serde_json::{Value, json};

use super::{is_headless, needs_cluster_ip};
use crate::At;
use crate::fill;
use crate::{FieldErrors, format};

const POLICIES: &[&str] = &["PreferDualStack", "RequireDualStack", "SingleStack"];

/// A writer who knows `clusterIP` alone gets the list as well.
pub(super) fn fill_cluster_ips(object: &mut Value) {
    let Some(spec) = fill::object(object, "spec") else { return };
    let single = spec["clusterIP"].as_str().unwrap_or_default().to_owned();
    if !single.is_empty() && spec["clusterIPs"].as_array().is_none_or(Vec::is_empty) {
        spec["clusterIPs"] = json!([single]);
    }
}

pub(super) fn validate(spec: &At<'_>, errors: &mut FieldErrors) {
    if !needs_cluster_ip(spec.value) {
        return;
    }
    let (single, ips) = (spec.field("clusterIP"), spec.field("clusterIPs"));
    match (single.is_set(), ips.is_set()) {
        (true, false) => ips.required(errors, ""),
        (true, true) if ips.value[0] != *single.value => {
            ips.invalid(errors, "first value must match `clusterIP`");
        }
        (false, true) => ips.invalid(errors, "must be empty when `clusterIP` is not specified"),
        _ => {}
    }
    let families = spec.field("ipFamilies");
    let mut seen = HashSet::new();
    for family in families.items() {
        if IpFamily::from_name(family.text()).is_none() {
            family.not_supported(errors, &["IPv4", "IPv6"]);
        }
        if !seen.insert(family.text()) {
            family.duplicate(errors);
        }
    }
    spec.field("ipFamilyPolicy").one_of(errors, POLICIES);
    validate_ips(&ips, &families, errors);
}

fn validate_ips(ips: &At<'_>, families: &At<'_>, errors: &mut FieldErrors) {
    let mut are_addresses = true;
    for (i, ip) in ips.items().enumerate() {
        if i == 0 && ip.text() == "None" {
            if ips.len() > 1 {
                are_addresses = false;
                ips.invalid(errors, "'None' must be the first and only value");
            }
            continue;
        }
        let problems = format::ip(ip.text());
        are_addresses &= problems.is_empty();
        ip.problems(errors, problems);
    }
    if ips.len() > 2 {
        ips.invalid(errors, "may only hold up to 2 values");
    }
    // What is no address has no family either.
    if !are_addresses || ips.value[0] == "None" {
        return;
    }
    let found: Vec<Option<IpFamily>> = ips.items().map(|ip| family_of(ip.text())).collect();
    if found.len() > 1 && (found.len() > 2 || found[0] == found[1]) {
        ips.invalid(errors, "may specify no more than one IP for each IP family");
    }
    for (i, (ip, family)) in ips.items().zip(families.items()).enumerate() {
        let named = IpFamily::from_name(family.text());
        if let Some(named) = named.filter(|named| found[i] != Some(*named)) {
            ip.invalid(errors, format!("expected an {named} value as indicated by `ipFamilies[{i}]`"));
        }
    }
}

fn family_of(ip: &str) -> Option<IpFamily> {
    ip.parse::<IpAddr>().ok().map(IpFamily::of)
}

/// The primary address and its family stay for the Service's life; the secondary one comes and goes with the policy.
pub(super) fn validate_update(new: &At<'_>, old: &At<'_>, errors: &mut FieldErrors) {
    if !needs_cluster_ip(new.value) || !needs_cluster_ip(old.value) {
        return;
    }
    let (headless, was_headless) = (is_headless(new.value), is_headless(old.value));
    if headless && was_headless {
        return;
    }
    let policy = new.field("ipFamilyPolicy");
    let changes = [
        ("clusterIPs", "primary clusterIP can not be unset", "secondary clusterIP"),
        ("ipFamilies", "primary ipFamily can not be unset", "secondary ipFamily"),
    ];
    // Between an address and none of its own only the addresses tell what is wrong.
    let count = if headless == was_headless { 2 } else { 1 };
    for (field, unset, secondary) in changes.into_iter().take(count) {
        let (now, before) = (new.field(field), old.field(field));
        let first = now.path.index(0);
        if before.len() > now.len() && now.is_empty() {
            errors.invalid(first, now.value.clone(), unset);
            continue;
        }
        if before.is_set() && now.value[0] != before.value[0] {
            errors.invalid(first, now.value.clone(), "may not change once set");
        }
        if before.len() == 2 && now.len() == 2 && now.value[1] != before.value[1] {
            errors.invalid(now.path.index(1), now.value.clone(), "may not change once set");
        }
        if before.len() > now.len() && policy.text() != "SingleStack" {
            policy.invalid(errors, format!("must be set to 'SingleStack' when releasing the {secondary}"));
        }
    }
}
