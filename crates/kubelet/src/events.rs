//! Events for `kubectl describe`: what the agent did and what went wrong with a pod or another object of the core group.

use minik8s_informer::{Key, Kind, Regarding};

pub use minik8s_informer::EventType as Severity;

const COMPONENT: &str = "kubelet";

#[derive(Clone)]
pub struct Recorder(minik8s_informer::Recorder);

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
    pub fn new(recorder: minik8s_informer::Recorder) -> Self {
        Recorder(recorder)
    }

    /// Never waits and never fails: an event is worth less than a pod.
    pub fn record(&self, object: Subject, severity: Severity, reason: &str, message: &str) {
        self.0.report(COMPONENT, object.into(), severity, reason, message);
    }
}

impl From<Subject> for Regarding {
    fn from(object: Subject) -> Self {
        let kind = Kind {
            group: "".into(),
            version: "v1".into(),
            kind: object.kind.into(),
            plural: "".into(),
            namespaced: !object.namespace.is_empty(),
        };
        Regarding {
            kind,
            key: Key::new(object.namespace, object.name),
            uid: object.uid,
            resource_version: String::new(),
            field_path: object.field_path,
        }
    }
}
