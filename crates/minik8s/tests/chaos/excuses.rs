//! Which failures of a Service's clients a dying pod explains. Pure.
//!
//! A request may fail if the very pod to which it was led died or was cut off before it ended, and if nobody could
//! have known better when it was begun: the pod was still an endpoint. The control plane must learn of a death in
//! bounded time, in which the time does not count in which nobody could learn anything because it was away or its
//! disk full. So that it is killed extends an excuse, but never is one.

use std::time::{Duration, Instant};

use crate::faults::{Done, Fault};
use crate::sight::{Life, Span};
use crate::traffic::Failure;

/// For a node's rules to follow what the API says, on a busy machine.
const FOLLOW: Duration = Duration::from_secs(3);
/// A node that says nothing for so long is called NotReady.
const GRACE: Duration = Duration::from_secs(3);
/// For the API to say that a pod is dead, or back: the nodes' grace, and time for a busy machine.
const LEARN: Duration = Duration::from_secs(GRACE.as_secs() + 10);

/// All that is known about the pods of a run.
pub struct Evidence {
    pub lives: Vec<Life>,
    pub listed: Vec<Span>,
    pub done: Vec<Done>,
    /// When nothing could be learned.
    pub blind: Vec<(Instant, Instant)>,
}

impl Evidence {
    /// How long the pod had been dead when the request was begun (nothing if it died later; without the time in
    /// which nobody could know), or why there is no excuse. `led_to` are the addresses to which its packets went.
    pub fn excuse(&self, failure: &Failure, led_to: &[String]) -> Result<Duration, String> {
        if led_to.is_empty() {
            let absent = self.nobody_left(failure);
            return absent.map_err(|reason| format!("{}: led to no pod: {reason}", failure.why));
        }
        let mut reasons = Vec::new();
        for address in led_to {
            let life = self.lives.iter().rfind(|life| {
                life.address == *address
                    && life.since <= failure.ended
                    && life.ended.is_none_or(|ended| failure.begun <= ended)
            });
            let whose = life.map_or("nobody's".to_owned(), |life| format!("{} on {}", life.pod, life.node));
            // With nobody left, clients are led to those that end, in the hope that they still serve.
            let is_last = !self.has_endpoints(failure.begun);
            if !is_last && !self.was_listed(address, failure.begun) {
                let spans = self.listed.iter().filter(|span| span.address == *address);
                let spans: Vec<String> = spans.map(|span| self.shown(span.since, span.until)).collect();
                reasons.push(format!(
                    "{}: led to {address} ({whose}), which was no endpoint but at {}",
                    failure.why,
                    spans.join(", ")
                ));
                continue;
            }
            let lives = self.lives.iter().filter(|life| life.address == *address);
            let explains = |death: &_| self.explains(death, failure, is_last);
            match lives.flat_map(|life| self.deaths(life)).find(explains) {
                Some((since, _)) => return Ok(self.learnable(since, failure.begun)),
                None => reasons.push(format!("{}: {address} ({whose}) had no reason to die", failure.why)),
            }
        }
        Err(reasons.join("; "))
    }

    /// A request may be refused if the Service had no endpoint, and each of its pods was dead, or on a node that was
    /// away and could not be written down as back again, or new. How long the last of them had been so.
    fn nobody_left(&self, failure: &Failure) -> Result<Duration, String> {
        let at = failure.begun;
        if self.has_endpoints(at) {
            return Err("there were endpoints".to_owned());
        }
        let alive =
            self.lives.iter().filter(|life| life.since <= at && life.ended.is_none_or(|end| at <= end));
        let mut last = Duration::MAX;
        for life in alive {
            let mut absences = self.deaths(life);
            absences.extend(self.silences(life));
            absences.push((life.since, Some(life.since)));
            let absence = absences.into_iter().filter(|(since, until)| {
                *since <= at && until.is_none_or(|until| at <= self.later(until, LEARN))
            });
            let since = absence.map(|(since, _)| since).max();
            let since = since.ok_or_else(|| format!("{} on {} was well", life.pod, life.node))?;
            last = last.min(self.learnable(since, at));
        }
        Ok(last)
    }

    /// When its node's agent was dead for longer than its grace: the pod serves on, but no Service leads to it.
    fn silences(&self, life: &Life) -> Vec<(Instant, Option<Instant>)> {
        let is_here = |fault: Fault| match fault {
            Fault::Minik8s(node) => life.node == format!("node{node}"),
            Fault::All => true,
            _ => false,
        };
        let silent =
            self.done.iter().filter(|done| is_here(done.step.fault) && done.ended - done.begun >= GRACE);
        silent.map(|done| (done.begun, Some(done.ended))).collect()
    }

    /// From when until when, and what was done to the cluster shortly before.
    pub fn when(&self, failure: &Failure) -> String {
        let before = self.done.iter().filter(|done| done.begun <= failure.ended).rev().take(3);
        let faults =
            before.map(|done| format!("{:?} {}", done.step.fault, self.shown(done.begun, Some(done.ended))));
        let faults: Vec<String> = faults.collect();
        format!("{} after {}", self.shown(failure.begun, Some(failure.ended)), faults.join(", "))
    }

    /// In seconds since the first fault.
    fn shown(&self, from: Instant, until: Option<Instant>) -> String {
        let start = self.done.first().map_or(from, |done| done.begun);
        let seconds = |at: Instant| format!("{:.1}", at.saturating_duration_since(start).as_secs_f64());
        format!("{}-{}", seconds(from), until.map_or("now".to_owned(), seconds))
    }

    /// Whether a client could be led there at that moment.
    fn was_listed(&self, address: &str, at: Instant) -> bool {
        let mut spans = self.listed.iter().filter(|span| span.address == address);
        spans.any(|span| {
            // The nodes may see it before we do.
            span.since <= at + FOLLOW && span.until.is_none_or(|until| at <= self.later(until, FOLLOW))
        })
    }

    /// From when until when it was dead or out of reach, for each reason.
    fn deaths(&self, life: &Life) -> Vec<(Instant, Option<Instant>)> {
        let mut deaths: Vec<_> = life.doomed.map(|at| (at, None)).into_iter().collect();
        for done in &self.done {
            let is_over = life.ended.is_some_and(|ended| ended < done.begun) || life.since > done.ended;
            let is_here = |node: u32| life.node == format!("node{node}");
            match done.step.fault {
                Fault::Cut(node) if is_here(node) => deaths.push((done.begun, Some(done.ended))),
                // The last of them before it was told is the one.
                Fault::FullDisk if life.evicted.is_some_and(|told| done.begun <= told) => {
                    deaths.push((done.begun, None));
                }
                Fault::Crash(node) if is_here(node) && !is_over => deaths.push((done.begun, None)),
                // It serves on until its node replaces it.
                Fault::Sandbox(_) if done.pod.as_ref() == Some(&life.pod) && !is_over => {
                    let replaced = life.ended.and_then(|ended| ended.checked_sub(LEARN));
                    deaths.push((replaced.map_or(done.begun, |replaced| replaced.max(done.begun)), None));
                }
                _ if done.pod.as_ref() == Some(&life.pod) && !is_over => deaths.push((done.begun, None)),
                _ => {}
            }
        }
        deaths
    }

    fn explains(
        &self,
        (since, until): &(Instant, Option<Instant>),
        failure: &Failure,
        is_last: bool,
    ) -> bool {
        *since <= failure.ended
            && until.is_none_or(|until| failure.begun <= until)
            && (is_last || failure.begun <= self.later(*since, LEARN))
    }

    /// Whether the Service had any that was ready.
    fn has_endpoints(&self, at: Instant) -> bool {
        self.listed.iter().any(|span| span.since <= at && span.until.is_none_or(|until| at <= until))
    }

    /// How much of a time something could be learned in.
    fn learnable(&self, from: Instant, until: Instant) -> Duration {
        let mut counted = Duration::ZERO;
        let mut light = from;
        for &(dark, end) in &self.blind {
            counted += dark.min(until).saturating_duration_since(light);
            light = light.max(end);
        }
        counted + until.saturating_duration_since(light)
    }

    /// When so much time has passed in which something could be learned.
    fn later(&self, from: Instant, time: Duration) -> Instant {
        let mut end = from + time;
        let mut counted = from;
        for &(dark, light) in &self.blind {
            let dark = dark.max(counted);
            if dark < end && light > dark {
                end += light - dark;
                counted = light;
            }
        }
        end
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::faults::Step;

    fn done(fault: Fault, begun: Instant, seconds: u64, pod: Option<&str>) -> Done {
        let lasts = Duration::from_secs(seconds);
        let step = Step { fault, lasts, then: Duration::ZERO };
        Done { step, begun, ended: begun + lasts, pod: pod.map(str::to_owned) }
    }

    /// Pod `a` on node2 was an endpoint until second 40, and still runs; another one stays.
    fn evidence(start: Instant, done: Vec<Done>) -> Evidence {
        let until = Some(start + Duration::from_secs(40));
        Evidence {
            lives: vec![Life::new("a", "node2", "10.0.0.1", "c1", start)],
            listed: vec![
                Span { address: "10.0.0.1".to_owned(), since: start, until },
                Span { address: "10.0.0.9".to_owned(), since: start, until: None },
            ],
            done,
            blind: Vec::new(),
        }
    }

    fn failure(start: Instant, begun: u64, ended: u64) -> Failure {
        let at = |seconds| start + Duration::from_secs(seconds);
        Failure { begun: at(begun), ended: at(ended), port: 1, why: "reset".to_owned() }
    }

    #[test]
    fn only_its_own_pod_is_an_excuse() {
        let start = Instant::now();
        let ten = start + Duration::from_secs(10);
        let check = |fault: Fault, pod: Option<&str>, (begun, ended), expected: bool| {
            let evidence = evidence(start, vec![done(fault, ten, 2, pod)]);
            let found = evidence.excuse(&failure(start, begun, ended), &["10.0.0.1".to_owned()]);
            assert_eq!(found.is_ok(), expected, "{fault:?} {pod:?} {begun}-{ended}: {found:?}");
        };
        check(Fault::PodProcess(2), Some("a"), (11, 11), true);
        check(Fault::PodProcess(2), Some("a"), (9, 10), true);
        check(Fault::PodProcess(2), Some("a"), (8, 9), false);
        check(Fault::PodProcess(2), Some("a"), (24, 24), false);
        check(Fault::PodProcess(2), Some("b"), (11, 11), false);
        check(Fault::PodProcess(2), None, (11, 11), false);
        check(Fault::Crash(2), None, (11, 11), true);
        check(Fault::Crash(3), None, (11, 11), false);
        check(Fault::Cut(2), None, (12, 13), true);
        check(Fault::Cut(2), None, (13, 14), false);
        check(Fault::Cut(3), None, (11, 11), false);
        for harmless in [Fault::Minik8s(1), Fault::Minik8s(2), Fault::Containerd(2), Fault::Slow(2)] {
            check(harmless, None, (11, 11), false);
        }
        check(Fault::FullDisk, None, (11, 11), false);
    }

    #[test]
    fn a_pod_that_its_node_gave_up_is_an_excuse() {
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let mut evidence = evidence(start, vec![done(Fault::FullDisk, at(10), 2, None)]);
        evidence.lives[0].evicted = Some(at(12));
        let excuse = |begun| evidence.excuse(&failure(start, begun, begun), &["10.0.0.1".to_owned()]);
        assert!(excuse(11).is_ok());
        assert!(excuse(9).is_err());
        assert!(excuse(24).is_err());
    }

    #[test]
    fn with_no_pod_left_a_service_refuses() {
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let mut evidence = evidence(start, vec![done(Fault::Minik8s(2), at(30), 4, None)]);
        let check = |evidence: &Evidence, begun, expected: bool| {
            let found = evidence.excuse(&failure(start, begun, begun), &[]);
            assert_eq!(found.is_ok(), expected, "{begun}: {found:?}");
        };
        check(&evidence, 35, false);
        evidence.listed.iter_mut().for_each(|span| span.until = Some(at(33)));
        check(&evidence, 29, false);
        check(&evidence, 35, true);
        check(&evidence, 46, true);
        check(&evidence, 48, false);
        // The disk was full, so nobody could write down that it is back.
        evidence.blind = vec![(at(40), at(45))];
        check(&evidence, 48, true);
        // Another pod, that nothing had happened to.
        evidence.lives.push(Life::new("b", "node1", "10.0.0.2", "c2", start));
        check(&evidence, 48, false);
        evidence.lives[1].evicted = Some(at(44));
        evidence.done.push(done(Fault::FullDisk, at(40), 5, None));
        check(&evidence, 48, true);
        // Too short to be noticed.
        evidence.done[0].ended = at(32);
        check(&evidence, 48, false);
    }

    #[test]
    fn what_is_known_must_be_heeded() {
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let mut evidence = evidence(start, vec![done(Fault::Crash(2), at(38), 1, None)]);
        let check = |evidence: &Evidence, begun, expected: bool| {
            let found = evidence.excuse(&failure(start, begun, begun + 1), &["10.0.0.1".to_owned()]);
            assert_eq!(found.is_ok(), expected, "{begun}: {found:?}");
        };
        check(&evidence, 42, true);
        check(&evidence, 44, false);
        // While nobody could tell, nobody could know.
        evidence.blind = vec![(at(10), at(12)), (at(39), at(43))];
        check(&evidence, 46, true);
        check(&evidence, 48, false);
        assert_eq!(evidence.learnable(at(38), at(46)), Duration::from_secs(4));
        assert_eq!(evidence.learnable(at(41), at(42)), Duration::ZERO);
        assert_eq!(evidence.learnable(at(20), at(19)), Duration::ZERO);
        assert!(evidence.excuse(&failure(start, 39, 39), &[]).is_err(), "it was led nowhere");
        // When nobody is left the dead are asked.
        evidence.listed.pop();
        check(&evidence, 60, true);
        evidence.done.clear();
        check(&evidence, 60, false);
        assert!(evidence.excuse(&failure(start, 39, 39), &["10.0.0.2".to_owned()]).is_err());
    }
}
