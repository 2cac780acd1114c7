//! The objects of shared storage: the Secret with its set-up, its driver, and its classes.

use anyhow::Context;
use http::{Method, Request};
use k8s_openapi::ByteString;
use kube::Client;
use minik8s_meta::shared_storage::{CLASS, CONFIG_KEY, DRIVER, SECRET, SharedStorage};
use serde_json::{Value, json};

/// Who set the fields that are applied.
const MANAGER: &str = "minik8s-storage";

/// Where each is, and the object; in the order in which they are made.
fn all(setup: &str) -> [(&'static str, Value); 4] {
    [
        (
            "/api/v1/namespaces/kube-system/secrets",
            json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": SECRET}, "data": {CONFIG_KEY: ByteString(setup.as_bytes().to_vec())}}),
        ),
        (
            "/apis/storage.k8s.io/v1/csidrivers",
            json!({"apiVersion": "storage.k8s.io/v1", "kind": "CSIDriver", "metadata": {"name": DRIVER,
                "annotations": {"csi.minik8s.io/controller": "agent"}},
                "spec": {"attachRequired": true, "fsGroupPolicy": "File", "volumeLifecycleModes": ["Persistent"]}}),
        ),
        (
            "/apis/storage.k8s.io/v1/storageclasses",
            json!({"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": CLASS,
                "annotations": {"kubernetes.io/description": "A directory with a quota that every node reaches"}},
                "provisioner": DRIVER, "volumeBindingMode": "Immediate", "reclaimPolicy": "Delete",
                "allowVolumeExpansion": true}),
        ),
        (
            "/apis/snapshot.storage.k8s.io/v1/volumesnapshotclasses",
            json!({"apiVersion": "snapshot.storage.k8s.io/v1", "kind": "VolumeSnapshotClass", "metadata": {"name": CLASS,
                "annotations": {"snapshot.storage.kubernetes.io/is-default-class": "true"}},
                "driver": DRIVER, "deletionPolicy": "Delete"}),
        ),
    ]
}

/// Server-side, so that what others have set on these objects stays.
pub async fn apply(client: &Client, setup: &SharedStorage) -> anyhow::Result<()> {
    for (collection, object) in all(&serde_json::to_string(setup)?) {
        let url = format!("{collection}/{}?fieldManager={MANAGER}&force=true", name(&object));
        let request = Request::builder().method(Method::PATCH).uri(url);
        let request = request.header("content-type", "application/apply-patch+yaml");
        let applied = client.request::<Value>(request.body(object.to_string().into_bytes())?).await;
        applied.with_context(|| format!("cannot apply {} {}", object["kind"], name(&object)))?;
    }
    Ok(())
}

/// The set-up last: as long as it is there, the nodes work for what is left.
pub async fn remove(client: &Client) -> anyhow::Result<()> {
    for (collection, object) in all("").iter().rev() {
        let path = format!("{collection}/{}", name(object));
        let request = Request::builder().method(Method::DELETE).uri(path).body(Vec::new())?;
        match client.request::<Value>(request).await {
            Err(kube::Error::Api(status)) if status.code == 404 => {}
            other => {
                other.with_context(|| format!("cannot delete {} {}", object["kind"], name(object)))?;
            }
        }
    }
    Ok(())
}

fn name(object: &Value) -> &str {
    object["metadata"]["name"].as_str().unwrap_or_default()
}
