//! Volumes of the cluster only: no directory of the node, no storage that the pod itself names and signs in to.

use serde_json::Value;

use super::host_path_volumes;
use crate::check::{Check, Revision, Violation};
use crate::level::Level;
use crate::pod::Pod;
use crate::wording::{Sorted, plural, quoted};

pub const CHECK: Check = Check {
    id: "restrictedVolumes",
    level: Level::Restricted,
    revisions: &[Revision { since: 0, find: since_1_0, overrides: &[host_path_volumes::ID] }],
};

const ALLOWED: [&str; 9] = [
    "configMap",
    "csi",
    "downwardAPI",
    "emptyDir",
    "ephemeral",
    "image",
    "persistentVolumeClaim",
    "projected",
    "secret",
];

const KNOWN: [&str; 21] = [
    "hostPath",
    "gcePersistentDisk",
    "awsElasticBlockStore",
    "gitRepo",
    "nfs",
    "iscsi",
    "glusterfs",
    "rbd",
    "flexVolume",
    "cinder",
    "cephfs",
    "flocker",
    "fc",
    "azureFile",
    "vsphereVolume",
    "quobyte",
    "azureDisk",
    "photonPersistentDisk",
    "portworxVolume",
    "scaleIO",
    "storageos",
];

fn since_1_0(pod: &Pod<'_>) -> Option<Violation> {
    let (mut names, mut types) = (Vec::new(), Sorted::new());
    for volume in pod.volumes().filter(|volume| !ALLOWED.iter().any(|ty| is_of(volume, ty))) {
        names.push(volume["name"].as_str().unwrap_or_default());
        types.insert(KNOWN.into_iter().find(|ty| is_of(volume, ty)).unwrap_or("unknown"));
    }
    (!names.is_empty()).then(|| Violation {
        reason: "restricted volume types",
        detail: format!(
            "{} {} {} {} {}",
            plural("volume", "volumes", names.len()),
            quoted(&names),
            plural("uses", "use", names.len()),
            plural("restricted volume type", "restricted volume types", types.len()),
            quoted(types)
        ),
    })
}

fn is_of(volume: &Value, ty: &str) -> bool {
    !volume[ty].is_null()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::check::testing::{expect, verdict};

    fn volume(name: &str, ty: &str) -> Value {
        json!({"name": name, ty: {}})
    }

    #[test]
    fn restricted_volumes_are_those_of_the_cluster() {
        for ty in ALLOWED {
            let pod = json!({"spec": {"volumes": [volume("v", ty)]}});
            assert_eq!(verdict(&CHECK, 0, &pod), "", "{ty}");
        }
        for ty in KNOWN {
            let pod = json!({"spec": {"volumes": [volume("v", ty)]}});
            let expected =
                format!("restricted volume types (volume \"v\" uses restricted volume type \"{ty}\")");
            assert_eq!(verdict(&CHECK, 0, &pod), expected);
        }
    }

    #[test]
    fn restricted_volumes_are_listed_together() {
        let volumes =
            [volume("a", "nfs"), volume("b", "secret"), volume("c", "hostPath"), volume("d", "new")];
        expect(
            &CHECK,
            0,
            &[
                (json!({"spec": {}}), ""),
                (
                    json!({"spec": {"volumes": volumes}}),
                    "restricted volume types (volumes \"a\", \"c\", \"d\" use restricted volume types \
                     \"hostPath\", \"nfs\", \"unknown\")",
                ),
            ],
        );
    }
}
