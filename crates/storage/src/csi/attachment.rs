//! Attaches and detaches, for drivers that have something to attach; for others an attachment is only a word.

use k8s_openapi::api::core::v1::PersistentVolume;
use k8s_openapi::api::storage::v1::{CSINode, VolumeAttachment};
use k8s_openapi::jiff::Timestamp;
use minik8s_csi::controller::{Can, PublishVolume, UnpublishVolume};
use minik8s_csi::{Code, Mode, Mount, VolumeCapability};
use minik8s_runtime::Key;
use serde_json::json;

use super::due::attacher_finalizer;
use super::operator::Operator;
use super::remote::RemoteError;
use super::secrets;

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
        let node_id = self.node_id(driver, &attachment.spec.node_name)?;
        // Before the driver is asked: what may be attached must be detached.
        self.patch_finalizers(attachment, &[&attacher_finalizer(driver)], &[]).await?;
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
        // The attachment may be of a node that is gone, and with it the driver's name of it: then there is nothing
        // that could be told to the driver.
        let Ok(node_id) = self.node_id(&csi.driver, &attachment.spec.node_name) else { return Ok(()) };
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

    /// A driver's own name of a node.
    fn node_id(&self, driver: &str, node: &str) -> Result<String, RemoteError> {
        let csi_node = self.caches.of::<CSINode>().get(&Key::new("", node));
        let drivers = csi_node.map(|csi_node| csi_node.spec.drivers.clone()).unwrap_or_default();
        let known = drivers.into_iter().find(|known| known.name == driver);
        let missing =
            || RemoteError::Wish(format!("the driver {driver} is not registered on node {node} (yet)"));
        known.map(|known| known.node_id).ok_or_else(missing)
    }
}
