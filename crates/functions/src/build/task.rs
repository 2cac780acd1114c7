//! Takes packages from the pods that have fetched them into the registry, on the server that leads.
//!
//! The pod is asked through the API, as anybody who may would. What it sends becomes a layer as it comes, so that no more
//! than a piece of it is in memory. A pod that says no, or more than it may, is marked, and the controller takes it from there.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use http::{Request, StatusCode};
use http_body_util::BodyExt;
use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use kube::api::{Patch, PatchParams};
use kube::client::Body;
use kube::{Api, Client};
use minik8s_api::Piecewise;
use minik8s_feature::Parts;
use minik8s_meta::error_chain;
use minik8s_meta::function::{
    BUILD_FAILURE_ANNOTATION, BUILD_LABEL, DEPENDENCIES_ANNOTATION, DEPENDENCIES_REPOSITORY, PORT,
};
use minik8s_registry::client::{PushError, Repository};
use minik8s_runtime::{Backoff, Caches, Key, Queue, controller_of, key_of as object_key};
use serde_json::json;
use thiserror::Error;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

use super::layer::{Layer, LayerError};
use super::{failure_of, key_of};
use crate::image;
use crate::revision::{config_map_name, hash_of};
use crate::status::is_ready;

/// A repository has one image.
const TAG: &str = "latest";
const TRIES: u32 = 5;
const RETRY: Backoff = Backoff::millis(1_000, 60_000);
/// A pod that sends nothing for as long is given up.
const SILENCE: Duration = Duration::from_secs(60);
/// Of a layer, for one request to the registry.
const CHUNK: usize = 4 << 20;

#[derive(Debug, Error)]
enum TakeError {
    #[error("the build's pod cannot be asked for the packages")]
    Request(#[from] kube::Error),
    #[error("the request to the build's pod cannot be made")]
    Http(#[from] http::Error),
    #[error("the build's pod answers {0} when it is asked for the packages")]
    Status(StatusCode),
    #[error("the build's pod has sent nothing for {} s", SILENCE.as_secs())]
    Silence,
    #[error(transparent)]
    Layer(#[from] LayerError),
    #[error("the packages cannot be put into the registry")]
    Push(#[from] PushError),
}

#[derive(Clone)]
pub struct Surroundings {
    client: Client,
    caches: Arc<Caches>,
    leads: watch::Receiver<bool>,
    stop: CancellationToken,
}

impl Surroundings {
    pub fn of(parts: &Parts) -> Self {
        Surroundings {
            client: parts.client.clone(),
            caches: parts.caches.clone(),
            leads: parts.leads.clone(),
            stop: parts.stop.clone(),
        }
    }
}

/// What wakes the task.
#[derive(Clone, PartialEq, Eq, Hash)]
enum Wake {
    /// A pod has fetched its packages.
    Ready(Key),
    /// Nobody takes packages of these inputs any more.
    Done(Build),
}

/// Namespace and inputs: two functions that ask for the same have it taken once.
type Build = (String, String);

/// Until it is told to stop.
pub async fn run(mut around: Surroundings) {
    let pods = around.caches.of::<Pod>();
    // Each once, however often somebody writes: it grows with the pods alone.
    let woken = Arc::new(Queue::new(Backoff::default()));
    pods.listen(Box::new({
        let wakes = woken.clone();
        move |_, new| {
            if let Some(pod) = new.filter(|pod| is_waiting(pod)) {
                wakes.add(Wake::Ready(object_key(&**pod)));
            }
        }
    }));
    let mut running: HashMap<Build, AbortOnDropHandle<()>> = HashMap::new();
    let mut waiting = pods.list();
    loop {
        if !*around.leads.borrow() {
            running.clear();
            waiting.clear();
        }
        for pod in waiting.drain(..).filter(|pod| is_waiting(pod)) {
            let namespace = pod.metadata.namespace.clone().unwrap_or_default();
            let build = (namespace, key_of(&pod).unwrap_or_default().to_owned());
            running.entry(build.clone()).or_insert_with(|| {
                let (client, wakes) = (around.client.clone(), woken.clone());
                AbortOnDropHandle::new(tokio::spawn(async move {
                    take(&client, &pod).await;
                    wakes.add(Wake::Done(build));
                }))
            });
        }
        waiting = tokio::select! {
            () = around.stop.cancelled() => return,
            () = change(&mut around.leads) => pods.list(),
            wake = woken.next() => {
                woken.done(&wake);
                match wake {
                    Wake::Ready(key) => pods.get(&key).into_iter().collect(),
                    Wake::Done(build) => {
                        running.remove(&build);
                        pods.list()
                    }
                }
            }
        };
    }
}

/// A pod that has fetched its packages.
fn is_waiting(pod: &Pod) -> bool {
    key_of(pod).is_some()
        && is_ready(pod)
        && failure_of(pod).is_none()
        && pod.metadata.deletion_timestamp.is_none()
}

/// Never where this is settled: a server whose store is its own always leads.
async fn change(leads: &mut watch::Receiver<bool>) {
    if leads.changed().await.is_err() {
        std::future::pending().await
    }
}

/// From the pod to the ConfigMap of its revision, or a mark on the pod that says why not.
async fn take(client: &Client, pod: &Pod) {
    let Key { namespace, name } = object_key(pod);
    let Some(function) = controller_of(&pod.metadata).map(|owner| owner.name.as_str()) else { return };
    let map = config_map_name(function, hash_of(&pod.metadata));
    let maps: Api<ConfigMap> = Api::namespaced(client.clone(), &namespace);
    for tries in 1.. {
        // Whoever may make pods may label one so: it is asked only for what a revision waits for.
        if !maps.get_opt(&map).await.is_ok_and(|map| map.is_some_and(|map| waits_for(&map, pod))) {
            return;
        }
        match packages(client, pod, &namespace, &name).await {
            Ok(image) => {
                let patch = json!({"metadata": {"annotations": {DEPENDENCIES_ANNOTATION: image}}});
                let written = maps.patch(&map, &PatchParams::default(), &Patch::Merge(patch)).await;
                if let Err(error) = written {
                    tracing::warn!(%error, namespace, map, "cannot say where a function's dependencies are");
                }
                return;
            }
            Err(error) if tries >= TRIES || matches!(error, TakeError::Layer(_)) => {
                let told = error_chain(&error);
                tracing::warn!(error = told, namespace, function, "a function's dependencies were not taken");
                let patch = json!({"metadata": {"annotations": {BUILD_FAILURE_ANNOTATION: told}}});
                let pods: Api<Pod> = Api::namespaced(client.clone(), &namespace);
                // A pod that is gone needs no mark.
                let _ = pods.patch(&name, &PatchParams::default(), &Patch::Merge(patch)).await;
                return;
            }
            Err(error) => {
                tracing::debug!(%error, namespace, function, "a function's dependencies were not taken yet");
            }
        }
        tokio::time::sleep(RETRY.after(tries)).await;
    }
}

/// Whether a revision waits for what the pod has.
fn waits_for(map: &ConfigMap, pod: &Pod) -> bool {
    let wanted = map.metadata.labels.as_ref().and_then(|labels| labels.get(BUILD_LABEL));
    let annotations = map.metadata.annotations.as_ref();
    let has_some = annotations.is_some_and(|all| all.contains_key(DEPENDENCIES_ANNOTATION));
    !has_some && wanted.map(String::as_str) == key_of(pod)
}

/// The image that the packages have become.
async fn packages(client: &Client, pod: &Pod, namespace: &str, name: &str) -> Result<String, TakeError> {
    let path = format!("/api/v1/namespaces/{namespace}/pods/{name}:{PORT}/proxy/");
    let uid = pod.metadata.uid.as_deref().unwrap_or_default();
    let request = Request::get(path).header("x-function-build", uid).extension(Piecewise);
    let request = request.body(Body::empty())?;
    let response = client.send(request).await?;
    if response.status() != StatusCode::OK {
        return Err(TakeError::Status(response.status()));
    }
    let build = key_of(pod).unwrap_or_default();
    let repository_name = format!("{DEPENDENCIES_REPOSITORY}{build}");
    let repository = Repository::new(client, namespace, &repository_name);
    let layer = push_layer(&repository, response.into_body()).await?;
    let digest = image::push(&repository, TAG, &layer).await?;
    Ok(image::reference(namespace, &repository_name, &digest))
}

async fn push_layer(repository: &Repository<'_>, mut body: Body) -> Result<image::Layer, TakeError> {
    let mut upload = repository.upload().await?;
    let (mut layer, mut pending) = (Layer::new(), Vec::new());
    let finished = loop {
        let frame = match tokio::time::timeout(SILENCE, body.frame()).await {
            Ok(frame) => frame,
            Err(_) => break Err(TakeError::Silence),
        };
        let Some(frame) = frame else { break layer.finish().map_err(TakeError::from) };
        let fed = frame.map_err(TakeError::from).and_then(|frame| match frame.data_ref() {
            Some(data) => layer.feed(data).map_err(TakeError::from),
            None => Ok(()),
        });
        if let Err(error) = fed {
            break Err(error);
        }
        pending.extend(layer.take());
        if pending.len() >= CHUNK {
            upload.append(std::mem::take(&mut pending)).await?;
        }
    };
    match finished {
        Ok(mut finished) => {
            pending.append(&mut finished.last);
            upload.append(pending).await?;
            upload.finish(&finished.digest).await?;
            Ok(image::Layer { digest: finished.digest, size: finished.size })
        }
        Err(error) => {
            upload.cancel().await;
            Err(error)
        }
    }
}
