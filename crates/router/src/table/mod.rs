//! Which request goes where, as a value: `(DNS, Ingresses, classes, Services, slices) → Table`.

mod build;
#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::net::SocketAddr;
use std::sync::Arc;

use minik8s_api::routing::Problem;

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
    /// Hosts that pods and nodes resolve to their node's router.
    names: BTreeSet<String>,
    /// Which secret has the certificate of a host; the empty host's is for clients that name none.
    certificates: BTreeMap<String, SecretName>,
}

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
    pub backend: Backend,
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
    /// The route of a request. The host is in lower case, without a port.
    pub fn find(&self, host: &str, path: &str) -> Option<&Route> {
        let of_wildcard = || host.split_once('.').and_then(|(_, above)| self.wildcard.get(above));
        let hosts = [self.exact.get(host), of_wildcard(), Some(&self.any)];
        hosts.into_iter().flatten().find_map(|host| host.find(path)).or(self.default.as_ref())
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
        backends.flat_map(|endpoints| endpoints.iter().copied()).collect()
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
        hosts.flat_map(|host| &host.routes).chain(&self.default)
    }
}

impl Host {
    fn find(&self, path: &str) -> Option<&Route> {
        self.routes.iter().find(|route| route.matches(path))
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
        if !self.strip || self.path == "/" {
            return path_and_query.into();
        }
        let rest = path_and_query.get(self.path.len()..).unwrap_or_default();
        if rest.starts_with('/') { rest.into() } else { format!("/{rest}").into() }
    }
}
