//! Triggers for changes of objects: one watch for each, only where the trigger's service account may watch such objects, and
//! only on the server that leads. How far it came is in the trigger's status, so another server goes on from there; what it
//! sees again has the same name and fires nothing.
//!
//! It also makes the keys by which pods of triggers sign: a plan has no chance, and a key is nothing else.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use futures::TryStreamExt;
use k8s_openapi::ByteString;
use k8s_openapi::api::authorization::v1::{ResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec};
use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, ObjectMeta};
use k8s_openapi::jiff::Timestamp;
use kube::api::{DynamicObject, PostParams, WatchEvent};
use kube::{Api, Client};
use minik8s_feature::Parts;
use minik8s_meta::trigger::{Trigger, TriggerObject};
use minik8s_runtime::{Backoff, Caches, Catalog, Kind, Selector, owner_reference};
use serde_json::{Value, json};
use tokio::sync::{Notify, watch};
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

use super::event::Event;
use super::tally::Tally;
use super::{call, deliver, file, own_key_name, plan};

const RETRY: Backoff = Backoff { first: Duration::from_millis(500), most: Duration::from_secs(20) };
/// An object that is larger is told by its metadata alone.
const LARGEST_OBJECT: usize = 150 << 10;
const TRIES: usize = 5;

#[derive(Clone)]
pub struct Surroundings {
    client: Client,
    caches: Arc<Caches>,
    catalog: Arc<Catalog>,
    leads: watch::Receiver<bool>,
    stop: CancellationToken,
    tally: Arc<Tally>,
}

impl Surroundings {
    pub fn of(parts: &Parts, tally: Arc<Tally>) -> Self {
        Surroundings {
            client: parts.client.clone(),
            caches: parts.caches.clone(),
            catalog: parts.catalog.clone(),
            leads: parts.leads.clone(),
            stop: parts.stop.clone(),
            tally,
        }
    }
}

/// Until it is told to stop.
pub async fn run(mut around: Surroundings) {
    let triggers = around.caches.of::<Trigger>();
    let changed = Arc::new(Notify::new());
    triggers.listen(Box::new({
        let changed = changed.clone();
        move |_, _| changed.notify_one()
    }));
    // By UID and generation: another spec is another watch.
    let mut running: HashMap<(String, i64), AbortOnDropHandle<()>> = HashMap::new();
    loop {
        let all = if *around.leads.borrow_and_update() { triggers.list() } else { Vec::new() };
        let is_active =
            |one: &&Arc<Trigger>| one.metadata.deletion_timestamp.is_none() && one.spec.suspend != Some(true);
        let mut wanted = HashMap::new();
        for trigger in all.iter().filter(is_active) {
            if trigger.spec.source.object.is_some() {
                let meta = &trigger.metadata;
                wanted.insert(
                    (meta.uid.clone().unwrap_or_default(), meta.generation.unwrap_or_default()),
                    trigger,
                );
            }
            if let Some(name) = own_key_name(trigger) {
                ensure_key(&around, trigger, name).await;
            }
        }
        running.retain(|key, _| wanted.contains_key(key));
        for (key, trigger) in wanted {
            running.entry(key).or_insert_with(|| {
                let (around, trigger) = (around.clone(), Trigger::clone(trigger));
                AbortOnDropHandle::new(tokio::spawn(async move { follow(&around, trigger).await }))
            });
        }
        tokio::select! {
            () = changed.notified() => {}
            () = change(&mut around.leads) => {}
            () = around.stop.cancelled() => return,
        }
    }
}

/// Never where this is settled: a server whose store is its own always leads.
async fn change(leads: &mut watch::Receiver<bool>) {
    if leads.changed().await.is_err() {
        std::future::pending().await
    }
}

async fn ensure_key(around: &Surroundings, trigger: &Trigger, name: String) {
    let namespace = trigger.metadata.namespace.clone().unwrap_or_default();
    let api: Api<Secret> = Api::namespaced(around.client.clone(), &namespace);
    if !matches!(api.get_opt(&name).await, Ok(None)) {
        return;
    }
    let random = || uuid::Uuid::new_v4().simple().to_string();
    let secret = Secret {
        metadata: ObjectMeta {
            name: Some(name.clone()),
            namespace: Some(namespace),
            owner_references: Some(vec![owner_reference(trigger)]),
            ..ObjectMeta::default()
        },
        data: Some([(file::KEY.to_owned(), ByteString((random() + &random()).into_bytes()))].into()),
        immutable: Some(true),
        ..Secret::default()
    };
    if let Err(error) = api.create(&PostParams::default(), &secret).await {
        tracing::debug!(%error, name, "cannot make the key of a trigger");
    }
}

/// For ever; problems are told in the trigger's status.
async fn follow(around: &Surroundings, trigger: Trigger) {
    let mut from = trigger.status.as_ref().and_then(|status| status.resource_version.clone());
    let mut failures = 0;
    loop {
        let before = from.clone();
        if let Err((reason, problem)) = watch_once(around, &trigger, &mut from).await {
            tell(&around.client, &trigger, ("False", reason, problem), None).await;
        }
        failures = if from == before { failures + 1 } else { 1 };
        tokio::time::sleep(RETRY.after(failures)).await;
    }
}

type Problem = (&'static str, String);

/// One watch until it ends. `from` is where the next one begins; nothing where it has to begin anew.
async fn watch_once(
    around: &Surroundings,
    trigger: &Trigger,
    from: &mut Option<String>,
) -> Result<(), Problem> {
    let Some(source) = &trigger.spec.source.object else { return Ok(()) };
    let namespace = trigger.metadata.namespace.clone().unwrap_or_default();
    let kind = kind_of(&around.catalog, source)?;
    may_watch(&around.client, source, &kind, &namespace).await?;
    let path = kind.collection_path(&namespace);
    let (version, anew) = match from.clone() {
        Some(version) => (version, None),
        None => {
            let version = now_at(&around.client, &path).await.map_err(failed)?;
            (version.clone(), Some(version))
        }
    };
    *from = Some(version.clone());
    // Kept before it counts as ready: what happens from here on is told, whatever becomes of this server.
    tell(&around.client, trigger, ("True", "Watching", String::new()), anew).await;
    let query = format!("{path}?watch=true&allowWatchBookmarks=true&resourceVersion={version}");
    let request =
        http::Request::get(query).body(Vec::new()).map_err(|error| ("BadRequest", error.to_string()))?;
    let events = around.client.request_events::<DynamicObject>(request).await.map_err(failed)?;
    let mut events = std::pin::pin!(events);
    let selector = Selector::new(Some(&source.label_selector.clone().unwrap_or_default()));
    while let Some(event) = events.try_next().await.map_err(failed)? {
        let (name, object) = match event {
            WatchEvent::Added(object) => ("Added", object),
            WatchEvent::Modified(object) => ("Modified", object),
            WatchEvent::Deleted(object) => ("Deleted", object),
            WatchEvent::Bookmark(bookmark) => {
                *from = Some(bookmark.metadata.resource_version);
                around.tally.count(trigger, 0, from.clone());
                continue;
            }
            WatchEvent::Error(status) if status.code == 410 => {
                *from = None;
                return Err((
                    "Expired",
                    "changes of the time in which no server looked were not told".to_owned(),
                ));
            }
            WatchEvent::Error(status) => return Err(("WatchFailed", status.message)),
        };
        let wanted = source.events.is_empty() || source.events.iter().any(|one| one == name);
        let version = object.metadata.resource_version.clone();
        if wanted && selector.matches_object(&object.metadata) {
            // Rights that were taken away count at once.
            may_watch(&around.client, source, &kind, &namespace).await?;
            fire(around, trigger, &object_event(&kind, name, object)).await?;
            around.tally.count(trigger, 1, version.clone());
        }
        *from = version.or(from.take());
    }
    Ok(())
}

fn kind_of(catalog: &Catalog, source: &TriggerObject) -> Result<Kind, Problem> {
    let (group, version) = source.api_version.split_once('/').unwrap_or(("", &source.api_version));
    let kinds = catalog.kinds();
    let found = kinds.into_iter().find(|kind| kind.group == group && kind.kind == source.kind);
    match found {
        None => Err(("UnknownKind", format!("there is no kind {} {}", source.api_version, source.kind))),
        Some(kind) if !kind.namespaced => {
            Err(("NotNamespaced", format!("{} is in no namespace: triggers see their own only", source.kind)))
        }
        Some(kind) => Ok(Kind { version: version.to_owned().into(), ..kind }),
    }
}

/// A trigger sees what its service account sees, and no more.
async fn may_watch(
    client: &Client,
    source: &TriggerObject,
    kind: &Kind,
    namespace: &str,
) -> Result<(), Problem> {
    let account = source.service_account_name.as_deref().filter(|name| !name.is_empty()).unwrap_or("default");
    let user = format!("system:serviceaccount:{namespace}:{account}");
    let groups = ["system:serviceaccounts".to_owned(), format!("system:serviceaccounts:{namespace}")];
    let review = SubjectAccessReview {
        spec: SubjectAccessReviewSpec {
            user: Some(user),
            groups: Some([groups.as_slice(), &["system:authenticated".to_owned()]].concat()),
            resource_attributes: Some(ResourceAttributes {
                namespace: Some(namespace.to_owned()),
                verb: Some("watch".to_owned()),
                group: Some(kind.group.to_string()),
                version: Some(kind.version.to_string()),
                resource: Some(kind.plural.to_string()),
                ..ResourceAttributes::default()
            }),
            ..SubjectAccessReviewSpec::default()
        },
        ..SubjectAccessReview::default()
    };
    let answer = Api::all(client.clone()).create(&PostParams::default(), &review).await.map_err(failed)?;
    if answer.status.is_some_and(|status| status.allowed) {
        return Ok(());
    }
    let (group, plural) = (&kind.group, &kind.plural);
    let resource = if group.is_empty() { plural.to_string() } else { format!("{plural}.{group}") };
    Err((
        "Forbidden",
        format!(
            "service account {account} may not watch {resource}: kubectl create role {plural}-watcher --verb=watch \
             --resource={resource}, and bind it to serviceaccount {namespace}:{account}"
        ),
    ))
}

/// Where a watch that tells only what comes begins.
async fn now_at(client: &Client, path: &str) -> kube::Result<String> {
    let request =
        http::Request::get(format!("{path}?limit=1")).body(Vec::new()).map_err(kube::Error::HttpError)?;
    let list: Value = client.request(request).await?;
    Ok(list["metadata"]["resourceVersion"].as_str().unwrap_or_default().to_owned())
}

fn object_event(kind: &Kind, event: &str, mut object: DynamicObject) -> Event {
    object.metadata.managed_fields = None;
    let meta = object.metadata.clone();
    let (namespace, name) =
        (meta.namespace.as_deref().unwrap_or_default(), meta.name.as_deref().unwrap_or_default());
    let version = meta.resource_version.as_deref().unwrap_or_default();
    let mut data = serde_json::to_value(&object).unwrap_or_default();
    let is_large = data.to_string().len() > LARGEST_OBJECT;
    if is_large {
        data = json!({"apiVersion": data["apiVersion"], "kind": data["kind"], "metadata": {
            "name": name, "namespace": namespace, "uid": meta.uid, "resourceVersion": version,
        }});
    }
    let mut event = json!({
        "specversion": "1.0",
        "id": format!("{}-{version}-{event}", meta.uid.as_deref().unwrap_or_default()),
        "source": format!("/namespaces/{namespace}/{}/{name}", kind.plural),
        "type": format!("io.minik8s.object.{}", event.to_lowercase()),
        "subject": name,
        "time": Timestamp::now().to_string(),
        "data": data,
    });
    if is_large {
        event["truncated"] = true.into();
    }
    Event(event)
}

/// Until the call is made: a store that is away must not cost an event. What the API refuses for good is told.
async fn fire(around: &Surroundings, trigger: &Trigger, event: &Event) -> Result<(), Problem> {
    let made = call::call(trigger, event).map_err(|problem| ("BadInput", problem))?;
    let namespace = trigger.metadata.namespace.as_deref().unwrap_or_default();
    let mut failures = 0;
    loop {
        match deliver::make_call(&around.client, namespace, &made).await {
            Ok(()) => return Ok(()),
            Err(kube::Error::Api(error)) if matches!(error.code, 400 | 404 | 422) => {
                return Err(("Refused", error.message.clone()));
            }
            Err(error) => {
                failures += 1;
                tell(&around.client, trigger, ("False", "NotFired", failed(error).1), None).await;
                tokio::time::sleep(RETRY.after(failures)).await;
            }
        }
    }
}

/// Writes the condition, and where a new watch begins, if that is something new.
async fn tell(
    client: &Client,
    trigger: &Trigger,
    ready: (&'static str, &'static str, String),
    begins_at: Option<String>,
) {
    let meta = &trigger.metadata;
    let api: Api<Trigger> = Api::namespaced(client.clone(), meta.namespace.as_deref().unwrap_or_default());
    let name = meta.name.as_deref().unwrap_or_default();
    for _ in 0..TRIES {
        let Ok(Some(mut present)) = api.get_opt(name).await else { return };
        let condition = plan::condition(&present, ready.clone(), Timestamp::now());
        let mut status = present.status.take().unwrap_or_default();
        let said =
            |known: &Condition| (&known.status, &known.message) == (&condition.status, &condition.message);
        if begins_at.is_none() && status.conditions.first().is_some_and(said) {
            return;
        }
        status.resource_version = begins_at.clone().or(status.resource_version);
        status.conditions = vec![condition];
        present.status = Some(status);
        match api.replace_status(name, &PostParams::default(), &present).await {
            Err(kube::Error::Api(error)) if error.code == 409 => {}
            _ => return,
        }
    }
}

fn failed(error: kube::Error) -> Problem {
    let told = match &error {
        kube::Error::Api(status) => status.message.clone(),
        other => other.to_string(),
    };
    ("Failed", told)
}
