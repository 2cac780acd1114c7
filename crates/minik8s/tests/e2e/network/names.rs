//! Names of the cluster and of the world, as pods on both nodes see them.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use super::dns::{A, AAAA, Answer, PTR, SRV, over_tcp, over_udp, reply};
use super::place::{Place, socket};
use super::world::{World, pod};

const MANY: u8 = 60;

/// A headless Service with a pod that has a name, one with more endpoints than fit into a datagram, one with endpoints
/// that have IPv6 addresses alone, and an alias.
fn objects() -> String {
    let named = pod("named", "named", "nodeName: node2\n  hostname: first\n  subdomain: headless");
    let many: Vec<String> = (1..=MANY).map(|n| format!("{{addresses: [198.51.100.{n}]}}")).collect();
    format!(
        "{named}---
apiVersion: v1
kind: Service
metadata: {{name: headless}}
spec: {{clusterIP: None, selector: {{app: named}}, ports: [{{name: http, port: 80, targetPort: 8080}}]}}
---
apiVersion: v1
kind: Service
metadata: {{name: alias}}
spec: {{type: ExternalName, externalName: example.org}}
---
apiVersion: v1
kind: Service
metadata: {{name: many}}
spec: {{clusterIP: None, ports: [{{port: 80}}]}}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {{name: many-1, labels: {{kubernetes.io/service-name: many}}}}
addressType: IPv4
ports: [{{port: 80}}]
endpoints: [{}]
---
apiVersion: v1
kind: Service
metadata: {{name: six}}
spec: {{clusterIP: None, ports: [{{name: http, port: 80}}]}}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {{name: six-1, labels: {{kubernetes.io/service-name: six}}}}
addressType: IPv6
ports: [{{name: http, port: 80}}]
endpoints: [{{addresses: ['fd00::61'], hostname: other}}, {{addresses: ['fd00::62']}}]
",
        many.join(", ")
    )
}

pub fn server(world: &World) -> SocketAddr {
    socket(&world.cluster_ip_of("kube-system", "kube-dns"), 53)
}

pub fn names(world: &mut World) {
    // The nodes' name server knows one address for every name, and remembers what it was asked.
    let asked = Arc::new(Mutex::new(Vec::new()));
    let noted = asked.clone();
    let _upstream = world.outside().serve(53, move |question, _| {
        let (name, message) = reply(question, [192, 0, 2, 1].into())?;
        noted.lock().unwrap().push(name);
        Some(message)
    });
    world.apply(&objects());
    world.kubectl(&["wait", "pod", "named", "--for=condition=Ready", "--timeout=180s"]);
    let server = server(world);
    let named = world.pod("named").address.to_string();
    for client in ["client-1", "client-2"] {
        let client = world.pod(client);
        let first = "first.headless.default.svc.cluster.local";
        world.settles(
            "the pod's name",
            || format!("{:?}", over_udp(&client, server, first, A).records),
            |records| records.contains(&named),
        );
        world.settles(
            "the last of the objects",
            || format!("{:?}", over_udp(&client, server, "six.default.svc.cluster.local", AAAA).records),
            |records| records.contains("fd00::61"),
        );
        names_of_the_cluster(world, &client, server, &named);
        others_names(&client, server);
        // As programs look them up, along the search path.
        for name in
            ["web", "web.default", "web.default.svc", "web.default.svc.cluster.local", "first.headless"]
        {
            let port = if name == "first.headless" { ":8080" } else { "" };
            let url = format!("http://{name}{port}/cgi-bin/who");
            let page = world.exec(&client.name, &["timeout", "9", "wget", "-qO-", &url]);
            assert!(
                page.is_ok_and(|page| page.contains(&client.address.to_string())),
                "{} → {url}",
                client.name
            );
        }
    }
    // The pod's own names stand in its hosts file.
    let hosts = world.exec("named", &["cat", "/etc/hosts"]).unwrap();
    let own = hosts.lines().find(|line| line.starts_with(&named)).unwrap_or_default();
    let words: Vec<&str> = own.split_whitespace().collect();
    assert_eq!(words[1..], ["first.headless.default.svc.cluster.local", "first"], "{hosts}");
    let asked = asked.lock().unwrap().clone();
    let about = |name: &str| asked.iter().filter(|one| *one == name).count();
    // Each node's resolver asked once for itself and once for the alias' target, and kept the answer.
    assert!((1..=4).contains(&about("example.org 1")), "{asked:?}");
    assert!(!asked.iter().any(|name| name.contains("cluster.local")), "{asked:?}");
}

fn names_of_the_cluster(world: &World, client: &Place, server: SocketAddr, named: &str) {
    let web = world.cluster_ip("web");
    let reverse = |address: &str| {
        let parts: Vec<&str> = address.split('.').rev().collect();
        format!("{}.in-addr.arpa", parts.join("."))
    };
    let dashed = |address: &str| address.replace('.', "-");
    let first = "first.headless.default.svc.cluster.local";
    let below = |name: &str| format!("{name}.default.svc.cluster.local");
    for (name, kind, expected) in [
        (below("web"), A, Answer::is(0, &[&format!("A {web}")])),
        (below("WEB").to_uppercase(), A, Answer::is(0, &[&format!("A {web}")])),
        (below("_http._tcp.web"), SRV, Answer::is(0, &[&format!("SRV 80 {}", below("web"))])),
        (below("_datagrams._udp.web"), SRV, Answer::is(0, &[&format!("SRV 81 {}", below("web"))])),
        (reverse(&web), PTR, Answer::is(0, &[&format!("PTR {}", below("web"))])),
        (below("headless"), A, Answer::is(0, &[&format!("A {named}")])),
        (below("_http._tcp.headless"), SRV, Answer::is(0, &[&format!("SRV 8080 {first}")])),
        (first.to_owned(), A, Answer::is(0, &[&format!("A {named}")])),
        (reverse(named), PTR, Answer::is(0, &[&format!("PTR {first}")])),
        (format!("{}.default.pod.cluster.local", dashed(named)), A, Answer::is(0, &[&format!("A {named}")])),
        // The name is there, but has no such record; there is no such name.
        (below("web"), AAAA, Answer::is(0, &[])),
        (below("nothing"), A, Answer::is(3, &[])),
        (below("nothing"), AAAA, Answer::is(3, &[])),
        (below("six"), AAAA, Answer::is(0, &["AAAA fd00::61", "AAAA fd00::62"])),
        (below("six"), A, Answer::is(0, &[])),
        (below("other.six"), AAAA, Answer::is(0, &["AAAA fd00::61"])),
        (
            below("_http._tcp.six"),
            SRV,
            Answer::is(
                0,
                &[&format!("SRV 80 {}", below("other.six")), &format!("SRV 80 {}", below("fd00--62.six"))],
            ),
        ),
        ("svc.cluster.local".to_owned(), A, Answer::is(0, &[])),
    ] {
        assert_eq!(over_udp(client, server, &name, kind), expected, "{} asks for {name}", client.name);
        assert_eq!(over_tcp(client, server, &name, kind), expected, "{} asks for {name}", client.name);
    }
    let many = over_udp(client, server, &below("many"), A);
    assert!(many.truncated && !many.records.is_empty(), "{many:?}");
    let many = over_tcp(client, server, &below("many"), A);
    assert_eq!((many.truncated, many.records.len()), (false, MANY.into()));
}

fn others_names(client: &Place, server: SocketAddr) {
    let everywhere = "A 192.0.2.1";
    let check = |name: &str, records: &[&str]| {
        assert_eq!(
            over_udp(client, server, name, A),
            Answer::is(0, records),
            "{} asks for {name}",
            client.name
        );
    };
    check("alias.default.svc.cluster.local", &["CNAME example.org", everywhere]);
    check("example.org", &[everywhere]);
    // What a pod asks first when it looks up example.org: one round trip is enough.
    check("example.org.default.svc.cluster.local", &["CNAME example.org", everywhere]);
}
