//! Which devices there are, and whose they are. Pure: no sockets, no clock; files only in [`super::checkpoint`].
//!
//! A device belongs to one container from the moment its pod is admitted until the pod is over, also while its plugin
//! or the agent is away. It never gives out a device that is ill or taken.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::api::{ContainerDevices, ContainerResources, Device, NumaNode, PodResources, TopologyInfo};
use super::topology::{self, Nodes};

pub const HEALTHY: &str = "Healthy";

/// One device as its plugin last told of it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Known {
    pub healthy: bool,
    /// The memory nodes that it is near to.
    pub numa: Vec<i64>,
}

/// What one container has of one resource.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Allocation {
    pub uid: String,
    pub namespace: String,
    pub pod: String,
    pub container: String,
    pub resource: String,
    pub devices: BTreeSet<String>,
    /// The plugin's answer, encoded: containers that restart need it again.
    pub answer: Vec<u8>,
}

/// Who asks.
#[derive(Debug, Clone, Copy)]
pub struct Asker<'a> {
    pub uid: &'a str,
    pub container: &'a str,
    pub resource: &'a str,
}

#[derive(Debug, Default, PartialEq, Eq)]
pub struct Inventory {
    resources: BTreeMap<String, BTreeMap<String, Known>>,
    allocations: Vec<Allocation>,
}

impl Inventory {
    pub fn new(allocations: Vec<Allocation>) -> Self {
        Inventory { resources: BTreeMap::new(), allocations }
    }

    pub fn allocations(&self) -> &[Allocation] {
        &self.allocations
    }

    /// The devices of a resource as its plugin tells them now. True if that is news.
    pub fn set(&mut self, resource: &str, devices: &[Device]) -> bool {
        let numa = |device: &Device| {
            device.topology.iter().flat_map(|topology| topology.nodes.iter().map(|node| node.id)).collect()
        };
        let known: BTreeMap<String, Known> = devices
            .iter()
            .map(|device| {
                (device.id.clone(), Known { healthy: device.health == HEALTHY, numa: numa(device) })
            })
            .collect();
        self.resources.insert(resource.to_owned(), known.clone()) != Some(known)
    }

    /// Its plugin has gone: nothing is known of its devices but that they were there.
    pub fn lose(&mut self, resource: &str) {
        for known in self.resources.get_mut(resource).into_iter().flat_map(BTreeMap::values_mut) {
            known.healthy = false;
        }
    }

    pub fn has(&self, resource: &str) -> bool {
        self.resources.contains_key(resource)
    }

    /// By resource: how many devices there are, and how many of them can be used.
    pub fn counts(&self) -> BTreeMap<String, (usize, usize)> {
        let count = |devices: &BTreeMap<String, Known>| {
            (devices.len(), devices.values().filter(|known| known.healthy).count())
        };
        self.resources.iter().map(|(name, devices)| (name.clone(), count(devices))).collect()
    }

    /// Healthy devices that nobody has.
    pub fn free(&self, resource: &str) -> Vec<String> {
        let taken: BTreeSet<&str> = self
            .allocations
            .iter()
            .filter(|one| one.resource == resource)
            .flat_map(|one| one.devices.iter().map(String::as_str))
            .collect();
        let devices = self.resources.get(resource).into_iter().flatten();
        devices
            .filter(|(id, known)| known.healthy && !taken.contains(id.as_str()))
            .map(|(id, _)| id.clone())
            .collect()
    }

    /// All healthy devices of a resource as the topology sees them; `reuse` count as free.
    pub fn places(&self, resource: &str, reuse: &BTreeSet<String>) -> Vec<topology::Place> {
        let free: BTreeSet<String> = self.free(resource).into_iter().collect();
        let healthy = self.resources.get(resource).into_iter().flatten().filter(|(_, known)| known.healthy);
        let place = |(id, known): (&String, &Known)| topology::Place {
            nodes: topology::nodes(&known.numa),
            is_free: free.contains(id) || reuse.contains(id),
        };
        healthy.map(place).collect()
    }

    /// Those of the free ones that are near to these memory nodes, or to none, if they are enough; else all.
    pub fn aligned(&self, resource: &str, free: Vec<String>, nodes: Nodes, count: usize) -> Vec<String> {
        let is_near = |id: &&String| {
            let known = self.resources.get(resource).and_then(|devices| devices.get(*id));
            known.is_some_and(|known| known.numa.is_empty() || topology::nodes(&known.numa) & nodes != 0)
        };
        let near: Vec<String> = free.iter().filter(is_near).cloned().collect();
        if near.len() >= count { near } else { free }
    }

    /// So many of the free ones, near to each other: of the memory node where the fewest are left over, if one has enough.
    pub fn near(&self, resource: &str, free: &[String], count: usize) -> Vec<String> {
        let mut by_node: BTreeMap<i64, Vec<&String>> = BTreeMap::new();
        for id in free {
            let known = self.resources.get(resource).and_then(|devices| devices.get(id));
            for &node in known.iter().flat_map(|known| &known.numa) {
                by_node.entry(node).or_default().push(id);
            }
        }
        let best = by_node.into_values().filter(|ids| ids.len() >= count).min_by_key(Vec::len);
        match best {
            Some(ids) => ids.into_iter().take(count).cloned().collect(),
            None => free.iter().take(count).cloned().collect(),
        }
    }

    pub fn of(&self, asker: Asker<'_>) -> Option<&Allocation> {
        self.allocations.iter().find(|one| {
            one.uid == asker.uid && one.container == asker.container && one.resource == asker.resource
        })
    }

    /// All that a container has.
    pub fn of_container<'a>(
        &'a self,
        uid: &'a str,
        container: &'a str,
    ) -> impl Iterator<Item = &'a Allocation> + 'a {
        self.allocations.iter().filter(move |one| one.uid == uid && one.container == container)
    }

    /// False if a device has become somebody's meanwhile. `reuse` are those of containers of the same pod that are over
    /// when this one starts.
    pub fn take(&mut self, allocation: Allocation, reuse: &BTreeSet<String>) -> bool {
        let free: BTreeSet<String> = self.free(&allocation.resource).into_iter().collect();
        if !allocation.devices.iter().all(|id| free.contains(id) || reuse.contains(id)) {
            return false;
        }
        self.allocations.push(allocation);
        true
    }

    /// The plugin's answer for devices that were taken before it was asked.
    pub fn answered(&mut self, asker: Asker<'_>, answer: Vec<u8>) {
        let found = self.allocations.iter_mut().find(|one| {
            one.uid == asker.uid && one.container == asker.container && one.resource == asker.resource
        });
        if let Some(allocation) = found {
            allocation.answer = answer;
        }
    }

    /// Keeps what pods have that `lives` knows. True if something was let go.
    pub fn retain(&mut self, lives: impl Fn(&Allocation) -> bool) -> bool {
        let before = self.allocations.len();
        self.allocations.retain(lives);
        self.allocations.len() != before
    }

    /// What each pod has, for `podresources`.
    pub fn pods(&self) -> Vec<PodResources> {
        let mut pods: BTreeMap<(&str, &str), BTreeMap<&str, Vec<ContainerDevices>>> = BTreeMap::new();
        for one in &self.allocations {
            let containers = pods.entry((one.namespace.as_str(), one.pod.as_str())).or_default();
            containers
                .entry(one.container.as_str())
                .or_default()
                .push(self.shown(&one.resource, one.devices.iter().cloned().collect()));
        }
        pods.into_iter()
            .map(|((namespace, name), containers)| PodResources {
                name: name.to_owned(),
                namespace: namespace.to_owned(),
                containers: containers
                    .into_iter()
                    .map(|(name, devices)| ContainerResources {
                        name: name.to_owned(),
                        devices,
                        dynamic_resources: Vec::new(),
                    })
                    .collect(),
            })
            .collect()
    }

    /// All that can be given out, for `podresources`.
    pub fn allocatable(&self) -> Vec<ContainerDevices> {
        let healthy = |devices: &BTreeMap<String, Known>| -> Vec<String> {
            devices.iter().filter(|(_, known)| known.healthy).map(|(id, _)| id.clone()).collect()
        };
        self.resources.iter().map(|(name, devices)| self.shown(name, healthy(devices))).collect()
    }

    fn shown(&self, resource: &str, device_ids: Vec<String>) -> ContainerDevices {
        let known = device_ids.iter().filter_map(|id| self.resources.get(resource)?.get(id));
        let nodes: BTreeSet<i64> = known.flat_map(|known| known.numa.iter().copied()).collect();
        let topology = (!nodes.is_empty())
            .then(|| TopologyInfo { nodes: nodes.into_iter().map(|id| NumaNode { id }).collect() });
        ContainerDevices { resource_name: resource.to_owned(), device_ids, topology }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GPU: &str = "example.com/gpu";

    fn device(id: &str, health: &str, numa: i64) -> Device {
        let topology = Some(TopologyInfo { nodes: vec![NumaNode { id: numa }] });
        Device { id: id.to_owned(), health: health.to_owned(), topology }
    }

    fn four() -> Inventory {
        let mut inventory = Inventory::default();
        let all = [("a", 0), ("b", 1), ("c", 1), ("d", 0)].map(|(id, node)| device(id, HEALTHY, node));
        assert!(inventory.set(GPU, &all));
        assert!(!inventory.set(GPU, &all), "the same again is no news");
        inventory
    }

    fn allocation(uid: &str, devices: &[&str]) -> Allocation {
        Allocation {
            uid: uid.to_owned(),
            namespace: "n".to_owned(),
            pod: format!("pod-{uid}"),
            container: "c".to_owned(),
            resource: GPU.to_owned(),
            devices: devices.iter().map(|&id| id.to_owned()).collect(),
            answer: Vec::new(),
        }
    }

    #[test]
    fn device_belongs_to_one_container_until_its_pod_is_over() {
        let (mut inventory, none) = (four(), BTreeSet::new());
        assert!(inventory.take(allocation("1", &["a", "b"]), &none));
        assert!(!inventory.take(allocation("2", &["b", "c"]), &none));
        assert_eq!(inventory.free(GPU), ["c", "d"]);
        // Neither an illness nor a plugin that comes again changes whose it is.
        inventory.lose(GPU);
        assert_eq!((inventory.counts()[GPU], inventory.free(GPU)), ((4, 0), Vec::<String>::new()));
        inventory.set(GPU, &[device("a", HEALTHY, 0), device("c", "Unhealthy", 1), device("d", HEALTHY, 0)]);
        assert_eq!((inventory.counts()[GPU], inventory.free(GPU)), ((3, 2), vec!["d".to_owned()]));
        assert!(inventory.retain(|one| one.uid != "1"));
        assert_eq!(inventory.free(GPU), ["a", "d"]);
    }

    #[test]
    fn devices_of_one_memory_node_are_preferred() {
        let (mut inventory, none) = (four(), BTreeSet::new());
        let near = |inventory: &Inventory, count| inventory.near(GPU, &inventory.free(GPU), count);
        assert_eq!(near(&inventory, 2), ["a", "d"]);
        assert!(inventory.take(allocation("1", &["a"]), &none));
        assert_eq!(near(&inventory, 1), ["d"], "where the fewest are left over");
        assert_eq!(near(&inventory, 2), ["b", "c"]);
        assert_eq!(near(&inventory, 3), ["b", "c", "d"], "else any");
    }

    #[test]
    fn pod_resources_tell_who_has_what() {
        let (mut inventory, none) = (four(), BTreeSet::new());
        assert!(inventory.take(allocation("1", &["a", "b"]), &none));
        let pods = inventory.pods();
        assert_eq!((pods.len(), pods[0].name.as_str()), (1, "pod-1"));
        let devices = &pods[0].containers[0].devices[0];
        assert_eq!((devices.resource_name.as_str(), devices.device_ids.len()), (GPU, 2));
        assert_eq!(devices.topology.as_ref().unwrap().nodes.len(), 2);
        assert_eq!(inventory.allocatable()[0].device_ids.len(), 4);
    }
}
