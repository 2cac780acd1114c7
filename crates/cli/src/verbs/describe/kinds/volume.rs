//! Volumes of pods, and the sources of persistent ones.

use serde_json::Value;

use super::super::page::{Page, amount, items, shown};

pub fn list(volumes: &[Value], level: usize, page: &mut Page) {
    if volumes.is_empty() {
        return page.field(level, "Volumes", "<none>");
    }
    page.line(level, "Volumes:");
    let space = if level == 0 { "  " } else { "   " };
    for volume in volumes {
        page.line(0, format!("{space}{}:", shown(&volume["name"])));
        source(volume, page);
    }
}

/// What a volume is made of.
pub fn source(volume: &Value, page: &mut Page) {
    let Some((kind, about)) = volume
        .as_object()
        .into_iter()
        .flatten()
        .find(|(key, value)| key.as_str() != "name" && value.is_object())
    else {
        return page.line(2, "<unknown>");
    };
    match kind.as_str() {
        "hostPath" => {
            page.field(2, "Type", "HostPath (bare host directory volume)");
            page.field(2, "Path", shown(&about["path"]));
            page.field(2, "HostPathType", shown(&about["type"]));
        }
        "emptyDir" => {
            page.field(2, "Type", "EmptyDir (a temporary directory that shares a pod's lifetime)");
            page.field(2, "Medium", shown(&about["medium"]));
            let limit = Some(amount(&about["sizeLimit"])).filter(|limit| !limit.is_empty() && limit != "0");
            page.field(2, "SizeLimit", limit.unwrap_or_else(|| "<unset>".to_owned()));
        }
        "configMap" => {
            page.field(2, "Type", "ConfigMap (a volume populated by a ConfigMap)");
            page.field(2, "Name", shown(&about["name"]));
            page.field(2, "Optional", about["optional"] == true);
        }
        "secret" => {
            page.field(2, "Type", "Secret (a volume populated by a Secret)");
            page.field(2, "SecretName", shown(&about["secretName"]));
            page.field(2, "Optional", about["optional"] == true);
        }
        "persistentVolumeClaim" => {
            page.field(
                2,
                "Type",
                "PersistentVolumeClaim (a reference to a PersistentVolumeClaim in the same namespace)",
            );
            page.field(2, "ClaimName", shown(&about["claimName"]));
            page.field(2, "ReadOnly", about["readOnly"] == true);
        }
        "downwardAPI" => downward(about, page),
        "projected" => projected(about, page),
        "local" => {
            page.field(2, "Type", "LocalVolume (a persistent volume backed by local storage on a node)");
            page.field(2, "Path", shown(&about["path"]));
        }
        "nfs" => {
            page.field(2, "Type", "NFS (an NFS mount that lasts the lifetime of a pod)");
            page.field(2, "Server", shown(&about["server"]));
            page.field(2, "Path", shown(&about["path"]));
            page.field(2, "ReadOnly", about["readOnly"] == true);
        }
        "csi" => {
            page.field(2, "Type", "CSI (a Container Storage Interface (CSI) volume source)");
            page.field(2, "Driver", shown(&about["driver"]));
            page.maybe(2, "VolumeHandle", &about["volumeHandle"]);
            page.field(2, "ReadOnly", about["readOnly"] == true);
            page.map(2, "VolumeAttributes", &about["volumeAttributes"], "=");
        }
        other => {
            page.field(2, "Type", other);
            for (field, value) in about.as_object().into_iter().flatten() {
                page.field(2, field, shown(value));
            }
        }
    }
}

fn downward(about: &Value, page: &mut Page) {
    page.field(2, "Type", "DownwardAPI (a volume populated by information about the pod)");
    page.line(2, "Items:");
    for item in items(&about["items"]) {
        let from = match item["fieldRef"]["fieldPath"].as_str() {
            Some(path) => path.to_owned(),
            None => shown(&item["resourceFieldRef"]["resource"]),
        };
        page.line(3, format!("{from} -> {}", shown(&item["path"])));
    }
}

fn projected(about: &Value, page: &mut Page) {
    page.field(2, "Type", "Projected (a volume that contains injected data from multiple sources)");
    for source in items(&about["sources"]) {
        if source["secret"].is_object() {
            page.field(2, "SecretName", shown(&source["secret"]["name"]));
            page.field(2, "Optional", source["secret"]["optional"] == true);
        } else if source["downwardAPI"].is_object() {
            page.field(2, "DownwardAPI", "true");
        } else if source["configMap"].is_object() {
            page.field(2, "ConfigMapName", shown(&source["configMap"]["name"]));
            page.field(2, "Optional", source["configMap"]["optional"] == true);
        } else if source["serviceAccountToken"].is_object() {
            page.field(
                2,
                "TokenExpirationSeconds",
                shown(&source["serviceAccountToken"]["expirationSeconds"]),
            );
        }
    }
}
