//! `POST …/triggers/NAME/events`: an event for one trigger, and for NAME `-` CloudEvents for all that choose them.
//!
//! Routers post here what reaches them from anywhere, so their word is worth nothing: such events need the signature of the
//! trigger's key, but for CloudEvents that ask for none. Whoever else RBAC lets create `triggers/events` fires any trigger.
//! The answer is given when all that it fires is durable; an event that is told again fires nothing.

use async_trait::async_trait;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http::{HeaderMap, Request, Response, StatusCode};
use jiff::Timestamp;
use kube::Client;
use minik8s_api::{Body, Handler, HandlerRequest, Objects, ResourceRef, Scope, respond};
use minik8s_meta::trigger::{Trigger, TriggerSecret};
use serde_json::{Value, json};

use super::call::{self, Call};
use super::event::{self, Event};
use super::plan::{SCHEDULE_EVENT, source_of};
use super::{Means, own_key_name, signature};

const TRIGGERS: ResourceRef<'static> = ResourceRef { group: "minik8s.io", version: "v1", plural: "triggers" };
const SECRETS: ResourceRef<'static> = ResourceRef { group: "", version: "v1", plural: "secrets" };
/// No trigger has this name.
const ALL: &str = "-";
/// An event is part of an object, with what surrounds it.
const LARGEST: usize = 200 << 10;
const NODES: &str = "system:nodes";
/// What senders call one delivery by; the same is the same event.
const DELIVERY: [&str; 4] = ["idempotency-key", "webhook-id", "x-github-delivery", "x-gitlab-event-uuid"];
/// What senders call the kind of an event by.
const SUBJECT: [&str; 3] = ["x-github-event", "x-gitlab-event", "x-event-type"];

pub struct EventsHandler(pub Means);

/// Why an event is not taken.
#[derive(Debug)]
struct Refused(StatusCode, String);

/// What events fire.
#[derive(Debug, Default)]
struct Fired {
    calls: Vec<(Trigger, Call)>,
    /// The first that cannot be called. All others are, and are not again when the sender repeats itself.
    refused: Option<Refused>,
}

impl Fired {
    fn add(&mut self, trigger: &Trigger, event: &Event) {
        match call::call(trigger, event) {
            Ok(call) => self.calls.push((trigger.clone(), call)),
            Err(problem) => {
                let name = trigger.metadata.name.as_deref().unwrap_or_default();
                let told = format!("trigger {name}: spec.input: {problem}");
                self.refused.get_or_insert(Refused(StatusCode::UNPROCESSABLE_ENTITY, told));
            }
        }
    }
}

#[async_trait]
impl Handler for EventsHandler {
    async fn handle(&self, request: HandlerRequest, cluster: &dyn Objects) -> Response<Body> {
        match self.deliver(&request, cluster).await {
            Ok(fired) => {
                let text = json!({"fired": fired}).to_string();
                respond(StatusCode::ACCEPTED, "application/json", format!("{text}\n"))
            }
            Err(Refused(code, message)) => {
                let reason = code.canonical_reason().unwrap_or_default().replace(' ', "");
                let status = json!({
                    "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
                    "message": message, "reason": reason, "code": code.as_u16(),
                });
                respond(code, "application/json", status.to_string())
            }
        }
    }
}

impl EventsHandler {
    /// How many calls were made.
    async fn deliver(&self, request: &HandlerRequest, cluster: &dyn Objects) -> Result<usize, Refused> {
        if request.body.len() > LARGEST {
            let told = format!("an event has at most {LARGEST} bytes, this one {}", request.body.len());
            return Err(Refused(StatusCode::PAYLOAD_TOO_LARGE, told));
        }
        let client = self.0.client().ok_or_else(|| unavailable("triggers do not run yet"))?;
        let Fired { calls, mut refused } = match request.name.as_str() {
            ALL => for_all(request, cluster).await?,
            _ => for_one(request, cluster).await?,
        };
        let mut fired = 0;
        for (trigger, call) in calls {
            match make(&client, &trigger, call).await {
                Ok(()) => fired += 1,
                // It would be refused again: that is no reason to keep the event from the others.
                Err(no) if no.0.is_client_error() => {
                    refused.get_or_insert(no);
                    continue;
                }
                Err(no) => return Err(no),
            }
            match &trigger.spec.source.schedule {
                None => self.0.tally.count(&trigger, 1, None),
                // The clock counts its own moments, and remembers by the last of them how far it came.
                Some(_) if !is_of_the_clock(request) => self.0.tally.count_by_hand(&trigger),
                Some(_) => {}
            }
        }
        refused.map_or(Ok(fired), Err)
    }
}

async fn for_one(request: &HandlerRequest, cluster: &dyn Objects) -> Result<Fired, Refused> {
    let trigger = read(cluster, request, Some(&request.name)).await?.into_iter().next();
    // Who has no key learns nothing, not even which triggers there are.
    let unsigned = || {
        let told = "there is no such webhook, or the signature (HMAC-SHA256 of the body, header X-Hub-Signature-256) is not right";
        Refused(StatusCode::UNAUTHORIZED, told.to_owned())
    };
    let outside = is_outside(request);
    let missing = || match outside {
        true => unsigned(),
        false => Refused(StatusCode::NOT_FOUND, format!("triggers.minik8s.io {:?} not found", request.name)),
    };
    let trigger = trigger.ok_or_else(missing)?;
    if outside {
        let source = &trigger.spec.source;
        let key = source.webhook.as_ref().map(|hook| hook.secret_ref.clone());
        let own_key = || own_key_name(&trigger).map(|name| TriggerSecret { name, key: None });
        let key = key.or_else(own_key).ok_or_else(unsigned)?;
        let key = secret(cluster, &request.namespace, &key).await?.ok_or_else(unsigned)?;
        if !signature::is_signed(&request.headers, &request.body, &key) {
            return Err(unsigned());
        }
    }
    if trigger.spec.suspend == Some(true) {
        return Err(Refused(StatusCode::CONFLICT, format!("trigger {} is suspended", request.name)));
    }
    let mut fired = Fired::default();
    events_of(request, &trigger)?.iter().for_each(|event| fired.add(&trigger, event));
    Ok(fired)
}

async fn for_all(request: &HandlerRequest, cluster: &dyn Objects) -> Result<Fired, Refused> {
    let events = event::parse(&request.headers, &request.body).map_err(bad)?;
    let mut fired = Fired::default();
    for trigger in read(cluster, request, None).await? {
        let Some(source) = &trigger.spec.source.cloud_events else { continue };
        let wanted: Vec<&Event> = events.iter().filter(|event| call::wants(source, event)).collect();
        if wanted.is_empty() || trigger.spec.suspend == Some(true) {
            continue;
        }
        if let Some(key) = source.secret_ref.as_ref().filter(|_| is_outside(request)) {
            let key = secret(cluster, &request.namespace, key).await?;
            if !key.is_some_and(|key| signature::is_signed(&request.headers, &request.body, &key)) {
                continue;
            }
        }
        wanted.into_iter().for_each(|event| fired.add(&trigger, event));
    }
    Ok(fired)
}

/// An event that the controller posts for a moment of a schedule.
fn is_of_the_clock(request: &HandlerRequest) -> bool {
    let event: Value = serde_json::from_slice(&request.body).unwrap_or_default();
    event["specversion"] == "1.0" && event["type"] == SCHEDULE_EVENT
}

fn is_outside(request: &HandlerRequest) -> bool {
    request.requester.groups.iter().any(|group| group == NODES)
}

/// CloudEvents as they are; anything else as the data of one.
fn events_of(request: &HandlerRequest, trigger: &Trigger) -> Result<Vec<Event>, Refused> {
    let (headers, body) = (&request.headers, &request.body);
    if event::is_cloud_event(headers) {
        return event::parse(headers, body).map_err(bad);
    }
    // The controller posts its events in JSON, as it does everything.
    if !is_outside(request)
        && let Ok(value) = serde_json::from_slice::<Value>(body)
        && value["specversion"] == "1.0"
    {
        let structured = [(http::header::CONTENT_TYPE, http::HeaderValue::from_static(event::STRUCTURED))];
        return event::parse(&HeaderMap::from_iter(structured), body).map_err(bad);
    }
    let text = |names: &[&str]| {
        let found = names.iter().find_map(|name| headers.get(*name)?.to_str().ok());
        found.map(str::to_owned)
    };
    let (field, data) = match body.is_empty() {
        true => ("data", Value::Null),
        false => event::data(headers, body).map_err(bad)?,
    };
    let mut event = json!({
        "specversion": "1.0",
        "id": text(&DELIVERY).unwrap_or_else(|| uuid::Uuid::new_v4().to_string()),
        "source": source_of(trigger),
        "type": "io.minik8s.webhook",
        "time": Timestamp::now().to_string(),
        field: data,
    });
    if let Some(subject) = text(&SUBJECT) {
        event["subject"] = subject.into();
    }
    Ok(vec![Event(event)])
}

async fn read(
    cluster: &dyn Objects,
    request: &HandlerRequest,
    name: Option<&str>,
) -> Result<Vec<Trigger>, Refused> {
    let scope = Scope { namespace: &request.namespace, name, now: Timestamp::now() };
    let found = cluster.read(&TRIGGERS, scope).await.map_err(|error| unavailable(&error.to_string()))?;
    Ok(found.into_iter().filter_map(|value| serde_json::from_value(value).ok()).collect())
}

/// The value that a reference means, if it is there.
async fn secret(
    cluster: &dyn Objects,
    namespace: &str,
    wanted: &TriggerSecret,
) -> Result<Option<Vec<u8>>, Refused> {
    let scope = Scope { namespace, name: Some(&wanted.name), now: Timestamp::now() };
    let found = cluster.read(&SECRETS, scope).await.map_err(|error| unavailable(&error.to_string()))?;
    let Some(data) = found.first().and_then(|secret| secret["data"].as_object()) else { return Ok(None) };
    let value = match &wanted.key {
        Some(key) => data.get(key),
        None => data.values().next().filter(|_| data.len() == 1),
    };
    Ok(value.and_then(|value| STANDARD.decode(value.as_str()?).ok()))
}

/// One that is there already was made for the same event.
pub async fn make_call(client: &Client, namespace: &str, call: &Call) -> kube::Result<()> {
    let path = call.kind.collection_path(namespace);
    let body = serde_json::to_vec(&call.object).map_err(kube::Error::SerdeError)?;
    let request = Request::post(path).header("content-type", "application/json").body(body);
    let request = request.map_err(kube::Error::HttpError)?;
    match client.request::<Value>(request).await {
        Err(kube::Error::Api(error)) if error.reason == "AlreadyExists" => Ok(()),
        other => other.map(drop),
    }
}

async fn make(client: &Client, trigger: &Trigger, call: Call) -> Result<(), Refused> {
    let namespace = trigger.metadata.namespace.as_deref().unwrap_or_default();
    make_call(client, namespace, &call).await.map_err(|error| match error {
        kube::Error::Api(error) if (400..500).contains(&error.code) && error.code != 429 => {
            let code = StatusCode::from_u16(error.code).unwrap_or(StatusCode::UNPROCESSABLE_ENTITY);
            Refused(code, error.message.clone())
        }
        other => unavailable(&other.to_string()),
    })
}

fn unavailable(told: &str) -> Refused {
    Refused(StatusCode::SERVICE_UNAVAILABLE, told.to_owned())
}

fn bad(problem: event::BadEvent) -> Refused {
    Refused(StatusCode::BAD_REQUEST, problem.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn input_that_cannot_be_computed_holds_up_no_other_trigger() {
        let trigger = |name: &str, input: &str| -> Trigger {
            let spec = json!({"source": {"cloudEvents": {}}, "target": {"function": "f"}, "input": input});
            serde_json::from_value(json!({"metadata": {"name": name, "namespace": "ns"}, "spec": spec}))
                .unwrap()
        };
        let event = |data: Value| Event(json!({"id": data.to_string(), "source": "/s", "data": data}));
        let (strict, plain) = (trigger("strict", "{% $sum($event.data) %}"), trigger("plain", "x"));
        let mut fired = Fired::default();
        for event in [event(json!(["a"])), event(json!([1, 2]))] {
            fired.add(&strict, &event);
            fired.add(&plain, &event);
        }
        let names: Vec<_> =
            fired.calls.iter().map(|(trigger, _)| trigger.metadata.name.clone().unwrap()).collect();
        assert_eq!(names, ["plain", "strict", "plain"]);
        let Refused(code, told) = fired.refused.unwrap();
        assert_eq!(code, StatusCode::UNPROCESSABLE_ENTITY);
        assert!(told.starts_with("trigger strict: spec.input: {% $sum"), "{told}");
    }
}
