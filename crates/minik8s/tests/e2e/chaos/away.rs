//! From which moment to which a node, its agent or the server could do nothing, as the faults tell. Pure.
//!
//! Only this, and what happened to pods, explains that a way to the Service was silent.

use std::time::{Duration, Instant};

use super::faults::{Done, Fault};

/// For an agent that was started to know the Services again, on a busy machine (seen: 1 to 4 s).
const START: Duration = Duration::from_secs(10);
/// For an agent to see that its connection to the server leads nowhere, and to make another: two times 3 s.
const RECONNECT: Duration = Duration::from_secs(6);
/// For TCP to send again what was lost.
const RESEND: Duration = Duration::from_secs(3);
/// For the kernel to give up the address of a neighbour for which it asked in vain while a cable was out, and to ask anew:
/// who comes meanwhile waits with the others, and is refused with them.
pub const NEIGHBOUR: Duration = Duration::from_secs(2);

pub type Spans = Vec<(Instant, Instant)>;

/// When the rules of a node could not follow what the API said: nobody could say it, or nobody was there to hear it.
/// `seen` is when we ourselves were told nothing.
pub fn blind(done: &[Done], node: u32, seen: &[(Instant, Instant)]) -> Spans {
    let mut spans = server(done);
    spans.extend(seen);
    spans.extend(done.iter().filter_map(|done| match done.step.fault {
        Fault::Minik8s(number) | Fault::Crash(number) if number == node => {
            Some((done.begun, done.ended + START))
        }
        Fault::All => Some((done.begun, done.ended + START)),
        Fault::Cut(number) if number == node => Some((done.begun, done.ended + RECONNECT)),
        Fault::Slow(number) if number == node => Some((done.begun, done.ended + RESEND)),
        _ => None,
    }));
    spans.sort();
    spans
}

/// When a node led nowhere: its cable was pulled, or it was switched off and knew no Service yet.
pub fn node(done: &[Done], node: u32) -> Spans {
    let spans = done.iter().filter_map(|fault| match fault.step.fault {
        Fault::Cut(number) if number == node => Some((fault.begun, fault.ended + NEIGHBOUR)),
        Fault::Crash(number) if number == node => Some((fault.begun, started(done, fault.ended))),
        _ => None,
    });
    spans.collect()
}

/// When nobody answered on a node who was asked for a name: its agent was dead, or knew no Service yet.
pub fn agent(done: &[Done], node: u32) -> Spans {
    let spans = done.iter().filter_map(|fault| match fault.step.fault {
        Fault::Minik8s(number) if number != node => None,
        Fault::Minik8s(_) | Fault::All => Some((fault.begun, started(done, fault.ended))),
        _ => None,
    });
    spans.collect()
}

/// When so much time has passed since `from` that was in none of the spans, which are in order.
pub fn later(spans: &[(Instant, Instant)], from: Instant, time: Duration) -> Instant {
    let mut end = from + time;
    let mut counted = from;
    for &(dark, light) in spans {
        let dark = dark.max(counted);
        if dark < end && light > dark {
            end += light - dark;
            counted = light;
        }
    }
    end
}

/// How much of a time was in none of the spans, which are in order.
pub fn outside(spans: &[(Instant, Instant)], from: Instant, until: Instant) -> Duration {
    let mut counted = Duration::ZERO;
    let mut light = from;
    for &(dark, end) in spans {
        counted += dark.min(until).saturating_duration_since(light);
        light = light.max(end);
    }
    counted + until.saturating_duration_since(light)
}

/// When an agent that was started then knows the Services: it must ask the server for them.
fn started(done: &[Done], at: Instant) -> Instant {
    later(&server(done), at, START)
}

/// When the server could tell an agent nothing.
fn server(done: &[Done]) -> Spans {
    let spans = done.iter().filter_map(|done| match done.step.fault {
        Fault::Cut(1) | Fault::Crash(1) => Some((done.begun, done.ended + RECONNECT)),
        Fault::Minik8s(1) | Fault::All => Some((done.begun, done.ended + RESEND)),
        Fault::FullDisk => Some((done.begun, done.ended)),
        _ => None,
    });
    spans.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chaos::faults::Step;

    fn spans_of(fault: Fault, of: impl Fn(&[Done]) -> Spans) -> Vec<(u64, u64)> {
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let step = |fault| Step { fault, lasts: Duration::ZERO, then: Duration::ZERO };
        let done = [
            Done { step: step(fault), begun: at(10), ended: at(12), pod: None },
            Done { step: step(Fault::Cut(1)), begun: at(15), ended: at(17), pod: None },
        ];
        let seconds = |at: Instant| at.duration_since(start).as_secs();
        of(&done).into_iter().map(|(from, until)| (seconds(from), seconds(until))).collect()
    }

    #[test]
    fn way_is_away_with_its_own_node_only() {
        let node_of = |fault, number| spans_of(fault, |done| node(done, number));
        assert_eq!(node_of(Fault::Cut(2), 2), [(10, 14)]);
        // It asks for the Services while the server is cut off.
        assert_eq!(node_of(Fault::Crash(2), 2), [(10, 30)]);
        for other in [Fault::Cut(3), Fault::Crash(3), Fault::Minik8s(2), Fault::All, Fault::Slow(2)] {
            assert_eq!(node_of(other, 2), []);
        }
        assert_eq!(node_of(Fault::Slow(1), 1), [(15, 19)]);
    }

    #[test]
    fn names_are_silent_while_their_agent_is_dead() {
        let agent_of = |fault| spans_of(fault, |done| agent(done, 2));
        assert_eq!(agent_of(Fault::Minik8s(2)), [(10, 30)]);
        assert_eq!(agent_of(Fault::All), [(10, 33)]);
        for other in [Fault::Minik8s(1), Fault::Minik8s(3), Fault::Containerd(2), Fault::FullDisk] {
            assert_eq!(agent_of(other), []);
        }
    }

    #[test]
    fn rules_follow_unless_nobody_tells_or_hears() {
        let blind_of = |fault| spans_of(fault, |done| blind(done, 2, &[]));
        assert_eq!(blind_of(Fault::Minik8s(2)), [(10, 22), (15, 23)]);
        assert_eq!(blind_of(Fault::Minik8s(1)), [(10, 15), (15, 23)]);
        assert_eq!(blind_of(Fault::Slow(2)), [(10, 15), (15, 23)]);
        assert_eq!(blind_of(Fault::Slow(3)), [(15, 23)]);
        assert_eq!(blind_of(Fault::Sandbox(2)), [(15, 23)]);
    }

    #[test]
    fn time_is_counted_outside_of_spans() {
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let spans = [(at(10), at(12)), (at(11), at(13)), (at(20), at(24))];
        let seconds = |from, until| outside(&spans, at(from), at(until)).as_secs();
        assert_eq!((seconds(0, 5), seconds(9, 14), seconds(12, 22), seconds(21, 23)), (5, 2, 7, 0));
        for (from, time, end) in [(0, 5, 5), (9, 2, 14), (12, 9, 26), (30, 1, 31)] {
            assert_eq!(later(&spans, at(from), Duration::from_secs(time)), at(end), "{from} and {time}");
        }
    }
}
