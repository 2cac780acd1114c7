//! Calls of functions that nobody waits for: kept as objects before they are accepted, carried out by this node's router,
//! tried again where that may help, and their results written back.
//!
//! A call whose agent was killed is carried out by the next one, or by another node's: at least once, never not at all.

mod call;
mod event;
mod places;

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use http::StatusCode;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use k8s_openapi::jiff::Timestamp;
use kube::api::{Patch, PatchParams, PostParams};
use kube::{Api, Client};
use minik8s_informer::{Backoff, Caches, ListOptions};
use minik8s_meta::invocation::{Invocation, InvocationSpec};
use parking_lot::Mutex;
use serde_json::json;
use tokio::sync::{Notify, mpsc, oneshot};
use tokio::time::sleep;
use tracing::debug;

pub use event::{Answered, Delivery, EVENTS};

use crate::Config;
use crate::proxy::Shared;
use crate::sources::{Name, Source};
use places::Places;

/// Where neither the call nor its function says.
const ATTEMPTS: i32 = 3;
/// Results that are longer are cut: they are part of an object.
const LONGEST_RESULT: usize = 256 << 10;
const LONGEST_PAUSE: Duration = Duration::from_secs(60);
/// Until a result is written.
const RETRY: Backoff = Backoff::millis(100, 60_000);
const WAITING: usize = 64;
const STOPS: &str = "the router is about to stop";

/// What a worker hands over, and where the answer goes.
enum Offer {
    /// A call to keep: its name, or the reason for a refusal.
    Call(Box<Invocation>, oneshot::Sender<Result<String, String>>),
    Event(Delivery, oneshot::Sender<Answered>),
}

/// Where workers hand over calls and events that nobody is to wait for. The sender is that of the task that runs now.
#[derive(Debug, Default)]
pub struct Acceptor(Mutex<Option<mpsc::Sender<Offer>>>);

impl Acceptor {
    /// The name of the call, once it is kept.
    pub async fn accept(
        &self,
        function: &Name,
        payload: String,
        content_type: String,
    ) -> Result<String, String> {
        let invocation = Invocation {
            metadata: ObjectMeta {
                generate_name: Some(format!("{}-", function.1)),
                namespace: Some(function.0.clone()),
                ..ObjectMeta::default()
            },
            spec: InvocationSpec {
                function: function.1.clone(),
                payload: Some(payload),
                content_type: Some(content_type),
                ..InvocationSpec::default()
            },
            ..Invocation::default()
        };
        let (sender, answer) = oneshot::channel();
        self.offer(Offer::Call(Box::new(invocation), sender)).await?;
        answer.await.map_err(|_| STOPS.to_owned())?
    }

    /// The API server's answer to an event.
    pub async fn deliver(&self, delivery: Delivery) -> Result<Answered, String> {
        let (sender, answer) = oneshot::channel();
        self.offer(Offer::Event(delivery, sender)).await?;
        answer.await.map_err(|_| STOPS.to_owned())
    }

    async fn offer(&self, offer: Offer) -> Result<(), String> {
        let offers = self.0.lock().clone().ok_or("the router has just started")?;
        offers.send(offer).await.map_err(|_| STOPS.to_owned())
    }
}

/// Keeps what workers hand over, and carries out what this node is to. Runs for ever.
pub async fn run(client: &Client, caches: &Caches, config: &Config, shared: &Shared) {
    let (sender, mut offers) = mpsc::channel::<Offer>(WAITING);
    *shared.acceptor.0.lock() = Some(sender);
    let changed = Arc::new(Notify::new());
    let own = ListOptions::fields(format!("spec.node={}", config.node_name));
    let source: Source<Invocation> = Source::follow(caches, own, changed.clone(), |_| true);
    let running = Arc::new(Mutex::new(HashSet::<Name>::new()));
    // Others wait, in the store.
    let places = Arc::<Places>::default();
    loop {
        tokio::select! {
            Some(offer) = offers.recv() => {
                let (client, node) = (client.clone(), config.node_name.clone());
                tokio::spawn(async move { answer(&client, node, offer).await });
            }
            () = changed.notified() => {
                for invocation in source.list(|one| !one.has_ended()) {
                    let meta = &invocation.metadata;
                    let name = (meta.namespace.clone().unwrap_or_default(), meta.name.clone().unwrap_or_default());
                    if !running.lock().insert(name.clone()) {
                        continue;
                    }
                    let (client, places, running) = (client.clone(), places.clone(), running.clone());
                    let router = call::own_router(config);
                    let gate = shared.gates.get(&(name.0.clone(), invocation.spec.function.clone()));
                    let usual = gate.map(|gate| gate.call_limits()).unwrap_or_default();
                    tokio::spawn(async move {
                        let limits = Limits::of(&invocation, usual);
                        carry_out(&client, router, &invocation, limits, &places).await;
                        running.lock().remove(&name);
                    });
                }
            }
        }
    }
}

async fn answer(client: &Client, node: String, offer: Offer) {
    match offer {
        Offer::Call(mut invocation, answer) => {
            invocation.spec.node = Some(node);
            let _ = answer.send(keep(client, &invocation).await);
        }
        Offer::Event(delivery, answer) => {
            let _ = answer.send(event::deliver(client, delivery).await);
        }
    }
}

async fn keep(client: &Client, invocation: &Invocation) -> Result<String, String> {
    let namespace = invocation.metadata.namespace.as_deref().unwrap_or_default();
    let api: Api<Invocation> = Api::namespaced(client.clone(), namespace);
    let kept = api.create(&PostParams::default(), invocation).await.map_err(|error| error.to_string())?;
    Ok(kept.metadata.name.unwrap_or_default())
}

/// How often a call is tried, and for how long.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Limits {
    attempts: i32,
    max_age_seconds: Option<i64>,
}

impl Limits {
    /// What the call says, else what its function does.
    fn of(invocation: &Invocation, (attempts, max_age): (Option<u32>, Option<u32>)) -> Limits {
        let spec = &invocation.spec;
        let usual = attempts.and_then(|attempts| i32::try_from(attempts).ok());
        Limits {
            attempts: spec.attempts.or(usual).unwrap_or(ATTEMPTS).max(1),
            max_age_seconds: spec.max_age_seconds.map(i64::from).or(max_age.map(i64::from)),
        }
    }
}

/// As often as it takes and may, and then says how it ended.
async fn carry_out(
    client: &Client,
    router: Option<std::net::SocketAddr>,
    invocation: &Invocation,
    limits: Limits,
    places: &Places,
) {
    let namespace = invocation.metadata.namespace.as_deref().unwrap_or_default();
    let spec = &invocation.spec;
    let first = Duration::from_secs(u64::try_from(spec.backoff_seconds.unwrap_or(1)).unwrap_or(1));
    let backoff = Backoff { first, most: LONGEST_PAUSE.max(first) };
    let mut attempt = 1;
    let mut last = (502, String::new());
    let (code, result) = loop {
        let answer = match router {
            Some(router) => places.within(namespace, try_once(router, invocation, attempt, limits)).await,
            None => Some(Err("this node's router listens on no HTTP port".to_owned())),
        };
        let Some(answer) = answer else {
            attempt -= 1;
            break last;
        };
        let (code, text) = answer.unwrap_or_else(|error| (502, error));
        let pause = backoff.after(attempt.unsigned_abs());
        let is_final = attempt >= limits.attempts
            || !is_worth_another(code)
            || is_too_old(invocation, limits.max_age_seconds, pause);
        if is_final {
            break (code, text);
        }
        sleep(pause).await;
        last = (code, text);
        attempt += 1;
    };
    write_end(client, invocation, attempt, code, result).await;
}

/// `None` for a further attempt whose time was over when it got a place.
async fn try_once(
    router: std::net::SocketAddr,
    invocation: &Invocation,
    attempt: i32,
    limits: Limits,
) -> Option<Result<(u16, String), String>> {
    let is_late = attempt > 1 && is_too_old(invocation, limits.max_age_seconds, Duration::ZERO);
    if is_late { None } else { Some(call::post(router, invocation, attempt).await) }
}

/// Whether its time will be over before the next attempt.
fn is_too_old(invocation: &Invocation, most: Option<i64>, pause: Duration) -> bool {
    let Some(most) = most else { return false };
    let Some(created) = &invocation.metadata.creation_timestamp else { return false };
    let age = Timestamp::now().duration_since(created.0);
    age.as_secs().saturating_add(i64::try_from(pause.as_secs()).unwrap_or(i64::MAX)) > most
}

/// What may be over soon: no room, an instance that was lost, a failure of the handler. Not what the caller did wrong.
fn is_worth_another(code: u16) -> bool {
    code >= 500
        || code == StatusCode::TOO_MANY_REQUESTS.as_u16()
        || code == StatusCode::REQUEST_TIMEOUT.as_u16()
}

/// Until it is written: a result must not be lost because the API server is away.
async fn write_end(client: &Client, invocation: &Invocation, attempts: i32, code: u16, mut result: String) {
    let end = (0..=LONGEST_RESULT.min(result.len())).rev().find(|at| result.is_char_boundary(*at));
    result.truncate(end.unwrap_or(0));
    let phase = if (200..400).contains(&code) { "Succeeded" } else { "Failed" };
    let status = json!({
        "phase": phase,
        "attempts": attempts,
        "code": code,
        "result": result,
        "completionTime": Time(Timestamp::now()),
    });
    let meta = &invocation.metadata;
    let api: Api<Invocation> = Api::namespaced(client.clone(), meta.namespace.as_deref().unwrap_or_default());
    let patch = Patch::Merge(json!({"metadata": {"uid": meta.uid}, "status": status}));
    let mut retries = RETRY.retries();
    loop {
        let name = meta.name.as_deref().unwrap_or_default();
        match api.patch_status(name, &PatchParams::default(), &patch).await {
            // Deleted meanwhile, or another of the same name: nobody wants to know any more.
            Ok(_) => return,
            Err(kube::Error::Api(error)) if matches!(error.code, 404 | 409 | 422) => {
                debug!(%error, name, "nobody wants the result of a call");
                return;
            }
            Err(error) => debug!(%error, name, "cannot write the result of a call; trying again"),
        }
        sleep(retries.failed()).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_the_calls_else_the_functions() {
        let check = |own: (Option<i32>, Option<i32>), usual, attempts, max_age_seconds| {
            let mut invocation = Invocation::default();
            (invocation.spec.attempts, invocation.spec.max_age_seconds) = own;
            assert_eq!(Limits::of(&invocation, usual), Limits { attempts, max_age_seconds });
        };
        check((None, None), (None, None), 3, None);
        check((None, None), (Some(1), Some(60)), 1, Some(60));
        check((Some(5), Some(7)), (Some(1), Some(60)), 5, Some(7));
    }

    #[test]
    fn only_failures_that_may_pass_are_tried_again() {
        for (code, again) in [(200, false), (400, false), (404, false), (429, true), (500, true), (503, true)]
        {
            assert_eq!(is_worth_another(code), again, "{code}");
        }
    }
}
