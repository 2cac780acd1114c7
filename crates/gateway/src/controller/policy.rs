//! What BackendTLSPolicies are told, for each Gateway that leads to their Services.

use std::collections::BTreeSet;
use std::sync::Arc;

use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::jiff::Timestamp;
use minik8s_runtime::{Caches, Controller, Key, Plan, Watches, key_of};

use crate::attach::{Parent, parent};
use crate::condition::{Problem, Writer};
use crate::kinds::{
    BackendTlsPolicy, CONTROLLER, GROUP, Gateway, GrpcRoute, HttpRoute, ListenerSet, ParentReference,
    PolicyAncestorStatus, PolicyStatus, PolicyTarget,
};
use crate::tls_policy::authorities;
use crate::view::{View, parent_of};

pub struct PolicyController;

impl Controller for PolicyController {
    type Key = Key;
    type Observed = (Arc<BackendTlsPolicy>, View);

    fn name(&self) -> &'static str {
        "backend-tls-policy-controller"
    }

    fn watch(&self, watches: &Watches<Key>) {
        // Of two for one Service each must know of the other.
        watches.on::<BackendTlsPolicy>(|caches, policy| {
            everyone(caches).into_iter().chain([key_of(policy)]).collect()
        });
        watches.on::<Gateway>(|caches, _| everyone(caches));
        watches.on::<ListenerSet>(|caches, _| everyone(caches));
        watches.on::<HttpRoute>(|caches, _| everyone(caches));
        watches.on::<GrpcRoute>(|caches, _| everyone(caches));
        watches.on::<ConfigMap>(|caches, map| {
            let key = key_of(map);
            let is_named = |policy: &&Arc<BackendTlsPolicy>| {
                let references = &policy.spec.validation.ca_certificate_refs;
                policy.metadata.namespace.as_deref() == Some(key.namespace.as_str())
                    && references.iter().any(|reference| reference.name == key.name)
            };
            let policies = caches.of::<BackendTlsPolicy>().list();
            policies.iter().filter(is_named).map(|policy| key_of(&**policy)).collect()
        });
        super::gateway::needs(watches);
    }

    fn observe(&self, caches: &Caches, key: &Key) -> Option<Self::Observed> {
        Some((caches.of::<BackendTlsPolicy>().get(key)?, View::of(caches)))
    }

    fn plan(&self, (policy, view): &Self::Observed, now: Timestamp) -> Plan {
        let mut plan = Plan::default();
        let status = status(policy, view, now);
        let is_going = policy.metadata.deletion_timestamp.is_some();
        if !is_going && (policy.status.is_some() || !status.ancestors.is_empty()) {
            plan.status(
                &**policy,
                BackendTlsPolicy { status: Some(status), ..BackendTlsPolicy::clone(policy) },
            );
        }
        plan
    }
}

fn status(policy: &BackendTlsPolicy, view: &View, now: Timestamp) -> PolicyStatus {
    let known = policy.status.as_ref().map(|status| status.ancestors.as_slice()).unwrap_or_default();
    let mut ancestors: Vec<PolicyAncestorStatus> =
        known.iter().filter(|one| one.controller_name != CONTROLLER).cloned().collect();
    let resolved = authorities(policy, view).map(drop);
    let accepted = match (older(policy, view), &resolved) {
        (Some(older), _) => {
            let text = format!("BackendTLSPolicy {older} is older and is for the same Service");
            Err(Problem::new("Conflicted", text))
        }
        (None, Err(problem)) => Err(Problem::new("NoValidCACertificate", problem.message.clone())),
        (None, Ok(())) => Ok(()),
    };
    for gateway in gateways(policy, view) {
        let reference = ParentReference {
            group: Some(GROUP.to_owned()),
            kind: Some("Gateway".to_owned()),
            namespace: Some(gateway.namespace),
            name: gateway.name,
            ..ParentReference::default()
        };
        let old = known.iter().find(|one| one.ancestor_ref == reference && one.controller_name == CONTROLLER);
        let writer = Writer {
            known: old.map(|one| one.conditions.as_slice()).unwrap_or_default(),
            generation: policy.metadata.generation,
            now,
        };
        ancestors.push(PolicyAncestorStatus {
            ancestor_ref: reference,
            controller_name: CONTROLLER.to_owned(),
            conditions: vec![
                writer.outcome("Accepted", &accepted),
                writer.outcome("ResolvedRefs", &resolved),
            ],
        });
    }
    PolicyStatus { ancestors }
}

/// An older policy for the same Service, or the same port of it.
fn older(policy: &BackendTlsPolicy, view: &View) -> Option<Key> {
    let age = |one: &BackendTlsPolicy| (one.metadata.creation_timestamp.clone(), key_of(one));
    let place =
        |target: &PolicyTarget| (target.kind.clone(), target.name.clone(), target.section_name.clone());
    let own: Vec<_> = policy.spec.target_refs.iter().map(place).collect();
    let is_older = |other: &&Arc<BackendTlsPolicy>| {
        other.metadata.namespace == policy.metadata.namespace
            && age(other) < age(policy)
            && other.metadata.deletion_timestamp.is_none()
            && other.spec.target_refs.iter().any(|target| own.contains(&place(target)))
    };
    view.policies.iter().filter(is_older).min_by_key(|other| age(other)).map(|other| key_of(&**other))
}

/// Gateways of ours with a route to one of its Services.
fn gateways(policy: &BackendTlsPolicy, view: &View) -> BTreeSet<Key> {
    let namespace = policy.metadata.namespace.as_deref().unwrap_or_default();
    let targets: Vec<Key> =
        policy.spec.target_refs.iter().map(|target| Key::new(namespace, target.name.as_str())).collect();
    let mut found = BTreeSet::new();
    for route in
        view.routes().iter().filter(|route| route.backends().any(|backend| targets.contains(&backend)))
    {
        for reference in route.parents {
            let key = match parent(reference, route.namespace()) {
                Parent::Gateway(key) => Some(key),
                Parent::ListenerSet(key) => {
                    view.sets.iter().find(|set| key_of(&***set) == key).map(|set| parent_of(set))
                }
                Parent::Service(_) | Parent::Other => None,
            };
            let is_ours =
                |key: &Key| view.gateway(key).is_some_and(|one| view.serves(&one.spec.gateway_class_name));
            found.extend(key.filter(is_ours));
        }
    }
    found
}

fn everyone(caches: &Caches) -> Vec<Key> {
    caches.of::<BackendTlsPolicy>().list().iter().map(|policy| key_of(&**policy)).collect()
}
