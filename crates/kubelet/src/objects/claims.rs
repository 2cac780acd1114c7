//! PersistentVolumeClaims of a pod, as far as this node can mount what they are bound to.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1 as core;
use kube::Api;
use thiserror::Error;

use crate::pod::Blueprint;

/// A directory of this node that a claim is bound to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClaimedPath {
    pub path: String,
    /// What must be there, as for hostPath volumes.
    pub kind: String,
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
    #[error("persistentvolume \"{0}\" is of a type that this node cannot mount (it can: hostPath, local)")]
    Unsupported(String),
}

pub type Claims = BTreeMap<String, Result<ClaimedPath, ClaimError>>;

/// Looks up every claim that a pod's volumes name.
pub async fn fetch_claims(client: &kube::Client, blueprint: &Blueprint) -> Result<Claims, kube::Error> {
    let mut claims = Claims::new();
    let volumes = blueprint.spec().and_then(|spec| spec.volumes.as_ref()).into_iter().flatten();
    for volume in volumes {
        let Some(name) = claim_name(blueprint, volume) else { continue };
        let api: Api<core::PersistentVolumeClaim> = Api::namespaced(client.clone(), &blueprint.namespace);
        let claim = api.get_opt(&name).await?;
        let bound = match &claim {
            Some(claim) => volume_name(&name, claim),
            None => Err(ClaimError::Missing(name.clone())),
        };
        let found = match (bound, claim) {
            (Ok(volume), Some(claim)) => {
                let volumes: Api<core::PersistentVolume> = Api::all(client.clone());
                match volumes.get_opt(&volume).await? {
                    Some(found) => claimed_path(&volume, &found, &claim),
                    None => Err(ClaimError::NoVolume(volume)),
                }
            }
            (bound, _) => bound.and(Err(ClaimError::Missing(name.clone()))),
        };
        claims.insert(name, found);
    }
    Ok(claims)
}

/// The claim of a volume: named, or made for this pod alone.
pub fn claim_name(blueprint: &Blueprint, volume: &core::Volume) -> Option<String> {
    match (&volume.persistent_volume_claim, &volume.ephemeral) {
        (Some(source), _) => Some(source.claim_name.clone()),
        (None, Some(_)) => Some(format!("{}-{}", blueprint.name, volume.name)),
        (None, None) => None,
    }
}

fn volume_name(name: &str, claim: &core::PersistentVolumeClaim) -> Result<String, ClaimError> {
    if claim.metadata.deletion_timestamp.is_some() {
        return Err(ClaimError::Deleted(name.to_owned()));
    }
    let phase = claim.status.as_ref().and_then(|status| status.phase.as_deref());
    let volume = claim.spec.as_ref().and_then(|spec| spec.volume_name.clone());
    volume
        .filter(|volume| !volume.is_empty() && phase == Some("Bound"))
        .ok_or(ClaimError::Unbound(name.to_owned()))
}

fn claimed_path(
    name: &str,
    volume: &core::PersistentVolume,
    claim: &core::PersistentVolumeClaim,
) -> Result<ClaimedPath, ClaimError> {
    let spec = volume.spec.clone().unwrap_or_default();
    if spec.claim_ref.and_then(|reference| reference.uid) != claim.metadata.uid {
        return Err(ClaimError::Other(name.to_owned()));
    }
    match (spec.host_path, spec.local) {
        (Some(source), _) => Ok(ClaimedPath { path: source.path, kind: source.type_.unwrap_or_default() }),
        (None, Some(source)) => Ok(ClaimedPath { path: source.path, kind: "Directory".to_owned() }),
        (None, None) => Err(ClaimError::Unsupported(name.to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn what_a_claim_is_bound_to() {
        let check = |claim: Value, volume: Value, want: Result<(&str, &str), ClaimError>| {
            let claim: core::PersistentVolumeClaim = serde_json::from_value(claim).unwrap();
            let volume: core::PersistentVolume = serde_json::from_value(volume).unwrap();
            let got = volume_name("c", &claim).and_then(|name| claimed_path(&name, &volume, &claim));
            let want = want.map(|(path, kind)| ClaimedPath { path: path.into(), kind: kind.into() });
            assert_eq!(got, want, "{claim:?} {volume:?}");
        };
        let claim = |phase: &str| json!({"metadata": {"uid": "u"}, "spec": {"volumeName": "v"}, "status": {"phase": phase}});
        let volume = |uid: &str, source: Value| {
            let mut volume = json!({"spec": {"claimRef": {"uid": uid}}});
            volume["spec"].as_object_mut().unwrap().extend(source.as_object().unwrap().clone());
            volume
        };
        check(claim("Bound"), volume("u", json!({"hostPath": {"path": "/a"}})), Ok(("/a", "")));
        check(claim("Bound"), volume("u", json!({"local": {"path": "/b"}})), Ok(("/b", "Directory")));
        check(claim("Bound"), volume("u", json!({})), Err(ClaimError::Unsupported("v".into())));
        check(
            claim("Bound"),
            volume("other", json!({"local": {"path": "/b"}})),
            Err(ClaimError::Other("v".into())),
        );
        check(claim("Pending"), json!({}), Err(ClaimError::Unbound("c".into())));
    }
}
