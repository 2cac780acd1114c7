//! Which devices are taken, and how much of those that several may share.

use std::collections::{BTreeMap, HashMap, HashSet};

use k8s_openapi::api::resource::v1::AllocationResult;
use minik8s_meta::Quantity;

use super::pool::DeviceId;

pub type Capacity = BTreeMap<String, Quantity>;

#[derive(Debug, Clone, Default)]
pub struct Usage {
    taken: HashSet<DeviceId>,
    /// How many have a share, and how much all of them together.
    shared: HashMap<DeviceId, (usize, Capacity)>,
}

impl Usage {
    /// Administrative access takes nothing from anybody.
    pub fn add(&mut self, allocation: &AllocationResult) {
        let results = allocation.devices.iter().flat_map(|devices| devices.results.iter().flatten());
        for result in results.filter(|result| result.admin_access != Some(true)) {
            let id = DeviceId {
                driver: result.driver.clone(),
                pool: result.pool.clone(),
                device: result.device.clone(),
            };
            let consumed = result.consumed_capacity.as_ref().map(|consumed| {
                let amounts = consumed.iter();
                amounts
                    .filter_map(|(name, amount)| Some((name.clone(), Quantity::try_from(amount).ok()?)))
                    .collect()
            });
            self.take(id, consumed.as_ref());
        }
    }

    pub fn take(&mut self, id: DeviceId, consumed: Option<&Capacity>) {
        let Some(consumed) = consumed else {
            self.taken.insert(id);
            return;
        };
        let (count, sum) = self.shared.entry(id).or_default();
        *count += 1;
        for (name, amount) in consumed {
            *sum.entry(name.clone()).or_insert(Quantity::ZERO) += *amount;
        }
    }

    pub fn give_back(&mut self, id: &DeviceId, consumed: Option<&Capacity>) {
        let Some(consumed) = consumed else {
            self.taken.remove(id);
            return;
        };
        let Some((count, sum)) = self.shared.get_mut(id) else { return };
        *count -= 1;
        for (name, amount) in consumed {
            if let Some(sum) = sum.get_mut(name) {
                *sum -= *amount;
            }
        }
        if *count == 0 {
            self.shared.remove(id);
        }
    }

    /// Whether anybody has it, or a share of it.
    pub fn has(&self, id: &DeviceId) -> bool {
        self.taken.contains(id) || self.shared.contains_key(id)
    }

    pub fn is_taken(&self, id: &DeviceId) -> bool {
        self.taken.contains(id)
    }

    pub fn consumed(&self, id: &DeviceId, capacity: &str) -> Quantity {
        let amount = self.shared.get(id).and_then(|(_, sum)| sum.get(capacity));
        amount.copied().unwrap_or(Quantity::ZERO)
    }
}
