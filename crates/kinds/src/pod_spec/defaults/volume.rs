//! Defaults of volumes and of the claims that templates make.

use serde_json::{Value, json};

use super::container::pull_policy;
use super::quantities::{canonical, canonical_resources};
use crate::fill;

/// 0644.
const FILE_MODE: i64 = 420;

pub(super) fn fill_in(volume: &mut Value) {
    let Some(fields) = volume.as_object_mut() else { return };
    if !fields.iter().any(|(name, value)| name != "name" && !value.is_null()) {
        fields.insert("emptyDir".to_owned(), json!({}));
    }
    for (name, source) in fields.iter_mut().filter(|(_, source)| source.is_object()) {
        fill_in_source(name, source);
    }
}

fn fill_in_source(name: &str, source: &mut Value) {
    match name {
        "emptyDir" => canonical(source, "sizeLimit"),
        "secret" | "configMap" => fill::field(source, "defaultMode", FILE_MODE),
        "downwardAPI" => {
            fill::field(source, "defaultMode", FILE_MODE);
            downward_items(source);
        }
        "projected" => projected(source),
        "hostPath" => fill::field(source, "type", ""),
        "ephemeral" => {
            if let Some(spec) = source.pointer_mut("/volumeClaimTemplate/spec") {
                claim_spec(spec);
            }
        }
        "image" => {
            let policy = pull_policy(source["reference"].as_str().unwrap_or_default());
            fill::field(source, "pullPolicy", policy);
        }
        "iscsi" => fill::field(source, "iscsiInterface", "default"),
        "rbd" => {
            fill::field(source, "pool", "rbd");
            fill::field(source, "user", "admin");
            fill::field(source, "keyring", "/etc/ceph/keyring");
        }
        "azureDisk" => {
            fill::field(source, "cachingMode", "ReadWrite");
            fill::field(source, "kind", "Shared");
            fill::field(source, "fsType", "ext4");
            fill::field(source, "readOnly", false);
        }
        "scaleIO" => {
            fill::field(source, "storageMode", "ThinProvisioned");
            fill::field(source, "fsType", "xfs");
        }
        _ => {}
    }
}

fn projected(source: &mut Value) {
    fill::field(source, "defaultMode", FILE_MODE);
    for part in fill::items(source, "sources") {
        if let Some(token) = part.get_mut("serviceAccountToken").filter(|token| token.is_object()) {
            fill::field(token, "expirationSeconds", 3600);
        }
        if let Some(downward) = part.get_mut("downwardAPI") {
            downward_items(downward);
        }
    }
}

fn downward_items(source: &mut Value) {
    for item in fill::items(source, "items") {
        if let Some(field) = item.get_mut("fieldRef") {
            fill::field(field, "apiVersion", "v1");
        }
        if let Some(resource) = item.get_mut("resourceFieldRef") {
            fill::field(resource, "divisor", "0");
            canonical(resource, "divisor");
        }
    }
}

/// A claim as a StatefulSet's template holds it.
pub(crate) fn claim_template(claim: &mut Value) {
    if !claim.is_object() {
        return;
    }
    fill::field(claim, "apiVersion", "v1");
    fill::field(claim, "kind", "PersistentVolumeClaim");
    if let Some(spec) = claim.get_mut("spec") {
        claim_spec(spec);
    }
    if let Some(status) = fill::object(claim, "status") {
        fill::field(status, "phase", "Pending");
    }
}

fn claim_spec(spec: &mut Value) {
    fill::field(spec, "volumeMode", "Filesystem");
    canonical_resources(spec);
}
