//! What the gates tell of themselves as metrics: requests in flight, those that wait, and cold starts.
//!
//! Functions that nobody has called here since the router began are left out, however many there are. Nothing of a request
//! but its time is counted.

use std::sync::Arc;

use minik8s_metrics::Text;

use super::calls::ColdStarts;
use super::{Gate, Gates};

const IN_FLIGHT: &str = "minik8s_router_function_requests_in_flight";
const WAITING: &str = "minik8s_router_function_requests_waiting";
const COLD_STARTS: &str = "minik8s_router_function_cold_starts_total";
const COLD_START_SECONDS: &str = "minik8s_router_function_cold_start_seconds_total";

struct Known {
    gate: Arc<Gate>,
    running: u32,
    waiting: usize,
    cold_starts: ColdStarts,
}

impl Known {
    fn labels(&self) -> [(&'static str, &str); 2] {
        let (namespace, function) = &self.gate.name;
        [("namespace", namespace.as_str()), ("function", function.as_str())]
    }
}

impl Gates {
    /// In Prometheus' text format.
    pub fn page(&self) -> String {
        let mut all: Vec<Known> = self.list().into_iter().filter_map(known).collect();
        all.sort_by(|a, b| a.gate.name.cmp(&b.gate.name));
        let mut text = Text::default();
        text.metric(IN_FLIGHT, "gauge", "Requests that instances work on for this node.");
        for known in &all {
            text.sample(IN_FLIGHT, &known.labels(), known.running.into(), None);
        }
        text.metric(WAITING, "gauge", "Requests that wait for an instance on this node.");
        for known in &all {
            text.sample(WAITING, &known.labels(), known.waiting as f64, None);
        }
        text.metric(COLD_STARTS, "counter", "Calls that got an instance which had to be started.");
        for known in &all {
            text.sample(COLD_STARTS, &known.labels(), known.cold_starts.count as f64, None);
        }
        let help = "Time of these calls: until the instance listened (wait), and from then on (work).";
        text.metric(COLD_START_SECONDS, "counter", help);
        for known in &all {
            let [namespace, function] = known.labels();
            let ColdStarts { waited_seconds, worked_seconds, .. } = known.cold_starts;
            for (phase, seconds) in [("wait", waited_seconds), ("work", worked_seconds)] {
                text.sample(COLD_START_SECONDS, &[namespace, function, ("phase", phase)], seconds, None);
            }
        }
        text.finish()
    }
}

/// None of a function that was not called.
fn known(gate: Arc<Gate>) -> Option<Known> {
    let (running, waiting) = gate.counts();
    let was_called = running > 0 || waiting > 0 || gate.calls.has_any();
    let cold_starts = gate.calls.cold_starts();
    was_called.then_some(Known { gate, running, waiting, cold_starts })
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use http::{Method, StatusCode};

    use super::super::tests::{endpoints, gate};
    use super::*;

    #[tokio::test]
    async fn page_tells_what_runs_waits_and_was_started() {
        let gates = Gates::default();
        let gate = gate(&gates, &endpoints(&["10.0.0.1"], None));
        let lines = |page: String| -> Vec<String> {
            page.lines().filter(|line| !line.starts_with('#')).map(str::to_owned).collect()
        };
        assert!(lines(gates.page()).is_empty(), "nobody has called it");
        let soon = Instant::now() + Duration::from_secs(60);
        let held = [gate.acquire(soon).await.unwrap(), gate.acquire(soon).await.unwrap()];
        let waits = gate.clone();
        let waiting = tokio::spawn(async move { waits.acquire(soon).await.map(drop) });
        while gate.counts().1 < 1 {
            tokio::task::yield_now().await;
        }
        for (ready, status) in [(true, StatusCode::OK), (false, StatusCode::OK)] {
            let mut record = gate.begin_call(&Method::GET);
            record.connected("10.0.0.1:8080".parse().unwrap(), ready);
            record.answered(status);
        }
        // One that no instance took.
        gate.begin_call(&Method::GET).answered(StatusCode::SERVICE_UNAVAILABLE);
        let page = gates.page();
        for line in [
            "minik8s_router_function_requests_in_flight{namespace=\"ns\",function=\"f\"} 2",
            "minik8s_router_function_requests_waiting{namespace=\"ns\",function=\"f\"} 1",
            "minik8s_router_function_cold_starts_total{namespace=\"ns\",function=\"f\"} 1",
        ] {
            assert!(page.lines().any(|found| found == line), "{line}\n{page}");
        }
        for phase in ["wait", "work"] {
            let sample =
                format!("cold_start_seconds_total{{namespace=\"ns\",function=\"f\",phase=\"{phase}\"}} ");
            assert!(page.contains(&sample), "{page}");
        }
        assert_eq!(page.matches("# TYPE minik8s_router_function_cold_start_seconds_total").count(), 1);
        drop(held);
        waiting.await.unwrap().unwrap();
    }
}
