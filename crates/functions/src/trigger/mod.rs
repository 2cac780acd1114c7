//! Trigger: calls a function, or starts a workflow, when something happens. What fires becomes an object whose name is made
//! of the trigger and the event, so no event is lost once it was accepted, and none fires twice.
//!
//! Clock, files and NATS are the controller's ([`plan`], [`file`], [`nats`]), changes of objects a task's ([`watch`]), and all that comes by
//! HTTP goes through the subresource `events` ([`deliver`]), which routers post to on behalf of whoever reaches them.

mod call;
mod deliver;
mod event;
mod file;
mod kind;
mod nats;
mod plan;
mod signature;
mod tally;
#[cfg(test)]
mod tests;
mod watch;

use std::collections::BTreeSet;
use std::sync::Arc;

use k8s_openapi::api::core::v1::{Node, Pod};
use kube::Client;
use minik8s_api::Resource;
use minik8s_feature::Parts;
use minik8s_meta::invocation::Invocation;
use minik8s_meta::trigger::Trigger;
use minik8s_runtime::{Caches, Controller, Key, Plan, Watches};
use parking_lot::RwLock;

pub use call::{Call, workflow_run};
pub use deliver::make_call;

use tally::Tally;

/// The subresource that takes events.
pub const EVENTS: &str = "events";

/// What the handler has once the control plane runs.
#[derive(Clone, Default)]
pub struct Means {
    client: Arc<RwLock<Option<Client>>>,
    tally: Arc<Tally>,
}

impl Means {
    fn client(&self) -> Option<Client> {
        self.client.read().clone()
    }
}

pub fn resource(means: &Means) -> Resource {
    kind::resource().handled(EVENTS, "Trigger", &["create"], deliver::EventsHandler(means.clone()))
}

pub fn start(means: &Means, parts: &mut Parts) {
    *means.client.write() = Some(parts.client.clone());
    parts.controller(TriggerController);
    parts.task(tally::run(means.tally.clone(), parts.client.clone(), parts.stop.clone()));
    parts.task(watch::run(watch::Surroundings::of(parts, means.tally.clone())));
}

/// The Secret with the key by which a pod of the trigger's own signs what it tells, if it has such a pod.
fn own_key_name(trigger: &Trigger) -> Option<String> {
    let name = trigger.metadata.name.as_deref()?;
    let source = &trigger.spec.source;
    let of_files = source.file.is_some().then(|| file::key_name(name));
    of_files.or_else(|| source.nats.is_some().then(|| nats::key_name(name)))
}

pub struct TriggerController;

pub struct Observed {
    trigger: Arc<Trigger>,
    /// Names of the calls that it has made.
    made: BTreeSet<String>,
    /// Of those that have not ended.
    running: BTreeSet<String>,
    /// Calls of those that failed.
    failed: usize,
    /// That look at its files, or listen to its subject.
    pods: Vec<Arc<Pod>>,
    /// Where the routers of nodes listen.
    router_port: u16,
}

/// Where a node says on which port its router listens.
const ROUTER_PORT: &str = "minik8s.io/http-port";
const USUAL_PORT: u16 = 80;

impl Controller for TriggerController {
    type Key = Key;
    type Observed = Observed;

    fn name(&self) -> &'static str {
        "trigger-controller"
    }

    fn watch(&self, watches: &Watches<Key>) {
        watches.own::<Trigger>();
        watches.owned::<Pod, Trigger>();
        watches.owned::<Invocation, Trigger>();
        watches.needs::<Node>();
    }

    fn observe(&self, caches: &Caches, key: &Key) -> Option<Observed> {
        let trigger = caches.of::<Trigger>().get(key)?;
        let uid = trigger.metadata.uid.as_deref().unwrap_or_default();
        let made = caches.of::<Invocation>().controlled_by(uid);
        let has_failed = |one: &&Arc<Invocation>| one.status.as_ref().is_some_and(|s| s.phase == "Failed");
        let failed = made.iter().filter(has_failed).count();
        let name = |invocation: &Arc<Invocation>| invocation.metadata.name.clone();
        let running = made.iter().filter(|one| !one.has_ended()).filter_map(name).collect();
        let made = made.iter().filter_map(name).collect();
        let pods = caches.of::<Pod>().controlled_by(uid);
        let nodes = caches.of::<Node>().list();
        let router_port = nodes.iter().find_map(|node| port_of(node)).unwrap_or(USUAL_PORT);
        Some(Observed { trigger, made, running, failed, pods, router_port })
    }

    fn plan(&self, seen: &Observed, now: k8s_openapi::jiff::Timestamp) -> Plan {
        plan::plan(seen, now)
    }
}

fn port_of(node: &Node) -> Option<u16> {
    node.metadata.annotations.as_ref()?.get(ROUTER_PORT)?.parse().ok().filter(|port| *port != 0)
}
