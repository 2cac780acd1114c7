//! Who has finished, counted exactly once.

use std::sync::Arc;

use k8s_openapi::api::batch::v1::{Job, UncountedTerminatedPods};
use k8s_openapi::api::core::v1::Pod;
use minik8s_runtime::{Action, Plan, Target};
use serde_json::json;

use super::failure_policy::{Verdict, judge};
use super::indexes::Indexes;
use super::pod;
use crate::pods;

/// The books of a Job after this round.
pub(super) struct Account {
    /// Counted, not with those still on their way.
    succeeded: i32,
    failed: i32,
    uncounted_succeeded: Vec<String>,
    uncounted_failed: Vec<String>,
    pub completed: Indexes,
    pub failed_indexes: Indexes,
    /// A pod's failure that fails the Job by its policy.
    pub fatal: Option<String>,
    is_indexed: bool,
}

impl Account {
    /// Reads the books, enters what has finished since, and lets go of pods that are safely in them. A Job
    /// that `is_over` counts nobody any more.
    pub fn close(job: &Job, mine: &[Arc<Pod>], is_over: bool, plan: &mut Plan) -> Self {
        let mut account = Account::open(job);
        let entered = (account.uncounted_succeeded.clone(), account.uncounted_failed.clone());
        let is_entered = |pod: &Pod| {
            let uid = pod::uid(pod);
            entered.0.iter().chain(&entered.1).any(|known| known == uid)
        };
        for pod in mine.iter().filter(|pod| pod::is_tracked(pod)) {
            let has_ended = has_ended(job, pod);
            let stays = has_ended && !is_over && !is_entered(pod) && account.enter(job, pod);
            let may_go = is_over || (has_ended && !stays && !account.holds_failure_count(job, mine, pod));
            if may_go {
                plan.act(release(pod));
            }
        }
        let is_held = |uid: &String| mine.iter().any(|pod| pod::uid(pod) == uid && pod::is_tracked(pod));
        account.flush(&entered, is_held);
        account
    }

    fn open(job: &Job) -> Self {
        let status = job.status.clone().unwrap_or_default();
        let spec = job.spec.as_ref();
        let bound = spec.and_then(|s| s.completions).unwrap_or(i32::MAX);
        let uncounted = status.uncounted_terminated_pods.unwrap_or_default();
        let indexes = |text: Option<String>| Indexes::parse(&text.unwrap_or_default(), bound);
        Account {
            succeeded: status.succeeded.unwrap_or(0),
            failed: status.failed.unwrap_or(0),
            uncounted_succeeded: uncounted.succeeded.unwrap_or_default(),
            uncounted_failed: uncounted.failed.unwrap_or_default(),
            completed: indexes(status.completed_indexes),
            failed_indexes: indexes(status.failed_indexes),
            fatal: None,
            is_indexed: is_indexed(job),
        }
    }

    /// True if the pod is entered and must stay until that is written.
    fn enter(&mut self, job: &Job, pod: &Pod) -> bool {
        let uid = pod::uid(pod).to_owned();
        let bound = job.spec.as_ref().and_then(|s| s.completions).unwrap_or(0);
        let index = pod::index(pod).filter(|index| (0..bound).contains(index));
        if self.is_indexed && index.is_none() {
            return false;
        }
        if pods::phase(pod) == "Succeeded" {
            // Two pods of one index count once.
            if let Some(index) = index.filter(|_| self.is_indexed)
                && !self.completed.insert(index)
            {
                return false;
            }
            self.uncounted_succeeded.push(uid);
            return true;
        }
        match judge(job, pod) {
            Verdict::Ignore => return false,
            Verdict::FailJob(why) => self.fatal = self.fatal.take().or(Some(why)),
            Verdict::FailIndex => {
                index.map(|index| self.failed_indexes.insert(index));
            }
            Verdict::Count => {
                let limit = job.spec.as_ref().and_then(|s| s.backoff_limit_per_index);
                let exhausted = limit.is_some_and(|limit| pod::earlier_failures(pod) >= limit);
                if let Some(index) = index.filter(|_| exhausted) {
                    self.failed_indexes.insert(index);
                }
            }
        }
        self.uncounted_failed.push(uid);
        true
    }

    /// Where every index has failures of its own to spend, the last failed pod of an index is the memory of
    /// how many are spent: it stays until its successor has taken that over.
    fn holds_failure_count(&self, job: &Job, mine: &[Arc<Pod>], pod: &Pod) -> bool {
        let counts_per_index = job.spec.as_ref().is_some_and(|s| s.backoff_limit_per_index.is_some());
        let Some(index) = pod::index(pod).filter(|_| counts_per_index) else { return false };
        let has_successor = || {
            mine.iter().any(|other| {
                pod::index(other) == Some(index)
                    && pod::earlier_failures(other) > pod::earlier_failures(pod)
                    && pod::uid(other) != pod::uid(pod)
            })
        };
        pods::phase(pod) != "Succeeded" && !self.is_done(index) && !has_successor()
    }

    /// Pods that were written down and let go are counted.
    fn flush(&mut self, entered: &(Vec<String>, Vec<String>), is_held: impl Fn(&String) -> bool) {
        let settled = |list: &mut Vec<String>, entered: &[String]| {
            let before = list.len();
            list.retain(|uid| !entered.contains(uid) || is_held(uid));
            i32::try_from(before - list.len()).unwrap_or(0)
        };
        self.succeeded += settled(&mut self.uncounted_succeeded, &entered.0);
        self.failed += settled(&mut self.uncounted_failed, &entered.1);
    }

    /// Nothing is left to be done for this index.
    pub fn is_done(&self, index: i32) -> bool {
        self.completed.contains(index) || self.failed_indexes.contains(index)
    }

    pub fn total_succeeded(&self) -> i32 {
        if self.is_indexed { self.completed.len() } else { self.succeeded + len(&self.uncounted_succeeded) }
    }

    pub fn total_failed(&self) -> i32 {
        self.failed + len(&self.uncounted_failed)
    }

    pub fn is_settled(&self) -> bool {
        self.uncounted_succeeded.is_empty() && self.uncounted_failed.is_empty()
    }

    /// What the status shows as counted.
    pub fn counted(&self) -> (i32, i32) {
        (if self.is_indexed { self.completed.len() } else { self.succeeded }, self.failed)
    }

    pub fn uncounted(&self) -> UncountedTerminatedPods {
        let some = |list: &Vec<String>| Some(list.clone()).filter(|list| !list.is_empty());
        UncountedTerminatedPods {
            succeeded: some(&self.uncounted_succeeded),
            failed: some(&self.uncounted_failed),
        }
    }
}

pub(super) fn is_indexed(job: &Job) -> bool {
    job.spec.as_ref().and_then(|s| s.completion_mode.as_deref()) == Some("Indexed")
}

/// Replacements wait until a pod has really ended.
pub(super) fn replaces_only_failed(job: &Job) -> bool {
    job.spec.as_ref().and_then(|s| s.pod_replacement_policy.as_deref()) == Some("Failed")
}

/// A pod that somebody deletes counts as failed at once: it may never get the chance to say so itself.
fn has_ended(job: &Job, pod: &Pod) -> bool {
    pods::is_finished(pod) || (pods::is_terminating(pod) && !replaces_only_failed(job))
}

fn len(list: &[String]) -> i32 {
    i32::try_from(list.len()).unwrap_or(i32::MAX)
}

/// Takes the finalizer off.
pub(super) fn release(pod: &Pod) -> Action {
    let finalizers = pod.metadata.finalizers.iter().flatten();
    let rest: Vec<&String> = finalizers.filter(|finalizer| *finalizer != pod::TRACKING).collect();
    let patch = json!({"metadata": {"finalizers": rest}});
    Action::Patch { target: Target::unchanged(pod), subresource: None, patch }
}
