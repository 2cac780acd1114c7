//! PersistentVolumeClaims of a pod, as far as this node can mount what they are bound to.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1 as core;
use kube::Api;
use minik8s_informer::Lenient;
use thiserror::Error;

use crate::pod::DesiredPod;

/// A directory of this node that a claim is bound to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClaimedPath {
    pub path: String,
    /// What must be there, as for hostPath volumes.
    pub kind: String,
}

/// A claim and the volume that it is bound to.
#[derive(Debug, Clone, PartialEq)]
pub struct ClaimedVolume {
    pub claim: core::PersistentVolumeClaim,
    pub volume: core::PersistentVolume,
}

#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ClaimError {
    #[error("persistentvolumeclaim \"{0}\" not found")]
    Missing(String),
    #[error("persistentvolumeclaim \"{0}\" is not bound")]
    Unbound(String),
    #[error("persistentvolumeclaim \"{0}\" is being deleted")]
    Deleted(String),
    #[error("persistentvolume \"{0}\" not found")]
    NoVolume(String),
    #[error("persistentvolume \"{0}\" is bound to another claim")]
    Other(String),
    #[error("volume {0} has volumeMode Block, but is specified in volumeMounts")]
    Mounted(String),
    #[error("volume {0} has volumeMode Filesystem, but is specified in volumeDevices")]
    NoDevice(String),
}

pub type Claims = BTreeMap<String, Result<ClaimedPath, ClaimError>>;
pub type ClaimedVolumes = BTreeMap<String, Result<ClaimedVolume, ClaimError>>;

/// Looks up every claim that a pod's volumes name. One that is being deleted serves those that have it already.
pub async fn fetch_claims(
    client: &kube::Client,
    desired_pod: &DesiredPod,
    is_start: bool,
) -> Result<ClaimedVolumes, kube::Error> {
    let mut claims = ClaimedVolumes::new();
    let volumes = desired_pod.spec().and_then(|spec| spec.volumes.as_ref()).into_iter().flatten();
    for volume in volumes {
        let Some(name) = claim_name(desired_pod, volume) else { continue };
        let api: Api<Lenient<core::PersistentVolumeClaim>> =
            Api::namespaced(client.clone(), &desired_pod.namespace);
        let claim = api.get_opt(&name).await?.map(Lenient::into_inner);
        let bound = match &claim {
            Some(claim) if is_start && claim.metadata.deletion_timestamp.is_some() => {
                Err(ClaimError::Deleted(name.clone()))
            }
            Some(claim) => volume_name(&name, claim),
            None => Err(ClaimError::Missing(name.clone())),
        };
        let found = match (bound, claim) {
            (Ok(volume), Some(claim)) => {
                let volumes: Api<Lenient<core::PersistentVolume>> = Api::all(client.clone());
                match volumes.get_opt(&volume).await?.map(Lenient::into_inner) {
                    Some(found) => checked(&volume, found, claim),
                    None => Err(ClaimError::NoVolume(volume)),
                }
            }
            (bound, _) => bound.and(Err(ClaimError::Missing(name.clone()))),
        };
        let found = found.and_then(|found| used_as_it_is(found, desired_pod.spec(), &volume.name));
        claims.insert(name, found);
    }
    Ok(claims)
}

/// The claim of a volume: named, or made for this pod alone.
pub fn claim_name(desired_pod: &DesiredPod, volume: &core::Volume) -> Option<String> {
    match (&volume.persistent_volume_claim, &volume.ephemeral) {
        (Some(source), _) => Some(source.claim_name.clone()),
        (None, Some(_)) => Some(format!("{}-{}", desired_pod.name, volume.name)),
        (None, None) => None,
    }
}

fn volume_name(name: &str, claim: &core::PersistentVolumeClaim) -> Result<String, ClaimError> {
    let phase = claim.status.as_ref().and_then(|status| status.phase.as_deref());
    let volume = claim.spec.as_ref().and_then(|spec| spec.volume_name.clone());
    volume
        .filter(|volume| !volume.is_empty() && phase == Some("Bound"))
        .ok_or(ClaimError::Unbound(name.to_owned()))
}

/// Both sides must agree: a volume of another claim is not shown to this one's pods.
fn checked(
    name: &str,
    volume: core::PersistentVolume,
    claim: core::PersistentVolumeClaim,
) -> Result<ClaimedVolume, ClaimError> {
    let kept = volume.spec.as_ref().and_then(|spec| spec.claim_ref.as_ref());
    match kept.and_then(|reference| reference.uid.as_ref()) == claim.metadata.uid.as_ref() {
        true => Ok(ClaimedVolume { claim, volume }),
        false => Err(ClaimError::Other(name.to_owned())),
    }
}

/// A device is not mounted, and a file system is no device.
fn used_as_it_is(
    found: ClaimedVolume,
    pod: Option<&core::PodSpec>,
    name: &str,
) -> Result<ClaimedVolume, ClaimError> {
    let spec = found.volume.spec.as_ref();
    let is_block = spec.and_then(|spec| spec.volume_mode.as_deref()) == Some("Block");
    let mut containers =
        pod.into_iter().flat_map(|pod| pod.init_containers.iter().flatten().chain(&pod.containers));
    let is_misused = containers.any(|container| match is_block {
        true => container.volume_mounts.iter().flatten().any(|mount| mount.name == name),
        false => container.volume_devices.iter().flatten().any(|device| device.name == name),
    });
    match (is_misused, is_block) {
        (false, _) => Ok(found),
        (true, true) => Err(ClaimError::Mounted(name.to_owned())),
        (true, false) => Err(ClaimError::NoDevice(name.to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn claim_has_the_volume_that_names_it_too() {
        let check = |claim: Value, volume: Value, want: Result<(), ClaimError>| {
            let claim: core::PersistentVolumeClaim = serde_json::from_value(claim).unwrap();
            let volume: core::PersistentVolume = serde_json::from_value(volume).unwrap();
            let got = volume_name("c", &claim).and_then(|name| checked(&name, volume, claim));
            assert_eq!(got.map(drop), want);
        };
        let claim = |phase: &str| json!({"metadata": {"uid": "u"}, "spec": {"volumeName": "v"}, "status": {"phase": phase}});
        let volume = |uid: &str| json!({"spec": {"claimRef": {"uid": uid}}});
        check(claim("Bound"), volume("u"), Ok(()));
        check(claim("Bound"), volume("other"), Err(ClaimError::Other("v".into())));
        check(claim("Pending"), json!({}), Err(ClaimError::Unbound("c".into())));
    }

    #[test]
    fn volume_is_used_as_what_it_is() {
        let check = |mode: Value, container: Value, want: Result<(), ClaimError>| {
            let volume = serde_json::from_value(json!({"spec": {"volumeMode": mode}})).unwrap();
            let found = ClaimedVolume { claim: core::PersistentVolumeClaim::default(), volume };
            let pod: core::PodSpec = serde_json::from_value(json!({"containers": [container]})).unwrap();
            assert_eq!(used_as_it_is(found, Some(&pod), "v").map(drop), want);
        };
        let mounted = |name: &str| json!({"name": "c", "volumeMounts": [{"name": name, "mountPath": "/v"}]});
        let device = |name: &str| json!({"name": "c", "volumeDevices": [{"name": name, "devicePath": "/v"}]});
        check(Value::Null, mounted("v"), Ok(()));
        check(json!("Filesystem"), device("other"), Ok(()));
        check(json!("Filesystem"), device("v"), Err(ClaimError::NoDevice("v".into())));
        check(Value::Null, device("v"), Err(ClaimError::NoDevice("v".into())));
        check(json!("Block"), device("v"), Ok(()));
        check(json!("Block"), mounted("other"), Ok(()));
        check(json!("Block"), mounted("v"), Err(ClaimError::Mounted("v".into())));
    }
}
