//! Watches autoscalers, what they scale and what is measured, and has them decide.
//!
//! An autoscaler is looked at when it, its target or its pods change and when there are new metrics, at most once a
//! second: not by a clock of its own. What it remembers of its past wishes and changes lives in memory; after a
//! restart it takes what runs for what was wished for, so nothing shrinks before its time, and the time of the last
//! change from its status, so nothing grows faster than its policies allow.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet, StatefulSet};
use k8s_openapi::api::autoscaling::v2::HorizontalPodAutoscaler;
use k8s_openapi::api::core::v1::{Pod, ReplicationController};
use k8s_openapi::jiff::{SignedDuration, Timestamp};
use kube::Client;
use minik8s_metrics::{Decisions, History};
use minik8s_runtime::{Caches, Controller, Key, Object, Plan, Watches, key_of};
use parking_lot::Mutex;
use tokio::sync::watch;

use super::metric::own_id;
use super::past::{Moment, Pasts};
use super::plan::{Observed, State, plan, plan_failure};
use super::remote::Remotes;
use super::samples::PodSample;
use super::scales::Scales;
use super::target::{self, Target};
use crate::pods;
use crate::resource_metrics::Wants;
use minik8s_runtime::Catalog;

/// Rates are averaged over this long: short, so that a step of load is seen whole within seconds.
const WINDOW: SignedDuration = SignedDuration::from_secs(3);
/// Figures of several nodes that come together are looked at together.
const PAUSE: Duration = Duration::from_secs(1);

pub struct Autoscalers {
    history: Arc<History>,
    wants: Arc<Wants>,
    decisions: Arc<Decisions>,
    pasts: Arc<Pasts>,
    scales: Scales,
    remotes: Remotes,
    states: Mutex<HashMap<Key, Arc<Mutex<State>>>>,
}

impl Autoscalers {
    pub fn new(
        client: Option<Client>,
        catalog: Arc<Catalog>,
        history: Arc<History>,
        wants: Arc<Wants>,
        decisions: Arc<Decisions>,
        pasts: Arc<Pasts>,
    ) -> Self {
        let remotes = Remotes::new(client.clone());
        let scales = Scales::new(client, catalog);
        Autoscalers { history, wants, decisions, pasts, scales, remotes, states: Mutex::default() }
    }
}

impl Controller for Autoscalers {
    type Key = Key;
    type Observed = Observed;

    fn name(&self) -> &'static str {
        "horizontal-pod-autoscaler"
    }

    fn watch(&self, watches: &Watches<Key>) {
        watches.own::<HorizontalPodAutoscaler>();
        on_target::<Deployment>(watches);
        on_target::<ReplicaSet>(watches);
        on_target::<StatefulSet>(watches);
        on_target::<ReplicationController>(watches);
        watches.needs::<Pod>();
        self.scales.tell(watches.sink());
        self.remotes.tell(watches.sink());
        tokio::spawn(wake_by_metrics(watches.caches().clone(), self.history.changes(), watches.sink()));
    }

    fn observe(&self, caches: &Caches, key: &Key) -> Option<Observed> {
        let Some(autoscaler) = caches.of::<HorizontalPodAutoscaler>().get(key) else {
            self.states.lock().remove(key);
            self.wants.set(key, BTreeSet::new(), BTreeSet::new());
            self.decisions.forget(&key.namespace, &key.name);
            self.pasts.forget(key);
            return None;
        };
        let state = self.state_of(key, &autoscaler);
        let target = target::find(caches, &self.scales, &autoscaler)?;
        let remote = self.remotes.find(key, &autoscaler.spec)?;
        let mut of_target = Vec::new();
        let mut rivals = Vec::new();
        if let Some(selector) = target.as_ref().ok().and_then(|target| target.selector.as_ref()) {
            of_target = caches.of::<Pod>().in_namespace(&key.namespace);
            of_target.retain(|pod| selector.matches_object(&pod.metadata) && !pods::is_finished(pod));
            rivals = self.rivals(caches, key, &of_target, target.as_ref().ok());
        }
        self.want(key, &autoscaler, &of_target);
        let samples = self.samples(&of_target);
        Some(Observed { autoscaler, target, pods: of_target, samples, remote, rivals, state })
    }

    /// Pure but for the autoscaler's own memory, and for the notes of what was seen and decided.
    fn plan(&self, seen: &Observed, now: Timestamp) -> Plan {
        let (plan, decision) = plan(seen, now);
        self.remember(seen, now);
        if let Some(decision) = decision.and_then(|decision| serde_json::to_value(decision).ok()) {
            let key = key_of(&*seen.autoscaler);
            self.decisions.set(&key.namespace, &key.name, decision);
        }
        plan
    }

    fn plan_failure(&self, seen: &Observed, error: &str, now: Timestamp) -> Plan {
        plan_failure(seen, error, now)
    }
}

impl Autoscalers {
    /// Keeps what was seen, for backtests.
    fn remember(&self, seen: &Observed, now: Timestamp) {
        let key = key_of(&*seen.autoscaler);
        let Ok(target) = &seen.target else { return };
        if !seen.samples.is_empty() && self.pasts.is_due(&key, now) {
            let moment = Moment::of(now, target.wanted, &seen.samples, &seen.remote);
            self.pasts.record(&key, seen.pods.first(), moment);
        }
    }

    fn state_of(&self, key: &Key, autoscaler: &HorizontalPodAutoscaler) -> Arc<Mutex<State>> {
        let mut states = self.states.lock();
        let new = || Arc::new(Mutex::new(State::resumed(autoscaler)));
        states.entry(key.clone()).or_insert_with(new).clone()
    }

    /// By pod name.
    fn samples(&self, pods: &[Arc<Pod>]) -> BTreeMap<String, PodSample> {
        let now = Timestamp::now();
        let measured = pods.iter().filter_map(|pod| {
            let key = key_of(&**pod);
            let used = self.history.pod(&key.namespace, &key.name, WINDOW, now)?;
            Some((key.name, used.into()))
        });
        measured.collect()
    }

    /// Asks for the pods' own metrics that the autoscaler goes by.
    fn want(&self, key: &Key, autoscaler: &HorizontalPodAutoscaler, pods: &[Arc<Pod>]) {
        let metrics = autoscaler.spec.metrics.iter().flatten();
        let own = metrics.filter_map(|metric| own_id(&metric.pods.as_ref()?.metric).ok()).collect();
        let placed = pods.iter().filter_map(|pod| Some((pods::node_name(pod)?.to_owned(), key_of(&**pod))));
        self.wants.set(key, placed.collect(), own);
    }

    /// Other autoscalers of the same pods.
    fn rivals(&self, caches: &Caches, key: &Key, pods: &[Arc<Pod>], target: Option<&Target>) -> Vec<String> {
        let all = caches.of::<HorizontalPodAutoscaler>().in_namespace(&key.namespace);
        let others = all.iter().filter(|other| other.metadata.name.as_deref() != Some(&key.name));
        let same = others.filter(|other| match target::find(caches, &self.scales, other) {
            Some(Ok(theirs)) if Some((&theirs.kind, &theirs.key)) == target.map(|t| (&t.kind, &t.key)) => {
                true
            }
            Some(Ok(Target { selector: Some(selector), .. })) => {
                pods.iter().any(|pod| selector.matches_object(&pod.metadata))
            }
            _ => false,
        });
        same.map(|other| key_of(&**other).to_string()).collect()
    }
}

/// Every autoscaler is looked at after new metrics.
async fn wake_by_metrics(
    caches: Arc<Caches>,
    mut changes: watch::Receiver<u64>,
    wake: Arc<dyn Fn(Key) + Send + Sync>,
) {
    let autoscalers = caches.of::<HorizontalPodAutoscaler>();
    while changes.changed().await.is_ok() {
        for autoscaler in autoscalers.list() {
            wake(key_of(&*autoscaler));
        }
        tokio::time::sleep(PAUSE).await;
        changes.mark_unchanged();
    }
}

/// A target that changes wakes those who scale it.
fn on_target<K: Object>(watches: &Watches<Key>) {
    watches.needs::<HorizontalPodAutoscaler>();
    let kind = K::kind(&());
    watches.on::<K>(move |caches, object| {
        let key = key_of(object);
        let all = caches.of::<HorizontalPodAutoscaler>().in_namespace(&key.namespace);
        let of_it = all.iter().filter(|autoscaler| {
            let reference = &autoscaler.spec.scale_target_ref;
            reference.kind == kind && reference.name == key.name
        });
        of_it.map(|autoscaler| key_of(&**autoscaler)).collect()
    });
}
