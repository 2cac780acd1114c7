//! NetworkPolicies on real pods of two nodes: who reaches whom on one node, across nodes, through Services, by name; from
//! a pod's first moment on; while agents and servers are away.

use std::process::Command;

use super::dns::{A, over_udp};
use super::names;
use super::place::Place;
use super::world::{WEB, World, pod};

/// `web` is reached by `client-1` alone, at its port.
const GUARDED: &str = r#"
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {name: guarded}
spec:
  podSelector: {matchLabels: {app: web}}
  ingress:
  - from: [{podSelector: {matchLabels: {name: client-1}}}]
    ports: [{port: http}]
"#;

/// `client-2` sends to nobody but the resolver.
const SILENT: &str = r#"
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {name: silent}
spec:
  podSelector: {matchLabels: {name: client-2}}
  policyTypes: [Egress]
  egress:
  - to: [{namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: kube-system}}, podSelector: {matchLabels: {k8s-app: kube-dns}}}]
    ports: [{port: 53, protocol: UDP}, {port: 53, protocol: TCP}]
"#;

struct Table {
    clients: [Place; 2],
    webs: [String; 2],
    service: String,
}

impl Table {
    fn of(world: &World) -> Table {
        Table {
            clients: ["client-1", "client-2"].map(|name| world.pod(name)),
            webs: ["web-1", "web-2"].map(|name| world.pod(name).address.to_string()),
            service: world.cluster_ip("web"),
        }
    }

    /// Whether each of the clients reaches both pods and the Service. All at once: who is not let through waits long.
    #[track_caller]
    fn check(&self, what: &str, expected: [bool; 2]) {
        let targets = [(&self.webs[0], WEB), (&self.webs[1], WEB), (&self.service, 80)];
        let answers: Vec<(String, bool)> = std::thread::scope(|scope| {
            let mut asking = Vec::new();
            for (client, reaches) in self.clients.iter().zip(expected) {
                for (address, port) in targets {
                    let ask = move || format!("{} → {address}: {}", client.name, client.ask(address, port));
                    asking.push((scope.spawn(ask), reaches));
                }
            }
            asking.into_iter().map(|(thread, reaches)| (thread.join().unwrap(), reaches)).collect()
        });
        for (answer, reaches) in answers {
            assert_eq!(answer.contains(": web-"), reaches, "{what}: {answer}");
        }
    }
}

pub fn network_policies(world: &mut World) {
    let table = Table::of(world);
    table.check("no policy", [true, true]);
    world.apply(GUARDED);
    for web in &table.webs {
        let ask = || table.clients[1].ask(web, WEB);
        world.settles("the policy is enforced", ask, |answer| !answer.starts_with("web-"));
    }
    table.check("one client may", [true, false]);
    // Probes and whatever else the pod's own node does; not what others do.
    assert!(world.node(1).ask(&table.webs[0], WEB).starts_with("web-1 "));
    let port = world.node_port("source");
    let answer = world.outside().ask(&world.lab.address(1), port);
    assert!(!answer.starts_with("web-"), "from outside: {answer}");
    explained(world);
    nodes_see_no_specs(world);
    isolated_from_the_first_moment(world, &table);
    world.restart("node2");
    world.both_ready();
    table.check("after a restart of the agent", [true, false]);
    while_nobody_answers(world, &table);
    egress(world, &table);
    world.kubectl(&["delete", "networkpolicy", "guarded", "silent"]);
    for client in &table.clients {
        for web in &table.webs {
            world.settles("it is over", || client.ask(web, WEB), |answer| answer.starts_with("web-"));
        }
    }
    world.until("no table is left", || {
        !world.lab.run(&["exec", "node1", "nft", "list", "tables"]).contains("-policies")
    });
}

/// What a node may read of other nodes' pods, and what not.
fn nodes_see_no_specs(world: &World) {
    let seen = world.kubectl(&["get", "--raw", "/apis/internal.minik8s.io/v1/namespaces/default/pods"]);
    assert!(seen.contains("\"web-1\"") && seen.contains("\"http\""), "{seen}");
    assert!(!seen.contains("httpd") && !seen.contains("busybox"), "{seen}");
    let can = |verb: &str, what: &str| {
        let node = ["--as", "system:node:node2", "--as-group", "system:nodes"];
        world.try_kubectl(&[&["auth", "can-i", verb, what, "-A"], &node[..]].concat()).is_ok()
    };
    for verb in ["list", "watch"] {
        assert!(can(verb, "pods.internal.minik8s.io"), "{verb}");
        assert!(!can(verb, "pods"), "{verb}");
    }
    for verb in ["get", "create", "update", "patch", "delete"] {
        assert!(!can(verb, "pods.internal.minik8s.io"), "{verb}");
    }
}

fn explained(world: &World) {
    let why = |from: &str| {
        let output = Command::new(env!("CARGO_BIN_EXE_minik8s"))
            .args(["why", "connection", from, "default/web-2:http", "--kubeconfig"])
            .arg(world.lab.dir.join("admin.kubeconfig"))
            .output()
            .unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    };
    let allowed = why("client-1");
    assert!(allowed.contains("allowed by NetworkPolicy default/guarded, ingress[0]"), "{allowed}");
    let denied = why("client-2");
    assert!(
        denied.contains("`from` does not match pod default/client-2") && denied.contains("verdict: denied"),
        "{denied}"
    );
}

/// A pod that starts under a policy never answers those whom it does not allow.
fn isolated_from_the_first_moment(world: &World, table: &Table) {
    world.apply(&pod("web-3", "web", "nodeName: node2"));
    let mut address = String::new();
    world.until("it has an address", || {
        let object = world.json(&["get", "pod", "web-3"]);
        address = object["status"]["podIP"].as_str().unwrap_or_default().to_owned();
        !address.is_empty()
    });
    let answer = table.clients[1].ask(&address, WEB);
    assert!(!answer.starts_with("web-"), "{answer}");
    // The kubelet's own probe passes.
    world.kubectl(&["wait", "pod", "web-3", "--for=condition=Ready", "--timeout=180s"]);
    let ask = || table.clients[0].ask(&address, WEB);
    world.settles("whom it allows", ask, |answer| answer.starts_with("web-3 "));
    // Its grace period is 0: the object goes at once, its process a moment later.
    world.kubectl(&["delete", "pod", "web-3"]);
    world.settles("it is gone", ask, |answer| !answer.starts_with("web-3 "));
}

/// Rules stay in the kernel without the control plane and without agents.
fn while_nobody_answers(world: &World, table: &Table) {
    for node in ["node1", "node2"] {
        world.lab.run(&["kill", node]);
    }
    table.check("nobody is there", [true, false]);
    world.lab.run(&["start", "node2"]);
    table.check("an agent without a server", [true, false]);
    world.lab.run(&["start", "node1"]);
    world.both_ready();
    table.check("all are back", [true, false]);
}

fn egress(world: &World, table: &Table) {
    world.kubectl(&["delete", "networkpolicy", "guarded"]);
    let client = &table.clients[1];
    world.settles("open", || client.ask(&table.webs[0], WEB), |answer| answer.starts_with("web-"));
    world.apply(SILENT);
    let ask = || client.ask(&table.webs[0], WEB);
    world.settles("it may not send", ask, |answer| !answer.starts_with("web-"));
    table.check("nor to anybody else", [true, false]);
    assert!(!client.ask(&world.lab.address(2), world.node_port("web")).starts_with("web-"));
    // It answers, and asks for names.
    assert!(world.pod("client-1").ask(&client.address.to_string(), WEB).starts_with("client-2 "));
    let answer = over_udp(client, names::server(world), "web.default.svc.cluster.local", A);
    assert!(!answer.records.is_empty(), "names: {answer:?}");
    world.apply(GUARDED);
}
