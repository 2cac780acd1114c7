//! What a driver is told of a volume and its pod. Pure.

use k8s_openapi::api::core::v1 as core;
use k8s_openapi::api::storage::v1::CSIDriver;
use minik8s_csi::{Mode, Mount, Pairs, VolumeCapability, node};

use crate::pod::DesiredPod;

/// A persistent volume as a driver's calls describe it.
pub fn capability(
    volume: &core::PersistentVolume,
    can: &node::Capabilities,
    mount_group: Option<u32>,
) -> VolumeCapability {
    let spec = volume.spec.clone().unwrap_or_default();
    let fs_type = spec.csi.and_then(|csi| csi.fs_type).unwrap_or_default();
    let group = mount_group.filter(|_| can.has(node::Can::VolumeMountGroup));
    let mount = Mount {
        fs_type,
        mount_flags: spec.mount_options.unwrap_or_default(),
        volume_mount_group: group.map(|group| group.to_string()).unwrap_or_default(),
    };
    let modes = spec.access_modes.unwrap_or_default();
    let mode = Mode::of(&modes, can.has(node::Can::SingleNodeMultiWriter));
    VolumeCapability::new(spec.volume_mode.as_deref() == Some("Block"), mount, mode)
}

/// What drivers with `podInfoOnMount` are told.
pub fn pod_info(desired_pod: &DesiredPod, is_inline: bool) -> Pairs {
    let account = desired_pod.spec().and_then(|spec| spec.service_account_name.clone()).unwrap_or_default();
    let uid = desired_pod.pod.metadata.uid.clone().unwrap_or_default();
    let pairs = [
        ("pod.name", desired_pod.name.clone()),
        ("pod.namespace", desired_pod.namespace.clone()),
        ("pod.uid", uid),
        ("serviceAccount.name", account),
        ("ephemeral", is_inline.to_string()),
    ];
    pairs.into_iter().map(|(key, value)| (format!("csi.storage.k8s.io/{key}"), value)).collect()
}

pub fn wants_pod_info(driver: Option<&CSIDriver>) -> bool {
    driver.is_some_and(|driver| driver.spec.pod_info_on_mount == Some(true))
}

/// Without a CSIDriver a volume is attached and persistent, as Kubernetes has it.
pub fn must_be_attached(driver: Option<&CSIDriver>) -> bool {
    driver.is_none_or(|driver| driver.spec.attach_required != Some(false))
}

pub fn offers(driver: Option<&CSIDriver>, mode: &str) -> bool {
    match driver.and_then(|driver| driver.spec.volume_lifecycle_modes.as_ref()).filter(|all| !all.is_empty())
    {
        Some(modes) => modes.iter().any(|one| one == mode),
        None => mode == "Persistent",
    }
}

/// Whether the agent gives the files of a volume to the pod's group, by the driver's `fsGroupPolicy`.
pub fn takes_group(
    driver: Option<&CSIDriver>,
    can: &node::Capabilities,
    fs_type: Option<&str>,
    modes: &[String],
) -> bool {
    // The driver does it.
    if can.has(node::Can::VolumeMountGroup) {
        return false;
    }
    match driver.and_then(|driver| driver.spec.fs_group_policy.as_deref()) {
        Some("None") => false,
        Some("File") => true,
        _ => {
            let is_own = modes.iter().any(|mode| mode == "ReadWriteOnce" || mode == "ReadWriteOncePod");
            fs_type.is_some_and(|fs_type| !fs_type.is_empty()) && is_own
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn driver(spec: Value) -> CSIDriver {
        serde_json::from_value(json!({"metadata": {"name": "d"}, "spec": spec})).unwrap()
    }

    #[test]
    fn group_owns_files_as_the_policy_says() {
        let check = |policy: Option<&str>, can: &[node::Can], fs_type: &str, mode: &str, expected: bool| {
            let driver = driver(json!({"fsGroupPolicy": policy}));
            let can = node::Capabilities::of(can);
            let found = takes_group(Some(&driver), &can, Some(fs_type), &[mode.to_owned()]);
            assert_eq!(found, expected, "{policy:?} {fs_type} {mode}");
        };
        check(None, &[], "ext4", "ReadWriteOnce", true);
        check(None, &[], "", "ReadWriteOnce", false);
        check(None, &[], "ext4", "ReadWriteMany", false);
        check(Some("File"), &[], "", "ReadWriteMany", true);
        check(Some("None"), &[], "ext4", "ReadWriteOnce", false);
        check(Some("File"), &[node::Can::VolumeMountGroup], "ext4", "ReadWriteOnce", false);
    }

    #[test]
    fn driver_says_how_its_volumes_live() {
        let both = driver(json!({"volumeLifecycleModes": ["Persistent", "Ephemeral"]}));
        let plain = driver(json!({"attachRequired": false}));
        assert!(offers(Some(&both), "Ephemeral") && offers(Some(&both), "Persistent"));
        assert!(!offers(Some(&plain), "Ephemeral") && offers(None, "Persistent"));
        assert!(must_be_attached(None) && must_be_attached(Some(&both)) && !must_be_attached(Some(&plain)));
    }
}
