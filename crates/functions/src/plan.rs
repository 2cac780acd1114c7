//! How many instances a function is to have, of which revision, and which of them get requests.
//!
//! The newest revision gets requests once all the instances that the demand asks for, one at least, are ready; until then
//! those of the one before do. So the first instance of every revision is started without a request, and code that cannot
//! be imported is found out before anybody calls it. Instances leave the endpoints before they are told to end.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use k8s_openapi::jiff::{SignedDuration, Timestamp};
use minik8s_meta::Backoff;
use minik8s_meta::function::{
    Function, FunctionEndpoints, FunctionEndpointsSpec, FunctionInstance, REVISION_READY, runtime,
};
use minik8s_runtime::{Action, Plan, owner_reference};

use crate::build::{self, Dependencies};
use crate::controller::Observed;
use crate::revision::{self, Code, hash_of};
use crate::status::{self, Outcome, Verdict};
use crate::traffic::{self, Split};

/// A router that has requests says so more often than this.
const DEMAND_LIFE: SignedDuration = SignedDuration::from_secs(60);
/// Revisions that are kept to go back to.
const KEPT: usize = 10;
/// Between a start that failed and the next: doubled each time.
const BACKOFF: Backoff = Backoff::millis(1_000, 120_000);

pub fn plan(seen: &Observed, now: Timestamp) -> Plan {
    let mut plan = Plan::default();
    let function = &*seen.function;
    if function.metadata.deletion_timestamp.is_some() {
        return plan;
    }
    let newest = revision::hash(function);
    let number = keep_revision(seen, &newest, &mut plan);
    let pods = Pods::of(seen);
    let demand = demanded(seen, now, &mut plan);
    let dependencies = Dependencies::of(seen, &newest);
    let verdict = Verdict::of(seen, &newest, &dependencies, now);
    let old = function.status.clone().unwrap_or_default();
    let mut serving = old.serving.clone();
    let mut outcome = Outcome { number, verdict, ..Outcome::default() };
    if serving.as_deref() != Some(&newest) {
        let needed = demand.max(1);
        if pods.ready(&newest).count() >= needed {
            serving = Some(newest.clone());
            outcome.switched = true;
        } else if let Some(revision) = at_revision(seen, &newest, &newest) {
            add(&revision, &pods, &newest, needed, &outcome.verdict, now, &mut plan);
        } else {
            outcome.building = matches!(dependencies, Dependencies::Missing(_));
        }
    }
    let desired = match serving.as_deref() == Some(&newest) {
        true => demand.max(warm(seen, &outcome, now, &mut plan)),
        false => demand,
    };
    let splits = traffic::splits(seen, serving.as_deref());
    let mut needed: Vec<&str> = splits.iter().map(|split| split.hash.as_str()).collect();
    needed.extend([newest.as_str()].into_iter().chain(serving.as_deref()));
    let mut leaving = pods.none_of(&needed);
    if let Some(serving) = serving.as_deref() {
        // Of an older revision there is what its ConfigMap kept.
        if let Some(revision) = at_revision(seen, &newest, serving) {
            add(&revision, &pods, serving, desired, &outcome.verdict, now, &mut plan);
        }
        leaving.extend(pods.surplus(serving, desired));
    }
    for split in &splits {
        let wanted = split.instances(demand);
        if let Some(revision) = at_revision(seen, &newest, &split.hash) {
            add(&revision, &pods, &split.hash, wanted, &outcome.verdict, now, &mut plan);
        }
        leaving.extend(pods.surplus(&split.hash, wanted));
    }
    outcome.instances = instances(&pods, serving.as_deref(), &splits, &leaving);
    (outcome.shares, outcome.unsplit) =
        traffic::shares(seen, &splits, serving.as_deref(), &outcome.instances);
    outcome.serving = serving;
    outcome.desired = desired;
    outcome.live = pods.live.len();
    build::plan(seen, &newest, &dependencies, outcome.verdict.failure.as_ref(), now, &mut plan);
    // Routers hear of it first.
    write_endpoints(seen, &outcome, &mut plan);
    status::write(seen, &outcome, now, &mut plan);
    let gone = pods.ended.iter().chain(&leaving);
    gone.for_each(|pod| plan.act(Action::delete(&**pod)));
    plan
}

/// The number of the newest revision; keeps it, and forgets the oldest.
fn keep_revision(seen: &Observed, newest: &str, plan: &mut Plan) -> i64 {
    let function = &*seen.function;
    let mut maps = seen.maps.clone();
    maps.sort_by_key(|map| revision::number(map));
    let last = maps.last().map_or(0, |map| revision::number(map));
    if let Some(known) = maps.iter().find(|map| hash_of(&map.metadata) == newest) {
        return revision::number(known);
    }
    let recorded = function.status.as_ref().map_or(0, |status| status.revision);
    let number = last.max(recorded) + 1;
    plan.act(Action::create(&revision::config_map(function, newest, number, seen.in_registry)));
    let serving = function.status.as_ref().and_then(|status| status.serving.as_deref());
    let spare = maps.len().saturating_sub(KEPT - 1);
    let has_traffic = |number: i64| function.spec.traffic.iter().any(|share| share.revision == number);
    let is_spare = |map: &&Arc<ConfigMap>| {
        Some(hash_of(&map.metadata)) != serving && !has_traffic(revision::number(map))
    };
    let oldest = maps.iter().filter(is_spare).take(spare);
    oldest.for_each(|map| plan.act(Action::delete(&**map)));
    number
}

/// The function's pods by what becomes of them.
struct Pods {
    live: Vec<Arc<Pod>>,
    /// Ended by themselves.
    ended: Vec<Arc<Pod>>,
}

impl Pods {
    fn of(seen: &Observed) -> Pods {
        let (mut live, mut ended) = (Vec::new(), Vec::new());
        for pod in seen.pods.iter().filter(|pod| pod.metadata.deletion_timestamp.is_none()) {
            if status::has_ended(pod) { &mut ended } else { &mut live }.push(pod.clone());
        }
        Pods { live, ended }
    }

    fn of_revision<'a>(&'a self, hash: &'a str) -> impl Iterator<Item = &'a Arc<Pod>> {
        self.live.iter().filter(move |pod| hash_of(&pod.metadata) == hash)
    }

    fn ready<'a>(&'a self, hash: &'a str) -> impl Iterator<Item = &'a Arc<Pod>> {
        self.of_revision(hash).filter(|pod| status::is_ready(pod))
    }

    /// Of revisions that nobody needs any more.
    fn none_of(&self, needed: &[&str]) -> Vec<Arc<Pod>> {
        self.live.iter().filter(|pod| !needed.contains(&hash_of(&pod.metadata))).cloned().collect()
    }

    /// More than `wanted`: those that are not ready first, then the youngest.
    fn surplus(&self, hash: &str, wanted: usize) -> Vec<Arc<Pod>> {
        let mut pods: Vec<_> = self.of_revision(hash).cloned().collect();
        let created = |pod: &Pod| pod.metadata.creation_timestamp.as_ref().map(|time| time.0);
        let name = |pod: &Pod| pod.metadata.name.clone();
        pods.sort_by_key(|pod| (!status::is_ready(pod), created(pod), name(pod)));
        pods.split_off(wanted.min(pods.len()))
    }
}

/// Instances that the requests on all nodes need, within the function's bounds.
fn demanded(seen: &Observed, now: Timestamp, plan: &mut Plan) -> usize {
    let spec = &seen.function.spec;
    let mut requests = 0_u64;
    for demand in seen.demands.iter().filter(|demand| demand.spec.requests > 0) {
        let until = demand.spec.at.as_ref().and_then(|at| at.0.checked_add(DEMAND_LIFE).ok());
        if let Some(until) = until.filter(|until| *until > now) {
            requests += u64::from(demand.spec.requests);
            plan.again_at(until, now);
        }
    }
    let wanted = spec.instances_for(requests);
    // Routers tell of requests until the function has been idle for its time.
    let active = if requests > 0 { u64::from(spec.min_active()) } else { 0 };
    let (min, max) = (u64::from(spec.min()).max(active), u64::from(spec.max()));
    usize::try_from(wanted.clamp(min.min(max), max)).unwrap_or(usize::MAX)
}

/// The instance that proved a revision stays as long as one after a request.
fn warm(seen: &Observed, outcome: &Outcome, now: Timestamp, plan: &mut Plan) -> usize {
    let idle = SignedDuration::from_secs(i64::from(seen.function.spec.idle_seconds()));
    let since = match outcome.switched {
        true => Some(now),
        false => status::condition(&seen.function, REVISION_READY)
            .filter(|condition| condition.status == "True")
            .map(|condition| condition.last_transition_time.0),
    };
    let until = since.and_then(|since| since.checked_add(idle).ok()).filter(|until| *until > now);
    until.map_or(0, |until| {
        plan.again_at(until, now);
        1
    })
}

/// Starts what is missing, unless the last start failed and it is too early for another.
fn add(
    (function, code): &(Function, Code),
    pods: &Pods,
    hash: &str,
    wanted: usize,
    verdict: &Verdict,
    now: Timestamp,
    plan: &mut Plan,
) {
    let missing = wanted.saturating_sub(pods.of_revision(hash).count());
    if missing == 0 {
        return;
    }
    if let Some(failure) = verdict.failure.as_ref().filter(|failure| failure.revision == hash) {
        // One that was lost is replaced at once; what does not start is tried again ever later.
        let pause = match u32::try_from(failure.count.saturating_sub(1)).unwrap_or(0) {
            0 => Duration::ZERO,
            failures => BACKOFF.after(failures),
        };
        let next = failure.at.0.checked_add(pause).unwrap_or(now);
        if next > now {
            plan.again_at(next, now);
            return;
        }
    }
    for _ in 0..missing {
        plan.act(Action::create(&revision::pod(function, hash, code)));
    }
}

/// The function as it was at a revision, with what it depends on, and its code; nothing while one of them is not there.
fn at_revision(seen: &Observed, newest: &str, hash: &str) -> Option<(Function, Code)> {
    let Dependencies::Ready(image) = Dependencies::of(seen, hash) else { return None };
    let mut function = Function::clone(&seen.function);
    let map = seen.map_of(hash);
    if hash != newest {
        function.spec = revision::spec_of(map?)?;
    }
    function.spec.dependencies = image.or(function.spec.dependencies);
    match Code::of(map, &function, seen.in_registry) {
        Code::Missing => None,
        code => Some((function, code)),
    }
}

/// Those that routers may use: also those that do not listen yet, where a request may wait for them.
fn instances(
    pods: &Pods,
    serving: Option<&str>,
    splits: &[Split],
    leaving: &[Arc<Pod>],
) -> Vec<FunctionInstance> {
    let stays = |pod: &&Arc<Pod>| !leaving.iter().any(|other| Arc::ptr_eq(other, pod));
    let hashes = serving.into_iter().chain(splits.iter().map(|split| split.hash.as_str()));
    let of_all = hashes.flat_map(|hash| pods.of_revision(hash));
    let mut instances: Vec<_> = of_all.filter(stays).filter_map(|pod| status::instance(pod)).collect();
    instances.sort_by(|a, b| a.pod.cmp(&b.pod));
    instances
}

pub fn write_endpoints(seen: &Observed, outcome: &Outcome, plan: &mut Plan) {
    let function = &*seen.function;
    let spec = &function.spec;
    let calls = spec.async_calls.as_ref();
    let retries = calls.and_then(|calls| calls.retries);
    let wanted = FunctionEndpointsSpec {
        uid: function.metadata.uid.clone().unwrap_or_default(),
        concurrency: spec.concurrency(),
        timeout_seconds: spec.timeout_seconds(),
        queue_seconds: spec.queue_seconds(),
        queue_max: spec.queue_max(),
        idle_seconds: spec.idle_seconds(),
        scale_down_seconds: spec.scale_down_seconds(),
        problem: outcome.problem(),
        instances: outcome.instances.clone(),
        traffic: outcome.shares.clone(),
        attempts: retries.and_then(|retries| u32::try_from(retries).ok()).map(|retries| retries + 1),
        max_age_seconds: calls
            .and_then(|calls| calls.max_age_seconds)
            .and_then(|age| u32::try_from(age).ok()),
        // By its own name, whichever the function uses.
        runtime: spec.runtime.as_deref().and_then(runtime).map(|runtime| runtime.name.to_owned()),
    };
    match &seen.endpoints {
        Some(endpoints) if endpoints.spec == wanted => {}
        Some(endpoints) => {
            plan.act(Action::update(&FunctionEndpoints {
                spec: wanted,
                ..FunctionEndpoints::clone(endpoints)
            }));
        }
        None => plan.act(Action::create(&FunctionEndpoints {
            metadata: ObjectMeta {
                name: function.metadata.name.clone(),
                namespace: function.metadata.namespace.clone(),
                owner_references: Some(vec![owner_reference(function)]),
                ..ObjectMeta::default()
            },
            spec: wanted,
            ..FunctionEndpoints::default()
        })),
    }
}
