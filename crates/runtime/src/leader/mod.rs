//! Leader election on a Lease: of several processes one leads at a time.
//!
//! A holder renews; others take over when the lease has run out by their own clock since they last saw it
//! change, so clocks of different machines are never compared. A holder that cannot renew in time stops
//! leading before anybody else may start: [`Leadership`] knows until when it lasts, and [`Gate`] lets no write
//! pass after that moment, even if the process was stopped meanwhile and has not noticed.

mod gate;

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta};
use k8s_openapi::jiff::Timestamp;
use kube::Client;
use kube::api::{Api, PostParams};
use parking_lot::Mutex;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

pub use gate::{Gate, NotLeading};

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
    /// How often those who do not lead look whether they may.
    pub retry: Duration,
}

impl LeaderConfig {
    /// A leader that dies is replaced within five seconds.
    pub fn new(name: &str, identity: &str) -> Self {
        LeaderConfig {
            namespace: "kube-system".to_owned(),
            name: name.to_owned(),
            identity: identity.to_owned(),
            lease: Duration::from_secs(4),
            renew_within: Duration::from_secs(3),
            retry: Duration::from_millis(200),
        }
    }
}

/// Whether this process leads. Clones tell the same.
#[derive(Clone)]
pub struct Leadership {
    changes: watch::Receiver<bool>,
    /// None is no end.
    until: Option<Arc<Mutex<Instant>>>,
}

impl Leadership {
    /// Of a process that has no rivals.
    pub fn always() -> Self {
        // A receiver keeps its last value after the sender is gone.
        Leadership { changes: watch::channel(true).1, until: None }
    }

    /// Right now.
    pub fn holds(&self) -> bool {
        self.until.as_ref().is_none_or(|until| Instant::now() < *until.lock())
    }

    /// Says when it begins and ends.
    pub fn changes(&self) -> watch::Receiver<bool> {
        self.changes.clone()
    }
}

/// Starts taking part. Ends with `stop`, giving the lease back; the task is over when that is done.
pub fn elect(client: Client, config: LeaderConfig, stop: CancellationToken) -> (Leadership, JoinHandle<()>) {
    let (sender, changes) = watch::channel(false);
    let until = Arc::new(Mutex::new(Instant::now()));
    let leadership = Leadership { changes, until: Some(until.clone()) };
    let task = tokio::spawn(async move {
        let leases = Api::namespaced(client, &config.namespace);
        let mut candidate = Candidate { leases, seen: None, renewed: None, config };
        loop {
            tokio::select! {
                () = candidate.take_part() => {}
                () = stop.cancelled() => break,
            }
            let leads_until = candidate.leads_until();
            *until.lock() = leads_until.unwrap_or_else(Instant::now);
            let leads = leads_until.is_some();
            sender.send_if_modified(|known| std::mem::replace(known, leads) != leads);
            tokio::select! {
                () = tokio::time::sleep(candidate.pause()) => {}
                () = stop.cancelled() => break,
            }
        }
        *until.lock() = Instant::now();
        sender.send_replace(false);
        // If this takes too long the lease runs out by itself.
        let _ = tokio::time::timeout(candidate.config.renew_within, candidate.give_back()).await;
    });
    (leadership, task)
}

struct Candidate {
    leases: Api<Lease>,
    config: LeaderConfig,
    /// The newest version of the lease and when we first saw it.
    seen: Option<(Lease, Instant)>,
    renewed: Option<Instant>,
}

impl Candidate {
    /// Tries to get or to keep the lease; not for longer than it would be ours without.
    async fn take_part(&mut self) {
        let now = Instant::now();
        let most = self.config.renew_within / 2;
        let timeout = self.time_left().map_or(most, |left| most.min(left));
        match tokio::time::timeout(timeout, self.try_hold(now)).await {
            // It counts from before the request: others saw it later than that.
            Ok(Ok(true)) => self.renewed = Some(now),
            Ok(Ok(false)) => self.renewed = None,
            Ok(Err(error)) => tracing::warn!(%error, lease = self.config.name, "cannot renew the lease"),
            Err(_) => tracing::warn!(lease = self.config.name, "renewing the lease takes too long"),
        }
    }

    /// None if we do not lead.
    fn leads_until(&self) -> Option<Instant> {
        let until = self.renewed? + self.config.renew_within;
        (Instant::now() < until).then_some(until)
    }

    fn time_left(&self) -> Option<Duration> {
        self.leads_until().map(|until| until.saturating_duration_since(Instant::now()))
    }

    /// Until the next try; leading ends in time even if that is sooner, and the end of another's lease is not slept through.
    fn pause(&self) -> Duration {
        if let Some(left) = self.time_left() {
            return left.min(self.config.renew_within / 3);
        }
        let left =
            |(lease, at): &(Lease, Instant)| duration(lease, &self.config).saturating_sub(at.elapsed());
        let left = self.seen.as_ref().map(left).filter(|left| !left.is_zero());
        left.map_or(self.config.retry, |left| left.min(self.config.retry))
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
        let _ = self.leases.replace(&self.config.name, &PostParams::default(), &lease).await;
    }
}

fn holder(lease: &Lease) -> Option<&str> {
    lease.spec.as_ref()?.holder_identity.as_deref().filter(|holder| !holder.is_empty())
}

/// Ours, nobody's, or not renewed for as long as it lasts.
fn may_take(lease: &Lease, config: &LeaderConfig, unchanged_for: Duration) -> bool {
    let Some(holder) = holder(lease) else { return true };
    holder == config.identity || unchanged_for >= duration(lease, config)
}

/// How long it lasts without being renewed, as its holder says.
fn duration(lease: &Lease, config: &LeaderConfig) -> Duration {
    let seconds = lease.spec.as_ref().and_then(|spec| spec.lease_duration_seconds).unwrap_or(0);
    u64::try_from(seconds).map_or(config.lease, Duration::from_secs)
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

    /// The one Lease of a pretended API, and a switch that makes a candidate's requests hang.
    #[derive(Clone)]
    struct OneLease {
        lease: Arc<Mutex<Option<(u64, serde_json::Value)>>>,
        cut: watch::Receiver<bool>,
    }

    impl OneLease {
        async fn answer(
            self,
            request: http::Request<kube::client::Body>,
        ) -> http::Response<kube::client::Body> {
            use http_body_util::BodyExt;
            let mut cut = self.cut.clone();
            let _ = cut.wait_for(|cut| !*cut).await;
            let method = request.method().clone();
            let body = request.into_body().collect().await.unwrap().to_bytes();
            let mut lease = self.lease.lock();
            let known = lease.as_ref().map_or(0, |(version, _)| *version);
            let written: serde_json::Value = serde_json::from_slice(&body).unwrap_or_default();
            let expected: u64 =
                written["metadata"]["resourceVersion"].as_str().unwrap_or("0").parse().unwrap();
            let refuse = |code: u16| {
                let reason = if code == 404 { "NotFound" } else { "Conflict" };
                let status = serde_json::json!({
                    "kind": "Status", "status": "Failure", "code": code, "reason": reason, "message": reason,
                });
                http::Response::builder().status(code).body(status.to_string().into_bytes().into()).unwrap()
            };
            match method {
                http::Method::GET if known == 0 => return refuse(404),
                http::Method::GET => {}
                _ if known != expected => return refuse(409),
                _ => {
                    let mut written = written;
                    written["metadata"]["resourceVersion"] = (known + 1).to_string().into();
                    *lease = Some((known + 1, written));
                }
            }
            let body = lease.as_ref().unwrap().1.to_string().into_bytes();
            http::Response::new(body.into())
        }
    }

    #[tokio::test(start_paused = true)]
    async fn who_is_cut_off_ends_before_another_begins() {
        let lease = Arc::default();
        let (cut, is_cut) = watch::channel(false);
        let candidate = |name: &str, cut: watch::Receiver<bool>| {
            let api = OneLease { lease: Arc::clone(&lease), cut };
            let service = tower::service_fn(move |request| {
                let answer = api.clone().answer(request);
                async move { Ok::<_, std::convert::Infallible>(answer.await) }
            });
            let client = Client::new(service, "default");
            elect(client, LeaderConfig::new("x", name), CancellationToken::new()).0
        };
        let first = candidate("first", is_cut);
        first.changes().wait_for(|leads| *leads).await.unwrap();
        let second = candidate("second", watch::channel(false).1);
        tokio::time::sleep(Duration::from_secs(20)).await;
        assert!(first.holds() && !second.holds());

        cut.send_replace(true);
        let begun = Instant::now();
        let mut ended = None;
        while !second.holds() {
            tokio::time::sleep(Duration::from_millis(1)).await;
            if !first.holds() {
                ended.get_or_insert(begun.elapsed());
            }
        }
        let ended = ended.expect("the first ended before the second began");
        assert!(begun.elapsed() - ended > Duration::from_millis(500), "{ended:?} is too close");
        assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());

        // What it may still have in mind does not get through, though it can read.
        let service = tower::service_fn(async |_: http::Request<()>| Ok::<_, std::convert::Infallible>(()));
        let ask = |leadership: &Leadership, method: http::Method| {
            use tower::Service;
            let mut gate = Gate::new(service, leadership.clone());
            gate.call(http::Request::builder().method(method).body(()).unwrap())
        };
        assert!(ask(&first, http::Method::POST).await.is_err());
        assert!(ask(&first, http::Method::GET).await.is_ok());
        assert!(ask(&second, http::Method::POST).await.is_ok());
        assert!(ask(&Leadership::always(), http::Method::DELETE).await.is_ok());

        cut.send_replace(false);
        tokio::time::sleep(Duration::from_secs(10)).await;
        assert!(!first.holds() && second.holds());
    }
}
