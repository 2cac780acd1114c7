//! The rules in a real kernel: a node with its bridge, two pods and a client outside, each a network namespace
//! of its own. Needs root; without it the test says so and does nothing.

#![allow(clippy::unwrap_used)]

use std::io::{Read, Write};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, Instant};

use k8s_openapi::api::core::v1::Service;
use k8s_openapi::api::discovery::v1::EndpointSlice;
use minik8s_network::proxy::{Ruleset, diff, plan, ruleset};
use serde_json::{Value, json};

const VIP: &str = "10.96.0.1";
const NODE: &str = "192.0.2.1";

/// Answers every connection with its name and the client's address.
const SERVER: &str = r#"
import socket, sys
s = socket.socket(); s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
s.bind(("0.0.0.0", 8080)); s.listen(256)
while True:
    c, peer = s.accept(); c.sendall((sys.argv[1] + " " + peer[0]).encode()); c.close()
"#;

/// Connects N times (or, with 0, until its input ends) and prints every answer, or "refused" and the like.
const CLIENT: &str = r#"
import socket, sys, select
host, port, times = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
n = 0
while (n < times) if times else not select.select([sys.stdin], [], [], 0)[0]:
    n += 1
    try:
        with socket.create_connection((host, port), timeout=3) as c: print(c.recv(99).decode())
    except ConnectionRefusedError: print("refused")
    except Exception as e: print("failed", type(e).__name__)
"#;

struct Lab {
    prefix: String,
    servers: Vec<Child>,
}

impl Lab {
    /// `None` where namespaces cannot be made.
    fn new() -> Option<Lab> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let prefix = format!("mkn{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        let mut lab = Lab { prefix, servers: Vec::new() };
        for name in ["node", "p2", "p3", "out"] {
            let made = Command::new("ip").args(["netns", "add", &lab.namespace(name)]).output().ok()?;
            if !made.status.success() {
                eprintln!("skipped: {}", String::from_utf8_lossy(&made.stderr));
                return None;
            }
            lab.ip(name, "link set lo up");
        }
        lab.ip("node", "link add br0 type bridge");
        lab.ip("node", "addr add 10.244.0.1/24 dev br0");
        lab.ip("node", "link set br0 up");
        for (pod, address) in [("p2", "10.244.0.2/24"), ("p3", "10.244.0.3/24")] {
            lab.cable(pod, address, "10.244.0.1");
            lab.ip("node", &format!("link set {pod} master br0"));
            // A pod may meet itself behind a Service.
            lab.run("node", &["bridge", "link", "set", "dev", pod, "hairpin", "on"]);
        }
        lab.cable("out", "192.0.2.9/24", NODE);
        lab.ip("node", &format!("addr add {NODE}/24 dev out"));
        lab.ip("node", "route add default via 192.0.2.9");
        let sysctls = "echo 1 > /proc/sys/net/ipv4/ip_forward; \
                       echo 1 > /proc/sys/net/bridge/bridge-nf-call-iptables";
        lab.run("node", &["sh", "-c", sysctls]);
        for pod in ["p2", "p3"] {
            let server = lab.command(pod, &["python3", "-c", SERVER, pod]).spawn().unwrap();
            lab.servers.push(server);
            lab.wait_for(pod);
        }
        Some(lab)
    }

    fn namespace(&self, name: &str) -> String {
        format!("{}-{name}", self.prefix)
    }

    fn command(&self, name: &str, args: &[&str]) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.namespace(name)]).args(args);
        command
    }

    fn run(&self, name: &str, args: &[&str]) {
        let output = self.command(name, args).output().unwrap();
        assert!(output.status.success(), "{name} {args:?}: {}", String::from_utf8_lossy(&output.stderr));
    }

    fn ip(&self, name: &str, args: &str) {
        let args: Vec<&str> = std::iter::once("ip").chain(args.split(' ')).collect();
        self.run(name, &args);
    }

    /// From the node's interface of that name to the namespace's eth0.
    fn cable(&self, name: &str, address: &str, gateway: &str) {
        let peer = self.namespace(name);
        self.ip("node", &format!("link add {name} type veth peer name eth0 netns {peer}"));
        self.ip("node", &format!("link set {name} up"));
        self.ip(name, &format!("addr add {address} dev eth0"));
        self.ip(name, "link set eth0 up");
        self.ip(name, &format!("route add default via {gateway}"));
    }

    fn wait_for(&self, pod: &str) {
        let deadline = Instant::now() + Duration::from_secs(20);
        while self.ask(pod, "127.0.0.1", 8080, 1) != [format!("{pod} 127.0.0.1")] {
            assert!(Instant::now() < deadline, "{pod} does not answer");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    fn nft(&self, text: &str) {
        let mut command = self.command("node", &["nft", "-f", "-"]);
        let mut child = command.stdin(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        child.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success(), "{}\n{text}", String::from_utf8_lossy(&output.stderr));
    }

    fn ask(&self, from: &str, host: &str, port: u16, times: u32) -> Vec<String> {
        let (port, times) = (port.to_string(), times.to_string());
        let output = self.command(from, &["python3", "-c", CLIENT, host, &port, &times]).output().unwrap();
        String::from_utf8(output.stdout).unwrap().lines().map(str::to_owned).collect()
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        for server in &mut self.servers {
            let _ = server.kill();
            let _ = server.wait();
        }
        for name in ["p2", "p3", "out", "node"] {
            let _ = Command::new("ip").args(["netns", "delete", &self.namespace(name)]).output();
        }
    }
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
    let Some(lab) = Lab::new() else { return };
    lab.nft(&rules(json!({}), json!({}), BOTH).to_string());
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
    let Some(lab) = Lab::new() else { return };
    lab.nft(&rules(json!({}), json!({}), &[]).to_string());
    for (from, host, port) in [("p2", VIP, 80), ("node", VIP, 80), ("out", VIP, 80), ("out", NODE, 30080)] {
        assert_eq!(lab.ask(from, host, port, 2), ["refused", "refused"], "{from} → {host}:{port}");
    }
}

#[test]
fn how_endpoints_are_picked() {
    let Some(lab) = Lab::new() else { return };
    let turns = json!({"minik8s.io/balance": "round-robin"});
    lab.nft(&rules(json!({}), turns, BOTH).to_string());
    let answers = lab.ask("out", VIP, 80, 6);
    let names = names(&answers);
    assert!(names.windows(2).all(|pair| pair[0] != pair[1]), "{answers:?}");
    lab.nft(&rules(json!({"sessionAffinity": "ClientIP"}), json!({}), BOTH).to_string());
    let answers = lab.ask("out", NODE, 30080, 12);
    assert!(answers.iter().all(|answer| *answer == answers[0] && answer.starts_with('p')), "{answers:?}");
}

#[test]
fn the_source_is_kept_where_the_policy_says_so() {
    let Some(lab) = Lab::new() else { return };
    let check = |spec: Value, from: &str, expected: &str| {
        lab.nft(&rules(spec.clone(), json!({}), &["10.244.0.2"]).to_string());
        assert_eq!(lab.ask(from, NODE, 30080, 1), [format!("p2 {expected}")], "{spec} from {from}");
    };
    check(json!({}), "out", "10.244.0.1");
    check(json!({"externalTrafficPolicy": "Local"}), "out", "192.0.2.9");
    check(json!({"externalTrafficPolicy": "Local"}), "p3", "10.244.0.3");
}

#[test]
fn no_connection_fails_while_rules_change() {
    let Some(lab) = Lab::new() else { return };
    let states = [&BOTH[..1], BOTH, &BOTH[1..]].map(|addresses| rules(json!({}), json!({}), addresses));
    lab.nft(&states[0].to_string());
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
            lab.nft(&diff(&states[now], &states[next]).unwrap().to_string());
            now = next;
        }
        // An agent that starts anew replaces the whole table.
        for _ in 0..10 {
            lab.nft(&states[now].to_string());
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
