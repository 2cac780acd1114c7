//! Jobs: pods that run to their end, so many times, with retries.
//!
//! Pods carry a finalizer until they are counted: their UIDs are first written to the status, then
//! the finalizers go, then the counters take them over. So no pod is counted twice or lost, whatever is
//! deleted or crashes in between. Ends are told in two steps: the criterion is met (remaining pods go), then
//! the Job is Complete or Failed.

mod account;
mod ending;
mod failure_policy;
mod indexes;
mod lost_pods;
mod plan;
mod pod;
mod status;

use std::sync::Arc;

use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::jiff::Timestamp;
use minik8s_runtime::{Caches, Controller, Key, Plan, Selector, Watches};

pub use lost_pods::LostJobPods;

use crate::claim::Candidates;
use crate::orphans::wake_owners_of_orphans;

pub struct Jobs;

pub struct Observed {
    job: Arc<Job>,
    pods: Candidates<Pod>,
}

impl Controller for Jobs {
    type Key = Key;
    type Observed = Observed;

    fn name(&self) -> &'static str {
        "job-controller"
    }

    fn watch(&self, watches: &Watches<Key>) {
        watches.own::<Job>();
        watches.owned::<Pod, Job>();
        wake_owners_of_orphans::<Pod, Job>(watches, selector);
    }

    fn observe(&self, caches: &Caches, key: &Key) -> Option<Observed> {
        let job = caches.of::<Job>().get(key)?;
        let managed_by = job.spec.as_ref().and_then(|spec| spec.managed_by.as_deref());
        if managed_by.is_some_and(|manager| manager != "kubernetes.io/job-controller") {
            return None;
        }
        let pods = Candidates::of(&caches.of::<Pod>(), &*job, &selector(&job));
        Some(Observed { job, pods })
    }

    fn plan(&self, seen: &Observed, now: Timestamp) -> Plan {
        plan::plan(seen, now)
    }
}

fn selector(job: &Job) -> Selector {
    Selector::new(job.spec.as_ref().and_then(|spec| spec.selector.as_ref()))
}

/// The condition that a Job has ended with, if it has.
pub fn finished(job: &Job) -> Option<&k8s_openapi::api::batch::v1::JobCondition> {
    let conditions = job.status.as_ref()?.conditions.as_ref()?;
    conditions.iter().find(|c| matches!(c.type_.as_str(), "Complete" | "Failed") && c.status == "True")
}

#[cfg(test)]
mod tests;
