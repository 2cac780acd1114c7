//! Which ReplicaSet is the current one, and the annotations that make history.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet, ReplicaSetSpec};
use k8s_openapi::api::core::v1::PodTemplateSpec;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, ObjectMeta};
use minik8s_runtime::owner_reference;

use super::limits::{max_surge, replicas};
use crate::hash::short_hash;

pub const HASH_LABEL: &str = "pod-template-hash";
pub const REVISION: &str = "deployment.kubernetes.io/revision";
const REVISION_HISTORY: &str = "deployment.kubernetes.io/revision-history";
pub const DESIRED: &str = "deployment.kubernetes.io/desired-replicas";
pub const MAX: &str = "deployment.kubernetes.io/max-replicas";

/// Annotations of a Deployment that are not handed down.
const KEPT_BACK: [&str; 6] = [
    "kubectl.kubernetes.io/last-applied-configuration",
    REVISION,
    REVISION_HISTORY,
    DESIRED,
    MAX,
    "deprecated.deployment.rollback.to",
];

pub(super) fn template(deployment: &Deployment) -> PodTemplateSpec {
    deployment.spec.template.clone()
}

/// The name the ReplicaSet of the current template would get.
pub(super) fn set_name(deployment: &Deployment) -> String {
    let name = deployment.metadata.name.as_deref().unwrap_or("");
    format!("{name}-{}", template_hash(deployment))
}

fn template_hash(deployment: &Deployment) -> String {
    let collisions = deployment.status.as_ref().and_then(|status| status.collision_count).unwrap_or(0);
    short_hash(&template(deployment), collisions)
}

/// Whether a ReplicaSet is of the Deployment's current template.
pub(super) fn is_current(deployment: &Deployment, set: &ReplicaSet) -> bool {
    let mut theirs = set.spec.template.clone().unwrap_or_default();
    drop_hash(&mut theirs);
    let mut ours = template(deployment);
    drop_hash(&mut ours);
    theirs == ours
}

fn drop_hash(template: &mut PodTemplateSpec) {
    let Some(meta) = &mut template.metadata else { return };
    if let Some(labels) = &mut meta.labels {
        labels.remove(HASH_LABEL);
        if labels.is_empty() {
            meta.labels = None;
        }
    }
}

/// The current ReplicaSet (the oldest, if several match) and the others, oldest first.
pub(super) fn split(
    deployment: &Deployment,
    mut sets: Vec<Arc<ReplicaSet>>,
) -> (Option<Arc<ReplicaSet>>, Vec<Arc<ReplicaSet>>) {
    sets.sort_by_key(|set| {
        (set.metadata.creation_timestamp.as_ref().map(|t| t.0), set.metadata.name.clone())
    });
    let current = sets.iter().position(|set| is_current(deployment, set)).map(|i| sets.remove(i));
    (current, sets)
}

pub(super) fn revision(annotations: Option<&BTreeMap<String, String>>) -> i64 {
    annotations.and_then(|a| a.get(REVISION)).and_then(|r| r.parse().ok()).unwrap_or(0)
}

/// One more than any of the old ones.
pub(super) fn next_revision(old: &[Arc<ReplicaSet>]) -> i64 {
    let newest = old.iter().map(|set| revision(set.metadata.annotations.as_ref())).max().unwrap_or(0);
    newest.saturating_add(1)
}

/// The annotations that a ReplicaSet should have: the Deployment's, and its place in history.
pub(super) fn set_annotations(
    deployment: &Deployment,
    have: Option<&BTreeMap<String, String>>,
    next: i64,
) -> BTreeMap<String, String> {
    let mut annotations = have.cloned().unwrap_or_default();
    for (key, value) in deployment.metadata.annotations.iter().flatten() {
        if !KEPT_BACK.contains(&key.as_str()) {
            annotations.insert(key.clone(), value.clone());
        }
    }
    let known = revision(have);
    if known < next {
        if known > 0 {
            let history = annotations.entry(REVISION_HISTORY.to_owned()).or_default();
            *history = if history.is_empty() { known.to_string() } else { format!("{history},{known}") };
        }
        annotations.insert(REVISION.to_owned(), next.to_string());
    }
    annotations
}

/// The two annotations by which proportional scaling later knows what the set was scaled for.
pub(super) fn size_annotations(deployment: &Deployment) -> [(String, String); 2] {
    let wanted = replicas(deployment);
    let most = wanted.saturating_add(max_surge(deployment));
    [(DESIRED.to_owned(), wanted.to_string()), (MAX.to_owned(), most.to_string())]
}

/// A ReplicaSet for the current template.
pub(super) fn new_set(deployment: &Deployment, size: i32, revision: i64) -> ReplicaSet {
    let hash = template_hash(deployment);
    let mut template = template(deployment);
    let meta = template.metadata.get_or_insert_default();
    meta.labels.get_or_insert_default().insert(HASH_LABEL.to_owned(), hash.clone());
    let labels = meta.labels.clone();
    let spec = &deployment.spec;
    let mut selector: LabelSelector = spec.selector.clone();
    selector.match_labels.get_or_insert_default().insert(HASH_LABEL.to_owned(), hash);
    let mut annotations = set_annotations(deployment, None, revision);
    annotations.extend(size_annotations(deployment));
    ReplicaSet {
        metadata: ObjectMeta {
            name: Some(set_name(deployment)),
            namespace: deployment.metadata.namespace.clone(),
            labels,
            annotations: Some(annotations),
            owner_references: Some(vec![owner_reference(deployment)]),
            ..ObjectMeta::default()
        },
        spec: ReplicaSetSpec {
            replicas: Some(size),
            min_ready_seconds: spec.min_ready_seconds,
            selector,
            template: Some(template),
        },
        status: None,
    }
}
