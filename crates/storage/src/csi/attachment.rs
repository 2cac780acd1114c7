//! Attaches and detaches, for drivers that have something to attach; for others an attachment is only a word.
//!
//! By what name a driver knows the node is written on the attachment before the driver is asked: it is told to detach by that
//! name also when it is being replaced there, or the node is gone. What nobody told it would stay attached in its storage
//! system, and could be attached nowhere else.

use std::sync::Arc;

use k8s_openapi::api::core::v1::{Node, PersistentVolume};
use k8s_openapi::api::storage::v1::{CSINode, VolumeAttachment};
use k8s_openapi::jiff::Timestamp;
use minik8s_csi::controller::{Can, PublishVolume, UnpublishVolume};
use minik8s_csi::{Code, Mode, Mount, VolumeCapability};
use minik8s_runtime::Key;
use serde_json::{Value, json};

use super::due::attacher_finalizer;
use super::operator::Operator;
use super::remote::RemoteError;
use super::secrets;
use crate::annotation::{annotation, finalizers_patch};
use crate::fit::reaches;

/// As external-attacher keeps it.
const NODE_ID: &str = "csi.alpha.kubernetes.io/node-id";

impl Operator {
    pub async fn attach(
        &self,
        attachment: &VolumeAttachment,
        volume: &PersistentVolume,
    ) -> Result<(), RemoteError> {
        match self.publish(attachment, volume).await {
            Ok(metadata) => {
                let status = json!({"attached": true, "attachmentMetadata": metadata, "attachError": null});
                self.patch_status(attachment, status).await
            }
            Err(error) => {
                let told = json!({"time": Timestamp::now().to_string(), "message": error.to_string()});
                self.patch_status(attachment, json!({"attachError": told})).await?;
                Err(error)
            }
        }
    }

    async fn publish(
        &self,
        attachment: &VolumeAttachment,
        volume: &PersistentVolume,
    ) -> Result<minik8s_csi::Pairs, RemoteError> {
        let driver = &attachment.spec.attacher;
        let remote = self.remote_of(driver, volume)?;
        let can = self.capabilities(&remote).await?;
        if !can.has(Can::PublishUnpublishVolume) {
            return Ok(minik8s_csi::Pairs::new());
        }
        let spec = volume.spec.clone().unwrap_or_default();
        let csi = spec.csi.unwrap_or_default();
        let csi_node = self.caches.of::<CSINode>().get(&Key::new("", &*attachment.spec.node_name));
        let node_id = node_id(attachment, csi_node.as_deref())?;
        // Before the driver is asked: what may be attached must be detached.
        if let Some(patch) = begun(attachment, &node_id) {
            self.patch_unchanged(attachment, patch).await?;
        }
        let mount = Mount {
            fs_type: csi.fs_type.unwrap_or_default(),
            mount_flags: spec.mount_options.unwrap_or_default(),
            volume_mount_group: String::new(),
        };
        let mode = Mode::of(&spec.access_modes.unwrap_or_default(), can.has(Can::SingleNodeMultiWriter));
        let is_block = spec.volume_mode.as_deref() == Some("Block");
        let call = PublishVolume {
            volume_id: csi.volume_handle,
            node_id,
            volume_capability: Some(VolumeCapability::new(is_block, mount, mode)),
            readonly: csi.read_only == Some(true) && can.has(Can::PublishReadonly),
            secrets: secrets::read(&self.client, csi.controller_publish_secret_ref.as_ref()).await?,
            volume_context: csi.volume_attributes.unwrap_or_default().into_iter().collect(),
        };
        Ok(remote.call(&call).await?.publish_context)
    }

    pub async fn detach(
        &self,
        attachment: &VolumeAttachment,
        volume: Option<&PersistentVolume>,
    ) -> Result<(), RemoteError> {
        let driver = &attachment.spec.attacher;
        if let Some(volume) = volume
            && let Some(csi) = volume.spec.as_ref().and_then(|spec| spec.csi.clone())
            && let Err(error) = self.unpublish(attachment, csi, volume).await
        {
            let told = json!({"time": Timestamp::now().to_string(), "message": error.to_string()});
            self.patch_status(attachment, json!({"detachError": told})).await?;
            return Err(error);
        }
        self.patch_finalizers(attachment, &[], &[&attacher_finalizer(driver)]).await
    }

    async fn unpublish(
        &self,
        attachment: &VolumeAttachment,
        csi: k8s_openapi::api::core::v1::CSIPersistentVolumeSource,
        volume: &PersistentVolume,
    ) -> Result<(), RemoteError> {
        let csi_node = self.caches.of::<CSINode>().get(&Key::new("", &*attachment.spec.node_name));
        let nodes = self.caches.of::<Node>().list();
        let Some(node_id) = node_id_to_leave(attachment, volume, csi_node.as_deref(), &nodes)? else {
            return Ok(());
        };
        let remote = self.remote_of(&csi.driver, volume)?;
        let call = UnpublishVolume {
            volume_id: csi.volume_handle,
            node_id,
            secrets: secrets::read(&self.client, csi.controller_publish_secret_ref.as_ref()).await?,
        };
        match remote.call(&call).await {
            Err(error) if error.code() == Some(Code::NOT_FOUND) => Ok(()),
            other => other.map(drop),
        }
    }
}

/// The driver's own name of the attachment's node, as it says now.
fn node_id(attachment: &VolumeAttachment, csi_node: Option<&CSINode>) -> Result<String, RemoteError> {
    let driver = &attachment.spec.attacher;
    let known = csi_node.and_then(|node| node.spec.drivers.iter().find(|known| known.name == *driver));
    let node = &attachment.spec.node_name;
    let missing = || RemoteError::Wish(format!("the driver {driver} is not registered on node {node} (yet)"));
    known.map(|known| known.node_id.clone()).ok_or_else(missing)
}

/// What says on an attachment that its driver may have been asked; None if that is said.
fn begun(attachment: &VolumeAttachment, node_id: &str) -> Option<Value> {
    let meta = &attachment.metadata;
    let finalizer = attacher_finalizer(&attachment.spec.attacher);
    let mut patch = finalizers_patch(meta, &[&finalizer], &[]);
    if annotation(meta, NODE_ID) != Some(node_id) {
        patch.get_or_insert_default()["metadata"]["annotations"] = json!({NODE_ID: node_id});
    }
    patch
}

/// The name by which the driver knows the node that it is told to detach from. None if nobody is left to be told: the node is
/// gone, and with it all from which the volume can be reached.
fn node_id_to_leave(
    attachment: &VolumeAttachment,
    volume: &PersistentVolume,
    csi_node: Option<&CSINode>,
    nodes: &[Arc<Node>],
) -> Result<Option<String>, RemoteError> {
    let is_gone = !nodes.iter().any(|node| node.metadata.name.as_ref() == Some(&attachment.spec.node_name));
    if is_gone && !nodes.iter().any(|node| reaches(volume, node)) {
        return Ok(None);
    }
    if let Some(kept) = annotation(&attachment.metadata, NODE_ID) {
        return Ok(Some(kept.to_owned()));
    }
    match node_id(attachment, csi_node) {
        // Attached before the name was kept.
        Err(_) if is_gone => Ok(None),
        told => told.map(Some),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read<K: serde::de::DeserializeOwned>(object: Value) -> K {
        serde_json::from_value(object).unwrap()
    }

    fn attachment(meta: Value) -> VolumeAttachment {
        read(json!({"metadata": meta, "spec": {"attacher": "d.example", "nodeName": "a",
            "source": {"persistentVolumeName": "v"}}}))
    }

    #[test]
    fn name_of_the_node_is_written_down_with_the_finalizer() {
        let (finalizer, annotations) = ("external-attacher/d-example", json!({NODE_ID: "id"}));
        let patch = begun(&attachment(json!({"finalizers": ["other"]})), "id").unwrap();
        assert_eq!(
            patch,
            json!({"metadata": {"finalizers": ["other", finalizer], "annotations": annotations}})
        );
        // Attached before the name was kept, or begun, and the node has another name since.
        let patch = begun(&attachment(json!({"finalizers": [finalizer]})), "id").unwrap();
        assert_eq!(patch, json!({"metadata": {"annotations": annotations}}));
        let whole = json!({"finalizers": [finalizer], "annotations": annotations});
        assert_eq!(begun(&attachment(whole), "id"), None);
    }

    #[test]
    fn driver_is_told_to_detach_also_while_it_is_away_from_the_node() {
        let node =
            |name: &str| Arc::new(read::<Node>(json!({"metadata": {"name": name, "labels": {"at": name}}})));
        let csi_node: CSINode = read(
            json!({"metadata": {"name": "a"}, "spec": {"drivers": [{"name": "d.example", "nodeID": "now"}]}}),
        );
        let terms = json!([{"matchExpressions": [{"key": "at", "operator": "In", "values": ["a"]}]}]);
        let bound = json!({"nodeAffinity": {"required": {"nodeSelectorTerms": terms}}});
        let check = |meta: Value,
                     spec: &Value,
                     is_known: bool,
                     nodes: &[&str],
                     expected: Result<Option<&str>, ()>| {
            let nodes: Vec<Arc<Node>> = nodes.iter().map(|name| node(name)).collect();
            let volume: PersistentVolume = read(json!({"metadata": {"name": "v"}, "spec": spec}));
            let found =
                node_id_to_leave(&attachment(meta), &volume, Some(&csi_node).filter(|_| is_known), &nodes);
            assert_eq!(found.as_ref().map(Option::as_deref).map_err(drop), expected, "{is_known} {nodes:?}");
        };
        let kept = || json!({"annotations": {NODE_ID: "then"}});
        let anywhere = json!({});
        check(kept(), &anywhere, true, &["a", "b"], Ok(Some("then")));
        check(kept(), &anywhere, false, &["a", "b"], Ok(Some("then")));
        check(kept(), &anywhere, false, &["b"], Ok(Some("then")));
        check(kept(), &bound, false, &["a", "b"], Ok(Some("then")));
        check(kept(), &bound, false, &["b"], Ok(None));
        // Attached before the name was kept.
        check(json!({}), &anywhere, true, &["a", "b"], Ok(Some("now")));
        check(json!({}), &anywhere, false, &["a", "b"], Err(()));
        check(json!({}), &anywhere, false, &["b"], Ok(None));
    }
}
