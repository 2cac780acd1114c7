//! What is written down of a slot, so that an agent that was killed knows it again: nobody's, a pod's, or neither.
//!
//! The runtime's labels cannot change, so this file, not the runtime, says whose a slot is. It is replaced as a whole, and on
//! the disk before anything of the pod enters the slot.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::Path;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

const FILE: &str = "slot.json";

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SlotRecord {
    /// Its directory, its cgroup and its pod in the runtime have this name.
    pub uid: String,
    /// Of the runtime.
    pub image: String,
    /// What it was made like; one that was made otherwise than one would be made now is of no use.
    pub form: String,
    /// Empty until it has been started.
    pub sandbox: String,
    pub container: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub adoption: Option<Adoption>,
}

/// Whose it is now, for ever.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Adoption {
    pub pod: String,
    pub namespace: String,
    pub name: String,
    /// What the container became; `None` as long as nothing of the pod has entered it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub container: Option<AdoptedContainer>,
}

/// What the runtime would say of the pod's container, had it been made for the pod.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AdoptedContainer {
    pub hash: String,
    pub restart_delay: u64,
    pub resources: String,
    pub log_path: String,
    pub termination_message: String,
    /// Since when it is the pod's program.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started: Option<Timestamp>,
}

impl SlotRecord {
    pub fn is_free(&self) -> bool {
        self.adoption.is_none() && !self.container.is_empty()
    }

    /// A pod's whole: what was adopted only in part is of no use to anybody.
    pub fn is_settled(&self) -> bool {
        let container = self.adoption.as_ref().and_then(|adoption| adoption.container.as_ref());
        container.is_some_and(|container| container.started.is_some())
    }

    pub fn write(&self, slots: &Path) -> io::Result<()> {
        let dir = slots.join(&self.uid);
        let text = serde_json::to_vec(self).map_err(io::Error::other)?;
        let new = dir.join(format!("{FILE}.new"));
        let mut file = File::create(&new)?;
        file.write_all(&text)?;
        file.sync_data()?;
        fs::rename(new, dir.join(FILE))?;
        File::open(dir)?.sync_data()
    }

    /// All that can be read; the names of the others.
    pub fn read_all(slots: &Path) -> (Vec<SlotRecord>, Vec<String>) {
        let (mut known, mut broken) = (Vec::new(), Vec::new());
        for entry in fs::read_dir(slots).into_iter().flatten().flatten() {
            let Ok(name) = entry.file_name().into_string() else { continue };
            let text = fs::read(entry.path().join(FILE)).unwrap_or_default();
            match serde_json::from_slice::<SlotRecord>(&text) {
                Ok(record) if record.uid == name => known.push(record),
                _ => broken.push(name),
            }
        }
        (known, broken)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn record_is_read_as_it_was_written() {
        let dir = tempfile::tempdir().unwrap();
        let mut record = SlotRecord { uid: "slot-1".into(), image: "i".into(), ..SlotRecord::default() };
        for name in ["slot-1", "slot-2"] {
            fs::create_dir(dir.path().join(name)).unwrap();
        }
        fs::write(dir.path().join("slot-2").join(FILE), b"{\"uid\": \"slot-1\"").unwrap();
        record.write(dir.path()).unwrap();
        assert!(!record.is_free(), "it has not been started");
        record.container = "c".into();
        assert!(record.is_free());
        let container = AdoptedContainer { started: Some(Timestamp::UNIX_EPOCH), ..Default::default() };
        record.adoption = Some(Adoption { pod: "p".into(), container: None, ..Adoption::default() });
        assert!(!record.is_free() && !record.is_settled());
        record.adoption = Some(Adoption { container: Some(container), ..Adoption::default() });
        record.write(dir.path()).unwrap();
        let (known, broken) = SlotRecord::read_all(dir.path());
        assert_eq!((known, broken), (vec![record.clone()], vec!["slot-2".to_owned()]));
        assert!(record.is_settled() && !record.is_free());
        assert_eq!(SlotRecord::read_all(Path::new("/nonexistent")), (vec![], vec![]));
    }
}
