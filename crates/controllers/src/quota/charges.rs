//! Which counts may be trusted: admission charges a quota in the commit that makes an object, and our caches may
//! show the charge before the object. What was charged at a version is counted only from caches that have come
//! that far; until then the charge stands. What we wrote ourselves is no charge.

use std::collections::{BTreeMap, HashMap};

use k8s_openapi::api::core::v1::ResourceQuota;
use minik8s_meta::quota::Usage;
use parking_lot::Mutex;

/// Per quota (its UID) what is known of its charges.
#[derive(Default)]
pub(super) struct Charges(Mutex<HashMap<String, Charged>>);

#[derive(Default)]
struct Charged {
    /// The version at which each resource was last charged.
    at: BTreeMap<String, u64>,
    /// The version we saw last when we counted, and what we would write.
    counted: Option<(u64, Usage)>,
}

impl Charges {
    /// A quota changed. Changes come in order, each once.
    pub(super) fn note(&self, old: Option<&ResourceQuota>, new: Option<&ResourceQuota>) {
        let Some(uid) = new.or(old).and_then(|quota| quota.metadata.uid.clone()) else { return };
        let mut quotas = self.0.lock();
        let Some(new) = new else {
            quotas.remove(&uid);
            return;
        };
        let charged = quotas.entry(uid).or_default();
        let (before, after) = (old.map(used_of).unwrap_or_default(), used_of(new));
        let is_ours = charged
            .counted
            .as_ref()
            .is_some_and(|(version, counted)| old.map(version_of) == Some(*version) && *counted == after);
        if is_ours {
            return;
        }
        for (name, amount) in after {
            // Of a quota that is seen for the first time nobody knows when it was charged.
            if before.get(&name).is_none_or(|before| amount > *before) {
                charged.at.insert(name, version_of(new));
            }
        }
    }

    /// The version that a cache must have reached to be asked for this resource.
    pub(super) fn version(&self, quota: &ResourceQuota, name: &str) -> u64 {
        let quotas = self.0.lock();
        let charged = quota.metadata.uid.as_ref().and_then(|uid| quotas.get(uid));
        charged.and_then(|charged| charged.at.get(name)).copied().unwrap_or(0)
    }

    /// What will be written over this state of the quota, if anything is.
    pub(super) fn counted(&self, quota: &ResourceQuota, used: &Usage) {
        let mut quotas = self.0.lock();
        if let Some(charged) = quota.metadata.uid.as_ref().and_then(|uid| quotas.get_mut(uid)) {
            charged.counted = Some((version_of(quota), used.clone()));
        }
    }
}

/// The usage that the quota's status tells.
pub(super) fn used_of(quota: &ResourceQuota) -> Usage {
    let used = quota.status.as_ref().and_then(|status| status.used.as_ref());
    let entries = used.into_iter().flatten();
    entries.filter_map(|(name, amount)| Some((name.clone(), amount.0.parse().ok()?))).collect()
}

fn version_of(quota: &ResourceQuota) -> u64 {
    quota.metadata.resource_version.as_deref().and_then(|text| text.parse().ok()).unwrap_or(0)
}
