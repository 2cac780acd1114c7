//! Services, policies, the guard of pods' ports and the way to other nodes, in the other address family. What both families
//! share is tested in IPv4; this is about what the kernel does otherwise.

use k8s_openapi::api::core::v1::Service;
use k8s_openapi::api::discovery::v1::EndpointSlice;
use k8s_openapi::api::networking::v1::NetworkPolicy;
use minik8s_meta::IpFamily;
use minik8s_network::pod_network::{Backend, Kernel, Me, Owner, Peer, changes, plan as plan_links};
use minik8s_network::pod_ports;
use minik8s_network::policy::{Pod, Policy, PolicyTable};
use minik8s_network::proxy::{
    Frontend, Listing, Protocol, Routes, Ruleset, StaleFlow, diff, forget_flows_in, plan, ruleset,
};
use serde_json::{Value, json};

use crate::lab::Lab;

const TABLE: &str = "minik8s-test";
const VIP: &str = "fd00:96::1";
const NODE: &str = "2001:db8::1";
const OUT: &str = "2001:db8::9";
const P2: &str = "fd00:244::2";
const P3: &str = "fd00:244::3";

/// A node with two pods, which have addresses of both families, and a client outside.
fn lab() -> Lab {
    let mut lab = Lab::new(&["node", "p2", "p3", "out"]);
    for (pod, v4, v6) in [("p2", "10.244.0.2", P2), ("p3", "10.244.0.3", P3)] {
        lab.pod("node", pod, "10.244.0.1", v4);
        lab.pod_v6("node", pod, "fd00:244::1", v6);
    }
    lab.cable(("node", "out"), ("out", "eth0"));
    lab.ip("node", &format!("addr add {NODE}/64 dev out nodad\nroute add default via {OUT} dev out"));
    lab.ip("out", &format!("addr add {OUT}/64 dev eth0 nodad\nroute add default via {NODE} dev eth0"));
    lab
}

fn rules(spec: Value, endpoints: &[&str]) -> Ruleset {
    let mut whole = json!({"clusterIPs": [VIP], "type": "NodePort", "ports": [
        {"name": "tcp", "port": 80, "nodePort": 30080},
        {"name": "udp", "port": 80, "nodePort": 30080, "protocol": "UDP"},
    ]});
    whole.as_object_mut().unwrap().extend(spec.as_object().unwrap().clone());
    let balancer = json!({"loadBalancer": {"ingress": [{"ip": NODE}]}});
    let status = if whole["type"] == "LoadBalancer" { balancer } else { json!({}) };
    let meta = json!({"namespace": "d", "name": "s"});
    let service = json!({"metadata": meta, "spec": whole, "status": status});
    let endpoint = |text: &&str| {
        let (address, node) = text.split_once('@').unwrap_or((*text, "a"));
        json!({"addresses": [address], "nodeName": node})
    };
    let slice = json!({
        "metadata": {"namespace": "d", "name": "s-1", "labels": {"kubernetes.io/service-name": "s"}},
        "addressType": "IPv6",
        "ports": [{"name": "tcp", "port": 8080}, {"name": "udp", "port": 8080, "protocol": "UDP"}],
        "endpoints": endpoints.iter().map(endpoint).collect::<Value>(),
    });
    let service: Service = serde_json::from_value(service).unwrap();
    let slice: EndpointSlice = serde_json::from_value(slice).unwrap();
    let routes = plan([&service], [&slice], ("a", IpFamily::V6));
    ruleset(&routes, TABLE, "fd00:244::/56".parse().unwrap())
}

/// Every answer is one of these.
#[track_caller]
fn check(lab: &Lab, (from, host, port): (&str, &str, u16), expected: &[&str]) {
    let answers = lab.ask(from, host, port, 6);
    assert!(answers.iter().all(|one| expected.contains(&one.as_str())), "{from} → {host}: {answers:?}");
    assert_eq!(answers.len(), 6, "{from} → {host}");
}

pub fn everybody_reaches_a_service() {
    let lab = lab();
    lab.nft("node", &rules(json!({}), &[P2, P3]).to_string());
    let pods = ["p2 fd00:244::2", "p3 fd00:244::2", "p2 fd00:244::3", "p3 fd00:244::3"];
    // A pod that meets itself sees the node: its own address would not come back to it.
    let hairpin = ["p2 fd00:244::1", "p3 fd00:244::2"];
    check(&lab, ("p2", VIP, 80), &hairpin);
    check(&lab, ("p3", NODE, 30080), &[&pods[..], &["p3 fd00:244::1"]].concat());
    let node = ["p2 fd00:244::1", "p3 fd00:244::1"];
    check(&lab, ("out", NODE, 30080), &node);
    // As upstream: nothing leads from ::1 to pods and back.
    check(&lab, ("node", "::1", 30080), &["refused"]);
    check(&lab, ("node", VIP, 80), &[&node[..], &["p2 2001:db8::1", "p3 2001:db8::1"]].concat());
    assert!(lab.send("p2", VIP, 80, 20, 1)[0].starts_with('p'), "over UDP");
    // What leaves the cluster bears the node's address.
    let mut lab = lab;
    lab.serve("out");
    check(&lab, ("p2", OUT, 8080), &["out 2001:db8::1"]);

    lab.nft("node", &rules(json!({}), &[]).to_string());
    check(&lab, ("p2", VIP, 80), &["refused"]);
    // By another pod: what the first one sent from the same port would go on.
    assert_eq!(lab.send("p3", VIP, 80, 20, 1), ["refused"]);

    lab.nft("node", &rules(json!({"sessionAffinity": "ClientIP"}), &[P2, P3]).to_string());
    let answers = lab.ask("out", NODE, 30080, 12);
    assert!(answers[0].starts_with('p') && answers.iter().all(|one| *one == answers[0]), "{answers:?}");

    let local = json!({"type": "LoadBalancer", "externalTrafficPolicy": "Local",
        "loadBalancerSourceRanges": ["2001:db8::8/125", "192.0.2.0/24"]});
    lab.nft("node", &rules(local, &[P2, "fd00:244:0:1::7@b"]).to_string());
    check(&lab, ("out", NODE, 80), &["p2 2001:db8::9"]);
    lab.ip("out", &format!("addr add 2001:db8::19/64 dev eth0 nodad\naddr del {OUT}/64 dev eth0"));
    assert_eq!(lab.ask("out", NODE, 80, 1), ["failed TimeoutError"]);
}

pub fn kernel_lists_rules_as_they_were_written() {
    let lab = lab();
    let local = json!({"type": "LoadBalancer", "externalTrafficPolicy": "Local", "sessionAffinity": "ClientIP",
        "loadBalancerSourceRanges": ["2001:db8::9/128", "fd00::/8"]});
    for wanted in [rules(json!({}), &[P2, P3]), rules(local, &[P2, P3]), rules(json!({}), &[])] {
        lab.nft("node", &wanted.to_string());
        let listing = lab.run("node", &["nft", "-p", "list", "table", "ip6", TABLE]);
        let found = Listing::parse(&listing).into_ruleset(&wanted).expect("maps of our types");
        assert_eq!(diff(&found, &wanted).unwrap().to_string(), "");
    }
    // A datagram's flow stays until it is forgotten.
    lab.nft("node", &rules(json!({}), &[P2]).to_string());
    assert!(lab.send("out", NODE, 30080, 20, 1)[0].starts_with("p2"));
    lab.nft("node", &rules(json!({}), &[P3]).to_string());
    assert!(lab.send("out", NODE, 30080, 20, 1)[0].starts_with("p2"), "the kernel remembers");
    let flow =
        StaleFlow { frontend: Frontend::NodePort(Protocol::Udp, 30080), endpoint: Some(P2.parse().unwrap()) };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(forget_flows_in(Some(&lab.namespace("node")), IpFamily::V6, &[flow]));
    assert!(lab.send("out", NODE, 30080, 20, 1)[0].starts_with("p3"), "and has forgotten");
}

pub fn policy_guards_pods() {
    let lab = lab();
    let pod = |name: &str, addresses: [&str; 2]| Pod {
        namespace: "shop".to_owned(),
        name: name.to_owned(),
        labels: [("app".to_owned(), name.to_owned())].into(),
        node: "a".to_owned(),
        addresses: addresses.map(|text| text.parse().unwrap()).to_vec(),
        ..Pod::default()
    };
    let load = |ingress: Value| {
        let object = json!({"metadata": {"namespace": "shop", "name": "p"}, "spec": {
            "podSelector": {"matchLabels": {"app": "p2"}}, "ingress": ingress}});
        let mut table = PolicyTable::new(IpFamily::V6, "minik8s-test-policies", "a", None);
        table.set_pod(pod("p2", ["10.244.0.2", P2]));
        table.set_pod(pod("p3", ["10.244.0.3", P3]));
        table.set_policy(Policy::from(&serde_json::from_value::<NetworkPolicy>(object).unwrap()));
        table.take_change();
        let rules = table.ruleset();
        lab.nft("node", &rules.to_string());
        let listing = lab.run("node", &["nft", "-p", "list", "table", "ip6", "minik8s-test-policies"]);
        let found = Listing::parse(&listing).into_ruleset(&rules).expect("maps of our types");
        assert_eq!(diff(&found, &rules).unwrap().to_string(), "");
    };
    let answered = |from: &str| lab.ask(from, P2, 8080, 1)[0].starts_with("p2");
    load(json!([]));
    assert!(!answered("p3") && !answered("out"), "nobody is let in");
    assert!(answered("node"), "a node always reaches its pods");
    assert!(
        lab.ask("p3", "10.244.0.2", 8080, 1)[0].starts_with("p2"),
        "the other family has a table of its own"
    );
    load(json!([{"from": [{"podSelector": {"matchLabels": {"app": "p3"}}}]}]));
    assert!(answered("p3") && !answered("out"));
    load(json!([{"from": [{"ipBlock": {"cidr": "::/0", "except": ["fd00:244::/64", "10.0.0.0/8"]}}]}]));
    assert!(!answered("p3") && answered("out"));
}

/// Sends a neighbour advertisement, a router advertisement or a datagram from an address that is not the pod's.
const FORGE: &str = r#"
import socket, struct, sys
what, source, target = sys.argv[1:4]
s = socket.socket(socket.AF_PACKET, socket.SOCK_RAW); s.bind(("eth0", 0x86dd))
mac = s.getsockname()[4]
address = lambda text: socket.inet_pton(socket.AF_INET6, text)
def checksum(data):
    data += b"\0" * (len(data) % 2)
    total = sum(struct.unpack("!%dH" % (len(data) // 2), data))
    while total >> 16: total = (total & 0xffff) + (total >> 16)
    return ~total & 0xffff
def packet(protocol, body, at):
    pseudo = address(source) + address(target) + struct.pack("!IxxxB", len(body), protocol)
    body = body[:at] + struct.pack("!H", checksum(pseudo + body)) + body[at + 2:]
    return struct.pack("!IHBB", 6 << 28, len(body), protocol, 255) + address(source) + address(target) + body
lladdr = bytes([2, 1]) + mac
if what == "advert": body = packet(58, struct.pack("!BBHI", 136, 0, 0, 0x20000000) + address(sys.argv[4]) + lladdr, 2)
elif what == "router": body = packet(58, struct.pack("!BBHBBHII", 134, 0, 0, 64, 0, 1800, 0, 0) + bytes([1, 1]) + mac, 2)
else: body = packet(17, struct.pack("!HHHH", 4444, 9999, 14, 0) + b"forged", 6)
s.send(bytes.fromhex(sys.argv[5].replace(":", "")) + mac + b"\x86\xdd" + body)
"#;

pub fn spoofed_packets_of_a_pod_are_dropped() {
    let lab = lab();
    let address = |machine: &str, device: &str| {
        lab.run(machine, &["cat", &format!("/sys/class/net/{device}/address")]).trim().to_owned()
    };
    let (p2_mac, p3_mac) = (address("p2", "eth0"), address("p3", "eth0"));
    let port = ("p2".to_owned(), p2_mac, vec![P2.parse().unwrap(), "10.244.0.2".parse().unwrap()]);
    let forge = |what: &str, source: &str, target: &str, about: &str| {
        lab.run("p2", &["python3", "-c", FORGE, what, source, target, about, &p3_mac]);
    };
    // The hardware address that p3 has of its gateway.
    let neighbour = || {
        let line = lab.run("p3", &["ip", "neigh", "show", "fd00:244::1"]);
        line.split("lladdr ").nth(1).and_then(|rest| rest.split(' ').next()).unwrap_or_default().to_owned()
    };
    let heard = |source: &str| lab.heard("p3", || forge("datagram", source, P3, "::"));
    let routers = || lab.run("p3", &["ip", "-6", "route", "show", "proto", "ra"]);

    // Without the guard all of it works.
    assert!(lab.ask("p3", "fd00:244::1", 1, 1)[0] == "refused", "p3 knows its gateway");
    let gateway = neighbour();
    forge("advert", "fd00:244::1", P3, "fd00:244::1");
    assert_ne!(neighbour(), gateway, "the advertisement was believed");
    assert_eq!(heard("fd00:244::77"), "fd00:244::77");
    lab.run("p3", &["ip", "neigh", "flush", "all"]);

    lab.nft("node", &(pod_ports::rules(TABLE, true) + &pod_ports::elements(TABLE, &port)));
    // Twice: an agent that starts writes its rules anew.
    lab.nft("node", &(pod_ports::rules(TABLE, true) + &pod_ports::elements(TABLE, &port)));
    assert!(lab.ask("p2", P3, 8080, 1)[0].starts_with("p3 "), "neighbours find each other");
    assert!(lab.ask("p3", P2, 8080, 1)[0].starts_with("p2 "), "and are found");
    assert!(lab.ask("p3", "fd00:244::1", 1, 1)[0] == "refused");
    let gateway = neighbour();
    forge("advert", P2, P3, "fd00:244::1");
    forge("advert", "fe80::1", P3, "fd00:244::1");
    forge("router", "fe80::1", P3, "::");
    assert_eq!(heard("fd00:244::77"), "nothing");
    assert_eq!(heard("fe80::7"), "nothing", "the link's addresses are for finding neighbours alone");
    assert_eq!(heard(P2), P2);
    assert_eq!(neighbour(), gateway);
    assert_eq!(routers(), "");
}

pub fn pods_reach_pods_of_other_nodes() {
    let mut lab = Lab::new(&["a", "b", "pa", "pb"]);
    lab.cable(("a", "eth0"), ("b", "eth0"));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let owner = Owner::of("0badcafe");
    let mut peers = Vec::new();
    for (index, (node, pod)) in [("a", "pa"), ("b", "pb")].into_iter().enumerate() {
        lab.ip(node, &format!("addr add 192.0.2.{}/24 dev eth0", index + 1));
        lab.ip(node, &format!("addr add 2001:db8::{}/64 dev eth0 nodad", index + 1));
        lab.pod(node, pod, &format!("10.244.{index}.1"), &format!("10.244.{index}.2"));
        lab.pod_v6(node, pod, &format!("fd00:244:0:{index}::1"), &format!("fd00:244:0:{index}::2"));
        lab.nft(node, &ruleset(&Routes::default(), TABLE, "fd00:244::/56".parse().unwrap()).to_string());
        peers.push(Peer {
            name: node.to_owned(),
            addresses: vec![],
            pods: vec![
                format!("10.244.{index}.0/24").parse().unwrap(),
                format!("fd00:244:0:{index}::/64").parse().unwrap(),
            ],
        });
    }
    let cluster = |primary_v6: bool| match primary_v6 {
        true => "fd00:244::/56,10.244.0.0/16".parse().unwrap(),
        false => "10.244.0.0/16,fd00:244::/56".parse().unwrap(),
    };
    // By routes; in a tunnel of IPv6; in one of IPv4, between nodes that have nothing else.
    for (backend, v4, v6) in
        [(Backend::HostGw, true, true), (Backend::Vxlan, false, true), (Backend::Vxlan, true, false)]
    {
        for (index, peer) in peers.iter_mut().enumerate() {
            let v4 = v4.then(|| format!("192.0.2.{}", index + 1).parse().unwrap());
            let v6 = v6.then(|| format!("2001:db8::{}", index + 1).parse().unwrap());
            peer.addresses = v4.into_iter().chain(v6).collect();
        }
        for peer in &peers {
            let kernel = Kernel { namespace: Some(lab.namespace(&peer.name)) };
            runtime.block_on(async {
                let mut uplinks = Vec::new();
                for address in &peer.addresses {
                    uplinks.push(kernel.uplink(*address).await.unwrap());
                }
                let tunnel = owner.tunnel.clone();
                let me = Me { name: peer.name.clone(), uplinks, cluster: cluster(v6), backend, tunnel };
                let wanted = plan_links(&peers, &me).links;
                kernel.apply(&changes(&kernel.links(&owner).await.unwrap(), &wanted, &owner)).await.unwrap();
                let again = changes(&kernel.links(&owner).await.unwrap(), &wanted, &owner);
                assert!(again.is_empty(), "{backend:?} {v4} {v6}: {again:?}");
            });
        }
        let what = format!("{backend:?} {v4} {v6}");
        assert_eq!(lab.ask("pa", "fd00:244:0:1::2", 8080, 1), ["pb fd00:244::2"], "{what}");
        assert_eq!(lab.ask("pb", "10.244.0.2", 8080, 1), ["pa 10.244.1.2"], "{what}");
    }
    for node in ["a", "b"] {
        let kernel = Kernel { namespace: Some(lab.namespace(node)) };
        runtime.block_on(kernel.clear(&owner)).unwrap();
        assert_eq!(lab.run(node, &["ip", "-6", "route", "show", "proto", "77"]), "");
    }
}
