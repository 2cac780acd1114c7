//! SlurmClusters: a pod that looks once, when the object is new or changed and then every ten minutes.

use std::sync::Arc;

use k8s_openapi::api::core::v1::{Pod, ServiceAccount};
use k8s_openapi::api::rbac::v1::{Role, RoleBinding};
use k8s_openapi::jiff::{SignedDuration, Timestamp};
use minik8s_runtime::{Action, Caches, Controller, Key, Plan, Watches};

use super::access::{Access, cluster_rules};
use super::pod;
use crate::kinds::SlurmCluster;

const INTERVAL: SignedDuration = SignedDuration::from_mins(10);

pub struct Probes;

pub struct Observed {
    cluster: Arc<SlurmCluster>,
    pod: Option<Arc<Pod>>,
    access: Access,
}

impl Controller for Probes {
    type Key = Key;
    type Observed = Observed;

    fn name(&self) -> &'static str {
        "slurmcluster-controller"
    }

    fn watch(&self, watches: &Watches<Key>) {
        watches.own::<SlurmCluster>();
        watches.owned::<Pod, SlurmCluster>();
        watches.needs::<ServiceAccount>();
        watches.needs::<Role>();
        watches.needs::<RoleBinding>();
    }

    fn observe(&self, caches: &Caches, key: &Key) -> Option<Observed> {
        let cluster = caches.of::<SlurmCluster>().get(key)?;
        let own = Key::new(&*key.namespace, probe_name(&key.name));
        let (pod, access) = (caches.of::<Pod>().get(&own), Access::observe(caches, &own));
        Some(Observed { cluster, pod, access })
    }

    fn plan(&self, seen: &Observed, now: Timestamp) -> Plan {
        let mut plan = Plan::default();
        let cluster = &*seen.cluster;
        if cluster.metadata.deletion_timestamp.is_some() {
            return plan;
        }
        let due = due(cluster);
        match &seen.pod {
            Some(pod) if pod.metadata.deletion_timestamp.is_some() => {}
            Some(pod) => {
                let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
                if matches!(phase, Some("Succeeded" | "Failed")) {
                    // One that failed to say anything is not tried again at once.
                    let created = pod.metadata.creation_timestamp.as_ref().map(|time| time.0);
                    let retry = created.map(|created| created + SignedDuration::from_secs(30));
                    match retry.filter(|retry| phase == Some("Failed") && *retry > now) {
                        Some(retry) => plan.again_at(retry, now),
                        None => plan.act(Action::delete(&**pod)),
                    }
                }
            }
            None if due.is_none_or(|due| due <= now) => {
                let name = probe_name(cluster.metadata.name.as_deref().unwrap_or_default());
                let rules = cluster_rules(cluster.metadata.name.as_deref().unwrap_or_default());
                seen.access.plan(cluster, &name, rules, &mut plan);
                plan.actions.extend(pod::of_cluster(cluster, &name).map(|pod| Action::create(&pod)));
            }
            None => {}
        }
        if let Some(due) = due.filter(|due| *due > now) {
            plan.again_at(due, now);
        }
        plan
    }
}

fn probe_name(cluster: &str) -> String {
    format!("{cluster}-probe")
}

/// When to look again; at once if nobody has looked at this spec.
fn due(cluster: &SlurmCluster) -> Option<Timestamp> {
    let status = cluster.status.as_ref()?;
    let is_current = status.observed_generation == cluster.metadata.generation;
    let last = status.last_probe_time.as_ref().filter(|_| is_current)?;
    last.0.checked_add(INTERVAL).ok()
}
