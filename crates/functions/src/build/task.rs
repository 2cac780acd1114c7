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
use minik8s_feature::Parts;
use minik8s_meta::function::{
    BUILD_FAILURE_ANNOTATION, DEPENDENCIES_ANNOTATION, DEPENDENCIES_REPOSITORY, PORT,
};
use minik8s_meta::image_repository::REGISTRY_HOST;
use minik8s_registry::client::{MANIFEST, PushError, Repository};
use minik8s_runtime::{Caches, Key, controller_of, key_of as object_key};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use thiserror::Error;
use tokio::sync::{mpsc, watch};
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

use super::layer::{Layer, LayerError};
use super::{failure_of, key_of};
use crate::revision::{config_map_name, hash_of};
use crate::status::is_ready;

const TRIES: u32 = 5;
const FIRST_PAUSE: Duration = Duration::from_secs(1);
/// A pod that sends nothing for as long is given up.
const SILENCE: Duration = Duration::from_secs(60);
/// Of a layer, for one request to the registry.
const CHUNK: usize = 4 << 20;

#[derive(Debug, Error)]
enum TakeError {
    #[error("the build's pod cannot be asked for the packages: {0}")]
    Request(#[from] kube::Error),
    #[error("the request to the build's pod cannot be made: {0}")]
    Http(#[from] http::Error),
    #[error("the build's pod answers {0} when it is asked for the packages")]
    Status(StatusCode),
    #[error("the build's pod has sent nothing for {} s", SILENCE.as_secs())]
    Silence,
    #[error("{0}")]
    Layer(#[from] LayerError),
    #[error("the packages cannot be put into the registry: {0}")]
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
    let (wakes, mut woken) = mpsc::unbounded_channel();
    pods.listen(Box::new({
        let wakes = wakes.clone();
        move |_, new| {
            if let Some(pod) = new.filter(|pod| is_waiting(pod)) {
                // Nobody listens any more when this server stops.
                let _ = wakes.send(Wake::Ready(object_key(&**pod)));
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
                let (client, wakes) = (around.client.clone(), wakes.clone());
                AbortOnDropHandle::new(tokio::spawn(async move {
                    take(&client, &pod).await;
                    let _ = wakes.send(Wake::Done(build));
                }))
            });
        }
        waiting = tokio::select! {
            () = around.stop.cancelled() => return,
            () = change(&mut around.leads) => pods.list(),
            wake = woken.recv() => match wake {
                Some(Wake::Ready(key)) => pods.get(&key).into_iter().collect(),
                Some(Wake::Done(build)) => {
                    running.remove(&build);
                    pods.list()
                }
                None => return,
            },
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
    let mut pause = FIRST_PAUSE;
    for tries in 1.. {
        match packages(client, pod, &namespace, &name).await {
            Ok(image) => {
                let map = config_map_name(function, hash_of(&pod.metadata));
                let patch = json!({"metadata": {"annotations": {DEPENDENCIES_ANNOTATION: image}}});
                let maps: Api<ConfigMap> = Api::namespaced(client.clone(), &namespace);
                let written = maps.patch(&map, &PatchParams::default(), &Patch::Merge(patch)).await;
                if let Err(error) = written {
                    tracing::warn!(%error, namespace, map, "cannot say where a function's dependencies are");
                }
                return;
            }
            Err(error) if tries >= TRIES || matches!(error, TakeError::Layer(_)) => {
                tracing::warn!(%error, namespace, function, "a function's dependencies were not taken");
                let patch = json!({"metadata": {"annotations": {BUILD_FAILURE_ANNOTATION: error.to_string()}}});
                let pods: Api<Pod> = Api::namespaced(client.clone(), &namespace);
                // A pod that is gone needs no mark.
                let _ = pods.patch(&name, &PatchParams::default(), &Patch::Merge(patch)).await;
                return;
            }
            Err(error) => tracing::debug!(%error, namespace, function, "a function's dependencies were not taken yet"),
        }
        tokio::time::sleep(pause).await;
        pause *= 2;
    }
}

/// The image that the packages have become.
async fn packages(client: &Client, pod: &Pod, namespace: &str, name: &str) -> Result<String, TakeError> {
    let path = format!("/api/v1/namespaces/{namespace}/pods/{name}:{PORT}/proxy/");
    let uid = pod.metadata.uid.as_deref().unwrap_or_default();
    let request = Request::get(path).header("x-function-build", uid).body(Body::empty())?;
    let response = client.send(request).await?;
    if response.status() != StatusCode::OK {
        return Err(TakeError::Status(response.status()));
    }
    let repository = Repository::new(client, namespace, DEPENDENCIES_REPOSITORY);
    let layer = push_layer(&repository, response.into_body()).await?;
    let config = json!({
        "architecture": architecture(),
        "os": "linux",
        "config": {},
        "rootfs": {"type": "layers", "diff_ids": [layer.0]},
    })
    .to_string()
    .into_bytes();
    let (config_digest, size) = (digest(&config), config.len());
    repository
        .push_blob::<PushError>(&config_digest, i64::try_from(size).unwrap_or(0), async |_, _| Ok(config.clone()))
        .await?;
    let manifest = manifest((&config_digest, size as u64), (&layer.0, layer.1)).to_string().into_bytes();
    let manifest_digest = digest(&manifest);
    repository.push_manifest(key_of(pod).unwrap_or_default(), manifest, MANIFEST).await?;
    Ok(format!("{REGISTRY_HOST}/{namespace}/{DEPENDENCIES_REPOSITORY}@{manifest_digest}"))
}

/// The digest and size of the layer.
async fn push_layer(repository: &Repository<'_>, mut body: Body) -> Result<(String, u64), TakeError> {
    let mut upload = repository.upload().await?;
    let (mut layer, mut pending) = (Layer::new(), Vec::new());
    let finished = loop {
        let frame = match tokio::time::timeout(SILENCE, body.frame()).await {
            Ok(frame) => frame,
            Err(_) => break Err(TakeError::Silence),
        };
        let Some(frame) = frame else { break layer.finish().map_err(TakeError::from) };
        let fed = frame.map_err(TakeError::from).and_then(|frame| match frame.data_ref() {
            Some(data) => Ok(layer.feed(data)?),
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
            Ok((finished.digest, finished.size))
        }
        Err(error) => {
            upload.cancel().await;
            Err(error)
        }
    }
}

fn manifest(config: (&str, u64), layer: (&str, u64)) -> Value {
    json!({
        "schemaVersion": 2,
        "mediaType": MANIFEST,
        "config": {"mediaType": "application/vnd.oci.image.config.v1+json", "digest": config.0, "size": config.1},
        "layers": [{"mediaType": "application/vnd.oci.image.layer.v1.tar", "digest": layer.0, "size": layer.1}],
    })
}

fn digest(bytes: &[u8]) -> String {
    let hex: String = Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect();
    format!("sha256:{hex}")
}

/// Go's name of this machine's architecture.
fn architecture() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    }
}
