//! Routes whose parent is a Service (GAMMA): what the mesh does with requests to it. `(Service, View) → ServiceRoute`.
//!
//! A route of the Service's own namespace is for all clients (a producer's), one of another namespace for the clients of
//! that namespace alone, and in place of the producer's (a consumer's). Hosts that routes name do not matter: whoever
//! calls the Service's address means the Service.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1::{Namespace, Service};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use k8s_openapi::jiff::Timestamp;
use minik8s_meta::gateway::{RouteClients, ServiceRoute, ServiceRoutePort, ServiceRouteSpec};
use minik8s_runtime::{Action, Caches, Controller, Key, Plan, Watches, key_of, owner_reference};

use crate::attach::{Parent, parent};
use crate::compile::{Want, Wants, order};
use crate::condition::Problem;
use crate::controller::needs;
use crate::kinds::{
    BackendTlsPolicy, Gateway, GatewayClass, GrpcRoute, HttpRoute, ListenerSet, ParentReference,
    ReferenceGrant,
};
use crate::route::{Route, RouteKind, RouteObject};
use crate::view::View;

pub struct ServiceRouteController;

pub struct Observed {
    service: Arc<Service>,
    view: View,
    known: Option<Arc<ServiceRoute>>,
}

impl Controller for ServiceRouteController {
    type Key = Key;
    type Observed = Observed;

    fn name(&self) -> &'static str {
        "service-route-controller"
    }

    fn watch(&self, watches: &Watches<Key>) {
        watches.own::<ServiceRoute>();
        watches.on::<HttpRoute>(|_, one| one.route().services());
        watches.on::<GrpcRoute>(|_, one| one.route().services());
        watches.on::<ReferenceGrant>(|caches, _| parents(caches, |_| true));
        watches.on::<BackendTlsPolicy>(|caches, _| parents(caches, |_| true));
        watches.on::<Service>(|caches, service| {
            let key = key_of(service);
            let names = |route: &Route<'_>| {
                route.services().contains(&key) || route.backends().any(|backend| backend == key)
            };
            parents(caches, names)
        });
        watches.needs::<GatewayClass>();
        watches.needs::<Gateway>();
        watches.needs::<ListenerSet>();
        watches.needs::<Namespace>();
        needs(watches);
    }

    fn observe(&self, caches: &Caches, key: &Key) -> Option<Observed> {
        let service = caches.of::<Service>().get(key)?;
        Some(Observed { service, view: View::of(caches), known: caches.of::<ServiceRoute>().get(key) })
    }

    fn plan(&self, seen: &Observed, _: Timestamp) -> Plan {
        let mut plan = Plan::default();
        if seen.service.metadata.deletion_timestamp.is_some() {
            return plan;
        }
        let spec = compile(&seen.service, &seen.view);
        match &seen.known {
            Some(known) if spec.ports.is_empty() => plan.act(Action::delete(&**known)),
            Some(known) if known.spec == spec => {}
            Some(known) => plan.act(Action::update(&ServiceRoute { spec, ..ServiceRoute::clone(known) })),
            None if spec.ports.is_empty() => {}
            None => plan.act(Action::create(&ServiceRoute {
                metadata: ObjectMeta {
                    name: seen.service.metadata.name.clone(),
                    namespace: seen.service.metadata.namespace.clone(),
                    owner_references: Some(vec![owner_reference(&*seen.service)]),
                    ..ObjectMeta::default()
                },
                spec,
                ..ServiceRoute::default()
            })),
        }
        plan
    }
}

/// Services that are parents of such routes.
fn parents(caches: &Caches, wanted: impl Fn(&Route<'_>) -> bool) -> Vec<Key> {
    let (http, grpc) = (caches.of::<HttpRoute>().list(), caches.of::<GrpcRoute>().list());
    let routes = http.iter().map(|one| one.route()).chain(grpc.iter().map(|one| one.route()));
    routes.filter(|route| wanted(route)).flat_map(|route| route.services()).collect()
}

/// Whether the mesh takes a route; None if its parent is no Service, or of a kind that cannot have one.
pub fn accepted(route: &Route<'_>, reference: &ParentReference, view: &View) -> Option<Result<(), Problem>> {
    let Parent::Service(key) = parent(reference, route.namespace()) else { return None };
    let Some(service) = view.services.get(&key) else {
        return Some(Err(Problem::new("NoMatchingParent", format!("Service {key} does not exist"))));
    };
    if let Some(section) = &reference.section_name {
        let text = format!("sectionName {section} means nothing of a Service: name its port");
        return Some(Err(Problem::new("NoMatchingParent", text)));
    }
    if ports(service, reference).is_empty() {
        let port = reference.port.map(|port| format!(" {port}")).unwrap_or_default();
        return Some(Err(Problem::new("NoMatchingParent", format!("Service {key} has no TCP port{port}"))));
    }
    Some(Ok(()))
}

/// Whether every running proxy routes by it as it is now.
pub fn programmed(route: &Route<'_>, reference: &ParentReference, view: &View) -> Result<(), Problem> {
    let pending = |text: String| Err(Problem::new("Pending", text));
    let Parent::Service(key) = parent(reference, route.namespace()) else {
        return pending("its parent is no Service".to_owned());
    };
    if accepted(route, reference, view).is_none_or(|accepted| accepted.is_err()) {
        return Err(Problem::new("Invalid", "it is not accepted"));
    }
    let wanted = view.services.get(&key).map(|service| compile(service, view));
    let known = view.service_routes.get(&key).filter(|known| Some(&known.spec) == wanted.as_ref());
    let status = known.and_then(|known| {
        let status = known.status.as_ref()?;
        (status.observed_generation == known.metadata.generation).then_some(status)
    });
    let Some(status) = status else { return pending("the mesh is not told yet".to_owned()) };
    if let Some(problem) = &status.problem {
        return Err(Problem::new("Invalid", problem.clone()));
    }
    let proxies = &status.proxies;
    if proxies.applied == proxies.total {
        return Ok(());
    }
    let names: Vec<String> =
        proxies.waiting_for.iter().map(|one| format!("{} on {}", one.pod, one.node)).collect();
    let (applied, total) = (proxies.applied, proxies.total);
    pending(format!("{applied} of {total} proxies route by it; waiting for {}", names.join(", ")))
}

/// Those that a route is about.
fn ports(service: &Service, reference: &ParentReference) -> Vec<i32> {
    let all = service.spec.as_ref().and_then(|spec| spec.ports.as_ref()).into_iter().flatten();
    let is_tcp = all.filter(|port| matches!(port.protocol.as_deref(), None | Some("" | "TCP")));
    is_tcp.map(|port| port.port).filter(|port| reference.port.is_none_or(|one| one == *port)).collect()
}

fn compile(service: &Service, view: &View) -> ServiceRouteSpec {
    let key = key_of(service);
    let mut routes = view.routes();
    routes.retain(|route| matches!(route.kind, RouteKind::Http | RouteKind::Grpc));
    // By port and the clients' namespace, with a number for each.
    let mut places: BTreeMap<(i32, String), usize> = BTreeMap::new();
    let mut wants = Wants::new();
    for (number, route) in routes.iter().enumerate() {
        for reference in route.parents {
            if parent(reference, route.namespace()) != Parent::Service(key.clone())
                || accepted(route, reference, view).is_none_or(|accepted| accepted.is_err())
            {
                continue;
            }
            let own = route.namespace() == key.namespace;
            let namespace = if own { String::new() } else { route.namespace().to_owned() };
            for port in ports(service, reference) {
                let next = places.len();
                let place = *places.entry((port, namespace.clone())).or_insert(next);
                let wanted = wants.entry((place, String::new())).or_default();
                wanted.extend(route.rules.iter().enumerate().flat_map(|(rule, of_rule)| {
                    let matches = of_rule.matches.iter().enumerate();
                    matches.map(move |(place, ranked)| Want { ranked, order: (number, rule, place) })
                }));
            }
        }
    }
    let (mut hosts, rules) = order(&routes, wants, view);
    let mut ports: BTreeMap<i32, ServiceRoutePort> = BTreeMap::new();
    for ((port, namespace), place) in places {
        let of_place = hosts.remove(&place).unwrap_or_default();
        let matches = of_place.into_iter().flat_map(|host| host.matches).collect();
        let known = ports.entry(port).or_insert_with(|| ServiceRoutePort { port, clients: Vec::new() });
        known.clients.push(RouteClients { namespace, matches });
    }
    ServiceRouteSpec { ports: ports.into_values().collect(), rules }
}

#[cfg(test)]
mod tests {
    use minik8s_runtime::testing::{Simulation, World, check_convergence};
    use serde_json::{Value, json};

    use super::*;
    use crate::controller::RouteController;

    fn from<T: serde::de::DeserializeOwned>(value: Value) -> T {
        serde_json::from_value(value).unwrap()
    }

    fn world() -> World {
        let mut world = World::default();
        for name in ["echo", "echo-v1"] {
            world
                .insert::<Service>(&from(json!({"metadata": {"name": name, "namespace": "ns", "uid": name},
                "spec": {"clusterIP": "10.96.0.5", "ports": [{"port": 80}, {"name": "b", "port": 8080}]}})));
        }
        let route = |namespace: &str, name: &str, port: Value, path: &str| {
            from::<HttpRoute>(
                json!({"metadata": {"name": name, "namespace": namespace, "uid": name, "generation": 1},
                "spec": {"hostnames": ["no.matter"],
                    "parentRefs": [{"group": "", "kind": "Service", "namespace": "ns", "name": "echo", "port": port}],
                    "rules": [{"matches": [{"path": {"type": "PathPrefix", "value": path}}],
                        "backendRefs": [{"name": "echo-v1", "namespace": "ns", "port": 8080}]}]}}),
            )
        };
        world.insert(&route("ns", "long", json!(null), "/long"));
        world.insert(&route("ns", "exact", json!(80), "/"));
        world.insert(&route("other", "consumer", json!(80), "/own"));
        world
    }

    #[test]
    fn routes_of_a_service_are_by_port_and_client() {
        let build = || Simulation::new(world()).with(ServiceRouteController);
        check_convergence(build, |simulation| {
            let made: ServiceRoute = simulation.world.get(&Key::new("ns", "echo")).unwrap();
            let path = |found: &minik8s_meta::gateway::GatewayMatch| {
                found.path.as_ref().map_or("*".to_owned(), |path| path.value.clone())
            };
            let shown: Vec<String> = made
                .spec
                .ports
                .iter()
                .flat_map(|port| port.clients.iter().map(move |one| (port.port, one)))
                .map(|(port, one)| {
                    let paths: Vec<String> = one.matches.iter().map(path).collect();
                    format!("{port} {:?} {}", one.namespace, paths.join(" "))
                })
                .collect();
            assert_eq!(shown, ["80 \"\" /long *", "80 \"other\" /own", "8080 \"\" /long"]);
            let problem = |route: &str| {
                let rule = made.spec.rules.iter().find(|rule| rule.route.contains(route)).unwrap();
                rule.backends[0].target.problem.clone()
            };
            assert_eq!(problem("ns/long"), None);
            assert!(
                problem("other/consumer").unwrap().contains("ReferenceGrant"),
                "another namespace's Service"
            );
        });
        let mut simulation = build();
        simulation.settle().unwrap();
        for (namespace, name) in [("ns", "long"), ("ns", "exact"), ("other", "consumer")] {
            simulation.world.erase::<HttpRoute>(&Key::new(namespace, name));
        }
        simulation.settle().unwrap();
        assert!(simulation.world.get::<ServiceRoute>(&Key::new("ns", "echo")).is_none());
    }

    /// A consumer leads its own clients to where they were going; whoever lets others in needs a grant.
    #[test]
    fn consumer_route_needs_no_grant_for_its_own_parent() {
        let mut view = View::default();
        let service: k8s_openapi::api::core::v1::Service =
            from(json!({"metadata": {"name": "echo", "namespace": "ns"}, "spec": {"ports": [{"port": 80}]}}));
        view.services.insert(Key::new("ns", "echo"), Arc::new(service));
        let parent = json!({"group": "", "kind": "Service", "namespace": "ns", "name": "echo"});
        let check = |parents: Value, expected: Option<&str>| {
            let route: HttpRoute = from(json!({"metadata": {"name": "r", "namespace": "other"},
                "spec": {"parentRefs": parents,
                    "rules": [{"backendRefs": [{"name": "echo", "namespace": "ns", "port": 80}]}]}}));
            let route = route.route();
            let found = crate::backends::target(&route.rules[0].backends[0].0.object, &route, &view).1;
            assert_eq!(found.map(|problem| problem.reason), expected, "{parents}");
        };
        check(json!([parent]), None);
        check(json!([parent, {"name": "gateway"}]), Some("RefNotPermitted"));
        check(json!([{"name": "gateway"}]), Some("RefNotPermitted"));
        check(json!([{"group": "", "kind": "Service", "name": "echo"}]), Some("RefNotPermitted"));
    }

    #[test]
    fn route_is_programmed_when_every_proxy_has_it() {
        let controller = RouteController::<HttpRoute>::new("http-route-controller", true);
        let mut simulation = Simulation::new(world()).with(ServiceRouteController).with(controller);
        let key = Key::new("ns", "echo");
        let told = |simulation: &mut Simulation| {
            simulation.settle().unwrap();
            let route: HttpRoute = simulation.world.get(&Key::new("ns", "long")).unwrap();
            let conditions = &route.status.as_ref().unwrap().parents[0].conditions;
            let found = conditions.iter().find(|one| one.type_ == "minik8s.io/Programmed").unwrap();
            (found.status.clone(), found.message.clone())
        };
        assert_eq!(told(&mut simulation), ("False".to_owned(), "the mesh is not told yet".to_owned()));
        let report = |simulation: &mut Simulation, applied: i32, waiting: Value| {
            simulation.world.change::<ServiceRoute>(&key, |one| {
                let proxies = json!({"total": 2, "applied": applied, "waitingFor": waiting});
                let generation = one.metadata.generation;
                one.status = Some(from(json!({"observedGeneration": generation, "proxies": proxies})));
            });
        };
        report(&mut simulation, 1, json!([{"pod": "ns/a", "node": "n"}]));
        let text = "1 of 2 proxies route by it; waiting for ns/a on n";
        assert_eq!(told(&mut simulation), ("False".to_owned(), text.to_owned()));
        report(&mut simulation, 2, json!([]));
        assert_eq!(told(&mut simulation).0, "True");
        // Of what it was before.
        simulation.world.change::<HttpRoute>(&Key::new("ns", "long"), |one| {
            one.spec.rules[0].backend_refs.clear();
        });
        assert_eq!(told(&mut simulation), ("False".to_owned(), "the mesh is not told yet".to_owned()));
    }

    #[test]
    fn parents_that_are_not_there_are_told() {
        let check = |reference: Value, expected: Option<&str>| {
            let route: HttpRoute = from(json!({"metadata": {"name": "r", "namespace": "ns"},
                "spec": {"parentRefs": [reference]}}));
            let mut view = View::default();
            let service = from(json!({"metadata": {"name": "echo", "namespace": "ns"},
                "spec": {"ports": [{"port": 80}, {"port": 53, "protocol": "UDP"}]}}));
            view.services.insert(Key::new("ns", "echo"), Arc::new(service));
            let route = route.route();
            let found = accepted(&route, &route.parents[0], &view).unwrap();
            assert_eq!(found.err().map(|problem| problem.message).as_deref(), expected);
        };
        let to = |name: &str, more: Value| {
            let mut all = json!({"group": "", "kind": "Service", "name": name});
            all.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            all
        };
        check(to("echo", json!({})), None);
        check(to("echo", json!({"port": 80})), None);
        check(to("echo", json!({"port": 53})), Some("Service ns/echo has no TCP port 53"));
        check(to("nobody", json!({})), Some("Service ns/nobody does not exist"));
    }
}
