//! A volume whose claim is gone is deleted in its storage system, then its object.

use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim, SecretReference};
use kube::Api;
use kube::api::{DeleteParams, Preconditions};
use minik8s_csi::controller::DeleteVolume;
use minik8s_runtime::EventRecord;

use super::due::VOLUME;
use super::operator::Operator;
use super::provision::COMPONENT;
use super::remote::RemoteError;
use super::secrets;
use crate::annotation::annotation;
use crate::claim::claim_of;

const SECRET: &str = "volume.kubernetes.io/provisioner-deletion-secret-name";
const SECRET_NAMESPACE: &str = "volume.kubernetes.io/provisioner-deletion-secret-namespace";

impl Operator {
    pub async fn delete(&self, volume: &PersistentVolume) -> Result<(), RemoteError> {
        let volumes: Api<PersistentVolume> = Api::all(self.client.clone());
        let name = volume.metadata.name.clone().unwrap_or_default();
        // Data is lost for ever by this: the API itself is asked, not a cache.
        let Some(now) = volumes.get_opt(&name).await? else { return Ok(()) };
        if now.metadata.uid != volume.metadata.uid || now.spec != volume.spec || self.has_claim(&now).await? {
            return Ok(());
        }
        if let Err(error) = self.delete_in_storage(&now).await {
            let event = EventRecord::warning(volume, "VolumeFailedDelete", error.to_string());
            self.executor.recorder().record(COMPONENT, event);
            return Err(error);
        }
        if now.metadata.deletion_timestamp.is_none() {
            let preconditions = Preconditions { uid: now.metadata.uid.clone(), resource_version: None };
            let parameters = DeleteParams { preconditions: Some(preconditions), ..DeleteParams::default() };
            match volumes.delete(&name, &parameters).await {
                Err(kube::Error::Api(status)) if status.code == 404 => return Ok(()),
                other => drop(other?),
            }
        }
        let Some(now) = volumes.get_opt(&name).await? else { return Ok(()) };
        self.patch_finalizers(&now, &[], &[VOLUME]).await
    }

    async fn delete_in_storage(&self, volume: &PersistentVolume) -> Result<(), RemoteError> {
        let csi = volume.spec.as_ref().and_then(|spec| spec.csi.clone()).unwrap_or_default();
        let text = |key: &str| annotation(&volume.metadata, key).map(str::to_owned);
        let reference =
            text(SECRET).map(|name| SecretReference { name: Some(name), namespace: text(SECRET_NAMESPACE) });
        let secrets = secrets::read(&self.client, reference.as_ref()).await?;
        let remote = self.remote_of(&csi.driver, volume)?;
        remote.call(&DeleteVolume { volume_id: csi.volume_handle, secrets }).await.map(drop)
    }

    async fn has_claim(&self, volume: &PersistentVolume) -> Result<bool, kube::Error> {
        let Some(key) = claim_of(volume) else { return Ok(true) };
        let uid = volume.spec.as_ref().and_then(|spec| spec.claim_ref.as_ref()?.uid.clone());
        let claims: Api<PersistentVolumeClaim> = Api::namespaced(self.client.clone(), &key.namespace);
        Ok(claims.get_opt(&key.name).await?.is_some_and(|claim| claim.metadata.uid == uid))
    }

    /// Its object goes, what is in the storage system stays.
    pub async fn let_go(&self, volume: &PersistentVolume) -> Result<(), RemoteError> {
        self.patch_finalizers(volume, &[], &[VOLUME]).await
    }
}
