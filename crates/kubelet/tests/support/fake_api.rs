//! As much of an API server as the agent needs, in memory: objects by path, merge patches, watches.
//!
//! It stands at the edge of `kube::Client`. It defaults nothing, validates nothing and authorizes nobody.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use futures::StreamExt;
use http::{Method, Request, Response, StatusCode};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::body::Frame;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::sync::broadcast;
use tokio_stream::wrappers::BroadcastStream;

type Body = UnsyncBoxBody<Bytes, std::convert::Infallible>;

#[derive(Clone)]
pub struct FakeApi {
    state: Arc<Mutex<State>>,
    changes: broadcast::Sender<(String, Value)>,
}

#[derive(Default)]
struct State {
    version: u64,
    /// By path: `/api/v1/namespaces/default/pods/web`.
    objects: BTreeMap<String, Value>,
    /// Every change so far: a watch begins after the version of its list, not when it happens to connect.
    history: Vec<(u64, String, Value)>,
}

impl FakeApi {
    pub fn new() -> Self {
        FakeApi { state: Arc::default(), changes: broadcast::channel(4096).0 }
    }

    pub fn client(&self) -> kube::Client {
        let api = self.clone();
        let service = tower::service_fn(move |request: Request<kube::client::Body>| {
            let api = api.clone();
            async move { Ok::<_, std::convert::Infallible>(api.answer(request).await) }
        });
        kube::Client::new(service, "default")
    }

    /// Makes or replaces an object.
    pub fn put(&self, path: &str, object: Value) {
        self.write(path, object);
    }

    pub fn get(&self, path: &str) -> Option<Value> {
        self.state.lock().objects.get(path).cloned()
    }

    /// All versions of an object so far.
    pub fn versions(&self, path: &str) -> Vec<Value> {
        let state = self.state.lock();
        let own = state.history.iter().filter(|(_, key, _)| key == path);
        own.map(|(_, _, event)| event["object"].clone()).collect()
    }

    /// What `kubectl delete` does to a pod: the node finishes the job.
    pub fn delete_gracefully(&self, path: &str, seconds: i64) {
        let mut object = self.get(path).unwrap();
        object["metadata"]["deletionTimestamp"] = jiff::Timestamp::now().to_string().into();
        object["metadata"]["deletionGracePeriodSeconds"] = seconds.into();
        self.write(path, object);
    }

    /// All objects below a path.
    pub fn list(&self, prefix: &str) -> Vec<Value> {
        let state = self.state.lock();
        state.objects.iter().filter(|(path, _)| path.starts_with(prefix)).map(|(_, o)| o.clone()).collect()
    }

    fn write(&self, path: &str, mut object: Value) -> Value {
        let mut state = self.state.lock();
        state.version += 1;
        object["metadata"]["resourceVersion"] = state.version.to_string().into();
        let kind = if state.objects.contains_key(path) { "MODIFIED" } else { "ADDED" };
        state.objects.insert(path.to_owned(), object.clone());
        self.tell(&mut state, path, json!({"type": kind, "object": object}));
        object
    }

    /// Somebody's finalizer keeps the object.
    fn is_held(&self, path: &str) -> bool {
        let object = self.get(path).unwrap_or_default();
        object["metadata"]["finalizers"].as_array().is_some_and(|list| !list.is_empty())
    }

    fn remove(&self, path: &str) -> Option<Value> {
        let mut state = self.state.lock();
        let mut object = state.objects.remove(path)?;
        state.version += 1;
        object["metadata"]["resourceVersion"] = state.version.to_string().into();
        self.tell(&mut state, path, json!({"type": "DELETED", "object": object}));
        Some(object)
    }

    fn tell(&self, state: &mut State, path: &str, event: Value) {
        state.history.push((state.version, path.to_owned(), event.clone()));
        let _ = self.changes.send((path.to_owned(), event));
    }

    async fn answer(&self, request: Request<kube::client::Body>) -> Response<Body> {
        let (parts, body) = request.into_parts();
        let body = body.collect_bytes().await.unwrap_or_default();
        let body: Value = serde_json::from_slice(&body).unwrap_or_default();
        let path = parts.uri.path().trim_end_matches('/').to_owned();
        let query = parts.uri.query().unwrap_or_default().to_owned();
        let object_path = path.trim_end_matches("/status").to_owned();
        match parts.method {
            Method::GET if query.contains("watch=true") => self.watch(&path, version_in(&query)),
            Method::GET => match self.get(&path) {
                Some(object) => answer(StatusCode::OK, object),
                None if is_collection(&path) => self.collection(&path),
                None => not_found(&path),
            },
            Method::POST => {
                let name = body["metadata"]["name"].as_str().unwrap_or_default().to_owned();
                let path = format!("{path}/{name}");
                if self.get(&path).is_some() {
                    return failure(StatusCode::CONFLICT, "AlreadyExists");
                }
                let mut body = body;
                body["metadata"]["uid"] = format!("uid-of-{name}").into();
                answer(StatusCode::CREATED, self.write(&path, body))
            }
            Method::PATCH => match self.get(&object_path) {
                Some(mut object) => {
                    merge(&mut object, &body);
                    answer(StatusCode::OK, self.write(&object_path, object))
                }
                None => not_found(&path),
            },
            Method::DELETE if self.is_held(&path) => {
                answer(StatusCode::OK, self.get(&path).unwrap_or_default())
            }
            Method::DELETE => match self.remove(&path) {
                Some(object) => answer(StatusCode::OK, object),
                None => not_found(&path),
            },
            _ => failure(StatusCode::METHOD_NOT_ALLOWED, "MethodNotAllowed"),
        }
    }

    /// `/api/v1/pods` is the pods of all namespaces.
    fn collection(&self, path: &str) -> Response<Body> {
        let state = self.state.lock();
        let items: Vec<_> =
            state.objects.iter().filter(|(key, _)| belongs(key, path)).map(|(_, object)| object).collect();
        let version = state.version.to_string();
        answer(StatusCode::OK, json!({"metadata": {"resourceVersion": version}, "items": items}))
    }

    fn watch(&self, path: &str, after: u64) -> Response<Body> {
        let path = path.to_owned();
        // Under the lock: no change falls between the past and the future.
        let state = self.state.lock();
        let past: Vec<_> = state.history.iter().filter(|(version, ..)| *version > after).cloned().collect();
        let future = BroadcastStream::new(self.changes.subscribe());
        drop(state);
        let past = futures::stream::iter(past.into_iter().map(|(_, key, event)| (key, event)));
        let changes = past.chain(future.filter_map(|change| std::future::ready(change.ok())));
        let lines = changes.filter_map(move |(key, event)| {
            let line = belongs(&key, &path).then(|| Ok(Frame::data(Bytes::from(format!("{event}\n")))));
            std::future::ready(line)
        });
        Response::new(StreamBody::new(lines).boxed_unsync())
    }
}

/// `resourceVersion` of the query; 0 if there is none.
fn version_in(query: &str) -> u64 {
    let given = query.split('&').find_map(|part| part.strip_prefix("resourceVersion="));
    given.and_then(|text| text.parse().ok()).unwrap_or(0)
}

fn is_collection(path: &str) -> bool {
    matches!(path.rsplit('/').next(), Some("pods" | "nodes" | "services" | "configmaps" | "secrets"))
}

fn belongs(key: &str, collection: &str) -> bool {
    let Some((parent, _)) = key.rsplit_once('/') else { return false };
    let (prefix, plural) = collection.rsplit_once('/').unwrap_or_default();
    parent == collection
        || (parent.starts_with(&format!("{prefix}/namespaces/")) && parent.ends_with(&format!("/{plural}")))
}

/// A merge patch in which conditions are merged by type.
fn merge(object: &mut Value, patch: &Value) {
    let Value::Object(fields) = patch else {
        *object = patch.clone();
        return;
    };
    if !object.is_object() {
        *object = json!({});
    }
    for (key, value) in fields {
        match (key.as_str(), value) {
            (_, Value::Null) => drop(object.as_object_mut().unwrap().remove(key)),
            ("conditions", Value::Array(conditions)) => {
                let mut all = object[key].as_array().cloned().unwrap_or_default();
                all.retain(|old| conditions.iter().all(|new| new["type"] != old["type"]));
                all.extend(conditions.iter().cloned());
                object[key] = all.into();
            }
            _ => merge(&mut object[key], value),
        }
    }
}

fn answer(status: StatusCode, object: Value) -> Response<Body> {
    let mut response = Response::new(Full::new(Bytes::from(object.to_string())).boxed_unsync());
    *response.status_mut() = status;
    response
}

fn not_found(path: &str) -> Response<Body> {
    let _ = path;
    failure(StatusCode::NOT_FOUND, "NotFound")
}

fn failure(status: StatusCode, reason: &str) -> Response<Body> {
    let code = status.as_u16();
    let body =
        json!({"kind": "Status", "status": "Failure", "message": reason, "reason": reason, "code": code});
    answer(status, body)
}
