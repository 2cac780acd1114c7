//! Who may call whom: identities, policies, and what a proxy that ends leaves behind.

use std::time::Instant;

use serde_json::{Value, json};

use super::shop::{Counts, Shop};
use crate::harness::cluster::TIMEOUT;

/// Greets whoever connects, as servers of mail and databases do.
const GREETER: &str = r#"
import signal, socketserver
signal.signal(15, lambda *_: exit(0))
class Greeter(socketserver.BaseRequestHandler):
    def handle(self):
        self.request.sendall(b"220 ready\r\n")
        self.request.sendall(self.request.recv(64))
socketserver.ThreadingTCPServer.allow_reuse_address = True
socketserver.ThreadingTCPServer(("", 2525), Greeter).serve_forever()
"#;

/// Reads a greeting before it says a word.
const LISTENER: &str = r#"
import socket, sys
with socket.create_connection((sys.argv[1], int(sys.argv[2])), timeout=30) as stream:
    stream.settimeout(30)
    print(stream.recv(64).decode().strip())
"#;

/// Whether anybody takes a connection there.
const KNOCK: &str = r#"
import socket, sys
try:
    socket.create_connection((sys.argv[1], int(sys.argv[2])), timeout=10).close()
    print("open")
except OSError:
    print("closed")
"#;

pub fn pods_of_the_mesh_speak_tls(shop: &Shop) {
    let plain = shop.ask_as("outside", 5, &[]);
    assert!(!plain.contains_key("failed"), "permissive by default: {plain:?}");
    let meshed = shop.ask(5, &[]);
    assert!(!meshed.contains_key("failed"), "{meshed:?}");
    shop.until("connections of both kinds are counted", || {
        let page = shop.metrics();
        let has =
            |what: &str| page.lines().any(|line| line.contains("_inbound_total") && line.contains(what));
        has("what=\"mutual_tls\"") && has("what=\"plaintext\"")
    });
    // The page of pairs, and what is made of it.
    shop.until("requests are seen between workload and Service", || {
        shop.kubectl(&["mesh", "graph"]).contains("-> shop/reviews")
    });
    assert!(shop.kubectl(&["mesh", "top"]).contains("shop/client"));
    let way = shop.kubectl(&["mesh", "why", "client", "http://reviews:9080/reviews/1"]);
    assert!(way.contains("mTLS with shop/default"), "{way}");
    assert!(shop.kubectl(&["mesh", "routes"]).contains("(shop/default)"));
    let csr = shop.kubectl(&["get", "csr", "--field-selector", "spec.signerName=minik8s.io/mesh"]);
    assert!(csr.contains("system:node:test-node") && csr.contains("Approved,Issued"), "{csr}");
}

/// Of pods of a namespace, by those who may, without what requests hold.
pub fn requests_are_seen_as_they_pass(shop: &Shop) {
    shop.route(&json!([{"name": "v2", "weight": 1}]));
    let load = shop.load(&["path=/reviews/1?token=secret"]);
    let tap = ["mesh", "tap", "client", "--to", "reviews", "--path", "^/reviews/1$", "--max", "3"];
    let seen = shop.kubectl(&tap);
    assert_eq!(seen.lines().count(), 3, "{seen}");
    for line in seen.lines() {
        assert!(line.contains(" client (client) -> reviews (reviews-v2-"), "{line}");
        assert!(line.contains(") GET /reviews/1 ") && line.ends_with("B subset v2"), "{line}");
    }
    // Whoever may look at another namespace, or may only read, sees nothing of this one.
    let path = "/apis/mesh.minik8s.io/v1/namespaces/shop/pods/client/tap";
    shop.kubectl(&["create", "rolebinding", "eve", "--clusterrole=edit", "--user=eve", "-n", "default"]);
    shop.kubectl(&["create", "rolebinding", "vera", "--clusterrole=view", "--user=vera"]);
    shop.of("default".to_owned()).until_may("eve", "delete");
    shop.until_may("vera", "get");
    for user in ["eve", "vera"] {
        let refused = shop.fails(&["get", "--raw", path, "--as", user]);
        assert!(refused.contains("pods/tap"), "{refused}");
    }
    assert!(shop.fails(&["mesh", "tap", "client", "--as", "eve"]).contains("pods"));
    assert!(shop.fails(&["mesh", "tap", "client", "--as", "vera"]).contains("pods/tap"));
    shop.kubectl(&["create", "rolebinding", "amy", "--clusterrole=edit", "--user=amy"]);
    shop.until_may("amy", "delete");
    let seen = shop.kubectl(&["mesh", "tap", "--as", "amy", "-o", "json", "--max", "1"]);
    assert!(seen.contains("\"peerWorkload\":\"reviews-v2\"") && !seen.contains("secret"), "{seen}");
    load.end();
    shop.kubectl(&["delete", "virtualservice", "reviews"]);
}

/// A server that greets first is heard by clients of the mesh and by others.
pub fn greetings_arrive(shop: &Shop) {
    let labels = json!({"app": "greeter"});
    shop.apply(&json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "greeter", "labels": labels},
        "spec": {"terminationGracePeriodSeconds": 2, "containers": [shop.python("main", GREETER)]}}));
    shop.apply(&json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "greeter"},
        "spec": {"selector": labels, "ports": [{"name": "tcp-mail", "port": 2525}]}}));
    shop.kubectl(&["wait", "pod/greeter", "--for=condition=Ready", "--timeout=180s"]);
    for pod in ["client", "outside"] {
        let heard = || shop.try_run(pod, LISTENER, &["greeter", "2525"]);
        shop.until("a greeting arrives", || heard().as_deref() == Some("220 ready"));
    }
    // Nobody reaches the proxy's own ports.
    let ip = shop.get("pod", "greeter")["status"]["podIP"].as_str().unwrap().to_owned();
    assert_eq!(shop.run("outside", KNOCK, &[&ip, "2525"]), "open");
    assert_eq!(shop.run("outside", KNOCK, &[&ip, "15006"]), "closed");
}

fn policy(spec: Value) -> Value {
    json!({"apiVersion": "minik8s.io/v1", "kind": "MeshPolicy", "metadata": {"name": "reviews"}, "spec": spec})
}

fn all_failed(counts: &Counts) -> bool {
    counts.keys().all(|pod| pod == "failed")
}

/// Only pods that prove who they are are let in; probes, whose connections begin inside, are not kept out.
pub fn strict_pods_let_in_the_mesh_alone(shop: &Shop) {
    shop.enforce(json!({"mtls": "Strict"}));
    assert!(all_failed(&shop.ask_as("outside", 3, &[])), "pods outside of the mesh are refused");
    let told = shop.kubectl(&["mesh", "status"]);
    assert!(told.contains("MeshPolicy reviews: ") && told.contains(" proxies enforce it"), "{told}");
    let meshed = shop.ask(20, &[]);
    assert!(!meshed.contains_key("failed"), "{meshed:?}");
    let since = Instant::now();
    shop.until("probes go on for some periods", || since.elapsed().as_secs() > 5);
    let pods: Value =
        serde_json::from_str(&shop.kubectl(&["get", "pods", "-l", "app=reviews", "-o", "json"])).unwrap();
    for pod in pods["items"].as_array().unwrap() {
        let status = &pod["status"]["containerStatuses"][0];
        assert_eq!((&status["ready"], &status["restartCount"]), (&json!(true), &json!(0)), "{status}");
    }
}

/// By service account, namespace, method and path; a dry run only counts.
pub fn policies_are_enforced(shop: &Shop) {
    let selector = json!({"matchLabels": {"app": "reviews"}});
    let rules = |account: &str, path: &str| json!([{"from": {"serviceAccounts": [account]}, "to": {"methods": ["GET"], "paths": [path]}}]);
    shop.apply(&policy(json!({"selector": selector, "rules": rules("nobody", "/.*"), "dryRun": true})));
    shop.until("a dry run is counted", || {
        assert!(!shop.ask(3, &[]).contains_key("failed"), "and refuses nobody");
        shop.metrics().lines().any(|line| line.contains("what=\"would_deny\",policy=\"shop/reviews\""))
    });
    shop.enforce(json!({"selector": selector, "rules": rules("nobody", "/.*")}));
    assert!(all_failed(&shop.ask(3, &[])), "another account is refused");
    let way = shop.kubectl(&["mesh", "why", "client", "http://reviews:9080/reviews/1"]);
    assert!(way.contains("MeshPolicy shop/reviews refuses it"), "{way}");
    shop.enforce(json!({"selector": selector, "rules": rules("default", "/reviews/[0-9]+")}));
    assert!(!shop.ask(3, &[]).contains_key("failed"), "its own account is let in");
    assert!(all_failed(&shop.ask(3, &["path=/reviews/1/new"])), "by path");
    assert!(all_failed(&shop.ask_as("outside", 3, &[])), "whoever proves nothing has no account");
    shop.kubectl(&["delete", "meshpolicy", "reviews"]);
    shop.until("without a policy all are let in", || !shop.ask_as("outside", 3, &[]).contains_key("failed"));
    let bad = shop.refused(&policy(json!({"rules": [{"to": {"paths": ["a(b"]}}]})));
    assert!(bad.contains("a(b\n") && bad.contains(" ^"), "the place is drawn: {bad}");
}

/// Proxies are killed under load, the one of the pod that asks and one of those that answer: what was in flight may fail,
/// and connections that come meanwhile wait for the next proxy and are answered.
pub fn killed_proxies_refuse_nobody(shop: &Shop) {
    let load = shop.load(&[]);
    for pod in ["client".to_owned(), shop.pod_of("reviews-v1")] {
        let pid = i32::try_from(shop.pids(&pod, "minik8s-proxy")[0]).unwrap();
        nix::sys::signal::kill(nix::unistd::Pid::from_raw(pid), nix::sys::signal::SIGKILL).unwrap();
        let counts = shop.ask(10, &[]);
        assert!(!counts.contains_key("failed"), "{pod}: {counts:?}");
        let restarts = || shop.get("pod", &pod)["status"]["initContainerStatuses"][0]["restartCount"].clone();
        shop.until("it was started anew", || restarts() == 1);
    }
    let (counts, said) = load.end();
    let failed = counts.get("failed").copied().unwrap_or_default();
    assert!(
        failed <= 2,
        "one request is in flight at a time, and two proxies were killed: {counts:?} {said}"
    );
    assert!(counts.values().sum::<u64>() > 20, "{counts:?}");
}

impl Shop {
    /// Applies the policy, and returns when every proxy that it is about enforces it.
    fn enforce(&self, spec: Value) {
        self.apply(&policy(spec));
        self.kubectl(&["wait", "meshpolicy/reviews", "--for=condition=Programmed", "--timeout=120s"]);
        let proxies = self.get("meshpolicy", "reviews")["status"]["proxies"].clone();
        assert!(proxies["total"].as_u64() > Some(0) && proxies["total"] == proxies["applied"], "{proxies}");
    }

    /// Waits until something holds.
    pub fn until(&self, what: &str, holds: impl Fn() -> bool) {
        let begun = Instant::now();
        while !holds() {
            assert!(begun.elapsed() < TIMEOUT, "{what}: not in time");
            std::thread::sleep(std::time::Duration::from_millis(500));
        }
    }

    fn metrics(&self) -> String {
        self.kubectl(&["get", "--raw", "/api/v1/nodes/test-node/proxy/metrics"])
    }
}
