//! Which failures and silences of one way to the Service are expected. Pure.
//!
//! A request may fail while the node on which it is made is cut off or switched off. Else only if the very pod to which
//! it was led died or was cut off before it ended, and if nobody could have known better when it was begun: the pod was
//! still an endpoint. The control plane must learn of a death in bounded time, in which the time does not count in which
//! nobody could learn anything because it was away or its disk full. So that it is killed extends an expected failure,
//! but never is one.

use std::time::{Duration, Instant};

use super::away::{self, Spans};
use super::faults::{Done, Fault};
use super::lookup::REFUSED;
use super::sight::{Life, Span};
use super::traffic::{Answered, By, Failure, Way};

/// For a node's rules to follow what the API says, on a busy machine.
const FOLLOW: Duration = Duration::from_secs(3);
/// A node that says nothing for so long is called NotReady.
const GRACE: Duration = Duration::from_secs(3);
/// For the API to say that a pod is dead, or back: the nodes' grace, and time for a busy machine.
const LEARN: Duration = Duration::from_secs(GRACE.as_secs() + 10);
/// How closely silences are looked at.
const STEP: Duration = Duration::from_millis(100);
/// Those that are shorter need no reason.
const SHORT_SILENCE: Duration = Duration::from_secs(2);
/// So late we may hear of something at the end of a time in which we heard nothing.
const LATE: Duration = Duration::from_millis(500);

/// All that is known about the pods of a run, and about the node of one way.
pub struct Evidence {
    pub lives: Vec<Life>,
    pub listed: Vec<Span>,
    pub done: Vec<Done>,
    /// When we ourselves were told nothing.
    pub unseen: Spans,
    /// When nothing could be learned on that node, in order.
    pub blind: Spans,
    /// When the node led nowhere.
    pub away: Spans,
    /// When nobody answered there who was asked for a name, if names are asked for.
    pub nameless: Spans,
}

/// Why a request may have failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reason {
    /// The node on which it was made, or the agent that answers for names, was away.
    Away,
    /// Its pod had been dead for so long when it was begun (nothing if it died later; without the time in which nobody
    /// could know).
    Dead(Duration),
}

impl Evidence {
    pub fn of(way: Way, lives: &[Life], listed: &[Span], done: &[Done], unseen: &Spans) -> Evidence {
        let nameless = if way.by == By::Name { away::agent(done, way.node) } else { Spans::new() };
        Evidence {
            lives: lives.to_vec(),
            listed: listed.to_vec(),
            done: done.to_vec(),
            unseen: unseen.clone(),
            blind: away::blind(done, way.node, unseen),
            away: away::node(done, way.node),
            nameless,
        }
    }

    /// Why it failed, or why it should not have. `led_to` are the addresses to which its packets went.
    pub fn expected(&self, failure: &Failure, led_to: &[String]) -> Result<Reason, String> {
        let is_refused = failure.why.starts_with(REFUSED);
        if overlaps(&self.away, failure.begun, failure.ended)
            || !is_refused && overlaps(&self.nameless, failure.begun, failure.ended)
        {
            return Ok(Reason::Away);
        }
        if led_to.is_empty() {
            let absent = self.nobody_left(failure);
            return absent
                .map(Reason::Dead)
                .map_err(|reason| format!("{}: led to no pod: {reason}", failure.why));
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
            let is_last = self.nobody_listed(failure.begun);
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
                Some((since, _)) => return Ok(Reason::Dead(self.learnable(since, failure.begun))),
                None => reasons.push(format!("{}: {address} ({whose}) had no reason to die", failure.why)),
            }
        }
        Err(reasons.join("; "))
    }

    /// A request may be refused if the Service had no endpoint, and each of its pods was dead, or on a node that was
    /// away and could not be written down as back again, or new. How long the last of them had been so.
    fn nobody_left(&self, failure: &Failure) -> Result<Duration, String> {
        let at = failure.begun;
        if !self.nobody_listed(at) {
            return Err("there were endpoints".to_owned());
        }
        self.all_absent(at)
    }

    /// How long the last of the pods had been dead, silent or new; or which was not.
    fn all_absent(&self, at: Instant) -> Result<Duration, String> {
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

    /// The longest time without an answer, less that in which none could be expected: the node was away, or no
    /// endpoint was alive.
    pub fn longest_silence(&self, answers: &[Answered], from: Instant, until: Instant) -> Duration {
        let mut came: Vec<Instant> = answers.iter().map(|answer| answer.ended).chain([from, until]).collect();
        came.sort_unstable();
        came.windows(2).map(|two| self.silence(two[0], two[1])).max().unwrap_or_default()
    }

    fn silence(&self, from: Instant, until: Instant) -> Duration {
        if until - from < SHORT_SILENCE {
            return until - from;
        }
        let mut silent = Duration::ZERO;
        let mut at = from;
        while at < until {
            let next = until.min(at + STEP);
            let is_away = overlaps(&self.away, at, next) || overlaps(&self.nameless, at, next);
            if !is_away && !self.nobody_serves(at) {
                silent += next - at;
            }
            at = next;
        }
        silent
    }

    /// Whether no endpoint was alive, and no pod had a reason to be one.
    fn nobody_serves(&self, at: Instant) -> bool {
        let is_now =
            |since: Instant, until: Option<Instant>| since <= at && until.is_none_or(|until| at <= until);
        let is_dead = |life: &Life| self.deaths(life).iter().any(|(since, until)| is_now(*since, *until));
        let serves = |life: &&Life| {
            let is_listed = |span: &Span| span.address == life.address && is_now(span.since, span.until);
            is_now(life.since, life.ended) && self.listed.iter().any(is_listed) && !is_dead(life)
        };
        !self.lives.iter().any(|life| serves(&life)) && self.all_absent(at).is_ok()
    }

    /// When its node was not heard for longer than its grace, since its agent was dead or the server out of reach: the
    /// pod serves on, but no Service leads to it.
    fn silences(&self, life: &Life) -> Vec<(Instant, Option<Instant>)> {
        let is_silent = |done: &&Done| match done.step.fault {
            Fault::Minik8s(node) => life.node == format!("node{node}") && done.ended - done.begun >= GRACE,
            Fault::All => done.ended - done.begun >= GRACE,
            // It takes as long again until what was lost is sent again.
            Fault::Cut(1) | Fault::Crash(1) => life.node != "node1",
            _ => false,
        };
        self.done.iter().filter(is_silent).map(|done| (done.begun, Some(done.ended))).collect()
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
            span.since <= self.later(at, FOLLOW)
                && span.until.is_none_or(|until| at <= self.later(until, FOLLOW))
        })
    }

    /// From when until when it was dead or out of reach, for each reason.
    fn deaths(&self, life: &Life) -> Vec<(Instant, Option<Instant>)> {
        let mut deaths: Vec<_> = life.doomed.map(|at| (at, None)).into_iter().collect();
        for done in &self.done {
            let is_over =
                life.ended.is_some_and(|ended| ended < done.begun) || self.first_seen(life) > done.ended;
            let is_here = |node: u32| life.node == format!("node{node}");
            match done.step.fault {
                Fault::Cut(node) if is_here(node) => {
                    deaths.push((done.begun, Some(done.ended + away::NEIGHBOUR)));
                }
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

    /// The same, as a node may have seen it that follows what the API says.
    fn nobody_listed(&self, at: Instant) -> bool {
        // There were some before, and none just then.
        let is_first_again = |since: Instant| {
            let mut before = self.listed.iter().filter(|other| other.since < since).peekable();
            before.peek().is_some() && before.all(|other| other.until.is_some_and(|until| until < since))
        };
        let mut starts = self.listed.iter().map(|span| span.since).filter(|since| *since <= at);
        let lately = |since: Instant| is_first_again(since) && at <= self.later(since, FOLLOW);
        !self.has_endpoints(at) || starts.any(lately)
    }

    /// When it may have begun: we hear of some only after a time in which we heard nothing.
    fn first_seen(&self, life: &Life) -> Instant {
        let unseen =
            self.unseen.iter().filter(|(dark, light)| *dark <= life.since && life.since <= *light + LATE);
        unseen.map(|(dark, _)| *dark).fold(life.since, Instant::min)
    }

    /// How much of a time something could be learned in.
    fn learnable(&self, from: Instant, until: Instant) -> Duration {
        away::outside(&self.blind, from, until)
    }

    /// When so much time has passed in which something could be learned.
    fn later(&self, from: Instant, time: Duration) -> Instant {
        away::later(&self.blind, from, time)
    }
}

fn overlaps(spans: &[(Instant, Instant)], begun: Instant, ended: Instant) -> bool {
    spans.iter().any(|(from, until)| begun <= *until && *from <= ended)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chaos::faults::Step;

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
            unseen: Vec::new(),
            blind: Vec::new(),
            away: Vec::new(),
            nameless: Vec::new(),
        }
    }

    fn failure(start: Instant, begun: u64, ended: u64) -> Failure {
        let at = |seconds| start + Duration::from_secs(seconds);
        Failure { begun: at(begun), ended: at(ended), port: 1, why: "reset".to_owned() }
    }

    #[test]
    fn failure_is_expected_of_its_own_pod_only() {
        let start = Instant::now();
        let ten = start + Duration::from_secs(10);
        let check = |fault: Fault, pod: Option<&str>, (begun, ended), expected: bool| {
            let evidence = evidence(start, vec![done(fault, ten, 2, pod)]);
            let found = evidence.expected(&failure(start, begun, ended), &["10.0.0.1".to_owned()]);
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
        check(Fault::Cut(2), None, (14, 15), true);
        check(Fault::Cut(2), None, (15, 16), false);
        check(Fault::Cut(3), None, (11, 11), false);
        for harmless in [Fault::Minik8s(1), Fault::Minik8s(2), Fault::Containerd(2), Fault::Slow(2)] {
            check(harmless, None, (11, 11), false);
        }
        check(Fault::FullDisk, None, (11, 11), false);
    }

    #[test]
    fn failure_is_expected_of_an_evicted_pod() {
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let mut evidence = evidence(start, vec![done(Fault::FullDisk, at(10), 2, None)]);
        evidence.lives[0].evicted = Some(at(12));
        let expected = |begun| evidence.expected(&failure(start, begun, begun), &["10.0.0.1".to_owned()]);
        assert!(expected(11).is_ok());
        assert!(expected(9).is_err());
        assert!(expected(24).is_err());
    }

    #[test]
    fn with_no_pod_left_a_service_refuses() {
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let mut evidence = evidence(start, vec![done(Fault::Minik8s(2), at(30), 4, None)]);
        let check = |evidence: &Evidence, begun, expected: bool| {
            let found = evidence.expected(&failure(start, begun, begun), &[]);
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
            let found = evidence.expected(&failure(start, begun, begun + 1), &["10.0.0.1".to_owned()]);
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
        assert!(evidence.expected(&failure(start, 39, 39), &[]).is_err(), "it was led nowhere");
        // When nobody is left the dead are asked.
        evidence.listed.pop();
        check(&evidence, 60, true);
        evidence.done.clear();
        check(&evidence, 60, false);
        assert!(evidence.expected(&failure(start, 39, 39), &["10.0.0.2".to_owned()]).is_err());
    }

    #[test]
    fn failure_is_expected_while_its_own_node_is_away() {
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let mut evidence = evidence(start, Vec::new());
        evidence.away = vec![(at(10), at(12))];
        evidence.nameless = vec![(at(20), at(22))];
        let expected = |begun, ended, why: &str| {
            let failure = Failure { why: why.to_owned(), ..failure(start, begun, ended) };
            evidence.expected(&failure, &[]).ok()
        };
        assert_eq!(expected(9, 10, "no answer"), Some(Reason::Away));
        assert_eq!(expected(13, 14, "no answer"), None);
        assert_eq!(expected(21, 21, "no answer"), Some(Reason::Away));
        assert_eq!(expected(21, 21, REFUSED), None);
        assert_eq!(expected(11, 11, REFUSED), Some(Reason::Away));
    }

    #[test]
    fn silence_counts_while_some_endpoint_is_alive() {
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let answered = |second| Answered { begun: at(second), ended: at(second), port: 1 };
        let answers = [answered(1), answered(11), answered(19)];
        let silence = |evidence: &Evidence| {
            evidence.longest_silence(&answers, start, at(20)).as_secs_f64().round() as u64
        };
        let mut evidence = evidence(start, Vec::new());
        assert_eq!(silence(&evidence), 10);
        evidence.away = vec![(at(2), at(5))];
        assert_eq!(silence(&evidence), 8);
        evidence.nameless = vec![(at(12), at(18))];
        assert_eq!(silence(&evidence), 7);
        // Nobody knows anything of the second endpoint; the first is dead.
        evidence.done = vec![done(Fault::Crash(2), at(8), 12, None)];
        assert_eq!(silence(&evidence), 4);
        evidence.lives.push(Life::new("b", "node3", "10.0.0.9", "c2", start));
        assert_eq!(silence(&evidence), 7);
    }
}
