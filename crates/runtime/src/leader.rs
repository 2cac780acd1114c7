//! Leader election on a Lease: of several processes one leads at a time.
//!
//! A holder renews; others take over when the lease has run out by their own clock since they last saw it
//! change, so clocks of different machines are never compared. A holder that cannot renew in time stops
//! leading before anybody else may start.

use std::time::Duration;

use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta};
use k8s_openapi::jiff::Timestamp;
use kube::Client;
use kube::api::{Api, PostParams};
use tokio::sync::watch;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

#[derive(Debug, Clone)]
pub struct LeaderConfig {
    pub namespace: String,
    /// The lease's name.
    pub name: String,
    /// Who we are; unique per process.
    pub identity: String,
    pub lease: Duration,
    /// Give up leading when renewing failed for this long. Less than `lease`.
    pub renew_within: Duration,
    pub retry: Duration,
}

impl LeaderConfig {
    pub fn new(name: &str, identity: &str) -> Self {
        LeaderConfig {
            namespace: "kube-system".to_owned(),
            name: name.to_owned(),
            identity: identity.to_owned(),
            lease: Duration::from_secs(15),
            renew_within: Duration::from_secs(10),
            retry: Duration::from_secs(2),
        }
    }
}

/// Starts taking part; the receiver says whether we lead. Ends with `stop`, giving the lease back.
pub fn elect(client: Client, config: LeaderConfig, stop: CancellationToken) -> watch::Receiver<bool> {
    let (sender, receiver) = watch::channel(false);
    tokio::spawn(async move {
        let leases = Api::namespaced(client, &config.namespace);
        let mut candidate = Candidate { leases, seen: None, renewed: None, config };
        loop {
            let leads = candidate.take_part(Instant::now()).await;
            sender.send_if_modified(|known| std::mem::replace(known, leads) != leads);
            tokio::select! {
                () = tokio::time::sleep(candidate.config.retry) => {}
                () = stop.cancelled() => break,
            }
        }
        sender.send_replace(false);
        candidate.give_back().await;
    });
    receiver
}

struct Candidate {
    leases: Api<Lease>,
    config: LeaderConfig,
    /// The newest version of the lease and when we first saw it.
    seen: Option<(Lease, Instant)>,
    renewed: Option<Instant>,
}

impl Candidate {
    async fn take_part(&mut self, now: Instant) -> bool {
        let attempt = tokio::time::timeout(self.config.renew_within / 2, self.try_hold(now)).await;
        match attempt {
            Ok(Ok(true)) => self.renewed = Some(now),
            Ok(Ok(false)) => self.renewed = None,
            Ok(Err(error)) => tracing::warn!(%error, lease = self.config.name, "cannot renew the lease"),
            Err(_) => tracing::warn!(lease = self.config.name, "renewing the lease takes too long"),
        }
        self.renewed.is_some_and(|at| at.elapsed() < self.config.renew_within)
    }

    /// True if we hold the lease now.
    async fn try_hold(&mut self, now: Instant) -> Result<bool, kube::Error> {
        let Some(lease) = self.leases.get_opt(&self.config.name).await? else {
            let lease = renewed(None, &self.config);
            return held(self.leases.create(&PostParams::default(), &lease).await);
        };
        let is_news = self.seen.as_ref().is_none_or(|(known, _)| known.spec != lease.spec);
        if is_news {
            self.seen = Some((lease.clone(), now));
        }
        let since = self.seen.as_ref().map_or(now, |(_, at)| *at);
        if !may_take(&lease, &self.config, now.duration_since(since)) {
            return Ok(false);
        }
        let lease = renewed(Some(lease), &self.config);
        held(self.leases.replace(&self.config.name, &PostParams::default(), &lease).await)
    }

    async fn give_back(&mut self) {
        if self.renewed.is_none() {
            return;
        }
        let Ok(Some(mut lease)) = self.leases.get_opt(&self.config.name).await else { return };
        if holder(&lease) != Some(&self.config.identity) {
            return;
        }
        if let Some(spec) = &mut lease.spec {
            spec.holder_identity = Some(String::new());
        }
        // If this fails the lease runs out by itself.
        let _ = self.leases.replace(&self.config.name, &PostParams::default(), &lease).await;
    }
}

fn holder(lease: &Lease) -> Option<&str> {
    lease.spec.as_ref()?.holder_identity.as_deref().filter(|holder| !holder.is_empty())
}

/// Ours, nobody's, or not renewed for as long as it lasts.
fn may_take(lease: &Lease, config: &LeaderConfig, unchanged_for: Duration) -> bool {
    let Some(holder) = holder(lease) else { return true };
    let lasts = lease.spec.as_ref().and_then(|spec| spec.lease_duration_seconds).unwrap_or(0);
    let lasts = u64::try_from(lasts).map_or(config.lease, Duration::from_secs);
    holder == config.identity || unchanged_for >= lasts
}

fn renewed(lease: Option<Lease>, config: &LeaderConfig) -> Lease {
    let now = MicroTime(Timestamp::now());
    let mut lease = lease.unwrap_or_else(|| Lease {
        metadata: ObjectMeta {
            name: Some(config.name.clone()),
            namespace: Some(config.namespace.clone()),
            ..ObjectMeta::default()
        },
        ..Lease::default()
    });
    let ours = holder(&lease) == Some(&config.identity);
    let spec = lease.spec.get_or_insert_with(LeaseSpec::default);
    if !ours {
        spec.lease_transitions = Some(spec.lease_transitions.map_or(0, |n| n.saturating_add(1)));
        spec.acquire_time = Some(now.clone());
    }
    spec.holder_identity = Some(config.identity.clone());
    spec.lease_duration_seconds = i32::try_from(config.lease.as_secs()).ok();
    spec.renew_time = Some(now);
    lease
}

/// Losing a race is no error.
fn held(outcome: Result<Lease, kube::Error>) -> Result<bool, kube::Error> {
    match outcome {
        Ok(_) => Ok(true),
        Err(kube::Error::Api(status)) if status.code == 409 => Ok(false),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_may_take_the_lease() {
        let config = LeaderConfig::new("x", "me");
        let check = |holder: Option<&str>, unchanged: u64, expected: bool| {
            let lease = Lease {
                spec: Some(LeaseSpec {
                    holder_identity: holder.map(str::to_owned),
                    lease_duration_seconds: Some(15),
                    ..LeaseSpec::default()
                }),
                ..Lease::default()
            };
            assert_eq!(may_take(&lease, &config, Duration::from_secs(unchanged)), expected, "{holder:?}");
        };
        check(None, 0, true);
        check(Some(""), 0, true);
        check(Some("me"), 0, true);
        check(Some("you"), 0, false);
        check(Some("you"), 14, false);
        check(Some("you"), 15, true);
    }

    #[test]
    fn taking_over_counts_a_transition_and_renewing_does_not() {
        let config = LeaderConfig::new("x", "me");
        let first = renewed(None, &config);
        let spec = |lease: &Lease| lease.spec.clone().unwrap();
        assert_eq!(spec(&first).lease_transitions, Some(0));
        let second = renewed(Some(first.clone()), &config);
        assert_eq!(spec(&second).lease_transitions, Some(0));
        assert_eq!(spec(&second).acquire_time, spec(&first).acquire_time);
        let taken = renewed(Some(second), &LeaderConfig::new("x", "you"));
        assert_eq!(spec(&taken).lease_transitions, Some(1));
    }
}
