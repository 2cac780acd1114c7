//! Tells users what is wrong with this node's network, as events of the objects concerned. Nothing depends on them.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::{ObjectReference, Service};
use kube::Resource;
use kube::runtime::events::{Event, EventType, Recorder, Reporter};
use parking_lot::Mutex;
use tracing::{debug, warn};

pub struct Reports {
    recorder: Recorder,
    node: String,
    /// What was said already.
    told: Mutex<BTreeSet<(ObjectName, String)>>,
}

/// Namespace and name; a node's namespace is empty.
type ObjectName = (String, String);

impl Reports {
    pub fn new(client: kube::Client, node: &str) -> Self {
        let reporter =
            Reporter { controller: "minik8s.io/network".to_owned(), instance: Some(node.to_owned()) };
        Reports { recorder: Recorder::new(client, reporter), node: node.to_owned(), told: Mutex::default() }
    }

    pub fn about_node(&self, reason: &'static str, message: String) {
        let node = ObjectReference {
            kind: Some("Node".to_owned()),
            name: Some(self.node.clone()),
            uid: Some(self.node.clone()),
            ..ObjectReference::default()
        };
        self.tell(node, reason, message);
    }

    pub fn about_service(&self, service: &Service, reason: &'static str, message: String) {
        self.tell(service.object_ref(&()), reason, message);
    }

    /// Once, and in the log.
    fn tell(&self, regarding: ObjectReference, reason: &'static str, message: String) {
        let name =
            (regarding.namespace.clone().unwrap_or_default(), regarding.name.clone().unwrap_or_default());
        if !self.told.lock().insert((name.clone(), message.clone())) {
            return;
        }
        match name.0.is_empty() {
            true => warn!("{message}"),
            false => warn!("Service {}/{}: {message}", name.0, name.1),
        }
        let recorder = self.recorder.clone();
        let event = Event {
            type_: EventType::Warning,
            reason: reason.to_owned(),
            note: Some(message),
            action: "ConfigureNetwork".to_owned(),
            secondary: None,
        };
        tokio::spawn(async move {
            if let Err(error) = recorder.publish(&event, &regarding).await {
                debug!(%error, "cannot write an event");
            }
        });
    }
}
