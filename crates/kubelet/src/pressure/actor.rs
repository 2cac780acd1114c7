//! Watches what is left of the node's resources and decides who must go.

use std::sync::Arc;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use k8s_openapi::api::core::v1 as core;
use tokio::sync::{mpsc, watch};
use tracing::warn;

use super::disk_use::{disk_use, overflow};
use super::rank::{Candidate, victim};
use super::signals::{Pressure, Resource, Shortage, read, shortages};
use crate::Config;
use crate::context::{MetricsContext, VolumeContext};
use crate::events::Severity;
use crate::housekeeping::reclaim_images;
use crate::pod::{DesiredPod, ForcedTermination, disk_request, memory_request, subject};
use crate::stats::NodeSample;

/// Walking volumes costs more.
const VOLUMES_EVERY: u32 = 2;
/// How long the end of one pod is waited for before the next is chosen.
const LONGEST_END: Duration = Duration::from_secs(30);
/// Pods of this priority keep the cluster alive.
const CRITICAL_PRIORITY: i32 = 2_000_000_000;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Eviction {
    pub uid: String,
    pub end: ForcedTermination,
}

pub struct PressureActor {
    pub context: Arc<VolumeContext>,
    pub metrics: Arc<MetricsContext>,
    pub evictions: mpsc::Sender<Eviction>,
    pub pressure: watch::Sender<Pressure>,
    /// The pod whose end is waited for.
    pub evicting: Option<Ending>,
}

/// A pod that was evicted and may still hold what the node lacks.
pub struct Ending {
    uid: String,
    since: Instant,
}

impl Ending {
    /// Its containers run, or its files are there. A pod that cannot end does not keep others from being ended.
    fn lasts(&self, config: &Config, active: &[DesiredPod]) -> bool {
        let is_active = active.iter().any(|pod| pod.uid == self.uid);
        let has_files = config.pods_dir().join(&self.uid).exists();
        self.since.elapsed() < LONGEST_END && (is_active || has_files)
    }
}

impl PressureActor {
    /// Never returns.
    pub async fn run(mut self) {
        let mut ticks = tokio::time::interval(self.context.node.config.housekeeping.interval);
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        let mut round: u32 = 0;
        loop {
            ticks.tick().await;
            let mut short = self.look();
            if short.iter().any(|shortage| shortage.resource == Resource::Disk)
                && reclaim_images(&self.context.node).await
            {
                short = self.look();
            }
            if let Some(worst) = short.first() {
                self.relieve(worst).await;
            }
            round = round.wrapping_add(1);
            if round.is_multiple_of(VOLUMES_EVERY) {
                self.check_volumes().await;
            }
        }
    }

    /// What is short now; those who report the node's condition are told.
    fn look(&self) -> Vec<Shortage> {
        let config = &self.context.node.config;
        let short = shortages(&read(&config.data_dir), &config.housekeeping.eviction);
        let now = Timestamp::now();
        self.pressure.send_if_modified(|pressure| {
            let before = pressure.resources();
            pressure.note(&short, now, config.housekeeping.pressure_transition);
            before != pressure.resources()
        });
        short
    }

    /// Ends one pod; the next look after its end shows whether that was enough.
    async fn relieve(&mut self, shortage: &Shortage) {
        let Ok(sample) = self.metrics.stats.collect(&self.context).await else { return };
        let pods: Vec<_> = self.context.node.pods.all().into_iter().map(DesiredPod::new).collect();
        let active: Vec<_> = pods.into_iter().filter(|pod| !pod.terminal).collect();
        if self.evicting.as_ref().is_some_and(|ending| ending.lasts(&self.context.node.config, &active)) {
            return;
        }
        let (context, resource) = (self.context.clone(), shortage.resource);
        let ranked = tokio::task::spawn_blocking(move || {
            let candidates: Vec<_> =
                active.iter().map(|pod| candidate(&context.node.config, pod, &sample, resource)).collect();
            let chosen = victim(&candidates, resource).map(|candidate| candidate.uid.clone());
            active.into_iter().find(|pod| Some(&pod.uid) == chosen.as_ref())
        });
        let Ok(Some(pod)) = ranked.await else {
            return warn!(?shortage, "the node runs short and there is no pod to end");
        };
        let message = format!(
            "The node was low on resource: {}. Threshold quantity: {}, available: {}. ",
            resource.name(),
            shortage.threshold,
            shortage.available
        );
        self.evicting = Some(Ending { uid: pod.uid.clone(), since: Instant::now() });
        self.evict(
            &pod,
            ForcedTermination { reason: "Evicted".to_owned(), message, at_once: true, rejected: false },
        )
        .await;
    }

    async fn check_volumes(&self) {
        for pod in self.context.node.pods.all().into_iter().map(DesiredPod::new).filter(|pod| !pod.terminal) {
            let context = self.context.clone();
            let walked = tokio::task::spawn_blocking(move || {
                overflow(&context.node.config, &pod).map(|end| (pod, end))
            });
            if let Ok(Some((pod, end))) = walked.await {
                self.evict(&pod, end).await;
            }
        }
    }

    async fn evict(&self, pod: &DesiredPod, end: ForcedTermination) {
        warn!(pod = pod.full_name(), message = end.message, "evicting");
        self.context.recorder.record(subject(pod, None), Severity::Warning, "Evicted", &end.message);
        let _ = self.evictions.send(Eviction { uid: pod.uid.clone(), end }).await;
    }
}

fn candidate(config: &Config, pod: &DesiredPod, sample: &NodeSample, resource: Resource) -> Candidate {
    let used = sample.pods.iter().find(|p| p.uid == pod.uid).map(|p| p.usage).unwrap_or_default();
    let priority = pod.spec().and_then(|spec: &core::PodSpec| spec.priority).unwrap_or(0);
    let (usage, request) = match resource {
        Resource::Memory => (used.working_set, memory_request(pod)),
        Resource::Disk => (disk_use(config, pod), disk_request(pod)),
        Resource::Pids => (used.processes, 0),
    };
    Candidate {
        uid: pod.uid.clone(),
        priority,
        usage,
        request: request.max(0) as u64,
        protected: pod.is_static() || priority >= CRITICAL_PRIORITY,
    }
}
