//! Containers that have ended as containerd's events tell, and still run as CRI tells.
//!
//! The CRI plugin works off the same events in its own time. Until it has, it is asked again in short
//! but growing intervals.

use std::collections::BTreeSet;
use std::time::Duration;

use crate::cri::{ContainerRecord, ContainerState, PodRecord};

const FIRST: Duration = Duration::from_millis(5);
const LONGEST: Duration = Duration::from_secs(2);

#[derive(Debug, Default)]
pub struct ExpectedExits {
    ids: BTreeSet<String>,
    asked: u32,
}

impl ExpectedExits {
    pub fn expect(&mut self, id: String) {
        self.ids.insert(id);
        self.asked = 0;
    }

    /// Forgets what has come true.
    pub fn observe(&mut self, record: &PodRecord) {
        // Also one that CRI takes for not yet started: it may call it running before it calls it ended.
        let ended = |c: &ContainerRecord| matches!(c.state, ContainerState::Exited { .. });
        let expected = |id: &String| {
            record.containers.iter().any(|c| &c.id == id && !ended(c))
                || record.sandboxes.iter().any(|s| &s.id == id && s.ready)
        };
        self.ids.retain(expected);
    }

    /// How long to wait before asking again; `None` if nothing is expected.
    pub fn look_again(&mut self) -> Option<Duration> {
        if self.ids.is_empty() {
            return None;
        }
        self.asked += 1;
        Some((FIRST * 2_u32.pow(self.asked.min(10))).min(LONGEST))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cri::SandboxRecord;

    #[test]
    fn waits_longer_until_it_comes_true() {
        let mut exits = ExpectedExits::default();
        let mut record = PodRecord::default();
        let created = jiff::Timestamp::UNIX_EPOCH;
        record.sandboxes.push(SandboxRecord {
            id: "s".into(),
            attempt: 0,
            ready: true,
            created,
            ips: vec![],
        });
        assert_eq!(exits.look_again(), None);
        exits.expect("s".into());
        exits.observe(&record);
        let waits: Vec<_> = (0..12).map(|_| exits.look_again().unwrap().as_millis()).collect();
        assert_eq!(waits, [10, 20, 40, 80, 160, 320, 640, 1280, 2000, 2000, 2000, 2000]);
        record.sandboxes[0].ready = false;
        exits.observe(&record);
        assert_eq!(exits.look_again(), None);
    }

    #[test]
    fn exit_before_cri_knows_of_the_start_is_not_forgotten() {
        let mut exits = ExpectedExits::default();
        let mut record = PodRecord::default();
        let at = jiff::Timestamp::UNIX_EPOCH;
        let (id, state) = ("c".to_owned(), ContainerState::Created);
        record.containers.push(ContainerRecord {
            id: id.clone(),
            sandbox_id: "s".into(),
            name: "main".into(),
            attempt: 0,
            state,
            image: String::new(),
            image_id: String::new(),
            hash: String::new(),
            restart_delay: Duration::ZERO,
            resources: String::new(),
            log_path: String::new(),
            termination_message: String::new(),
        });
        exits.expect(id);
        exits.observe(&record);
        assert!(exits.look_again().is_some(), "created");
        record.containers[0].state = ContainerState::Running { started: at };
        exits.observe(&record);
        assert!(exits.look_again().is_some(), "running");
        let (reason, message) = (String::new(), String::new());
        record.containers[0].state =
            ContainerState::Exited { started: Some(at), finished: at, code: 0, reason, message };
        exits.observe(&record);
        assert_eq!(exits.look_again(), None);
    }
}
