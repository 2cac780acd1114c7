//! Kubernetes Events: written in the background, counted instead of repeated, never in the way of work.
//!
//! Equal events raise a count; each object has a small budget (25 at once, then one every five minutes), so
//! that a loop that fails for hours, or a ReplicaSet of thousands, cannot flood the store. Events may be
//! lost; nothing may depend on them.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use k8s_openapi::api::core::v1::{Event, EventSource, ObjectReference};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use k8s_openapi::jiff::Timestamp;
use kube::Client;
use kube::api::{Api, Patch, PatchParams, PostParams};
use serde_json::json;
use tokio::sync::mpsc;
use tokio::time::Instant;

use crate::{Key, Kind, Object};

const WAITING: usize = 1024;
const BURST: f64 = 25.0;
const REFILL: Duration = Duration::from_secs(300);
/// Above this many remembered events or objects the memory starts anew.
const REMEMBERED: usize = 4096;

/// What an event is about.
#[derive(Debug, Clone, PartialEq)]
pub struct Regarding {
    pub kind: Kind,
    pub key: Key,
    pub uid: String,
    pub resource_version: String,
}

impl Regarding {
    pub fn of<K: Object>(object: &K) -> Self {
        Regarding {
            kind: Kind::of::<K>(),
            key: crate::key_of(object),
            uid: object.meta().uid.clone().unwrap_or_default(),
            resource_version: object.meta().resource_version.clone().unwrap_or_default(),
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum NoticeType {
    Normal,
    Warning,
}

impl NoticeType {
    fn name(self) -> &'static str {
        match self {
            NoticeType::Normal => "Normal",
            NoticeType::Warning => "Warning",
        }
    }
}

/// An event to be recorded.
#[derive(Debug, Clone, PartialEq)]
pub struct Notice {
    pub regarding: Regarding,
    pub severity: NoticeType,
    pub reason: &'static str,
    pub message: String,
}

impl Notice {
    pub fn normal<K: Object>(about: &K, reason: &'static str, message: impl Into<String>) -> Self {
        let message = message.into();
        Notice { regarding: Regarding::of(about), severity: NoticeType::Normal, reason, message }
    }

    pub fn warning<K: Object>(about: &K, reason: &'static str, message: impl Into<String>) -> Self {
        Notice { severity: NoticeType::Warning, ..Notice::normal(about, reason, message) }
    }
}

/// A handle that puts events on their way.
#[derive(Clone)]
pub struct Recorder {
    sender: mpsc::Sender<(&'static str, Notice)>,
}

impl Recorder {
    /// Starts the task that writes events; it ends when the last handle is dropped.
    pub fn start(client: Client) -> Self {
        let (sender, mut waiting) = mpsc::channel(WAITING);
        tokio::spawn(async move {
            let mut memory = Memory::default();
            while let Some((component, notice)) = waiting.recv().await {
                write(&client, &mut memory, component, notice).await;
            }
        });
        Recorder { sender }
    }

    /// Never waits: when too many are on their way, the event is dropped.
    pub fn record(&self, component: &'static str, notice: Notice) {
        let _ = self.sender.try_send((component, notice));
    }
}

type Identity = (&'static str, String, Key, NoticeType, &'static str, String);

#[derive(Default)]
struct Memory {
    written: HashMap<Identity, (String, i32)>,
    budgets: BTreeMap<(String, Key), (f64, Option<Instant>)>,
}

impl Memory {
    fn may_write(&mut self, about: (String, Key), now: Instant) -> bool {
        if self.budgets.len() > REMEMBERED {
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

async fn write(client: &Client, memory: &mut Memory, component: &'static str, notice: Notice) {
    let about = (notice.regarding.uid.clone(), notice.regarding.key.clone());
    if !memory.may_write(about, Instant::now()) {
        return;
    }
    let key = &notice.regarding.key;
    let namespace = if key.namespace.is_empty() { "default" } else { &key.namespace };
    let events: Api<Event> = Api::namespaced(client.clone(), namespace);
    let identity: Identity = (
        component,
        notice.regarding.uid.clone(),
        key.clone(),
        notice.severity,
        notice.reason,
        notice.message.clone(),
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
    let event = event(component, &notice, namespace, &name, now);
    match events.create(&PostParams::default(), &event).await {
        Ok(_) => {
            if memory.written.len() > REMEMBERED {
                memory.written.clear();
            }
            memory.written.insert(identity, (name, 1));
        }
        Err(error) => tracing::debug!(%error, reason = notice.reason, about = %key, "event not written"),
    }
}

fn event(component: &str, notice: &Notice, namespace: &str, name: &str, now: Timestamp) -> Event {
    let about = &notice.regarding;
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
            field_path: None,
        },
        type_: Some(notice.severity.name().to_owned()),
        reason: Some(notice.reason.to_owned()),
        message: Some(notice.message.clone()),
        count: Some(1),
        first_timestamp: Some(Time(now)),
        last_timestamp: Some(Time(now)),
        source: Some(EventSource { component: Some(component.to_owned()), host: None }),
        reporting_component: Some(component.to_owned()),
        ..Event::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn each_object_has_a_budget() {
        let mut memory = Memory::default();
        let about = || ("uid".to_owned(), Key::new("a", "b"));
        let allowed = (0..100).filter(|_| memory.may_write(about(), Instant::now())).count();
        assert_eq!(allowed, 25);
        assert!(memory.may_write(("other".to_owned(), Key::new("a", "c")), Instant::now()));
        tokio::time::advance(Duration::from_secs(301)).await;
        assert!(memory.may_write(about(), Instant::now()));
        assert!(!memory.may_write(about(), Instant::now()));
    }
}
