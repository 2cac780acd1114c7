//! A rule of a Service: which requests it is about, who gets them, and what else is done with them.

use std::borrow::Cow;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, SystemTime};

use http::StatusCode;
use minik8s_meta::mesh::{MeshEndpoint, MeshRouteSpec, MeshRule, Retries};
use minik8s_proxy::gateway::{Treatment, filter};
use minik8s_proxy::{Client, Refusal, RequestHead, Retry, RetryOn, Route};
use regex::Regex;
use tracing::warn;

use super::outlier::Outlier;
use crate::{pattern, weights};

/// A Service without a VirtualService has the time that it would have without a mesh.
const NO_TIMEOUT: Duration = Duration::from_secs(24 * 3600);

#[derive(Debug)]
pub struct Rule {
    url: Option<Regex>,
    headers: Vec<(String, Regex)>,
    /// In the order of turns; an endpoint is there as often as its weight says.
    pub turns: Arc<[SocketAddr]>,
    turn: AtomicUsize,
    /// Of connections that are led as a whole: they take no request's turn.
    connection: AtomicUsize,
    /// What all rules of a Service have in common.
    pub common: Arc<Common>,
    /// The subsets of endpoints, for people.
    subsets: Box<[(SocketAddr, Box<str>)]>,
    /// The route of the Gateway API, for people.
    route: Option<Arc<str>>,
    /// What a route of the Gateway API does with requests beside handing them over.
    pub treatment: Option<Arc<Treatment<Rule>>>,
}

#[derive(Debug)]
pub struct Common {
    pub service: Arc<str>,
    timeout: Option<Duration>,
    retry: Option<Retry>,
    delay: Option<(Share, Duration)>,
    mirror: Option<(Share, Arc<[SocketAddr]>)>,
    pub outlier: Option<Arc<Outlier>>,
}

/// So many of a hundred, evenly and exactly.
#[derive(Debug)]
pub struct Share {
    percent: usize,
    turn: AtomicUsize,
}

impl Share {
    pub fn new(percent: i32) -> Self {
        Share { percent: usize::try_from(percent).unwrap_or_default(), turn: anywhere() }
    }

    pub fn is_next(&self) -> bool {
        self.turn.fetch_add(1, Ordering::Relaxed).wrapping_mul(61) % 100 < self.percent
    }
}

impl Common {
    pub fn new(route: &MeshRouteSpec, outlier: Option<&Arc<Outlier>>) -> Self {
        let milliseconds = |number: i32| Duration::from_millis(u64::try_from(number).unwrap_or_default());
        Common {
            service: route.service.as_str().into(),
            timeout: route.timeout_seconds.map(|seconds| Duration::from_secs(seconds.into())),
            retry: route.retries.as_ref().map(retry),
            delay: route.delay.as_ref().map(|one| (Share::new(one.percent), milliseconds(one.milliseconds))),
            mirror: route.mirror.as_ref().map(|one| (Share::new(one.percent), turns(&one.endpoints))),
            outlier: route.outlier.as_ref().map(|wanted| Outlier::new(wanted, outlier)),
        }
    }

    /// Of a route of the Gateway API.
    pub fn of_gateway(service: &str, timeout: Option<Duration>) -> Self {
        Common { timeout, ..Common::plain(service) }
    }

    /// Of a Service that nobody has said anything about.
    pub fn plain(service: &str) -> Self {
        Common {
            service: service.into(),
            timeout: Some(NO_TIMEOUT),
            retry: None,
            delay: None,
            mirror: None,
            outlier: None,
        }
    }
}

fn retry(wanted: &Retries) -> Retry {
    let says = |word: &str| wanted.on.iter().any(|one| one == word);
    let usual = wanted.on.is_empty();
    Retry {
        attempts: u32::try_from(wanted.attempts).unwrap_or_default(),
        on: RetryOn {
            server_error: says("5xx"),
            gateway_error: usual || says("gateway-error"),
            connect_failure: usual || says("connect-failure"),
            reset: usual || says("reset"),
        },
        per_try: wanted.per_try_seconds.and_then(|s| u64::try_from(s).ok()).map(Duration::from_secs),
    }
}

pub fn turns(endpoints: &[MeshEndpoint]) -> Arc<[SocketAddr]> {
    let endpoints: Vec<(SocketAddr, u64)> =
        endpoints.iter().filter_map(|one| Some((one.address.parse().ok()?, one.weight))).collect();
    weights::turns(&endpoints)
}

fn subsets(endpoints: &[MeshEndpoint]) -> Box<[(SocketAddr, Box<str>)]> {
    let named = |one: &MeshEndpoint| Some((one.address.parse().ok()?, one.subset.as_deref()?.into()));
    endpoints.iter().filter_map(named).collect()
}

impl Rule {
    /// `None` if an expression cannot be used, which the API server should have refused.
    pub fn new(rule: &MeshRule, common: &Arc<Common>) -> Option<Self> {
        let compile = |text: &str| {
            let compiled = pattern::compile(text);
            compiled.inspect_err(|problem| warn!(expression = text, problem, "a rule is left out")).ok()
        };
        let url = match &rule.url {
            Some(text) => Some(compile(text)?),
            None => None,
        };
        let headers = rule.headers.iter().map(|(name, text)| Some((name.clone(), compile(text)?)));
        Some(Rule {
            url,
            headers: headers.collect::<Option<_>>()?,
            subsets: subsets(&rule.endpoints),
            ..Rule::all(turns(&rule.endpoints), common.clone())
        })
    }

    /// For every request.
    pub fn all(turns: Arc<[SocketAddr]>, common: Arc<Common>) -> Self {
        Rule {
            url: None,
            headers: Vec::new(),
            turns,
            turn: anywhere(),
            connection: anywhere(),
            common,
            subsets: [].into(),
            route: None,
            treatment: None,
        }
    }

    /// As a route of the Gateway API.
    pub fn treated(self, route: &str, treatment: Option<Arc<Treatment<Rule>>>) -> Self {
        Rule { treatment, route: Some(route.into()), ..self }
    }

    /// To backends that speak nothing else.
    pub fn over_http2(self) -> Self {
        let treatment = Treatment { h2c: true, ..Treatment::default() };
        Rule { treatment: Some(Arc::new(treatment)), ..self }
    }

    pub fn is_for_all(&self) -> bool {
        self.url.is_none() && self.headers.is_empty()
    }

    pub fn matches(&self, head: &RequestHead<'_>) -> bool {
        let is_in = |(name, expression): &(String, Regex)| {
            let value = head.headers.get(name).and_then(|value| std::str::from_utf8(value).ok());
            value.is_some_and(|value| expression.is_match(value))
        };
        self.url.as_ref().is_none_or(|url| url.is_match(head.target)) && self.headers.iter().all(is_in)
    }

    /// The endpoint whose turn it is, then others.
    pub fn tries(&self) -> Vec<SocketAddr> {
        let mut tries = Vec::new();
        if self.turns.is_empty() {
            return tries;
        }
        let start = self.connection.fetch_add(1, Ordering::Relaxed) % self.turns.len();
        for number in 0..self.turns.len() {
            let target = self.turns[(start + number) % self.turns.len()];
            if !tries.contains(&target) {
                tries.push(target);
            }
        }
        tries
    }

    fn next(&self, count: usize) -> usize {
        self.turn.fetch_add(1, Ordering::Relaxed) % count
    }
}

/// Where turns begin: many proxies that are told at the same time must not all begin with the same endpoint.
fn anywhere() -> AtomicUsize {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let mixed = u64::from(now.subsec_nanos()).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 40;
    AtomicUsize::new(usize::try_from(mixed).unwrap_or_default() ^ std::process::id() as usize)
}

impl Route for Rule {
    fn label(&self) -> &Arc<str> {
        &self.common.service
    }

    fn service(&self) -> &str {
        &self.common.service
    }

    fn endpoints(&self) -> Result<Arc<[SocketAddr]>, Refusal> {
        if self.turns.is_empty() {
            let service = &self.common.service;
            let text = format!("no pod of Service {service} is ready for this request");
            return Err(Refusal::new(StatusCode::SERVICE_UNAVAILABLE, text));
        }
        Ok(match &self.common.outlier {
            Some(outlier) => outlier.remaining(&self.turns),
            None => self.turns.clone(),
        })
    }

    fn first(&self, _: &Client, _: &AtomicUsize, count: usize) -> usize {
        self.next(count)
    }

    fn timeout(&self) -> Option<Duration> {
        self.common.timeout
    }

    fn rewrite<'a>(&self, path_and_query: &'a str) -> Cow<'a, str> {
        match &self.treatment {
            Some(treatment) => filter::rewrite(treatment, path_and_query),
            None => path_and_query.into(),
        }
    }

    fn rule(&self, endpoint: Option<SocketAddr>) -> Option<String> {
        if let Some(route) = &self.route {
            return Some(route.to_string());
        }
        let found = self.subsets.iter().find(|(address, _)| Some(*address) == endpoint);
        found.map(|(_, subset)| format!("subset {subset}"))
    }

    fn answers_itself(&self) -> bool {
        self.treatment.is_some()
    }

    fn retry(&self) -> Option<&Retry> {
        self.common.retry.as_ref()
    }

    fn delay(&self) -> Option<Duration> {
        self.common.delay.as_ref().filter(|(share, _)| share.is_next()).map(|(_, pause)| *pause)
    }

    fn mirror(&self) -> Option<SocketAddr> {
        let (share, turns) = self.common.mirror.as_ref().filter(|(_, turns)| !turns.is_empty())?;
        share.is_next().then(|| turns[self.turn.load(Ordering::Relaxed) % turns.len()])
    }

    fn outcome(&self, endpoint: SocketAddr, failed: bool) {
        if let Some(outlier) = &self.common.outlier {
            outlier.note(endpoint, failed);
        }
    }
}

#[cfg(test)]
mod tests;
