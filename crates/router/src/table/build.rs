//! From objects to the table.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use k8s_openapi::api::core::v1::Service;
use k8s_openapi::api::discovery::v1::EndpointSlice;
use k8s_openapi::api::networking::v1::{Ingress, IngressClass};
use minik8s_api::dns::Dns;
use minik8s_api::routing::{
    Claim, Owner, Problem, claims_of_dns, claims_of_ingress, default_backend, endpoints, serves, service_of,
};

use super::{Backend, Host, Route, Table};

/// All that a table is made of.
#[derive(Debug, Clone, Default)]
pub struct Objects {
    pub dns: Vec<Arc<Dns>>,
    pub ingresses: Vec<Arc<Ingress>>,
    pub classes: Vec<Arc<IngressClass>>,
    pub services: Vec<Arc<Service>>,
    pub slices: Vec<Arc<EndpointSlice>>,
}

/// Names below the cluster's own domain are never taken over.
pub fn build(objects: &Objects, cluster_domain: &str) -> Table {
    let backends = Backends::new(objects);
    let served: Vec<&Ingress> = objects
        .ingresses
        .iter()
        .map(AsRef::as_ref)
        .filter(|ingress| serves(ingress, objects.classes.iter().map(AsRef::as_ref)))
        .collect();
    let mut claims: Vec<Claim<'_>> = objects.dns.iter().flat_map(|dns| claims_of_dns(dns)).collect();
    claims.retain(|claim| !is_below(claim.host, cluster_domain));
    let names = claims.iter().map(|claim| claim.host.to_owned()).collect();
    claims.extend(served.iter().flat_map(|ingress| claims_of_ingress(ingress)));
    // Whoever was first stays; the rest of the order only makes tables comparable.
    claims.sort_by(|a, b| (&a.owner, a.place()).cmp(&(&b.owner, b.place())));
    let mut table = Table { names, ..Table::default() };
    let mut taken = HashSet::new();
    for claim in claims {
        if taken.insert(claim.place()) {
            let host = table.host_mut(claim.host);
            host.routes.push(backends.route(&claim));
        }
    }
    for host in table.exact.values_mut().chain(table.wildcard.values_mut()).chain([&mut table.any]) {
        host.routes.sort_by_key(|route| (std::cmp::Reverse(route.path.len()), !route.exact));
    }
    let default =
        served.iter().filter_map(|ingress| default_backend(ingress)).min_by_key(|c| c.owner.clone());
    table.default = default.map(|claim| backends.route(&claim));
    table.certificates = certificates(&served);
    table
}

impl Table {
    fn host_mut(&mut self, host: &str) -> &mut Host {
        match (host, host.strip_prefix("*.")) {
            ("", _) => &mut self.any,
            (_, Some(above)) => self.wildcard.entry(above.to_owned()).or_default(),
            (host, None) => self.exact.entry(host.to_owned()).or_default(),
        }
    }
}

/// Services and their slices by namespace and name.
struct Backends<'a> {
    services: HashMap<(&'a str, &'a str), &'a Service>,
    slices: HashMap<(&'a str, &'a str), Vec<&'a EndpointSlice>>,
}

impl<'a> Backends<'a> {
    fn new(objects: &'a Objects) -> Self {
        let mut slices: HashMap<_, Vec<_>> = HashMap::new();
        for slice in &objects.slices {
            if let Some(service) = service_of(slice) {
                slices.entry(service).or_default().push(&**slice);
            }
        }
        let named = |service: &'a Arc<Service>| {
            let meta = &service.metadata;
            (
                (meta.namespace.as_deref().unwrap_or_default(), meta.name.as_deref().unwrap_or_default()),
                &**service,
            )
        };
        Backends { services: objects.services.iter().map(named).collect(), slices }
    }

    fn route(&self, claim: &Claim<'_>) -> Route {
        Route {
            host: if claim.host.is_empty() { "*".into() } else { claim.host.into() },
            path: claim.path.to_owned(),
            exact: claim.exact,
            strip: claim.strip,
            backend: self.backend(claim),
        }
    }

    fn backend(&self, claim: &Claim<'_>) -> Backend {
        let Some(target) = &claim.target else {
            let Owner { kind, namespace, name, .. } = &claim.owner;
            let service = format!("{kind} {namespace}/{name}");
            return Backend {
                service,
                port: String::new(),
                sticky: false,
                endpoints: Err(Problem::NotAService),
            };
        };
        let key = (target.namespace, target.service);
        let service = self.services.get(&key).copied();
        let slices = self.slices.get(&key).into_iter().flatten().copied();
        let affinity = service.and_then(|service| service.spec.as_ref()?.session_affinity.as_deref());
        Backend {
            service: format!("{}/{}", target.namespace, target.service),
            port: target.port.to_string(),
            sticky: affinity == Some("ClientIP"),
            endpoints: endpoints(service, slices, target.port).map(Arc::from),
        }
    }
}

/// The oldest Ingress with a certificate for a host gives it.
fn certificates(served: &[&Ingress]) -> BTreeMap<String, super::SecretName> {
    let mut oldest = served.to_vec();
    oldest.sort_by_key(|ingress| {
        let meta = &ingress.metadata;
        (meta.creation_timestamp.clone(), meta.namespace.clone(), meta.name.clone())
    });
    let mut found = BTreeMap::new();
    for ingress in oldest {
        let namespace = ingress.metadata.namespace.clone().unwrap_or_default();
        for tls in ingress.spec.iter().flat_map(|spec| spec.tls.iter().flatten()) {
            let Some(name) = tls.secret_name.clone().filter(|name| !name.is_empty()) else { continue };
            let named = tls.hosts.iter().flatten().cloned();
            let hosts: Vec<String> = named.collect();
            let hosts = if hosts.is_empty() { vec![String::new()] } else { hosts };
            for host in hosts {
                found.entry(host).or_insert_with(|| (namespace.clone(), name.clone()));
            }
        }
    }
    found
}

fn is_below(host: &str, domain: &str) -> bool {
    let domain = domain.trim_matches('.');
    host.strip_suffix(domain).is_some_and(|rest| rest.is_empty() || rest.ends_with('.')) && !domain.is_empty()
}
