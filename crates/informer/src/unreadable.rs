//! Tells users of fields that cannot be read: in the log, and, where a control plane reads, as an Event of the object.
//!
//! Each field once per object; nothing depends on it.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use parking_lot::Mutex;

use crate::{EventRecord, EventType, Ignored, Key, Kind, Recorder, Regarding, Reported};

const COMPONENT: &str = "informer";
const REASON: &str = "UnreadableField";

pub struct Unreadable {
    recorder: Option<Recorder>,
    reported: Mutex<Reported>,
}

impl Unreadable {
    pub fn new(recorder: Option<Recorder>) -> Self {
        Unreadable { recorder, reported: Mutex::default() }
    }

    pub(crate) fn report(&self, kind: &Kind, meta: &ObjectMeta, ignored: &[Ignored]) {
        let mut reported = self.reported.lock();
        for ignored in reported.report(&kind.kind, meta, ignored) {
            let Some(recorder) = &self.recorder else { continue };
            let regarding = Regarding {
                kind: kind.clone(),
                key: Key::of_meta(meta),
                uid: meta.uid.clone().unwrap_or_default(),
                resource_version: meta.resource_version.clone().unwrap_or_default(),
                field_path: None,
            };
            let message = format!("{ignored}; the control plane goes on without this field");
            let event = EventRecord { regarding, severity: EventType::Warning, reason: REASON, message };
            recorder.record(COMPONENT, event);
        }
    }
}
