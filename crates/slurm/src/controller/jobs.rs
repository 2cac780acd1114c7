//! GPUJobs: a pod each, a finalizer until nothing is left on the cluster, and an end after a while.

use std::sync::Arc;

use k8s_openapi::api::core::v1::{Namespace, Pod, ServiceAccount};
use k8s_openapi::api::rbac::v1::{Role, RoleBinding};
use k8s_openapi::jiff::{SignedDuration, Timestamp};
use minik8s_runtime::{
    Action, Caches, Controller, EventRecord, Key, Plan, Propagation, Target, Watches, key_of,
};
use serde_json::json;

use super::access::{Access, job_rules};
use super::pod;
use crate::kinds::{GpuJob, GpuJobStatus, Phase, SlurmCluster};

/// Keeps the object until nothing of it is left on the cluster.
pub const FINALIZER: &str = "minik8s.io/slurm-cleanup";
/// Lets the object go without that, where the cluster is gone for good.
pub const ABANDON: &str = "minik8s.io/abandon";

pub struct Jobs;

pub struct Observed {
    job: Arc<GpuJob>,
    pod: Option<Arc<Pod>>,
    access: Access,
    clusters: Vec<Arc<SlurmCluster>>,
    namespace_is_going: bool,
}

/// The pod of a job, and its account.
pub fn pod_name(job: &str) -> String {
    format!("{job}-submit")
}

impl Controller for Jobs {
    type Key = Key;
    type Observed = Observed;

    fn name(&self) -> &'static str {
        "gpujob-controller"
    }

    fn watch(&self, watches: &Watches<Key>) {
        watches.own::<GpuJob>();
        watches.owned::<Pod, GpuJob>();
        watches.on::<SlurmCluster>(|caches, cluster| {
            let namespace = cluster.metadata.namespace.as_deref().unwrap_or_default();
            caches.of::<GpuJob>().in_namespace(namespace).iter().map(|job| key_of(&**job)).collect()
        });
        watches.needs::<ServiceAccount>();
        watches.needs::<Role>();
        watches.needs::<RoleBinding>();
        watches.needs::<Namespace>();
    }

    fn observe(&self, caches: &Caches, key: &Key) -> Option<Observed> {
        let job = caches.of::<GpuJob>().get(key)?;
        let own = Key::new(&*key.namespace, pod_name(&key.name));
        let namespace = caches.of::<Namespace>().get(&Key::new("", &*key.namespace));
        Some(Observed {
            job,
            pod: caches.of::<Pod>().get(&own),
            access: Access::observe(caches, &own),
            clusters: caches.of::<SlurmCluster>().in_namespace(&key.namespace),
            namespace_is_going: namespace.is_some_and(|n| n.metadata.deletion_timestamp.is_some()),
        })
    }

    fn plan(&self, seen: &Observed, now: Timestamp) -> Plan {
        let job = &*seen.job;
        let status = job.status.clone().unwrap_or_default();
        let mut plan = Plan::default();
        let is_tracked = job.metadata.finalizers.iter().flatten().any(|name| name == FINALIZER);
        if job.metadata.deletion_timestamp.is_some() {
            if is_tracked {
                leave(seen, &status, &mut plan);
            }
        } else if status.phase.is_over() && status.cleaned {
            expire(job, &status, now, &mut plan);
        } else if !is_tracked {
            set_finalizers(job, true, &mut plan);
        } else {
            work(seen, &status, &mut plan);
        }
        plan
    }

    fn plan_failure(&self, seen: &Observed, error: &str, _now: Timestamp) -> Plan {
        let mut plan = Plan::default();
        pending(&seen.job, "FailedCreate", error, &mut plan);
        plan
    }
}

/// The object may go when nothing is left of it there, or when nobody can do anything about that any more.
fn leave(seen: &Observed, status: &GpuJobStatus, plan: &mut Plan) {
    let job = &*seen.job;
    let has_begun = status.phase != Phase::Pending || seen.pod.as_ref().is_some_and(|pod| has_started(pod));
    let abandoned = job.metadata.annotations.as_ref().is_some_and(|notes| notes.contains_key(ABANDON));
    if status.cleaned || !has_begun {
        return set_finalizers(job, false, plan);
    }
    let hopeless = match (abandoned, seen.pod.is_some(), chosen(seen, status)) {
        (true, _, _) => Some(format!("abandoned by the annotation {ABANDON}")),
        (false, false, Err((_, why))) => Some(why),
        (false, false, Ok(_)) if seen.namespace_is_going => Some("the namespace goes".to_owned()),
        _ => None,
    };
    match hopeless {
        Some(why) => {
            let left = status.directory.as_deref().unwrap_or("the job's directory");
            plan.event(EventRecord::warning(
                job,
                "LeftOnCluster",
                format!("{left} may be left on the cluster: {why}"),
            ));
            set_finalizers(job, false, plan);
        }
        None => work(seen, status, plan),
    }
}

/// A pod works on the job.
fn work(seen: &Observed, status: &GpuJobStatus, plan: &mut Plan) {
    let job = &*seen.job;
    match &seen.pod {
        Some(pod) if pod.metadata.deletion_timestamp.is_some() => {}
        // Evicted, or its node is gone: what it has done is on the cluster.
        Some(pod) if has_ended(pod) => plan.act(Action::delete(&**pod)),
        Some(pod) => {
            if let Some((reason, message)) = stuck(pod) {
                pending(job, &reason, &message, plan);
            }
        }
        None => match chosen(seen, status) {
            Ok(cluster) => {
                let name = pod_name(job.name());
                let rules = job_rules(job.name(), cluster.metadata.name.as_deref().unwrap_or_default());
                seen.access.plan(job, &name, rules, plan);
                plan.actions.extend(pod::of_job(job, cluster, &name).map(|pod| Action::create(&pod)));
            }
            Err((reason, message)) => pending(job, reason, &message, plan),
        },
    }
}

/// The cluster that the job runs on; once it has begun it stays there.
fn chosen<'a>(seen: &'a Observed, status: &GpuJobStatus) -> Result<&'a SlurmCluster, (&'static str, String)> {
    let named = status.cluster.as_deref().or(seen.job.spec.cluster.as_deref());
    match (named, &seen.clusters[..]) {
        (Some(name), clusters) => {
            let found = clusters.iter().find(|cluster| cluster.metadata.name.as_deref() == Some(name));
            found.map(|cluster| &**cluster).ok_or_else(|| {
                (
                    "NoCluster",
                    format!("there is no SlurmCluster {name} in namespace {}", seen.job.namespace()),
                )
            })
        }
        (None, [only]) => Ok(only),
        (None, []) => {
            let message = format!("there is no SlurmCluster in namespace {}: make one", seen.job.namespace());
            Err(("NoCluster", message))
        }
        (None, many) => {
            let names: Vec<&str> =
                many.iter().filter_map(|cluster| cluster.metadata.name.as_deref()).collect();
            Err(("NoCluster", format!("name one of the SlurmClusters in spec.cluster: {}", names.join(", "))))
        }
    }
}

/// Says why a job has not begun.
fn pending(job: &GpuJob, reason: &str, message: &str, plan: &mut Plan) {
    let old = job.status.clone().unwrap_or_default();
    if old.phase != Phase::Pending {
        return;
    }
    let status = GpuJobStatus { reason: Some(reason.to_owned()), message: Some(message.to_owned()), ..old };
    plan.status(job, GpuJob { status: Some(status), ..job.clone() });
}

fn expire(job: &GpuJob, status: &GpuJobStatus, now: Timestamp, plan: &mut Plan) {
    let ended = status.completion_time.as_ref().map(|time| time.0);
    let Some((ttl, ended)) = job.spec.ttl_seconds_after_finished.zip(ended) else { return };
    let due = ended + SignedDuration::from_secs(i64::from(ttl.max(0)));
    match due > now {
        true => plan.again_at(due, now),
        false => plan.act(Action::delete(job).with_propagation(Propagation::Background)),
    }
}

fn set_finalizers(job: &GpuJob, tracked: bool, plan: &mut Plan) {
    let mut finalizers = job.metadata.finalizers.clone().unwrap_or_default();
    finalizers.retain(|name| name != FINALIZER);
    if tracked {
        finalizers.push(FINALIZER.to_owned());
    }
    let patch = json!({"metadata": {"finalizers": finalizers}});
    plan.act(Action::Patch { target: Target::unchanged(job), subresource: None, patch });
}

fn has_ended(pod: &Pod) -> bool {
    let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
    matches!(phase, Some("Succeeded" | "Failed"))
}

fn has_started(pod: &Pod) -> bool {
    let statuses = pod.status.as_ref().and_then(|status| status.container_statuses.as_ref());
    statuses.into_iter().flatten().any(|container| {
        let state = container.state.as_ref();
        container.restart_count > 0 || state.is_some_and(|s| s.running.is_some() || s.terminated.is_some())
    })
}

/// Why the container does not start, in the node's words; or why no node takes the pod, in the scheduler's.
fn stuck(pod: &Pod) -> Option<(String, String)> {
    let status = pod.status.as_ref()?;
    let containers = status.container_statuses.iter().flatten();
    let waiting = containers.filter_map(|container| container.state.as_ref()?.waiting.as_ref()).next();
    if let Some(waiting) = waiting.filter(|w| w.reason.as_deref().is_some_and(|r| r != "ContainerCreating")) {
        return Some((waiting.reason.clone()?, waiting.message.clone().unwrap_or_default()));
    }
    let unscheduled =
        status.conditions.iter().flatten().find(|c| c.type_ == "PodScheduled" && c.status == "False")?;
    Some((unscheduled.reason.clone()?, unscheduled.message.clone().unwrap_or_default()))
}
