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

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    fn claim() -> PersistentVolumeClaim {
        serde_json::from_value(json!({"metadata": {"name": "docs", "namespace": "ns", "uid": "u1"}, "spec": {
            "accessModes": ["ReadWriteMany"], "storageClassName": "office",
            "resources": {"requests": {"storage": "2Gi"}}}}))
        .unwrap()
    }

    fn class(parameters: Value) -> StorageClass {
        serde_json::from_value(json!({"metadata": {"name": "office"}, "provisioner": PROVISIONER,
            "reclaimPolicy": "Delete", "mountOptions": ["hard"], "parameters": parameters}))
        .unwrap()
    }

    #[test]
    fn volume_is_a_directory_of_the_claims_own() {
        let check = |share: &str, expected: &str| {
            let class = class(json!({"server": "files.example", "path": share}));
            let made = serde_json::to_value(volume(&claim(), &class).unwrap()).unwrap();
            assert_eq!(made["spec"]["nfs"], json!({"server": "files.example", "path": expected}), "{share}");
        };
        check("/export", "/export/ns-docs-u1");
        check("/export/volumes/", "/export/volumes/ns-docs-u1");
        check("/", "/ns-docs-u1");
        // No way out: only `..` alone is one.
        check("/export/..hidden", "/export/..hidden/ns-docs-u1");
    }

    #[test]
    fn volume_is_kept_whatever_the_class_says() {
        let class = class(json!({"server": "files.example", "path": "/export"}));
        let made = serde_json::to_value(volume(&claim(), &class).unwrap()).unwrap();
        let spec = &made["spec"];
        assert_eq!(spec["persistentVolumeReclaimPolicy"], "Retain");
        assert_eq!(made["metadata"]["name"], "pvc-u1");
        assert_eq!(made["metadata"]["annotations"][PROVISIONED_BY], PROVISIONER);
        assert_eq!(made["metadata"]["finalizers"], json!([VOLUME_PROTECTION]));
        assert_eq!(
            (&spec["storageClassName"], &spec["capacity"]["storage"]),
            (&json!("office"), &json!("2Gi"))
        );
        assert_eq!(
            (&spec["accessModes"], &spec["mountOptions"]),
            (&json!(["ReadWriteMany"]), &json!(["hard"]))
        );
        assert_eq!((&spec["claimRef"]["name"], &spec["claimRef"]["uid"]), (&json!("docs"), &json!("u1")));
    }

    #[test]
    fn class_that_names_no_directory_makes_no_volume() {
        let check = |parameters: Value, expected: &'static str, why: &'static str| {
            let error = volume(&claim(), &class(parameters.clone())).unwrap_err();
            assert_eq!(error, Unmade::Parameter { name: expected, why }, "{parameters}");
        };
        let absolute = "must be an absolute path without ..";
        check(Value::Null, "server", "is missing");
        check(json!({"path": "/export"}), "server", "is missing");
        check(json!({"server": "", "path": "/export"}), "server", "is missing");
        check(json!({"server": "files.example"}), "path", "is missing");
        check(json!({"server": "files.example", "path": ""}), "path", "is missing");
        for path in ["export", "../export", "/export/..", "/../etc", "/a/../b"] {
            check(json!({"server": "files.example", "path": path}), "path", absolute);
        }
    }
}
