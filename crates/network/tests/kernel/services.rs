//! A node with its bridge, two pods and a client outside.

use std::io::Read;
use std::process::Stdio;
use std::sync::atomic::{AtomicBool, Ordering};

use k8s_openapi::api::core::v1::Service;
use k8s_openapi::api::discovery::v1::EndpointSlice;
use minik8s_network::proxy::{Ruleset, diff, plan, ruleset};
use serde_json::{Value, json};

use crate::lab::{CLIENT, Lab};

const VIP: &str = "10.96.0.1";
const NODE: &str = "192.0.2.1";

fn lab() -> Option<Lab> {
    let mut lab = Lab::new(&["node", "p2", "p3", "out"])?;
    lab.pod("node", "p2", "10.244.0.1", "10.244.0.2");
    lab.pod("node", "p3", "10.244.0.1", "10.244.0.3");
    lab.cable(("node", "out"), ("out", "eth0"));
    lab.ip("node", &format!("addr add {NODE}/24 dev out\nroute add default via 192.0.2.9"));
    lab.ip("out", &format!("addr add 192.0.2.9/24 dev eth0\nroute add default via {NODE}"));
    Some(lab)
}

fn rules(spec: Value, annotations: Value, addresses: &[&str]) -> Ruleset {
    let mut whole = json!({
        "clusterIP": VIP, "type": "NodePort", "ports": [{"port": 80, "nodePort": 30080}],
    });
    whole.as_object_mut().unwrap().extend(spec.as_object().unwrap().clone());
    let meta = json!({"namespace": "d", "name": "s", "annotations": annotations});
    let service: Service = serde_json::from_value(json!({"metadata": meta, "spec": whole})).unwrap();
    let endpoints: Vec<Value> =
        addresses.iter().map(|a| json!({"addresses": [a], "nodeName": "a"})).collect();
    let slice: EndpointSlice = serde_json::from_value(json!({
        "metadata": {"namespace": "d", "name": "s-1", "labels": {"kubernetes.io/service-name": "s"}},
        "addressType": "IPv4", "ports": [{"port": 8080}], "endpoints": endpoints,
    }))
    .unwrap();
    ruleset(&plan([&service], [&slice], "a"), "minik8s-test", "10.244.0.0/16".parse().unwrap())
}

const BOTH: &[&str] = &["10.244.0.2", "10.244.0.3"];

fn names(answers: &[String]) -> Vec<&str> {
    answers.iter().map(|answer| answer.split(' ').next().unwrap()).collect()
}

#[test]
fn everybody_reaches_a_service() {
    let Some(lab) = lab() else { return };
    lab.nft("node", &rules(json!({}), json!({}), BOTH).to_string());
    for (from, host, port) in [
        ("p2", VIP, 80),
        ("p3", VIP, 80),
        ("node", VIP, 80),
        ("out", VIP, 80),
        ("out", NODE, 30080),
        ("p2", NODE, 30080),
        ("node", NODE, 30080),
    ] {
        // 24 connections, and a pod that is its own endpoint among them.
        let answers = lab.ask(from, host, port, 24);
        let names = names(&answers);
        assert!(names.iter().all(|name| ["p2", "p3"].contains(name)), "{from} → {host}:{port}: {answers:?}");
        assert!(names.contains(&"p2") && names.contains(&"p3"), "{from} → {host}:{port}: {answers:?}");
    }
}

#[test]
fn no_endpoints_no_waiting() {
    let Some(lab) = lab() else { return };
    lab.nft("node", &rules(json!({}), json!({}), &[]).to_string());
    for (from, host, port) in [("p2", VIP, 80), ("node", VIP, 80), ("out", VIP, 80), ("out", NODE, 30080)] {
        assert_eq!(lab.ask(from, host, port, 2), ["refused", "refused"], "{from} → {host}:{port}");
    }
}

#[test]
fn how_endpoints_are_picked() {
    let Some(lab) = lab() else { return };
    let turns = json!({"minik8s.io/balance": "round-robin"});
    lab.nft("node", &rules(json!({}), turns, BOTH).to_string());
    let answers = lab.ask("out", VIP, 80, 6);
    let names = names(&answers);
    assert!(names.windows(2).all(|pair| pair[0] != pair[1]), "{answers:?}");
    lab.nft("node", &rules(json!({"sessionAffinity": "ClientIP"}), json!({}), BOTH).to_string());
    let answers = lab.ask("out", NODE, 30080, 12);
    assert!(answers.iter().all(|answer| *answer == answers[0] && answer.starts_with('p')), "{answers:?}");
}

#[test]
fn the_source_is_kept_where_the_policy_says_so() {
    let Some(lab) = lab() else { return };
    let check = |spec: Value, from: &str, expected: &str| {
        lab.nft("node", &rules(spec.clone(), json!({}), &["10.244.0.2"]).to_string());
        assert_eq!(lab.ask(from, NODE, 30080, 1), [format!("p2 {expected}")], "{spec} from {from}");
    };
    check(json!({}), "out", "10.244.0.1");
    check(json!({"externalTrafficPolicy": "Local"}), "out", "192.0.2.9");
    check(json!({"externalTrafficPolicy": "Local"}), "p3", "10.244.0.3");
}

#[test]
fn no_connection_fails_while_rules_change() {
    let Some(lab) = lab() else { return };
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
        for next in [1, 2, 1, 0].into_iter().cycle().take(40) {
            lab.nft("node", &diff(&states[now], &states[next]).unwrap().to_string());
            now = next;
        }
        // An agent that starts anew replaces the whole table.
        for _ in 0..10 {
            lab.nft("node", &states[now].to_string());
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
