//! Watches what is left of the node's resources and decides who must go.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1 as core;
use tokio::sync::{mpsc, watch};
use tracing::warn;

use super::empty_dirs::overflow;
use super::rank::{Candidate, victim};
use super::signals::{Pressure, Resource, Shortage, read, shortages};
use crate::context::Context;
use crate::events::{Severity, Subject};
use crate::pod::{Blueprint, End, memory_request};
use crate::stats::NodeSample;

const EVERY: Duration = Duration::from_secs(10);
/// Walking volumes costs more.
const VOLUMES_EVERY: u32 = 2;
/// Pods of this priority keep the cluster alive.
const CRITICAL_PRIORITY: i32 = 2_000_000_000;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Eviction {
    pub uid: String,
    pub end: End,
}

pub struct PressureActor {
    pub context: Arc<Context>,
    pub evictions: mpsc::Sender<Eviction>,
    pub pressure: watch::Sender<Pressure>,
}

impl PressureActor {
    /// Never returns.
    pub async fn run(self) {
        let mut ticks = tokio::time::interval(EVERY);
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        let mut round: u32 = 0;
        loop {
            ticks.tick().await;
            let short = shortages(&read(&self.context.config.data_dir));
            let now = Timestamp::now();
            self.pressure.send_if_modified(|pressure| {
                let before = pressure.resources();
                pressure.note(&short, now);
                before != pressure.resources()
            });
            if let Some(worst) = short.first() {
                self.relieve(worst).await;
            }
            round = round.wrapping_add(1);
            if round.is_multiple_of(VOLUMES_EVERY) {
                self.check_volumes().await;
            }
        }
    }

    /// Ends one pod; the next look shows whether that was enough.
    async fn relieve(&self, shortage: &Shortage) {
        let Ok(sample) = self.context.stats.collect(&self.context).await else { return };
        let pods: Vec<_> = self.context.pods.all().into_iter().map(Blueprint::new).collect();
        let candidates: Vec<_> = pods
            .iter()
            .filter(|pod| !pod.terminal)
            .map(|pod| candidate(pod, &sample, shortage.resource))
            .collect();
        let Some(chosen) = victim(&candidates, shortage.resource) else {
            return warn!(?shortage, "the node runs short and there is no pod to end");
        };
        let message = format!(
            "The node was low on resource: {}. Threshold quantity: {}, available: {}. ",
            shortage.resource.name(),
            shortage.threshold,
            shortage.available
        );
        let end = End { reason: "Evicted".to_owned(), message };
        if let Some(pod) = pods.iter().find(|pod| pod.uid == chosen.uid) {
            self.evict(pod, end).await;
        }
    }

    async fn check_volumes(&self) {
        for pod in self.context.pods.all().into_iter().map(Blueprint::new).filter(|pod| !pod.terminal) {
            let context = self.context.clone();
            let walked =
                tokio::task::spawn_blocking(move || overflow(&context.config, &pod).map(|end| (pod, end)));
            if let Ok(Some((pod, end))) = walked.await {
                self.evict(&pod, end).await;
            }
        }
    }

    async fn evict(&self, pod: &Blueprint, end: End) {
        warn!(pod = pod.full_name(), message = end.message, "evicting");
        let subject = Subject {
            kind: "Pod",
            namespace: pod.namespace.clone(),
            name: pod.name.clone(),
            uid: pod.uid.clone(),
            field_path: None,
        };
        self.context.recorder.record(subject, Severity::Warning, "Evicted", &end.message);
        let _ = self.evictions.send(Eviction { uid: pod.uid.clone(), end }).await;
    }
}

fn candidate(pod: &Blueprint, sample: &NodeSample, resource: Resource) -> Candidate {
    let used = sample.pods.iter().find(|p| p.uid == pod.uid).map(|p| p.usage).unwrap_or_default();
    let priority = pod.spec().and_then(|spec: &core::PodSpec| spec.priority).unwrap_or(0);
    Candidate {
        uid: pod.uid.clone(),
        priority,
        usage: if resource == Resource::Pids { used.processes } else { used.working_set },
        request: if resource == Resource::Memory { memory_request(pod).max(0) as u64 } else { 0 },
        protected: pod.is_static() || priority >= CRITICAL_PRIORITY,
    }
}
