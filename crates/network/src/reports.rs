//! Tells users what is wrong with this node's network, as events of the objects concerned. Nothing depends on them.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::Service;
use minik8s_informer::{EventType, Key, Recorder, Regarding};
use parking_lot::Mutex;
use tracing::warn;

const COMPONENT: &str = "minik8s.io/network";

pub struct Reports {
    recorder: Recorder,
    node: String,
    /// What was said already.
    told: Mutex<BTreeSet<(Key, String)>>,
}

impl Reports {
    pub fn new(recorder: Recorder, node: &str) -> Self {
        Reports { recorder, node: node.to_owned(), told: Mutex::default() }
    }

    pub fn about_node(&self, reason: &'static str, message: String) {
        self.tell(Regarding::node(&self.node), reason, message);
    }

    pub fn about_service(&self, service: &Service, reason: &'static str, message: String) {
        self.tell(Regarding::of(service), reason, message);
    }

    /// Once, and in the log.
    fn tell(&self, regarding: Regarding, reason: &'static str, message: String) {
        if !self.told.lock().insert((regarding.key.clone(), message.clone())) {
            return;
        }
        warn!("{} {}: {message}", regarding.kind.kind, regarding.key);
        self.recorder.report(COMPONENT, regarding, EventType::Warning, reason, &message);
    }
}
