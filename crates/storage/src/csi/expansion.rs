//! A volume grows in its storage system; the rest is the node's.

use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim};
use minik8s_csi::controller::{Can, ExpandVolume};
use minik8s_csi::{CapacityRange, Mode, Mount, VolumeCapability};
use minik8s_meta::{Quantity, QuantityFormat};
use minik8s_runtime::EventRecord;
use serde_json::json;

use super::operator::Operator;
use super::provision::COMPONENT;
use super::remote::RemoteError;
use super::secrets;
use crate::fit::{capacity, requested};

impl Operator {
    pub async fn expand(
        &self,
        claim: &PersistentVolumeClaim,
        volume: &PersistentVolume,
        is_allowed: bool,
    ) -> Result<(), RemoteError> {
        let failed = |error: RemoteError| {
            self.executor
                .recorder()
                .record(COMPONENT, EventRecord::warning(claim, "VolumeResizeFailed", error.to_string()));
            error
        };
        if !is_allowed {
            let why = "its class does not allow volumes to grow (allowVolumeExpansion)";
            return Err(failed(RemoteError::Wish(why.to_owned())));
        }
        let (size, needs_node) = self.expand_in_storage(claim, volume).await.map_err(failed)?;
        if capacity(volume).value() < size.value() {
            self.patch(volume, json!({"spec": {"capacity": {"storage": size.to_string()}}})).await?;
        }
        let status = match needs_node {
            true => json!({
                "allocatedResources": {"storage": size.to_string()},
                "allocatedResourceStatuses": {"storage": "NodeResizePending"},
                "conditions": [{"type": "FileSystemResizePending", "status": "True", "message":
                    "Waiting for the node to make the file system larger; it does so while a pod uses the claim."}],
            }),
            false => json!({"capacity": {"storage": size.to_string()}, "conditions": null}),
        };
        // The node may be done already, when this is done again because the first time was not seen yet.
        self.patch_status_unchanged(claim, status).await?;
        let (reason, message) = match needs_node {
            true => ("FileSystemResizeRequired", "Require file system resize of volume on node"),
            false => ("VolumeResizeSuccessful", "Resize volume succeeded"),
        };
        self.executor.recorder().record(COMPONENT, EventRecord::normal(claim, reason, message));
        Ok(())
    }

    /// The new size, and whether the node has to do its part.
    async fn expand_in_storage(
        &self,
        claim: &PersistentVolumeClaim,
        volume: &PersistentVolume,
    ) -> Result<(Quantity, bool), RemoteError> {
        let spec = volume.spec.clone().unwrap_or_default();
        let csi = spec.csi.unwrap_or_default();
        let wanted = requested(claim);
        let remote = self.remote_of(&csi.driver, volume)?;
        if !self.capabilities(&remote).await?.has(Can::ExpandVolume) {
            // All of it is done on nodes.
            return Ok((wanted, true));
        }
        let mount = Mount {
            fs_type: csi.fs_type.unwrap_or_default(),
            mount_flags: spec.mount_options.unwrap_or_default(),
            volume_mount_group: String::new(),
        };
        let mode = Mode::of(&spec.access_modes.unwrap_or_default(), false);
        let is_block = spec.volume_mode.as_deref() == Some("Block");
        let call = ExpandVolume {
            volume_id: csi.volume_handle,
            capacity_range: Some(CapacityRange::at_least(wanted.value())),
            secrets: secrets::read(&self.client, csi.controller_expand_secret_ref.as_ref()).await?,
            volume_capability: Some(VolumeCapability::new(is_block, mount, mode)),
        };
        let grown = remote.call(&call).await?;
        let size = match grown.capacity_bytes > wanted.value() {
            true => Quantity::new(grown.capacity_bytes, QuantityFormat::BinarySi),
            false => wanted,
        };
        Ok((size, grown.node_expansion_required))
    }
}
