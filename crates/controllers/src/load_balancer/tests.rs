use minik8s_runtime::testing::{Simulation, World, check_convergence};
use serde_json::{Value, json};

use super::*;

fn service(name: &str, created: u32, spec: Value) -> Service {
    let mut whole = json!({"type": "LoadBalancer", "ports": [{"port": 80, "protocol": "TCP"}]});
    whole.as_object_mut().unwrap().extend(spec.as_object().unwrap().clone());
    serde_json::from_value(json!({
        "metadata": {
            "name": name, "namespace": "ns", "uid": name,
            "creationTimestamp": format!("2026-01-01T00:00:0{created}Z"),
        },
        "spec": whole,
    }))
    .unwrap()
}

fn node(name: &str, address: &str, ready: bool, labels: Value) -> Node {
    serde_json::from_value(json!({
        "metadata": {"name": name, "labels": labels},
        "status": {
            "addresses": [{"type": "Hostname", "address": name}, {"type": "InternalIP", "address": address}],
            "conditions": [{"type": "Ready", "status": if ready { "True" } else { "Unknown" }}],
        },
    }))
    .unwrap()
}

/// The addresses of each Service, by name.
fn check(services: &[Service], nodes: &[Node], slices: &[EndpointSlice], expected: &[(&str, &[&str])]) {
    let build = || {
        let mut world = World::default();
        services.iter().for_each(|service| drop(world.insert(service)));
        nodes.iter().for_each(|node| drop(world.insert(node)));
        slices.iter().for_each(|slice| drop(world.insert(slice)));
        Simulation::new(world).with(LoadBalancers)
    };
    check_convergence(build, |simulation| {
        for (name, addresses) in expected {
            let service: Service = simulation.world.get(&Key::new("ns", *name)).unwrap();
            let balancer = service.status.and_then(|status| status.load_balancer).unwrap_or_default();
            let found: Vec<_> = balancer.ingress.into_iter().flatten().filter_map(|one| one.ip).collect();
            assert_eq!(found, *addresses, "{name}");
        }
    });
}

#[test]
fn the_nodes_are_the_balancer() {
    let a = || node("a", "192.0.2.1", true, json!({}));
    let b = || node("b", "192.0.2.2", true, json!({}));
    let gone = |name: &str| node(name, "192.0.2.3", false, json!({}));
    let excluded =
        node("d", "192.0.2.4", true, json!({"node.kubernetes.io/exclude-from-external-load-balancers": ""}));
    let web = || service("web", 1, json!({}));
    let both: &[&str] = &["192.0.2.1", "192.0.2.2"];
    check(&[web()], &[a(), b(), gone("c"), excluded], &[], &[("web", both)]);
    // Never pending as long as there is a node at all.
    check(&[web()], &[gone("c")], &[], &[("web", &["192.0.2.3"])]);
    check(&[service("web", 1, json!({"type": "ClusterIP"}))], &[a()], &[], &[("web", &[])]);
    check(&[service("web", 1, json!({"loadBalancerClass": "x/y"}))], &[a()], &[], &[("web", &[])]);
}

#[test]
fn balancer_has_addresses_of_the_services_families() {
    let mut both = node("a", "192.0.2.1", true, json!({}));
    let second = json!({"type": "InternalIP", "address": "2001:db8::1"});
    let addresses = both.status.as_mut().unwrap().addresses.as_mut().unwrap();
    addresses.push(serde_json::from_value(second).unwrap());
    let nodes = [both, node("b", "192.0.2.2", true, json!({}))];
    let with = |families: &[&str]| [service("web", 1, json!({"ipFamilies": families}))];
    check(&with(&["IPv4"]), &nodes, &[], &[("web", &["192.0.2.1", "192.0.2.2"])]);
    check(&with(&["IPv6"]), &nodes, &[], &[("web", &["2001:db8::1"])]);
    check(&with(&["IPv6", "IPv4"]), &nodes, &[], &[("web", &["2001:db8::1", "192.0.2.1", "192.0.2.2"])]);
}

#[test]
fn a_port_leads_to_one_service() {
    let nodes = [node("a", "192.0.2.1", true, json!({}))];
    let udp = json!({"ports": [{"port": 80, "protocol": "UDP"}]});
    let services = [service("new", 2, json!({})), service("old", 1, json!({})), service("udp", 3, udp)];
    let one: &[&str] = &["192.0.2.1"];
    check(&services, &nodes, &[], &[("old", one), ("new", &[]), ("udp", one)]);
}

#[test]
fn local_traffic_needs_a_local_endpoint() {
    let nodes = [node("a", "192.0.2.1", true, json!({})), node("b", "192.0.2.2", true, json!({}))];
    let slice = |ready: bool| -> EndpointSlice {
        serde_json::from_value(json!({
            "metadata": {"name": "web-1", "namespace": "ns", "labels": {SERVICE_NAME: "web"}},
            "addressType": "IPv4",
            "endpoints": [{"addresses": ["10.0.0.1"], "nodeName": "b", "conditions": {"ready": ready}}],
        }))
        .unwrap()
    };
    let services = [service("web", 1, json!({"externalTrafficPolicy": "Local"}))];
    check(&services, &nodes, &[slice(true)], &[("web", &["192.0.2.2"])]);
    check(&services, &nodes, &[slice(false)], &[("web", &["192.0.2.1", "192.0.2.2"])]);
}
