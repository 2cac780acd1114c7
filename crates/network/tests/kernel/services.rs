//! A node with its bridge, two pods and a client outside.

use std::io::Read;
use std::process::Stdio;
use std::sync::atomic::{AtomicBool, Ordering};

use k8s_openapi::api::core::v1::Service;
use k8s_openapi::api::discovery::v1::EndpointSlice;
use minik8s_meta::IpFamily;
use minik8s_network::pod_ports;
use minik8s_network::proxy::{
    Book, Change, Listing, Routes, Ruleset, StaleFlow, Table, diff, forget_flows_in, plan, ruleset,
    stale_flows,
};
use serde_json::{Value, json};

use crate::lab::{CLIENT, Lab};

const VIP: &str = "10.96.0.1";
const NODE: &str = "192.0.2.1";

fn lab() -> Lab {
    let mut lab = Lab::new(&["node", "p2", "p3", "out"]);
    lab.pod("node", "p2", "10.244.0.1", "10.244.0.2");
    lab.pod("node", "p3", "10.244.0.1", "10.244.0.3");
    lab.cable(("node", "out"), ("out", "eth0"));
    lab.ip("node", &format!("addr add {NODE}/24 dev out\nroute add default via 192.0.2.9"));
    lab.ip("out", &format!("addr add 192.0.2.9/24 dev eth0\nroute add default via {NODE}"));
    lab
}

/// As the agent does.
fn route_localnet(lab: &Lab) {
    for interface in ["br0", "out"] {
        let set = format!("echo 1 > /proc/sys/net/ipv4/conf/{interface}/route_localnet");
        lab.run("node", &["sh", "-c", &set]);
    }
}

/// Of a Service with a TCP and a UDP port, on the node `a`. An address may be followed by its node after `@`, and
/// by `~` if the endpoint terminates.
fn routes(spec: Value, annotations: Value, addresses: &[&str]) -> Routes {
    let mut whole = json!({"clusterIP": VIP, "type": "NodePort", "ports": [
        {"name": "tcp", "port": 80, "nodePort": 30080},
        {"name": "udp", "port": 80, "nodePort": 30080, "protocol": "UDP"},
    ]});
    whole.as_object_mut().unwrap().extend(spec.as_object().unwrap().clone());
    let meta = json!({"namespace": "d", "name": "s", "annotations": annotations});
    let status = json!({"loadBalancer": {"ingress": [{"ip": NODE}]}});
    let balancer = whole["type"] == "LoadBalancer";
    let service =
        json!({"metadata": meta, "spec": whole, "status": if balancer { status } else { json!({}) }});
    let service: Service = serde_json::from_value(service).unwrap();
    let endpoint = |text: &&str| {
        let plain = text.trim_end_matches('~');
        let (address, node) = plain.split_once('@').unwrap_or((plain, "a"));
        let terminating = plain != *text;
        let conditions = json!({"ready": !terminating, "serving": true, "terminating": terminating});
        json!({"addresses": [address], "nodeName": node, "conditions": conditions})
    };
    let slice: EndpointSlice = serde_json::from_value(json!({
        "metadata": {"namespace": "d", "name": "s-1", "labels": {"kubernetes.io/service-name": "s"}},
        "addressType": "IPv4",
        "ports": [{"name": "tcp", "port": 8080}, {"name": "udp", "port": 8080, "protocol": "UDP"}],
        "endpoints": addresses.iter().map(endpoint).collect::<Value>(),
    }))
    .unwrap();
    plan([&service], [&slice], ("a", IpFamily::V4))
}

fn rules(spec: Value, annotations: Value, addresses: &[&str]) -> Ruleset {
    let routes = routes(spec, annotations, addresses);
    ruleset(&routes, "minik8s-test", "10.244.0.0/16".parse().unwrap())
}

const BOTH: &[&str] = &["10.244.0.2", "10.244.0.3"];

fn names(answers: &[String]) -> Vec<&str> {
    answers.iter().map(|answer| answer.split(' ').next().unwrap()).collect()
}

pub fn everybody_reaches_a_service() {
    let lab = lab();
    lab.nft("node", &rules(json!({}), json!({}), BOTH).to_string());
    route_localnet(&lab);
    for (from, host, port) in [
        ("p2", VIP, 80),
        ("p3", VIP, 80),
        ("node", VIP, 80),
        ("out", VIP, 80),
        ("out", NODE, 30080),
        ("p2", NODE, 30080),
        ("node", NODE, 30080),
        ("node", "127.0.0.1", 30080),
    ] {
        // 24 connections, and a pod that is its own endpoint among them.
        let answers = lab.ask(from, host, port, 24);
        let names = names(&answers);
        assert!(names.iter().all(|name| ["p2", "p3"].contains(name)), "{from} → {host}:{port}: {answers:?}");
        assert!(names.contains(&"p2") && names.contains(&"p3"), "{from} → {host}:{port}: {answers:?}");
    }
}

/// What is open for the node's own loopback is closed for everybody beside it (CVE-2020-8558).
pub fn loopback_is_not_reached_from_outside() {
    let lab = lab();
    route_localnet(&lab);
    let strangers = [("out", "out", "192.0.2.9", "127.0.0.1"), ("p2", "br0", "10.244.0.2", "127.0.0.1")];
    for (from, at, source, target) in strangers {
        assert_eq!(lab.forge(from, ("node", at), source, target), source, "without rules it gets in");
    }
    lab.nft("node", &rules(json!({}), json!({}), BOTH).to_string());
    for (from, at, source, target) in strangers {
        assert_eq!(lab.forge(from, ("node", at), source, target), "nothing", "{from}");
        assert_eq!(lab.forge(from, ("node", at), "127.0.0.1", NODE), "nothing", "{from}, as the node itself");
    }
    assert_eq!(lab.forge("out", ("node", "out"), "192.0.2.9", NODE), "192.0.2.9", "what is honest passes");
    assert!(lab.send("node", "127.0.0.1", 30080, 1, 2).iter().all(|answer| answer.starts_with('p')));
}

/// A pod sends with its own addresses or not at all.
pub fn spoofed_source_of_a_pod_is_dropped() {
    let lab = lab();
    let gateway = "10.244.0.1";
    let send = |source: &str| lab.forge("p2", ("node", "br0"), source, gateway);
    assert_eq!(send("10.244.0.3"), "10.244.0.3", "without rules a pod can be its neighbour");
    let mac = |pod: &str| lab.run(pod, &["cat", "/sys/class/net/eth0/address"]).trim().to_owned();
    let text = |mac: String| {
        let port = ("p2".to_owned(), mac, vec![[10, 244, 0, 2].into()]);
        pod_ports::rules("minik8s-test", false) + &pod_ports::elements("minik8s-test", &port)
    };
    lab.nft("node", &text(mac("p2")));
    assert_eq!(send("10.244.0.2"), "10.244.0.2", "its own");
    for source in ["10.244.0.3", "10.96.0.10", "192.0.2.9", "203.0.113.1", "0.0.0.0"] {
        assert_eq!(send(source), "nothing", "{source}");
    }
    // Neighbours and what leads to pods are as before; so it is after a second start.
    lab.nft("node", &text(mac("p2")));
    lab.nft("node", &rules(json!({}), json!({}), BOTH).to_string());
    for (from, host) in [("p2", VIP), ("p3", VIP), ("out", VIP), ("node", VIP)] {
        let answers = lab.ask(from, host, 80, 8);
        assert!(answers.iter().all(|answer| answer.starts_with('p')), "{from}: {answers:?}");
    }
    assert_eq!(lab.ask("p2", "10.244.0.3", 8080, 1), ["p3 10.244.0.2"]);
    // Nor with another hardware address, by which it could draw its neighbour's packets.
    lab.ip("p2", &format!("link set dev eth0 address {}", mac("p3")));
    assert_eq!(send("10.244.0.2"), "nothing");
}

pub fn no_endpoints_no_waiting() {
    let lab = lab();
    lab.nft("node", &rules(json!({}), json!({}), &[]).to_string());
    for (from, host, port) in [("p2", VIP, 80), ("node", VIP, 80), ("out", VIP, 80), ("out", NODE, 30080)] {
        assert_eq!(lab.ask(from, host, port, 2), ["refused", "refused"], "{from} → {host}:{port}");
    }
}

pub fn how_endpoints_are_picked() {
    let lab = lab();
    let turns = json!({"minik8s.io/balance": "round-robin"});
    lab.nft("node", &rules(json!({}), turns, BOTH).to_string());
    let answers = lab.ask("out", VIP, 80, 6);
    let names = names(&answers);
    assert!(names.windows(2).all(|pair| pair[0] != pair[1]), "{answers:?}");
}

/// What an agent that starts finds, and what it would change.
fn change_from_what_is_there(lab: &Lab, wanted: &Ruleset) -> Change {
    let listing = lab.run("node", &["nft", "-p", "list", "table", "ip", "minik8s-test"]);
    let found = Listing::parse(&listing).into_ruleset(wanted).expect("maps of our types");
    diff(&found, wanted).expect("maps of our types")
}

pub fn a_new_start_finds_what_is_there() {
    let lab = lab();
    let turns = json!({"minik8s.io/balance": "round-robin"});
    let sticky = json!({"sessionAffinity": "ClientIP"});
    let local = json!({"externalTrafficPolicy": "Local", "internalTrafficPolicy": "Local", "externalIPs": ["203.0.113.7"]});
    let guarded =
        json!({"type": "LoadBalancer", "loadBalancerSourceRanges": ["192.0.2.0/24", "198.51.100.7/32"]});
    let states: Vec<Ruleset> = [
        rules(json!({}), json!({}), BOTH),
        rules(json!({}), turns.clone(), BOTH),
        rules(sticky.clone(), json!({}), BOTH),
        rules(local, json!({}), &["10.244.0.2@b", "10.244.0.3"]),
        rules(guarded, json!({}), BOTH),
        rules(json!({}), json!({}), &[]),
    ]
    .into();
    lab.nft("node", &states[0].to_string());
    // From each to each other: only the difference is applied, and leaves none.
    for (index, wanted) in states.iter().chain(states.iter().rev()).enumerate() {
        let change = change_from_what_is_there(&lab, wanted);
        lab.nft("node", &change.to_string());
        assert_eq!(
            change_from_what_is_there(&lab, wanted).to_string(),
            "",
            "after change {index}:\n{change}"
        );
    }
    // So turns go on where they were, and clients stay where they are.
    lab.nft("node", &states[1].to_string());
    let mut answers = lab.ask("out", VIP, 80, 3);
    lab.nft("node", &change_from_what_is_there(&lab, &states[1]).to_string());
    answers.extend(lab.ask("out", VIP, 80, 3));
    assert!(names(&answers).windows(2).all(|pair| pair[0] != pair[1]), "{answers:?}");
    lab.nft("node", &states[2].to_string());
    let mut answers = lab.ask("out", VIP, 80, 1);
    for _ in 0..12 {
        lab.nft("node", &change_from_what_is_there(&lab, &states[2]).to_string());
        answers.extend(lab.ask("out", VIP, 80, 1));
    }
    assert!(names(&answers).iter().all(|name| *name == names(&answers)[0]), "{answers:?}");
}

pub fn a_client_stays_with_its_endpoint() {
    let lab = lab();
    let sticky = |seconds: u32| json!({"sessionAffinity": "ClientIP", "sessionAffinityConfig": {"clientIP": {"timeoutSeconds": seconds}}});
    lab.nft("node", &rules(sticky(60), json!({}), BOTH).to_string());
    for (from, host, port) in [("out", NODE, 30080), ("out", VIP, 80), ("p2", VIP, 80)] {
        let answers = lab.ask(from, host, port, 12);
        assert!(answers.iter().all(|answer| *answer == answers[0] && answer.starts_with('p')), "{answers:?}");
        // Another endpoint comes: nobody moves. The client's own goes: it is led to one that is there.
        let first = names(&answers)[0].to_owned();
        let (own, other) = if first == "p2" { (BOTH[0], BOTH[1]) } else { (BOTH[1], BOTH[0]) };
        let mut book = Book::default();
        book.put(&Default::default(), routes(sticky(60), json!({}), BOTH));
        let mut table = Table::new(IpFamily::V4, "minik8s-test", &book.routes());
        book.take_changes();
        let mut change = |endpoints: &[&str]| {
            book.put(&Default::default(), routes(sticky(60), json!({}), endpoints));
            lab.nft("node", &table.change(&book.take_changes()).to_string());
            lab.ask(from, host, port, 6)
        };
        let answers = change(&["10.244.0.1", "10.244.0.9", BOTH[0], BOTH[1]]);
        assert!(names(&answers).iter().all(|name| *name == first), "{answers:?}");
        let answers = change(&[other]);
        assert!(names(&answers).iter().all(|name| *name != first && name.starts_with('p')), "{answers:?}");
        // It stays there when the old one comes back.
        let answers = change(&[own, other]);
        assert!(names(&answers).iter().all(|name| *name != first && name.starts_with('p')), "{answers:?}");
    }
    // Without affinity clients come to all endpoints again.
    lab.nft("node", &rules(json!({}), json!({}), BOTH).to_string());
    for (host, port) in [(NODE, 30080), (VIP, 80)] {
        let answers = lab.ask("out", host, port, 24);
        let names = names(&answers);
        assert!(names.contains(&"p2") && names.contains(&"p3"), "{answers:?}");
    }
    // After the time-out the choice is free again: 30 times the same would be no chance.
    lab.nft("node", &rules(sticky(1), json!({}), BOTH).to_string());
    let mut seen = std::collections::BTreeSet::new();
    for _ in 0..30 {
        seen.insert(lab.ask("out", VIP, 80, 1));
        std::thread::sleep(std::time::Duration::from_millis(1200));
        if seen.len() > 1 {
            return;
        }
    }
    panic!("a client never came to another endpoint: {seen:?}");
}

pub fn a_load_balancer_is_the_node_and_guards_its_sources() {
    let lab = lab();
    let check = |ranges: Value, from: &str, expected: &str| {
        let spec = json!({"type": "LoadBalancer", "loadBalancerSourceRanges": ranges});
        lab.nft("node", &rules(spec, json!({}), BOTH).to_string());
        let answer = lab.ask(from, NODE, 80, 1);
        assert!(answer[0].starts_with(expected), "{ranges} from {from}: {answer:?}");
    };
    for from in ["out", "p2", "node"] {
        check(json!(null), from, "p");
    }
    check(json!(["192.0.2.0/24", "192.0.2.9/32"]), "out", "p");
    check(json!(["198.51.100.0/24"]), "out", "failed");
    check(json!(["198.51.100.0/24"]), "node", "p");
    // The Service's other ways in are not guarded.
    assert!(lab.ask("out", NODE, 30080, 1)[0].starts_with('p'));
}

pub fn external_addresses_lead_to_the_service() {
    let lab = lab();
    lab.nft("node", &rules(json!({"externalIPs": ["203.0.113.7"]}), json!({}), BOTH).to_string());
    for from in ["out", "p2", "node"] {
        assert!(lab.ask(from, "203.0.113.7", 80, 1)[0].starts_with('p'), "{from}");
    }
}

pub fn traffic_stays_on_the_node_where_the_policy_says_so() {
    let lab = lab();
    let check = |spec: Value, endpoints: &[&str], port: (&str, u16), expected: &str| {
        lab.nft("node", &rules(spec.clone(), json!({}), endpoints).to_string());
        let answers = lab.ask("out", port.0, port.1, 6);
        assert!(
            answers.iter().all(|answer| answer.starts_with(expected)),
            "{spec} {endpoints:?}: {answers:?}"
        );
    };
    let two = ["10.244.0.2@b", "10.244.0.3"];
    check(json!({"internalTrafficPolicy": "Local"}), &two, (VIP, 80), "p3");
    check(json!({"internalTrafficPolicy": "Local"}), &two[..1], (VIP, 80), "refused");
    check(json!({"externalTrafficPolicy": "Local"}), &two, (NODE, 30080), "p3");
    check(json!({"externalTrafficPolicy": "Local"}), &two[..1], (NODE, 30080), "refused");
    // Endpoints that terminate serve only if there are no others.
    check(json!({}), &["10.244.0.2~", "10.244.0.3"], (VIP, 80), "p3");
    check(json!({}), &["10.244.0.2~"], (VIP, 80), "p2");
}

pub fn datagrams_leave_an_endpoint_that_is_gone() {
    let lab = lab();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let mut book = Book::default();
    let mut table = Table::new(IpFamily::V4, "minik8s-test", &Routes::default());
    lab.nft("node", &rules(json!({"clusterIP": "None"}), json!({}), &[]).to_string());
    let mut change = |endpoints: &[&str]| {
        book.put(&Default::default(), routes(json!({}), json!({}), endpoints));
        let changes = book.take_changes();
        lab.nft("node", &table.change(&changes).to_string());
        let flows: Vec<StaleFlow> = stale_flows(&changes);
        runtime.block_on(forget_flows_in(Some(&lab.namespace("node")), IpFamily::V4, &flows));
    };
    // Always from the same port, so that the kernel takes it for one flow.
    for (endpoints, expected) in
        [(&BOTH[..1], "p2"), (&BOTH[1..], "p3"), (&[], "refused"), (&BOTH[..1], "p2"), (BOTH, "p2")]
    {
        change(endpoints);
        for from in ["out", "p3", "node"] {
            let answers = lab.send(from, VIP, 80, 1, 2);
            let fits = |answer: &String| answer.starts_with(expected);
            assert!(answers.iter().all(fits) && answers.len() == 2, "{endpoints:?} {from}: {answers:?}");
        }
    }
}

pub fn the_source_is_kept_where_the_policy_says_so() {
    let lab = lab();
    let check = |spec: Value, from: &str, expected: &str| {
        lab.nft("node", &rules(spec.clone(), json!({}), &["10.244.0.2"]).to_string());
        assert_eq!(lab.ask(from, NODE, 30080, 1), [format!("p2 {expected}")], "{spec} from {from}");
    };
    check(json!({}), "out", "10.244.0.1");
    check(json!({"externalTrafficPolicy": "Local"}), "out", "192.0.2.9");
    check(json!({"externalTrafficPolicy": "Local"}), "p3", "10.244.0.3");
}

pub fn no_connection_fails_while_rules_change() {
    let lab = lab();
    let states = [&BOTH[..1], BOTH, &BOTH[1..]].map(|addresses| rules(json!({}), json!({}), addresses));
    lab.nft("node", &states[0].to_string());
    let mut client = lab
        .command("out", &["python3", "-c", CLIENT, VIP, "80", "0"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut output = client.stdout.take().unwrap();
    let done = AtomicBool::new(false);
    let answers = std::thread::scope(|scope| {
        let reader = scope.spawn(|| {
            let mut text = String::new();
            output.read_to_string(&mut text).unwrap();
            done.store(true, Ordering::Relaxed);
            text
        });
        let mut now = 0;
        for next in [1, 2, 1, 0].into_iter().cycle().take(120) {
            lab.nft("node", &diff(&states[now], &states[next]).unwrap().to_string());
            now = next;
        }
        // An agent that starts anew changes only what differs.
        for next in [1, 2, 1, 0] {
            lab.nft("node", &change_from_what_is_there(&lab, &states[next]).to_string());
        }
        assert!(!done.load(Ordering::Relaxed), "the client ended early");
        drop(client.stdin.take());
        reader.join().unwrap()
    });
    client.wait().unwrap();
    let bad: Vec<&str> = answers.lines().filter(|line| !line.starts_with('p')).collect();
    assert!(
        bad.is_empty() && answers.lines().count() > 50,
        "{} answers, bad: {bad:?}",
        answers.lines().count()
    );
}
