//! A claim names another VolumeAttributesClass: its volume is changed in its storage system, in place.
//!
//! The claim's status says what is wanted before the driver is asked, and what is so only after it has answered: who dies in
//! between asks again, which drivers take for the same wish.

use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim};
use k8s_openapi::api::storage::v1::VolumeAttributesClass;
use minik8s_csi::controller::{Can, ModifyVolume};
use minik8s_csi::{Code, Pairs};
use minik8s_runtime::{EventRecord, Key};
use serde_json::json;

use super::operator::Operator;
use super::provision::COMPONENT;
use super::remote::{Remote, RemoteError};
use super::secrets;
use crate::fit::attributes_class;

impl Operator {
    pub async fn modify(
        &self,
        claim: &PersistentVolumeClaim,
        volume: &PersistentVolume,
    ) -> Result<(), RemoteError> {
        let Some(name) = attributes_class(claim) else { return Ok(()) };
        if let Err(error) = self.modify_in_storage(claim, volume, name).await {
            let event = EventRecord::warning(claim, "VolumeModifyFailed", error.to_string());
            self.executor.recorder().record(COMPONENT, event);
            if let Some(state) = state_of(&error) {
                self.patch_status(claim, status(name, state)).await?;
            }
            return Err(error);
        }
        self.patch(volume, json!({"spec": {"volumeAttributesClassName": name}})).await?;
        let done = json!({"currentVolumeAttributesClassName": name, "modifyVolumeStatus": null});
        self.patch_status(claim, done).await?;
        let message = format!("the volume has the attributes of the VolumeAttributesClass {name:?}");
        let event = EventRecord::normal(claim, "VolumeModifySuccessful", message);
        self.executor.recorder().record(COMPONENT, event);
        Ok(())
    }

    async fn modify_in_storage(
        &self,
        claim: &PersistentVolumeClaim,
        volume: &PersistentVolume,
        name: &str,
    ) -> Result<(), RemoteError> {
        let csi = volume.spec.as_ref().and_then(|spec| spec.csi.clone()).unwrap_or_default();
        let remote = self.remote_of(&csi.driver, volume)?;
        let mutable_parameters = self.mutable_parameters(name, &remote).await?;
        self.patch_status(claim, status(name, IN_PROGRESS)).await?;
        let secrets = secrets::read(&self.client, csi.controller_expand_secret_ref.as_ref()).await?;
        let call = ModifyVolume { volume_id: csi.volume_handle, secrets, mutable_parameters };
        remote.call(&call).await.map(drop)
    }

    /// What a VolumeAttributesClass says to a driver that can set it.
    pub async fn mutable_parameters(&self, name: &str, remote: &Remote) -> Result<Pairs, RemoteError> {
        let driver = &remote.driver;
        let class = self.caches.of::<VolumeAttributesClass>().get(&Key::new("", name));
        let class = class.ok_or_else(|| {
            RemoteError::Wish(format!("volumeattributesclass.storage.k8s.io {name:?} not found"))
        })?;
        if class.driver_name != *driver {
            let other = &class.driver_name;
            let why = format!(
                "the VolumeAttributesClass {name:?} is for the driver {other}, the volume is of {driver}"
            );
            return Err(RemoteError::Wish(why));
        }
        if !self.capabilities(remote).await?.has(Can::ModifyVolume) {
            let why = format!("the driver {driver} cannot set what the VolumeAttributesClass {name:?} says");
            return Err(RemoteError::Wish(why));
        }
        Ok(class.parameters.clone().unwrap_or_default().into_iter().collect())
    }
}

const IN_PROGRESS: &str = "InProgress";

fn status(name: &str, state: &str) -> serde_json::Value {
    json!({"modifyVolumeStatus": {"targetVolumeAttributesClassName": name, "status": state}})
}

/// As the API calls it; None where nobody knows whether the driver has done it.
fn state_of(error: &RemoteError) -> Option<&'static str> {
    match error {
        RemoteError::Wish(_) => Some("Pending"),
        _ if error.code() == Some(Code::INVALID_ARGUMENT) => Some("Infeasible"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusal_says_whether_another_class_is_needed() {
        let refused = |code: Code| RemoteError::Refused { code: Some(code), message: String::new() };
        assert_eq!(state_of(&RemoteError::Wish(String::new())), Some("Pending"));
        assert_eq!(state_of(&refused(Code::INVALID_ARGUMENT)), Some("Infeasible"));
        assert_eq!(state_of(&refused(Code::UNAVAILABLE)), None);
    }
}
