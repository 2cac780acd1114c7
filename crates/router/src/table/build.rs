//! From objects to the table.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use k8s_openapi::api::core::v1::Service;
use k8s_openapi::api::discovery::v1::EndpointSlice;
use k8s_openapi::api::networking::v1::{Ingress, IngressClass};
use minik8s_meta::dns::Dns;
use minik8s_meta::function::{FunctionEndpoints, PORT};
use minik8s_meta::gateway::GatewayConfig;
use minik8s_meta::routing::{
    Claim, HostOwners, Owner, Port, Problem, claims_of_dns, claims_of_ingress, default_backend, endpoints_of,
    reserved_host, serves, service_of,
};

use crate::gateway;
use crate::invocation::EVENTS;
use minik8s_proxy::{LedBy, LedServices};

use super::{Backend, FUNCTIONS, Host, Route, Table};

/// All that a table is made of.
#[derive(Debug, Clone, Default)]
pub struct Objects {
    pub dns: Vec<Arc<Dns>>,
    pub ingresses: Vec<Arc<Ingress>>,
    pub classes: Vec<Arc<IngressClass>>,
    pub services: Vec<Arc<Service>>,
    pub slices: Vec<Arc<EndpointSlice>>,
    pub functions: Vec<Arc<FunctionEndpoints>>,
    pub gateways: Vec<Arc<GatewayConfig>>,
    pub led: Arc<LedServices>,
}

/// The cluster's own names are never taken over, and no namespace takes a host that is another's.
pub fn build(objects: &Objects, cluster_domain: &str) -> Table {
    let backends = Backends::new(objects);
    let served: Vec<&Ingress> = objects
        .ingresses
        .iter()
        .map(AsRef::as_ref)
        .filter(|ingress| serves(ingress, objects.classes.iter().map(AsRef::as_ref)))
        .collect();
    let mut claims: Vec<Claim<'_>> = objects.dns.iter().flat_map(|dns| claims_of_dns(dns)).collect();
    let resolved = claims.len();
    claims.extend(served.iter().flat_map(|ingress| claims_of_ingress(ingress)));
    let mut gateways = gateway::build(&objects.gateways, &backends);
    let of_gateways: Vec<Claim<'_>> =
        objects.gateways.iter().flat_map(|config| claims_of_gateway(config)).collect();
    let owners = HostOwners::of(claims.iter().chain(&of_gateways));
    for hosts in &mut gateways.public {
        hosts.retain(|one| {
            let host = one.host.hostname.as_str();
            host.is_empty()
                || reserved_host(host, cluster_domain).is_none()
                    && owners.other_than(&one.namespace, host).is_none()
        });
    }
    let is_valid = |claim: &Claim<'_>| {
        reserved_host(claim.host, cluster_domain).is_none()
            && owners.other_than(claim.owner.namespace, claim.host).is_none()
    };
    let names = claims[..resolved].iter().filter(|claim| is_valid(claim)).map(|claim| claim.host.to_owned());
    let mut table = Table { names: names.collect(), ..Table::default() };
    claims.retain(is_valid);
    // Whoever was first stays; the rest of the order only makes tables comparable.
    claims.sort_by(|a, b| (&a.owner, a.place()).cmp(&(&b.owner, b.place())));
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
    table.certificates = certificates(&served, &owners);
    for one in &gateways.public[1] {
        if let Some(secret) = one.certificates.first() {
            table.certificates.entry(one.host.hostname.clone()).or_insert_with(|| secret.clone());
        }
    }
    table.gateways = gateways;
    for function in &objects.functions {
        table.add_function(function, cluster_domain);
    }
    table.events = Some(Box::new(events()));
    table
}

/// Nobody else's, in whatever namespace: the API server knows who takes them.
fn events() -> Route {
    Route {
        host: "*".into(),
        path: FUNCTIONS.trim_end_matches('/').to_owned(),
        exact: false,
        strip: false,
        namespace: "".into(),
        backend: Backend {
            service: "events".to_owned(),
            port: String::new(),
            sticky: false,
            endpoints: Err(Problem::NotAService),
        },
        function: Some((String::new(), EVENTS.to_owned())),
        timeout: None,
        treatment: None,
    }
}

impl Table {
    /// By a name of its own below the cluster's, which nobody else can claim, and by a path on every other.
    fn add_function(&mut self, endpoints: &FunctionEndpoints, cluster_domain: &str) {
        let meta = &endpoints.metadata;
        let (Some(namespace), Some(name)) = (&meta.namespace, &meta.name) else { return };
        let ips = endpoints.spec.instances.iter().filter_map(|one| one.ip.parse::<IpAddr>().ok());
        let addresses: Vec<SocketAddr> = ips.map(|ip| SocketAddr::new(ip, PORT)).collect();
        let key = format!("{namespace}/{name}");
        let host = format!("{name}.{namespace}.fn.{cluster_domain}");
        let by_path = Route {
            host: host.as_str().into(),
            path: format!("{FUNCTIONS}{key}"),
            exact: false,
            strip: true,
            namespace: namespace.as_str().into(),
            backend: Backend {
                service: key.clone(),
                port: PORT.to_string(),
                sticky: false,
                endpoints: Ok(addresses.into()),
            },
            function: Some((namespace.clone(), name.clone())),
            timeout: None,
            treatment: None,
        };
        let by_host = Route { path: "/".to_owned(), ..by_path.clone() };
        self.exact.insert(host.clone(), Host { routes: vec![by_host] });
        self.names.insert(host);
        self.functions.insert(key, by_path);
    }

    fn host_mut(&mut self, host: &str) -> &mut Host {
        match (host, host.strip_prefix("*.")) {
            ("", _) => &mut self.any,
            (_, Some(above)) => self.wildcard.entry(above.to_owned()).or_default(),
            (host, None) => self.exact.entry(host.to_owned()).or_default(),
        }
    }
}

/// Which hosts a Gateway wants at the node's own ports. Where they lead is its own business.
fn claims_of_gateway(config: &GatewayConfig) -> impl Iterator<Item = Claim<'_>> {
    let meta = &config.metadata;
    let owner = Owner {
        created: config.spec.created.parse().ok(),
        kind: "Gateway",
        namespace: meta.namespace.as_deref().unwrap_or_default(),
        name: meta.name.as_deref().unwrap_or_default(),
    };
    let listeners = config.spec.ports.iter().flat_map(|port| &port.listeners);
    let hosts = listeners.flat_map(|listener| &listener.hosts).filter(|host| host.public);
    hosts.map(move |host| Claim {
        host: &host.hostname,
        path: "/",
        exact: false,
        strip: false,
        target: None,
        owner: owner.clone(),
    })
}

/// Services and their slices by namespace and name.
pub(crate) struct Backends<'a> {
    services: HashMap<(&'a str, &'a str), &'a Service>,
    slices: HashMap<(&'a str, &'a str), Vec<&'a EndpointSlice>>,
    led: &'a LedServices,
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
        Backends { services: objects.services.iter().map(named).collect(), slices, led: &objects.led }
    }

    fn route(&self, claim: &Claim<'_>) -> Route {
        Route {
            host: if claim.host.is_empty() { "*".into() } else { claim.host.into() },
            path: claim.path.to_owned(),
            exact: claim.exact,
            strip: claim.strip,
            namespace: claim.owner.namespace.into(),
            backend: self.backend(claim),
            function: None,
            timeout: None,
            treatment: None,
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
        let backend = self.of_service(target.namespace, target.service, target.port, false);
        self.led(backend, (target.namespace, target.service, target.port), |_| true)
    }

    /// Requests to a Service with rules go to its address, from where the node's proxy of the mesh leads them: weights and
    /// expressions hold for hosts and paths as they do for pods.
    pub fn led(
        &self,
        backend: Backend,
        (namespace, name, port): (&str, &str, Port<'_>),
        counts: impl Fn(LedBy) -> bool,
    ) -> Backend {
        let address = || {
            let spec = self.services.get(&(namespace, name))?.spec.as_ref()?;
            let mut ports = spec.ports.iter().flatten();
            let found = ports.find(|candidate| match port {
                Port::Number(number) => candidate.port == number,
                Port::Name(name) => candidate.name.as_deref() == Some(name),
            })?;
            let ip: IpAddr = spec.cluster_ip.as_ref()?.parse().ok()?;
            let address = SocketAddr::new(ip, u16::try_from(found.port).ok()?);
            self.led.get(&address).filter(|by| counts(**by)).map(|_| address)
        };
        match address().filter(|_| backend.endpoints.is_ok()) {
            Some(address) => Backend { sticky: false, endpoints: Ok([address].into()), ..backend },
            None => backend,
        }
    }

    pub fn of_service(&self, namespace: &str, name: &str, port: Port<'_>, udp: bool) -> Backend {
        let key = (namespace, name);
        let service = self.services.get(&key).copied();
        // A pod of two families is in slices of both: one of its addresses is enough.
        let family = service.and_then(|service| service.spec.as_ref()?.ip_families.as_ref()?.first());
        let slices = self.slices.get(&key).into_iter().flatten().copied();
        let slices = slices.filter(|slice| family.is_none_or(|family| slice.address_type == *family));
        let affinity = service.and_then(|service| service.spec.as_ref()?.session_affinity.as_deref());
        Backend {
            service: format!("{namespace}/{name}"),
            port: port.to_string(),
            sticky: affinity == Some("ClientIP"),
            endpoints: endpoints_of(service, slices, port, udp).map(Arc::from),
        }
    }
}

/// The oldest Ingress with a certificate for a host gives it, if the host is not another namespace's.
fn certificates(served: &[&Ingress], owners: &HostOwners<'_>) -> BTreeMap<String, super::SecretName> {
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
            let may_have = |host: &String| owners.other_than(&namespace, host).is_none();
            for host in hosts.into_iter().filter(may_have) {
                found.entry(host).or_insert_with(|| (namespace.clone(), name.clone()));
            }
        }
    }
    found
}
