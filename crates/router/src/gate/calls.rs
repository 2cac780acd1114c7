//! The last calls of a function at this router: how each was answered, how long it took, and how long it waited.
//!
//! A bounded ring in memory, told when the API server asks and written nowhere: a call costs a push, and an idle function
//! nothing. It never holds anything that a caller has sent but the method.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use http::{Method, StatusCode};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use k8s_openapi::jiff::Timestamp;
use minik8s_meta::function_call::{CALLER_GONE, FunctionCall, KEPT_CALLS};
use parking_lot::Mutex;

use super::Gate;

/// Methods can be any word, of any length.
const LONGEST_METHOD: usize = 16;

/// The last calls, newest last.
#[derive(Debug, Default)]
pub struct CallRing(Mutex<Calls>);

#[derive(Debug, Default)]
struct Calls {
    last: VecDeque<FunctionCall>,
    cold_starts: ColdStarts,
}

/// The calls that got an instance which had to be started, and how long they took.
#[derive(Debug, Default, Clone, Copy, PartialEq)]
pub struct ColdStarts {
    pub count: u64,
    /// Until the instance listened.
    pub waited_seconds: f64,
    /// From then on.
    pub worked_seconds: f64,
}

impl CallRing {
    fn push(&self, call: FunctionCall) {
        let mut calls = self.0.lock();
        if call.cold && !call.pod.is_empty() {
            calls.cold_starts.count += 1;
            calls.cold_starts.waited_seconds += call.waited_milliseconds / 1000.0;
            calls.cold_starts.worked_seconds += (call.milliseconds - call.waited_milliseconds) / 1000.0;
        }
        if calls.last.len() >= KEPT_CALLS {
            calls.last.pop_front();
        }
        calls.last.push_back(call);
    }

    /// Newest first.
    pub fn list(&self) -> Vec<FunctionCall> {
        self.0.lock().last.iter().rev().cloned().collect()
    }

    pub fn has_any(&self) -> bool {
        !self.0.lock().last.is_empty()
    }

    pub fn cold_starts(&self) -> ColdStarts {
        self.0.lock().cold_starts
    }

    pub fn clear(&self) {
        *self.0.lock() = Calls::default();
    }
}

/// A call that is not over yet. Dropped, it is one of the last calls; as that of a caller who went away where nobody has
/// said how it was answered.
#[derive(Debug)]
pub struct CallRecord {
    gate: Arc<Gate>,
    began: Instant,
    call: FunctionCall,
}

impl Gate {
    pub fn begin_call(self: &Arc<Self>, method: &Method) -> CallRecord {
        let call = FunctionCall {
            at: MicroTime(Timestamp::now()),
            method: method.as_str().chars().take(LONGEST_METHOD).collect(),
            status: CALLER_GONE,
            cold: !self.is_ready(),
            milliseconds: 0.0,
            waited_milliseconds: 0.0,
            revision: 0,
            revision_hash: String::new(),
            pod: String::new(),
            node: String::new(),
        };
        CallRecord { gate: self.clone(), began: Instant::now(), call }
    }

    /// Newest first.
    pub fn calls(&self) -> Vec<FunctionCall> {
        self.calls.list()
    }
}

impl CallRecord {
    /// An instance takes it; `ready`: one that has answered before.
    pub fn connected(&mut self, address: SocketAddr, ready: bool) {
        self.call.cold |= !ready;
        self.call.waited_milliseconds = milliseconds(self.began.elapsed());
        if let Some((pod, revision)) = self.gate.instance_at(address) {
            (self.call.pod, self.call.revision_hash) = (pod, revision);
        }
    }

    /// The instance turned it away: it waits on.
    pub fn turned_away(&mut self) {
        self.call.pod.clear();
        self.call.revision_hash.clear();
    }

    pub fn answered(&mut self, status: StatusCode) {
        self.call.status = status.as_u16();
        // Without an instance all of it was waiting.
        if self.call.pod.is_empty() {
            self.call.waited_milliseconds = milliseconds(self.began.elapsed());
        }
    }

    pub fn is_cold(&self) -> bool {
        self.call.cold
    }
}

impl Drop for CallRecord {
    fn drop(&mut self) {
        self.call.milliseconds = milliseconds(self.began.elapsed());
        self.gate.calls.push(self.call.clone());
    }
}

/// To a hundredth.
fn milliseconds(time: Duration) -> f64 {
    (time.as_secs_f64() * 100_000.0).round() / 100.0
}

#[cfg(test)]
mod tests {
    use super::super::tests::{endpoints, gate};
    use super::super::{Gates, Name};
    use super::*;

    fn name() -> Name {
        ("ns".to_owned(), "f".to_owned())
    }

    #[test]
    fn ring_keeps_the_newest_calls_only() {
        let gates = Gates::default();
        let gate = gate(&gates, &endpoints(&["10.0.0.1"], None));
        for number in 0..3 * KEPT_CALLS {
            let status = u16::try_from(200 + number).unwrap();
            gate.begin_call(&Method::GET).answered(StatusCode::from_u16(status).unwrap());
        }
        let calls = gate.calls();
        assert_eq!(calls.len(), KEPT_CALLS);
        assert_eq!(usize::from(calls[0].status), 200 + 3 * KEPT_CALLS - 1, "the newest first");
        assert_eq!(usize::from(calls[KEPT_CALLS - 1].status), 200 + 2 * KEPT_CALLS);
    }

    #[test]
    fn call_tells_which_instance_and_whether_it_had_to_be_started() {
        let gates = Gates::default();
        let gate = gate(&gates, &endpoints(&["10.0.0.1"], None));
        let address: SocketAddr = "10.0.0.1:8080".parse().unwrap();
        let mut warm = gate.begin_call(&Method::POST);
        warm.connected(address, true);
        warm.answered(StatusCode::OK);
        drop(warm);
        let mut cold = gate.begin_call(&"X".repeat(500).parse().unwrap());
        cold.connected(address, false);
        cold.turned_away();
        cold.answered(StatusCode::SERVICE_UNAVAILABLE);
        drop(cold);
        drop(gate.begin_call(&Method::GET));
        let [gone, cold, warm] = &gate.calls()[..] else { panic!("{:?}", gate.calls()) };
        assert_eq!((warm.method.as_str(), warm.status, warm.cold), ("POST", 200, false));
        assert_eq!((warm.pod.as_str(), warm.revision_hash.as_str()), ("10.0.0.1", "10.0.0.1"));
        assert!(warm.waited_milliseconds <= warm.milliseconds, "{warm:?}");
        assert_eq!((cold.method.len(), cold.status, cold.cold), (LONGEST_METHOD, 503, true));
        assert_eq!((cold.pod.as_str(), cold.revision_hash.as_str()), ("", ""), "nobody answered it");
        assert_eq!(gone.status, CALLER_GONE);
    }

    #[test]
    fn calls_end_with_their_function() {
        let gates = Gates::default();
        let mut of_one = endpoints(&["10.0.0.1"], None);
        of_one.spec.uid = "one".to_owned();
        let gate = gate(&gates, &of_one);
        gate.begin_call(&Method::GET).answered(StatusCode::OK);
        of_one.spec.instances.clear();
        gates.apply([&of_one].into_iter(), "n");
        assert_eq!(gates.get(&name()).unwrap().calls().len(), 1, "another state of the same function");
        let mut of_two = of_one.clone();
        of_two.spec.uid = "two".to_owned();
        gates.apply([&of_two].into_iter(), "n");
        assert_eq!(gates.get(&name()).unwrap().calls(), [], "another function of this name");
    }
}
