//! What CSI drivers say of nodes: how many volumes each can have, and how much storage is left where.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use k8s_openapi::api::core::v1::PersistentVolumeClaimSpec;
use k8s_openapi::api::storage::v1::{CSIDriver, CSINode, CSIStorageCapacity};
use minik8s_meta::{Quantity, local_volume};
use minik8s_runtime::{Key, Selector, key_of};

use crate::snapshot::{NodeInfo, PodInfo};
use crate::volumes::Volumes;

#[derive(Default)]
pub struct Csi {
    nodes: HashMap<String, Arc<CSINode>>,
    drivers: HashMap<String, Arc<CSIDriver>>,
    capacities: HashMap<Key, Arc<CSIStorageCapacity>>,
    /// What each node has free for volumes of the class `local`, whatever that class is called.
    local: HashMap<String, i64>,
}

impl Csi {
    pub fn set_node(&mut self, old: Option<Arc<CSINode>>, new: Option<Arc<CSINode>>) {
        old.iter().for_each(|old| drop(self.nodes.remove(&key_of(&**old).name)));
        self.nodes.extend(new.map(|new| (key_of(&*new).name, new)));
    }

    pub fn set_driver(&mut self, old: Option<Arc<CSIDriver>>, new: Option<Arc<CSIDriver>>) {
        old.iter().for_each(|old| drop(self.drivers.remove(&key_of(&**old).name)));
        self.drivers.extend(new.map(|new| (key_of(&*new).name, new)));
    }

    pub fn set_capacity(
        &mut self,
        old: Option<Arc<CSIStorageCapacity>>,
        new: Option<Arc<CSIStorageCapacity>>,
    ) {
        if let Some(old) = &old {
            let key = key_of(&**old);
            match local_volume::parse_capacity_name(&key.namespace, &key.name) {
                Some(node) => {
                    self.local.remove(node);
                }
                None => {
                    self.capacities.remove(&key);
                }
            }
        }
        if let Some(new) = new {
            let key = key_of(&*new);
            match local_volume::parse_capacity_name(&key.namespace, &key.name) {
                Some(node) => {
                    self.local.insert(node.to_owned(), amount(&new));
                }
                None => {
                    self.capacities.insert(key, new);
                }
            }
        }
    }

    /// Whether a node lacks a driver whose volumes' pods are to be kept from where it is missing.
    pub fn is_missing(&self, driver: &str, node: &str) -> bool {
        let known = self.drivers.get(driver);
        let has = |node: &Arc<CSINode>| node.spec.drivers.iter().any(|known| known.name == driver);
        known.is_some_and(|known| known.spec.prevent_pod_scheduling_if_missing == Some(true))
            && !self.nodes.get(node).is_some_and(has)
    }

    /// Whether a driver that tells its capacities has room for a volume of the class that a node reaches. Images are thin: what
    /// a node has promised to others is not taken from what it has free.
    pub fn has_room(&self, driver: &str, class: &str, bytes: i64, node: &NodeInfo) -> bool {
        if driver == local_volume::DRIVER {
            // A node that has not said anything yet refuses by itself what does not fit.
            return self.local.get(&node.name).is_none_or(|free| *free >= bytes);
        }
        let tells = self.drivers.get(driver).is_some_and(|one| one.spec.storage_capacity == Some(true));
        !tells || self.capacities.values().any(|one| is_enough(one, class, bytes, node))
    }
}

fn is_enough(capacity: &CSIStorageCapacity, class: &str, bytes: i64, node: &NodeInfo) -> bool {
    let Some(topology) = &capacity.node_topology else { return false };
    capacity.storage_class_name == class
        && amount(capacity) >= bytes
        && Selector::new(Some(topology)).matches(node.node.metadata.labels.as_ref())
}

/// The largest volume that there is room for.
fn amount(capacity: &CSIStorageCapacity) -> i64 {
    let amount = capacity.maximum_volume_size.as_ref().or(capacity.capacity.as_ref());
    amount.and_then(|amount| Quantity::try_from(amount).ok()).map_or(0, |amount| amount.value())
}

impl Volumes {
    /// How many volumes of a driver a node can have; None if nobody has said.
    pub fn limit(&self, node: &str, driver: &str) -> Option<i64> {
        let drivers = &self.csi.nodes.get(node)?.spec.drivers;
        let known = drivers.iter().find(|known| known.name == driver)?;
        known.allocatable.as_ref()?.count.map(i64::from)
    }

    /// The volumes of CSI drivers that a pod uses, by driver; those that are still to be made by the names of their claims.
    pub fn csi_volumes(&self, pod: &PodInfo) -> BTreeMap<String, BTreeSet<String>> {
        let mut all: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        for claim in self.claims_of(pod) {
            if let Some((driver, volume)) = self.csi_volume(&Key::new(&*pod.key.namespace, &*claim)) {
                all.entry(driver).or_default().insert(volume);
            }
        }
        all
    }

    fn csi_volume(&self, claim: &Key) -> Option<(String, String)> {
        let spec = self.claim(claim)?.spec.as_ref()?;
        match spec.volume_name.as_deref().filter(|name| !name.is_empty()) {
            Some(name) => {
                let csi = self.volume(name)?.spec.as_ref()?.csi.as_ref()?;
                Some((csi.driver.clone(), csi.volume_handle.clone()))
            }
            None => Some((self.provisioner(spec)?.to_owned(), claim.to_string())),
        }
    }

    fn provisioner(&self, claim: &PersistentVolumeClaimSpec) -> Option<&str> {
        Some(self.class(claim.storage_class_name.as_deref()?)?.provisioner.as_str())
    }
}
