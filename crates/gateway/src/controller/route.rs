//! What routes are told of their parents.

use std::marker::PhantomData;
use std::sync::Arc;

use k8s_openapi::api::core::v1::{Namespace, Service};
use k8s_openapi::jiff::Timestamp;
use minik8s_meta::gateway::ServiceRoute;
use minik8s_runtime::{Caches, Controller, Key, Plan, Watches, key_of};

use crate::attach::{Parent, attach, parent};
use crate::compile::compile_rule;
use crate::condition::{Problem, Writer};
use crate::kinds::{
    CONTROLLER, Gateway, GatewayClass, ListenerSet, ParentReference, ReferenceGrant, RouteParentStatus,
    RouteStatus,
};
use crate::listeners::{judge, lets_in};
use crate::route::{Route, RouteObject};
use crate::service_route;
use crate::view::{View, parent_of};

/// Of a route whose parent is a Service: whether every running proxy routes by it as it is now. The Gateway API has no such
/// condition of routes, so its name says whose it is.
const PROGRAMMED: &str = "minik8s.io/Programmed";

/// One for each kind of routes.
pub struct RouteController<R> {
    name: &'static str,
    /// Whether Services can be parents.
    mesh: bool,
    kind: PhantomData<fn() -> R>,
}

impl<R> RouteController<R> {
    pub fn new(name: &'static str, mesh: bool) -> Self {
        RouteController { name, mesh, kind: PhantomData }
    }
}

impl<R: RouteObject> Controller for RouteController<R> {
    type Key = Key;
    type Observed = (Arc<R>, View);

    fn name(&self) -> &'static str {
        self.name
    }

    fn watch(&self, watches: &Watches<Key>) {
        watches.own::<R>();
        watches.on::<GatewayClass>(|caches, _| everyone::<R>(caches));
        watches.on::<ReferenceGrant>(|caches, _| everyone::<R>(caches));
        watches.on::<Gateway>(|caches, gateway| {
            let key = key_of(gateway);
            let mut parents: Vec<Parent> = vec![Parent::Gateway(key.clone())];
            let sets = caches.of::<ListenerSet>().list();
            let of_gateway = sets.iter().filter(|set| parent_of(set) == key);
            parents.extend(of_gateway.map(|set| Parent::ListenerSet(key_of(&**set))));
            with_parent::<R>(caches, &parents)
        });
        watches
            .on::<ListenerSet>(|caches, set| with_parent::<R>(caches, &[Parent::ListenerSet(key_of(set))]));
        watches.on::<Service>(|caches, service| {
            let key = key_of(service);
            select::<R>(caches, |route| {
                route.backends().any(|backend| backend == key) || route.services().contains(&key)
            })
        });
        let caches = Arc::downgrade(watches.caches());
        watches.on_change::<Namespace>(move |old, new| {
            let labels = |one: Option<&Namespace>| one.and_then(|one| one.metadata.labels.clone());
            let Some(caches) = caches.upgrade().filter(|_| labels(old) != labels(new)) else {
                return Vec::new();
            };
            everyone::<R>(&caches)
        });
        if self.mesh {
            watches.on::<ServiceRoute>(|caches, known| {
                let key = key_of(known);
                select::<R>(caches, |route| route.services().contains(&key))
            });
        }
        super::gateway::needs(watches);
    }

    fn observe(&self, caches: &Caches, key: &Key) -> Option<Self::Observed> {
        let object = caches.of::<R>().get(key)?;
        let mut view = View::of(caches);
        if self.mesh {
            let known = |key: Key| Some((key.clone(), caches.of::<ServiceRoute>().get(&key)?));
            view.service_routes = object.route().services().into_iter().filter_map(known).collect();
        }
        Some((object, view))
    }

    fn plan(&self, (object, view): &Self::Observed, now: Timestamp) -> Plan {
        let mut plan = Plan::default();
        let route = object.route();
        if route.meta.deletion_timestamp.is_some() {
            return plan;
        }
        let status = status(&route, view, self.mesh, now);
        if route.status.is_some() || !status.parents.is_empty() {
            plan.status(&**object, object.with_status(status));
        }
        plan
    }
}

/// Entries of our own for the parents that are ours, and those of other controllers as they are.
pub fn status(route: &Route<'_>, view: &View, mesh: bool, now: Timestamp) -> RouteStatus {
    let known = route.status.map(|status| status.parents.as_slice()).unwrap_or_default();
    let mut parents: Vec<RouteParentStatus> =
        known.iter().filter(|one| one.controller_name != CONTROLLER).cloned().collect();
    let missing: Vec<Problem> =
        route.rules.iter().flat_map(|rule| compile_rule(route, rule, view).1).collect();
    let resolved = missing.into_iter().next().map_or(Ok(()), Err);
    for reference in route.parents {
        let by_mesh = service_route::accepted(route, reference, view).filter(|_| mesh);
        let is_by_mesh = by_mesh.is_some();
        let Some(accepted) = by_mesh.or_else(|| accepted(route, reference, view)) else { continue };
        let old = known.iter().find(|one| one.parent_ref == *reference && one.controller_name == CONTROLLER);
        let writer = Writer {
            known: old.map(|one| one.conditions.as_slice()).unwrap_or_default(),
            generation: route.meta.generation,
            now,
        };
        let mut conditions =
            vec![writer.outcome("Accepted", &accepted), writer.outcome("ResolvedRefs", &resolved)];
        if is_by_mesh {
            conditions.push(match service_route::programmed(route, reference, view) {
                Ok(()) => writer.condition(PROGRAMMED, true, "Programmed", ""),
                Err(problem) => writer.condition(PROGRAMMED, false, problem.reason, &problem.message),
            });
        }
        parents.push(RouteParentStatus {
            parent_ref: reference.clone(),
            controller_name: CONTROLLER.to_owned(),
            conditions,
        });
    }
    RouteStatus { parents }
}

/// Whether a parent takes the route; None if it is not ours.
fn accepted(route: &Route<'_>, reference: &ParentReference, view: &View) -> Option<Result<(), Problem>> {
    let (key, set) = match parent(reference, route.namespace()) {
        Parent::Gateway(key) => (key, None),
        Parent::ListenerSet(key) => {
            let set = view.sets.iter().find(|set| key_of(&***set) == key)?;
            (parent_of(set), Some(set))
        }
        Parent::Service(_) | Parent::Other => return None,
    };
    let gateway = view.gateway(&key).filter(|gateway| view.serves(&gateway.spec.gateway_class_name))?;
    if set.is_some_and(|set| !lets_in(gateway, set, view)) {
        let text = "the Gateway does not let its ListenerSet in: see allowedListeners";
        return Some(Err(Problem::new("NotAllowedByListeners", text)));
    }
    let mut sets = view.sets_of(gateway);
    sets.retain(|set| lets_in(gateway, set, view));
    let listeners = judge(gateway, &sets, view);
    let set = set.map(|set| key_of(&**set));
    Some(attach(route, reference, set.as_ref(), &listeners, view).map(drop))
}

fn everyone<R: RouteObject>(caches: &Caches) -> Vec<Key> {
    select::<R>(caches, |_| true)
}

fn with_parent<R: RouteObject>(caches: &Caches, wanted: &[Parent]) -> Vec<Key> {
    select::<R>(caches, |route| {
        route.parents.iter().any(|reference| wanted.contains(&parent(reference, route.namespace())))
    })
}

fn select<R: RouteObject>(caches: &Caches, wanted: impl Fn(&Route<'_>) -> bool) -> Vec<Key> {
    let all = caches.of::<R>().list();
    all.iter().filter(|one| wanted(&one.route())).map(|one| key_of(&**one)).collect()
}
