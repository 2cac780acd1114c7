//! What to do about a namespace that is being deleted.

use k8s_openapi::api::core::v1::{Namespace, Pod};
use k8s_openapi::jiff::Timestamp;
use minik8s_runtime::{Action, Key, Kind, Plan, Target};

use super::{Observed, conditions};
use minik8s_runtime::is_event;

/// The finalizer in a namespace's spec that is ours.
const OURS: &str = "kubernetes";

pub(super) fn plan(seen: &Observed, now: Timestamp) -> Plan {
    let mut plan = Plan::default();
    let namespace = &*seen.namespace;
    let finalizers = namespace.spec.as_ref().and_then(|spec| spec.finalizers.clone()).unwrap_or_default();
    if !finalizers.iter().any(|finalizer| finalizer == OURS) || seen.kinds.is_empty() {
        return plan;
    }
    // Pods may still need what is beside them (accounts, configuration, policies): they go before all else.
    let pods = Kind::of::<Pod>();
    let has_pods = seen.contents.iter().any(|(kind, _)| *kind == pods);
    for (kind, objects) in seen.contents.iter().filter(|(kind, _)| !has_pods || *kind == pods) {
        for meta in objects.iter().filter(|meta| meta.deletion_timestamp.is_none()) {
            let target = Target {
                kind: kind.clone(),
                key: Key::of_meta(meta),
                uid: meta.uid.clone(),
                resource_version: None,
            };
            plan.act(Action::Delete { target, propagation: None, grace_seconds: None, told: None });
        }
    }
    let mut updated = namespace.clone();
    let status = updated.status.get_or_insert_default();
    status.phase = Some("Terminating".to_owned());
    conditions::set_all(status.conditions.get_or_insert_default(), &seen.contents, now);
    let status_is_news = updated != *namespace;
    plan.status(namespace, updated);
    if seen.contents.is_empty() && !status_is_news {
        finish(seen, finalizers, &mut plan);
    }
    plan
}

/// The caches say it is empty: the API confirms it, and the namespace may go.
fn finish(seen: &Observed, finalizers: Vec<String>, plan: &mut Plan) {
    let name = seen.namespace.metadata.name.clone().unwrap_or_default();
    for kind in seen.kinds.iter().filter(|kind| is_event(kind)) {
        plan.act(Action::DeleteCollection { kind: kind.clone(), namespace: name.clone() });
    }
    for kind in seen.kinds.iter().filter(|kind| !is_event(kind)) {
        plan.act(Action::RequireNone { kind: kind.clone(), namespace: name.clone() });
    }
    let mut finished: Namespace = (*seen.namespace).clone();
    let rest: Vec<String> = finalizers.into_iter().filter(|finalizer| finalizer != OURS).collect();
    finished.spec.get_or_insert_default().finalizers = Some(rest);
    let Action::Update { target, object, .. } = Action::update(&finished) else { return };
    plan.act(Action::Update { target, subresource: Some("finalize"), object });
}
