//! Kubernetes Events: written in the background, counted instead of repeated, never in the way of work.
//!
//! Equal events raise a count; each object (and each container of a pod) has a small budget (25 at once, then one every five minutes), so
//! that a loop that fails for hours, or a ReplicaSet of thousands, cannot flood the store. Events may be
//! lost; nothing may depend on them. There is one recorder per process, whoever reports.

use std::collections::{BTreeMap, HashMap};
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use k8s_openapi::api::core::v1::{Event, EventSource, Node, ObjectReference};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use k8s_openapi::jiff::Timestamp;
use kube::Client;
use kube::api::{Api, Patch, PatchParams, PostParams};
use serde_json::json;
use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;

use crate::{Key, Kind, Object};

const WAITING: usize = 1024;
const BURST: f64 = 25.0;
const REFILL: Duration = Duration::from_secs(300);
/// Above this many remembered events or objects the memory starts anew.
const CAPACITY: usize = 4096;
const LONGEST_MESSAGE: usize = 1024;

/// What an event is about.
#[derive(Debug, Clone, PartialEq)]
pub struct Regarding {
    pub kind: Kind,
    pub key: Key,
    pub uid: String,
    pub resource_version: String,
    /// Such as `spec.containers{main}`.
    pub field_path: Option<String>,
}

impl Regarding {
    pub fn of<K: Object>(object: &K) -> Self {
        Regarding {
            kind: Kind::of::<K>(),
            key: crate::key_of(object),
            uid: object.meta().uid.clone().unwrap_or_default(),
            resource_version: object.meta().resource_version.clone().unwrap_or_default(),
            field_path: None,
        }
    }

    /// A node of which no more is known than its name, as kubelets do.
    pub fn node(name: &str) -> Self {
        let (kind, key, uid) = (Kind::of::<Node>(), Key::new("", name), name.to_owned());
        Regarding { kind, key, uid, resource_version: String::new(), field_path: None }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum EventType {
    Normal,
    Warning,
}

impl EventType {
    fn name(self) -> &'static str {
        match self {
            EventType::Normal => "Normal",
            EventType::Warning => "Warning",
        }
    }
}

/// An event to be recorded.
#[derive(Debug, Clone, PartialEq)]
pub struct EventRecord {
    pub regarding: Regarding,
    pub severity: EventType,
    pub reason: &'static str,
    pub message: String,
}

impl EventRecord {
    pub fn normal<K: Object>(about: &K, reason: &'static str, message: impl Into<String>) -> Self {
        let message = message.into();
        EventRecord { regarding: Regarding::of(about), severity: EventType::Normal, reason, message }
    }

    pub fn warning<K: Object>(about: &K, reason: &'static str, message: impl Into<String>) -> Self {
        EventRecord { severity: EventType::Warning, ..EventRecord::normal(about, reason, message) }
    }
}

/// A handle that puts events on their way.
#[derive(Debug, Clone)]
pub struct Recorder {
    sender: mpsc::Sender<Waiting>,
    /// The node that reports, on agents.
    host: Option<Arc<str>>,
}

#[derive(Debug)]
enum Waiting {
    Report(Box<Report>),
    /// Somebody waits until all before it are written.
    Flush(oneshot::Sender<()>),
}

#[derive(Debug)]
struct Report {
    component: &'static str,
    host: Option<Arc<str>>,
    regarding: Regarding,
    severity: EventType,
    reason: String,
    message: String,
}

impl Recorder {
    /// Starts the task that writes events; it ends when the last handle is dropped.
    pub fn start(client: Client) -> Self {
        let (sender, waiting) = mpsc::channel(WAITING);
        tokio::spawn(write_all(waiting, move |memory, report| {
            let client = client.clone();
            async move { write(&client, memory, report).await }.boxed()
        }));
        Recorder { sender, host: None }
    }

    /// One that writes nothing, for caches that a test feeds.
    pub fn silent() -> Self {
        Recorder { sender: mpsc::channel(1).0, host: None }
    }

    /// That of an agent.
    pub fn start_on(client: Client, node: &str) -> Self {
        Recorder { host: Some(node.into()), ..Recorder::start(client) }
    }

    pub fn record(&self, component: &'static str, record: EventRecord) {
        let EventRecord { regarding, severity, reason, message } = record;
        self.report(component, regarding, severity, reason, &message);
    }

    /// Never waits: when too many are on their way, the event is dropped.
    pub fn report(
        &self,
        component: &'static str,
        regarding: Regarding,
        severity: EventType,
        reason: &str,
        message: &str,
    ) {
        let (host, reason) = (self.host.clone(), reason.to_owned());
        let message = message.chars().take(LONGEST_MESSAGE).collect();
        let report = Report { component, host, regarding, severity, reason, message };
        let _ = self.sender.try_send(Waiting::Report(Box::new(report)));
    }

    /// Waits until what was reported is written, for a process that is about to end.
    pub async fn flush(&self) {
        let (written, done) = oneshot::channel();
        if self.sender.send(Waiting::Flush(written)).await.is_ok() {
            let _ = done.await;
        }
    }
}

type Identity = (&'static str, String, Key, Option<String>, EventType, String, String);

/// The UID and key of an object, and the part of it.
type Budgeted = (String, Key, Option<String>);

#[derive(Default)]
struct Memory {
    written: HashMap<Identity, (String, i32)>,
    budgets: BTreeMap<Budgeted, (f64, Option<Instant>)>,
}

impl Memory {
    fn may_write(&mut self, about: Budgeted, now: Instant) -> bool {
        if self.budgets.len() > CAPACITY {
            self.budgets.clear();
        }
        let (budget, last) = self.budgets.entry(about).or_insert((BURST, None));
        let passed = last.map_or(Duration::ZERO, |last| now - last);
        *last = Some(now);
        *budget = (*budget + passed.as_secs_f64() / REFILL.as_secs_f64()).min(BURST);
        if *budget < 1.0 {
            return false;
        }
        *budget -= 1.0;
        true
    }
}

/// An event that makes it panic is lost, and none of those after it.
async fn write_all<W>(mut waiting: mpsc::Receiver<Waiting>, write: W)
where
    W: for<'a> Fn(&'a mut Memory, Report) -> BoxFuture<'a, ()>,
{
    let mut memory = Memory::default();
    while let Some(next) = waiting.recv().await {
        let report = match next {
            Waiting::Report(report) => *report,
            Waiting::Flush(written) => {
                let _ = written.send(());
                continue;
            }
        };
        let (reason, about) = (report.reason.clone(), report.regarding.key.clone());
        if AssertUnwindSafe(write(&mut memory, report)).catch_unwind().await.is_err() {
            tracing::error!(reason, %about, "writing an event has panicked; the next ones are written");
            memory = Memory::default();
        }
    }
}

async fn write(client: &Client, memory: &mut Memory, report: Report) {
    let about = &report.regarding;
    let budgeted = (about.uid.clone(), about.key.clone(), about.field_path.clone());
    if !memory.may_write(budgeted, Instant::now()) {
        return;
    }
    let key = &about.key;
    let namespace = if key.namespace.is_empty() { "default" } else { &key.namespace };
    let events: Api<Event> = Api::namespaced(client.clone(), namespace);
    let identity: Identity = (
        report.component,
        about.uid.clone(),
        key.clone(),
        about.field_path.clone(),
        report.severity,
        report.reason.clone(),
        report.message.clone(),
    );
    let now = Timestamp::now();
    if let Some((name, count)) = memory.written.get_mut(&identity) {
        let patch = json!({"count": *count + 1, "lastTimestamp": Time(now)});
        if events.patch(name, &PatchParams::default(), &Patch::Merge(patch)).await.is_ok() {
            *count += 1;
            return;
        }
    }
    let name = format!("{}.{:x}", key.name, now.as_nanosecond());
    let event = event(&report, namespace, &name, now);
    match events.create(&PostParams::default(), &event).await {
        Ok(_) => {
            if memory.written.len() > CAPACITY {
                memory.written.clear();
            }
            memory.written.insert(identity, (name, 1));
        }
        Err(error) => tracing::debug!(%error, reason = report.reason, about = %key, "event not written"),
    }
}

fn event(report: &Report, namespace: &str, name: &str, now: Timestamp) -> Event {
    let about = &report.regarding;
    let (component, host) = (report.component.to_owned(), report.host.as_ref().map(ToString::to_string));
    Event {
        metadata: ObjectMeta {
            name: Some(name.to_owned()),
            namespace: Some(namespace.to_owned()),
            ..ObjectMeta::default()
        },
        involved_object: ObjectReference {
            api_version: Some(about.kind.api_version()),
            kind: Some(about.kind.kind.to_string()),
            name: Some(about.key.name.clone()),
            namespace: Some(about.key.namespace.clone()).filter(|n| !n.is_empty()),
            uid: Some(about.uid.clone()),
            resource_version: Some(about.resource_version.clone()).filter(|v| !v.is_empty()),
            field_path: about.field_path.clone(),
        },
        type_: Some(report.severity.name().to_owned()),
        reason: Some(report.reason.clone()),
        message: Some(report.message.clone()),
        count: Some(1),
        first_timestamp: Some(Time(now)),
        last_timestamp: Some(Time(now)),
        source: Some(EventSource { component: Some(component.clone()), host: host.clone() }),
        reporting_component: Some(component),
        reporting_instance: host,
        ..Event::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn each_object_has_a_budget() {
        let mut memory = Memory::default();
        let about = || ("uid".to_owned(), Key::new("a", "b"), None);
        let allowed = (0..100).filter(|_| memory.may_write(about(), Instant::now())).count();
        assert_eq!(allowed, 25);
        assert!(memory.may_write(("other".to_owned(), Key::new("a", "c"), None), Instant::now()));
        tokio::time::advance(Duration::from_secs(301)).await;
        assert!(memory.may_write(about(), Instant::now()));
        assert!(!memory.may_write(about(), Instant::now()));
    }

    #[tokio::test]
    async fn event_that_panics_keeps_no_other_from_being_written() {
        let (sender, waiting) = mpsc::channel(WAITING);
        let (tell, mut written) = mpsc::channel(WAITING);
        let writing = tokio::spawn(write_all(waiting, move |_, report| {
            let tell = tell.clone();
            let write = async move {
                if report.reason == "Odd" {
                    std::panic::resume_unwind(Box::new("an odd event"));
                }
                tell.send(report.reason).await.unwrap();
            };
            write.boxed()
        }));
        let recorder = Recorder { sender, host: None };
        for reason in ["First", "Odd", "Last"] {
            recorder.report("test", Regarding::node("n"), EventType::Normal, reason, "");
        }
        recorder.flush().await;
        assert_eq!([written.try_recv().unwrap(), written.try_recv().unwrap()], ["First", "Last"]);
        drop(recorder);
        writing.await.unwrap();
    }
}
