//! The table's state: which sets and chains it has, and what changes of pods, namespaces and policies do to them.
//!
//! A changed pod costs a look at the sets, not at the other pods, and a transaction of a few elements.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;

use minik8s_meta::IpFamily;

use super::address_rules::{AddressRules, MadeChains, PolicyChain, address_rules};
use super::layout::{EGRESS, INGRESS, OWN, RESOLVER, fixed_chains, fixed_maps};
#[cfg(test)]
use super::lines::{Peers, Ports};
use super::members::{MemberSet, shown_protocol};
use super::{Cluster, Key, Labels, Pod, Policy};
#[cfg(test)]
use super::{Direction, Protocol};
use crate::proxy::{Change, Map, Ruleset, diff};

#[derive(Debug, Default)]
pub struct PolicyTable {
    family: IpFamily,
    name: String,
    node: String,
    resolver: Option<IpAddr>,
    cluster: Cluster,
    /// Addresses that pods of this node have before the API server knows.
    told: BTreeMap<Key, Vec<IpAddr>>,
    /// Pods of this node that claim an address.
    claims: BTreeMap<IpAddr, BTreeSet<Key>>,
    /// Of isolated pods.
    rules: BTreeMap<IpAddr, AddressRules>,
    sets: BTreeMap<MemberSet, SetState>,
    /// With how many addresses lead to them.
    chains: BTreeMap<String, (usize, Arc<PolicyChain>)>,
    /// Addresses whose rules are to be looked at again, and pods that may be in other sets now.
    dirty_addresses: BTreeSet<IpAddr>,
    dirty_pods: BTreeSet<Key>,
}

#[derive(Debug, Default)]
struct SetState {
    /// Chains that refer to it.
    users: usize,
    by_pod: BTreeMap<Key, Vec<String>>,
    /// Two pods may claim one address for a moment.
    elements: BTreeMap<String, usize>,
}

impl PolicyTable {
    /// Of a node without any object, for the addresses of one family. `resolver` is the cluster's DNS address.
    pub fn new(family: IpFamily, name: &str, node: &str, resolver: Option<IpAddr>) -> PolicyTable {
        let resolver = resolver.filter(|address| IpFamily::of(*address) == family);
        PolicyTable {
            family,
            name: name.to_owned(),
            node: node.to_owned(),
            resolver,
            ..PolicyTable::default()
        }
    }

    pub fn cluster(&self) -> &Cluster {
        &self.cluster
    }

    pub fn set_pod(&mut self, mut pod: Pod) {
        let key = pod.key();
        pod.addresses.retain(|address| IpFamily::of(*address) == self.family);
        if pod.ended {
            pod.addresses.clear();
            self.told.remove(&key);
        }
        if let (true, Some(told)) = (pod.addresses.is_empty(), self.told.get(&key)) {
            pod.addresses.clone_from(told);
        }
        if self.cluster.pods.get(&key) == Some(&pod) {
            return;
        }
        self.drop_claims(&key);
        if pod.node == self.node && !pod.host_network {
            for address in &pod.addresses {
                self.claims.entry(*address).or_default().insert(key.clone());
                self.dirty_addresses.insert(*address);
            }
        }
        self.cluster.pods.insert(key.clone(), pod);
        self.dirty_pods.insert(key);
    }

    pub fn remove_pod(&mut self, key: &Key) {
        self.told.remove(key);
        self.drop_claims(key);
        if self.cluster.pods.remove(key).is_some() {
            self.dirty_pods.insert(key.clone());
        }
    }

    /// Addresses of a pod of this node that is about to start: whoever had them before has them no longer.
    pub fn tell_addresses(&mut self, key: &Key, mut addresses: Vec<IpAddr>) {
        addresses.retain(|address| IpFamily::of(*address) == self.family);
        let claims = addresses.iter().filter_map(|address| self.claims.get(address));
        let former: BTreeSet<Key> = claims.flatten().filter(|other| *other != key).cloned().collect();
        for other in former {
            self.told.remove(&other);
            if let Some(mut pod) = self.cluster.pods.get(&other).cloned() {
                pod.addresses.retain(|address| !addresses.contains(address));
                self.set_pod(pod);
            }
        }
        self.told.insert(key.clone(), addresses.clone());
        if let Some(mut pod) = self.cluster.pods.get(key).cloned() {
            pod.addresses = addresses;
            self.set_pod(pod);
        }
    }

    pub fn set_policy(&mut self, policy: Policy) {
        let key = (policy.namespace.clone(), policy.name.clone());
        if self.cluster.policies.get(&key) != Some(&policy) {
            self.look_again_in(&key.0);
            self.cluster.policies.insert(key, policy);
        }
    }

    pub fn remove_policy(&mut self, key: &Key) {
        if self.cluster.policies.remove(key).is_some() {
            self.look_again_in(&key.0);
        }
    }

    /// `None`: it is gone.
    pub fn set_namespace(&mut self, name: &str, labels: Option<Labels>) {
        let before = match labels.clone() {
            Some(labels) => self.cluster.namespaces.insert(name.to_owned(), labels),
            None => self.cluster.namespaces.remove(name),
        };
        if before == labels {
            return;
        }
        let pods = self.cluster.pods.keys().filter(|(namespace, _)| namespace == name);
        self.dirty_pods.extend(pods.cloned());
        // The resolvers count as its pods.
        if name == "kube-system" {
            self.dirty_addresses.extend(self.claims.keys());
        }
    }

    pub fn has_changed(&self) -> bool {
        !(self.dirty_addresses.is_empty() && self.dirty_pods.is_empty())
    }

    /// What leads from the table before the changes since the last call to the one after them.
    pub fn take_change(&mut self) -> Change {
        let (mut from, mut to) = (self.fixed_maps(), self.fixed_maps());
        self.move_members(&mut from, &mut to);
        let mut old_chains = Vec::new();
        let mut made = MadeChains::default();
        for address in std::mem::take(&mut self.dirty_addresses) {
            let after = self.rules_of(address, &mut made);
            let before = match after.is_open() {
                true => self.rules.remove(&address).unwrap_or_default(),
                false => self.rules.insert(address, after.clone()).unwrap_or_default(),
            };
            add_address(&mut from, address, &before);
            add_address(&mut to, address, &after);
            after.chains().for_each(|chain| self.acquire(chain, &mut to));
            old_chains.extend(before.chains().cloned());
        }
        // Those first that are needed from now on: what both need stays.
        old_chains.iter().for_each(|chain| self.release(chain, (&mut from, &mut to)));
        // Maps of one name are of one type.
        diff(&from, &to).unwrap_or_default()
    }

    /// All of it, as it is after the last [`PolicyTable::take_change`].
    pub fn ruleset(&self) -> Ruleset {
        let mut rules = self.fixed_maps();
        rules.chains = fixed_chains(self.family, self.resolver);
        self.rules.iter().for_each(|(address, one)| add_address(&mut rules, *address, one));
        for (_, chain) in self.chains.values() {
            rules.chains.insert(chain.name.clone(), chain.text());
        }
        for (set, state) in &self.sets {
            rules.maps.insert(set.name(), state.map(set, self.family));
        }
        rules
    }

    /// How many pods of this node are isolated, and how many peers its sets have.
    pub fn sizes(&self) -> (usize, usize) {
        (self.rules.len(), self.sets.values().map(|set| set.elements.len()).sum())
    }

    /// What the kernel does with a packet in that direction of a pod of this node: the table, read as nft reads it.
    #[cfg(test)]
    pub(super) fn lets_pass(
        &self,
        direction: Direction,
        (pod, peer): (IpAddr, IpAddr),
        (protocol, port): (Protocol, u16),
    ) -> bool {
        let rules = self.rules.get(&pod).cloned().unwrap_or_default();
        let chain = match direction {
            Direction::Ingress => rules.ingress,
            Direction::Egress => rules.egress,
        };
        let Some(chain) = chain else { return true };
        let has = |set: &MemberSet, element: &str| self.sets[set].elements.contains_key(element);
        pod == peer
            || chain.lines.iter().any(|line| {
                let peers = match &line.peers {
                    Peers::Any => true,
                    Peers::Pods(set) => has(set, &peer.to_string()),
                    Peers::PodPorts(set) => {
                        has(set, &format!("{peer} . {} . {port}", shown_protocol(protocol)))
                    }
                    Peers::Ranges(ranges) => {
                        ranges.iter().any(|(first, last)| (first..=last).contains(&&peer))
                    }
                };
                peers
                    && match line.ports {
                        Ports::Any => true,
                        Ports::Protocol(one) => one == protocol,
                        Ports::Range(one, first, last) => one == protocol && (first..=last).contains(&port),
                    }
            })
    }

    fn fixed_maps(&self) -> Ruleset {
        fixed_maps(self.family, &self.name)
    }

    fn drop_claims(&mut self, key: &Key) {
        let Some(pod) = self.cluster.pods.get(key) else { return };
        for address in &pod.addresses {
            if let Some(claims) = self.claims.get_mut(address)
                && claims.remove(key)
            {
                self.dirty_addresses.insert(*address);
                if claims.is_empty() {
                    self.claims.remove(address);
                }
            }
        }
    }

    fn look_again_in(&mut self, namespace: &str) {
        let concerned = self.claims.iter().filter(|(_, pods)| pods.iter().any(|(own, _)| own == namespace));
        self.dirty_addresses.extend(concerned.map(|(address, _)| *address));
    }

    /// The rules of the youngest pod that claims the address.
    fn rules_of(&self, address: IpAddr, made: &mut MadeChains) -> AddressRules {
        let claims = self.claims.get(&address).into_iter().flatten();
        let pods = claims.filter_map(|key| self.cluster.pods.get(key));
        let owner = pods.max_by_key(|pod| (pod.created, &pod.name));
        owner
            .map(|pod| address_rules(&self.cluster, pod, (self.resolver, self.family), made))
            .unwrap_or_default()
    }

    /// Pods that changed, in the sets that are there.
    fn move_members(&mut self, from: &mut Ruleset, to: &mut Ruleset) {
        let dirty = std::mem::take(&mut self.dirty_pods);
        for (set, state) in &mut self.sets {
            let mut touched = BTreeMap::new();
            for key in &dirty {
                let pod = self.cluster.pods.get(key);
                let after = pod.map(|pod| set.elements(pod, &self.cluster)).unwrap_or_default();
                state.put(key, after, &mut touched);
            }
            for (element, was_there) in touched {
                let is_there = state.elements.contains_key(&element);
                for (rules, present) in [(&mut *from, was_there), (&mut *to, is_there)] {
                    let map = rules.maps.entry(set.name()).or_insert_with(|| empty_map(set, self.family));
                    if present {
                        map.elements.insert(element.clone(), String::new());
                    }
                }
            }
        }
    }

    fn acquire(&mut self, chain: &Arc<PolicyChain>, to: &mut Ruleset) {
        let (users, _) = self.chains.entry(chain.name.clone()).or_insert_with(|| (0, chain.clone()));
        *users += 1;
        if *users > 1 {
            return;
        }
        to.chains.insert(chain.name.clone(), chain.text());
        let sets: BTreeSet<&MemberSet> = chain.lines.iter().filter_map(|line| line.set()).collect();
        for set in sets {
            if let Some(state) = self.sets.get_mut(set) {
                state.users += 1;
                continue;
            }
            let mut state = SetState { users: 1, ..SetState::default() };
            for pod in set.candidates(&self.cluster) {
                state.put(&pod.key(), set.elements(pod, &self.cluster), &mut BTreeMap::new());
            }
            to.maps.insert(set.name(), state.map(set, self.family));
            self.sets.insert(set.clone(), state);
        }
    }

    fn release(&mut self, chain: &Arc<PolicyChain>, (from, to): (&mut Ruleset, &mut Ruleset)) {
        let Some((users, _)) = self.chains.get_mut(&chain.name) else { return };
        *users -= 1;
        if *users > 0 {
            return;
        }
        self.chains.remove(&chain.name);
        from.chains.insert(chain.name.clone(), chain.text());
        let sets: BTreeSet<&MemberSet> = chain.lines.iter().filter_map(|line| line.set()).collect();
        for set in sets {
            let Some(state) = self.sets.get_mut(set) else { continue };
            state.users -= 1;
            if state.users == 0 {
                self.sets.remove(set);
                to.maps.remove(&set.name());
                from.maps.insert(set.name(), empty_map(set, self.family));
            }
        }
    }
}

impl SetState {
    /// What a pod adds from now on. Notes for each element concerned whether it was there before.
    fn put(&mut self, key: &Key, after: Vec<String>, touched: &mut BTreeMap<String, bool>) {
        let before = match after.is_empty() {
            true => self.by_pod.remove(key).unwrap_or_default(),
            false => self.by_pod.insert(key.clone(), after.clone()).unwrap_or_default(),
        };
        if before == after {
            return;
        }
        for element in before.iter().chain(&after) {
            let is_there = self.elements.contains_key(element);
            touched.entry(element.clone()).or_insert(is_there);
        }
        for element in after {
            *self.elements.entry(element).or_default() += 1;
        }
        for element in before {
            if let Some(count) = self.elements.get_mut(&element) {
                *count -= 1;
                if *count == 0 {
                    self.elements.remove(&element);
                }
            }
        }
    }

    fn map(&self, set: &MemberSet, family: IpFamily) -> Map {
        let elements = self.elements.keys().map(|element| (element.clone(), String::new()));
        Map { elements: elements.collect(), ..empty_map(set, family) }
    }
}

fn empty_map(set: &MemberSet, family: IpFamily) -> Map {
    Map { key_type: set.key_type(family), ..Map::default() }
}

fn add_address(rules: &mut Ruleset, address: IpAddr, one: &AddressRules) {
    let mut add = |map: &str, key: String, value: String| {
        rules.maps.entry(map.to_owned()).or_default().elements.insert(key, value);
    };
    for (map, chain) in [(INGRESS, &one.ingress), (EGRESS, &one.egress)] {
        if let Some(chain) = chain {
            add(map, address.to_string(), format!("jump {}", chain.name));
        }
    }
    if !one.is_open() {
        add(OWN, format!("{address} . {address}"), String::new());
    }
    for protocol in &one.resolver {
        add(RESOLVER, format!("{address} . {}", shown_protocol(*protocol)), String::new());
    }
}
