//! What a RollingUpdate does next. Pure.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use k8s_openapi::jiff::{SignedDuration, Timestamp};
use minik8s_runtime::{Action, Plan};
use sha2::{Digest, Sha256};

use super::{Observed, RollingUpdate, RollingUpdateStatus};

/// Pods on their way out; they are waited for.
const DRAINING: &str = "Draining";
/// They are gone, and a pause follows.
const DRAINED: &str = "Drained";
const CREATING: &str = "Creating";
/// New ones are ready, and a pause follows.
const CREATED: &str = "Created";
pub const DONE: &str = "Done";
const FAILED: &str = "Failed";

/// On the pods that it made: which spec they have.
const REVISION: &str = "minik8s.io/rolling-update-revision";

pub fn plan(seen: &Observed, now: Timestamp) -> Plan {
    let mut plan = Plan::default();
    let update = &*seen.update;
    let old = update.status.clone().unwrap_or_default();
    let is_same = old.observed_generation == update.metadata.generation;
    if update.metadata.deletion_timestamp.is_some() || is_same && old.phase == DONE {
        return plan;
    }
    let revision = revision(update);
    let groups = Groups::of(&seen.pods, &revision);
    let begun = if is_same && old.total > 0 { old.total } else { count(groups.live()) };
    let mut status = RollingUpdateStatus {
        observed_generation: update.metadata.generation,
        phase: if is_same { old.phase.clone() } else { String::new() },
        total: begun,
        updated: count(groups.new.iter().filter(|pod| is_ready(pod)).count()),
        resume_time: old.resume_time.clone().filter(|_| is_same),
        message: None,
    };
    match problem(seen, &groups, begun) {
        Some(message) => {
            status.phase = FAILED.to_owned();
            status.message = Some(message);
        }
        None => step(seen, &groups, &revision, &mut status, now, &mut plan),
    }
    plan.status(update, RollingUpdate { status: Some(status), ..update.clone() });
    plan
}

/// The Service's pods that have not ended.
struct Groups<'a> {
    old: Vec<&'a Pod>,
    new: Vec<&'a Pod>,
    ending: usize,
}

impl<'a> Groups<'a> {
    fn of(pods: &'a [std::sync::Arc<Pod>], revision: &str) -> Self {
        let mut groups = Groups { old: Vec::new(), new: Vec::new(), ending: 0 };
        for pod in pods.iter().map(AsRef::as_ref).filter(|pod| !has_ended(pod)) {
            let labels = pod.metadata.labels.as_ref();
            if pod.metadata.deletion_timestamp.is_some() {
                groups.ending += 1;
            } else if labels.and_then(|labels| labels.get(REVISION)).is_some_and(|known| known == revision) {
                groups.new.push(pod);
            } else {
                groups.old.push(pod);
            }
        }
        groups
    }

    fn live(&self) -> usize {
        self.old.len() + self.new.len()
    }
}

fn problem(seen: &Observed, groups: &Groups<'_>, total: i32) -> Option<String> {
    let spec = &seen.update.spec;
    let Some(service) = &seen.service else {
        return Some(format!("there is no Service {}", spec.service_ref));
    };
    let selector = service.spec.as_ref().and_then(|spec| spec.selector.as_ref());
    if selector.is_none_or(|labels| labels.is_empty()) {
        return Some(format!("Service {} selects no pods", spec.service_ref));
    }
    let owner = |pod: &&Pod| {
        let owners = pod.metadata.owner_references.iter().flatten();
        owners
            .filter(|owner| owner.controller == Some(true))
            .map(|owner| format!("{} {}", owner.kind, owner.name))
            .next()
    };
    if let Some(owner) = groups.old.iter().find_map(owner) {
        return Some(format!("pods of Service {} belong to {owner}: change that instead", spec.service_ref));
    }
    if total == 0 {
        return Some(format!("Service {} has no pods to replace", spec.service_ref));
    }
    let alive = minimum_alive(seen);
    (alive >= total)
        .then(|| format!("minimumAlive is {alive}, and there are {total} pods: none may be replaced"))
}

fn minimum_alive(seen: &Observed) -> i32 {
    seen.update.spec.minimum_alive.unwrap_or(1).max(0)
}

fn step(
    seen: &Observed,
    groups: &Groups<'_>,
    revision: &str,
    status: &mut RollingUpdateStatus,
    now: Timestamp,
    plan: &mut Plan,
) {
    let half = SignedDuration::from_millis(i64::from(seen.update.spec.interval.unwrap_or(0).max(0)) * 500);
    let rests = |phase: &str, status: &mut RollingUpdateStatus, plan: &mut Plan| -> bool {
        if status.phase != phase {
            status.phase = phase.to_owned();
            status.resume_time = now.checked_add(half).ok().map(Time);
        }
        let until = status.resume_time.as_ref().map_or(now, |time| time.0);
        if until > now {
            plan.again_at(until, now);
        }
        until > now
    };
    if groups.ending > 0 {
        status.phase = DRAINING.to_owned();
        return;
    }
    let missing = usize::try_from(status.total).unwrap_or_default().saturating_sub(groups.live());
    if missing > 0 {
        if status.phase != CREATING && rests(DRAINED, status, plan) {
            return;
        }
        status.phase = CREATING.to_owned();
        create(seen, revision, missing, plan);
        return;
    }
    if !groups.new.iter().all(|pod| is_ready(pod)) {
        status.phase = CREATING.to_owned();
        return;
    }
    // Not before the first batch.
    let after_batch = !groups.new.is_empty();
    if after_batch && status.phase != DRAINING && rests(CREATED, status, plan) {
        return;
    }
    if groups.old.is_empty() {
        status.phase = DONE.to_owned();
        status.resume_time = None;
        return;
    }
    let ready = groups.old.iter().chain(&groups.new).filter(|pod| is_ready(pod)).count();
    let alive = usize::try_from(minimum_alive(seen)).unwrap_or_default();
    let spare = ready.saturating_sub(alive);
    // Those that do not serve can go in any case.
    let broken = groups.old.iter().filter(|pod| !is_ready(pod));
    let serving = groups.old.iter().filter(|pod| is_ready(pod)).take(spare);
    for pod in broken.chain(serving) {
        status.phase = DRAINING.to_owned();
        plan.act(Action::delete(*pod));
    }
}

fn create(seen: &Observed, revision: &str, missing: usize, plan: &mut Plan) {
    let update = &*seen.update;
    let names: BTreeSet<&str> = seen.pods.iter().filter_map(|pod| pod.metadata.name.as_deref()).collect();
    let selector = seen.service.as_ref().and_then(|service| service.spec.as_ref()?.selector.clone());
    let mut labels = selector.unwrap_or_default();
    labels.insert(REVISION.to_owned(), revision.to_owned());
    let name = |number: usize| format!("{}-{revision}-{number}", update.spec.service_ref);
    let free = (0..).map(name).filter(|name| !names.contains(name.as_str()));
    for name in free.take(missing) {
        plan.act(Action::create(&Pod {
            metadata: ObjectMeta {
                name: Some(name),
                namespace: update.metadata.namespace.clone(),
                labels: Some(labels.clone()),
                ..ObjectMeta::default()
            },
            spec: Some(update.spec.new_pod_spec.clone()),
            ..Pod::default()
        }));
    }
}

fn revision(update: &RollingUpdate) -> String {
    let text = serde_json::to_string(&update.spec.new_pod_spec).unwrap_or_default();
    Sha256::digest(text).iter().take(4).map(|byte| format!("{byte:02x}")).collect()
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
