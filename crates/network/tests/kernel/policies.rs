//! NetworkPolicies on a node with its bridge, three pods and a client outside. Pods on one bridge, what the node forwards,
//! what it gets itself, Services and the resolver.

use std::io::{BufRead, BufReader};
use std::process::Stdio;
use std::time::{Duration, Instant};

use k8s_openapi::api::networking::v1::NetworkPolicy;
use minik8s_meta::IpFamily;
use minik8s_network::pod_ports;
use minik8s_network::policy::{NamedPort, Pod, Policy, PolicyTable, Protocol};
use minik8s_network::proxy::{
    Balance, Frontend, Listing, Pick, Protocol as Carrier, Route, Routes, diff, ruleset,
};
use serde_json::{Value, json};

use crate::lab::Lab;

const TABLE: &str = "minik8s-test-policies";
const NODE: &str = "192.0.2.1";
const WEB: &str = "10.244.0.2";
const CLIENT: &str = "10.244.0.3";
const VIP: &str = "10.96.0.1";
const RESOLVER: &str = "10.96.0.10";

/// The pods `web` and `client` of the node, and one that is `other`.
fn lab() -> Lab {
    let mut lab = Lab::new(&["node", "web", "client", "other", "out"]);
    for (number, pod) in ["web", "client", "other"].iter().enumerate() {
        lab.pod("node", pod, "10.244.0.1", &format!("10.244.0.{}", number + 2));
    }
    lab.cable(("node", "out"), ("out", "eth0"));
    lab.ip("node", &format!("addr add {NODE}/24 dev out\nroute add default via 192.0.2.9"));
    lab.ip("out", &format!("addr add 192.0.2.9/24 dev eth0\nroute add default via {NODE}"));
    lab
}

fn pod(name: &str, last: u8) -> Pod {
    Pod {
        namespace: "shop".to_owned(),
        name: name.to_owned(),
        labels: [("app".to_owned(), name.to_owned())].into(),
        node: "a".to_owned(),
        addresses: vec![[10, 244, 0, last].into()],
        ports: vec![NamedPort { name: "http".to_owned(), protocol: Protocol::Tcp, number: 8080 }],
        ..Pod::default()
    }
}

fn policy(name: &str, spec: Value) -> Policy {
    let object = json!({"metadata": {"namespace": "shop", "name": name}, "spec": spec});
    Policy::from(&serde_json::from_value::<NetworkPolicy>(object).unwrap())
}

fn about(app: &str, mut spec: Value) -> Policy {
    spec["podSelector"] = json!({"matchLabels": {"app": app}});
    policy(app, spec)
}

fn from_client(port: Value) -> Policy {
    about(
        "web",
        json!({"ingress": [{"from": [{"podSelector": {"matchLabels": {"app": "client"}}}], "ports": [port]}]}),
    )
}

fn table(policies: &[Policy]) -> PolicyTable {
    let mut table = PolicyTable::new(IpFamily::V4, TABLE, "a", Some(RESOLVER.parse().unwrap()));
    for (number, name) in (2..).zip(["web", "client", "other"]) {
        table.set_pod(pod(name, number));
    }
    table.set_namespace("shop", Some([("name".to_owned(), "shop".to_owned())].into()));
    let system = [("kubernetes.io/metadata.name".to_owned(), "kube-system".to_owned())];
    table.set_namespace("kube-system", Some(system.into()));
    policies.iter().for_each(|policy| table.set_policy(policy.clone()));
    table.take_change();
    table
}

/// Who asks whom, and whether there is an answer.
#[track_caller]
fn check(lab: &Lab, what: &str, expected: &[(&str, &str, u16, bool)]) {
    for (from, host, port, answered) in expected {
        let answer = lab.ask(from, host, *port, 1).remove(0);
        assert_eq!(!answer.starts_with("failed"), *answered, "{what}: {from} → {host}:{port}: {answer}");
    }
}

pub fn a_policy_guards_pods_of_one_node() {
    let lab = lab();
    let mut rules = table(&[]);
    lab.nft("node", &rules.ruleset().to_string());
    let open = [("client", WEB, 8080, true), ("other", WEB, 8080, true), ("out", WEB, 8080, true)];
    check(&lab, "no policy", &open);
    let mut apply = |what: &str, policy: Policy, expected: &[(&str, &str, u16, bool)]| {
        rules.set_policy(policy);
        lab.nft("node", &rules.take_change().to_string());
        check(&lab, what, expected);
    };
    apply(
        "from one pod",
        from_client(json!({"port": "http"})),
        &[
            ("client", WEB, 8080, true),
            ("other", WEB, 8080, false),
            ("out", WEB, 8080, false),
            // The kubelet's probes.
            ("node", WEB, 8080, true),
            // Answers to what it asks itself.
            ("web", CLIENT, 8080, true),
        ],
    );
    apply("another port", from_client(json!({"port": 80})), &[("client", WEB, 8080, false)]);
    apply("a range", from_client(json!({"port": 8000, "endPort": 9000})), &[("client", WEB, 8080, true)]);
    apply("another protocol", from_client(json!({"protocol": "UDP"})), &[("client", WEB, 8080, false)]);
    assert!(lab.send("client", WEB, 8080, 1, 1)[0].starts_with("web "));
    apply("SCTP", from_client(json!({"port": 8080, "protocol": "SCTP"})), &[("client", WEB, 8080, false)]);
    let block = |except: Value| {
        about(
            "web",
            json!({"ingress": [{"from": [{"ipBlock": {"cidr": "192.0.2.0/24", "except": except}}, {"ipBlock": {"cidr": "198.51.100.0/24"}}]}]}),
        )
    };
    apply("a block", block(json!([])), &[("out", WEB, 8080, true), ("client", WEB, 8080, false)]);
    apply("an exception", block(json!(["192.0.2.8/30"])), &[("out", WEB, 8080, false)]);
    rules.remove_policy(&("shop".to_owned(), "web".to_owned()));
    lab.nft("node", &rules.take_change().to_string());
    check(&lab, "no policy any more", &open);
}

pub fn what_pods_send_is_guarded_too() {
    let mut lab = lab();
    lab.serve("node");
    lab.serve("out");
    let egress = |rules: Value| about("client", json!({"policyTypes": ["Egress"], "egress": rules}));
    let mut rules = table(&[egress(json!([]))]);
    lab.nft("node", &rules.ruleset().to_string());
    check(
        &lab,
        "nothing",
        &[
            ("client", WEB, 8080, false),
            ("client", NODE, 8080, false),
            ("client", "192.0.2.9", 8080, false),
            // It answers all the same.
            ("web", CLIENT, 8080, true),
            ("out", CLIENT, 8080, true),
            ("web", NODE, 8080, true),
        ],
    );
    rules.set_policy(egress(
        json!([{"to": [{"podSelector": {"matchLabels": {"app": "web"}}}], "ports": [{"port": "http"}]}]),
    ));
    lab.nft("node", &rules.take_change().to_string());
    let expected =
        [("client", WEB, 8080, true), ("client", "10.244.0.4", 8080, false), ("client", NODE, 8080, false)];
    check(&lab, "a named port of one pod", &expected);
    rules.set_policy(egress(json!([{"to": [{"ipBlock": {"cidr": "192.0.2.0/24"}}]}])));
    lab.nft("node", &rules.take_change().to_string());
    let expected =
        [("client", WEB, 8080, false), ("client", NODE, 8080, true), ("client", "192.0.2.9", 8080, true)];
    check(&lab, "a block", &expected);
}

/// Leads the Service's address to `web`, and the cluster's DNS address to the node itself.
fn services() -> String {
    let route = |address: &str, port: u16, endpoint: &str| {
        let inside = Balance { pick: Pick::Random, endpoints: [endpoint.parse().unwrap()].into() };
        let frontend = Frontend::Address(address.parse().unwrap(), Carrier::Tcp, port);
        (frontend, Route { inside, outside: None, only_from: None })
    };
    let frontends = [route(VIP, 80, "10.244.0.2:8080"), route(RESOLVER, 53, "192.0.2.1:8080")].into();
    let routes = Routes { frontends, own_endpoints: [WEB.parse().unwrap()].into() };
    ruleset(&routes, "minik8s-test", "10.244.0.0/16".parse().unwrap()).to_string()
}

pub fn services_and_the_resolver() {
    let mut lab = lab();
    lab.serve("node");
    lab.nft("node", &services());
    let guarded = from_client(json!({"port": 8080}));
    let dns = json!({"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "kube-system"}},
        "podSelector": {"matchLabels": {"k8s-app": "kube-dns"}}});
    let egress = |rules: Value| about("other", json!({"policyTypes": ["Egress"], "egress": rules}));
    let mut rules = table(&[guarded, egress(json!([]))]);
    lab.nft("node", &rules.ruleset().to_string());
    check(
        &lab,
        "through a Service",
        &[
            ("client", VIP, 80, true),
            ("other", VIP, 80, false),
            ("out", VIP, 80, false),
            ("node", VIP, 80, true),
            // Itself, behind a Service.
            ("web", VIP, 80, true),
            ("client", RESOLVER, 53, true),
            ("other", RESOLVER, 53, false),
        ],
    );
    rules
        .set_policy(egress(json!([{"to": [dns], "ports": [{"port": 53, "protocol": "UDP"}, {"port": 53}]}])));
    lab.nft("node", &rules.take_change().to_string());
    let expected = [("other", RESOLVER, 53, true), ("other", NODE, 8080, false), ("other", WEB, 8080, false)];
    check(&lab, "the resolver is a pod of kube-system", &expected);
}

/// A flow that the kernel knows is judged like a new one.
pub fn a_change_ends_what_it_denies() {
    let lab = lab();
    let mut rules = table(&[]);
    lab.nft("node", &rules.ruleset().to_string());
    // Always from the same port, so that the kernel takes it for one flow.
    let mut step = |policy: Policy, expected: &str| {
        rules.set_policy(policy);
        lab.nft("node", &rules.take_change().to_string());
        let answers = lab.send("client", WEB, 8080, 1, 1);
        assert!(answers[0].starts_with(expected), "{answers:?}");
    };
    step(from_client(json!({"protocol": "UDP"})), "web ");
    step(from_client(json!({"protocol": "TCP"})), "failed");
    step(from_client(json!({"protocol": "UDP"})), "web ");
}

/// Sends the first packet of an SCTP association, its checksum included: this kernel need not have SCTP itself.
const ASSOCIATE: &str = r#"
import socket, struct, sys
def crc32c(data):
    crc = 0xffffffff
    for byte in data:
        crc ^= byte
        for _ in range(8): crc = (crc >> 1) ^ (0x82f63b78 if crc & 1 else 0)
    return crc ^ 0xffffffff
init = struct.pack("!BBHIIHHI", 1, 0, 20, 7, 65536, 1, 1, 9)
head = lambda check: struct.pack("!HHI", int(sys.argv[3]), int(sys.argv[2]), 0) + struct.pack("<I", check)
s = socket.socket(socket.AF_INET, socket.SOCK_RAW, 132)
s.sendto(head(crc32c(head(0) + init)) + init, (sys.argv[1], 0))
"#;

/// Waits for one such packet, for a second after its input has ended, and prints the port that it came to.
const ASSOCIATED: &str = r#"
import select, socket, struct, sys
s = socket.socket(socket.AF_INET, socket.SOCK_RAW, 132); print("ready", flush=True)
heard = select.select([s, sys.stdin], [], [], 60)[0]
if s not in heard: heard = select.select([s], [], [], 1)[0]
print(struct.unpack("!H", s.recv(99)[22:24])[0] if s in heard else "nothing")
"#;

pub fn sctp_passes_services_and_policies() {
    let lab = lab();
    let reaches = |from_port: u16| {
        lab.said_by("web", ASSOCIATED, || {
            lab.run("client", &["python3", "-c", ASSOCIATE, VIP, "80", &from_port.to_string()]);
        })
    };
    let inside = Balance { pick: Pick::Random, endpoints: ["10.244.0.2:9999".parse().unwrap()].into() };
    let frontend = Frontend::Address(VIP.parse().unwrap(), Carrier::Sctp, 80);
    let frontends = [(frontend, Route { inside, outside: None, only_from: None })].into();
    let routes = Routes { frontends, own_endpoints: [].into() };
    let services = ruleset(&routes, "minik8s-test", "10.244.0.0/16".parse().unwrap());
    lab.nft("node", &services.to_string());
    assert_eq!(reaches(1001), "9999");
    let mut rules = table(&[from_client(json!({"port": 9999}))]);
    lab.nft("node", &rules.ruleset().to_string());
    assert_eq!(reaches(1002), "nothing", "TCP is not SCTP");
    rules.set_policy(from_client(json!({"port": 9999, "protocol": "SCTP"})));
    lab.nft("node", &rules.take_change().to_string());
    assert_eq!(reaches(1003), "9999");
}

/// Serves one connection over IPv6.
const SERVE6: &str = r#"
import socket
s = socket.socket(socket.AF_INET6); s.bind(("::", 9090)); s.listen(9); print("ready", flush=True)
while True: s.accept()[0].close()
"#;

/// Connects to an address of the link.
const CONNECT6: &str = r#"
import socket, sys
s = socket.socket(socket.AF_INET6); s.settimeout(2)
try: s.connect((sys.argv[1], 9090, 0, socket.if_nametoindex("eth0"))); print("connected")
except OSError as e: print("failed", e)
"#;

/// Interfaces have addresses of their link that no policy speaks of.
pub fn no_way_round_through_ipv6() {
    let lab = lab();
    let mut server = lab.command("web", &["python3", "-c", SERVE6]).stdout(Stdio::piped()).spawn().unwrap();
    let mut said = BufReader::new(server.stdout.take().unwrap()).lines().map(Result::unwrap);
    assert_eq!(said.next().as_deref(), Some("ready"));
    let addresses = lab.run("web", &["ip", "-6", "-o", "addr", "show", "dev", "eth0"]);
    let address = addresses.split_whitespace().find(|word| word.starts_with("fe80:")).unwrap();
    let address = address.split('/').next().unwrap().to_owned();
    let connect = || lab.run("client", &["python3", "-c", CONNECT6, &address]);
    let deadline = Instant::now() + Duration::from_secs(60);
    let mut open = connect();
    while open.trim() != "connected" && Instant::now() < deadline {
        open = connect();
    }
    let mac = lab.run("client", &["cat", "/sys/class/net/eth0/address"]).trim().to_owned();
    let port = ("client".to_owned(), mac, vec![CLIENT.parse().unwrap()]);
    lab.nft("node", &(pod_ports::rules("minik8s-test", false) + &pod_ports::elements("minik8s-test", &port)));
    let answer = connect();
    server.kill().unwrap();
    server.wait().unwrap();
    assert_eq!(open.trim(), "connected", "without rules it gets through");
    assert!(answer.starts_with("failed"), "{answer}");
}

pub fn a_new_start_finds_what_is_there() {
    let lab = lab();
    let isolated = policy(
        "all",
        json!({"podSelector": {}, "policyTypes": ["Ingress", "Egress"], "egress": [
            {"ports": [{"port": 53, "protocol": "UDP"}, {"port": 1, "endPort": 9, "protocol": "SCTP"}, {"protocol": "TCP"}]},
            {"to": [{"ipBlock": {"cidr": "192.0.2.0/24", "except": ["192.0.2.9/32"]}}, {"ipBlock": {"cidr": "198.51.100.7/32"}}]},
            {"to": [{"ipBlock": {"cidr": "203.0.113.0/24"}}], "ports": [{"port": "http"}, {"port": 80}]},
        ]}),
    );
    let states = [
        table(&[]),
        table(std::slice::from_ref(&isolated)),
        table(&[isolated, from_client(json!({"port": 8080}))]),
    ];
    let found = |wanted: &PolicyTable| {
        let listing = lab.run("node", &["nft", "-p", "list", "table", "ip", TABLE]);
        let wanted = wanted.ruleset();
        let found = Listing::parse(&listing).into_ruleset(&wanted).expect("maps of our types");
        diff(&found, &wanted).expect("maps of our types").to_string()
    };
    lab.nft("node", &states[0].ruleset().to_string());
    for (index, wanted) in states.iter().chain(states.iter().rev()).enumerate() {
        lab.nft("node", &found(wanted));
        assert_eq!(found(wanted), "", "after change {index}");
    }
}
