//! What pods are used to, and have with a proxy as without one: Jobs end, a pod's own address leads to that pod, and a
//! connection that is no longer HTTP outlives changes of routes.

use serde_json::json;

use super::shop::Shop;

/// Takes an upgrade, as servers of WebSockets do, and then sends back what comes.
const UPGRADER: &str = r#"
import signal, socketserver
signal.signal(15, lambda *_: exit(0))
class Upgrader(socketserver.StreamRequestHandler):
    def handle(self):
        while self.rfile.readline().strip():
            pass
        self.wfile.write(b"HTTP/1.1 101 Switching Protocols\r\nupgrade: websocket\r\nconnection: upgrade\r\n"
            b"sec-websocket-accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\r\n")
        while line := self.rfile.readline():
            self.wfile.write(line)
socketserver.ThreadingTCPServer.allow_reuse_address = True
socketserver.ThreadingTCPServer(("", 9080), Upgrader).serve_forever()
"#;

/// Sends a line, waits until it is told to, and sends another over the same connection.
const UPGRADED: &str = r#"
import socket, sys
stream = socket.create_connection((sys.argv[1], 9080), timeout=60)
stream.sendall(b"GET / HTTP/1.1\r\nhost: upgrader\r\nupgrade: websocket\r\nconnection: upgrade\r\n"
    b"sec-websocket-version: 13\r\nsec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n")
file = stream.makefile("rwb")
print(file.readline().decode().split(" ")[1], flush=True)
while file.readline().strip():
    pass
def say(text):
    file.write(text + b"\n")
    file.flush()
    print(file.readline().decode().strip(), flush=True)
say(b"before")
sys.stdin.readline()
say(b"after")
"#;

pub fn jobs_end(shop: &Shop) {
    let template =
        json!({"spec": {"restartPolicy": "Never", "containers": [shop.python("main", "print('done')")]}});
    shop.apply(&json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "once"},
        "spec": {"template": template}}));
    shop.kubectl(&["wait", "job/once", "--for=condition=Complete", "--timeout=180s"]);
    let pods = shop.kubectl(&[
        "get",
        "pods",
        "-l",
        "job-name=once",
        "-o",
        "jsonpath={.items[*].spec.initContainers[0].name}",
    ]);
    assert_eq!(pods.trim(), "minik8s-proxy", "it had one");
}

/// Pods of a namespace that opts out have no proxy; where pods may do next to nothing, those with a proxy are let in and run.
pub fn namespaces_have_their_say(shop: &Shop) {
    let open = |name: &str, labels: serde_json::Value| {
        shop.apply(
            &json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}}),
        );
        let other = shop.of(name.to_owned());
        other.until("pods may be made", || other.kubectl(&["get", "serviceaccounts"]).contains("default"));
        other
    };
    let idle = "import signal; signal.signal(15, lambda *_: exit(0)); signal.pause()";
    let pod = |security: serde_json::Value| {
        let mut main = shop.python("main", idle);
        main["securityContext"] = security;
        json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "idle"},
            "spec": {"terminationGracePeriodSeconds": 2, "containers": [main]}})
    };
    let out = open("opted-out", json!({"minik8s.io/mesh": "disabled"}));
    out.apply(&pod(json!({})));
    assert_eq!(out.get("pod", "idle")["spec"]["initContainers"], json!(null));
    let restricted = open("restricted", json!({"pod-security.kubernetes.io/enforce": "restricted"}));
    let refused = restricted.refused(&pod(json!({})));
    assert!(refused.contains("restricted") && !refused.contains("minik8s-proxy"), "{refused}");
    restricted
        .apply(&pod(json!({"runAsNonRoot": true, "runAsUser": 1000, "allowPrivilegeEscalation": false,
        "capabilities": {"drop": ["ALL"]}, "seccompProfile": {"type": "RuntimeDefault"}})));
    assert_eq!(restricted.get("pod", "idle")["spec"]["initContainers"][0]["name"], "minik8s-proxy");
    restricted.kubectl(&["wait", "pod/idle", "--for=condition=Ready", "--timeout=180s"]);
    shop.kubectl(&["delete", "namespace/opted-out", "namespace/restricted", "--timeout=300s"]);
}

/// As clients of headless Services and of StatefulSets call them: never balanced anew.
pub fn address_of_a_pod_leads_to_it(shop: &Shop) {
    shop.apply(&json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "headless"},
        "spec": {"clusterIP": "None", "selector": {"app": "reviews"}, "ports": [{"name": "http", "port": 9080}]}}));
    for deployment in ["reviews-v1", "reviews-v2"] {
        let pod = shop.pod_of(deployment);
        let address = shop.get("pod", &pod)["status"]["podIP"].as_str().unwrap().to_owned();
        let counts = shop.ask(10, &[&format!("host={address}")]);
        assert_eq!(counts.get(&pod), Some(&10), "{counts:?}");
    }
    let counts = shop.ask(10, &["host=headless"]);
    assert!(counts.len() == 1 && !counts.contains_key("failed"), "one connection, one pod: {counts:?}");
    shop.kubectl(&["delete", "service", "headless"]);
}

pub fn upgraded_connection_outlives_changes(shop: &Shop) {
    let labels = json!({"app": "upgrader"});
    shop.apply(
        &json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "upgrader", "labels": labels},
        "spec": {"terminationGracePeriodSeconds": 2, "containers": [shop.python("main", UPGRADER)]}}),
    );
    shop.apply(&json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "upgrader"},
        "spec": {"selector": labels, "ports": [{"name": "http", "port": 9080}]}}));
    shop.apply(&json!({"apiVersion": "minik8s.io/v1", "kind": "Subset", "metadata": {"name": "upgrader"},
        "spec": {"selector": {"matchLabels": labels}}}));
    shop.kubectl(&["wait", "pod/upgrader", "--for=condition=Ready", "--timeout=180s"]);
    let split = |weight: &str| {
        shop.kubectl(&["mesh", "split", "upgrader", &format!("upgrader={weight}"), "--timeout", "120s"]);
    };
    split("1");
    let upgraded = shop.begin(UPGRADED, &["upgrader"]);
    split("2");
    split("3");
    shop.kubectl(&["delete", "virtualservice", "upgrader"]);
    assert_eq!(upgraded.end().0, "101\nbefore\nafter\n");
    shop.kubectl(&["delete", "pod/upgrader", "service/upgrader", "subset/upgrader", "--timeout=180s"]);
}
