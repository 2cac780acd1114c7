//! Why a claim has no volume, each volume with its reason; for one that has one, where it is. Pure.

use std::fmt::Write;

use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim};
use k8s_openapi::api::storage::v1::StorageClass;
use minik8s_runtime::key_of;

use crate::annotation::{SELECTED_NODE, annotation};
use crate::fit::{Wanted, capacity, requested};
use crate::local;

/// Volumes beyond this many are only counted.
const MOST_VOLUMES: usize = 30;

/// `told` is what events have said last of the claim.
pub fn explain(
    claim: &PersistentVolumeClaim,
    class: Option<&StorageClass>,
    volumes: &[PersistentVolume],
    told: &[String],
) -> String {
    let phase = claim.status.as_ref().and_then(|status| status.phase.as_deref()).unwrap_or("Pending");
    let mut text = format!("Claim {} ({}) is {phase}", key_of(claim), requested(claim));
    let name = claim.spec.as_ref().and_then(|spec| spec.volume_name.as_deref()).unwrap_or("");
    if phase == "Bound" {
        let volume = volumes.iter().find(|volume| volume.metadata.name.as_deref() == Some(name));
        let place =
            volume.and_then(local::node_of).map(|node| format!(" on node {node}")).unwrap_or_default();
        let size = volume.map(|volume| format!(" ({})", capacity(volume))).unwrap_or_default();
        let _ = writeln!(text, ": it has the volume {name}{size}{place}.");
        return text;
    }
    text.push_str(".\n");
    let wanted = claim.spec.as_ref().and_then(|spec| spec.storage_class_name.as_deref()).unwrap_or("");
    let _ = match (wanted, class) {
        ("", _) => writeln!(text, "  class: none; only volumes without a class do"),
        (name, None) => writeln!(
            text,
            "  class: {name:?} not found; `kubectl get storageclass` lists those that there are"
        ),
        (name, Some(class)) => {
            let mode = class.volume_binding_mode.as_deref().unwrap_or("Immediate");
            writeln!(text, "  class: {name}, made by {}, {mode}", class.provisioner)
        }
    };
    if let Some(node) = annotation(&claim.metadata, SELECTED_NODE) {
        let _ = writeln!(text, "  the scheduler chose node {node}");
    }
    for line in told {
        let _ = writeln!(text, "  {line}");
    }
    list(claim, volumes, &mut text);
    text
}

fn list(claim: &PersistentVolumeClaim, volumes: &[PersistentVolume], text: &mut String) {
    if volumes.is_empty() {
        text.push_str("  volumes: there are none\n");
        return;
    }
    text.push_str("  volumes:\n");
    let wanted = Wanted::new(claim, None);
    for volume in volumes.iter().take(MOST_VOLUMES) {
        let why = wanted.misfit(volume).map_or_else(|| "it does".to_owned(), |misfit| misfit.to_string());
        let _ = writeln!(text, "    {} ({}): {why}", key_of(volume), capacity(volume));
    }
    if volumes.len() > MOST_VOLUMES {
        let _ = writeln!(text, "    and {} more", volumes.len() - MOST_VOLUMES);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn claim_is_told_what_is_wrong_with_each_volume() {
        let volume = |name: &str, size: &str, class: &str| -> PersistentVolume {
            serde_json::from_value(json!({"metadata": {"name": name}, "spec": {"capacity": {"storage": size},
                "accessModes": ["ReadWriteOnce"], "storageClassName": class}}))
            .unwrap()
        };
        let claim: PersistentVolumeClaim = serde_json::from_value(json!({"metadata": {"name": "c", "namespace": "ns"},
            "spec": {"accessModes": ["ReadWriteOnce"], "storageClassName": "x", "resources": {"requests": {"storage": "2Gi"}}}}))
        .unwrap();
        let volumes = [volume("a", "1Gi", "x"), volume("b", "4Gi", "y")];
        let expected = "\
Claim ns/c (2Gi) is Pending.
  class: \"x\" not found; `kubectl get storageclass` lists those that there are
  said before
  volumes:
    a (1Gi): it has 1Gi only
    b (4Gi): its class is \"y\", the claim's is \"x\"
";
        assert_eq!(explain(&claim, None, &volumes, &["said before".to_owned()]), expected);
    }
}
