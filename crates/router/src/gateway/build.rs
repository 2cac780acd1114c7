//! From GatewayConfigs to what requests are looked up in.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use minik8s_meta::gateway::{
    GatewayBackend, GatewayConfig, GatewayFilters, GatewayHost, GatewayListener, GatewayMirror, GatewayRule,
    GatewayTarget, host_order,
};
use minik8s_meta::routing::{Port as ServicePort, Problem};

use super::matching::Match;
use super::split::Split;
use super::{Choice, Gateways, Host, Listener, Mirror, Mode, Port, Protocol, PublicHost, Rule, Treatment};
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
        config.spec.rules.iter().map(|rule| Arc::new(build_rule(rule, backends))).collect();
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
            .map(|one| (one.namespace.clone(), one.name.clone()))
            .collect(),
        hosts: listener.hosts.iter().map(host).collect(),
    }
}

fn build_rule(rule: &GatewayRule, backends: &Backends<'_>) -> Rule {
    let nobody = GatewayBackend {
        weight: 1,
        target: GatewayTarget {
            problem: Some("the rule has no backend".to_owned()),
            ..GatewayTarget::default()
        },
        ..GatewayBackend::default()
    };
    let weighs = |backend: &&GatewayBackend| backend.weight > 0;
    let mut chosen: Vec<&GatewayBackend> = rule.backends.iter().filter(weighs).collect();
    if chosen.is_empty() {
        chosen.push(&nobody);
    }
    let weights: Vec<u32> = chosen.iter().map(|backend| backend.weight).collect();
    let build = |is_treated: bool| -> Vec<Route> {
        chosen.iter().map(|backend| build_target(rule, backend, backends, is_treated)).collect()
    };
    let mut targets = build(false);
    let is_treated = targets.iter().any(|target| target.treatment.is_some());
    if is_treated {
        targets = build(true);
    }
    let first = targets.first().cloned();
    let choice = Arc::new(Choice { targets, split: Split::new(&weights) });
    let entry = first.filter(|_| is_treated).map(|first| {
        let treatment = Treatment { choice: Some(choice.clone()), ..Treatment::default() };
        Route { treatment: Some(Arc::new(treatment)), ..first }
    });
    Rule { choice, entry }
}

/// `is_treated`: also where there is nothing to do.
fn build_target(
    rule: &GatewayRule,
    backend: &GatewayBackend,
    backends: &Backends<'_>,
    is_treated: bool,
) -> Route {
    let target = &backend.target;
    let millis = |limit: Option<u64>| limit.map(Duration::from_millis);
    let (request, per_try) = (millis(rule.request_timeout_millis), millis(rule.backend_timeout_millis));
    let mirrors = rule.filters.mirrors.iter().chain(&backend.filters.mirrors);
    let without_mirrors =
        |filters: &GatewayFilters| GatewayFilters { mirrors: Vec::new(), ..filters.clone() };
    let treatment = Treatment {
        choice: None,
        filters: [without_mirrors(&rule.filters), without_mirrors(&backend.filters)],
        mirrors: mirrors.map(|mirror| build_mirror(mirror, backends)).collect(),
        prefix: None,
        h2c: target.h2c,
        tls: target.tls.clone(),
        problem: target.problem.clone(),
        request_timeout: request,
        retry: rule.retry.clone(),
    };
    let is_plain = treatment == Treatment { request_timeout: request, ..Treatment::default() };
    Route {
        host: rule.route.as_str().into(),
        path: String::new(),
        exact: false,
        strip: false,
        namespace: target.namespace.as_str().into(),
        backend: service_backend(target, backends),
        function: None,
        timeout: per_try.into_iter().chain(request).min(),
        treatment: (is_treated || !is_plain)
            .then(|| Arc::new(Treatment { prefix: rule.prefix.clone(), ..treatment })),
    }
}

fn build_mirror(mirror: &GatewayMirror, backends: &Backends<'_>) -> Mirror {
    Mirror {
        backend: service_backend(&mirror.target, backends),
        target: mirror.target.clone(),
        numerator: mirror.numerator,
        denominator: mirror.denominator,
    }
}

/// Of a target that may not be named, or cannot be spoken to, no endpoint is known to anybody here.
fn service_backend(target: &GatewayTarget, backends: &Backends<'_>) -> Backend {
    let mut backend =
        backends.of_service(&target.namespace, &target.service, ServicePort::Number(target.port), target.udp);
    if target.problem.is_some() {
        backend.endpoints = Err(Problem::NotAService);
    }
    backend
}

/// Certificates by port, the most specific host first.
pub fn certificates(gateways: &Gateways) -> BTreeMap<u16, Vec<(String, Vec<Name>)>> {
    let of = |port: &Port| {
        let shown = port.listeners.iter().filter(|listener| !listener.certificates.is_empty());
        shown.map(|listener| (listener.hostname.clone(), listener.certificates.clone())).collect()
    };
    gateways.ports.iter().map(|(number, port)| (*number, of(port))).collect()
}
