//! Carries out plans through the API.
//!
//! Runs of equal actions (creating fifty pods) go out together with a slow start: one, two, four, ... so
//! that a template the server refuses costs one refused request, not fifty. Every answer is shown to the
//! cache of its kind at once. What is already so (deleting what is gone) counts as done.

use std::sync::Arc;

use futures::StreamExt;
use futures::stream::FuturesUnordered;
use http::Method;
use kube::Client;
use serde_json::{Value, json};

use crate::{
    Action, Caches, EventRecord, EventType, Key, Kind, MetaOnly, OutcomeEvents, Plan, Recorder, Target,
};

/// How many requests of one plan are in flight at most.
const WIDEST: usize = 256;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("cannot {what}")]
    Request {
        /// Verb, kind and name.
        what: String,
        #[source]
        source: Box<kube::Error>,
    },
    /// Something that must be gone first is still there, says the API.
    #[error("waiting for {0} to be gone")]
    NotYet(String),
}

impl Error {
    /// What went wrong in the words of the API, for events and conditions.
    pub fn cause(&self) -> String {
        match self {
            Error::Request { source, .. } => match status(source) {
                Some(status) => status.message.clone(),
                None => source.to_string(),
            },
            other => other.to_string(),
        }
    }

    /// Part of normal life: somebody else wrote first, or something takes its time. The watch will show
    /// it, and a new plan will do.
    pub fn is_expected(&self) -> bool {
        match self {
            Error::Request { source, .. } => status(source).is_some_and(|s| s.code == 409),
            Error::NotYet(_) => true,
        }
    }

    /// Somebody else wrote first. A name that is taken is not this: it may stay so.
    pub fn is_conflict(&self) -> bool {
        matches!(self, Error::Request { source, .. } if status(source).is_some_and(|s| s.reason == "Conflict"))
    }
}

pub struct Executor {
    client: Client,
    caches: Arc<Caches>,
    recorder: Recorder,
}

impl Executor {
    pub fn new(client: Client, caches: Arc<Caches>, recorder: Recorder) -> Self {
        Executor { client, caches, recorder }
    }

    pub fn recorder(&self) -> &Recorder {
        &self.recorder
    }

    /// Carries out the actions in order; begins nothing new after one has failed. Events are told
    /// in any case.
    pub async fn run(&self, component: &'static str, plan: Plan) -> Result<(), Error> {
        for event in plan.events {
            self.recorder.record(component, event);
        }
        let mut rest = plan.actions.as_slice();
        while let Some((first, others)) = rest.split_first() {
            let (batch, after) = rest.split_at(1 + count_alike(first, others));
            self.run_alike(component, batch).await?;
            rest = after;
        }
        Ok(())
    }

    /// Each success lets one more go out beside those that follow; after a failure nothing new is begun.
    async fn run_alike(&self, component: &'static str, batch: &[Action]) -> Result<(), Error> {
        let mut waiting = batch.iter();
        let mut running = FuturesUnordered::new();
        let mut width = 1;
        let mut outcome = Ok(());
        loop {
            while outcome.is_ok() && running.len() < width {
                let Some(action) = waiting.next() else { break };
                running.push(self.run_one(component, action));
            }
            match running.next().await {
                Some(Ok(())) => width = (width + 1).min(WIDEST),
                Some(error) => outcome = outcome.and(error),
                None => return outcome,
            }
        }
    }

    async fn run_one(&self, component: &'static str, action: &Action) -> Result<(), Error> {
        match action {
            Action::Create { kind, namespace, object, told } => {
                let key = action.subject().1;
                let outcome = self.create(kind, namespace, object, key).await;
                self.tell(component, told.as_ref(), outcome)
            }
            Action::Update { target, subresource, object } => {
                self.write(Method::PUT, "update", target, *subresource, object).await
            }
            Action::Patch { target, subresource, patch } => {
                let patch = guarded(patch, target);
                self.write(Method::PATCH, "patch", target, *subresource, &patch).await
            }
            Action::Post { target, subresource, body } => {
                self.write(Method::POST, "post", target, Some(subresource), body).await
            }
            Action::Delete { target, propagation, grace_seconds, told } => {
                let options = delete_options(target, *propagation, *grace_seconds);
                let outcome = self.delete(target, &options).await;
                self.tell(component, told.as_ref(), outcome)
            }
            Action::DeleteCollection { kind, namespace } => self.delete_collection(kind, namespace).await,
            Action::RequireNone { kind, namespace } => self.require_none(kind, namespace).await,
            Action::RequireAbsent { target } => self.require_absent(target).await,
        }
    }

    /// The name of the created object; None if its namespace is going away, where nothing can be made.
    async fn create(
        &self,
        kind: &Kind,
        namespace: &str,
        object: &Value,
        key: Key,
    ) -> Result<Option<String>, Error> {
        let path = kind.collection_path(namespace);
        match self.send(Method::POST, &path, object).await {
            Ok(answer) => Ok(Some(self.show(kind, &answer).unwrap_or(key.name))),
            Err(source) if is_namespace_going(&source) => Ok(None),
            Err(source) => Err(failed("create", kind, key, source)),
        }
    }

    async fn write(
        &self,
        method: Method,
        verb: &'static str,
        target: &Target,
        subresource: Option<&str>,
        body: &Value,
    ) -> Result<(), Error> {
        let mut path = target.kind.object_path(&target.key);
        if let Some(subresource) = subresource {
            path = format!("{path}/{subresource}");
        }
        match self.send(method.clone(), &path, body).await {
            // A Scale is not the object, though some kinds are so lax that it could be read as one.
            Ok(_) if subresource == Some("scale") => Ok(()),
            Ok(answer) if method != Method::POST => {
                self.show(&target.kind, &answer);
                Ok(())
            }
            Ok(_) => Ok(()),
            Err(source) if is_gone(&source) => Ok(()),
            Err(source) => Err(failed(verb, &target.kind, target.key.clone(), source)),
        }
    }

    async fn delete(&self, target: &Target, options: &Value) -> Result<Option<String>, Error> {
        let path = target.kind.object_path(&target.key);
        let forget = || {
            if let (Some(cache), Some(uid)) = (self.caches.find(&target.kind), &target.uid) {
                cache.forget(&target.key, uid);
            }
        };
        match self.send(Method::DELETE, &path, options).await {
            Ok(answer) => {
                let left: MetaOnly = serde_json::from_str(&answer).unwrap_or_default();
                let stays = left.metadata.deletion_timestamp.is_some() && left.metadata.uid == target.uid;
                // A pod with grace 0 or without finalizers is answered one last time and gone.
                let lives = left.metadata.deletion_grace_period_seconds.is_none_or(|s| s > 0)
                    || left.metadata.finalizers.is_some_and(|f| !f.is_empty());
                if stays && lives {
                    self.show(&target.kind, &answer);
                } else {
                    forget();
                }
                Ok(Some(target.key.name.clone()))
            }
            Err(source) if is_gone(&source) => {
                forget();
                Ok(None)
            }
            Err(source) => Err(failed("delete", &target.kind, target.key.clone(), source)),
        }
    }

    async fn delete_collection(&self, kind: &Kind, namespace: &str) -> Result<(), Error> {
        let path = kind.collection_path(namespace);
        let options = json!({"apiVersion": "v1", "kind": "DeleteOptions"});
        match self.send(Method::DELETE, &path, &options).await {
            Ok(_) => Ok(()),
            Err(source) if is_gone(&source) => Ok(()),
            Err(source) => Err(failed("delete all", kind, Key::new(namespace, ""), source)),
        }
    }

    async fn require_absent(&self, target: &Target) -> Result<(), Error> {
        let path = target.kind.object_path(&target.key);
        let request = http::Request::get(path).body(Vec::new()).map_err(kube::Error::HttpError);
        let outcome = match request {
            Ok(request) => self.client.request::<MetaOnly>(request).await,
            Err(error) => Err(error),
        };
        match outcome {
            Ok(found) if target.uid.is_some() && found.metadata.uid != target.uid => Ok(()),
            Ok(_) => Err(Error::NotYet(format!("{} {}", target.kind, target.key))),
            Err(source) if is_gone(&source) => Ok(()),
            Err(source) => Err(failed("get", &target.kind, target.key.clone(), source)),
        }
    }

    async fn require_none(&self, kind: &Kind, namespace: &str) -> Result<(), Error> {
        #[derive(serde::Deserialize)]
        struct Found {
            #[serde(default)]
            items: Vec<MetaOnly>,
        }
        let path = format!("{}?limit=1", kind.collection_path(namespace));
        let request = http::Request::get(path).body(Vec::new()).map_err(kube::Error::HttpError);
        let outcome = match request {
            Ok(request) => self.client.request::<Found>(request).await,
            Err(error) => Err(error),
        };
        match outcome {
            Ok(found) if found.items.is_empty() => Ok(()),
            Ok(_) => Err(Error::NotYet(format!("{kind} in namespace {namespace}"))),
            Err(source) if is_gone(&source) => Ok(()),
            Err(source) => Err(failed("list", kind, Key::new(namespace, ""), source)),
        }
    }

    async fn send(&self, method: Method, path: &str, body: &Value) -> Result<String, kube::Error> {
        let media = if method == Method::PATCH { "application/merge-patch+json" } else { "application/json" };
        let body = serde_json::to_vec(body).map_err(kube::Error::SerdeError)?;
        let request = http::Request::builder()
            .method(method)
            .uri(path)
            .header(http::header::CONTENT_TYPE, media)
            .body(body)
            .map_err(kube::Error::HttpError)?;
        self.client.request_text(request).await
    }

    /// Shows an answer to the cache and gives the object's name.
    fn show(&self, kind: &Kind, answer: &str) -> Option<String> {
        match self.caches.find(kind) {
            Some(cache) => cache.offer_json(answer.as_bytes()),
            None => serde_json::from_str::<MetaOnly>(answer).ok()?.metadata.name,
        }
    }

    fn tell(
        &self,
        component: &'static str,
        told: Option<&OutcomeEvents>,
        outcome: Result<Option<String>, Error>,
    ) -> Result<(), Error> {
        let Some(told) = told else { return outcome.map(|_| ()) };
        let (severity, (reason, text), detail) = match &outcome {
            Ok(Some(name)) => (EventType::Normal, told.done, name.clone()),
            Ok(None) => return Ok(()),
            Err(error) => (EventType::Warning, told.failed, error.cause()),
        };
        let message = format!("{text}{detail}");
        self.recorder
            .record(component, EventRecord { regarding: told.regarding.clone(), severity, reason, message });
        outcome.map(|_| ())
    }
}

/// How many of the following actions can go out together with the first.
fn count_alike(first: &Action, others: &[Action]) -> usize {
    let is_patch = matches!(first, Action::Patch { .. });
    let fits = |i: usize, action: &Action| {
        are_alike(first, action) && (!is_patch || others[..i].iter().all(|other| are_alike(other, action)))
    };
    others.iter().enumerate().take_while(|(i, action)| fits(*i, action)).count()
}

/// Creations or deletions of one kind can go out together.
fn are_alike(a: &Action, b: &Action) -> bool {
    match (a, b) {
        (Action::Create { kind: a, .. }, Action::Create { kind: b, .. }) => a == b,
        (Action::Delete { target: a, .. }, Action::Delete { target: b, .. }) => a.kind == b.kind,
        // The answer to one patch may be what the next one needs, except on different objects.
        (Action::Patch { target: a, .. }, Action::Patch { target: b, .. }) => {
            a.kind == b.kind && a.key != b.key
        }
        (Action::RequireNone { .. }, Action::RequireNone { .. }) => true,
        (Action::RequireAbsent { .. }, Action::RequireAbsent { .. }) => true,
        _ => false,
    }
}

/// The patch with the target's preconditions in it.
fn guarded(patch: &Value, target: &Target) -> Value {
    let mut patch = patch.clone();
    let guards = [("uid", &target.uid), ("resourceVersion", &target.resource_version)];
    for (field, value) in guards {
        let Some(value) = value else { continue };
        if !patch["metadata"].is_object() {
            patch["metadata"] = json!({});
        }
        patch["metadata"][field] = json!(value);
    }
    patch
}

fn delete_options(target: &Target, propagation: Option<crate::Propagation>, grace: Option<i64>) -> Value {
    let mut options = json!({"apiVersion": "v1", "kind": "DeleteOptions"});
    if target.uid.is_some() || target.resource_version.is_some() {
        let mut preconditions = json!({});
        if let Some(uid) = &target.uid {
            preconditions["uid"] = json!(uid);
        }
        if let Some(version) = &target.resource_version {
            preconditions["resourceVersion"] = json!(version);
        }
        options["preconditions"] = preconditions;
    }
    if let Some(policy) = propagation {
        options["propagationPolicy"] = json!(policy.name());
    }
    if let Some(seconds) = grace {
        options["gracePeriodSeconds"] = json!(seconds);
    }
    options
}

fn failed(verb: &'static str, kind: &Kind, key: Key, source: kube::Error) -> Error {
    Error::Request { what: format!("{verb} {kind} {key}"), source: Box::new(source) }
}

fn status(error: &kube::Error) -> Option<&kube::core::Status> {
    match error {
        kube::Error::Api(status) => Some(status),
        _ => None,
    }
}

fn is_gone(error: &kube::Error) -> bool {
    status(error).is_some_and(|status| status.code == 404)
}

/// Nothing can be created where the namespace is missing or being deleted.
fn is_namespace_going(error: &kube::Error) -> bool {
    let Some(status) = status(error) else { return false };
    let terminating = status
        .details
        .as_ref()
        .is_some_and(|details| details.causes.iter().any(|cause| cause.reason == "NamespaceTerminating"));
    status.code == 404 || (status.code == 403 && terminating)
}

#[cfg(test)]
mod tests;
