//! Who says where the requests of a host and path go.
//!
//! A host belongs to one namespace: that of the oldest object that claims it. Within the namespace one place, a
//! host with a path, has one owner, again the oldest. Age settles it because it cannot be taken away from the owner
//! by somebody who comes later. What is said of every host belongs to no namespace.

use std::collections::HashMap;

use k8s_openapi::api::networking::v1::{Ingress, IngressBackend};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use k8s_openapi::jiff::Timestamp;

use super::Port;
use crate::own::dns::Dns;

/// One host and path of one object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claim<'a> {
    /// Empty: every host. `*.example.org`: one label before it.
    pub host: &'a str,
    /// As [`normal_path`] writes it, unless it is exact.
    pub path: &'a str,
    pub exact: bool,
    /// The Service gets the request without the path.
    pub strip: bool,
    /// `None`: the object names something that is no Service.
    pub target: Option<Target<'a>>,
    pub owner: Owner<'a>,
}

/// Ordered by who was first.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Owner<'a> {
    pub created: Option<Timestamp>,
    pub kind: &'static str,
    pub namespace: &'a str,
    pub name: &'a str,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target<'a> {
    pub namespace: &'a str,
    pub service: &'a str,
    pub port: Port<'a>,
}

impl<'a> Claim<'a> {
    /// What two claims must share to be in each other's way.
    pub fn place(&self) -> (&'a str, &'a str, bool) {
        (self.host, self.path, self.exact)
    }
}

/// To whom hosts belong, by their names.
#[derive(Debug, Default)]
pub struct HostOwners<'a>(HashMap<&'a str, Owner<'a>>);

impl<'a> HostOwners<'a> {
    pub fn of<'c>(claims: impl IntoIterator<Item = &'c Claim<'a>>) -> Self
    where
        'a: 'c,
    {
        let mut owners: HashMap<&'a str, Owner<'a>> = HashMap::new();
        for claim in claims.into_iter().filter(|claim| !claim.host.is_empty()) {
            let owner = owners.entry(claim.host).or_insert_with(|| claim.owner.clone());
            if claim.owner < *owner {
                *owner = claim.owner.clone();
            }
        }
        HostOwners(owners)
    }

    /// Whose the host is, if it is another namespace's.
    pub fn other_than(&self, namespace: &str, host: &str) -> Option<&Owner<'a>> {
        self.0.get(host).filter(|owner| owner.namespace != namespace)
    }
}

/// `/a/` and `/a` are one path.
pub fn normal_path(path: &str) -> &str {
    match path.trim_end_matches('/') {
        "" => "/",
        path => path,
    }
}

pub fn claims_of_dns(dns: &Dns) -> Vec<Claim<'_>> {
    let owner = owner("DNS", &dns.metadata);
    dns.paths()
        .map(|(host, path)| {
            let service = &path.backend.service;
            let port = match &service.port {
                IntOrString::Int(number) => Port::Number(*number),
                IntOrString::String(name) => Port::Name(name),
            };
            Claim {
                host,
                path: normal_path(&path.path),
                exact: false,
                strip: true,
                target: Some(Target { namespace: owner.namespace, service: &service.name, port }),
                owner: owner.clone(),
            }
        })
        .collect()
}

/// Whether the router serves the Ingress at all is for [`super::serves`].
pub fn claims_of_ingress(ingress: &Ingress) -> Vec<Claim<'_>> {
    let owner = owner("Ingress", &ingress.metadata);
    let rules = ingress.spec.iter().flat_map(|spec| spec.rules.iter().flatten());
    let paths = rules.flat_map(|rule| {
        let host = rule.host.as_deref().unwrap_or_default();
        rule.http.iter().flat_map(|http| &http.paths).map(move |path| (host, path))
    });
    paths
        .map(|(host, entry)| {
            let exact = entry.path_type == "Exact";
            let path = entry.path.as_deref().filter(|path| !path.is_empty()).unwrap_or("/");
            Claim {
                host,
                path: if exact { path } else { normal_path(path) },
                exact,
                strip: false,
                target: target(owner.namespace, &entry.backend),
                owner: owner.clone(),
            }
        })
        .collect()
}

/// Where requests go that no path of any object matches.
pub fn default_backend(ingress: &Ingress) -> Option<Claim<'_>> {
    let backend = ingress.spec.as_ref()?.default_backend.as_ref()?;
    let owner = owner("Ingress", &ingress.metadata);
    let target = target(owner.namespace, backend);
    Some(Claim { host: "", path: "/", exact: false, strip: false, target, owner })
}

fn target<'a>(namespace: &'a str, backend: &'a IngressBackend) -> Option<Target<'a>> {
    let service = backend.service.as_ref()?;
    let port = service.port.as_ref()?;
    let port = match port.name.as_deref().filter(|name| !name.is_empty()) {
        Some(name) => Port::Name(name),
        None => Port::Number(port.number?),
    };
    Some(Target { namespace, service: &service.name, port })
}

fn owner<'a>(kind: &'static str, meta: &'a ObjectMeta) -> Owner<'a> {
    Owner {
        created: meta.creation_timestamp.as_ref().map(|time| time.0),
        kind,
        namespace: meta.namespace.as_deref().unwrap_or_default(),
        name: meta.name.as_deref().unwrap_or_default(),
    }
}
