//! The scheduler's state and its reactions, without IO: events in, effects out.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Instant;

use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Node, PersistentVolume, PersistentVolumeClaim, Pod};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::api::storage::v1::StorageClass;
use minik8s_runtime::{Key, key_of};

use crate::decide::{Chooser, Decision, Refused, decide};
use crate::explain::explain;
use crate::preempt::{Preemption, preempt};
use crate::queue::PodQueue;
use crate::snapshot::{PodInfo, Snapshot};
use crate::strategy::{ANNOTATION, Strategy};
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
    Budget(Change<PodDisruptionBudget>),
    Settings(Change<ConfigMap>),
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
    },
    /// Show in the pod why it waits; a nomination tells where room is being made.
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
    /// Placed in the snapshot because room is being made for them.
    nominated: HashSet<Key>,
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
            nominated: HashSet::new(),
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
            Event::Claim((_, Some(new))) => self.storage_seen(now, |volumes| volumes.set_claim(new)),
            Event::Claim((Some(old), None)) => self.snapshot.volumes.remove_claim(&key_of(&*old)),
            Event::Volume((_, Some(new))) => self.storage_seen(now, |volumes| volumes.set_volume(new)),
            Event::Volume((Some(old), None)) => self.snapshot.volumes.remove_volume(&key_of(&*old).name),
            Event::Class((_, Some(new))) => self.storage_seen(now, |volumes| volumes.set_class(new)),
            Event::Class((Some(old), None)) => self.snapshot.volumes.remove_class(&key_of(&*old).name),
            Event::Settings((old, new)) => self.settings_seen(old.as_deref(), new.as_deref()),
            Event::Bound { pod, done } => self.binding_answered(&pod, done, now),
            _ => {}
        }
        None
    }

    /// Decides about the next pod; None if none is to be tried now.
    pub fn step(&mut self, now: Instant) -> Option<Vec<Effect>> {
        let pod = self.queue.take(now)?;
        // Its own reservation is not in its way.
        if self.nominated.remove(&pod.key) {
            self.snapshot.displace(&pod.key);
        }
        let strategy = self.strategy_of(&pod);
        Some(match decide(&pod, &self.snapshot, strategy, &mut self.chooser) {
            Decision::Place(node) => {
                let claims = self.snapshot.volumes.waiting_claims(&pod);
                self.snapshot.place(pod.clone(), &node);
                self.assumed.insert(pod.key.clone(), pod.uid.clone());
                vec![Effect::Bind { pod, node, claims }]
            }
            Decision::Refuse(refused) => self.refuse(pod, &refused, now),
        })
    }

    fn refuse(&mut self, pod: Arc<PodInfo>, refused: &Refused, now: Instant) -> Vec<Effect> {
        self.queue.park(&pod.key, refused.helped_by, now);
        let mut message = explain(refused);
        let budgets: Vec<_> = self.budgets.values().cloned().collect();
        let room = preempt(&pod, &mut self.snapshot, refused, &self.nominated, &budgets);
        let Some(Preemption { node, victims }) = room else {
            if refused.nodes > 0 {
                message.push_str(" preemption: no victims found that would make room.");
            }
            return vec![Effect::Explain { pod, message, nominate: None }];
        };
        self.snapshot.place(pod.clone(), &node);
        self.nominated.insert(pod.key.clone());
        let mut effects: Vec<Effect> = victims
            .into_iter()
            // One that is on its way out needs no second push.
            .filter(|victim| victim.pod.metadata.deletion_timestamp.is_none())
            .map(|victim| Effect::Evict { victim, by: pod.clone(), node: node.clone() })
            .collect();
        if effects.is_empty() {
            message.push_str(" preemption: waiting for pods that are terminating.");
        }
        effects.push(Effect::Explain { pod, message, nominate: Some(node) });
        effects
    }

    fn strategy_of(&self, pod: &PodInfo) -> Strategy {
        let wanted = pod.pod.metadata.annotations.as_ref().and_then(|a| a.get(ANNOTATION));
        wanted.and_then(|name| name.parse().ok()).unwrap_or(self.strategy)
    }

    fn pod_seen(&mut self, old: Option<Arc<Pod>>, new: Arc<Pod>, now: Instant) -> Option<Effect> {
        let key = key_of(&*new);
        if is_finished(&new) {
            self.pod_gone(&key, now);
            return None;
        }
        if let Some(node) = assigned_node(&new) {
            let is_news = self.snapshot.placed_on(&key) != Some(node) || self.nominated.remove(&key);
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
        let same = old.is_some_and(|old| {
            old.spec == new.spec
                && old.metadata.labels == new.metadata.labels
                && old.metadata.annotations == new.metadata.annotations
        });
        let info = PodInfo::new(new);
        if same && self.queue.get(&key).is_some() {
            self.queue.refresh(info)
        } else {
            self.queue.put(info)
        }
        None
    }

    fn pod_gone(&mut self, key: &Key, now: Instant) {
        self.queue.remove(key);
        self.assumed.remove(key);
        self.nominated.remove(key);
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

    fn storage_seen(&mut self, now: Instant, change: impl FnOnce(&mut crate::volumes::Volumes)) {
        change(&mut self.snapshot.volumes);
        self.queue.wake(Waking::VOLUME, now);
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
        self.snapshot.displace(&pod.key);
        self.queue.retry(&pod.key, now);
    }
}

const DEFAULT: &str = "default-scheduler";

fn is_finished(pod: &Pod) -> bool {
    let phase = pod.status.as_ref().and_then(|s| s.phase.as_deref());
    matches!(phase, Some("Succeeded" | "Failed"))
}

fn assigned_node(pod: &Pod) -> Option<&str> {
    pod.spec.as_ref()?.node_name.as_deref().filter(|name| !name.is_empty())
}

fn is_gated(pod: &Pod) -> bool {
    pod.spec.as_ref().and_then(|s| s.scheduling_gates.as_ref()).is_some_and(|gates| !gates.is_empty())
}

fn has_reason(pod: &Pod, reason: &str) -> bool {
    let conditions = pod.status.as_ref().and_then(|s| s.conditions.as_ref());
    conditions.into_iter().flatten().any(|c| c.reason.as_deref() == Some(reason))
}
