//! The scheduler in the world: watches feed it, and its effects become requests.

use std::sync::Arc;
use std::time::Instant;

use k8s_openapi::api::core::v1::{Node, PersistentVolumeClaim, Pod, PodCondition};
use k8s_openapi::api::resource::v1::ResourceClaim;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::jiff::Timestamp;
use kube::Client;
use minik8s_metrics::History;
use minik8s_runtime::{Action, Caches, EventRecord, Executor, Object, Plan, Target};
use serde_json::json;
use tokio::sync::{Semaphore, watch};
use tokio_util::sync::CancellationToken;

use crate::bound_claims::{BoundClaims, SELECTED_NODE};
use crate::devices::Reservation;
use crate::inbox::Inbox;
use crate::measured;
use crate::ready_devices::ReadyDevices;
use crate::reserve::{deallocate, reserve};
use crate::scheduler::{Change, Effect, Event, Scheduler};
use crate::snapshot::PodInfo;
use crate::strategy::Strategy;

const COMPONENT: &str = "default-scheduler";
/// Requests in flight at most.
const MOST_REQUESTS: usize = 256;
/// Decisions in a row before other tasks get their turn.
const BATCH: usize = 32;

/// What the scheduler needs to be told.
#[derive(Clone)]
pub struct Config {
    /// Serves pods with this `schedulerName`.
    pub name: String,
    /// Until the cluster's settings say otherwise.
    pub strategy: Strategy,
    pub stop: CancellationToken,
    /// Decides only while this says true.
    pub leads: watch::Receiver<bool>,
    /// Caches to share with others of this process.
    pub caches: Option<Arc<Caches>>,
    /// What nodes really use; None where nobody measures.
    pub metrics: Option<Arc<History>>,
}

impl Default for Config {
    fn default() -> Self {
        Config {
            name: COMPONENT.to_owned(),
            strategy: Strategy::default(),
            stop: CancellationToken::new(),
            leads: watch::channel(true).1,
            caches: None,
            metrics: None,
        }
    }
}

/// Schedules until `config.stop`.
pub async fn run(client: Client, config: Config) {
    let Config { name, strategy, stop, mut leads, caches, metrics } = config;
    let caches = caches.unwrap_or_else(|| Caches::new(client.clone(), stop.clone()));
    let inbox = Inbox::default();
    listen::<Pod>(&caches, &inbox, Event::Pod);
    listen::<Node>(&caches, &inbox, Event::Node);
    listen(&caches, &inbox, Event::Namespace);
    listen(&caches, &inbox, Event::Claim);
    listen(&caches, &inbox, Event::Volume);
    listen(&caches, &inbox, Event::Class);
    listen(&caches, &inbox, Event::CsiNode);
    listen(&caches, &inbox, Event::CsiDriver);
    listen(&caches, &inbox, Event::CsiCapacity);
    listen(&caches, &inbox, Event::Budget);
    listen(&caches, &inbox, Event::Settings);
    listen::<ResourceClaim>(&caches, &inbox, Event::DeviceClaim);
    listen(&caches, &inbox, Event::Slice);
    listen(&caches, &inbox, Event::DeviceClass);
    listen(&caches, &inbox, Event::TaintRule);
    let ready = async {
        // Deciding before all pods are known would place them where others are.
        caches.of::<Pod>().wait_synced().await;
        caches.of::<Node>().wait_synced().await;
        // And before all claims are known, it would give their devices to others.
        caches.of::<ResourceClaim>().wait_synced().await;
        if leads.wait_for(|leads| *leads).await.is_err() && !*leads.borrow() {
            std::future::pending::<()>().await;
        }
    };
    tokio::select! {
        () = ready => {}
        () = stop.cancelled() => return,
    }
    let executor = Arc::new(Executor::new(client.clone(), caches.clone(), caches.recorder()));
    let claims = caches.clone();
    if let Some(metrics) = metrics {
        tokio::spawn(measured::tell(metrics, caches, inbox.clone(), stop.clone()));
    }
    let hands = Hands {
        client,
        executor,
        inbox: inbox.clone(),
        permits: Arc::new(Semaphore::new(MOST_REQUESTS)),
        claims: BoundClaims::follow(&claims),
        devices: ReadyDevices::follow(&claims),
    };
    let seed = u64::try_from(Timestamp::now().as_nanosecond() & i128::from(u64::MAX)).unwrap_or(1);
    serve(Scheduler::new(&name, strategy, seed), inbox, hands, stop).await;
}

fn listen<K: Object>(caches: &Caches, inbox: &Inbox, event: fn(Change<K>) -> Event) {
    let inbox = inbox.clone();
    caches.of::<K>().listen(Box::new(move |old, new| {
        inbox.send(event((old.cloned(), new.cloned())));
    }));
}

async fn serve(mut scheduler: Scheduler, inbox: Inbox, hands: Hands, stop: CancellationToken) {
    loop {
        while let Some(event) = inbox.try_recv() {
            if let Some(effect) = scheduler.handle(event, Instant::now()) {
                hands.perform(effect).await;
            }
        }
        let mut decided = 0;
        while decided < BATCH && !stop.is_cancelled() {
            let Some(effects) = scheduler.step(Instant::now()) else { break };
            for effect in effects {
                hands.perform(effect).await;
            }
            decided += 1;
        }
        if decided == BATCH {
            tokio::task::yield_now().await;
            continue;
        }
        let due = scheduler.next_due();
        let timer = async {
            match due {
                Some(at) => tokio::time::sleep_until(at.into()).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            event = inbox.recv() => {
                if let Some(effect) = scheduler.handle(event, Instant::now()) {
                    hands.perform(effect).await;
                }
            }
            () = timer => {}
            () = stop.cancelled() => return hands.finish().await,
        }
    }
}

struct Hands {
    client: Client,
    executor: Arc<Executor>,
    inbox: Inbox,
    permits: Arc<Semaphore>,
    claims: BoundClaims,
    devices: ReadyDevices,
}

impl Hands {
    /// Starts the request; waits only while too many are in flight.
    async fn perform(&self, effect: Effect) {
        let Ok(permit) = self.permits.clone().acquire_owned().await else { return };
        let executor = self.executor.clone();
        let inbox = self.inbox.clone();
        let bound = self.claims.clone();
        let ready = self.devices.clone();
        let client = self.client.clone();
        tokio::spawn(async move {
            match effect {
                Effect::Bind { pod, node, claims, reservations } => {
                    let mut permit = Some(permit);
                    let mut done = claims.is_empty() || attempt(&executor, selection(&node, &claims)).await;
                    if done && !claims.is_empty() {
                        // This may take long, and is no request.
                        permit.take();
                        done = bound.wait(&claims, &node).await;
                    }
                    done = done && reserve_all(&client, &pod, &reservations).await;
                    if done && ReadyDevices::concern(&reservations) {
                        permit.take();
                        if let Err(why) = ready.wait(&reservations).await {
                            give_up(&client, &executor, &pod, &reservations, &why).await;
                            done = false;
                        }
                    }
                    done = done && attempt(&executor, binding(&pod, &node)).await;
                    if done {
                        let message = format!("Successfully assigned {} to {node}", pod.key);
                        let event = EventRecord::normal(&*pod.pod, "Scheduled", message);
                        executor.recorder().record(COMPONENT, event);
                    }
                    inbox.send(Event::Bound { pod, done });
                }
                Effect::Explain { pod, message, nominate } => {
                    attempt(&executor, explanation(&pod, &message, nominate.as_deref())).await;
                }
                Effect::Deallocate { claim, pod } => {
                    if let Err(error) = deallocate(&client, &pod, &claim).await {
                        tracing::debug!(%error, pod = %pod.key, "a claim keeps its devices");
                    }
                }
                Effect::Gated(pod) => {
                    attempt(&executor, gated(&pod)).await;
                }
                Effect::Evict { victim, by, node } => {
                    attempt(&executor, eviction(&victim, &by, &node)).await;
                }
            }
        });
    }

    /// Waits for the requests in flight.
    async fn finish(self) {
        let _ = self.permits.acquire_many(MOST_REQUESTS as u32).await;
    }
}

async fn reserve_all(client: &Client, pod: &PodInfo, reservations: &[Reservation]) -> bool {
    for reservation in reservations {
        if let Err(error) = reserve(client, pod, reservation).await {
            tracing::debug!(%error, pod = %pod.key, "a claim cannot be reserved");
            return false;
        }
    }
    true
}

/// Devices that do not become ready go back, so that the next try may find others.
async fn give_up(
    client: &Client,
    executor: &Executor,
    pod: &PodInfo,
    reservations: &[Reservation],
    why: &str,
) {
    attempt(executor, explanation(pod, &format!("devices cannot be made ready: {why}"), None)).await;
    for reservation in reservations {
        if let Err(error) = deallocate(client, pod, &reservation.claim).await {
            tracing::debug!(%error, pod = %pod.key, "a claim keeps its devices");
        }
    }
}

async fn attempt(executor: &Executor, plan: Plan) -> bool {
    match executor.run(COMPONENT, plan).await {
        Ok(()) => true,
        Err(error) => {
            tracing::debug!(%error, cause = error.cause(), "scheduler request failed");
            false
        }
    }
}

/// Tells whoever provides volumes where those of the pod are wanted.
fn selection(node: &str, claims: &[Arc<PersistentVolumeClaim>]) -> Plan {
    let mut plan = Plan::default();
    for claim in claims {
        let chosen = json!({"metadata": {"annotations": {SELECTED_NODE: node}}});
        plan.act(Action::patch(&**claim, chosen));
    }
    plan
}

fn binding(pod: &PodInfo, node: &str) -> Plan {
    let mut plan = Plan::default();
    let body = json!({
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": pod.key.name, "namespace": pod.key.namespace, "uid": pod.uid},
        "target": {"apiVersion": "v1", "kind": "Node", "name": node},
    });
    plan.act(Action::Post { target: Target::of(&*pod.pod), subresource: "binding", body });
    plan
}

fn explanation(pod: &PodInfo, message: &str, nominate: Option<&str>) -> Plan {
    let mut plan = Plan::default();
    let pod = &*pod.pod;
    let mut status = json!({});
    if let Some(conditions) = with_condition(pod, "PodScheduled", "False", "Unschedulable", message) {
        status["conditions"] = json!(conditions);
        plan.event(EventRecord::warning(pod, "FailedScheduling", message));
    }
    let known = pod.status.as_ref().and_then(|s| s.nominated_node_name.as_deref());
    if known != nominate {
        status["nominatedNodeName"] = json!(nominate);
    }
    if status != json!({}) {
        let patch = json!({ "status": status });
        plan.act(Action::Patch { target: Target::unchanged(pod), subresource: Some("status"), patch });
    }
    plan
}

fn gated(pod: &Pod) -> Plan {
    let message = "Scheduling is blocked due to non-empty scheduling gates";
    let mut plan = Plan::default();
    if let Some(conditions) = with_condition(pod, "PodScheduled", "False", "SchedulingGated", message) {
        let patch = json!({"status": {"conditions": conditions}});
        plan.act(Action::Patch { target: Target::unchanged(pod), subresource: Some("status"), patch });
    }
    plan
}

fn eviction(victim: &PodInfo, by: &PodInfo, node: &str) -> Plan {
    let mut plan = Plan::default();
    let pod = &*victim.pod;
    let why = format!("Preempted by pod {} on node {node}", by.uid);
    let marked = with_condition(
        pod,
        "DisruptionTarget",
        "True",
        "PreemptionByScheduler",
        &format!("{COMPONENT}: preempting to accommodate a higher priority pod"),
    );
    if let Some(conditions) = marked {
        let patch = json!({"status": {"conditions": conditions}});
        plan.act(Action::Patch { target: Target::of(pod), subresource: Some("status"), patch });
    }
    plan.act(Action::delete(pod));
    plan.event(EventRecord::normal(pod, "Preempted", why));
    plan
}

/// All conditions with this one set; None if it says so already.
fn with_condition(pod: &Pod, kind: &str, is: &str, reason: &str, message: &str) -> Option<Vec<PodCondition>> {
    let mut conditions = pod.status.as_ref().and_then(|s| s.conditions.clone()).unwrap_or_default();
    let mut since = Time(Timestamp::now());
    if let Some(i) = conditions.iter().position(|c| c.type_ == kind) {
        let known = conditions.remove(i);
        let says_so = known.status == is
            && known.reason.as_deref() == Some(reason)
            && known.message.as_deref() == Some(message);
        if says_so {
            return None;
        }
        if known.status == is {
            since = known.last_transition_time.unwrap_or(since);
        }
    }
    conditions.push(PodCondition {
        type_: kind.to_owned(),
        status: is.to_owned(),
        reason: Some(reason.to_owned()),
        message: Some(message.to_owned()),
        last_transition_time: Some(since),
        ..PodCondition::default()
    });
    Some(conditions)
}
