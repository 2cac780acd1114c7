//! Measures everything once a second, while somebody listens.
//!
//! Which containers there are is asked of the runtime only when containers came or went; between that a
//! measurement is a few small files per container.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use minik8s_metrics::{Layout, Reading};
use tokio::sync::{Notify, watch};
use tokio::time::MissedTickBehavior;
use tracing::debug;

use super::subjects::{Subject, Subjects, most_open_files};
use crate::context::NodeContext;
use crate::cri::RuntimeError;
use crate::pod::DesiredPod;
use crate::sandbox::pod_cgroup;

const INTERVAL: Duration = Duration::from_secs(1);
/// A change that nobody told of is seen after so many measurements.
const LOOK_ANYWAY: u64 = 60;

/// One measurement with what its numbers mean.
#[derive(Debug)]
pub struct Sampled {
    pub layout: Arc<Layout>,
    pub reading: Reading,
}

pub struct Sampler {
    newest: watch::Sender<Option<Arc<Sampled>>>,
    listened: Notify,
    changed: AtomicBool,
}

impl Default for Sampler {
    fn default() -> Self {
        Sampler { newest: watch::channel(None).0, listened: Notify::new(), changed: AtomicBool::new(true) }
    }
}

impl Sampler {
    /// Every measurement from now on, until the receiver is dropped.
    pub fn listen(&self) -> watch::Receiver<Option<Arc<Sampled>>> {
        let receiver = self.newest.subscribe();
        self.listened.notify_one();
        receiver
    }

    /// To be told when a container has started or ended.
    pub fn containers_changed(&self) {
        self.changed.store(true, Ordering::Release);
    }

    /// Never returns.
    pub async fn run(&self, context: &NodeContext) {
        loop {
            self.listened.notified().await;
            self.measure_while_heard(context).await;
        }
    }

    async fn measure_while_heard(&self, context: &NodeContext) {
        let mut subjects = Subjects::new(context.cgroups.clone());
        self.containers_changed();
        let mut ticks = tokio::time::interval(INTERVAL);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut turn: u64 = 0;
        while self.newest.receiver_count() > 0 {
            ticks.tick().await;
            turn += 1;
            if self.changed.swap(false, Ordering::AcqRel) || turn.is_multiple_of(LOOK_ANYWAY) {
                match subjects_of(context).await {
                    // Half of the files that may be open are for others.
                    Ok(found) => subjects.set(&found, most_open_files() / 2),
                    Err(error) => {
                        debug!(%error, "the runtime does not say which containers run");
                        self.containers_changed();
                    }
                }
            }
            // Files of the kernel, but a hundred of them: not on a thread that others wait for.
            let measured = tokio::task::spawn_blocking(move || {
                let reading = subjects.measure();
                (subjects, reading)
            });
            let Ok((back, reading)) = measured.await else { return };
            subjects = back;
            let sampled = Sampled { layout: subjects.layout.clone(), reading };
            self.newest.send_replace(Some(Arc::new(sampled)));
        }
    }
}

/// Pods with running containers.
async fn subjects_of(context: &NodeContext) -> Result<Vec<Subject>, RuntimeError> {
    let mut running: BTreeMap<String, Vec<(String, String)>> = BTreeMap::new();
    for row in context.runtime.container_rows().await?.into_iter().filter(|row| row.running) {
        running.entry(row.pod_uid).or_default().push((row.name, row.id));
    }
    let pods = context.pods.all().into_iter().map(DesiredPod::new);
    let subjects = pods.filter_map(|pod| {
        let mut containers = running.remove(&pod.uid)?;
        containers.sort();
        Some(Subject {
            cgroup: pod_cgroup(&context.config, &pod),
            host_network: pod.host_network(),
            namespace: pod.namespace,
            name: pod.name,
            uid: pod.uid,
            containers,
        })
    });
    Ok(subjects.collect())
}
