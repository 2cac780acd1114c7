//! A class whose volumes are directories on an NFS server of the user's own: one for each claim. Pure.
//!
//! The directory is made by the agent that first mounts the volume, and never removed: what is on the user's server is
//! the user's, so its volumes are kept (`Retain`) whatever the class says.

use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim};
use k8s_openapi::api::storage::v1::StorageClass;
use minik8s_runtime::key_of;
use serde_json::json;

use crate::annotation::{PROVISIONED_BY, VOLUME_PROTECTION};
use crate::local::{Unmade, made_for};

pub const PROVISIONER: &str = "nfs.minik8s.io";

/// `NAMESPACE-CLAIM-UID` below the directory of the class.
pub fn volume(claim: &PersistentVolumeClaim, class: &StorageClass) -> Result<PersistentVolume, Unmade> {
    let parameter = |name: &'static str| {
        let given = class.parameters.as_ref().and_then(|parameters| parameters.get(name));
        given.filter(|text| !text.is_empty()).ok_or(Unmade::Parameter { name, why: "is missing" })
    };
    let (server, share) = (parameter("server")?, parameter("path")?);
    if !share.starts_with('/') || share.split('/').any(|part| part == "..") {
        return Err(Unmade::Parameter { name: "path", why: "must be an absolute path without .." });
    }
    let uid = claim.metadata.uid.as_deref().unwrap_or("");
    let key = key_of(claim);
    let path = format!("{}/{}-{}-{uid}", share.trim_end_matches('/'), key.namespace, key.name);
    let mut object = made_for(claim, class, &format!("pvc-{uid}"));
    object["metadata"]["annotations"] = json!({PROVISIONED_BY: PROVISIONER});
    object["metadata"]["finalizers"] = json!([VOLUME_PROTECTION]);
    object["spec"]["persistentVolumeReclaimPolicy"] = "Retain".into();
    object["spec"]["nfs"] = json!({"server": server, "path": path});
    Ok(serde_json::from_value(object).expect("a volume made of known fields"))
}
