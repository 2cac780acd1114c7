//! Routes of the Gateway API, for every front that serves them: matches, shares, filters, and backends that speak
//! something else than HTTP/1.1.
//!
//! What may be named and who attaches where was decided before; here is what happens to a request. A front says what its
//! routes are ([`Front::Route`]) and who is behind a backend; this module never looks up a Service.

mod answer;
mod backend;
pub mod filter;
mod matching;
mod split;
mod tls_client;

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use minik8s_meta::gateway::{
    CertificateRef, GatewayBackend, GatewayBackendTls, GatewayFilters, GatewayMirror, GatewayRetry,
    GatewayRule, GatewayTarget,
};
use parking_lot::Mutex;
use rustls::sign::CertifiedKey;

use crate::Front;

pub use answer::treat;
pub use backend::H2cConnections;
pub use matching::Match;
pub use split::Split;

/// What a front that serves such routes has beside its table.
#[derive(Debug, Default)]
pub struct Treating {
    /// Connections to backends that speak HTTP/2.
    pub h2c: H2cConnections,
    /// Counts requests of which copies may be made.
    pub mirrored: AtomicU64,
    /// What is shown to backends, by the namespace and name of its Secret.
    pub certificates: Mutex<BackendCertificates>,
}

pub type BackendCertificates = Arc<HashMap<(String, String), Arc<CertifiedKey>>>;

impl Treating {
    /// `None` where nothing is to be shown; an error where that is not there yet.
    fn certificate(&self, tls: &GatewayBackendTls) -> Result<Option<Arc<CertifiedKey>>, String> {
        let Some(CertificateRef { namespace, name }) = &tls.certificate else { return Ok(None) };
        let known = self.certificates.lock().get(&(namespace.clone(), name.clone())).cloned();
        let missing = || format!("Secret {namespace}/{name}, which is to be shown to it, is not known yet");
        known.map(Some).ok_or_else(missing)
    }
}

/// A front that serves routes of the Gateway API.
pub trait Treats: Front {
    fn treating(&self) -> &Treating;
}

/// What the requests of a rule are led by.
#[derive(Debug, PartialEq)]
pub struct Rule<R> {
    pub choice: Arc<Choice<R>>,
    /// Where requests are not simply handed over: whose turn it is, is decided when one is answered, since it may be
    /// looked up more than once before.
    entry: Option<R>,
}

/// Where the requests of a rule go, by turns.
#[derive(Debug, PartialEq)]
pub struct Choice<R> {
    /// At least one. All are treated, or none.
    pub targets: Vec<R>,
    split: Split,
}

/// What happens to a request that is not simply handed over.
#[derive(Debug, PartialEq)]
pub struct Treatment<R> {
    /// Others decide what happens.
    pub choice: Option<Arc<Choice<R>>>,
    /// Of the rule, and of the backend.
    pub filters: [GatewayFilters; 2],
    /// Who gets copies, and which part of the requests.
    pub mirrors: Vec<Mirror>,
    /// What paths were matched by.
    pub prefix: Option<String>,
    pub h2c: bool,
    pub tls: Option<GatewayBackendTls>,
    /// Nothing can be sent.
    pub problem: Option<String>,
    pub request_timeout: Option<Duration>,
    pub retry: Option<GatewayRetry>,
}

impl<R> Default for Treatment<R> {
    fn default() -> Self {
        Treatment {
            choice: None,
            filters: Default::default(),
            mirrors: Vec::new(),
            prefix: None,
            h2c: false,
            tls: None,
            problem: None,
            request_timeout: None,
            retry: None,
        }
    }
}

#[derive(Debug, Clone, PartialEq)]
pub struct Mirror {
    /// Nobody, where it cannot be had.
    pub endpoints: Arc<[SocketAddr]>,
    pub target: GatewayTarget,
    pub numerator: u32,
    pub denominator: u32,
}

/// How a front makes its own of rules.
pub trait Build {
    type Route;

    /// The route of one backend. `timeout` is for one try.
    fn route(
        &self,
        rule: &GatewayRule,
        backend: &GatewayBackend,
        timeout: Option<Duration>,
        treatment: Option<Arc<Treatment<Self::Route>>>,
    ) -> Self::Route;

    /// Who gets copies.
    fn endpoints(&self, target: &GatewayTarget) -> Arc<[SocketAddr]>;
}

impl<R> Rule<R> {
    pub fn new(rule: &GatewayRule, build: &impl Build<Route = R>) -> Self {
        let nobody = GatewayBackend {
            weight: 1,
            target: GatewayTarget {
                problem: Some("the rule has no backend".to_owned()),
                ..GatewayTarget::default()
            },
            ..GatewayBackend::default()
        };
        let weighs = |backend: &&GatewayBackend| backend.weight > 0;
        let mut chosen: Vec<&GatewayBackend> = rule.backends.iter().filter(weighs).collect();
        if chosen.is_empty() {
            chosen.push(&nobody);
        }
        let weights: Vec<u32> = chosen.iter().map(|backend| backend.weight).collect();
        let treatments: Vec<(Treatment<R>, bool)> =
            chosen.iter().map(|backend| treatment(rule, backend, build)).collect();
        let is_treated = treatments.iter().any(|(_, is_plain)| !is_plain);
        let millis = |limit: Option<u64>| limit.map(Duration::from_millis);
        let (request, per_try) = (millis(rule.request_timeout_millis), millis(rule.backend_timeout_millis));
        let timeout = per_try.into_iter().chain(request).min();
        let targets: Vec<R> = chosen
            .iter()
            .zip(treatments)
            .map(|(backend, (treatment, _))| {
                build.route(rule, backend, timeout, is_treated.then(|| Arc::new(treatment)))
            })
            .collect();
        let first = chosen.first().copied().filter(|_| is_treated);
        let choice = Arc::new(Choice { targets, split: Split::new(&weights) });
        let entry = first.map(|first| {
            let treatment = Treatment { choice: Some(choice.clone()), ..Treatment::default() };
            build.route(rule, first, timeout, Some(Arc::new(treatment)))
        });
        Rule { choice, entry }
    }

    pub fn next(&self) -> &R {
        self.entry.as_ref().unwrap_or_else(|| self.choice.next())
    }
}

impl<R> Choice<R> {
    /// Whose turn it is.
    pub fn next(&self) -> &R {
        &self.targets[self.split.next() % self.targets.len()]
    }
}

/// And whether there is nothing to do.
fn treatment<R>(
    rule: &GatewayRule,
    backend: &GatewayBackend,
    build: &impl Build<Route = R>,
) -> (Treatment<R>, bool) {
    let target = &backend.target;
    let request_timeout = rule.request_timeout_millis.map(Duration::from_millis);
    let mirrors = rule.filters.mirrors.iter().chain(&backend.filters.mirrors);
    let without_mirrors =
        |filters: &GatewayFilters| GatewayFilters { mirrors: Vec::new(), ..filters.clone() };
    let mirror = |mirror: &GatewayMirror| Mirror {
        endpoints: build.endpoints(&mirror.target),
        target: mirror.target.clone(),
        numerator: mirror.numerator,
        denominator: mirror.denominator,
    };
    let treatment = Treatment {
        choice: None,
        filters: [without_mirrors(&rule.filters), without_mirrors(&backend.filters)],
        mirrors: mirrors.map(mirror).collect(),
        prefix: None,
        h2c: target.h2c,
        tls: target.tls.clone(),
        problem: target.problem.clone(),
        request_timeout,
        retry: rule.retry.clone(),
    };
    let is_plain = treatment.filters.iter().all(GatewayFilters::is_empty)
        && treatment.mirrors.is_empty()
        && !treatment.h2c
        && treatment.tls.is_none()
        && treatment.problem.is_none()
        && treatment.retry.is_none();
    (Treatment { prefix: rule.prefix.clone(), ..treatment }, is_plain)
}
