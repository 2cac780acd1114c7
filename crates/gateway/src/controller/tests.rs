//! The controllers in a world in memory.

use k8s_openapi::api::core::v1::{Namespace, Node, Service};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use minik8s_meta::gateway::{GatewayAck, GatewayConfig};
use minik8s_runtime::Key;
use minik8s_runtime::testing::{Simulation, World, check_convergence};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::{ClassController, GatewayController, PolicyController, RouteController};
use crate::kinds::{
    BackendTlsPolicy, CONTROLLER, GROUP, Gateway, GatewayClass, HttpRoute, ListenerSet, ReferenceGrant,
};

fn from<T: DeserializeOwned>(value: Value) -> T {
    serde_json::from_value(value).unwrap()
}

fn gateway(name: &str, created: &str, listeners: Value) -> Gateway {
    from(json!({
        "metadata": {"name": name, "namespace": "infra", "uid": name, "generation": 1, "creationTimestamp": created},
        "spec": {"gatewayClassName": "minik8s", "listeners": listeners},
    }))
}

fn route(namespace: &str, name: &str, spec: Value) -> HttpRoute {
    let meta = json!({"name": name, "namespace": namespace, "uid": name, "generation": 1,
        "creationTimestamp": "2026-01-01T00:00:00Z"});
    from(json!({"metadata": meta, "spec": spec}))
}

/// A class, a node, two namespaces with a Service each.
fn world() -> World {
    let mut world = World::default();
    world.insert::<GatewayClass>(&from(json!({"metadata": {"name": "minik8s", "uid": "c", "generation": 1},
        "spec": {"controllerName": CONTROLLER}})));
    world.insert::<Node>(&from(json!({"metadata": {"name": "n1"}, "status": {
        "conditions": [{"type": "Ready", "status": "True"}],
        "addresses": [{"type": "InternalIP", "address": "192.0.2.1"}]}})));
    for name in ["infra", "web"] {
        world.insert::<Namespace>(&from(json!({"metadata": {"name": name, "labels": {"team": name}}})));
        world.insert::<Service>(&from(
            json!({"metadata": {"name": "api", "namespace": name, "uid": format!("s-{name}")},
            "spec": {"clusterIP": "10.96.0.9", "ports": [{"port": 80}]}}),
        ));
    }
    world
}

fn simulation(world: World) -> Simulation {
    Simulation::new(world)
        .with(ClassController)
        .with(GatewayController)
        .with(RouteController::<HttpRoute>::new("http-route-controller", false))
}

fn condition<'c>(conditions: &'c [Condition], kind: &str) -> (&'c str, &'c str) {
    let found = conditions.iter().find(|condition| condition.type_ == kind).unwrap();
    (found.status.as_str(), found.reason.as_str())
}

const EARLY: &str = "2026-01-01T00:00:00Z";

fn http(allowed: Value) -> Value {
    json!([{"name": "http", "port": 80, "protocol": "HTTP", "allowedRoutes": {"namespaces": allowed}}])
}

fn parent_of_infra() -> Value {
    json!([{"group": GROUP, "kind": "Gateway", "namespace": "infra", "name": "g"}])
}

#[test]
fn gateway_gets_service_slice_and_configuration() {
    let build = || {
        let mut world = world();
        world.insert(&gateway("g", EARLY, http(json!({"from": "Same"}))));
        let spec = json!({"parentRefs": parent_of_infra(), "hostnames": ["shop.example"],
            "rules": [{"backendRefs": [{"name": "api", "port": 80, "weight": 1}]}]});
        world.insert(&route("infra", "r", spec));
        simulation(world)
    };
    check_convergence(build, |simulation| {
        let service: Service = simulation.world.get(&Key::new("infra", "g-minik8s")).unwrap();
        let config: GatewayConfig = simulation.world.get(&Key::new("infra", "g")).unwrap();
        let router_port = config.spec.ports[0].router_port;
        let port = &service.spec.as_ref().unwrap().ports.as_ref().unwrap()[0];
        assert_eq!((port.port, config.spec.ports[0].port), (80, 80));
        let slice: EndpointSlice = simulation.world.get(&Key::new("infra", "g-minik8s")).unwrap();
        assert_eq!(slice.ports.unwrap()[0].port, Some(router_port));
        assert_eq!(slice.endpoints.unwrap()[0].addresses, ["192.0.2.1"]);
        let host = &config.spec.ports[0].listeners[0].hosts[0];
        assert_eq!((host.hostname.as_str(), host.public), ("shop.example", true));
        assert_eq!(config.spec.rules[0].backends[0].target.service, "api");
        let gateway: Gateway = simulation.world.get(&Key::new("infra", "g")).unwrap();
        let status = gateway.status.unwrap();
        assert_eq!(condition(&status.conditions, "Accepted"), ("True", "Accepted"));
        assert_eq!(status.listeners[0].attached_routes, 1);
        let route: HttpRoute = simulation.world.get(&Key::new("infra", "r")).unwrap();
        let parent = &route.status.unwrap().parents[0];
        assert_eq!(condition(&parent.conditions, "Accepted"), ("True", "Accepted"));
        assert_eq!(condition(&parent.conditions, "ResolvedRefs"), ("True", "ResolvedRefs"));
        let class: GatewayClass = simulation.world.get(&Key::new("", "minik8s")).unwrap();
        assert_eq!(condition(&class.status.unwrap().conditions, "Accepted"), ("True", "Accepted"));
    });
}

/// By the word of every ready node, about the listeners as they are.
#[test]
fn gateway_is_programmed_when_every_node_answers() {
    let mut world = world();
    let listeners = json!([{"name": "http", "port": 80, "protocol": "HTTP"}, {"name": "tcp", "port": 90, "protocol": "TCP"}]);
    world.insert(&gateway("g", EARLY, listeners));
    let mut simulation = simulation(world);
    let key = Key::new("infra", "g");
    let told = |simulation: &mut Simulation| -> Vec<(String, String)> {
        simulation.settle().unwrap();
        let status = simulation.world.get::<Gateway>(&key).unwrap().status.unwrap();
        let listeners = status.listeners.iter().map(|one| &one.conditions);
        let found = [&status.conditions].into_iter().chain(listeners).map(|conditions| {
            let found = conditions.iter().find(|one| one.type_ == "Programmed").unwrap();
            (found.status.clone(), found.message.clone())
        });
        found.collect()
    };
    let all = |status: &str, message: &str| vec![(status.to_owned(), message.to_owned()); 3];
    let waiting = "nodes that do not answer for it yet: n1";
    simulation.settle().unwrap();
    simulation.world.change::<Service>(&Key::new("infra", "g-minik8s"), |service| {
        service.spec.get_or_insert_default().cluster_ip = Some("10.96.0.7".to_owned());
    });
    assert_eq!(told(&mut simulation), all("False", waiting));
    let config: GatewayConfig = simulation.world.get(&key).unwrap();
    let uid = config.metadata.uid.clone().unwrap();
    let ack = |node: &str, revision: &str, problems: Value| -> GatewayAck {
        from(json!({"metadata": {"name": format!("{uid}.{node}"), "namespace": "infra"},
            "spec": {"gateway": "g", "revision": revision, "problems": problems}}))
    };
    simulation.world.insert(&ack("n1", "another", json!([])));
    simulation.world.insert(&ack("n2", &config.spec.revision, json!([])));
    assert_eq!(told(&mut simulation), all("False", waiting), "of what was before, and of another node");
    let port = config.spec.ports.iter().find(|port| port.port == 90).unwrap().router_port;
    let problems = json!([{"routerPort": port, "message": "cannot listen on port 25000 (taken)"}]);
    simulation.world.erase::<GatewayAck>(&Key::new("infra", format!("{uid}.n1")));
    simulation.world.insert(&ack("n1", &config.spec.revision, problems));
    let taken = ("False".to_owned(), "node n1: cannot listen on port 25000 (taken)".to_owned());
    let fine = ("True".to_owned(), String::new());
    assert_eq!(told(&mut simulation), [taken.clone(), fine, taken]);
    simulation
        .world
        .change::<GatewayAck>(&Key::new("infra", format!("{uid}.n1")), |ack| ack.spec.problems.clear());
    assert_eq!(told(&mut simulation), all("True", ""));
    // A route changes nothing about listeners, another host does.
    let spec =
        json!({"parentRefs": parent_of_infra(), "rules": [{"backendRefs": [{"name": "api", "port": 80}]}]});
    simulation.world.insert(&route("infra", "r", spec));
    assert_eq!(told(&mut simulation), all("True", ""));
    simulation
        .world
        .change::<Gateway>(&key, |one| one.spec.listeners[0].hostname = Some("a.example".to_owned()));
    assert_eq!(told(&mut simulation), all("False", waiting));
}

/// Who may attach, and who may refer to whom.
#[test]
fn route_of_another_namespace_attaches_and_refers_only_where_it_may() {
    let check =
        |allowed: Value, backend: Value, grant: bool, accepted: (&str, &str), resolved: (&str, &str)| {
            let mut world = world();
            world.insert(&gateway("g", EARLY, http(allowed.clone())));
            let spec = json!({"parentRefs": parent_of_infra(), "rules": [{"backendRefs": [backend]}]});
            world.insert(&route("web", "r", spec));
            if grant {
                world.insert::<ReferenceGrant>(&from(
                    json!({"metadata": {"name": "x", "namespace": "infra"}, "spec": {
                "from": [{"group": GROUP, "kind": "HTTPRoute", "namespace": "web"}],
                "to": [{"group": "", "kind": "Service"}]}}),
                ));
            }
            let mut simulation = simulation(world);
            simulation.settle().unwrap();
            let route: HttpRoute = simulation.world.get(&Key::new("web", "r")).unwrap();
            let parent = &route.status.unwrap().parents[0];
            assert_eq!(condition(&parent.conditions, "Accepted"), accepted, "{allowed} {backend}");
            assert_eq!(condition(&parent.conditions, "ResolvedRefs"), resolved, "{allowed} {backend}");
            let config: GatewayConfig = simulation.world.get(&Key::new("infra", "g")).unwrap();
            let has_rule = accepted.0 == "True";
            assert_eq!(!config.spec.rules.is_empty(), has_rule, "{allowed} {backend}");
            if has_rule {
                let is_broken = config.spec.rules[0].backends[0].target.problem.is_some();
                assert_eq!(is_broken, resolved.0 == "False", "{allowed} {backend}");
            }
        };
    let own = || json!({"name": "api", "port": 80});
    let foreign = || json!({"name": "api", "namespace": "infra", "port": 80});
    let (yes, good) = (("True", "Accepted"), ("True", "ResolvedRefs"));
    let refused = ("False", "NotAllowedByListeners");
    check(json!({"from": "Same"}), own(), false, refused, good);
    check(json!({"from": "All"}), own(), false, yes, good);
    check(json!({"from": "Selector", "selector": {"matchLabels": {"team": "web"}}}), own(), false, yes, good);
    check(
        json!({"from": "Selector", "selector": {"matchLabels": {"team": "infra"}}}),
        own(),
        false,
        refused,
        good,
    );
    check(json!({"from": "None"}), own(), false, refused, good);
    check(json!({"from": "All"}), foreign(), false, yes, ("False", "RefNotPermitted"));
    check(json!({"from": "All"}), foreign(), true, yes, good);
    check(
        json!({"from": "All"}),
        json!({"name": "gone", "port": 80}),
        false,
        yes,
        ("False", "BackendNotFound"),
    );
    check(
        json!({"from": "All"}),
        json!({"name": "api", "port": 81}),
        false,
        yes,
        ("False", "BackendNotFound"),
    );
    check(
        json!({"from": "All"}),
        json!({"kind": "Bucket", "group": "x.io", "name": "b"}),
        false,
        yes,
        ("False", "InvalidKind"),
    );
}

#[test]
fn listeners_are_judged_one_by_one() {
    let mut world = world();
    let listeners = json!([
        {"name": "http", "port": 80, "protocol": "HTTP"},
        {"name": "odd", "port": 81, "protocol": "GOPHER"},
        {"name": "tls", "port": 80, "protocol": "HTTPS", "tls": {"mode": "Terminate", "certificateRefs": [{"name": "c"}]}},
        {"name": "https", "port": 443, "protocol": "HTTPS", "tls": {"certificateRefs": [{"name": "c"}]}},
        {"name": "kinds", "port": 82, "protocol": "HTTP", "allowedRoutes": {"kinds": [{"kind": "TCPRoute"}]}},
    ]);
    world.insert(&gateway("g", EARLY, listeners));
    let mut simulation = simulation(world);
    simulation.settle().unwrap();
    let gateway: Gateway = simulation.world.get(&Key::new("infra", "g")).unwrap();
    let status = gateway.status.unwrap();
    assert_eq!(condition(&status.conditions, "Accepted"), ("True", "ListenersNotValid"));
    let check = |number: usize, kind: &str, expected: (&str, &str)| {
        let listener = &status.listeners[number];
        assert_eq!(condition(&listener.conditions, kind), expected, "{} {kind}", listener.name);
    };
    check(0, "Accepted", ("True", "Accepted"));
    check(1, "Accepted", ("False", "UnsupportedProtocol"));
    check(2, "Conflicted", ("True", "ProtocolConflict"));
    check(3, "ResolvedRefs", ("False", "InvalidCertificateRef"));
    check(3, "Programmed", ("False", "Invalid"));
    check(4, "ResolvedRefs", ("False", "InvalidRouteKinds"));
    let config: GatewayConfig = simulation.world.get(&Key::new("infra", "g")).unwrap();
    let ports: Vec<i32> = config.spec.ports.iter().map(|port| port.port).collect();
    assert_eq!(ports, [80]);
}

/// Nobody may think that clients are checked where they are not.
#[test]
fn listener_without_an_authority_for_clients_is_not_served() {
    let mut world = world();
    let listeners = json!([{"name": "https", "port": 443, "protocol": "HTTPS",
        "tls": {"certificateRefs": [{"name": "c"}]}}]);
    let mut one = gateway("g", EARLY, listeners);
    one.spec.tls = Some(from(json!({"frontend": {"default": {"validation": {
        "caCertificateRefs": [{"kind": "ConfigMap", "name": "ca"}]}}}})));
    world.insert(&one);
    let mut simulation = simulation(world);
    simulation.settle().unwrap();
    let gateway: Gateway = simulation.world.get(&Key::new("infra", "g")).unwrap();
    let status = gateway.status.unwrap();
    assert_eq!(condition(&status.listeners[0].conditions, "Accepted"), ("False", "NoValidCACertificate"));
    let config: GatewayConfig = simulation.world.get(&Key::new("infra", "g")).unwrap();
    assert!(config.spec.ports.is_empty());
}

#[test]
fn set_adds_listeners_only_where_the_gateway_allows() {
    let check = |allowed: Option<&str>, expected: (&str, &str), ports: usize| {
        let mut world = world();
        let mut one = gateway("g", EARLY, http(json!({"from": "Same"})));
        one.spec.allowed_listeners = allowed.map(|from_| from(json!({"namespaces": {"from": from_}})));
        world.insert(&one);
        world.insert::<ListenerSet>(&from(json!({"metadata": {"name": "s", "namespace": "web", "uid": "s"},
            "spec": {"parentRef": {"name": "g", "namespace": "infra"},
                "listeners": [{"name": "more", "port": 8080, "protocol": "HTTP"}]}})));
        let mut simulation = simulation(world);
        simulation.settle().unwrap();
        let set: ListenerSet = simulation.world.get(&Key::new("web", "s")).unwrap();
        assert_eq!(condition(&set.status.unwrap().conditions, "Accepted"), expected, "{allowed:?}");
        let config: GatewayConfig = simulation.world.get(&Key::new("infra", "g")).unwrap();
        assert_eq!(config.spec.ports.len(), ports, "{allowed:?}");
    };
    check(None, ("False", "NotAllowed"), 1);
    check(Some("Same"), ("False", "NotAllowed"), 1);
    check(Some("All"), ("True", "Accepted"), 2);
}

/// A set is attached by a listener that is served; of others each is told why.
#[test]
fn set_without_a_listener_that_is_served_is_not_attached() {
    let mut world = world();
    let mut one = gateway("g", EARLY, http(json!({"from": "Same"})));
    one.spec.allowed_listeners = Some(from(json!({"namespaces": {"from": "All"}})));
    world.insert(&one);
    let taken = json!({"name": "taken", "port": 80, "protocol": "HTTP"});
    let secret = json!({"name": "https", "port": 443, "protocol": "HTTPS",
        "tls": {"certificateRefs": [{"name": "c", "namespace": "infra"}]}});
    let good = json!({"name": "good", "port": 8080, "protocol": "HTTP"});
    for (name, listeners) in
        [("both", json!([taken, good])), ("conflict", json!([taken])), ("secret", json!([secret]))]
    {
        world.insert::<ListenerSet>(&from(
            json!({"metadata": {"name": name, "namespace": "web", "uid": name},
            "spec": {"parentRef": {"name": "g", "namespace": "infra"}, "listeners": listeners}}),
        ));
    }
    let mut simulation = simulation(world);
    simulation.settle().unwrap();
    let attached = simulation.world.get::<Gateway>(&Key::new("infra", "g")).unwrap().status.unwrap();
    assert_eq!(attached.attached_listener_sets, Some(1));
    let check = |name: &str, expected: (&str, &str), listener: (&str, &str)| {
        let set: ListenerSet = simulation.world.get(&Key::new("web", name)).unwrap();
        let status = set.status.unwrap();
        assert_eq!(condition(&status.conditions, "Accepted"), expected, "{name}");
        assert_eq!(condition(&status.listeners[0].conditions, "Programmed"), listener, "{name}");
    };
    check("both", ("True", "ListenersNotValid"), ("False", "HostnameConflict"));
    check("conflict", ("False", "ListenersNotValid"), ("False", "HostnameConflict"));
    check("secret", ("False", "ListenersNotValid"), ("False", "Invalid"));
}

/// Nobody may think that the Gateway says who it is where it does not.
#[test]
fn certificate_for_backends_that_is_missing_is_told_and_stops_requests() {
    let check = |reference: Value, expected: &str| {
        let mut world = world();
        let mut one = gateway("g", EARLY, http(json!({"from": "Same"})));
        one.spec.tls = Some(from(json!({"backend": {"clientCertificateRef": reference}})));
        world.insert(&one);
        let rules = json!([{"backendRefs": [{"name": "api", "port": 80}]}]);
        world.insert(&route("infra", "r", json!({"parentRefs": parent_of_infra(), "rules": rules})));
        world.insert::<BackendTlsPolicy>(&from(json!({
            "metadata": {"name": "p", "namespace": "infra", "uid": "p", "creationTimestamp": EARLY},
            "spec": {"targetRefs": [{"group": "", "kind": "Service", "name": "api"}],
                "validation": {"hostname": "api.example", "wellKnownCACertificates": "System"}},
        })));
        let mut simulation = simulation(world);
        simulation.settle().unwrap();
        let status = simulation.world.get::<Gateway>(&Key::new("infra", "g")).unwrap().status.unwrap();
        assert_eq!(condition(&status.conditions, "Accepted"), ("True", "Accepted"));
        assert_eq!(condition(&status.conditions, "ResolvedRefs"), ("False", expected), "{reference}");
        let config: GatewayConfig = simulation.world.get(&Key::new("infra", "g")).unwrap();
        let target = &config.spec.rules[0].backends[0].target;
        assert!(target.problem.is_some() && target.tls.as_ref().unwrap().certificate.is_none());
    };
    check(json!({"name": "nobody"}), "InvalidClientCertificateRef");
    check(json!({"kind": "ConfigMap", "name": "c"}), "InvalidClientCertificateRef");
    check(json!({"name": "c", "namespace": "web"}), "RefNotPermitted");
}

#[test]
fn younger_policy_of_a_service_is_told_so() {
    let mut world = world();
    world.insert(&gateway("g", EARLY, http(json!({"from": "Same"}))));
    let spec =
        json!({"parentRefs": parent_of_infra(), "rules": [{"backendRefs": [{"name": "api", "port": 80}]}]});
    world.insert(&route("infra", "r", spec));
    for (name, created) in [("a", "2026-01-02T00:00:00Z"), ("b", EARLY)] {
        world.insert::<BackendTlsPolicy>(&from(json!({
            "metadata": {"name": name, "namespace": "infra", "uid": name, "creationTimestamp": created},
            "spec": {"targetRefs": [{"group": "", "kind": "Service", "name": "api"}],
                "validation": {"hostname": "api.example", "wellKnownCACertificates": "System"}},
        })));
    }
    let mut simulation = simulation(world).with(PolicyController);
    simulation.settle().unwrap();
    for (name, expected) in [("a", ("False", "Conflicted")), ("b", ("True", "Accepted"))] {
        let policy: BackendTlsPolicy = simulation.world.get(&Key::new("infra", name)).unwrap();
        let ancestor = &policy.status.unwrap().ancestors[0];
        assert_eq!(ancestor.ancestor_ref.name, "g");
        assert_eq!(condition(&ancestor.conditions, "Accepted"), expected, "{name}");
    }
    let config: GatewayConfig = simulation.world.get(&Key::new("infra", "g")).unwrap();
    let tls = config.spec.rules[0].backends[0].target.tls.as_ref();
    assert_eq!(tls.map(|tls| tls.hostname.as_str()), Some("api.example"));
}

#[test]
fn matches_are_tried_in_the_order_of_the_gateway_api() {
    let mut world = world();
    world.insert(&gateway("g", EARLY, http(json!({"from": "Same"}))));
    let rule = |wanted: Value| json!({"matches": [wanted], "backendRefs": [{"name": "api", "port": 80}]});
    let path = |kind: &str, value: &str| json!({"path": {"type": kind, "value": value}});
    let rules = json!([
        rule(path("PathPrefix", "/")),
        rule(path("PathPrefix", "/long/")),
        rule(path("Exact", "/l")),
        rule(json!({"path": {"type": "PathPrefix", "value": "/long"}, "method": "GET"})),
        rule(
            json!({"path": {"type": "PathPrefix", "value": "/long"}, "headers": [{"name": "A", "value": "1"}]})
        ),
        rule(path("RegularExpression", "/x.*")),
    ]);
    world.insert(&route("infra", "r", json!({"parentRefs": parent_of_infra(), "rules": rules})));
    let mut simulation = simulation(world);
    simulation.settle().unwrap();
    let config: GatewayConfig = simulation.world.get(&Key::new("infra", "g")).unwrap();
    let matches = &config.spec.ports[0].listeners[0].hosts[0].matches;
    let shown: Vec<String> = matches
        .iter()
        .map(|one| {
            let path =
                one.path.as_ref().map_or("any".to_owned(), |path| format!("{} {}", path.kind, path.value));
            format!("{path} {}{}", one.method.as_deref().unwrap_or_default(), one.headers.len())
        })
        .collect();
    let expected = [
        "Exact /l 0",
        "RegularExpression /x.* 0",
        "PathPrefix /long GET0",
        "PathPrefix /long 1",
        "PathPrefix /long 0",
        "any 0",
    ];
    assert_eq!(shown, expected);
}
