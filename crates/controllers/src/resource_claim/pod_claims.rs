//! The claims that a pod's templates describe.

use std::sync::Arc;

use k8s_openapi::api::core::v1::{Pod, PodResourceClaim, PodResourceClaimStatus};
use k8s_openapi::api::resource::v1::{ResourceClaim, ResourceClaimConsumerReference, ResourceClaimTemplate};
use k8s_openapi::jiff::Timestamp;
use minik8s_runtime::{
    Action, Caches, Controller, EventRecord, Key, Plan, Watches, is_controlled_by, key_of, owner_reference,
};
use serde_json::json;

use super::POD_CLAIM_NAME;
use crate::hash::short_hash;
use crate::pods;

/// Names of pods and claims that are longer are cut, so that the claim's name is one.
const LONGEST_BASE: usize = 240;

pub struct PodClaims;

pub struct Observed {
    pod: Arc<Pod>,
    claims: Vec<Seen>,
}

/// One claim that the pod speaks of.
struct Seen {
    name: String,
    /// The template's name, for a claim that is made for the pod.
    template: Option<(String, Option<Arc<ResourceClaimTemplate>>)>,
    claim_name: String,
    claim: Option<Arc<ResourceClaim>>,
}

impl Controller for PodClaims {
    type Key = Key;
    type Observed = Observed;

    fn name(&self) -> &'static str {
        "resource-claim-controller"
    }

    fn watch(&self, watches: &Watches<Key>) {
        watches.on_change::<Pod>(|old, new| {
            let moved = |pod: &Pod| old.is_none_or(|old| pods::node_name(old) != pods::node_name(pod));
            let told = |pod: &Pod| old.is_none_or(|old| statuses(old) != statuses(pod));
            let looked_at = new.filter(|pod| entries(pod).next().is_some() && (moved(pod) || told(pod)));
            looked_at.map(key_of).into_iter().collect()
        });
        watches.owned::<ResourceClaim, Pod>();
        // A template that comes late helps the pods that wait for it.
        watches.on::<ResourceClaimTemplate>(|caches, template| {
            let key = key_of(template);
            let waits = |pod: &Arc<Pod>| {
                let namespace = pod.metadata.namespace.as_deref() == Some(&*key.namespace);
                namespace
                    && entries(pod)
                        .any(|entry| entry.resource_claim_template_name.as_deref() == Some(&*key.name))
            };
            caches.of::<Pod>().list().iter().filter(|pod| waits(pod)).map(|pod| key_of(&**pod)).collect()
        });
    }

    fn observe(&self, caches: &Caches, key: &Key) -> Option<Observed> {
        let pod = caches.of::<Pod>().get(key)?;
        let in_namespace = |name: &str| Key::new(&*key.namespace, name);
        let claims = entries(&pod).map(|entry| {
            let template = entry
                .resource_claim_template_name
                .as_ref()
                .map(|name| (name.clone(), caches.of::<ResourceClaimTemplate>().get(&in_namespace(name))));
            let told = statuses(&pod).into_iter().flatten().find(|status| status.name == entry.name);
            let told = told.and_then(|status| status.resource_claim_name.clone());
            let named = entry.resource_claim_name.clone().or(told);
            let claim_name = named.unwrap_or_else(|| claim_name(&pod, &entry.name));
            let claim = caches.of::<ResourceClaim>().get(&in_namespace(&claim_name));
            Seen { name: entry.name.clone(), template, claim_name, claim }
        });
        let claims = claims.collect();
        Some(Observed { pod, claims })
    }

    fn plan(&self, seen: &Observed, _: Timestamp) -> Plan {
        let mut plan = Plan::default();
        let pod = &*seen.pod;
        if !pods::is_active(pod) {
            return plan;
        }
        let mut told = Vec::new();
        for one in &seen.claims {
            if let Some((name, template)) = &one.template {
                match (&one.claim, template) {
                    (Some(claim), _) if !is_controlled_by(&claim.metadata, uid(pod)) => {
                        let message =
                            format!("ResourceClaim {} was not created for this pod", one.claim_name);
                        plan.event(EventRecord::warning(pod, FAILED, message));
                        continue;
                    }
                    (Some(_), _) => {}
                    (None, Some(template)) => plan.act(Action::create(&made(pod, one, template))),
                    (None, None) => {
                        let message =
                            format!("PodResourceClaim {}: ResourceClaimTemplate {name} not found", one.name);
                        plan.event(EventRecord::warning(pod, FAILED, message));
                        continue;
                    }
                }
                told.push(json!({"name": one.name, "resourceClaimName": one.claim_name}));
            }
            if let Some(claim) = one.claim.as_deref().filter(|claim| needs_reservation(pod, claim)) {
                plan.act(reserve(pod, claim));
            }
        }
        let known: Vec<_> = statuses(pod)
            .into_iter()
            .flatten()
            .map(|status| json!({"name": status.name, "resourceClaimName": status.resource_claim_name}))
            .collect();
        if told != known && !told.is_empty() {
            plan.act(Action::patch_status(pod, json!({"resourceClaimStatuses": told})));
        }
        plan
    }
}

const FAILED: &str = "FailedResourceClaimCreation";

fn entries(pod: &Pod) -> impl Iterator<Item = &PodResourceClaim> {
    pod.spec.iter().flat_map(|spec| spec.resource_claims.iter().flatten())
}

fn statuses(pod: &Pod) -> Option<&Vec<PodResourceClaimStatus>> {
    pod.status.as_ref()?.resource_claim_statuses.as_ref()
}

fn uid(pod: &Pod) -> &str {
    pod.metadata.uid.as_deref().unwrap_or("")
}

/// The same for the same pod, whoever asks and however often: it is made once.
fn claim_name(pod: &Pod, name: &str) -> String {
    let mut base = format!("{}-{name}", pod.metadata.name.as_deref().unwrap_or(""));
    base.truncate(LONGEST_BASE);
    format!("{base}-{}", short_hash(&(uid(pod), name), 0))
}

fn made(pod: &Pod, one: &Seen, template: &ResourceClaimTemplate) -> ResourceClaim {
    let template = template.spec.clone().unwrap_or_default();
    let described = template.metadata.unwrap_or_default();
    let mut claim = ResourceClaim { spec: template.spec, ..ResourceClaim::default() };
    claim.metadata.labels = described.labels;
    claim.metadata.annotations = described.annotations;
    let annotations = claim.metadata.annotations.get_or_insert_default();
    annotations.insert(POD_CLAIM_NAME.to_owned(), one.name.clone());
    claim.metadata.name = Some(one.claim_name.clone());
    claim.metadata.namespace = pod.metadata.namespace.clone();
    claim.metadata.owner_references = Some(vec![owner_reference(pod)]);
    claim
}

/// A pod that nobody scheduled must still be among the users of its claims, or its node refuses it.
fn needs_reservation(pod: &Pod, claim: &ResourceClaim) -> bool {
    let Some(status) = &claim.status else { return false };
    let knows = status.reserved_for.iter().flatten().any(|consumer| consumer.uid == uid(pod));
    pods::node_name(pod).is_some()
        && status.allocation.is_some()
        && !knows
        && claim.metadata.deletion_timestamp.is_none()
}

fn reserve(pod: &Pod, claim: &ResourceClaim) -> Action {
    let mut claim = claim.clone();
    claim.status.get_or_insert_default().reserved_for.get_or_insert_default().push(
        ResourceClaimConsumerReference {
            api_group: None,
            resource: "pods".to_owned(),
            name: pod.metadata.name.clone().unwrap_or_default(),
            uid: uid(pod).to_owned(),
        },
    );
    Action::update_status(&claim)
}
