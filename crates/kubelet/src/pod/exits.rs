//! Containers that have ended as containerd's events tell, and still run as CRI tells; and those that ran out of memory,
//! of which CRI knows only that they were killed.
//!
//! The CRI plugin works off the same events in its own time. Until it has, it is asked again in short
//! but growing intervals.

use std::collections::BTreeSet;
use std::time::Duration;

use minik8s_meta::Backoff;

use crate::cri::{ContainerRecord, ContainerState, PodRecord};

const LOOKS: Backoff = Backoff::millis(10, 2_000);
/// How often CRI is asked whether a container ran out of memory: it need not agree.
const MOST_FOR_MEMORY: u32 = 8;

#[derive(Debug, Default)]
pub struct ExpectedExits {
    ids: BTreeSet<String>,
    out_of_memory: BTreeSet<String>,
    asked: u32,
}

impl ExpectedExits {
    pub fn expect(&mut self, id: String) {
        self.ids.insert(id);
        self.asked = 0;
    }

    pub fn expect_out_of_memory(&mut self, id: String) {
        self.out_of_memory.insert(id);
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
        // One that runs lost a child only, or ends after this: then CRI hears of both in that order.
        let unexplained = |c: &ContainerRecord| matches!(&c.state, ContainerState::Exited { reason, .. } if reason != "OOMKilled");
        let asked = self.asked;
        let still = |id: &String| {
            asked < MOST_FOR_MEMORY && record.containers.iter().any(|c| &c.id == id && unexplained(c))
        };
        self.out_of_memory.retain(still);
    }

    /// How long to wait before asking again; `None` if nothing is expected.
    pub fn look_again(&mut self) -> Option<Duration> {
        if self.ids.is_empty() && self.out_of_memory.is_empty() {
            return None;
        }
        self.asked += 1;
        Some(LOOKS.after(self.asked))
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

    const AT: jiff::Timestamp = jiff::Timestamp::UNIX_EPOCH;

    fn with_container(state: ContainerState) -> PodRecord {
        let mut record = PodRecord::default();
        record.containers.push(ContainerRecord {
            id: "c".into(),
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
        record
    }

    fn exited(code: i32, reason: &str) -> ContainerState {
        let (reason, message) = (reason.to_owned(), String::new());
        ContainerState::Exited { started: Some(AT), finished: AT, code, reason, message }
    }

    #[test]
    fn exit_before_cri_knows_of_the_start_is_not_forgotten() {
        let mut exits = ExpectedExits::default();
        exits.expect("c".into());
        exits.observe(&with_container(ContainerState::Created));
        assert!(exits.look_again().is_some(), "created");
        exits.observe(&with_container(ContainerState::Running { started: AT }));
        assert!(exits.look_again().is_some(), "running");
        exits.observe(&with_container(exited(0, "")));
        assert_eq!(exits.look_again(), None);
    }

    #[test]
    fn kill_for_memory_is_asked_for_until_cri_knows_the_reason_or_disagrees() {
        let looks = |states: &[ContainerState]| {
            let mut exits = ExpectedExits::default();
            exits.expect_out_of_memory("c".into());
            let look = |state: &ContainerState| {
                exits.observe(&with_container(state.clone()));
                exits.look_again().is_some()
            };
            states.iter().map(look).collect::<Vec<_>>()
        };
        assert_eq!(looks(&[exited(137, "Error"), exited(137, "OOMKilled")]), [true, false]);
        assert_eq!(looks(&[ContainerState::Running { started: AT }]), [false]);
        let never = vec![exited(137, "Error"); 10];
        assert_eq!(looks(&never).iter().filter(|asks| **asks).count(), MOST_FOR_MEMORY as usize);
    }
}
