//! Warm slots: sandboxes with a started runtime of functions that belong to nobody, until a function's pod adopts one.
//!
//! A slot holds no code, no variable and no credential of anybody, and nothing listens in it. The pod that adopts one has
//! been admitted in its namespace and bound to this node like any other; its volumes, files and name enter the slot then, and
//! the slot ends with it: it is used once. Above [`SlotRuntime`] nobody sees a difference.

mod door;
mod entry;
mod form;
mod inject;
mod keeper;
mod plan;
mod record;
mod runtime;

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use k8s_cri::v1 as cri;
use minik8s_metrics::Text;
use parking_lot::{Mutex, RwLock};
use tokio::sync::Notify;
use tracing::{debug, warn};

use crate::Config;
use form::Form;
pub use keeper::keep;
use record::{AdoptedContainer, Adoption, SlotRecord};
pub use runtime::SlotRuntime;

/// By which pods of the runtime are known for slots.
const PREFIX: &str = "slot-";
/// Starts that are so old say nothing of those to come.
const RECENT: Duration = Duration::from_secs(20);

/// Which pods live in a slot, for whoever looks for their cgroups.
#[derive(Debug, Clone, Default)]
pub struct AdoptedSlots(Arc<RwLock<BTreeMap<String, Adopted>>>);

#[derive(Debug, Clone)]
struct Adopted {
    slot: String,
    container: String,
}

impl AdoptedSlots {
    /// The name of the cgroup, below the root of all pods.
    pub fn cgroup_of(&self, pod: &str) -> Option<String> {
        self.0.read().get(pod).map(|adopted| adopted.slot.clone())
    }

    /// The container that runs in the pod's cgroup although the pod may not have it yet.
    pub fn container_of(&self, pod: &str) -> Option<String> {
        self.0.read().get(pod).map(|adopted| adopted.container.clone())
    }
}

/// All slots of this node.
pub struct Slots {
    dir: PathBuf,
    adopted: AdoptedSlots,
    state: Mutex<State>,
    /// Some slot was taken or has ended, or one was missed.
    changed: Notify,
}

#[derive(Default)]
struct State {
    slots: BTreeMap<String, SlotRecord>,
    /// Of those that wait.
    doors: BTreeMap<String, File>,
    /// By image.
    forms: BTreeMap<String, Form>,
    /// Of instances: when, and of which image.
    starts: Vec<(Instant, String)>,
    /// Names of what nobody can use any more.
    spoiled: Vec<String>,
    taken: u64,
    missed: u64,
}

impl Slots {
    /// Those that an agent of before has left. What was adopted in part is nobody's: its pod gets a sandbox of its own.
    pub fn load(config: &Config) -> Self {
        let dir = config.slots_dir();
        let (known, broken) = SlotRecord::read_all(&dir);
        let (kept, spoiled): (Vec<_>, Vec<_>) =
            known.into_iter().partition(|slot| slot.is_free() || slot.is_settled());
        let spoiled = broken.into_iter().chain(spoiled.into_iter().map(|slot| slot.uid)).collect();
        let mut state = State { spoiled, ..State::default() };
        let slots = Slots {
            adopted: config.adopted_slots.clone(),
            state: Mutex::default(),
            changed: Notify::new(),
            dir,
        };
        for slot in kept {
            slots.note_adopted(&slot);
            if let (true, Ok(door)) = (slot.is_free(), door::open(&slots.dir.join(&slot.uid))) {
                state.doors.insert(slot.uid.clone(), door);
            }
            state.slots.insert(slot.uid.clone(), slot);
        }
        *slots.state.lock() = state;
        slots
    }

    fn note_adopted(&self, slot: &SlotRecord) {
        if let Some(adoption) = &slot.adoption {
            let adopted = Adopted { slot: slot.uid.clone(), container: slot.container.clone() };
            self.adopted.0.write().insert(adoption.pod.clone(), adopted);
        }
    }

    /// Makes a slot a pod's, for ever. `None` if there is none that fits. Blocks until it is written down.
    fn take(
        &self,
        image: &str,
        config: &cri::PodSandboxConfig,
        container: &cri::ContainerConfig,
    ) -> io::Result<Option<SlotRecord>> {
        let mut state = self.state.lock();
        let now = Instant::now();
        state.starts.retain(|(at, _)| now.duration_since(*at) < RECENT);
        state.starts.push((now, image.to_owned()));
        self.changed.notify_one();
        let Some(form) = state.forms.get(image) else {
            state.missed += 1;
            return Ok(None);
        };
        if let Some(reason) = form.refuses_sandbox(config).or_else(|| form.refuses_shape(container)) {
            debug!(reason, "an instance gets a sandbox of its own");
            return Ok(None);
        }
        let digest = form.digest();
        let is_good = |slot: &&SlotRecord| {
            slot.is_free() && slot.image == image && slot.form == digest && self.is_waiting(&state, slot)
        };
        let Some(mut slot) = state.slots.values().find(is_good).cloned() else {
            state.missed += 1;
            return Ok(None);
        };
        let metadata = config.metadata.clone().unwrap_or_default();
        slot.adoption = Some(Adoption {
            pod: metadata.uid,
            namespace: metadata.namespace,
            name: metadata.name,
            container: None,
        });
        slot.write(&self.dir)?;
        self.note_adopted(&slot);
        state.taken += 1;
        state.slots.insert(slot.uid.clone(), slot.clone());
        Ok(Some(slot))
    }

    fn is_waiting(&self, state: &State, slot: &SlotRecord) -> bool {
        state.doors.contains_key(&slot.uid) && door::is_watched(&self.dir.join(&slot.uid))
    }

    /// What the pod has made of the container. It need not be on the disk before [`Slots::update`] says that it was
    /// started: until then an agent that was killed destroys the slot either way.
    fn enter(&self, uid: &str, container: AdoptedContainer) {
        if let Some(adoption) = self.state.lock().slots.get_mut(uid).and_then(|slot| slot.adoption.as_mut()) {
            adoption.container = Some(container);
        }
    }

    /// Changes what is written down of a pod's slot.
    fn update(&self, uid: &str, change: impl FnOnce(&mut Adoption)) -> io::Result<()> {
        let mut state = self.state.lock();
        let Some(slot) = state.slots.get_mut(uid) else { return Ok(()) };
        if let Some(adoption) = &mut slot.adoption {
            change(adoption);
        }
        slot.write(&self.dir)
    }

    /// The container has been removed.
    fn forget_container(&self, uid: &str) -> io::Result<()> {
        let mut state = self.state.lock();
        state.doors.remove(uid);
        let Some(slot) = state.slots.get_mut(uid) else { return Ok(()) };
        slot.container.clear();
        if let Some(adoption) = &mut slot.adoption {
            adoption.container = None;
        }
        slot.write(&self.dir)
    }

    fn is_empty(&self) -> bool {
        let state = self.state.lock();
        state.slots.is_empty() && state.spoiled.is_empty()
    }

    /// Slots of pods: their names, sandboxes and pods.
    fn adopted_sandboxes(&self) -> Vec<(String, String, String)> {
        let state = self.state.lock();
        let of_pod = |slot: &SlotRecord| {
            slot.adoption.as_ref().map(|one| (slot.uid.clone(), slot.sandbox.clone(), one.pod.clone()))
        };
        state.slots.values().filter_map(of_pod).collect()
    }

    /// The slot that a pod lives in.
    fn of_pod(&self, pod: &str) -> Option<SlotRecord> {
        let uid = self.adopted.cgroup_of(pod)?;
        self.state.lock().slots.get(&uid).cloned()
    }

    /// The pod's slot with this sandbox or container.
    fn adopted_with(&self, id: &str) -> Option<SlotRecord> {
        let state = self.state.lock();
        let has =
            |slot: &&SlotRecord| slot.adoption.is_some() && (slot.sandbox == id || slot.container == id);
        state.slots.values().find(has).cloned()
    }

    /// The pod that lives in a slot; `None` for a slot that nobody has.
    fn pod_of(&self, uid: &str) -> Option<String> {
        let state = self.state.lock();
        state.slots.get(uid)?.adoption.as_ref().map(|adoption| adoption.pod.clone())
    }

    /// Its pod is over, or never began.
    fn spoil(&self, uid: &str) {
        let mut state = self.state.lock();
        if let Some(adoption) = state.slots.get(uid).and_then(|slot| slot.adoption.as_ref()) {
            self.adopted.0.write().remove(&adoption.pod);
        }
        state.doors.remove(uid);
        state.slots.remove(uid);
        state.spoiled.push(uid.to_owned());
        self.changed.notify_one();
    }

    /// In Prometheus' text format; nothing where there are none and never were.
    pub fn metrics(&self) -> String {
        let state = self.state.lock();
        let free = state.slots.values().filter(|slot| slot.is_free()).count();
        if free == 0 && state.taken == 0 && state.missed == 0 {
            return String::new();
        }
        let mut text = Text::default();
        for (name, kind, help, value) in [
            ("minik8s_function_slots_free", "gauge", "Started sandboxes that no pod has.", free as f64),
            (
                "minik8s_function_slots_adopted_total",
                "counter",
                "Instances that adopted one.",
                state.taken as f64,
            ),
            (
                "minik8s_function_slots_missed_total",
                "counter",
                "Instances that found none.",
                state.missed as f64,
            ),
        ] {
            text.metric(name, kind, help);
            text.sample(name, &[], value, None);
        }
        text.finish()
    }
}

fn is_slot(uid: &str) -> bool {
    uid.starts_with(PREFIX)
}

fn tell_failure(slot: &str, error: &dyn std::fmt::Display) {
    warn!(slot, %error, "a slot cannot be used");
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What an agent that was killed leaves is free, a pod's, or to be destroyed: never two of them.
    #[test]
    fn slots_are_known_again_after_a_crash() {
        let dir = tempfile::tempdir().unwrap();
        let config = Config::new("n", dir.path(), "127.0.0.1".parse().unwrap());
        let slots = config.slots_dir();
        let write = |uid: &str, container: &str, adoption: Option<Adoption>| {
            std::fs::create_dir_all(slots.join(uid)).unwrap();
            let record = SlotRecord {
                uid: uid.to_owned(),
                container: container.to_owned(),
                adoption,
                ..SlotRecord::default()
            };
            record.write(&slots).unwrap();
        };
        let adoption = |pod: &str, started: Option<jiff::Timestamp>| {
            let container = Some(AdoptedContainer { started, ..AdoptedContainer::default() });
            Some(Adoption { pod: pod.to_owned(), container, ..Adoption::default() })
        };
        write("slot-making", "", None);
        write("slot-free", "c1", None);
        write("slot-entered", "c2", adoption("p2", None));
        write("slot-adopted", "c3", adoption("p3", Some(jiff::Timestamp::UNIX_EPOCH)));
        std::fs::create_dir(slots.join("slot-empty")).unwrap();
        let loaded = Slots::load(&config);
        let state = loaded.state.lock();
        assert_eq!(state.slots.keys().collect::<Vec<_>>(), ["slot-adopted", "slot-free"]);
        let mut spoiled = state.spoiled.clone();
        spoiled.sort();
        assert_eq!(spoiled, ["slot-empty", "slot-entered", "slot-making"]);
        drop(state);
        assert_eq!(config.adopted_slots.cgroup_of("p3").as_deref(), Some("slot-adopted"));
        assert_eq!(config.adopted_slots.container_of("p3").as_deref(), Some("c3"));
        assert_eq!(config.adopted_slots.cgroup_of("p2"), None, "its pod begins anew");
        assert_eq!(
            (loaded.pod_of("slot-free"), loaded.pod_of("slot-adopted")),
            (None, Some("p3".to_owned()))
        );
        loaded.spoil("slot-adopted");
        assert_eq!(config.adopted_slots.cgroup_of("p3"), None);
    }

    #[test]
    fn slot_is_taken_once_and_only_while_its_program_waits() {
        let dir = tempfile::tempdir().unwrap();
        let config = Config::new("n", dir.path(), "127.0.0.1".parse().unwrap());
        let image = crate::cri::ImageRecord { id: "sha256:1".into(), ..Default::default() };
        let form = Form::new("python", &image, &config, &Default::default(), 1 << 30).unwrap();
        let slot = config.slots_dir().join("slot-1");
        std::fs::create_dir_all(&slot).unwrap();
        door::make(&slot).unwrap();
        let record = SlotRecord {
            uid: "slot-1".into(),
            image: "python".into(),
            form: form.digest(),
            sandbox: "s".into(),
            container: "c".into(),
            adoption: None,
        };
        record.write(&config.slots_dir()).unwrap();
        let pod = |uid: &str| {
            let mut sandbox = form.sandbox_config(uid, dir.path(), "/c");
            sandbox.metadata = Some(cri::PodSandboxMetadata { uid: uid.into(), ..Default::default() });
            sandbox
        };
        let dead = Slots::load(&config);
        dead.state.lock().forms.insert("python".into(), form.clone());
        let plain = cri::ContainerConfig { mounts: Vec::new(), ..form.container_config("p", dir.path()) };
        assert_eq!(dead.take("python", &pod("p0"), &plain).unwrap(), None, "nobody waits at the door");
        let path = door::dir(&slot).join("start");
        let _reader = std::fs::OpenOptions::new().read(true).write(true).open(path).unwrap();
        let slots = Slots::load(&config);
        assert_eq!(slots.take("python", &pod("p1"), &plain).unwrap(), None, "its form is not known yet");
        slots.state.lock().forms.insert("python".into(), form.clone());
        assert_eq!(slots.take("nodejs", &pod("p1"), &plain).unwrap(), None);
        let mut other = pod("p1");
        other.port_mappings.push(cri::PortMapping::default());
        assert_eq!(slots.take("python", &other, &plain).unwrap(), None);
        let shell = cri::ContainerConfig { command: vec!["sh".to_owned()], ..plain.clone() };
        assert_eq!(slots.take("python", &pod("p1"), &shell).unwrap(), None);
        let taken = slots.take("python", &pod("p1"), &plain).unwrap().unwrap();
        assert_eq!(taken.adoption.unwrap().pod, "p1");
        assert_eq!(slots.take("python", &pod("p2"), &plain).unwrap(), None, "it is another's");
        assert!(slots.metrics().contains("adopted_total 1"));
        // On the disk before anything enters.
        let (written, _) = SlotRecord::read_all(&config.slots_dir());
        assert_eq!(written[0].adoption.as_ref().unwrap().pod, "p1");
    }
}
