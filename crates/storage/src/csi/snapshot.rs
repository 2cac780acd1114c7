//! Snapshots are made and deleted in their storage system.
//!
//! A snapshot is named after its VolumeSnapshot, so that a call that was cut off is made again and gives the same one; its
//! content keeps a finalizer from before the first call until after the last.

use std::sync::Arc;

use k8s_openapi::api::core::v1::{Node, PersistentVolume, SecretReference};
use k8s_openapi::jiff::{Timestamp, Unit};
use minik8s_csi::Code;
use minik8s_csi::controller::{
    Content, CreateSnapshot, DeleteSnapshot, Snapshot, SnapshotSource, VolumeContentSource,
};
use minik8s_meta::local_volume;
use minik8s_meta::snapshot::{VolumeSnapshotClass, VolumeSnapshotContent};
use minik8s_runtime::{EventRecord, Key};
use serde_json::json;

use super::operator::Operator;
use super::provision::COMPONENT;
use super::remote::{Remote, RemoteError};
use super::secrets;
use crate::annotation::annotation;
use crate::snapshot::names::{
    CONTENT, DELETION_SECRET, DELETION_SECRET_NAMESPACE, handle, plain_parameters, snapshot_name,
};
use crate::{local, snapshot};

impl Operator {
    pub async fn snapshot(&self, content: &VolumeSnapshotContent) -> Result<(), RemoteError> {
        if let Some(handle) = &content.spec.source.snapshot_handle {
            // It is said to be there; who makes a volume of it will see.
            let status = json!({"snapshotHandle": handle, "readyToUse": true, "error": null});
            return self.patch_status(content, status).await;
        }
        match self.create_snapshot(content).await {
            Ok(made) => {
                self.patch_status(content, status_of(&made)).await?;
                match made.ready_to_use {
                    true => Ok(()),
                    false => Err(RemoteError::Wish("the driver is still at work on the snapshot".to_owned())),
                }
            }
            Err(error) => {
                let message = format!("Failed to take snapshot of the volume: {error}");
                let event = EventRecord::warning(content, "SnapshotCreationFailed", message.clone());
                self.executor.recorder().record(COMPONENT, event);
                let known =
                    content.status.as_ref().and_then(|status| status.error.as_ref()?.message.as_ref());
                if known != Some(&message) {
                    let time = Timestamp::now().round(Unit::Second).unwrap_or_default().to_string();
                    let told = json!({"time": time, "message": message});
                    self.patch_status(content, json!({"readyToUse": false, "error": told})).await?;
                }
                Err(error)
            }
        }
    }

    async fn create_snapshot(&self, content: &VolumeSnapshotContent) -> Result<Snapshot, RemoteError> {
        let volume_id = content.spec.source.volume_handle.clone().unwrap_or_default();
        let volume = self.volume_of(content).ok_or_else(|| {
            RemoteError::Wish(format!(
                "no PersistentVolume has the volume {volume_id:?} of which a snapshot is wanted"
            ))
        })?;
        let name = content.spec.volume_snapshot_class_name.as_deref().unwrap_or_default();
        let class = self.caches.of::<VolumeSnapshotClass>().get(&Key::new("", name));
        let call = CreateSnapshot {
            source_volume_id: volume_id,
            name: snapshot_name(content),
            secrets: self.snapshot_secrets(content).await?,
            parameters: plain_parameters(class.as_deref()),
        };
        let remote = match local::node_of(&volume) {
            Some(node) => self.on_node(&content.spec.driver, node)?,
            None => self.remote_of(&content.spec.driver, &volume)?,
        };
        let made = remote.call(&call).await?.snapshot.unwrap_or_default();
        match made.snapshot_id.is_empty() {
            true => Err(RemoteError::Answer("it has made a snapshot without a name".to_owned())),
            false => Ok(made),
        }
    }

    pub async fn delete_snapshot(&self, content: &VolumeSnapshotContent) -> Result<(), RemoteError> {
        if content.spec.deletion_policy == "Delete"
            && let Err(error) = self.delete_snapshot_in_storage(content).await
        {
            let message = format!("Failed to delete snapshot: {error}");
            let event = EventRecord::warning(content, "SnapshotDeleteError", message);
            self.executor.recorder().record(COMPONENT, event);
            return Err(error);
        }
        self.patch_finalizers(content, &[], &[CONTENT]).await
    }

    async fn delete_snapshot_in_storage(&self, content: &VolumeSnapshotContent) -> Result<(), RemoteError> {
        let snapshot_id = match (handle(content), self.volume_of(content)) {
            (Some(handle), _) => handle.to_owned(),
            // Nobody has written down what was made, if anything was: making it again is the only way to hear.
            (None, Some(_)) => match self.create_snapshot(content).await {
                Err(error) if error.is_final() => return Ok(()),
                other => other?.snapshot_id,
            },
            (None, None) => return Ok(()),
        };
        let driver = &content.spec.driver;
        let remote = match local_volume::parse_snapshot_handle(&snapshot_id) {
            Some((node, _)) if driver == local_volume::DRIVER => {
                if self.caches.of::<Node>().get(&Key::new("", node)).is_none() {
                    // Its node has left the cluster: whatever is on that machine's disk stays there.
                    return Ok(());
                }
                self.on_node(driver, node)?
            }
            _ => match self.volume_of(content) {
                Some(volume) => self.remote_of(driver, &volume)?,
                None => self.remote(driver, |_| true),
            },
        };
        let call = DeleteSnapshot { snapshot_id, secrets: self.snapshot_secrets(content).await? };
        match remote.call(&call).await {
            Err(error) if error.code() == Some(Code::NOT_FOUND) => Ok(()),
            other => other.map(drop),
        }
    }

    /// What a claim that wants a snapshot's content starts with.
    pub fn snapshot_source(
        &self,
        claim: &k8s_openapi::api::core::v1::PersistentVolumeClaim,
        driver: &str,
        name: &str,
    ) -> Result<VolumeContentSource, RemoteError> {
        let wish = |why: String| Err(RemoteError::Wish(why));
        let Some(content) = snapshot::content_of(&self.caches, claim) else {
            return wish(format!("the snapshot {name:?} to start with is not there, or not ready"));
        };
        if content.spec.driver != driver {
            return wish(format!("the snapshot {name:?} to start with is of another driver"));
        }
        let snapshot_id = handle(&content).unwrap_or_default().to_owned();
        Ok(VolumeContentSource { content: Some(Content::Snapshot(SnapshotSource { snapshot_id })) })
    }

    fn volume_of(&self, content: &VolumeSnapshotContent) -> Option<Arc<PersistentVolume>> {
        let wanted = content.spec.source.volume_handle.as_deref()?;
        let is_wanted = |volume: &Arc<PersistentVolume>| {
            let csi = volume.spec.as_ref().and_then(|spec| spec.csi.as_ref());
            csi.is_some_and(|csi| csi.driver == content.spec.driver && csi.volume_handle == wanted)
        };
        self.caches.of::<PersistentVolume>().list().into_iter().find(is_wanted)
    }

    /// A driver that must be asked on one node, where its volumes are.
    fn on_node(&self, driver: &str, node: &str) -> Result<Remote, RemoteError> {
        let found = self.caches.of::<Node>().get(&Key::new("", node));
        match found.is_some_and(|node| local::is_up(&node)) {
            true => Ok(Remote {
                client: self.client.clone(),
                driver: driver.to_owned(),
                nodes: vec![node.to_owned()],
            }),
            false => Err(RemoteError::Wish(format!("the node {node}, where the data is, is not ready"))),
        }
    }

    async fn snapshot_secrets(
        &self,
        content: &VolumeSnapshotContent,
    ) -> Result<minik8s_csi::Pairs, RemoteError> {
        let text = |key: &str| annotation(&content.metadata, key).map(str::to_owned);
        let reference = text(DELETION_SECRET)
            .map(|name| SecretReference { name: Some(name), namespace: text(DELETION_SECRET_NAMESPACE) });
        secrets::read(&self.client, reference.as_ref()).await
    }
}

fn status_of(made: &Snapshot) -> serde_json::Value {
    let nanos = |time: minik8s_csi::controller::Time| {
        time.seconds.saturating_mul(1_000_000_000).saturating_add(i64::from(time.nanos))
    };
    let time = made.creation_time.map(nanos);
    json!({
        "snapshotHandle": made.snapshot_id,
        "creationTime": time,
        "restoreSize": (made.size_bytes > 0).then_some(made.size_bytes),
        "readyToUse": made.ready_to_use,
        "error": null,
    })
}
