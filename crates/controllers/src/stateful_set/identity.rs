//! What makes the pod of an ordinal that pod: its name, host name, labels and claims.

use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::{PersistentVolumeClaimVolumeSource, Pod, PodTemplateSpec, Volume};

use super::claims;
use crate::history::REVISION_LABEL;
use crate::template::named_pod_for;

const POD_NAME: &str = "statefulset.kubernetes.io/pod-name";
const POD_INDEX: &str = "apps.kubernetes.io/pod-index";

/// The ordinal in a pod's name, if it is a name of this set's.
pub(super) fn ordinal(set: &StatefulSet, pod: &Pod) -> Option<i32> {
    let prefix = set.metadata.name.as_deref()?;
    let digits = pod.metadata.name.as_deref()?.strip_prefix(prefix)?.strip_prefix('-')?;
    // `web-01` is nobody's second pod.
    digits.parse().ok().filter(|n: &i32| n.to_string() == digits)
}

pub(super) fn pod_name(set: &StatefulSet, ordinal: i32) -> String {
    format!("{}-{ordinal}", set.metadata.name.as_deref().unwrap_or(""))
}

/// The pod of an ordinal in the form of a revision.
pub(super) fn pod(set: &StatefulSet, template: &PodTemplateSpec, revision: &str, ordinal: i32) -> Pod {
    let name = pod_name(set, ordinal);
    let mut pod = named_pod_for(set, template, name.clone());
    let labels = pod.metadata.labels.get_or_insert_default();
    labels.insert(POD_NAME.to_owned(), name.clone());
    labels.insert(POD_INDEX.to_owned(), ordinal.to_string());
    labels.insert(REVISION_LABEL.to_owned(), revision.to_owned());
    let spec = pod.spec.get_or_insert_default();
    spec.hostname = Some(name);
    spec.subdomain = set.spec.service_name.clone().filter(|name| !name.is_empty());
    let volumes = spec.volumes.get_or_insert_default();
    for template in set.spec.volume_claim_templates.iter().flatten() {
        let volume = template.metadata.name.clone().unwrap_or_default();
        volumes.retain(|known| known.name != volume);
        volumes.push(Volume {
            persistent_volume_claim: Some(PersistentVolumeClaimVolumeSource {
                claim_name: claims::name(set, &volume, ordinal),
                ..PersistentVolumeClaimVolumeSource::default()
            }),
            name: volume,
            ..Volume::default()
        });
    }
    if volumes.is_empty() {
        spec.volumes = None;
    }
    pod
}

pub(super) fn revision_of(pod: &Pod) -> Option<&str> {
    pod.metadata.labels.as_ref()?.get(REVISION_LABEL).map(String::as_str)
}
