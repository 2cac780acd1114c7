//! CronJobs: Jobs by the clock.
//!
//! A run is named after its time, so a run that was started and not written down is found again instead
//! of being started twice. Runs that were missed are not made up for, except the latest one.

mod history;
mod plan;
mod runs;
mod schedule;

use std::sync::Arc;

use k8s_openapi::api::batch::v1::{CronJob, Job};
use k8s_openapi::jiff::Timestamp;
use minik8s_runtime::{Caches, Controller, Key, Plan, Watches};

pub struct CronJobs;

pub struct Observed {
    cron: Arc<CronJob>,
    jobs: Vec<Arc<Job>>,
}

impl Controller for CronJobs {
    type Key = Key;
    type Observed = Observed;

    fn name(&self) -> &'static str {
        "cronjob-controller"
    }

    fn watch(&self, watches: &Watches<Key>) {
        watches.own::<CronJob>();
        watches.owned::<Job, CronJob>();
    }

    fn observe(&self, caches: &Caches, key: &Key) -> Option<Observed> {
        let cron = caches.of::<CronJob>().get(key)?;
        let jobs = caches.of::<Job>().controlled_by(cron.metadata.uid.as_deref().unwrap_or(""));
        Some(Observed { cron, jobs })
    }

    fn plan(&self, seen: &Observed, now: Timestamp) -> Plan {
        plan::plan(seen, now)
    }
}

#[cfg(test)]
mod tests;
