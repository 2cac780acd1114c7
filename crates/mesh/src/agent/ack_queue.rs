//! Which acknowledgements are written next: some at a time, those of one object in turn, and one that could not be written
//! again after a while. Pure, and it never decides what they say: that is in [`super::acks`].

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use minik8s_meta::mesh::MeshAckSpec;

use super::RETRY;
use super::acks::{AckedObject, Applied, Wanted, due};

/// At a time: after its start an agent may have a thousand to write, and all agents of a cluster may start at once.
pub const MOST_WRITES: usize = 8;

/// What is said of an object, which may have taken the place of another one of its name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ack {
    pub uid: String,
    pub spec: MeshAckSpec,
}

#[derive(Debug, Default)]
pub struct AckQueue {
    wanted: BTreeMap<AckedObject, Wanted>,
    told: BTreeMap<AckedObject, MeshAckSpec>,
    waiting: BTreeMap<AckedObject, Ack>,
    writing: BTreeMap<AckedObject, Ack>,
    /// What could not be written, and when it is tried again.
    failed: BTreeMap<AckedObject, Instant>,
}

impl AckQueue {
    /// What the control plane waits for, each with its uid and its revision, by this version of the configuration.
    pub fn want(
        &mut self,
        objects: impl Iterator<Item = (AckedObject, String, String)>,
        version: u64,
        now: Instant,
    ) {
        let mut wanted = BTreeMap::new();
        for (object, uid, revision) in objects {
            let known = self.wanted.remove(&object).filter(|known| known.uid == uid);
            if known.is_none() {
                self.told.remove(&object);
            }
            let known = known.filter(|known| known.revision == revision);
            wanted.insert(object, known.unwrap_or(Wanted { uid, revision, version, since: now }));
        }
        self.wanted = wanted;
        self.told.retain(|object, _| self.wanted.contains_key(object));
    }

    /// Finds out what is to be written as the node is now; how long until there may be more although nothing happens.
    pub fn fill(&mut self, node: &Applied, now: Instant) -> Option<Duration> {
        let due = due(&self.wanted, node, &self.told, now);
        self.failed.retain(|_, until| *until > now);
        let mut waiting = BTreeMap::new();
        for (object, spec) in due.tell {
            let Some(wanted) = self.wanted.get(&object) else { continue };
            let ack = Ack { uid: wanted.uid.clone(), spec };
            if !self.failed.contains_key(&object) && self.writing.get(&object) != Some(&ack) {
                waiting.insert(object, ack);
            }
        }
        self.waiting = waiting;
        let retry = self.failed.values().map(|until| until.saturating_duration_since(now)).min();
        [due.again, retry].into_iter().flatten().min()
    }

    /// The next that is to be written now.
    pub fn begin(&mut self) -> Option<(AckedObject, Ack)> {
        if self.writing.len() >= MOST_WRITES {
            return None;
        }
        let object = self.waiting.keys().find(|object| !self.writing.contains_key(*object))?.clone();
        let ack = self.waiting.remove(&object)?;
        self.writing.insert(object.clone(), ack.clone());
        Some((object, ack))
    }

    /// One is written, or could not be.
    pub fn end(&mut self, object: AckedObject, is_written: bool, now: Instant) {
        let Some(ack) = self.writing.remove(&object) else { return };
        if !is_written {
            self.failed.insert(object, now + RETRY);
        } else if self.wanted.get(&object).is_some_and(|wanted| wanted.uid == ack.uid) {
            self.told.insert(object, ack.spec);
        }
    }

    pub fn is_writing(&self) -> bool {
        !self.writing.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::super::acks::Reached;
    use super::*;

    fn route(number: usize) -> AckedObject {
        AckedObject::Route(("ns".to_owned(), format!("{number:02}")))
    }

    /// So many routes of this uid and revision.
    fn want(queue: &mut AckQueue, number: usize, (uid, revision): (&str, &str), now: Instant) {
        let routes = (0..number).map(|number| (route(number), uid.to_owned(), revision.to_owned()));
        queue.want(routes, 1, now);
    }

    /// A node whose only proxy has applied everything.
    fn node() -> Applied {
        let proxies = BTreeMap::from([("ns/a".to_owned(), Reached::Version(9))]);
        Applied { proxies, ..Applied::default() }
    }

    fn begun(queue: &mut AckQueue) -> Vec<AckedObject> {
        std::iter::from_fn(|| queue.begin()).map(|(object, _)| object).collect()
    }

    #[test]
    fn acknowledgements_are_written_some_at_a_time() {
        let (mut queue, now) = (AckQueue::default(), Instant::now());
        want(&mut queue, MOST_WRITES + 2, ("u", "1"), now);
        assert_eq!(queue.fill(&node(), now), None);
        let first: Vec<AckedObject> = (0..MOST_WRITES).map(route).collect();
        assert_eq!(begun(&mut queue), first);
        queue.fill(&node(), now);
        assert_eq!(begun(&mut queue), [], "no more, and none twice");
        queue.end(route(3), true, now);
        assert_eq!(begun(&mut queue), [route(MOST_WRITES)]);
        for number in (0..=MOST_WRITES).filter(|number| *number != 3) {
            queue.end(route(number), true, now);
        }
        assert_eq!(begun(&mut queue), [route(MOST_WRITES + 1)]);
        assert!(queue.is_writing());
        queue.end(route(MOST_WRITES + 1), true, now);
        queue.fill(&node(), now);
        assert!(begun(&mut queue).is_empty() && !queue.is_writing(), "each once");
    }

    #[test]
    fn newer_acknowledgement_waits_for_the_former_one() {
        let (mut queue, now) = (AckQueue::default(), Instant::now());
        for revision in ["1", "2"] {
            want(&mut queue, 1, ("u", revision), now);
            queue.fill(&node(), now);
            assert_eq!(begun(&mut queue).len(), usize::from(revision == "1"));
        }
        queue.end(route(0), true, now);
        assert_eq!(queue.begin().map(|(_, ack)| ack.spec.revision).as_deref(), Some("2"));
        queue.end(route(0), true, now);
        queue.fill(&node(), now);
        assert_eq!(queue.begin(), None);
    }

    #[test]
    fn acknowledgement_that_fails_is_written_later() {
        let (mut queue, now) = (AckQueue::default(), Instant::now());
        want(&mut queue, 2, ("u", "1"), now);
        queue.fill(&node(), now);
        assert_eq!(begun(&mut queue), [route(0), route(1)]);
        queue.end(route(0), false, now);
        queue.end(route(1), true, now);
        assert_eq!(queue.fill(&node(), now), Some(RETRY));
        assert_eq!(begun(&mut queue), []);
        assert_eq!(queue.fill(&node(), now + RETRY), None);
        assert_eq!(begun(&mut queue), [route(0)]);
    }

    #[test]
    fn word_about_a_former_object_is_not_taken_for_its_successors() {
        let (mut queue, now) = (AckQueue::default(), Instant::now());
        want(&mut queue, 1, ("u", "1"), now);
        queue.fill(&node(), now);
        assert_eq!(queue.begin().map(|(_, ack)| ack.uid).as_deref(), Some("u"));
        want(&mut queue, 1, ("v", "1"), now);
        queue.end(route(0), true, now);
        queue.fill(&node(), now);
        assert_eq!(queue.begin().map(|(_, ack)| ack.uid).as_deref(), Some("v"));
    }
}
