//! From a Gateway and the routes that want to be part of it to what routers do: `(Gateway, View) → Compiled`. Pure.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{DefaultHasher, Hash, Hasher};

use minik8s_meta::gateway::{
    CertificateRef, GatewayBackend, GatewayConfigSpec, GatewayHost, GatewayListener, GatewayMatch,
    GatewayPort, GatewayRule, host_order,
};
use minik8s_runtime::{Key, key_of};

use crate::attach::{Parent, attach, parent};
use crate::backends::{filters, target};
use crate::condition::Problem;
use crate::kinds::{Gateway, ListenerSet};
use crate::listeners::{Judged, backend_certificate, family, judge, lets_in};
use crate::public::PublicHosts;
use crate::route::{Ranked, Route, Rule};
use crate::view::View;

/// What became of a Gateway.
#[derive(Debug)]
pub struct Compiled<'a> {
    pub listeners: Vec<Judged<'a>>,
    /// How many routes each of them has.
    pub attached: Vec<i32>,
    /// Sets that the Gateway does not let in.
    pub refused: Vec<&'a ListenerSet>,
    pub spec: GatewayConfigSpec,
    /// Whether it has what it is to show to backends; None: nothing.
    pub backend_certificate: Option<Result<(), Problem>>,
}

/// Which requests a listener's routes want, by host.
pub type Wants<'r> = BTreeMap<(usize, String), Vec<Want<'r>>>;

pub struct Want<'r> {
    pub ranked: &'r Ranked,
    /// Route, rule and match by their numbers, in the order in which equals are tried.
    pub order: (usize, usize, usize),
}

/// `router_port` says where routers answer for a port (and whether it is UDP).
pub fn compile<'a>(
    gateway: &'a Gateway,
    view: &'a View,
    mut router_port: impl FnMut(i32, bool) -> i32,
) -> Compiled<'a> {
    let (sets, refused): (Vec<_>, Vec<_>) =
        view.sets_of(gateway).into_iter().partition(|set| lets_in(gateway, set, view));
    let listeners = judge(gateway, &sets, view);
    let routes = view.routes();
    let (attached, wants) = attach_all(gateway, &routes, &listeners, view);
    let (hosts, mut rules) = order(&routes, wants, view);
    let backend_certificate = backend_certificate(gateway, view);
    if let Some(certificate) = &backend_certificate {
        show(certificate, &mut rules);
    }
    let public = PublicHosts::new(gateway, view);
    let mut ports: BTreeMap<(i32, bool), GatewayPort> = BTreeMap::new();
    for (number, judged) in listeners.iter().enumerate().filter(|(_, judged)| judged.is_served()) {
        let listener = judged.listener;
        let place = (listener.port, listener.protocol == "UDP");
        let port = ports.entry(place).or_insert_with(|| GatewayPort {
            port: listener.port,
            router_port: router_port(place.0, place.1),
            protocol: family(&listener.protocol).to_owned(),
            listeners: Vec::new(),
        });
        let mut of_listener: Vec<GatewayHost> = hosts.get(&number).cloned().unwrap_or_default();
        for host in &mut of_listener {
            host.public = public.has(judged, &host.hostname);
        }
        port.listeners.push(GatewayListener {
            hostname: listener.hostname.clone().unwrap_or_default(),
            mode: mode(judged).to_owned(),
            certificates: judged.certificates.clone(),
            clients: judged.clients.clone(),
            hosts: of_listener,
        });
    }
    for port in ports.values_mut() {
        port.listeners.sort_by_key(|listener| host_order(&listener.hostname));
    }
    let created = gateway.metadata.creation_timestamp.as_ref().map(|time| time.0.to_string());
    let ports: Vec<GatewayPort> = ports.into_values().collect();
    let spec =
        GatewayConfigSpec { revision: revision(&ports), created: created.unwrap_or_default(), ports, rules };
    let backend_certificate = backend_certificate.map(|found| found.map(drop));
    Compiled { attached, refused, spec, listeners, backend_certificate }
}

/// Backends with TLS are shown the certificate. Without one that can be used nothing is sent to them: nobody may think that
/// the Gateway says who it is where it does not.
fn show(certificate: &Result<CertificateRef, Problem>, rules: &mut [GatewayRule]) {
    for backend in rules.iter_mut().flat_map(|rule| &mut rule.backends) {
        let target = &mut backend.target;
        let Some(tls) = &mut target.tls else { continue };
        match certificate {
            Ok(certificate) => tls.certificate = Some(certificate.clone()),
            Err(problem) => {
                let text = format!("the Gateway's certificate for backends: {}", problem.message);
                target.problem.get_or_insert(text);
            }
        }
    }
}

/// Of listeners and their ports, whatever routes they have: a Gateway does not cease to be programmed when a route comes.
fn revision(ports: &[GatewayPort]) -> String {
    let mut ports = ports.to_vec();
    ports.iter_mut().flat_map(|port| &mut port.listeners).for_each(|listener| listener.hosts.clear());
    let mut hasher = DefaultHasher::new();
    serde_json::to_string(&ports).unwrap_or_default().hash(&mut hasher);
    format!("{:016x}", hasher.finish())
}

fn mode(judged: &Judged<'_>) -> &'static str {
    match judged.listener.protocol.as_str() {
        "HTTP" | "HTTPS" => "HTTP",
        "TLS" if judged.is_passthrough() => "Passthrough",
        _ => "Stream",
    }
}

/// How many routes each listener has, and what they want.
fn attach_all<'r>(
    gateway: &Gateway,
    routes: &'r [Route<'_>],
    listeners: &[Judged<'_>],
    view: &View,
) -> (Vec<i32>, Wants<'r>) {
    let key = key_of(gateway);
    let sets: BTreeSet<Key> = listeners.iter().filter_map(|judged| judged.set).map(key_of).collect();
    let (mut counts, mut wants) = (vec![0; listeners.len()], Wants::new());
    for (number, route) in routes.iter().enumerate() {
        let mut places: BTreeMap<usize, BTreeSet<String>> = BTreeMap::new();
        for reference in route.parents {
            let set = match parent(reference, route.namespace()) {
                Parent::Gateway(named) if named == key => None,
                Parent::ListenerSet(named) if sets.contains(&named) => Some(named),
                _ => continue,
            };
            for attached in attach(route, reference, set.as_ref(), listeners, view).into_iter().flatten() {
                places.entry(attached.listener).or_default().extend(attached.hosts);
            }
        }
        for (listener, hosts) in places {
            counts[listener] += 1;
            for host in hosts {
                let wanted = wants.entry((listener, host)).or_default();
                wanted.extend(route.rules.iter().enumerate().flat_map(|(rule, of_rule)| {
                    let matches = of_rule.matches.iter().enumerate();
                    matches.map(move |(place, ranked)| Want { ranked, order: (number, rule, place) })
                }));
            }
        }
    }
    (counts, wants)
}

/// Matches in the order in which they are tried, by listener and host, and the rules that they lead to.
pub fn order(
    routes: &[Route<'_>],
    wants: Wants<'_>,
    view: &View,
) -> (BTreeMap<usize, Vec<GatewayHost>>, Vec<GatewayRule>) {
    let mut numbers: BTreeMap<(usize, usize), usize> = BTreeMap::new();
    let mut rules = Vec::new();
    let mut hosts: BTreeMap<usize, Vec<GatewayHost>> = BTreeMap::new();
    for ((listener, hostname), mut wanted) in wants {
        wanted.sort_by_key(|want| std::cmp::Reverse(precedence(want)));
        let matches = wanted.iter().map(|want| {
            let (route, rule, _) = want.order;
            let number = *numbers.entry((route, rule)).or_insert_with(|| {
                rules.push(compile_rule(&routes[route], &routes[route].rules[rule], view).0);
                rules.len() - 1
            });
            GatewayMatch { rule: number, ..want.ranked.wanted.clone() }
        });
        let host = GatewayHost { hostname, public: false, matches: matches.collect() };
        hosts.entry(listener).or_default().push(host);
    }
    for of_listener in hosts.values_mut() {
        of_listener.sort_by_key(|host| host_order(&host.hostname));
    }
    (hosts, rules)
}

/// The Gateway API's order: path, method, headers, query, then who was first.
fn precedence(want: &Want<'_>) -> impl Ord + use<> {
    let wanted = &want.ranked.wanted;
    let first = std::cmp::Reverse(want.order);
    (want.ranked.rank, wanted.method.is_some(), wanted.headers.len(), wanted.query.len(), first)
}

/// What routers do with requests of a rule, and what is missing.
pub fn compile_rule(route: &Route<'_>, rule: &Rule<'_>, view: &View) -> (GatewayRule, Vec<Problem>) {
    let mut problems = Vec::new();
    let of_all = filters(rule.filters, route, view, &mut problems);
    let broken = problems.iter().find(|problem| problem.reason == "InvalidKind").cloned();
    let mut backends = Vec::new();
    for (backend, own) in &rule.backends {
        let (mut target, problem) = target(&backend.object, route, view);
        let mut own_problems = Vec::new();
        let filters = filters(own, route, view, &mut own_problems);
        let stops = broken.iter().chain(own_problems.iter().filter(|p| p.reason == "InvalidKind")).next();
        if let Some(problem) = stops {
            target.problem.get_or_insert_with(|| problem.message.clone());
        }
        problems.extend(problem.into_iter().chain(own_problems));
        let weight = backend.weight.unwrap_or(1);
        backends.push(GatewayBackend { weight: u32::try_from(weight).unwrap_or_default(), target, filters });
    }
    let prefix = match rule.matches.as_slice() {
        [one] => {
            one.wanted.path.as_ref().filter(|path| path.kind == "PathPrefix").map(|path| path.value.clone())
        }
        _ => None,
    };
    let millis = |timeout: std::time::Duration| u64::try_from(timeout.as_millis()).unwrap_or(u64::MAX);
    let compiled = GatewayRule {
        route: route.shown(),
        prefix,
        filters: of_all,
        backends,
        request_timeout_millis: rule.request_timeout.map(millis),
        backend_timeout_millis: rule.backend_timeout.map(millis),
        retry: rule.retry.clone(),
    };
    (compiled, problems)
}
