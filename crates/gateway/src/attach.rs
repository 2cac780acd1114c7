//! Whether a route is part of a parent, and of which of its listeners.

use minik8s_runtime::{Key, key_of};

use crate::condition::Problem;
use crate::hostname::intersection;
use crate::kinds::{GROUP, ParentReference};
use crate::listeners::Judged;
use crate::route::Route;
use crate::view::View;

/// A listener by its number, and the hosts that route and listener have in common.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Attached {
    pub listener: usize,
    pub hosts: Vec<String>,
}

/// What a reference of a route means.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Parent {
    Gateway(Key),
    ListenerSet(Key),
    /// For the mesh.
    Service(Key),
    /// Something of another controller.
    Other,
}

pub fn parent(reference: &ParentReference, namespace: &str) -> Parent {
    let key = Key::new(reference.namespace.as_deref().unwrap_or(namespace), reference.name.as_str());
    let group = reference.group.as_deref().unwrap_or(GROUP);
    match reference.kind.as_deref().unwrap_or("Gateway") {
        "Gateway" if group == GROUP => Parent::Gateway(key),
        "ListenerSet" if group == GROUP => Parent::ListenerSet(key),
        "Service" if group.is_empty() => Parent::Service(key),
        _ => Parent::Other,
    }
}

/// The listeners of one parent that take the route, or why none does.
pub fn attach(
    route: &Route<'_>,
    reference: &ParentReference,
    set: Option<&Key>,
    listeners: &[Judged<'_>],
    view: &View,
) -> Result<Vec<Attached>, Problem> {
    let is_named = |judged: &Judged<'_>| {
        judged.set.map(key_of).as_ref() == set
            && reference.section_name.as_deref().is_none_or(|name| name == judged.listener.name)
            && reference.port.is_none_or(|port| port == judged.listener.port)
    };
    let mut left: Vec<(usize, &Judged<'_>)> =
        listeners.iter().enumerate().filter(|(_, judged)| is_named(judged)).collect();
    if left.is_empty() {
        return Err(Problem::new("NoMatchingParent", "the parent has no listener of this name and port"));
    }
    left.retain(|(_, judged)| judged.kinds.contains(&route.kind));
    if left.is_empty() {
        let text = format!("no listener takes a {}", route.kind.name());
        return Err(Problem::new("NotAllowedByListeners", text));
    }
    left.retain(|(_, judged)| {
        let allowed = judged.listener.allowed_routes.as_ref().and_then(|allowed| allowed.namespaces.as_ref());
        view.selects(allowed, "Same", judged.namespace, route.namespace())
    });
    if left.is_empty() {
        let text = format!(
            "no listener takes routes of namespace {}: see allowedRoutes.namespaces",
            route.namespace()
        );
        return Err(Problem::new("NotAllowedByListeners", text));
    }
    let attached =
        left.into_iter().filter(|(_, judged)| judged.conflict.is_none() && judged.accepted.is_ok());
    let attached: Vec<Attached> = attached
        .map(|(listener, judged)| {
            let hostname = judged.listener.hostname.as_deref().unwrap_or_default();
            Attached { listener, hosts: intersection(hostname, route.hostnames) }
        })
        .filter(|attached| !attached.hosts.is_empty())
        .collect();
    if attached.is_empty() {
        let text = "the route's hostnames and those of the listeners have nothing in common";
        return Err(Problem::new("NoMatchingListenerHostname", text));
    }
    Ok(attached)
}
