//! Pods as templates: what a pod was made from, without what the cluster has added to it. Pure.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Container, Pod, PodSpec, PodTemplateSpec, Volume};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use minik8s_meta::mesh::{SIDECAR, is_sidecar_image};
use sha2::{Digest, Sha256};

use super::plan::REVISION;

/// What the service account's token is mounted as.
const TOKEN: &str = "kube-api-access-";

/// What a pod like this one is made from.
pub fn of(pod: &Pod) -> PodTemplateSpec {
    let mut labels = pod.metadata.labels.clone().unwrap_or_default();
    labels.remove(REVISION);
    let metadata = ObjectMeta { labels: Some(labels), ..ObjectMeta::default() };
    PodTemplateSpec { metadata: Some(metadata), spec: pod.spec.as_ref().map(plain) }
}

/// The template with other images, or the name of a container that is not there.
pub fn with_images(
    template: &PodTemplateSpec,
    images: &BTreeMap<String, String>,
) -> Result<PodTemplateSpec, String> {
    let mut template = template.clone();
    for (name, image) in images {
        let spec = template.spec.as_mut();
        let mut all = spec
            .into_iter()
            .flat_map(|spec| spec.containers.iter_mut().chain(spec.init_containers.iter_mut().flatten()));
        let container = all.find(|container| container.name == *name).ok_or_else(|| name.clone())?;
        container.image = Some(image.clone());
    }
    Ok(template)
}

/// The same for the same template.
pub fn revision(template: &PodTemplateSpec) -> String {
    let text = serde_json::to_string(&template.spec).unwrap_or_default();
    Sha256::digest(text).iter().take(4).map(|byte| format!("{byte:02x}")).collect()
}

fn plain(spec: &PodSpec) -> PodSpec {
    let mut spec = PodSpec { node_name: None, priority: None, preemption_policy: None, ..spec.clone() };
    let is_proxy = |one: &Container| one.name == SIDECAR && is_sidecar_image(one.image.as_deref());
    if let Some(init) = &mut spec.init_containers {
        init.retain(|container| !is_proxy(container));
    }
    spec.init_containers = spec.init_containers.filter(|all| !all.is_empty());
    let is_token = |name: &str| name.starts_with(TOKEN);
    if let Some(volumes) = &mut spec.volumes {
        volumes.retain(|volume: &Volume| !(is_token(&volume.name) && volume.projected.is_some()));
    }
    spec.volumes = spec.volumes.filter(|all| !all.is_empty());
    for container in spec.containers.iter_mut().chain(spec.init_containers.iter_mut().flatten()) {
        if let Some(mounts) = &mut container.volume_mounts {
            mounts.retain(|mount| !is_token(&mount.name));
        }
        container.volume_mounts = container.volume_mounts.take().filter(|all| !all.is_empty());
    }
    spec
}

#[cfg(test)]
mod tests {
    use minik8s_meta::mesh::SIDECAR_IMAGE;
    use serde_json::json;

    use super::*;

    #[test]
    fn template_has_nothing_that_the_cluster_added() {
        let pod = json!({"metadata": {"name": "a", "labels": {"app": "web", REVISION: "x"}}, "spec": {
            "nodeName": "n1", "priority": 0, "preemptionPolicy": "PreemptLowerPriority",
            "initContainers": [{"name": SIDECAR, "image": SIDECAR_IMAGE}],
            "containers": [{"name": "main", "image": "web:1", "volumeMounts": [
                {"name": "data", "mountPath": "/data"}, {"name": "kube-api-access-x7", "mountPath": "/var/run"}]}],
            "volumes": [{"name": "data"}, {"name": "kube-api-access-x7", "projected": {}}]}});
        let found = of(&serde_json::from_value(pod).unwrap());
        let spec = json!({"containers": [{"name": "main", "image": "web:1",
            "volumeMounts": [{"name": "data", "mountPath": "/data"}]}], "volumes": [{"name": "data"}]});
        assert_eq!(json!(found), json!({"metadata": {"labels": {"app": "web"}}, "spec": spec}));
        let images = |name: &str| BTreeMap::from([(name.to_owned(), "web:2".to_owned())]);
        let new = with_images(&found, &images("main")).unwrap();
        assert_eq!(json!(new.spec)["containers"][0]["image"], "web:2");
        assert_ne!(revision(&new), revision(&found));
        assert_eq!(with_images(&found, &images("other")), Err("other".to_owned()));
    }
}
