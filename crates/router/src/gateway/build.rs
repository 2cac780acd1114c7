//! From GatewayConfigs to what requests are looked up in.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use minik8s_meta::gateway::{
    GatewayBackend, GatewayClients, GatewayConfig, GatewayFilters, GatewayHost, GatewayListener, GatewayRule,
    GatewayTarget, host_order,
};
use minik8s_meta::routing::{Port as ServicePort, Problem};
use minik8s_proxy::LedBy;
use minik8s_proxy::gateway::{Build, Match};

use super::{Clients, Gateways, Host, Listener, Mode, Port, Protocol, PublicHost, Rule, Treatment};
use crate::sources::Name;
use crate::table::{Backend, Backends, Route};

/// Namespace and name of every Service that a Gateway leads to.
pub fn services(config: &GatewayConfig) -> impl Iterator<Item = Name> + '_ {
    let mirrors = |filters: &'_ GatewayFilters| -> Vec<GatewayTarget> {
        filters.mirrors.iter().map(|mirror| mirror.target.clone()).collect()
    };
    let targets = config.spec.rules.iter().flat_map(move |rule| {
        let of_backends = rule.backends.iter().flat_map(move |backend| {
            std::iter::once(backend.target.clone()).chain(mirrors(&backend.filters))
        });
        of_backends.chain(mirrors(&rule.filters)).collect::<Vec<_>>()
    });
    targets.map(|target| (target.namespace, target.service))
}

/// Secrets that Gateways show to backends.
pub fn backend_certificates(configs: &[Arc<GatewayConfig>]) -> BTreeSet<Name> {
    let backends = configs.iter().flat_map(|config| &config.spec.rules).flat_map(|rule| &rule.backends);
    let shown = backends.filter_map(|backend| backend.target.tls.as_ref()?.certificate.as_ref());
    shown.map(|one| (one.namespace.clone(), one.name.clone())).collect()
}

pub fn build(configs: &[Arc<GatewayConfig>], backends: &Backends<'_>) -> Gateways {
    let mut gateways = Gateways::default();
    for config in configs {
        add(config, backends, &mut gateways);
    }
    for hosts in &mut gateways.public {
        hosts.sort_by(|a, b| {
            let order = |one: &PublicHost| {
                (host_order(&one.host.hostname), one.created.clone(), one.namespace.clone())
            };
            order(a).cmp(&order(b))
        });
    }
    gateways
}

fn add(config: &GatewayConfig, backends: &Backends<'_>, gateways: &mut Gateways) {
    let rules: Vec<Arc<Rule>> =
        config.spec.rules.iter().map(|rule| Arc::new(Rule::new(rule, &Builder(backends)))).collect();
    for port in &config.spec.ports {
        let Ok(number) = u16::try_from(port.router_port) else { continue };
        let protocol = match port.protocol.as_str() {
            "HTTP" => Protocol::Http,
            "TLS" => Protocol::Tls,
            "UDP" => Protocol::Udp,
            _ => Protocol::Tcp,
        };
        let listeners: Vec<Listener> =
            port.listeners.iter().map(|listener| build_listener(listener, &rules)).collect();
        for (listener, wanted) in listeners.iter().zip(&port.listeners) {
            let public = &mut gateways.public[usize::from(protocol == Protocol::Tls)];
            let hosts = listener.hosts.iter().zip(&wanted.hosts).filter(|(_, wanted)| wanted.public);
            public.extend(hosts.map(|(host, _)| PublicHost {
                namespace: config.metadata.namespace.clone().unwrap_or_default(),
                created: config.spec.created.clone(),
                certificates: listener.certificates.clone(),
                host: host.clone(),
            }));
        }
        // Two that have the same port by mistake: the first by name keeps it.
        let own = u16::try_from(port.port).unwrap_or_default();
        gateways.ports.entry(number).or_insert_with(|| Arc::new(Port { number: own, protocol, listeners }));
    }
}

fn build_listener(listener: &GatewayListener, rules: &[Arc<Rule>]) -> Listener {
    let host = |host: &GatewayHost| {
        let matches = host
            .matches
            .iter()
            .filter_map(|wanted| Some(Match::new(wanted, rules.get(wanted.rule)?.clone())));
        Arc::new(Host { hostname: host.hostname.clone(), matches: matches.collect() })
    };
    Listener {
        hostname: listener.hostname.clone(),
        mode: match listener.mode.as_str() {
            "HTTP" => Mode::Http,
            "Passthrough" => Mode::Passthrough,
            _ => Mode::Stream,
        },
        certificates: listener
            .certificates
            .iter()
            .chain(listener.clients.iter().flat_map(|clients| &clients.certificates))
            .map(|one| (one.namespace.clone(), one.name.clone()))
            .collect(),
        clients: listener.clients.as_ref().map(|wanted| {
            let GatewayClients { authorities, insecure_fallback, .. } = wanted.clone();
            Arc::new(Clients { authorities, insecure_fallback })
        }),
        hosts: listener.hosts.iter().map(host).collect(),
    }
}

struct Builder<'a>(&'a Backends<'a>);

impl Build for Builder<'_> {
    type Route = Route;

    fn route(
        &self,
        rule: &GatewayRule,
        backend: &GatewayBackend,
        timeout: Option<Duration>,
        treatment: Option<Arc<Treatment>>,
    ) -> Route {
        Route {
            host: rule.route.as_str().into(),
            path: String::new(),
            exact: false,
            strip: false,
            namespace: backend.target.namespace.as_str().into(),
            backend: service_backend(&backend.target, self.0),
            function: None,
            timeout,
            treatment,
        }
    }

    fn endpoints(&self, target: &GatewayTarget) -> Arc<[SocketAddr]> {
        service_backend(target, self.0).endpoints.unwrap_or_else(|_| [].into())
    }
}

/// Of a target that may not be named, or cannot be spoken to, no endpoint is known to anybody here.
fn service_backend(target: &GatewayTarget, backends: &Backends<'_>) -> Backend {
    let mut backend =
        backends.of_service(&target.namespace, &target.service, ServicePort::Number(target.port), target.udp);
    if target.problem.is_some() {
        backend.endpoints = Err(Problem::NotAService);
    }
    // What is not HTTP/1 is not to be looked into; and routes of a Service are for what pods send, not for a Gateway.
    if target.udp || target.h2c || target.tls.is_some() {
        return backend;
    }
    let place = (&*target.namespace, &*target.service, ServicePort::Number(target.port));
    backends.led(backend, place, |by| by == LedBy::VirtualService)
}

/// Certificates by port, the most specific host first.
pub fn certificates(gateways: &Gateways) -> BTreeMap<u16, Vec<(String, Vec<Name>)>> {
    let of = |port: &Port| {
        let shown = port.listeners.iter().filter(|listener| !listener.certificates.is_empty());
        shown.map(|listener| (listener.hostname.clone(), listener.certificates.clone())).collect()
    };
    gateways.ports.iter().map(|(number, port)| (*number, of(port))).collect()
}
