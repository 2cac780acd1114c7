//! Events for `kubectl describe`: what the agent did and what went wrong.
//!
//! Recording never waits and never fails: an event is worth less than a pod. The same event again raises
//! a counter instead of making a new object.

use std::collections::HashMap;

use jiff::Timestamp;
use k8s_openapi::api::core::v1 as core;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use kube::api::{Api, Patch, PatchParams, PostParams};
use serde_json::json;
use tokio::sync::mpsc;
use tracing::debug;

const QUEUE: usize = 1024;
/// Events remembered for counting.
const REMEMBERED: usize = 4096;
const LONGEST_MESSAGE: usize = 1024;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Severity {
    Normal,
    Warning,
}

#[derive(Clone)]
pub struct Recorder {
    queue: mpsc::Sender<Note>,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Note {
    object: Subject,
    severity: &'static str,
    reason: String,
    message: String,
}

/// What an event is about.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct Subject {
    pub kind: &'static str,
    pub namespace: String,
    pub name: String,
    pub uid: String,
    /// `spec.containers{main}`
    pub field_path: Option<String>,
}

impl Recorder {
    /// The recorder and the task that writes what it records.
    pub fn new(client: kube::Client, node_name: &str) -> (Self, impl Future<Output = ()> + use<>) {
        let (queue, receiver) = mpsc::channel(QUEUE);
        (Recorder { queue }, write_all(client, node_name.to_owned(), receiver))
    }

    pub fn record(&self, object: Subject, severity: Severity, reason: &str, message: &str) {
        let severity = match severity {
            Severity::Normal => "Normal",
            Severity::Warning => "Warning",
        };
        let message = message.chars().take(LONGEST_MESSAGE).collect();
        // A full queue means that the API server is away: the event is dropped.
        let _ = self.queue.try_send(Note { object, severity, reason: reason.to_owned(), message });
    }
}

struct Written {
    name: String,
    count: i32,
}

async fn write_all(client: kube::Client, node_name: String, mut notes: mpsc::Receiver<Note>) {
    let mut written: HashMap<Note, Written> = HashMap::new();
    while let Some(note) = notes.recv().await {
        let namespace = match note.object.namespace.as_str() {
            "" => "default",
            namespace => namespace,
        };
        let api: Api<core::Event> = Api::namespaced(client.clone(), namespace);
        if written.len() >= REMEMBERED {
            written.clear();
        }
        let now = Timestamp::now();
        if let Some(known) = written.get_mut(&note) {
            known.count += 1;
            let patch = json!({"count": known.count, "lastTimestamp": Time(now)});
            match api.patch(&known.name, &PatchParams::default(), &Patch::Merge(patch)).await {
                Ok(_) => continue,
                Err(error) => debug!(%error, "cannot count an event"),
            }
        }
        let event = event(&note, namespace, &node_name, now);
        let name = event.metadata.name.clone().unwrap_or_default();
        match api.create(&PostParams::default(), &event).await {
            Ok(_) => {
                written.insert(note, Written { name, count: 1 });
            }
            Err(error) => debug!(%error, "cannot write an event"),
        }
    }
}

fn event(note: &Note, namespace: &str, node_name: &str, now: Timestamp) -> core::Event {
    let object = &note.object;
    core::Event {
        metadata: ObjectMeta {
            name: Some(format!("{}.{:x}", object.name, now.as_nanosecond())),
            namespace: Some(namespace.to_owned()),
            ..Default::default()
        },
        involved_object: core::ObjectReference {
            api_version: Some("v1".to_owned()),
            kind: Some(object.kind.to_owned()),
            namespace: Some(object.namespace.clone()).filter(|n| !n.is_empty()),
            name: Some(object.name.clone()),
            uid: Some(object.uid.clone()),
            field_path: object.field_path.clone(),
            ..Default::default()
        },
        reason: Some(note.reason.clone()),
        message: Some(note.message.clone()),
        type_: Some(note.severity.to_owned()),
        count: Some(1),
        first_timestamp: Some(Time(now)),
        last_timestamp: Some(Time(now)),
        source: Some(core::EventSource {
            component: Some("kubelet".to_owned()),
            host: Some(node_name.to_owned()),
        }),
        reporting_component: Some("kubelet".to_owned()),
        reporting_instance: Some(node_name.to_owned()),
        ..Default::default()
    }
}
