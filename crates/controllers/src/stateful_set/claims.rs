//! The claims that go with the ordinals.

use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use minik8s_runtime::{Action, Object, Plan, Target};
use serde_json::json;

use super::{Observed, identity};

pub(super) fn name(set: &StatefulSet, volume: &str, ordinal: i32) -> String {
    format!("{volume}-{}", identity::pod_name(set, ordinal))
}

/// Whether a claim of this name would be one of the set's.
pub(super) fn belongs_to(set: &StatefulSet, claim: &str) -> bool {
    let Some(set_name) = set.metadata.name.as_deref() else { return false };
    set.spec.volume_claim_templates.iter().flatten().any(|template| {
        let rest = template.metadata.name.as_deref().and_then(|volume| claim.strip_prefix(volume));
        let digits = rest.and_then(|r| r.strip_prefix('-')?.strip_prefix(set_name)?.strip_prefix('-'));
        digits.is_some_and(|d| !d.is_empty() && d.bytes().all(|b| b.is_ascii_digit()))
    })
}

/// Creates the claims of an ordinal that are missing. False while one is on its way out: a new pod must not
/// start with it.
pub(super) fn ensure(seen: &Observed, ordinal: i32, plan: &mut Plan) -> bool {
    let set = &*seen.set;
    let mut all_stay = true;
    for template in set.spec.volume_claim_templates.iter().flatten() {
        let volume = template.metadata.name.as_deref().unwrap_or("");
        let name = name(set, volume, ordinal);
        if let Some(known) = seen.claims.get(&name) {
            all_stay &= known.metadata.deletion_timestamp.is_none();
            continue;
        }
        let mut claim: PersistentVolumeClaim = template.clone();
        claim.status = None;
        claim.metadata.name = Some(name);
        claim.metadata.namespace = set.metadata.namespace.clone();
        let selected = set.spec.selector.match_labels.clone().unwrap_or_default();
        claim.metadata.labels.get_or_insert_default().extend(selected);
        if policy(set).0 {
            claim.metadata.owner_references = Some(vec![reference(set)]);
        }
        plan.act(Action::create(&claim));
    }
    all_stay
}

/// Lets claims go with the set or with their pod, or stay, as the retention policy says.
pub(super) fn tie(seen: &Observed, ordinal: i32, pod: Option<&Pod>, is_condemned: bool, plan: &mut Plan) {
    let set = &*seen.set;
    let (with_set, with_pod) = policy(set);
    for template in set.spec.volume_claim_templates.iter().flatten() {
        let volume = template.metadata.name.as_deref().unwrap_or("");
        let Some(claim) = seen.claims.get(&name(set, volume, ordinal)) else { continue };
        let have = claim.metadata.owner_references.clone().unwrap_or_default();
        let ours = |owner: &OwnerReference| {
            let is_set = owner.kind == "StatefulSet" && Some(&owner.uid) == set.metadata.uid.as_ref();
            is_set || (owner.kind == "Pod" && owner.name == identity::pod_name(set, ordinal))
        };
        let mut wanted: Vec<OwnerReference> = have.iter().filter(|owner| !ours(owner)).cloned().collect();
        let pod = pod.filter(|_| with_pod && is_condemned);
        match pod {
            Some(pod) => wanted.push(reference(pod)),
            None if with_set => wanted.push(reference(set)),
            None => {}
        }
        if wanted != have {
            let patch = json!({"metadata": {"ownerReferences": wanted}});
            plan.act(Action::Patch { target: Target::unchanged(&**claim), subresource: None, patch });
        }
    }
}

/// Whether claims go with the set, and with a pod that is scaled away.
fn policy(set: &StatefulSet) -> (bool, bool) {
    let policy = set.spec.persistent_volume_claim_retention_policy.as_ref();
    let deletes = |when: Option<&String>| when.is_some_and(|policy| policy == "Delete");
    (
        deletes(policy.and_then(|p| p.when_deleted.as_ref())),
        deletes(policy.and_then(|p| p.when_scaled.as_ref())),
    )
}

/// Owners of claims do not control them.
fn reference<K: Object>(owner: &K) -> OwnerReference {
    OwnerReference { controller: None, block_owner_deletion: None, ..minik8s_runtime::owner_reference(owner) }
}
