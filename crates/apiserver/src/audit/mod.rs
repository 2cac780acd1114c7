//! The audit log: who did what, when, and whether they might (`audit.k8s.io/v1`).
//!
//! A request carries its [`Trail`]: what becomes known of it on its way is noted there, and events are made of it. The log
//! file is waited for, so that a flood hides nothing; a collector behind a webhook is not, and what it does not take in
//! time is lost, counted and told.

mod event;
mod log_file;
mod policy;
mod webhook;

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::header::{CONTENT_TYPE, USER_AGENT};
use http::{HeaderValue, Request, Response};
use http_body::{Frame, SizeHint};
use http_body_util::{BodyExt, Full};
use jiff::Timestamp;
use minik8s_api::AuditSettings;
use minik8s_auth::{Decision, User};
use minik8s_meta::format::qualified_name;
use parking_lot::Mutex;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use crate::answer::Body;
use crate::api::Api;
use crate::request::RequestInfo;
use event::{LARGEST_BODY, Record, Told};
use log_file::LogFile;
use policy::{Level, Policy, Stage};
use webhook::Webhook;

/// Events that wait for the file, and for the collector.
const WAITING: usize = 10_000;
/// Of one batch.
const BATCH: usize = 400;

/// Where a request comes from.
#[derive(Debug, Clone, Copy)]
pub struct Source(pub IpAddr);

/// What is known of one request.
#[derive(Clone)]
pub struct Trail(Arc<Mutex<Record>>);

pub struct Auditor {
    policy: Policy,
    log: Option<mpsc::Sender<Bytes>>,
    webhook: Option<mpsc::Sender<Bytes>>,
    lost: Arc<AtomicU64>,
    /// Until they are run.
    backends: Mutex<Backends>,
}

#[derive(Default)]
struct Backends {
    log: Option<(LogFile, mpsc::Receiver<Bytes>)>,
    webhook: Option<(Webhook, mpsc::Receiver<Bytes>)>,
}

impl Auditor {
    /// What is wrong with a file is told with its name.
    pub fn new(settings: &AuditSettings) -> Result<Self, String> {
        let named =
            |path: &std::path::Path, error: &dyn std::fmt::Display| format!("{}: {error}", path.display());
        let text =
            std::fs::read_to_string(&settings.policy).map_err(|error| named(&settings.policy, &error))?;
        let policy = Policy::parse(&text).map_err(|error| named(&settings.policy, &error))?;
        let mut backends = Backends::default();
        let (mut log, mut webhook) = (None, None);
        if let Some(path) = &settings.log {
            let largest = u64::from(settings.log_max_size) << 20;
            let max_age = Duration::from_secs(u64::from(settings.log_max_age) * 24 * 3600);
            let max_age = Some(max_age).filter(|age| !age.is_zero());
            let file = LogFile::open(path, largest, settings.log_max_backup as usize, max_age);
            let (sender, receiver) = mpsc::channel(WAITING);
            backends.log = Some((file.map_err(|error| named(path, &error))?, receiver));
            log = Some(sender);
        }
        if let Some(path) = &settings.webhook {
            let (sender, receiver) = mpsc::channel(WAITING);
            backends.webhook = Some((Webhook::read(path).map_err(|error| named(path, &error))?, receiver));
            webhook = Some(sender);
        }
        Ok(Auditor { policy, log, webhook, lost: Arc::default(), backends: Mutex::new(backends) })
    }

    /// Writes and sends until `stop`. To be called once.
    pub fn run(&self, api: Arc<Api>, stop: CancellationToken) -> impl Future<Output = ()> + Send + use<> {
        let Backends { log, webhook } = std::mem::take(&mut *self.backends.lock());
        async move {
            let writing = async {
                match log {
                    Some((file, receiver)) => write(file, receiver, &stop).await,
                    None => stop.cancelled().await,
                }
            };
            let sending = async {
                match webhook {
                    Some((webhook, receiver)) => send(&webhook, receiver, &api, &stop).await,
                    None => stop.cancelled().await,
                }
            };
            tokio::join!(writing, sending);
        }
    }

    /// A request comes in.
    pub fn begin<B>(&self, request: &mut Request<B>, info: &RequestInfo) -> Trail {
        let text = |value: Option<&HeaderValue>| {
            value.and_then(|value| value.to_str().ok()).unwrap_or_default().to_owned()
        };
        let given = text(request.headers().get("audit-id"));
        let is_id =
            (1..=64).contains(&given.len()) && given.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-');
        let record = Record {
            id: if is_id { given } else { uuid::Uuid::new_v4().to_string() },
            received: Timestamp::now(),
            uri: request.uri().path_and_query().map_or_else(String::new, ToString::to_string),
            user_agent: text(request.headers().get(USER_AGENT)),
            source: request.extensions().get::<Source>().map(|Source(address)| address.to_string()),
            info: info.clone(),
            user: User::anonymous(),
            impersonated: None,
            verdict: self.policy.judge(&User::anonymous(), info),
            annotations: BTreeMap::new(),
            request: Told { content_type: text(request.headers().get(CONTENT_TYPE)), bytes: Bytes::new() },
            response: Told::default(),
            code: 0,
            is_panic: false,
        };
        let trail = Trail(Arc::new(Mutex::new(record)));
        request.extensions_mut().insert(trail.clone());
        trail
    }

    /// Who it is has become known.
    pub async fn identify(&self, trail: &Trail, user: &User, impersonated: Option<&User>) {
        let told = {
            let mut record = trail.0.lock();
            record.user = user.clone();
            record.impersonated = impersonated.cloned();
            record.verdict = self.policy.judge(user, &record.info);
            let first = impersonated.is_none() && record.verdict.tells(Stage::RequestReceived);
            first.then(|| record.event(Stage::RequestReceived, record.received))
        };
        if let Some(event) = told {
            self.tell(event).await;
        }
    }

    /// The answer is there. That of a stream is complete when it ends.
    pub async fn finish(&self, trail: Trail, response: Response<Body>, is_stream: bool) -> Response<Body> {
        let (verdict, stage) = {
            let mut record = trail.0.lock();
            record.code = response.status().as_u16();
            let stage = if record.is_panic { Stage::Panic } else { Stage::ResponseComplete };
            (record.verdict.clone(), stage)
        };
        if verdict.level == Level::None {
            return response;
        }
        if is_stream && response.status().is_success() {
            if verdict.tells(Stage::ResponseStarted) {
                self.tell_stage(&trail, Stage::ResponseStarted).await;
            }
            let told = self.log.clone().into_iter().chain(self.webhook.clone()).collect();
            let ending = Ending { trail, told, lost: self.lost.clone() };
            return response.map(|body| Watched { body, _ending: ending }.boxed_unsync());
        }
        let response = match verdict.level {
            Level::RequestResponse => keep_body(&trail, response).await,
            _ => response,
        };
        if verdict.tells(stage) {
            self.tell_stage(&trail, stage).await;
        }
        response
    }

    async fn tell_stage(&self, trail: &Trail, stage: Stage) {
        let event = trail.0.lock().event(stage, Timestamp::now());
        self.tell(event).await;
    }

    async fn tell(&self, event: serde_json::Value) {
        let event = Bytes::from(event.to_string());
        if let Some(log) = &self.log {
            // Ended only when the server is.
            let _ = log.send(event.clone()).await;
        }
        if let Some(webhook) = &self.webhook
            && webhook.try_send(event).is_err()
        {
            note_loss(&self.lost);
        }
    }
}

impl Trail {
    /// All of what the client said.
    pub fn note_body(&self, body: &Bytes) {
        let mut record = self.0.lock();
        if record.verdict.level >= Level::Request {
            record.request.bytes = body.clone();
        }
    }

    /// What the authorizers said, under upstream's names.
    pub fn note_decision(&self, decision: &Decision) {
        let is_allowed = decision.is_allowed();
        self.annotate("authorization.k8s.io/decision", if is_allowed { "allow" } else { "forbid" });
        self.annotate("authorization.k8s.io/reason", decision.reason());
    }

    /// Whoever was to decide could not be asked.
    pub fn note_undecided(&self) {
        self.annotate("authorization.k8s.io/reason", "internal error");
    }

    /// Adds to the annotations of the events that are yet to come. What is there already stays, as upstream: a write
    /// that is tried again is judged again.
    pub fn annotate(&self, key: &str, value: impl Into<String>) {
        if !qualified_name(key).is_empty() || !key.contains('/') {
            tracing::warn!(key, "an audit annotation is left out: its key must be PREFIX/NAME");
            return;
        }
        self.0.lock().annotations.entry(key.to_owned()).or_insert_with(|| value.into());
    }

    /// Whether the bodies of the request are told as well.
    pub fn tells_bodies(&self) -> bool {
        self.0.lock().verdict.level >= Level::Request
    }

    pub fn panicked(&self) {
        self.0.lock().is_panic = true;
    }
}

fn note_loss(lost: &AtomicU64) {
    let count = lost.fetch_add(1, Ordering::Relaxed) + 1;
    if count.is_power_of_two() {
        tracing::warn!(count, "audit events are lost: the collector does not take them in time");
    }
}

/// Reads the answer so that it can be told, and gives it on as it was. What is too large is not read.
async fn keep_body(trail: &Trail, response: Response<Body>) -> Response<Body> {
    let (parts, mut body) = response.into_parts();
    let content_type = parts.headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
    let tell = |bytes: Bytes| {
        trail.0.lock().response = Told { content_type: content_type.unwrap_or_default().to_owned(), bytes };
    };
    let mut read = BytesMut::new();
    while let Some(Ok(frame)) = body.frame().await {
        if let Ok(data) = frame.into_data() {
            read.extend_from_slice(&data);
        }
        if read.len() > LARGEST_BODY {
            let first = read.freeze();
            tell(first.clone());
            let rest = Rest { first: Some(first), body };
            return Response::from_parts(parts, rest.boxed_unsync());
        }
    }
    let whole = read.freeze();
    tell(whole.clone());
    Response::from_parts(parts, Full::new(whole).boxed_unsync())
}

/// What was read of a body, then the rest of it.
struct Rest {
    first: Option<Bytes>,
    body: Body,
}

impl http_body::Body for Rest {
    type Data = Bytes;
    type Error = std::convert::Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        match self.first.take() {
            Some(first) => Poll::Ready(Some(Ok(Frame::data(first)))),
            None => Pin::new(&mut self.body).poll_frame(cx),
        }
    }
}

/// The body of a stream whose end is told.
struct Watched {
    body: Body,
    _ending: Ending,
}

impl http_body::Body for Watched {
    type Data = Bytes;
    type Error = std::convert::Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        Pin::new(&mut self.body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

struct Ending {
    trail: Trail,
    told: Vec<mpsc::Sender<Bytes>>,
    lost: Arc<AtomicU64>,
}

impl Drop for Ending {
    fn drop(&mut self) {
        let record = self.trail.0.lock();
        if !record.verdict.tells(Stage::ResponseComplete) {
            return;
        }
        let event = Bytes::from(record.event(Stage::ResponseComplete, Timestamp::now()).to_string());
        for backend in &self.told {
            if backend.try_send(event.clone()).is_err() {
                note_loss(&self.lost);
            }
        }
    }
}

async fn write(mut file: LogFile, mut receiver: mpsc::Receiver<Bytes>, stop: &CancellationToken) {
    let mut failing = false;
    while let Some(events) = batch(&mut receiver, stop).await {
        let lines: Vec<u8> = events.iter().flat_map(|event| event.iter().copied().chain([b'\n'])).collect();
        let written = tokio::task::spawn_blocking(move || {
            let written = file.write(&lines);
            (file, written)
        });
        let Ok((back, written)) = written.await else { return };
        file = back;
        if let Err(error) = &written
            && !failing
        {
            tracing::error!(%error, "the audit log cannot be written: events are lost until it can");
        }
        failing = written.is_err();
    }
}

async fn send(webhook: &Webhook, mut receiver: mpsc::Receiver<Bytes>, api: &Api, stop: &CancellationToken) {
    while let Some(events) = batch(&mut receiver, stop).await {
        if let Err(error) = webhook.send(&api.registry, &events).await {
            tracing::warn!(events = events.len(), %error, "audit events are lost");
        }
    }
}

/// What waits, or the next event; None when there is no more, and after `stop` nothing left.
async fn batch(receiver: &mut mpsc::Receiver<Bytes>, stop: &CancellationToken) -> Option<Vec<Bytes>> {
    let mut events = Vec::new();
    tokio::select! {
        biased;
        _ = receiver.recv_many(&mut events, BATCH) => {}
        () = stop.cancelled() => return None,
    }
    (!events.is_empty()).then_some(events)
}

#[cfg(test)]
mod tests;
