//! The class `local`, for claims and for snapshots, made once in the life of a cluster and the default: a claim works without choosing anything.
//!
//! Who deletes the class, or makes another the default, is not contradicted: a ConfigMap remembers that it was made.

use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::api::storage::v1::StorageClass;
use kube::api::{Api, Patch, PatchParams, PostParams};
use kube::{Client, Error};
use minik8s_meta::Backoff;
use minik8s_meta::local_volume::DRIVER;
use minik8s_meta::snapshot::VolumeSnapshotClass;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::annotation::IS_DEFAULT;
use crate::snapshot::names;

const NAME: &str = "local";
const MEMORY: &str = "minik8s-storage";
const CLASS_KEY: &str = "default-class";
const SNAPSHOT_CLASS_KEY: &str = "default-snapshot-class";
const RETRY: Backoff = Backoff::millis(250, 4_000);

/// Tries until it is made, then waits for the end.
pub async fn provide(client: Client, stop: CancellationToken) {
    let mut retries = RETRY.retries();
    loop {
        let pause = match make(&client).await {
            Ok(()) => return stop.cancelled().await,
            Err(error) => {
                tracing::debug!(%error, "cannot make the storage class {NAME} yet");
                tokio::time::sleep(retries.failed())
            }
        };
        tokio::select! {
            () = pause => {}
            () = stop.cancelled() => return,
        }
    }
}

/// The classes first: who dies in between finds them and goes on.
async fn make(client: &Client) -> Result<(), Error> {
    let memory: Api<ConfigMap> = Api::namespaced(client.clone(), "kube-system");
    let known = memory.get_opt(MEMORY).await?;
    let has = |key: &str| known.as_ref().is_some_and(|map| map.data.iter().flatten().any(|(k, _)| k == key));
    if !has(CLASS_KEY) {
        let classes: Api<StorageClass> = Api::all(client.clone());
        unless_there(classes.create(&PostParams::default(), &read(class())).await)?;
    }
    if !has(SNAPSHOT_CLASS_KEY) {
        let classes: Api<VolumeSnapshotClass> = Api::all(client.clone());
        unless_there(classes.create(&PostParams::default(), &read(snapshot_class())).await)?;
    }
    let data = json!({CLASS_KEY: NAME, SNAPSHOT_CLASS_KEY: NAME});
    match known {
        None => {
            let made = json!({"metadata": {"name": MEMORY}, "data": data});
            unless_there(memory.create(&PostParams::default(), &read(made)).await)
        }
        Some(_) if has(CLASS_KEY) && has(SNAPSHOT_CLASS_KEY) => Ok(()),
        Some(_) => {
            let patch = Patch::Merge(json!({"data": data}));
            memory.patch(MEMORY, &PatchParams::default(), &patch).await.map(drop)
        }
    }
}

fn snapshot_class() -> Value {
    json!({
        "metadata": {"name": NAME, "annotations": {names::IS_DEFAULT: "true"}},
        "driver": DRIVER,
        "deletionPolicy": "Delete",
    })
}

fn class() -> Value {
    json!({
        "metadata": {"name": NAME, "annotations": {
            IS_DEFAULT: "true",
            "kubernetes.io/description": "A file system of its own size on the node of the pod",
        }},
        "provisioner": DRIVER,
        "volumeBindingMode": "WaitForFirstConsumer",
        "reclaimPolicy": "Delete",
        "allowVolumeExpansion": true,
    })
}

fn read<K: serde::de::DeserializeOwned>(object: Value) -> K {
    serde_json::from_value(object).expect("an object made of known fields")
}

fn unless_there<K>(made: Result<K, Error>) -> Result<(), Error> {
    match made {
        Err(Error::Api(status)) if status.code == 409 => Ok(()),
        other => other.map(drop),
    }
}
