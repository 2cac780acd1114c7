//! What drivers offer: devices in slices, slices in pools.
//!
//! A pool counts as one: only its newest generation, and only when all of its slices are there, so that a driver that is
//! just writing is never misread.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use k8s_openapi::api::core::v1::NodeSelector;
use k8s_openapi::api::resource::v1::{self as api, DeviceTaintRule, ResourceSlice};
use minik8s_cel::device::DeviceFacts;
use minik8s_meta::Quantity;
use minik8s_runtime::key_of;

use super::taint;
use super::usage::Usage;
use crate::snapshot::{NodeInfo, NodeTerms};

/// DRIVER/POOL/DEVICE: what a device is called in allocations.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DeviceId {
    pub driver: String,
    pub pool: String,
    pub device: String,
}

/// The nodes that can use a device.
#[derive(Debug, Clone)]
pub enum Reach {
    Node(String),
    Selected(NodeSelector),
    All,
    /// A device that does not say.
    Nowhere,
}

impl Reach {
    fn of(node: Option<&String>, selector: Option<&NodeSelector>, all: Option<bool>) -> Self {
        match (node, selector, all) {
            (Some(node), ..) => Reach::Node(node.clone()),
            (_, Some(selector), _) => Reach::Selected(selector.clone()),
            (.., Some(true)) => Reach::All,
            _ => Reach::Nowhere,
        }
    }

    fn admits(&self, node: &NodeInfo) -> bool {
        match self {
            Reach::Node(name) => *name == node.name,
            Reach::Selected(selector) => NodeTerms::new(selector).admits(node),
            Reach::All => true,
            Reach::Nowhere => false,
        }
    }
}

#[derive(Debug)]
pub struct Device {
    pub id: DeviceId,
    pub reach: Reach,
    pub facts: DeviceFacts,
    pub api: api::Device,
    pub skip_node_operations: Option<Vec<String>>,
}

/// What is left of the counters, by pool, set and name.
pub type Counters = HashMap<(PoolName, Counter), Quantity>;

/// A counter that devices of a pool share: set and name.
pub type Counter = (String, String);
/// Driver and name.
pub type PoolName = (String, String);

#[derive(Debug)]
struct Slice {
    pool: PoolName,
    generation: i64,
    count: usize,
    node: Option<String>,
    devices: Vec<Arc<Device>>,
    counters: Vec<(Counter, Quantity)>,
}

#[derive(Default)]
pub struct Pools {
    slices: HashMap<String, Slice>,
    /// Names of slices.
    pools: BTreeMap<PoolName, BTreeSet<String>>,
    /// Pools that have a slice of this node alone.
    of_node: HashMap<String, BTreeSet<PoolName>>,
    /// Pools that several nodes may use.
    common: BTreeSet<PoolName>,
}

/// What one node can have, and what is left of it.
pub struct Offer {
    pub devices: Vec<Offered>,
    pub counters: Counters,
    /// Drivers with a pool that is not complete yet.
    pub incomplete: Vec<String>,
}

pub struct Offered {
    pub device: Arc<Device>,
    pub taints: Vec<api::DeviceTaint>,
}

impl Pools {
    pub fn set(&mut self, slice: &ResourceSlice) {
        let name = key_of(slice).name;
        self.remove(&name);
        let slice = read(slice);
        self.pools.entry(slice.pool.clone()).or_default().insert(name.clone());
        match &slice.node {
            Some(node) => drop(self.of_node.entry(node.clone()).or_default().insert(slice.pool.clone())),
            None => drop(self.common.insert(slice.pool.clone())),
        }
        self.slices.insert(name, slice);
    }

    pub fn remove(&mut self, name: &str) {
        let Some(slice) = self.slices.remove(name) else { return };
        let Some(names) = self.pools.get_mut(&slice.pool) else { return };
        names.remove(name);
        if !names.is_empty() {
            return;
        }
        self.pools.remove(&slice.pool);
        self.common.remove(&slice.pool);
        for pools in self.of_node.values_mut() {
            pools.remove(&slice.pool);
        }
        self.of_node.retain(|_, pools| !pools.is_empty());
    }

    pub fn offered_to(
        &self,
        node: &NodeInfo,
        usage: &Usage,
        rules: &HashMap<String, Arc<DeviceTaintRule>>,
    ) -> Offer {
        let mut offer = Offer { devices: Vec::new(), counters: HashMap::new(), incomplete: Vec::new() };
        let own = self.of_node.get(&node.name).into_iter().flatten();
        let pools: BTreeSet<&PoolName> = own.chain(&self.common).collect();
        for pool in pools {
            let slices = self.newest(pool);
            if slices.first().is_some_and(|slice| slice.count != slices.len()) {
                offer.incomplete.push(pool.0.clone());
                continue;
            }
            for slice in &slices {
                let devices = slice.devices.iter().filter(|device| device.reach.admits(node));
                offer.devices.extend(devices.map(|device| Offered {
                    device: device.clone(),
                    taints: taint::taints_of(device, rules),
                }));
                let counters = slice.counters.iter();
                offer
                    .counters
                    .extend(counters.map(|(counter, value)| ((pool.clone(), counter.clone()), *value)));
            }
            for device in slices.iter().flat_map(|slice| &slice.devices).filter(|one| usage.has(&one.id)) {
                for (counter, value) in device.consumes() {
                    if let Some(left) = offer.counters.get_mut(&counter) {
                        *left -= value;
                    }
                }
            }
        }
        offer
    }

    /// The slices of a pool's newest generation, by name.
    fn newest(&self, pool: &PoolName) -> Vec<&Slice> {
        let names = self.pools.get(pool).into_iter().flatten();
        let all: Vec<&Slice> = names.filter_map(|name| self.slices.get(name)).collect();
        let newest = all.iter().map(|slice| slice.generation).max();
        all.into_iter().filter(|slice| Some(slice.generation) == newest).collect()
    }
}

impl Device {
    /// What it takes of its pool's counters.
    pub fn consumes(&self) -> Vec<((PoolName, Counter), Quantity)> {
        let pool = (self.id.driver.clone(), self.id.pool.clone());
        let sets = self.api.consumes_counters.iter().flatten();
        let counters = sets.flat_map(|set| {
            set.counters
                .iter()
                .map(|(name, counter)| ((set.counter_set.clone(), name.clone()), &counter.value))
        });
        let values = counters.filter_map(|(counter, value)| Some((counter, Quantity::try_from(value).ok()?)));
        values.map(|(counter, value)| ((pool.clone(), counter), value)).collect()
    }
}

fn read(slice: &ResourceSlice) -> Slice {
    let spec = &slice.spec;
    let pool = (spec.driver.clone(), spec.pool.name.clone());
    let whole = Reach::of(spec.node_name.as_ref(), spec.node_selector.as_ref(), spec.all_nodes);
    let devices = spec.devices.iter().flatten().map(|device| {
        let reach = match spec.per_device_node_selection {
            Some(true) => {
                Reach::of(device.node_name.as_ref(), device.node_selector.as_ref(), device.all_nodes)
            }
            _ => whole.clone(),
        };
        let json = serde_json::to_value(device).unwrap_or_default();
        Arc::new(Device {
            id: DeviceId { driver: pool.0.clone(), pool: pool.1.clone(), device: device.name.clone() },
            reach,
            facts: DeviceFacts::new(&spec.driver, &json),
            api: device.clone(),
            skip_node_operations: spec.skip_node_operations.clone(),
        })
    });
    let sets = spec.shared_counters.iter().flatten();
    let counters = sets.flat_map(|set| {
        set.counters.iter().filter_map(|(name, counter)| {
            let value = Quantity::try_from(&counter.value).ok()?;
            Some(((set.name.clone(), name.clone()), value))
        })
    });
    Slice {
        generation: spec.pool.generation,
        count: usize::try_from(spec.pool.resource_slice_count).unwrap_or(0),
        node: spec.node_name.clone(),
        devices: devices.collect(),
        counters: counters.collect(),
        pool,
    }
}
