use std::sync::Arc;

use k8s_openapi::api::core::v1::{Node, Service};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use k8s_openapi::api::networking::v1::{Ingress, IngressClass};
use k8s_openapi::jiff::Timestamp;
use minik8s_meta::dns::{ACCEPTED, Dns, READY};
use minik8s_runtime::testing::{Simulation, World, check_convergence};
use minik8s_runtime::{Controller, Key};
use serde_json::{Value, json};

use super::{DnsStatuses, IngressStatuses};

/// `host path service` lines.
fn dns(name: &str, age: &str, lines: &[&str]) -> Dns {
    let rule = |line: &&str| {
        let [host, path, service] = line.split(' ').collect::<Vec<_>>().try_into().unwrap();
        json!({"host": host, "paths": [{"path": path, "backend": {"service": {"name": service, "port": 80}}}]})
    };
    let rules: Vec<Value> = lines.iter().map(rule).collect();
    let created = format!("2026-01-01T00:00:{age}Z");
    serde_json::from_value(json!({
        "metadata": {"name": name, "namespace": "ns", "creationTimestamp": created, "uid": name},
        "spec": {"rules": rules},
    }))
    .unwrap()
}

fn add_service(world: &mut World, name: &str, ready: bool) {
    let service = json!({"metadata": {"name": name, "namespace": "ns"}, "spec": {"ports": [{"port": 80}]}});
    world.insert(&serde_json::from_value::<Service>(service).unwrap());
    let slice = json!({
        "metadata": {"name": name, "namespace": "ns", "labels": {"kubernetes.io/service-name": name}},
        "addressType": "IPv4", "ports": [{"port": 8080}],
        "endpoints": [{"addresses": ["10.0.0.1"], "conditions": {"ready": ready}}],
    });
    world.insert(&serde_json::from_value::<EndpointSlice>(slice).unwrap());
}

/// `host/path ready reason` of every path, and the two conditions.
fn shown(simulation: &Simulation, name: &str) -> (Vec<String>, Vec<String>) {
    let dns: Dns = simulation.world.get(&Key::new("ns", name)).unwrap();
    let status = dns.status.unwrap();
    assert!(dns.metadata.generation.is_some());
    assert_eq!(status.observed_generation, dns.metadata.generation);
    let path = |p: &minik8s_meta::dns::DnsPathStatus| {
        format!("{}{} {} {}", p.host, p.path, p.ready, p.reason.as_deref().unwrap_or("-"))
    };
    let conditions = status.conditions.iter().map(|c| format!("{}={} {}", c.type_, c.status, c.reason));
    (status.paths.iter().map(path).collect(), conditions.collect())
}

#[test]
fn every_path_says_whether_it_is_ready() {
    let build = || {
        let mut world = World::default();
        add_service(&mut world, "web", true);
        add_service(&mut world, "down", false);
        world.insert(&dns("x", "01", &["h /web web", "h /down down", "h /gone gone"]));
        world.insert(&dns("fine", "02", &["i / web"]));
        Simulation::new(world).with(DnsStatuses)
    };
    check_convergence(build, |simulation| {
        let (paths, conditions) = shown(simulation, "x");
        assert_eq!(paths, ["h/web true -", "h/down false NoReadyEndpoints", "h/gone false ServiceNotFound"]);
        assert_eq!(conditions, [format!("{ACCEPTED}=True Accepted"), format!("{READY}=False PathsNotReady")]);
        let (_, conditions) = shown(simulation, "fine");
        assert_eq!(conditions[1], format!("{READY}=True AllPathsReady"));
    });
}

#[test]
fn the_younger_of_two_hears_of_it() {
    let build = || {
        let mut world = World::default();
        add_service(&mut world, "web", true);
        world.insert(&dns("young", "02", &["h /a web", "h /b web"]));
        world.insert(&dns("old", "01", &["h /a/ web"]));
        Simulation::new(world).with(DnsStatuses)
    };
    check_convergence(build, |simulation| {
        assert_eq!(shown(simulation, "old").1[0], format!("{ACCEPTED}=True Accepted"));
        let (paths, conditions) = shown(simulation, "young");
        assert_eq!(paths, ["h/a false Conflict", "h/b true -"]);
        assert_eq!(
            conditions,
            [format!("{ACCEPTED}=False Conflict"), format!("{READY}=False PathsNotReady")]
        );
        let young: Dns = simulation.world.get(&Key::new("ns", "young")).unwrap();
        let message = &young.status.unwrap().conditions[0].message;
        assert_eq!(message, "h/a belongs to the older DNS ns/old");
    });
}

#[test]
fn host_of_another_namespace_is_a_conflict() {
    let build = || {
        let mut world = World::default();
        add_service(&mut world, "web", true);
        let mut old = dns("old", "01", &["h /a web"]);
        old.metadata.namespace = Some("other".to_owned());
        world.insert(&old);
        world.insert(&dns("young", "02", &["h /b web", "h /c web", "i / web"]));
        // Older than nobody that counts: the host is the other namespace's.
        world.insert(&dns("younger", "03", &["h /b web"]));
        Simulation::new(world).with(DnsStatuses)
    };
    check_convergence(build, |simulation| {
        let (paths, conditions) = shown(simulation, "young");
        assert_eq!(paths, ["h/b false Conflict", "h/c false Conflict", "i/ true -"]);
        assert_eq!(conditions[0], format!("{ACCEPTED}=False Conflict"));
        for name in ["young", "younger"] {
            let dns: Dns = simulation.world.get(&Key::new("ns", name)).unwrap();
            let message = &dns.status.unwrap().conditions[0].message;
            assert_eq!(message, "h belongs to namespace other by the older DNS other/old");
        }
    });
}

#[test]
fn a_place_that_becomes_free_is_taken() {
    let mut world = World::default();
    add_service(&mut world, "web", true);
    world.insert(&dns("young", "02", &["h /a web"]));
    world.insert(&dns("old", "01", &["h /a web"]));
    let mut simulation = Simulation::new(world).with(DnsStatuses);
    simulation.settle().unwrap();
    assert_eq!(shown(&simulation, "young").0, ["h/a false Conflict"]);
    simulation.world.erase::<Dns>(&Key::new("ns", "old"));
    simulation.settle().unwrap();
    assert_eq!(shown(&simulation, "young").0, ["h/a true -"]);
    simulation.world.erase::<EndpointSlice>(&Key::new("ns", "web"));
    simulation.settle().unwrap();
    assert_eq!(shown(&simulation, "young").0, ["h/a false NoReadyEndpoints"]);
}

#[test]
fn ingresses_are_reached_at_the_ready_nodes() {
    let build = || {
        let mut world = World::default();
        for (name, ready, ip) in
            [("a", "True", "10.0.0.2"), ("b", "True", "10.0.0.1"), ("c", "False", "10.0.0.3")]
        {
            let node = json!({"metadata": {"name": name}, "status": {
                "conditions": [{"type": "Ready", "status": ready}],
                "addresses": [{"type": "Hostname", "address": name}, {"type": "InternalIP", "address": ip}],
            }});
            world.insert(&serde_json::from_value::<Node>(node).unwrap());
        }
        let class = json!({"metadata": {"name": "nginx"}, "spec": {"controller": "x.io/nginx"}});
        world.insert(&serde_json::from_value::<IngressClass>(class).unwrap());
        for (name, class) in [("ours", Value::Null), ("theirs", json!("nginx"))] {
            let ingress =
                json!({"metadata": {"name": name, "namespace": "ns"}, "spec": {"ingressClassName": class}});
            world.insert(&serde_json::from_value::<Ingress>(ingress).unwrap());
        }
        Simulation::new(world).with(IngressStatuses)
    };
    check_convergence(build, |simulation| {
        let addresses = |name: &str| {
            let ingress: Ingress = simulation.world.get(&Key::new("ns", name)).unwrap();
            let balancer = ingress.status.and_then(|status| status.load_balancer);
            let list = balancer.and_then(|balancer| balancer.ingress).unwrap_or_default();
            list.into_iter().filter_map(|entry| entry.ip).collect::<Vec<_>>()
        };
        assert_eq!(addresses("ours"), ["10.0.0.1", "10.0.0.2"]);
        assert_eq!(addresses("theirs"), [""; 0]);
    });
}

#[test]
fn the_younger_ingress_hears_of_it() {
    let ingress = |name: &str, created: &str, path: &str| -> Arc<Ingress> {
        let path = json!({"path": path, "pathType": "Prefix", "backend": {"service": {"name": "web", "port": {"number": 80}}}});
        let object = json!({
            "metadata": {"name": name, "namespace": "ns", "creationTimestamp": format!("2026-01-{created}T00:00:00Z")},
            "spec": {"rules": [{"host": "h", "http": {"paths": [path]}}]},
        });
        Arc::new(serde_json::from_value(object).unwrap())
    };
    let check = |own: Arc<Ingress>, other: Arc<Ingress>, expected: Option<&str>| {
        let seen = super::ingress::Observed::of(own, vec![other]);
        let plan = IngressStatuses.plan(&seen, Timestamp::UNIX_EPOCH);
        let messages: Vec<&str> = plan.events.iter().map(|event| event.message.as_str()).collect();
        assert_eq!(messages, expected.into_iter().collect::<Vec<_>>());
    };
    let (old, young) = (ingress("old", "01", "/a"), ingress("young", "02", "/a/"));
    check(young.clone(), old.clone(), Some("h/a belongs to the older Ingress ns/old"));
    check(old.clone(), young, None);
    check(ingress("elsewhere", "02", "/b"), old, None);
}
