//! What others need comes first, and what might refuse others last.

use super::resource::Resource;

const FIRST: [&str; 22] = [
    "Namespace",
    "ResourceQuota",
    "StorageClass",
    "CustomResourceDefinition",
    "ServiceAccount",
    "PodSecurityPolicy",
    "Role",
    "ClusterRole",
    "RoleBinding",
    "ClusterRoleBinding",
    "ConfigMap",
    "Secret",
    "Endpoints",
    "Service",
    "LimitRange",
    "PriorityClass",
    "PersistentVolume",
    "PersistentVolumeClaim",
    "Deployment",
    "StatefulSet",
    "CronJob",
    "PodDisruptionBudget",
];
const LAST: [&str; 2] = ["MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"];

pub fn sort(resources: &mut [Resource]) {
    resources.sort_by(|a, b| key(a).cmp(&key(b)));
}

fn key(resource: &Resource) -> impl Ord + '_ {
    let kind = resource.kind();
    let place = |kinds: &[&str]| kinds.iter().position(|one| *one == kind);
    let rank = match (place(&FIRST), place(&LAST)) {
        (Some(place), _) => place,
        (_, Some(place)) => FIRST.len() + 1 + place,
        _ => FIRST.len(),
    };
    (
        rank,
        resource.group().to_owned(),
        resource.version().to_owned(),
        kind.to_owned(),
        resource.namespace().to_owned(),
        resource.name().to_owned(),
    )
}
