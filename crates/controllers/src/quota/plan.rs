//! The status: what is allowed, and what is used of it.

use std::collections::BTreeMap;
use std::time::Duration;

use k8s_openapi::api::core::v1::{ResourceQuota, ResourceQuotaStatus};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use minik8s_runtime::Plan;

use super::Observed;

/// An object that was charged for is on its way to the cache and wakes us; this is for what no event tells.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

pub(super) fn plan(seen: &Observed) -> Plan {
    let mut plan = Plan::default();
    let quota = &*seen.quota;
    let hard = quota.spec.as_ref().and_then(|spec| spec.hard.clone());
    let old = quota.status.clone().unwrap_or_default();
    let known = old.used.clone().unwrap_or_default();
    let used: BTreeMap<String, Quantity> = seen
        .used
        .iter()
        .map(|(name, amount)| {
            // An equal amount in other words (1 and 1000m) is no change.
            let same = known.get(name).filter(|text| text.0.parse().ok() == Some(*amount));
            (name.clone(), same.cloned().unwrap_or_else(|| Quantity(amount.to_string())))
        })
        .collect();
    let status = ResourceQuotaStatus { hard, used: Some(used).filter(|used| !used.is_empty()) };
    if !seen.awaited.is_empty() {
        plan.again_after = Some(LOOK_AGAIN);
    }
    if status != old {
        plan.status(quota, ResourceQuota { status: Some(status), ..quota.clone() });
    }
    plan
}
