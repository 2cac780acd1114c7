//! The task of one probe of one container.

use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1 as core;
use tokio::sync::mpsc;

use super::ProbeKind;
use super::check::check;
use super::counts::Counted;
use super::tally::Tally;
use crate::cri::Runtime;
use crate::handler::Origin;

/// A container as probes see it.
#[derive(Clone)]
pub struct ProbeTarget {
    pub runtime: Arc<dyn Runtime>,
    pub container: core::Container,
    pub id: String,
    pub started: Timestamp,
    pub ip: String,
    pub origin: Origin,
    /// Where outcomes are counted.
    pub counted: Arc<Counted>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProbeResult {
    pub id: String,
    pub container: String,
    pub kind: ProbeKind,
    /// `None` while the outcomes do not suffice.
    pub verdict: Option<bool>,
    /// What was wrong this time.
    pub failure: Option<String>,
}

/// Probes for ever and tells every failure and every new verdict. A startup probe ends with its verdict.
pub async fn probe(
    kind: ProbeKind,
    probe: core::Probe,
    target: ProbeTarget,
    results: mpsc::Sender<ProbeResult>,
) {
    let delay = SignedDuration::from_secs(probe.initial_delay_seconds.unwrap_or(0).max(0).into());
    let first = target.started.checked_add(delay).unwrap_or(target.started);
    let wait: Duration = first.duration_since(Timestamp::now()).try_into().unwrap_or_default();
    tokio::time::sleep(wait).await;
    let period = Duration::from_secs(probe.period_seconds.unwrap_or(10).max(1) as u64);
    let mut ticks = tokio::time::interval(period);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    let mut tally = Tally::new(&probe);
    let mut told = None;
    loop {
        ticks.tick().await;
        let outcome = check(&probe, &target).await;
        target.counted.note(&target.container.name, kind, outcome.is_ok());
        let verdict = tally.count(outcome.is_ok());
        if outcome.is_ok() && (verdict.is_none() || verdict == told) {
            continue;
        }
        told = verdict.or(told);
        let result = ProbeResult {
            id: target.id.clone(),
            container: target.container.name.clone(),
            kind,
            verdict,
            failure: outcome.err(),
        };
        if results.send(result).await.is_err() || (kind == ProbeKind::Startup && verdict.is_some()) {
            return;
        }
    }
}
