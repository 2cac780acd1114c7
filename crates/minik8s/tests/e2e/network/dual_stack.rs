//! Clusters of both address families, and of IPv6 alone: pods across nodes, Services, names, NetworkPolicies.
//!
//! What the families share is tested in IPv4 by the other cases; this is about both being there, and each by itself.

use std::collections::BTreeSet;

use serde_json::Value;

use super::dns::{A, AAAA, PTR, over_udp};
use super::place::{Place, socket};
use super::world::{WEB, World};
use crate::harness::lab::Lab;

const PODS_V6: &str = "fd00:10:244::/56";
const SERVICES_V6: &str = "fd00:10:96::/112";

/// Nobody is let in to `web-2`.
const DENIED: &str = "apiVersion: networking.k8s.io/v1\nkind: NetworkPolicy\nmetadata: {name: deny}\n\
                      spec: {podSelector: {matchLabels: {name: web-2}}}\n";

#[test]
fn network_of_both_families_and_of_ipv6_alone() {
    let flags = format!("--cluster-cidr 10.244.0.0/16,{PODS_V6} --service-cidr 10.96.0.0/16,{SERVICES_V6}");
    let world = World::in_lab(Lab::up_on(2, &flags, &[]));
    check(&world, &["IPv4", "IPv6"]);
    end(world);
    let flags = format!("--cluster-cidr {PODS_V6} --service-cidr {SERVICES_V6}");
    let world = World::in_lab(Lab::up_on(2, &flags, &[("LAB_FAMILY", "ipv6")]));
    check(&world, &["IPv6"]);
    end(world);
}

fn end(world: World) {
    world.lab.run(&["down"]);
    assert_eq!(world.lab.traces(), [""; 0], "the lab left something behind");
}

/// The families are the cluster's, in their order.
fn check(world: &World, families: &[&str]) {
    let policy = if families.len() == 2 { "RequireDualStack" } else { "SingleStack" };
    world.apply(&format!(
        "apiVersion: v1\nkind: Service\nmetadata: {{name: web}}\nspec:\n  type: NodePort\n  \
         ipFamilyPolicy: {policy}\n  selector: {{app: web}}\n  ports: [{{port: 80, targetPort: {WEB}}}]\n"
    ));
    for node in ["node1", "node2"] {
        let node = world.json(&["get", "node", node]);
        let internal = node["status"]["addresses"].as_array().unwrap().iter();
        let internal: Vec<&str> = internal
            .filter(|one| one["type"] == "InternalIP")
            .map(|one| family(one["address"].as_str().unwrap()))
            .collect();
        assert_eq!(internal, families, "{node}");
    }
    pods_reach_pods(world, families);
    everybody_reaches_the_service(world, families);
    names_have_addresses_of_all_families(world, families);
    policy_denies_in_all_families(world);
}

fn pods_reach_pods(world: &World, families: &[&str]) {
    let (client, web) = (addresses(world, "client-1"), addresses(world, "web-2"));
    assert_eq!(web.iter().map(|address| family(address)).collect::<Vec<_>>(), families);
    for (from, to) in client.iter().zip(&web) {
        assert_eq!(world.pod("client-1").ask(to, WEB), format!("web-2 {from}"), "across nodes");
    }
    let hosts = world.exec("web-2", &["cat", "/etc/hosts"]).unwrap();
    assert!(web.iter().all(|address| hosts.contains(&format!("{address}\tweb-2"))), "{hosts}");
}

fn everybody_reaches_the_service(world: &World, families: &[&str]) {
    let service = world.json(&["get", "service", "web"]);
    let cluster_ips = texts(&service["spec"]["clusterIPs"]);
    assert_eq!(cluster_ips.iter().map(|address| family(address)).collect::<Vec<_>>(), families);
    let answers = |from: &Place, address: &str, port: u16| {
        let what = format!("{} → {address}:{port}", from.name);
        // Both pods in the end: the rules follow the slices of each family.
        let mut seen = BTreeSet::new();
        world.until(&what, || {
            let answer = from.ask(address, port);
            seen.extend(["web-1", "web-2"].into_iter().filter(|web| answer.starts_with(web)));
            seen.len() == 2
        });
    };
    let places = [world.pod("client-1"), world.pod("client-2"), world.node(1)];
    for address in &cluster_ips {
        places.iter().for_each(|place| answers(place, address, 80));
    }
    let port = world.node_port("web");
    for family in families {
        for number in [1, 2] {
            let address =
                if *family == "IPv4" { world.lab.address(number) } else { world.lab.address_v6(number) };
            answers(&world.outside(), &address, port);
            answers(&world.pod("client-1"), &address, port);
        }
    }
}

fn names_have_addresses_of_all_families(world: &World, families: &[&str]) {
    let server = world.cluster_ip_of("kube-system", "kube-dns");
    assert_eq!(family(&server), families[0], "the resolver is of the first family");
    let (client, server) = (world.pod("client-1"), socket(&server, 53));
    let conf = world.exec("client-1", &["cat", "/etc/resolv.conf"]).unwrap();
    assert!(conf.contains(&format!("nameserver {}", server.ip())), "{conf}");
    let service = world.json(&["get", "service", "web"]);
    let name = "web.default.svc.cluster.local";
    let mut found = Vec::new();
    for kind in [A, AAAA] {
        let records = over_udp(&client, server, name, kind).records;
        found.extend(records.iter().map(|record| record.split(' ').nth(1).unwrap().to_owned()));
    }
    assert_eq!(found, texts(&service["spec"]["clusterIPs"]));
    for address in found.iter().filter(|address| address.contains(':')) {
        let bits = address.parse::<std::net::Ipv6Addr>().unwrap().to_bits();
        let nibbles = (0..32).map(|at| format!("{:x}.", bits >> (4 * at) & 15)).collect::<String>();
        let answer = over_udp(&client, server, &format!("{nibbles}ip6.arpa"), PTR);
        assert_eq!(answer.records, [format!("PTR {name}")]);
    }
    // A C library asks for both at once.
    let page = world.exec("client-1", &["wget", "-q", "-O-", "http://web/"]).unwrap();
    assert!(page.starts_with("web-"), "{page}");
}

fn policy_denies_in_all_families(world: &World) {
    let client = world.pod("client-1");
    let ask = |address: &String| client.ask_briefly(address, WEB);
    let web = addresses(world, "web-2");
    assert!(web.iter().all(|address| ask(address).starts_with("web-2")));
    world.apply(DENIED);
    world.until("nobody is let in", || web.iter().all(|address| ask(address).starts_with("failed")));
    world.kubectl(&["delete", "networkpolicy", "deny"]);
    world.until("everybody is", || web.iter().all(|address| ask(address).starts_with("web-2")));
}

fn addresses(world: &World, pod: &str) -> Vec<String> {
    let pod = world.json(&["get", "pod", pod]);
    pod["status"]["podIPs"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| one["ip"].as_str().unwrap().to_owned())
        .collect()
}

fn texts(list: &Value) -> Vec<String> {
    list.as_array().unwrap().iter().map(|one| one.as_str().unwrap().to_owned()).collect()
}

fn family(address: &str) -> &'static str {
    if address.contains(':') { "IPv6" } else { "IPv4" }
}
