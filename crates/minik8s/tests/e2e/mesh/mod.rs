//! The service mesh on a real node: proxies in pods, requests split by weight and by header, changes under load.

mod gamma;
mod shop;
mod storm;
mod trust;
mod unchanged;
mod upgrade;

use serde_json::json;
use shop::{Shop, pod_spec};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::harness::Server;
use crate::harness::cluster::{Cluster, TIMEOUT, block_on};

/// From the pod's file to a split, and every change while requests go on without a failure.
#[test]
fn requests_are_split_and_changes_cost_none() {
    Cluster::builder().flags(&["--mesh"]).run(|cluster| {
        let shop = Shop::open(&cluster, "shop");
        pods_have_proxies(&shop);
        let plain = shop.ask(20, &[]);
        assert_eq!(plain.values().sum::<u64>(), 20, "without a VirtualService requests pass: {plain:?}");
        by_weight(&shop);
        by_header(&shop);
        clients_without_a_proxy_are_led_alike(&shop);
        hosts_and_paths_are_led_alike(&shop, &cluster);
        under_load(&shop, &cluster);
        pods_end_under_load(&shop);
        bad_objects_are_explained(&shop);
        pods_are_rolled(&shop);
        update_with_errors_goes_back(&shop);
        // Its requests go on by the Service alone.
        shop.kubectl(&["delete", "virtualservice", "reviews"]);
        gamma::routes_with_a_service_as_parent(&shop);
        assert!(!shop.ask(20, &[]).contains_key("failed"));
    });
}

fn pods_have_proxies(shop: &Shop) {
    let pod = shop.get("pod", "client");
    let proxy = &pod["spec"]["initContainers"][0];
    assert_eq!(
        (&proxy["name"], &proxy["securityContext"]["runAsUser"]),
        (&json!("minik8s-proxy"), &json!(1337))
    );
    assert!(shop.kubectl(&["get", "pod", "client"]).contains("2/2"));
    assert!(shop.kubectl(&["logs", "client", "-c", "minik8s-proxy"]).contains("connections of this pod"));
    // A process of the pod, and the proxy, without any capability.
    let rights = shop.proxy_status();
    assert!(rights.contains("CapEff:\t0000000000000000"), "{rights}");
    let out = shop.get("pod", "outside");
    assert_eq!(out["spec"]["initContainers"], json!(null), "opted out by its label");
    let host = shop.get("pod", "host");
    assert_eq!(host["spec"]["initContainers"], json!(null), "of the host's network");
    let spy = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "spy"},
        "spec": {"securityContext": {"runAsUser": 1337}, "containers": [{"name": "main", "image": "minik8s.io/busybox:1"}]}});
    let refused = shop.refused(&spy);
    assert!(refused.contains("runs as user 1337"), "{refused}");
}

/// Weights [1, 2] over subsets of [2, 1] pods: 1, 1 and 4 of six requests, exactly.
fn by_weight(shop: &Shop) {
    shop.route(&json!([{"name": "v1", "weight": 1}, {"name": "v2", "weight": 2}]));
    let counts = shop.ask(600, &[]);
    let v1: Vec<u64> =
        counts.iter().filter(|(pod, _)| pod.starts_with("reviews-v1")).map(|(_, n)| *n).collect();
    let v2: Vec<u64> =
        counts.iter().filter(|(pod, _)| pod.starts_with("reviews-v2")).map(|(_, n)| *n).collect();
    assert_eq!((v1, v2), (vec![100, 100], vec![400]), "{counts:?}");
    let status = &shop.get("virtualservice", "reviews")["status"];
    assert_eq!(status["proxies"], json!({"total": 4, "applied": 4}), "{status}");
    assert_eq!(status["subsets"][1], json!({"name": "v2", "ready": 1, "share": "66.7%"}));
}

fn by_header(shop: &Shop) {
    shop.route(&json!([
        {"name": "v2", "headers": {"end-user": "^jason$"}},
        {"name": "v2", "url": "^/reviews/[0-9]+/new$"},
        {"name": "v1"},
    ]));
    let versions = |headers: &[&str]| shop.versions(&shop.ask(20, headers));
    assert_eq!(versions(&["end-user=jason"]), "v2=20");
    assert_eq!(versions(&["end-user=jasonx"]), "v1=20");
    assert_eq!(versions(&["path=/reviews/7/new"]), "v2=20");
    assert_eq!(versions(&[]), "v1=20");
}

/// Pods that are not of the mesh, and processes of the node: by the node's own proxy.
fn clients_without_a_proxy_are_led_alike(shop: &Shop) {
    let address = shop.get("service", "reviews")["spec"]["clusterIP"].as_str().unwrap().to_owned();
    let versions = |pod: &str, headers: &[&str]| shop.versions(&shop.ask_as(pod, 20, headers));
    assert_eq!(versions("outside", &["end-user=jason"]), "v2=20");
    assert_eq!(versions("outside", &[]), "v1=20");
    let host = format!("host={address}");
    assert_eq!(versions("host", &[&host, "end-user=jason"]), "v2=20");
    assert_eq!(versions("host", &[&host]), "v1=20");
    shop.route(&json!([{"name": "v1", "weight": 1}, {"name": "v2", "weight": 3}]));
    // Two whole rounds of the turns of three pods.
    shop.until("by the new weights", || shop.versions(&shop.ask_as("outside", 16, &[])) == "v1=4 v2=12");
    // A connection that could be a NetworkPolicy's to judge is left to the kernel's rules.
    shop.apply(
        &json!({"apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy", "metadata": {"name": "all"},
        "spec": {"podSelector": {}, "policyTypes": ["Ingress"], "ingress": [{}]}}),
    );
    shop.until("one connection goes to one pod", || shop.ask_as("outside", 8, &[]).len() == 1);
    shop.kubectl(&["delete", "networkpolicy", "all"]);
}

/// DNS objects and Ingresses whose Service has a VirtualService.
fn hosts_and_paths_are_led_alike(shop: &Shop, cluster: &Cluster) {
    let backend = |port: serde_json::Value| json!({"service": {"name": "reviews", "port": port}});
    shop.apply(&json!({"apiVersion": "minik8s.io/v1", "kind": "DNS", "metadata": {"name": "reviews"}, "spec": {
        "rules": [{"host": "dns.mesh.example", "paths": [{"path": "/books", "backend": backend(json!(9080))}]}]}}));
    let path = json!({"path": "/", "pathType": "Prefix", "backend": backend(json!({"number": 9080}))});
    shop.apply(
        &json!({"apiVersion": "networking.k8s.io/v1", "kind": "Ingress", "metadata": {"name": "reviews"},
        "spec": {"rules": [{"host": "ingress.mesh.example", "http": {"paths": [path]}}]}}),
    );
    let port = format!("port={}", cluster.http_port());
    let versions = |words: &[&str]| {
        let router = ["host=127.0.0.1", port.as_str()];
        shop.versions(&shop.ask_as("host", 16, &[&router, words].concat()))
    };
    let by_dns = ["Host=dns.mesh.example", "path=/books/reviews/1"];
    let by_ingress = ["Host=ingress.mesh.example"];
    shop.route(&json!([{"name": "v1", "weight": 1}, {"name": "v2", "weight": 3}]));
    for words in [&by_dns[..], &by_ingress] {
        // Two whole rounds of the turns of three pods.
        shop.until("by weight", || versions(words) == "v1=4 v2=12");
    }
    shop.route(
        &json!([{"name": "v2", "headers": {"end-user": "^jason$"}}, {"name": "v1", "url": "^/reviews/1$"}]),
    );
    for words in [&by_dns[..], &by_ingress] {
        shop.until("by header", || versions(&[words, &["end-user=jason"]].concat()) == "v2=16");
        shop.until("by the path that the Service sees", || versions(words) == "v1=16");
    }
    shop.kubectl(&["delete", "dns/reviews", "ingress/reviews"]);
}

/// Weights change, a pod is replaced, and the server is killed and started again: no request of the client fails.
fn under_load(shop: &Shop, cluster: &Cluster) {
    shop.route(&json!([{"name": "v1", "weight": 1}, {"name": "v2", "weight": 0}]));
    let load = shop.load(&[]);
    for weight in [10, 50, 90, 100] {
        shop.route(&json!([{"name": "v1", "weight": 100 - weight}, {"name": "v2", "weight": weight}]));
    }
    shop.route(&json!([{"name": "v1", "weight": 1}, {"name": "v2", "weight": 1}]));
    shop.scale("reviews-v2", 2);
    cluster.crash_server();
    block_on(cluster.restart_server());
    shop.route(&json!([{"name": "v1", "weight": 0}, {"name": "v2", "weight": 1}]));
    let (counts, _) = load.end();
    assert_eq!(counts.get("failed"), None, "{counts:?}");
    let both = ["reviews-v1", "reviews-v2"].iter().all(|name| counts.keys().any(|pod| pod.starts_with(name)));
    assert!(both && counts.values().sum::<u64>() > 50, "{counts:?}");
    assert_eq!(shop.versions(&shop.ask(20, &[])), "v2=20", "the last change holds");
}

/// A rollout and a deletion, while somebody sends what is never sent twice.
fn pods_end_under_load(shop: &Shop) {
    shop.route(&json!([{"name": "v1", "weight": 1}, {"name": "v2", "weight": 1}]));
    let load = shop.load(&["method=POST"]);
    shop.kubectl(&["rollout", "restart", "deployment/reviews-v1"]);
    shop.kubectl(&["rollout", "status", "deployment/reviews-v1", "--timeout=180s"]);
    shop.kubectl(&["delete", "pod", &shop.pod_of("reviews-v2")]);
    shop.kubectl(&["rollout", "status", "deployment/reviews-v2", "--timeout=180s"]);
    let (counts, said) = load.end();
    assert_eq!(counts.get("failed"), None, "{counts:?} {said}");
    let both = ["reviews-v1", "reviews-v2"].iter().all(|name| counts.keys().any(|pod| pod.starts_with(name)));
    assert!(both, "{counts:?}");
}

fn bad_objects_are_explained(shop: &Shop) {
    let both = shop.try_route(&json!([{"name": "v1", "weight": 1}, {"name": "v2", "url": "x"}]));
    assert!(both.unwrap_err().contains("must have weights, or url and headers, not both"));
    let bad = shop.try_route(&json!([{"name": "v1", "url": "a(b"}]));
    assert!(bad.unwrap_err().contains("is not a regular expression: unclosed group"));
    // The share of a subset without pods goes to the others.
    shop.route(&json!([{"name": "v1", "weight": 1}, {"name": "nobody", "weight": 9}]));
    let condition = shop.condition("ResolvedRefs");
    assert_eq!(condition["reason"], "SubsetNotFound", "{condition}");
    assert_eq!(shop.versions(&shop.ask(20, &[])), "v1=20");
}

/// Two pods are replaced one after the other, while requests go on without a failure.
fn pods_are_rolled(shop: &Shop) {
    let meta = |name: &str| json!({"name": name, "labels": {"app": "rolled"}});
    for name in ["old-1", "old-2"] {
        shop.apply(
            &json!({"apiVersion": "v1", "kind": "Pod", "metadata": meta(name), "spec": pod_spec("old")}),
        );
    }
    shop.apply(&json!({"apiVersion": "v1", "kind": "Service", "metadata": meta("rolled"),
        "spec": {"selector": {"app": "rolled"}, "ports": [{"name": "http", "port": 9080}]}}));
    shop.apply(&json!({"apiVersion": "minik8s.io/v1", "kind": "Subset", "metadata": meta("all"),
        "spec": {"selector": {"matchLabels": {"app": "rolled"}}}}));
    shop.kubectl(&["wait", "pod/old-1", "pod/old-2", "--for=condition=Ready", "--timeout=180s"]);
    shop.kubectl(&["mesh", "split", "rolled", "all=1", "--timeout", "120s"]);
    let load = shop.load(&["host=rolled"]);
    // Proxies count what they sent every two seconds: each batch is judged by some of it.
    shop.apply(&json!({"apiVersion": "minik8s.io/v1", "kind": "RollingUpdate", "metadata": meta("roll"),
        "spec": {"serviceRef": "rolled", "port": 9080, "minimumAlive": 1, "interval": 4,
            "newPodSpec": pod_spec("new")}}));
    let status = shop.rolled("roll");
    assert_eq!((&status["total"], &status["updated"]), (&json!(2), &json!(2)));
    let (counts, said) = load.end();
    assert_eq!(counts.get("failed"), None, "{counts:?} {said}");
    assert!(counts.keys().any(|pod| pod.starts_with("rolled-")), "{counts:?}");
    let named = |batch: &serde_json::Value| {
        batch["step"] == "Verifying" && batch["pods"].as_array().unwrap().len() == 1
    };
    assert!(status["history"].as_array().unwrap().iter().all(named), "one at a time, by all steps: {status}");
    assert!(
        status["requests"]["total"].as_u64().unwrap() > 0 && status["requests"]["failed"] == 0,
        "{status}"
    );
    let told = shop.kubectl(&["mesh", "status"]);
    assert!(told.contains("rolled (Service rolled, port 9080)") && told.contains("2 ready pods"), "{told}");
}

/// New pods that answer with errors are replaced by such as there were; and an update that is done can be undone.
fn update_with_errors_goes_back(shop: &Shop) {
    let load = shop.load(&["host=rolled"]);
    let broken = json!({"terminationGracePeriodSeconds": 1, "containers": [shop.python("main", BROKEN)]});
    shop.apply(&json!({"apiVersion": "minik8s.io/v1", "kind": "RollingUpdate", "metadata": {"name": "bad"},
        "spec": {"serviceRef": "rolled", "port": 9080, "minimumAlive": 1, "interval": 10, "newPodSpec": broken}}));
    let status = shop.rolled("bad");
    assert_eq!(status["phase"], "Aborted", "{status}");
    assert!(status["message"].as_str().unwrap().contains("have failed"), "{status}");
    load.end();
    assert!(!shop.ask(20, &["host=rolled"]).contains_key("failed"), "the former pods answer");
    let image = "minik8s.io/function-python:3.11-7";
    let told = shop.kubectl(&[
        "rollout",
        "mesh",
        "rolled",
        "--image",
        image,
        "--min-alive",
        "1",
        "--interval",
        "1s",
    ]);
    assert!(told.contains("Done: 2 of 2 pods updated"), "{told}");
    let told = shop.kubectl(&["rollout", "mesh", "rolled", "--abort"]);
    assert!(told.contains("Aborted: 0 of 2 pods updated, 2 ready"), "{told}");
}

const BROKEN: &str = r#"
import http.server
class Broken(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def do_GET(self):
        self.send_response(500)
        self.send_header("content-length", "0")
        self.end_headers()
http.server.ThreadingHTTPServer(("", 9080), Broken).serve_forever()
"#;

/// Pods prove who they are, policies are enforced, and a proxy that is killed refuses nobody.
#[test]
fn pods_are_let_in_by_who_they_are() {
    Cluster::builder().flags(&["--mesh"]).run(|cluster| {
        let shop = Shop::open(&cluster, "shop");
        trust::pods_of_the_mesh_speak_tls(&shop);
        storm::storm_is_answered(&shop);
        unchanged::jobs_end(&shop);
        unchanged::namespaces_have_their_say(&shop);
        unchanged::address_of_a_pod_leads_to_it(&shop);
        unchanged::upgraded_connection_outlives_changes(&shop);
        trust::requests_are_seen_as_they_pass(&shop);
        trust::greetings_arrive(&shop);
        trust::strict_pods_let_in_the_mesh_alone(&shop);
        trust::policies_are_enforced(&shop);
        trust::killed_proxies_refuse_nobody(&shop);
    });
}

/// The node's program is another: proxies follow, and neither a pod nor a request notices.
#[test]
fn proxies_are_replaced_under_load() {
    Cluster::builder().flags(&["--mesh"]).run(|cluster| {
        let shop = Shop::open(&cluster, "shop");
        upgrade::proxies_follow_the_program_of_their_node(&shop, &cluster);
    });
}

/// `minik8s cluster set mesh=on` of a server that was started without: the same process, and then with its kinds.
#[test]
fn setting_switches_the_mesh_on_and_off() {
    let server = Server::start();
    let run = |words: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_minik8s"));
        let output = command.arg("--kubeconfig").arg(server.kubeconfig()).args(words).output().unwrap();
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    let kinds = || run(&["api-resources", "--api-group=minik8s.io", "-o", "name"]);
    assert!(!kinds().contains("virtualservices"));
    for (value, has_mesh) in [("on", true), ("off", false), ("on", true), ("", false)] {
        assert!(run(&["cluster", "set", &format!("mesh={value}")]).starts_with("mesh="));
        let begun = Instant::now();
        while kinds().contains("virtualservices") != has_mesh || kinds().is_empty() {
            assert!(begun.elapsed() < TIMEOUT, "mesh={value}: {}", server.log());
            std::thread::sleep(Duration::from_millis(100));
        }
        assert!(!server.program.has_ended(), "it is the same process");
    }
}

/// The example's own script, as users run it.
#[test]
fn bookstore_example_runs() {
    Cluster::builder().flags(&["--mesh"]).run(|cluster| {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/bookstore/run");
        let output = Command::new(&script)
            .env("KUBECONFIG", cluster.kubeconfig())
            .env("DATA_DIR", &cluster.dir)
            .env("IMAGES", &cluster.dir)
            .env("MINIK8S", env!("CARGO_BIN_EXE_minik8s"))
            .stdin(Stdio::null())
            .output()
            .unwrap();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        assert!(output.status.success(), "{}{}", text(&output.stdout), text(&output.stderr));
    });
}
