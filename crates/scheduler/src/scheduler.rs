//! The scheduler's state and its reactions, without IO: events in, effects out.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Instant;

use k8s_openapi::api::core::v1::{
    ConfigMap, Namespace, Node, PersistentVolume, PersistentVolumeClaim, Pod, PodResourceClaimStatus,
};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::api::resource::v1::{DeviceClass, DeviceTaintRule, ResourceClaim, ResourceSlice};
use k8s_openapi::api::storage::v1::{CSIDriver, CSINode, CSIStorageCapacity, StorageClass};
use minik8s_runtime::{Key, key_of};

use crate::decide::{Chooser, Decision, Refused, decide, refusal};
use crate::devices::{Devices, Reservation};
use crate::explain::explain;
use crate::nominations::Nominations;
use crate::preempt::{Preemption, preempt};
use crate::queue::PodQueue;
use crate::rank::strategy_of;
use crate::snapshot::{PodInfo, Snapshot, Usage};
use crate::strategy::Strategy;
use crate::waking::Waking;

/// A change of an object: what it was, what it is.
pub type Change<K> = (Option<Arc<K>>, Option<Arc<K>>);

pub enum Event {
    Pod(Change<Pod>),
    Node(Change<Node>),
    Namespace(Change<Namespace>),
    Claim(Change<PersistentVolumeClaim>),
    Volume(Change<PersistentVolume>),
    Class(Change<StorageClass>),
    CsiNode(Change<CSINode>),
    CsiDriver(Change<CSIDriver>),
    CsiCapacity(Change<CSIStorageCapacity>),
    Budget(Change<PodDisruptionBudget>),
    Settings(Change<ConfigMap>),
    DeviceClaim(Change<ResourceClaim>),
    Slice(Change<ResourceSlice>),
    DeviceClass(Change<DeviceClass>),
    TaintRule(Change<DeviceTaintRule>),
    /// What nodes really use, by name.
    Measured(Vec<(String, Option<Usage>)>),
    /// A binding that we asked for was made, or not.
    Bound {
        pod: Arc<PodInfo>,
        done: bool,
    },
}

/// What is to be done in the world.
#[derive(Debug)]
pub enum Effect {
    Bind {
        pod: Arc<PodInfo>,
        node: String,
        claims: Vec<Arc<PersistentVolumeClaim>>,
        /// What it needs of its claims to devices.
        reservations: Vec<Reservation>,
    },
    /// Take its devices from a claim: with them its pod finds no node.
    Deallocate {
        claim: Arc<ResourceClaim>,
        pod: Arc<PodInfo>,
    },
    /// Show in the pod why it waits, and where room is being made for it, if it is.
    Explain {
        pod: Arc<PodInfo>,
        message: String,
        nominate: Option<String>,
    },
    /// Show that the pod waits for its gates.
    Gated(Arc<Pod>),
    Evict {
        victim: Arc<PodInfo>,
        by: Arc<PodInfo>,
        node: String,
    },
}

pub struct Scheduler {
    name: String,
    snapshot: Snapshot,
    queue: PodQueue,
    chooser: Chooser,
    strategy: Strategy,
    /// Placed in the snapshot by our decision, not yet seen bound.
    assumed: HashMap<Key, String>,
    nominated: Nominations,
    budgets: HashMap<Key, Arc<PodDisruptionBudget>>,
}

/// The ConfigMap in `kube-system` and its key that hold the cluster's strategy.
pub const SETTINGS: (&str, &str, &str) = ("kube-system", "minik8s-cluster", "scheduler.strategy");

impl Scheduler {
    /// Serves the pods whose `schedulerName` is `name`.
    pub fn new(name: &str, strategy: Strategy, seed: u64) -> Self {
        Scheduler {
            name: name.to_owned(),
            snapshot: Snapshot::default(),
            queue: PodQueue::default(),
            chooser: Chooser::new(seed),
            strategy,
            assumed: HashMap::new(),
            nominated: Nominations::default(),
            budgets: HashMap::new(),
        }
    }

    pub fn snapshot(&self) -> &Snapshot {
        &self.snapshot
    }

    pub fn waiting(&self) -> usize {
        self.queue.len()
    }

    pub fn next_due(&self) -> Option<Instant> {
        self.queue.next_due()
    }

    pub fn handle(&mut self, event: Event, now: Instant) -> Option<Effect> {
        match event {
            Event::Pod((old, Some(new))) => return self.pod_seen(old, new, now),
            Event::Pod((old, None)) => old.iter().for_each(|pod| self.pod_gone(&key_of(&**pod), now)),
            Event::Node((old, Some(new))) => self.node_seen(old, new, now),
            Event::Node((Some(old), None)) => self.snapshot.remove_node(&key_of(&*old).name),
            Event::Namespace((_, Some(new))) => self.snapshot.set_namespace(new),
            Event::Namespace((Some(old), None)) => self.snapshot.remove_namespace(&key_of(&*old).name),
            Event::Budget((old, new)) => {
                old.iter().for_each(|budget| drop(self.budgets.remove(&key_of(&**budget))));
                self.budgets.extend(new.map(|budget| (key_of(&*budget), budget)));
            }
            Event::Claim((old, Some(new))) => self.claim_seen(old.as_deref(), new, now),
            Event::Claim((Some(old), None)) => self.snapshot.volumes.remove_claim(&key_of(&*old)),
            Event::Volume((_, Some(new))) => self.storage_seen(now, |volumes| volumes.set_volume(new)),
            Event::Volume((Some(old), None)) => self.snapshot.volumes.remove_volume(&key_of(&*old).name),
            Event::Class((_, Some(new))) => self.storage_seen(now, |volumes| volumes.set_class(new)),
            Event::Class((Some(old), None)) => self.snapshot.volumes.remove_class(&key_of(&*old).name),
            Event::CsiNode((old, new)) => self.storage_seen(now, |volumes| volumes.csi.set_node(old, new)),
            Event::CsiDriver((old, new)) => {
                self.storage_seen(now, |volumes| volumes.csi.set_driver(old, new))
            }
            Event::CsiCapacity((old, new)) => {
                self.storage_seen(now, |volumes| volumes.csi.set_capacity(old, new));
            }
            Event::DeviceClaim((_, Some(new))) => self.devices_seen(now, |devices| devices.set_claim(new)),
            Event::DeviceClaim((Some(old), None)) => self.devices_seen(now, |all| all.remove_claim(&old)),
            Event::Slice((_, Some(new))) => self.devices_seen(now, |devices| devices.set_slice(&new)),
            Event::Slice((Some(old), None)) => self.snapshot.devices.remove_slice(&old),
            Event::DeviceClass((_, Some(new))) => self.devices_seen(now, |devices| devices.set_class(new)),
            Event::DeviceClass((Some(old), None)) => self.snapshot.devices.remove_class(&key_of(&*old).name),
            Event::TaintRule((_, Some(new))) => self.devices_seen(now, |devices| devices.set_rule(new)),
            Event::TaintRule((Some(old), None)) => {
                self.devices_seen(now, |devices| devices.remove_rule(&key_of(&*old).name))
            }
            Event::Settings((old, new)) => self.settings_seen(old.as_deref(), new.as_deref()),
            Event::Measured(metrics) => {
                metrics.iter().for_each(|(node, usage)| self.snapshot.set_usage(node, *usage))
            }
            Event::Bound { pod, done } => self.binding_answered(&pod, done, now),
            _ => {}
        }
        None
    }

    /// Decides about the next pod; None if none is to be tried now.
    pub fn step(&mut self, now: Instant) -> Option<Vec<Effect>> {
        let pod = self.queue.take(now)?;
        // Neither its own reservation is in its way, nor that of a less important pod.
        let kept = self.nominated.release(&pod.key, &mut self.snapshot);
        let aside = self.nominated.set_aside(pod.priority, &mut self.snapshot);
        let key = pod.key.clone();
        let effects = match self.decide(&pod, kept.as_deref()) {
            Decision::Place(node) => self.place(pod, node, now),
            Decision::Refuse(refused) => self.refuse(pod, &refused, kept, now),
        };
        let promised = self.nominated.node_of(&key).map(str::to_owned);
        for lost in self.nominated.restore(aside, promised.as_deref(), &mut self.snapshot) {
            self.queue.wake_one(&lost, now);
        }
        Some(effects)
    }

    fn place(&mut self, pod: Arc<PodInfo>, node: String, now: Instant) -> Vec<Effect> {
        let claims = self.snapshot.volumes.waiting_claims(&pod);
        let info = self.snapshot.node(&node);
        let reservations = info.map_or(Ok(Vec::new()), |info| self.snapshot.devices.reservations(&pod, info));
        let Ok(reservations) = reservations else {
            // Nothing has changed since the filter found them; should that be wrong, it is tried again.
            self.queue.retry(&pod.key, now);
            return Vec::new();
        };
        self.snapshot.devices.assume(&pod.key, &reservations);
        self.snapshot.place(pod.clone(), &node);
        self.assumed.insert(pod.key.clone(), pod.uid.clone());
        vec![Effect::Bind { pod, node, claims, reservations }]
    }

    fn decide(&mut self, pod: &PodInfo, kept: Option<&str>) -> Decision {
        // What others went for is taken if it will do now.
        let kept = kept.and_then(|name| self.snapshot.node(name));
        if let Some(node) = kept.filter(|node| refusal(pod, &self.snapshot, node).is_none()) {
            return Decision::Place(node.name.clone());
        }
        decide(pod, &self.snapshot, strategy_of(pod, self.strategy), &mut self.chooser)
    }

    fn refuse(
        &mut self,
        pod: Arc<PodInfo>,
        refused: &Refused,
        kept: Option<String>,
        now: Instant,
    ) -> Vec<Effect> {
        self.queue.park(&pod.key, refused.helped_by, now);
        let mut message = explain(refused);
        if refused.nodes == 0 {
            return vec![Effect::Explain { pod, message, nominate: None }];
        }
        if let Some(claim) = self.snapshot.devices.deallocatable(&pod) {
            return vec![
                Effect::Deallocate { claim, pod: pod.clone() },
                Effect::Explain { pod, message, nominate: None },
            ];
        }
        let budgets: Vec<_> = self.budgets.values().cloned().collect();
        match preempt(&pod, &mut self.snapshot, refused, kept.as_deref(), &budgets) {
            Ok(Preemption { node, victims }) => {
                self.nominated.keep(pod.clone(), &node, &mut self.snapshot);
                let mut effects: Vec<Effect> = victims
                    .into_iter()
                    // One that is on its way out needs no second push.
                    .filter(|victim| !victim.is_leaving())
                    .map(|victim| Effect::Evict { victim, by: pod.clone(), node: node.clone() })
                    .collect();
                effects.push(Effect::Explain { pod, message, nominate: Some(node) });
                effects
            }
            Err(why) => {
                message.push_str(" preemption: ");
                message.push_str(&why);
                let waits = kept.filter(|_| why.contains("nominated node"));
                if let Some(node) = &waits {
                    self.nominated.keep(pod.clone(), node, &mut self.snapshot);
                }
                vec![Effect::Explain { pod, message, nominate: waits }]
            }
        }
    }

    fn pod_seen(&mut self, old: Option<Arc<Pod>>, new: Arc<Pod>, now: Instant) -> Option<Effect> {
        let key = key_of(&*new);
        if is_finished(&new) {
            self.pod_gone(&key, now);
            return None;
        }
        if let Some(node) = assigned_node(&new) {
            let is_news = self.nominated.fulfil(&key) || self.snapshot.placed_on(&key) != Some(node);
            self.queue.remove(&key);
            self.assumed.remove(&key);
            self.snapshot.place(PodInfo::new(new.clone()), node);
            if is_news {
                self.queue.wake(Waking::POD_PLACED, now);
            }
            return None;
        }
        if self.assumed.get(&key) == new.metadata.uid.as_ref() {
            return None;
        }
        let ours =
            new.spec.as_ref().and_then(|s| s.scheduler_name.as_deref()).unwrap_or(DEFAULT) == self.name;
        if !ours || new.metadata.deletion_timestamp.is_some() {
            self.pod_gone(&key, now);
            return None;
        }
        if is_gated(&new) {
            self.queue.remove(&key);
            return (!has_reason(&new, "SchedulingGated")).then_some(Effect::Gated(new));
        }
        // Its claims are about to be made, and then it is seen again.
        if !has_its_claims(&new) {
            self.queue.remove(&key);
            return None;
        }
        let same = old.is_some_and(|old| {
            old.spec == new.spec
                && old.metadata.labels == new.metadata.labels
                && old.metadata.annotations == new.metadata.annotations
                && resource_claims(&old) == resource_claims(&new)
        });
        let info = PodInfo::new(new);
        self.keep_nomination(&info);
        if same && self.queue.get(&key).is_some() {
            self.queue.refresh(info)
        } else {
            self.queue.put(info)
        }
        None
    }

    /// What an earlier life of this scheduler promised is kept, and a changed pod keeps its place.
    fn keep_nomination(&mut self, pod: &Arc<PodInfo>) {
        let status = pod.pod.status.as_ref();
        let told = status.and_then(|s| s.nominated_node_name.as_deref()).filter(|name| !name.is_empty());
        let first_seen = self.queue.get(&pod.key).is_none();
        let node = self.nominated.node_of(&pod.key).or(told.filter(|_| first_seen)).map(str::to_owned);
        if let Some(node) = node {
            self.nominated.keep(pod.clone(), &node, &mut self.snapshot);
        }
    }

    fn pod_gone(&mut self, key: &Key, now: Instant) {
        self.queue.remove(key);
        self.assumed.remove(key);
        self.nominated.fulfil(key);
        self.snapshot.devices.forget(key);
        if self.snapshot.displace(key).is_some() {
            self.queue.wake(Waking::POD_GONE, now);
        }
    }

    fn node_seen(&mut self, old: Option<Arc<Node>>, new: Arc<Node>, now: Instant) {
        let matters = |node: &Node| {
            let status = node.status.as_ref();
            let conditions = status.and_then(|s| s.conditions.as_ref()).into_iter().flatten();
            let ready = conditions.filter(|c| c.type_ == "Ready").any(|c| c.status == "True");
            (
                node.metadata.labels.clone(),
                node.spec.clone(),
                status.and_then(|s| s.allocatable.clone()),
                ready,
            )
        };
        let changed = old.is_none_or(|old| matters(&old) != matters(&new));
        self.snapshot.set_node(new);
        if changed {
            self.queue.wake(Waking::NODE, now);
        }
    }

    /// One that is bound at last is what its pods waited for: back-off is for changes that may not help.
    fn claim_seen(
        &mut self,
        old: Option<&PersistentVolumeClaim>,
        new: Arc<PersistentVolumeClaim>,
        now: Instant,
    ) {
        let key = key_of(&*new);
        let is_news = is_bound(&new) && !old.is_some_and(is_bound);
        self.storage_seen(now, |volumes| volumes.set_claim(new));
        if is_news {
            let volumes = &self.snapshot.volumes;
            self.queue.wake_at_once(|pod| {
                pod.key.namespace == key.namespace && volumes.claims_of(pod).contains(&key.name)
            });
        }
    }

    fn storage_seen(&mut self, now: Instant, change: impl FnOnce(&mut crate::volumes::Volumes)) {
        change(&mut self.snapshot.volumes);
        self.queue.wake(Waking::VOLUME, now);
    }

    fn devices_seen(&mut self, now: Instant, change: impl FnOnce(&mut Devices)) {
        change(&mut self.snapshot.devices);
        self.queue.wake(Waking::DEVICE, now);
    }

    fn settings_seen(&mut self, old: Option<&ConfigMap>, new: Option<&ConfigMap>) {
        let ours = |map: &ConfigMap| key_of(map) == Key::new(SETTINGS.0, SETTINGS.1);
        if !old.or(new).is_some_and(ours) {
            return;
        }
        let wanted = new.and_then(|map| map.data.as_ref()).and_then(|data| data.get(SETTINGS.2));
        match wanted.map(|name| name.parse::<Strategy>()) {
            Some(Ok(strategy)) => self.strategy = strategy,
            Some(Err(error)) => tracing::warn!(%error, "keeping strategy {}", self.strategy),
            None => self.strategy = Strategy::default(),
        }
    }

    fn binding_answered(&mut self, pod: &PodInfo, done: bool, now: Instant) {
        if done || self.assumed.get(&pod.key) != Some(&pod.uid) {
            return;
        }
        self.assumed.remove(&pod.key);
        self.snapshot.devices.forget(&pod.key);
        self.snapshot.displace(&pod.key);
        self.queue.retry(&pod.key, now);
    }
}

const DEFAULT: &str = "default-scheduler";

fn is_bound(claim: &PersistentVolumeClaim) -> bool {
    claim.status.as_ref().and_then(|status| status.phase.as_deref()) == Some("Bound")
}

fn is_finished(pod: &Pod) -> bool {
    let phase = pod.status.as_ref().and_then(|s| s.phase.as_deref());
    matches!(phase, Some("Succeeded" | "Failed"))
}

fn assigned_node(pod: &Pod) -> Option<&str> {
    pod.spec.as_ref()?.node_name.as_deref().filter(|name| !name.is_empty())
}

/// The claims that were made for a pod from templates.
fn resource_claims(pod: &Pod) -> Option<&Vec<PodResourceClaimStatus>> {
    pod.status.as_ref()?.resource_claim_statuses.as_ref()
}

/// Whether all claims that are made from templates have been made, or are not needed.
fn has_its_claims(pod: &Pod) -> bool {
    let named = pod.spec.iter().flat_map(|spec| spec.resource_claims.iter().flatten());
    let mut made = named.filter(|claim| claim.resource_claim_template_name.is_some());
    made.all(|claim| resource_claims(pod).into_iter().flatten().any(|status| status.name == claim.name))
}

fn is_gated(pod: &Pod) -> bool {
    pod.spec.as_ref().and_then(|s| s.scheduling_gates.as_ref()).is_some_and(|gates| !gates.is_empty())
}

fn has_reason(pod: &Pod, reason: &str) -> bool {
    let conditions = pod.status.as_ref().and_then(|s| s.conditions.as_ref());
    conditions.into_iter().flatten().any(|c| c.reason.as_deref() == Some(reason))
}
