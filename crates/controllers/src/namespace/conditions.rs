//! What users see while a namespace goes, in upstream's words.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::NamespaceCondition;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use k8s_openapi::jiff::Timestamp;
use minik8s_runtime::Kind;

pub(super) fn set_all(
    conditions: &mut Vec<NamespaceCondition>,
    contents: &[(Kind, Vec<ObjectMeta>)],
    now: Timestamp,
) {
    let fine = [
        ("NamespaceDeletionDiscoveryFailure", "ResourcesDiscovered", "All resources successfully discovered"),
        (
            "NamespaceDeletionGroupVersionParsingFailure",
            "ParsedGroupVersions",
            "All legacy kube types successfully parsed",
        ),
        (
            "NamespaceDeletionContentFailure",
            "ContentDeleted",
            "All content successfully deleted, may be waiting on finalization",
        ),
    ];
    for (kind, reason, message) in fine {
        set(conditions, kind, "False", reason, message.to_owned(), now);
    }
    match remaining(contents) {
        Some(message) => {
            set(conditions, "NamespaceContentRemaining", "True", "SomeResourcesRemain", message, now);
        }
        None => {
            let message = "All content successfully removed".to_owned();
            set(conditions, "NamespaceContentRemaining", "False", "ContentRemoved", message, now);
        }
    }
    match finalizers(contents) {
        Some(message) => {
            set(conditions, "NamespaceFinalizersRemaining", "True", "SomeFinalizersRemain", message, now);
        }
        None => {
            let message = "All content-preserving finalizers finished".to_owned();
            set(conditions, "NamespaceFinalizersRemaining", "False", "ContentHasNoFinalizers", message, now);
        }
    }
}

fn remaining(contents: &[(Kind, Vec<ObjectMeta>)]) -> Option<String> {
    let mut parts: Vec<String> = contents
        .iter()
        .map(|(kind, objects)| {
            let group = if kind.group.is_empty() { String::new() } else { kind.group.to_string() };
            format!("{}.{group} has {} resource instances", kind.plural, objects.len())
        })
        .collect();
    parts.sort();
    (!parts.is_empty()).then(|| format!("Some resources are remaining: {}", parts.join(", ")))
}

fn finalizers(contents: &[(Kind, Vec<ObjectMeta>)]) -> Option<String> {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    let objects = contents.iter().flat_map(|(_, objects)| objects);
    for finalizer in objects.flat_map(|meta| meta.finalizers.iter().flatten()) {
        *counts.entry(finalizer).or_default() += 1;
    }
    let parts: Vec<String> =
        counts.iter().map(|(name, n)| format!("{name} in {n} resource instances")).collect();
    let text = "Some content in the namespace has finalizers remaining";
    (!parts.is_empty()).then(|| format!("{text}: {}", parts.join(", ")))
}

fn set(
    conditions: &mut Vec<NamespaceCondition>,
    kind: &str,
    is: &str,
    reason: &str,
    message: String,
    now: Timestamp,
) {
    let since = match conditions.iter().find(|c| c.type_ == kind) {
        Some(known) if known.status == is => known.last_transition_time.clone(),
        _ => Some(Time(now)),
    };
    let condition = NamespaceCondition {
        type_: kind.to_owned(),
        status: is.to_owned(),
        reason: Some(reason.to_owned()),
        message: Some(message),
        last_transition_time: since,
    };
    match conditions.iter_mut().find(|c| c.type_ == kind) {
        Some(known) => *known = condition,
        None => conditions.push(condition),
    }
}
