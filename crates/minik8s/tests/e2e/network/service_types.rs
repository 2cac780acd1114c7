//! Services that change what they are, and what their endpoints are made of.

use std::time::{Duration, Instant};

use k8s_openapi::api::core::v1::{Endpoints, Service};
use kube::Api;
use kube::api::{DeleteParams, ListParams, PostParams};
use serde_json::json;

use super::dns::{A, Answer, over_udp};
use super::names;
use super::place::Place;
use super::world::{UDP, World, pod};

const NAME: &str = "changing.default.svc.cluster.local";

/// From a name elsewhere to an address of its own, to a port of every node, and back.
pub fn a_service_changes_its_type(world: &mut World) {
    let _upstream = world.outside().serve(53, |question, _| {
        super::dns::reply(question, [192, 0, 2, 1].into()).map(|(_, message)| message)
    });
    let (client, server) = (world.pod("client-1"), names::server(world));
    let look_up = || over_udp(&client, server, NAME, A);
    let resolves = |what: &str, expected: Answer| {
        world.settles(what, || format!("{:?}", look_up()), |answer| *answer == format!("{expected:?}"));
    };
    let change = |patch: &str| world.kubectl(&["patch", "service", "changing", "--type=merge", "-p", patch]);
    world.apply("{apiVersion: v1, kind: Service, metadata: {name: changing}, spec: {type: ExternalName, externalName: one.example}}");
    let service = || world.json(&["get", "service", "changing"]);
    assert!(service()["spec"]["clusterIP"].is_null(), "{}", service());
    resolves("an alias", Answer::is(0, &["CNAME one.example", "A 192.0.2.1"]));
    change(r#"{"spec":{"externalName":"two.example"}}"#);
    resolves("another alias", Answer::is(0, &["CNAME two.example", "A 192.0.2.1"]));
    let ports = r#"[{"port":80,"targetPort":8080,"protocol":"TCP"}]"#;
    for kind in ["ClusterIP", "NodePort"] {
        change(&format!(
            r#"{{"spec":{{"type":"{kind}","externalName":null,"selector":{{"app":"web"}},"ports":{ports}}}}}"#
        ));
        let address = world.cluster_ip("changing");
        resolves("an address", Answer::is(0, &[&format!("A {address}")]));
        world.settles(kind, || client.ask(&address, 80), |answer| answer.starts_with("web-"));
        let url = "http://changing/cgi-bin/who";
        let page = world.exec("client-2", &["timeout", "9", "wget", "-qO-", url]);
        assert!(page.is_ok_and(|page| page.starts_with("web-")), "{kind}");
        if kind == "NodePort" {
            let port = world.node_port("changing");
            for node in [1, 2] {
                let answer = || client.ask(&world.lab.address(node), port);
                world.settles("the node's port", answer, |answer| answer.starts_with("web-"));
            }
        }
        change(
            r#"{"spec":{"type":"ExternalName","externalName":"one.example","clusterIP":null,"clusterIPs":null}}"#,
        );
        assert!(service()["spec"]["clusterIP"].as_str().unwrap_or_default().is_empty(), "{}", service());
        assert!(service()["spec"]["ports"][0]["nodePort"].is_null(), "{}", service());
        resolves("an alias again", Answer::is(0, &["CNAME one.example", "A 192.0.2.1"]));
    }
    world.kubectl(&["delete", "service", "changing"]);
}

/// One port number for two protocols, and for either of them.
pub fn one_port_two_protocols(world: &mut World) {
    let service = |ports: &str| {
        world.apply(&format!(
            "{{apiVersion: v1, kind: Service, metadata: {{name: double}}, spec: {{selector: {{name: web-2}}, ports: [{ports}]}}}}"
        ));
    };
    let (tcp, udp) =
        ("{name: t, port: 80, targetPort: 8080}", "{name: u, port: 80, targetPort: 8081, protocol: UDP}");
    service(&format!("{tcp}, {udp}"));
    let (client, address) = (world.pod("client-1"), world.cluster_ip("double"));
    let _server = world.pod("web-2").serve_udp(UDP);
    let reached = |answer: &str| answer.starts_with("web-2 ");
    world.settles("TCP", || client.ask(&address, 80), reached);
    world.settles("UDP", || client.send(&address, 80, 3), reached);
    service(tcp);
    world.settles("no UDP", || client.send(&address, 80, 3), |answer| !reached(answer));
    assert!(reached(&client.ask(&address, 80)));
    service(udp);
    world.settles("UDP again", || client.send(&address, 80, 3), reached);
    assert!(!reached(&client.ask(&address, 80)));
    world.kubectl(&["delete", "service", "double"]);
}

/// What Endpoints and slices say of a Service, as `address:port` in order.
fn listed(world: &World, service: &str) -> (Vec<String>, Vec<String>) {
    let number = |port: &serde_json::Value| port["port"].to_string();
    let text = |value: &serde_json::Value| value.as_str().unwrap_or_default().to_owned();
    let items = |value: &serde_json::Value| value.as_array().cloned().unwrap_or_default();
    let mut legacy = Vec::new();
    for subset in items(&world.json(&["get", "endpoints", service])["subsets"]) {
        for address in items(&subset["addresses"]) {
            legacy.extend(
                items(&subset["ports"])
                    .iter()
                    .map(|port| format!("{}:{}", text(&address["ip"]), number(port))),
            );
        }
    }
    let mut slices = Vec::new();
    for slice in world.lab.get(&["endpointslices", "-l", &format!("kubernetes.io/service-name={service}")]) {
        for endpoint in
            items(&slice["endpoints"]).iter().filter(|endpoint| endpoint["conditions"]["ready"] == true)
        {
            let ports = items(&slice["ports"]);
            slices.extend(
                ports.iter().map(|port| format!("{}:{}", text(&endpoint["addresses"][0]), number(port))),
            );
        }
    }
    legacy.sort();
    slices.sort();
    (legacy, slices)
}

/// Pods come and go, and each port lists those that have it.
pub fn endpoints_follow_pods(world: &mut World) {
    let mark = |pods: &str| pods.replace("name: http,", "name: first,");
    world.apply("{apiVersion: v1, kind: Service, metadata: {name: two-ports}, spec: {selector: {app: ports}, ports: [{name: a, port: 80, targetPort: first}, {name: b, port: 81, targetPort: http}]}}");
    let is = |what: &str, expected: Vec<String>| {
        world.until(what, || listed(world, "two-ports") == (expected.clone(), expected.clone()));
    };
    world.until("an empty slice and empty Endpoints", || {
        let slices = world.lab.get(&["endpointslices", "-l", "kubernetes.io/service-name=two-ports"]);
        slices.len() == 1 && world.try_kubectl(&["get", "endpoints", "two-ports"]).is_ok()
    });
    is("nobody", Vec::new());
    let spec = "nodeName: node1";
    world.apply(&mark(&pod("port-a", "ports", spec)).replace("port: http}", "port: first}"));
    world.kubectl(&["wait", "pod", "port-a", "--for=condition=Ready", "--timeout=180s"]);
    let a = format!("{}:8080", world.pod("port-a").address);
    is("the first pod", vec![a.clone()]);
    world.apply(&pod("port-b", "ports", spec));
    world.kubectl(&["wait", "pod", "port-b", "--for=condition=Ready", "--timeout=180s"]);
    let b = format!("{}:8080", world.pod("port-b").address);
    let mut both = vec![a, b.clone()];
    both.sort();
    is("both pods", both);
    let (client, address) = (world.pod("client-2"), world.cluster_ip("two-ports"));
    world.settles("the first port", || client.ask(&address, 80), |answer| answer.starts_with("port-a "));
    world.settles("the second port", || client.ask(&address, 81), |answer| answer.starts_with("port-b "));
    world.kubectl(&["delete", "pod", "port-a"]);
    is("the second pod", vec![b]);
    world.kubectl(&["delete", "pod", "port-b"]);
    is("nobody again", Vec::new());
    world.kubectl(&["delete", "service", "two-ports"]);
    world.until("nothing is left of the Service", || {
        world.lab.get(&["endpointslices", "-l", "kubernetes.io/service-name=two-ports"]).is_empty()
            && world.try_kubectl(&["get", "endpoints", "two-ports"]).is_err()
    });
}

/// Endpoints that users write: as slices, several of them, and as Endpoints, which are mirrored.
pub fn endpoints_by_hand(world: &mut World) {
    let (one, two) = (world.pod("web-1").address, world.pod("web-2").address);
    world.apply(&format!(
        "apiVersion: v1
kind: List
items:
- {{apiVersion: v1, kind: Service, metadata: {{name: by-hand}}, spec: {{ports: [{{name: a, port: 80}}, {{name: b, port: 81}}]}}}}
- {{apiVersion: discovery.k8s.io/v1, kind: EndpointSlice, metadata: {{name: by-hand-1, labels: {{kubernetes.io/service-name: by-hand}}}}, addressType: IPv4, ports: [{{name: a, port: 8080}}], endpoints: [{{addresses: [{one}]}}]}}
- {{apiVersion: discovery.k8s.io/v1, kind: EndpointSlice, metadata: {{name: by-hand-2, labels: {{kubernetes.io/service-name: by-hand}}}}, addressType: IPv4, ports: [{{name: b, port: 8080}}], endpoints: [{{addresses: [{two}]}}]}}
- {{apiVersion: v1, kind: Service, metadata: {{name: mirrored}}, spec: {{ports: [{{port: 80}}]}}}}
- {{apiVersion: v1, kind: Endpoints, metadata: {{name: mirrored}}, subsets: [{{addresses: [{{ip: {one}}}], ports: [{{port: 8080}}]}}]}}
"
    ));
    let client = world.pod("client-2");
    let answers = |service: &str, port: u16, expected: &str| {
        let address = world.cluster_ip(service);
        world.settles(service, || client.ask(&address, port), |answer| answer.starts_with(expected));
    };
    answers("by-hand", 80, "web-1 ");
    answers("by-hand", 81, "web-2 ");
    // One address with two ports.
    let patch = format!(r#"{{"endpoints":[{{"addresses":["{one}"]}}]}}"#);
    world.kubectl(&["patch", "endpointslice", "by-hand-2", "--type=merge", "-p", &patch]);
    answers("by-hand", 81, "web-1 ");
    answers("by-hand", 80, "web-1 ");
    answers("mirrored", 80, "web-1 ");
    let patch = format!(r#"{{"subsets":[{{"addresses":[{{"ip":"{two}"}}],"ports":[{{"port":8080}}]}}]}}"#);
    world.kubectl(&["patch", "endpoints", "mirrored", "--type=merge", "-p", &patch]);
    answers("mirrored", 80, "web-2 ");
    world.kubectl(&["delete", "endpoints", "mirrored"]);
    world.until("the mirror is empty", || {
        world.lab.get(&["endpointslices", "-l", "kubernetes.io/service-name=mirrored"]).is_empty()
    });
    world.kubectl(&["delete", "service", "by-hand", "mirrored"]);
}

/// Many Services for one pod: how long until each has its endpoint.
pub fn endpoints_come_soon(world: &mut World) {
    const SERVICES: usize = 100;
    let begun = Instant::now();
    let services = async |client: kube::Client| {
        let api: Api<Service> = Api::default_namespaced(client.clone());
        for number in 0..SERVICES {
            let service = json!({
                "metadata": {"name": format!("soon-{number}"), "labels": {"soon": "yes"}},
                "spec": {"selector": {"name": "web-1"}, "ports": [{"port": 80, "targetPort": 8080}]},
            });
            api.create(&PostParams::default(), &serde_json::from_value(service).unwrap()).await.unwrap();
        }
        let endpoints: Api<Endpoints> = Api::default_namespaced(client);
        loop {
            let all = endpoints.list(&ListParams::default().labels("soon=yes")).await.unwrap();
            let filled =
                all.iter().filter(|one| one.subsets.as_ref().is_some_and(|subsets| !subsets.is_empty()));
            if filled.count() == SERVICES {
                break;
            }
            assert!(begun.elapsed() < crate::harness::lab::TIMEOUT, "not all have endpoints");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    world.with_client(services);
    let took = begun.elapsed();
    eprintln!("{SERVICES} Services made and filled in {took:?}");
    assert!(took < Duration::from_secs(20), "even together slower than upstream allows for one: {took:?}");
    let client: Place = world.pod("client-2");
    let last = world.cluster_ip(&format!("soon-{}", SERVICES - 1));
    world.settles("the last of them", || client.ask(&last, 80), |answer| answer.starts_with("web-1 "));
    // A collection goes at once, and only what is selected.
    world.with_client(async |client| {
        let (api, chosen) =
            (Api::<Service>::default_namespaced(client), ListParams::default().labels("soon=yes"));
        assert_eq!(api.list(&chosen).await.unwrap().items.len(), SERVICES);
        api.delete_collection(&DeleteParams::default(), &chosen).await.unwrap();
        assert_eq!(api.list(&chosen).await.unwrap().items.len(), 0);
    });
    assert!(world.try_kubectl(&["get", "service", "web"]).is_ok());
}
