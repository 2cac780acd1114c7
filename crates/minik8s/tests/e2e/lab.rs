//! Two machines, one cluster, and what happens when parts of it die. Needs root, containerd and kubectl.
//!
//! One test after another in one lab: to start it is what takes time.

use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustls::ClientConfig;
use rustls::pki_types::{CertificateDer, ServerName, pem::PemObject};
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio_rustls::TlsConnector;

use crate::harness::lab::Lab;

/// After so many seconds without a word a node is taken for dead: more than a busy machine takes to start one again.
const GRACE: u64 = 8;

/// Pods that leave a dead node after two seconds. The image is in every node.
const DEPLOYMENT: &str = r#"
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 4
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      terminationGracePeriodSeconds: 1
      tolerations:
      - {key: node.kubernetes.io/unreachable, operator: Exists, effect: NoExecute, tolerationSeconds: 2}
      - {key: node.kubernetes.io/not-ready, operator: Exists, effect: NoExecute, tolerationSeconds: 2}
      containers: [{name: c, image: "minik8s.io/pause:1", imagePullPolicy: Never}]
"#;

/// One on each node, which stays whatever happens to the node.
const DAEMONS: &str = r#"
apiVersion: apps/v1
kind: DaemonSet
metadata: {name: each}
spec:
  selector: {matchLabels: {app: each}}
  template:
    metadata: {labels: {app: each}}
    spec:
      terminationGracePeriodSeconds: 1
      containers: [{name: c, image: "minik8s.io/pause:1", imagePullPolicy: Never}]
"#;

/// Stays on the second node, whatever is said about it.
const STAYS: &str = r#"
apiVersion: v1
kind: Pod
metadata: {name: stays, labels: {app: stays}}
spec:
  nodeName: node2
  terminationGracePeriodSeconds: 1
  tolerations: [{operator: Exists}]
  containers: [{name: c, image: "minik8s.io/pause:1", imagePullPolicy: Never}]
"#;

#[test]
fn two_machines_are_one_cluster() {
    let lab = Lab::up_with_server(2, &format!("--node-grace {GRACE}"));
    lab.until("both nodes are ready", || lab.ready() == ["node1", "node2"]);
    let ranges: Vec<Value> = lab.get(&["nodes"]).iter().map(|node| node["spec"]["podCIDR"].clone()).collect();
    assert!(ranges[0].is_string() && ranges[1].is_string() && ranges[0] != ranges[1], "{ranges:?}");
    let manifest = lab.dir.join("deployment.yaml");
    std::fs::write(&manifest, DEPLOYMENT).unwrap();
    assert!(lab.kubectl(&["apply", "-f", manifest.to_str().unwrap()]).status.success());
    lab.until("four pods run, on both nodes", || {
        let pods = running(&lab);
        pods.len() == 4 && ["node1", "node2"].iter().all(|node| pods.values().any(|(at, _)| at == node))
    });

    keys_are_closed_and_so_is_the_port(&lab);
    no_port_serves_strangers(&lab);
    the_doctor_finds_nothing_broken(&lab);
    killing_every_minik8s_touches_no_pod(&lab);
    late_packets_are_tolerated(&lab);
    pods_come_back_after_a_reboot(&lab);
    a_dead_node_is_replaced(&lab);
    a_node_that_returns_is_cleaned_up(&lab);
    a_cut_node_goes_on_and_comes_back(&lab);
    a_machine_can_leave(&lab);

    lab.run(&["down"]);
    assert_eq!(lab.traces(), [""; 0], "the lab left something behind");
}

/// Node and container of every pod that runs and is not on its way out.
fn running(lab: &Lab) -> BTreeMap<String, (String, String)> {
    let pods = lab.get(&["pods", "-l", "app=web"]);
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let alive = pods
        .iter()
        .filter(|pod| pod["status"]["phase"] == "Running" && pod["metadata"]["deletionTimestamp"].is_null());
    let shown = alive.map(|pod| {
        let container = text(&pod["status"]["containerStatuses"][0]["containerID"]);
        (text(&pod["metadata"]["name"]), (text(&pod["spec"]["nodeName"]), container))
    });
    shown.collect()
}

fn all_on(lab: &Lab, node: &str) -> bool {
    let pods = running(lab);
    pods.len() == 4 && pods.values().all(|(at, _)| at == node)
}

fn keys_are_closed_and_so_is_the_port(lab: &Lab) {
    let data = lab.dir.join("node2/data/credentials");
    for file in ["client.pem", "serving.pem"] {
        let mode = std::fs::metadata(data.join(file)).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode, 0o600, "{file}");
    }
    let token = std::fs::metadata(lab.dir.join("node1/data/join-token")).unwrap();
    assert_eq!(token.permissions().mode() & 0o777, 0o600);
    let runtime = tokio::runtime::Runtime::new().unwrap();
    for (node, name) in [(1, "node1"), (2, "node2")] {
        let (address, authority) = (lab.address(node), data.join("ca.crt"));
        let answer = runtime.block_on(call(&address, 10250, (name, "/healthz"), &authority));
        assert!(!answer.contains(" 200 "), "{name} answers a stranger: {answer}");
    }
}

/// What a port says to somebody who trusts it but shows no certificate.
async fn call(address: &str, port: u16, (name, path): (&str, &str), authority: &std::path::Path) -> String {
    let mut roots = rustls::RootCertStore::empty();
    roots.add(CertificateDer::from_pem_file(authority).unwrap()).unwrap();
    let config = ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let stream = tokio::net::TcpStream::connect((address, port)).await.unwrap();
    let name = ServerName::try_from(name.to_owned()).unwrap();
    // The node is who it says; that is checked before it checks us.
    let mut stream = TlsConnector::from(Arc::new(config)).connect(name, stream).await.unwrap();
    let request = format!("GET {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n");
    let mut answer = Vec::new();
    let _ = stream.write_all(request.as_bytes()).await;
    let _ = stream.read_to_end(&mut answer).await;
    String::from_utf8_lossy(&answer).into_owned()
}

/// Everything that listens: on loopback, for everybody (host names and paths), or for those with a certificate; the
/// resolver is for pods and their node.
fn no_port_serves_strangers(lab: &Lab) {
    for node in ["node1", "node2"] {
        let listed = lab.run(&["exec", node, "ss", "-H", "-ltn"]);
        let mut tried = 0;
        for address in listed.lines().filter_map(|line| line.split_whitespace().nth(3)) {
            let (ip, port) = address.rsplit_once(':').unwrap();
            if ip.starts_with("127.") || ip == "[::1]" || matches!(port, "80" | "443") {
                continue;
            }
            let number = node.trim_start_matches("node").parse().unwrap();
            let target = format!("{}:{port}", lab.address(number));
            let answer = in_the_clear(&target);
            assert!(!answer.contains(" 200 "), "{node} answers strangers at {address}: {answer}");
            tried += 1;
        }
        // The node's own port and its resolver, and the API server's.
        assert_eq!(tried, if node == "node1" { 3 } else { 2 }, "{listed}");
    }
    // Whoever shows nothing may ask whether it is well, and nothing else.
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let authority = lab.dir.join("node2/data/credentials/ca.crt");
    let secrets = runtime.block_on(call(&lab.address(1), 6443, ("localhost", "/api/v1/secrets"), &authority));
    assert!(secrets.contains(" 401 ") || secrets.contains(" 403 "), "{secrets}");
}

/// What a port says to somebody who speaks HTTP without TLS.
fn in_the_clear(target: &str) -> String {
    use std::io::{Read, Write};
    let mut stream = std::net::TcpStream::connect(target).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
    let _ = stream.write_all(b"GET /healthz HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n");
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    String::from_utf8_lossy(&answer).into_owned()
}

/// On a machine that is part of a cluster: each thing is looked at, and what minik8s made itself is no obstacle.
fn the_doctor_finds_nothing_broken(lab: &Lab) {
    for node in ["node1", "node2"] {
        let data = lab.dir.join(node).join("data");
        let doctor = [env!("CARGO_BIN_EXE_minik8s"), "doctor", "--data-dir", data.to_str().unwrap()];
        let told = lab.run(&[&["exec", node], doctor.as_slice()].concat());
        let topics =
            ["nftables", "overlayfs", "cgroups", "port 6443", "port 10250", "--cluster-cidr", "clock"];
        let more = ["containerd answers", "a durable write", "of the disk", "the certificate in"];
        for topic in topics.iter().chain(&more) {
            assert!(told.contains(topic), "{topic}: {told}");
        }
        let advice = told.lines().filter(|line| line.trim_start().starts_with("->")).count();
        assert_eq!(advice, told.lines().filter(|line| line.starts_with("warn")).count(), "{told}");
    }
}

fn killing_every_minik8s_touches_no_pod(lab: &Lab) {
    let before = running(lab);
    lab.run(&["kill", "node1"]);
    lab.run(&["kill", "node2"]);
    lab.run(&["start", "node1"]);
    lab.run(&["start", "node2"]);
    lab.until("both nodes are ready again", || lab.ready() == ["node1", "node2"]);
    // Long enough for a node that was wrongly taken for dead to lose its pods.
    std::thread::sleep(Duration::from_secs(GRACE + 3));
    assert_eq!(running(lab), before);
}

fn late_packets_are_tolerated(lab: &Lab) {
    let before = running(lab);
    let rule = || {
        let switch = format!("{}-lan", lab.name());
        let shown = Command::new("ip")
            .args(["netns", "exec", &switch, "tc", "qdisc", "show", "dev", "node2"])
            .output();
        String::from_utf8(shown.unwrap().stdout).unwrap()
    };
    lab.run(&["slow", "node2", "delay", "50ms", "loss", "5%"]);
    assert!(rule().contains("netem") || rule().contains("tbf"), "nothing is slow: {}", rule());
    // Longer than a node's grace.
    let begun = Instant::now();
    while begun.elapsed() < Duration::from_secs(GRACE + 3) {
        assert_eq!(lab.ready(), ["node1", "node2"]);
    }
    lab.run(&["fast", "node2"]);
    assert!(!rule().contains("netem") && !rule().contains("tbf"), "{}", rule());
    assert_eq!(running(lab), before);
}

/// Those that nobody replaces meanwhile: the same pods, in new containers.
fn pods_come_back_after_a_reboot(lab: &Lab) {
    let manifest = lab.dir.join("daemons.yaml");
    std::fs::write(&manifest, DAEMONS).unwrap();
    assert!(lab.kubectl(&["apply", "-f", manifest.to_str().unwrap()]).status.success());
    let daemons = || {
        let pods = lab.get(&["pods", "-l", "app=each"]);
        let running =
            pods.iter().filter(|pod| pod["status"]["containerStatuses"][0]["state"]["running"].is_object());
        let known = |pod: &Value| {
            let container = pod["status"]["containerStatuses"][0]["containerID"].to_string();
            (
                pod["spec"]["nodeName"].as_str().unwrap().to_owned(),
                (pod["metadata"]["uid"].to_string(), container),
            )
        };
        running.map(known).collect::<BTreeMap<_, _>>()
    };
    for node in ["node2", "node1"] {
        lab.until("a daemon runs on each node", || daemons().len() == 2);
        let before = daemons();
        lab.run(&["reboot", node]);
        let took = lab.until("both nodes are ready", || lab.ready() == ["node1", "node2"]);
        runs_what_its_unit_starts(lab, node);
        let back = lab.until("its pod is back", || {
            let now = daemons();
            now.len() == 2 && now[node].0 == before[node].0 && now[node].1 != before[node].1
        });
        eprintln!("{node} was rebooted: ready after {took:?}, its pod {back:?} later");
    }
    assert!(lab.kubectl(&["delete", "daemonset", "each"]).status.success());
    lab.until("four pods run", || lab.get(&["pods"]).len() == 4 && running(lab).len() == 4);
}

/// After a reboot the process is the one that systemd would have started, with the settings of before.
fn runs_what_its_unit_starts(lab: &Lab, node: &str) {
    let role = if node == "node1" { "server" } else { "agent" };
    let unit = format!("{}/../../packaging/minik8s-{role}.service", env!("CARGO_MANIFEST_DIR"));
    let unit = std::fs::read_to_string(unit).unwrap();
    let value = |key: &str| unit.lines().find_map(|line| line.strip_prefix(key)).unwrap().to_owned();
    let settings = std::fs::read_to_string(lab.dir.join(node).join("settings")).unwrap();
    let (variable, flags) = settings.trim().split_once('=').unwrap();
    let started = value("ExecStart=").replace(&format!("${variable}"), flags.trim_matches('"'));
    let status = lab.run(&["status"]);
    let line = status.lines().find(|line| line.starts_with(node)).unwrap();
    let pid = line.split(' ').find_map(|word| word.strip_prefix("minik8s=")).unwrap();
    let runs = std::fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap();
    let runs: Vec<&str> = runs.trim_end_matches('\0').split('\0').skip(1).collect();
    assert_eq!(runs, started.split_whitespace().skip(1).collect::<Vec<_>>());
    let limits = std::fs::read_to_string(format!("/proc/{pid}/limits")).unwrap();
    let files: Vec<&str> =
        limits.lines().find(|line| line.starts_with("Max open files")).unwrap().split_whitespace().collect();
    assert!(files[3] == value("LimitNOFILE=") || files[3] == files[4], "{files:?}");
}

fn a_dead_node_is_replaced(lab: &Lab) {
    lab.run(&["crash", "node2"]);
    let noticed = lab.until("node2 is not ready", || lab.ready() == ["node1"]);
    let replaced = lab.until("all pods run on node1", || all_on(lab, "node1"));
    eprintln!("a dead node: noticed after {noticed:?}, its pods replaced {replaced:?} later");
}

fn a_node_that_returns_is_cleaned_up(lab: &Lab) {
    lab.run(&["start", "node2"]);
    lab.until("node2 is ready", || lab.ready() == ["node1", "node2"]);
    lab.until("its old pods are gone", || lab.get(&["pods", "-l", "app=web"]).len() == 4);
    lab.until("its old containers are gone", || tasks(lab, "node2").is_empty());
}

fn a_cut_node_goes_on_and_comes_back(lab: &Lab) {
    let manifest = lab.dir.join("stays.yaml");
    std::fs::write(&manifest, STAYS).unwrap();
    assert!(lab.kubectl(&["apply", "-f", manifest.to_str().unwrap()]).status.success());
    let container = || {
        let pods = lab.get(&["pods", "-l", "app=stays"]);
        let status =
            pods.first().map(|pod| pod["status"]["containerStatuses"][0].clone()).unwrap_or_default();
        status["state"]["running"].is_object().then(|| status["containerID"].to_string())
    };
    lab.until("its pod runs", || container().is_some());
    let before = (container(), tasks(lab, "node2"));
    lab.run(&["cut", "node2"]);
    lab.until("node2 is not ready", || lab.ready() == ["node1"]);
    // As it was last told.
    assert_eq!(tasks(lab, "node2"), before.1);
    lab.run(&["heal", "node2"]);
    let healed = lab.until("node2 is ready", || lab.ready() == ["node1", "node2"]);
    eprintln!("a healed node: ready after {healed:?}");
    assert_eq!((container(), tasks(lab, "node2")), before);
    assert!(lab.kubectl(&["delete", "pod", "stays"]).status.success());
}

/// The containers that run on a node.
fn tasks(lab: &Lab, node: &str) -> Vec<String> {
    let socket = lab.dir.join(node).join("data/containerd/containerd.sock");
    let socket = socket.to_str().unwrap();
    let listed = lab.run(&["exec", node, "ctr", "-a", socket, "-n", "k8s.io", "tasks", "ls", "-q"]);
    let mut tasks: Vec<String> = listed.lines().map(str::to_owned).collect();
    tasks.sort();
    tasks
}

fn a_machine_can_leave(lab: &Lab) {
    let data = lab.dir.join("node2/data");
    let leave = [env!("CARGO_BIN_EXE_minik8s"), "agent", "--leave", "--data-dir", data.to_str().unwrap()];
    let told = lab.run(&[&["exec", "node2"], leave.as_slice()].concat());
    assert!(told.contains("node2 has left the cluster"), "{told}");
    let nodes = lab.get(&["nodes"]);
    assert_eq!(nodes.len(), 1, "{nodes:?}");
    assert!(!data.join("credentials").exists());
}
