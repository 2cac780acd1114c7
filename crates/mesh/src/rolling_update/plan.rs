//! What a RollingUpdate does next. Pure.
//!
//! Each batch goes through the same steps: weight zero, until the proxies of all nodes follow; nothing in flight; deleted;
//! a pause; created, until ready; verified, until the proxies of all nodes send requests there; a pause. Waiting for
//! others has a bound each. Going back is the same with the former template.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::{Pod, PodTemplateSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use k8s_openapi::jiff::{SignedDuration, Timestamp};
use minik8s_meta::mesh::takes_inbound;
use minik8s_runtime::{Action, Plan};

use super::{Batch, Observed, RollingUpdate, RollingUpdateStatus, errors, template};
use crate::compile::port_of;

const PENDING: &str = "Pending";
const DRAINING: &str = "Draining";
const REPLACING: &str = "Replacing";
const VERIFYING: &str = "Verifying";
const PAUSING: &str = "Pausing";
pub const DONE: &str = "Done";
const ABORTED: &str = "Aborted";
const FAILED: &str = "Failed";

const WEIGHT_ZERO: &str = "WeightZero";
pub const IN_FLIGHT: &str = "InFlight";
const DELETING: &str = "Deleting";
const PAUSE: &str = "Pause";
const CREATING: &str = "Creating";

/// On the pods that it made: which template they have.
pub const REVISION: &str = "minik8s.io/rolling-update-revision";
/// For the proxies of all nodes to follow; a node that is gone is not waited for any longer.
const FOLLOW_BOUND: SignedDuration = SignedDuration::from_secs(30);
const GRACE: i64 = 30;
const DEADLINE: i32 = 600;
const LONGEST_HISTORY: usize = 20;

/// Whether there is nothing left to do.
pub fn is_over(update: &RollingUpdate) -> bool {
    let ended = |status: &RollingUpdateStatus| {
        matches!(status.phase.as_str(), DONE | ABORTED)
            && status.observed_generation == update.metadata.generation
    };
    update.status.as_ref().is_some_and(ended)
}

/// Whether something is wrong with it, so that others may have its Service.
pub fn is_stuck(update: &RollingUpdate) -> bool {
    update.status.as_ref().is_some_and(|status| status.phase == FAILED)
}

pub fn plan(seen: &Observed, now: Timestamp) -> Plan {
    let mut plan = Plan::default();
    let update = &*seen.update;
    if update.metadata.deletion_timestamp.is_some() || is_over(update) {
        return plan;
    }
    let mut status = begun(update);
    status.observed_generation = update.metadata.generation;
    let outcome = Step::new(seen, &mut status, now).map(|mut step| {
        step.judge();
        step.take(&mut plan);
    });
    if let Err((phase, message)) = outcome {
        status.phase = phase.to_owned();
        status.message = Some(message);
    }
    plan.status(update, RollingUpdate { status: Some(status), ..update.clone() });
    plan
}

/// The status to go on from: what is over begins anew when its spec changes, but for one that is to be undone.
fn begun(update: &RollingUpdate) -> RollingUpdateStatus {
    let known = update.status.clone().unwrap_or_default();
    match known.phase.as_str() {
        DONE if update.spec.abort && known.old_pod.is_some() => {
            RollingUpdateStatus { phase: PAUSING.to_owned(), resume_time: None, ..known }
        }
        // Something was in its way, which may be gone: what it has begun is not forgotten.
        FAILED if known.total > 0 => {
            RollingUpdateStatus { phase: PAUSING.to_owned(), message: None, resume_time: None, ..known }
        }
        DONE | ABORTED | FAILED | PENDING => RollingUpdateStatus::default(),
        _ => known,
    }
}

/// Why nothing can be done, and the phase that says so.
type Problem = (&'static str, String);

struct Step<'a> {
    seen: &'a Observed,
    status: &'a mut RollingUpdateStatus,
    now: Timestamp,
    /// What new pods are made from, and its revision.
    new: PodTemplateSpec,
    revision: String,
    /// To be replaced, and made by this update; both alive.
    old_pods: Vec<&'a Pod>,
    new_pods: Vec<&'a Pod>,
    ending: usize,
}

impl<'a> Step<'a> {
    fn new(seen: &'a Observed, status: &'a mut RollingUpdateStatus, now: Timestamp) -> Result<Self, Problem> {
        let failed = |message: String| (FAILED, message);
        check_service(seen).map_err(failed)?;
        if let Some(other) = &seen.other {
            return Err((PENDING, format!("RollingUpdate {other} is at work on the same Service")));
        }
        let alive: Vec<&Pod> = seen.pods.iter().map(AsRef::as_ref).filter(|pod| !has_ended(pod)).collect();
        let (ending, alive): (Vec<&Pod>, Vec<&Pod>) =
            alive.into_iter().partition(|pod| pod.metadata.deletion_timestamp.is_some());
        if status.total == 0 {
            status.total = count(alive.len());
            status.old_pod = alive.first().map(|pod| template::of(pod));
        }
        if status.total == 0 {
            let service = &seen.update.spec.service_ref;
            return Err(failed(format!("Service {service} has no pods to replace")));
        }
        let old = status.old_pod.clone().unwrap_or_default();
        let wanted = wanted(seen, &old).map_err(failed)?;
        let revision = template::revision(&wanted);
        let (made, others): (Vec<&Pod>, Vec<&Pod>) =
            alive.into_iter().partition(|pod| revision_of(pod) == Some(revision.as_str()));
        let step = match status.rollback {
            false => Step {
                new: wanted,
                revision,
                old_pods: others,
                new_pods: made,
                ending: ending.len(),
                seen,
                status,
                now,
            },
            true => Step {
                revision: back(&old),
                new: old,
                old_pods: made,
                new_pods: others,
                ending: ending.len(),
                seen,
                status,
                now,
            },
        };
        step.check().map_err(failed)?;
        Ok(step)
    }

    fn check(&self) -> Result<(), String> {
        let service = &self.seen.update.spec.service_ref;
        if let Some(owner) = self.old_pods.iter().find_map(|pod| owner(pod)) {
            return Err(format!("pods of Service {service} belong to {owner}: change that instead"));
        }
        let (total, alive) = (self.status.total, self.minimum_alive());
        if alive >= total {
            return Err(format!("minimumAlive is {alive}, and there are {total} pods: none may be replaced"));
        }
        Ok(())
    }

    fn minimum_alive(&self) -> i32 {
        self.seen.update.spec.minimum_alive.unwrap_or(1).max(0)
    }

    /// Counts, and whether it must go back.
    fn judge(&mut self) {
        let (before, since) = errors::totals(&self.seen.progress);
        // A node whose agent was started anew counts from the beginning again.
        if since.total >= self.status.requests.total {
            self.status.requests = since;
        }
        let spec = &self.seen.update.spec;
        if !self.status.rollback {
            let max = spec.max_errors.unwrap_or(errors::MAX_ERRORS);
            let reason = match spec.abort {
                true => Some("it was aborted: it goes back".to_owned()),
                false => errors::rise(before, self.status.requests, max).or_else(|| self.is_late()),
            };
            if let Some(reason) = reason {
                self.go_back(reason);
            }
        }
        let is_ready = |pods: &[&Pod]| pods.iter().filter(|pod| is_ready(pod)).count();
        let made = if self.status.rollback { &self.old_pods } else { &self.new_pods };
        self.status.updated = count(is_ready(made));
        self.status.available = count(is_ready(&self.old_pods) + is_ready(&self.new_pods));
    }

    fn is_late(&self) -> Option<String> {
        let batch = self.status.batch.as_ref().filter(|batch| batch.step == CREATING)?;
        let seconds = self.seen.update.spec.progress_deadline_seconds.unwrap_or(DEADLINE);
        let deadline = add(batch.since.as_ref()?.0, SignedDuration::from_secs(seconds.into()));
        (deadline <= self.now).then(|| format!("new pods were not ready within {seconds} s: it goes back"))
    }

    /// What was drained is not any more.
    fn go_back(&mut self, reason: String) {
        let old = self.status.old_pod.clone().unwrap_or_default();
        self.revision = back(&old);
        self.new = old;
        std::mem::swap(&mut self.old_pods, &mut self.new_pods);
        self.status.rollback = true;
        self.status.message = Some(reason);
        self.status.batch = None;
        self.status.phase = PAUSING.to_owned();
        self.status.resume_time = None;
    }

    fn take(&mut self, plan: &mut Plan) {
        if self.status.phase == DRAINING && self.drain(plan) {
            return;
        }
        if self.ending > 0 {
            return self.enter(REPLACING, DELETING);
        }
        let total = usize::try_from(self.status.total).unwrap_or_default();
        let missing = total.saturating_sub(self.old_pods.len() + self.new_pods.len());
        if missing > 0 {
            return self.create(missing, plan);
        }
        if !self.new_pods.iter().all(|pod| is_ready(pod)) {
            self.enter(REPLACING, CREATING);
            return self.wait_for_deadline(plan);
        }
        if self.status.phase == REPLACING {
            self.enter(VERIFYING, VERIFYING);
        }
        if self.status.phase == VERIFYING && self.verify(plan) {
            return;
        }
        if self.status.phase == PAUSING && self.rests(plan) {
            return;
        }
        match self.old_pods.is_empty() {
            true => self.finish(),
            false => self.begin_batch(plan),
        }
    }

    /// Whether there is still something to wait for, or just done, before the pods of the batch are gone.
    fn drain(&mut self, plan: &mut Plan) -> bool {
        let Some(batch) = self.status.batch.clone() else { return false };
        let leaving: Vec<&Pod> = self
            .old_pods
            .iter()
            .filter(|pod| batch.pods.iter().any(|one| name(pod) == one))
            .copied()
            .collect();
        if leaving.is_empty() {
            return false;
        }
        if batch.step == WEIGHT_ZERO {
            let behind = self.behind(
                |progress, pod| {
                    let has = |list: &[String]| list.iter().any(|one| one == pod);
                    !has(&progress.routed) && !has(&progress.changing)
                },
                &leaving,
            );
            if self.waits(&behind, FOLLOW_BOUND, plan) {
                return true;
            }
            self.enter(DRAINING, IN_FLIGHT);
        }
        let is_idle = |pod: &&Pod| {
            !has_proxy(pod)
                || self.seen.progress.values().any(|node| node.idle.iter().any(|one| one == name(pod)))
        };
        let busy = leaving.iter().filter(|pod| !is_idle(pod));
        let busy: Vec<String> = busy.map(|pod| format!("requests to {}", name(pod))).collect();
        let grace =
            leaving.iter().filter_map(|pod| pod.spec.as_ref()?.termination_grace_period_seconds).max();
        if self.waits(&busy, SignedDuration::from_secs(grace.unwrap_or(GRACE)), plan) {
            return true;
        }
        self.enter(REPLACING, DELETING);
        plan.actions.extend(leaving.iter().map(|pod| Action::delete(*pod)));
        true
    }

    /// Nodes of which it does not hold for all of these pods.
    fn behind(
        &self,
        holds: impl Fn(&minik8s_meta::mesh::MeshProgressSpec, &str) -> bool,
        pods: &[&Pod],
    ) -> Vec<String> {
        let follows = |node: &&String| {
            let progress = self.seen.progress.get(*node);
            progress.is_some_and(|progress| pods.iter().all(|pod| holds(progress, name(pod))))
        };
        self.seen.nodes.iter().filter(|node| !follows(node)).cloned().collect()
    }

    /// Whether the step goes on, for as long as somebody is waited for and the bound lasts.
    fn waits(&mut self, whom: &[String], bound: SignedDuration, plan: &mut Plan) -> bool {
        let now = self.now;
        let Some(batch) = &mut self.status.batch else { return false };
        batch.waiting_for = whom.to_vec();
        let until = add(batch.since.as_ref().map_or(now, |since| since.0), bound);
        let waits = !whom.is_empty() && until > now;
        if waits {
            plan.again_at(until, now);
        }
        waits
    }

    fn create(&mut self, missing: usize, plan: &mut Plan) {
        let step = self.status.batch.as_ref().map(|batch| batch.step.clone()).unwrap_or_default();
        if step != CREATING {
            if step != PAUSE {
                self.enter(REPLACING, PAUSE);
                self.status.resume_time = Some(Time(add(self.now, self.half())));
            }
            if self.rests(plan) {
                return;
            }
        }
        self.enter(REPLACING, CREATING);
        self.wait_for_deadline(plan);
        let names: BTreeSet<&str> = self.seen.pods.iter().map(|pod| name(pod)).collect();
        let free =
            |number: usize| format!("{}-{}-{number}", self.seen.update.spec.service_ref, self.revision);
        let free = (0..).map(free).filter(|name| !names.contains(name.as_str()));
        for name in free.take(missing) {
            plan.act(Action::create(&self.pod(name)));
        }
    }

    fn pod(&self, name: String) -> Pod {
        let meta = self.new.metadata.clone().unwrap_or_default();
        let mut labels = meta.labels.unwrap_or_default();
        let service = self.seen.service.as_ref().and_then(|service| service.spec.as_ref());
        labels.extend(service.and_then(|spec| spec.selector.clone()).unwrap_or_default());
        labels.insert(REVISION.to_owned(), self.revision.clone());
        Pod {
            metadata: ObjectMeta {
                name: Some(name),
                namespace: self.seen.update.metadata.namespace.clone(),
                labels: Some(labels),
                ..ObjectMeta::default()
            },
            spec: self.new.spec.clone(),
            ..Pod::default()
        }
    }

    /// Whether some proxies do not send requests to the new pods yet.
    fn verify(&mut self, plan: &mut Plan) -> bool {
        let meshed: Vec<&Pod> = self.new_pods.iter().filter(|pod| has_proxy(pod)).copied().collect();
        let behind = self.behind(|progress, pod| progress.routed.iter().any(|one| one == pod), &meshed);
        let behind = if meshed.is_empty() { Vec::new() } else { behind };
        if self.waits(&behind, FOLLOW_BOUND, plan) {
            return true;
        }
        if let Some(batch) = self.status.batch.take() {
            self.status.history.push(batch);
            let too_many = self.status.history.len().saturating_sub(LONGEST_HISTORY);
            self.status.history.drain(..too_many);
        }
        self.status.phase = PAUSING.to_owned();
        self.status.resume_time = Some(Time(add(self.now, self.half())));
        false
    }

    fn begin_batch(&mut self, plan: &mut Plan) {
        let ready = self.old_pods.iter().chain(&self.new_pods).filter(|pod| is_ready(pod)).count();
        let spare = ready.saturating_sub(usize::try_from(self.minimum_alive()).unwrap_or_default());
        // Those that do not serve can go in any case.
        let broken = self.old_pods.iter().filter(|pod| !is_ready(pod));
        let serving = self.old_pods.iter().filter(|pod| is_ready(pod)).take(spare);
        let pods: Vec<String> = broken.chain(serving).map(|pod| name(pod).to_owned()).collect();
        if pods.is_empty() {
            return;
        }
        let number = self.status.history.last().map_or(0, |batch| batch.number) + 1;
        let since = Some(Time(self.now));
        let step = WEIGHT_ZERO.to_owned();
        self.status.batch = Some(Batch { number, pods, step, since, waiting_for: Vec::new() });
        self.status.phase = DRAINING.to_owned();
        self.status.resume_time = None;
        // Everything that is looked at may have changed when this is written.
        plan.again_at(self.now, self.now);
    }

    fn finish(&mut self) {
        self.status.phase = if self.status.rollback { ABORTED } else { DONE }.to_owned();
        self.status.batch = None;
        self.status.resume_time = None;
    }

    fn enter(&mut self, phase: &str, step: &str) {
        self.status.phase = phase.to_owned();
        let since = Time(self.now);
        let last = self.status.history.last().map_or(0, |batch| batch.number);
        let batch = self.status.batch.get_or_insert_with(|| Batch { number: last + 1, ..Batch::default() });
        if batch.step != step {
            *batch = Batch {
                step: step.to_owned(),
                since: Some(since),
                waiting_for: Vec::new(),
                ..std::mem::take(batch)
            };
        }
    }

    fn half(&self) -> SignedDuration {
        SignedDuration::from_millis(i64::from(self.seen.update.spec.interval.unwrap_or(0).max(0)) * 500)
    }

    fn rests(&self, plan: &mut Plan) -> bool {
        let until = self.status.resume_time.as_ref().map_or(self.now, |time| time.0);
        if until > self.now {
            plan.again_at(until, self.now);
        }
        until > self.now
    }

    fn wait_for_deadline(&self, plan: &mut Plan) {
        let since = self.status.batch.as_ref().and_then(|batch| batch.since.as_ref());
        let seconds = self.seen.update.spec.progress_deadline_seconds.unwrap_or(DEADLINE);
        if let Some(since) = since.filter(|_| !self.status.rollback) {
            plan.again_at(add(since.0, SignedDuration::from_secs(seconds.into())), self.now);
        }
    }
}

fn check_service(seen: &Observed) -> Result<(), String> {
    let name = &seen.update.spec.service_ref;
    let service = seen.service.as_ref().ok_or_else(|| format!("there is no Service {name}"))?;
    let unknown = seen.update.spec.port.filter(|port| port_of(service, *port).is_none());
    if let Some(port) = unknown {
        return Err(format!("Service {name} has no TCP port {port}"));
    }
    let selector = service.spec.as_ref().and_then(|spec| spec.selector.as_ref());
    match selector.is_none_or(|labels| labels.is_empty()) {
        true => Err(format!("Service {name} selects no pods")),
        false => Ok(()),
    }
}

fn wanted(seen: &Observed, old: &PodTemplateSpec) -> Result<PodTemplateSpec, String> {
    let spec = &seen.update.spec;
    match &spec.new_pod_spec {
        Some(new) => Ok(PodTemplateSpec { metadata: None, spec: Some(new.clone()) }),
        None => template::with_images(old, &spec.images)
            .map_err(|name| format!("pods of Service {} have no container {name}", spec.service_ref)),
    }
}

/// Pods that were made to go back are told from new ones, also where both are the same.
fn back(old: &PodTemplateSpec) -> String {
    format!("{}-back", template::revision(old))
}

fn owner(pod: &Pod) -> Option<String> {
    let mut owners = pod.metadata.owner_references.iter().flatten();
    let owner = owners.find(|owner| owner.controller == Some(true))?;
    Some(format!("{} {}", owner.kind, owner.name))
}

fn revision_of(pod: &Pod) -> Option<&str> {
    pod.metadata.labels.as_ref()?.get(REVISION).map(String::as_str)
}

fn name(pod: &Pod) -> &str {
    pod.metadata.name.as_deref().unwrap_or_default()
}

fn has_proxy(pod: &Pod) -> bool {
    pod.spec.as_ref().is_some_and(takes_inbound)
}

fn add(time: Timestamp, span: SignedDuration) -> Timestamp {
    time.checked_add(span).unwrap_or(Timestamp::MAX)
}

fn count(number: usize) -> i32 {
    i32::try_from(number).unwrap_or(i32::MAX)
}

fn has_ended(pod: &Pod) -> bool {
    let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
    matches!(phase, Some("Succeeded" | "Failed"))
}

fn is_ready(pod: &Pod) -> bool {
    let conditions = pod.status.as_ref().and_then(|status| status.conditions.as_ref());
    conditions.into_iter().flatten().any(|condition| condition.type_ == "Ready" && condition.status == "True")
}
