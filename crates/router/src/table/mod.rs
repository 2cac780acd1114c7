//! Which request goes where, as a value: `(DNS, Ingresses, classes, Services, slices) → Table`.

mod build;
#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use minik8s_meta::gateway::{HostOrder, host_order};
use minik8s_meta::routing::Problem;
use minik8s_proxy::RequestHead;
use minik8s_proxy::gateway::filter;

use crate::gateway::{Gateways, PublicHost, Treatment};
use crate::invocation::EVENTS;

pub(crate) use build::Backends;
pub use build::{Objects, build};

/// Looked up for every request, replaced as a whole.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Table {
    /// By the host's name in lower case.
    exact: HashMap<String, Host>,
    /// By what follows `*.`.
    wildcard: HashMap<String, Host>,
    /// Rules without a host.
    any: Host,
    default: Option<Route>,
    /// By namespace and name, for paths that begin with `/fn/`.
    functions: HashMap<String, Route>,
    /// Where events of all namespaces are taken, by paths of the form `/fn/NAMESPACE/-/…`.
    events: Option<Box<Route>>,
    /// Hosts that pods and nodes resolve to their node's router.
    names: BTreeSet<String>,
    /// Which secret has the certificate of a host; the empty host's is for clients that name none.
    certificates: BTreeMap<String, SecretName>,
    /// What Gateways answer for.
    pub gateways: Gateways,
}

/// What paths of functions begin with.
const FUNCTIONS: &str = "/fn/";

/// Namespace and name.
pub type SecretName = (String, String);

#[derive(Debug, Clone, Default, PartialEq)]
struct Host {
    /// The longest path first, and exact ones before others of their length.
    routes: Vec<Route>,
}

/// Where requests of one host and path go.
#[derive(Debug, Clone, PartialEq)]
pub struct Route {
    /// As the object has it: `*` for every host.
    pub host: Arc<str>,
    pub path: String,
    pub exact: bool,
    /// The backend does not see the path.
    pub strip: bool,
    /// Of the object that says so.
    pub namespace: Arc<str>,
    pub backend: Backend,
    /// Its requests go through the gate of this function, which knows more of its instances than the backend does.
    pub function: Option<(String, String)>,
    /// Until the answer must have begun, where that is not as usual.
    pub timeout: Option<Duration>,
    /// What a Gateway does with its requests beside handing them over.
    pub treatment: Option<Arc<Treatment>>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Backend {
    /// `namespace/name` of the Service.
    pub service: String,
    pub port: String,
    /// A client stays with its endpoint (`sessionAffinity: ClientIP`).
    pub sticky: bool,
    pub endpoints: Result<Arc<[SocketAddr]>, Problem>,
}

impl Table {
    /// The route of a request at the node's own ports, where Gateways answer beside DNS objects and Ingresses: the most
    /// specific host counts, and of equals not the Gateway's. Whose host it is has all its paths, as in [`Table::find`].
    pub fn find_at_node(&self, tls: bool, host: &str, head: &RequestHead<'_>) -> Option<&Route> {
        let own = self.find(host, head.path());
        if self.gateways.public[usize::from(tls)].is_empty() {
            return own;
        }
        let pattern = |route: &Route| host_order(if &*route.host == "*" { "" } else { &route.host });
        let named = |one: &&PublicHost| !one.host.hostname.is_empty();
        let by_gateway = self.gateways.public_hosts(tls, host).find(named);
        let by_gateway = by_gateway.map(|one| (host_order(&one.host.hostname), one.namespace.as_str()));
        let owner = self.owner(host).into_iter().chain(by_gateway).min().map(|(_, namespace)| namespace);
        let is_fit = |namespace: &str| owner.is_none_or(|owner| owner == namespace);
        let own = own.filter(|route| is_fit(&route.namespace));
        let fitting = self.gateways.public_hosts(tls, host).filter(|one| is_fit(&one.namespace));
        let mut found =
            fitting.filter_map(|one| Some((host_order(&one.host.hostname), one.host.find(head)?)));
        match (own, found.next()) {
            (Some(own), Some((order, route))) => {
                let is_default = self.default.as_ref().is_some_and(|default| std::ptr::eq(default, own));
                Some(if is_default || order < pattern(own) { route } else { own })
            }
            (own, gateway) => own.or(gateway.map(|(_, route)| route)),
        }
    }

    /// The namespace whose the host is by DNS objects and Ingresses, and by how specific a name.
    fn owner(&self, host: &str) -> Option<(HostOrder, &str)> {
        let exact = || Some((host_order(host), self.exact.get(host)?));
        let wildcard = || {
            let above = host.split_once('.')?.1;
            Some(((true, std::cmp::Reverse(above.len() + 2)), self.wildcard.get(above)?))
        };
        let (order, found) = exact().or_else(wildcard)?;
        Some((order, &found.routes.first()?.namespace))
    }

    /// The route of a request. The host is in lower case, without a port.
    ///
    /// Whose host it is also has the paths that nobody named: what other namespaces say of every host, or of all
    /// below a name, is not for it.
    pub fn find(&self, host: &str, path: &str) -> Option<&Route> {
        let exact = self.exact.get(host);
        let wildcard = host.split_once('.').and_then(|(_, above)| self.wildcard.get(above));
        let owner = exact.or(wildcard).and_then(|host| host.routes.first()).map(|route| &route.namespace);
        let is_fit = |route: &&Route| owner.is_none_or(|owner| route.namespace == *owner);
        let own = [exact, wildcard].into_iter().flatten().flat_map(|host| &host.routes);
        let routes = own.chain(self.function(path)).chain(&self.any.routes);
        routes
            .filter(|route| route.matches(path))
            .find(is_fit)
            .or_else(|| self.default.as_ref().filter(is_fit))
    }

    /// The function that a path of the form `/fn/NAMESPACE/NAME/…` names.
    fn function(&self, path: &str) -> Option<&Route> {
        let rest = path.strip_prefix(FUNCTIONS)?;
        let slash = rest.find('/')?;
        let end = rest[slash + 1..].find('/').map_or(rest.len(), |end| slash + 1 + end);
        let events = || self.events.as_deref().filter(|_| &rest[slash + 1..end] == EVENTS);
        self.functions.get(&rest[..end]).or_else(events)
    }

    /// Hosts of DNS objects, in order.
    pub fn names(&self) -> &BTreeSet<String> {
        &self.names
    }

    pub fn certificates(&self) -> &BTreeMap<String, SecretName> {
        &self.certificates
    }

    /// Every endpoint that gets requests: connections to others are of no more use.
    pub fn endpoints(&self) -> HashSet<SocketAddr> {
        let backends = self.routes().filter_map(|route| route.backend.endpoints.as_ref().ok());
        let own: HashSet<SocketAddr> = backends.flat_map(|endpoints| endpoints.iter().copied()).collect();
        own.into_iter().chain(self.gateways.endpoints()).collect()
    }

    #[cfg(test)]
    pub(crate) fn make_sticky(&mut self) {
        self.exact
            .values_mut()
            .flat_map(|host| &mut host.routes)
            .for_each(|route| route.backend.sticky = true);
    }

    fn routes(&self) -> impl Iterator<Item = &Route> {
        let hosts = self.exact.values().chain(self.wildcard.values()).chain([&self.any]);
        hosts.flat_map(|host| &host.routes).chain(&self.default).chain(self.functions.values())
    }
}

impl Route {
    /// Whole elements of a path count: `/a` is the beginning of `/a/b`, not of `/ab`.
    fn matches(&self, path: &str) -> bool {
        if self.exact {
            return path == self.path;
        }
        match path.strip_prefix(self.path.as_str()) {
            Some(rest) => rest.is_empty() || rest.starts_with('/') || self.path == "/",
            None => false,
        }
    }

    /// Path and query as the backend gets them.
    pub fn rewrite<'a>(&self, path_and_query: &'a str) -> Cow<'a, str> {
        if let Some(treatment) = &self.treatment {
            return filter::rewrite(treatment, path_and_query);
        }
        if !self.strip || self.path == "/" {
            return path_and_query.into();
        }
        let rest = path_and_query.get(self.path.len()..).unwrap_or_default();
        if rest.starts_with('/') { rest.into() } else { format!("/{rest}").into() }
    }
}
