//! Addresses and ports of Services: each held by one, none leaked.

use std::collections::HashSet;

use serde_json::{Value, json};

use crate::cluster::*;

const SERVICES: &str = "/api/v1/namespaces/default/services";
const ADDRESSES: &str = "/apis/networking.k8s.io/v1/ipaddresses";

fn service(name: &str, more: Value) -> Value {
    let mut spec = json!({"selector": {"app": "a"}, "ports": [{"port": 80}]});
    spec.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    json!({"metadata": {"name": name}, "spec": spec})
}

#[tokio::test]
async fn addresses_are_taken_and_given_back() {
    let cluster = Cluster::start().await;
    let admin = cluster.admin();
    let made = admin.post(SERVICES, service("any", json!({}))).await.ok();
    let address = made["spec"]["clusterIP"].as_str().unwrap().to_owned();
    assert!(address.starts_with("10."), "{address}");
    assert_eq!(made["spec"]["clusterIPs"], json!([address]));
    let held = admin.get(&format!("{ADDRESSES}/{address}")).await.ok();
    assert_eq!(held["spec"]["parentRef"]["name"], "any");
    let asked = service("asked", json!({"clusterIP": "10.96.0.50"}));
    assert_eq!(admin.post(SERVICES, asked).await.ok()["spec"]["clusterIP"], "10.96.0.50");
    for (name, wrong) in [
        ("taken", "10.96.0.50"),
        ("api", "10.96.0.1"),
        ("outside", "10.1.2.3"),
        ("network", "10.96.0.0"),
        ("junk", "x"),
        ("six", "fd00::1"),
    ] {
        admin.post(SERVICES, service(name, json!({"clusterIP": wrong}))).await.refused(422, "Invalid");
    }
    let headless = admin.post(SERVICES, service("headless", json!({"clusterIP": "None"}))).await.ok();
    assert_eq!(headless["spec"]["clusterIPs"], json!(["None"]));
    // An address stays with its Service, whatever else changes.
    let changed =
        admin.patch(MERGE, &format!("{SERVICES}/any"), json!({"spec": {"ports": [{"port": 81}]}})).await.ok();
    assert_eq!(changed["spec"]["clusterIP"], address.as_str());
    let other = json!({"spec": {"clusterIP": "10.96.0.60", "clusterIPs": ["10.96.0.60"]}});
    admin.patch(MERGE, &format!("{SERVICES}/any"), other).await.refused(422, "Invalid");
    let external = json!({"spec": {"type": "ExternalName", "externalName": "a.example.com", "clusterIP": null, "clusterIPs": null}});
    let external = admin.patch(MERGE, &format!("{SERVICES}/any"), external).await.ok();
    assert!(external["spec"].get("clusterIP").is_none(), "{external}");
    admin.get(&format!("{ADDRESSES}/{address}")).await.refused(404, "NotFound");
    // Given back on delete, whether at once or after a finalizer.
    admin.delete(&format!("{SERVICES}/asked")).await.ok();
    let mut held = service("again", json!({"clusterIP": "10.96.0.50"}));
    held["metadata"]["finalizers"] = json!(["example.com/a"]);
    admin.post(SERVICES, held).await.ok();
    admin.delete(&format!("{SERVICES}/again")).await.ok();
    admin.post(SERVICES, service("early", json!({"clusterIP": "10.96.0.50"}))).await.refused(422, "Invalid");
    admin.patch(MERGE, &format!("{SERVICES}/again"), json!({"metadata": {"finalizers": null}})).await.ok();
    admin.post(SERVICES, service("late", json!({"clusterIP": "10.96.0.50"}))).await.ok();
    // A create that fails later takes nothing.
    let taken = service("late", json!({"clusterIP": "10.96.0.51"}));
    admin.post(SERVICES, taken).await.refused(409, "AlreadyExists");
    admin.get(&format!("{ADDRESSES}/10.96.0.51")).await.refused(404, "NotFound");
}

/// A cluster that has run out of addresses gets more by another ServiceCIDR.
#[tokio::test]
async fn further_service_cidrs_give_addresses() {
    const RANGES: &str = "/apis/networking.k8s.io/v1/servicecidrs";
    let cluster = Cluster::with(Setup { service_cidr: "10.9.0.0/28", ..Setup::default() }).await;
    let admin = cluster.admin();
    let asked = |name: &str, address: &str| service(name, json!({"clusterIP": address}));
    admin.post(SERVICES, asked("asked", "10.201.0.5")).await.refused(422, "Invalid");
    let cidrs = json!(["10.201.0.0/28", "10.202.0.0/32", "fd00::/112"]);
    for (name, cidrs) in [("more", json!([cidrs[0], cidrs[2]])), ("single", json!([cidrs[1]]))] {
        let metadata = json!({"name": name, "finalizers": ["example.com/hold"]});
        admin.post(RANGES, json!({"metadata": metadata, "spec": {"cidrs": cidrs}})).await.ok();
    }
    admin.post(SERVICES, asked("asked", "10.201.0.5")).await.ok();
    for wrong in ["10.201.0.0", "10.201.0.15", "10.201.0.5", "10.202.0.0", "fd00::5"] {
        admin.post(SERVICES, asked("wrong", wrong)).await.refused(422, "Invalid");
    }
    // 14 addresses of each, without the API server's own, that of DNS and the one that was asked for.
    let mut seen = HashSet::new();
    for i in 0..25 {
        let made = admin.post(SERVICES, service(&format!("s{i}"), json!({}))).await.ok();
        let address = made["spec"]["clusterIP"].as_str().unwrap().to_owned();
        // The first range is used up before the other is begun.
        assert_eq!(address.starts_with("10.9.0."), i < 12, "{i}: {address}");
        assert!(seen.insert(address), "{made}");
    }
    admin.post(SERVICES, service("full", json!({}))).await.refused(500, "InternalError");
    // One that is being deleted takes addresses back and gives none.
    admin.delete(&format!("{RANGES}/more")).await.ok();
    admin.delete(&format!("{SERVICES}/asked")).await.ok();
    admin.post(SERVICES, service("full", json!({}))).await.refused(500, "InternalError");
    admin.post(SERVICES, asked("asked", "10.201.0.5")).await.refused(422, "Invalid");
    let kept = admin.get(&format!("{SERVICES}/s20")).await.ok();
    let relabelled = json!({"metadata": {"labels": {"a": "b"}}});
    let changed = admin.patch(MERGE, &format!("{SERVICES}/s20"), relabelled).await.ok();
    assert_eq!(changed["spec"]["clusterIP"], kept["spec"]["clusterIP"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_small_range_is_used_up_without_doubles() {
    let cluster = Cluster::with(Setup { service_cidr: "10.9.0.0/28", ..Setup::default() }).await;
    let admin = cluster.admin();
    // 16 addresses without the first, the last, the API server's own and that of DNS.
    let tasks: Vec<_> = (0..30)
        .map(|i| {
            let admin = admin.clone();
            tokio::spawn(async move { admin.post(SERVICES, service(&format!("s{i}"), json!({}))).await })
        })
        .collect();
    let (mut seen, mut full) = (HashSet::new(), 0);
    for task in tasks {
        let answer = task.await.unwrap();
        match answer.code {
            201 => assert!(seen.insert(answer.ok()["spec"]["clusterIP"].to_string()), "given twice"),
            _ => {
                assert!(
                    answer.text().contains("no free address is left in the service range 10.9.0.0/28"),
                    "{}",
                    answer.text()
                );
                full += 1;
            }
        }
    }
    assert_eq!((seen.len(), full), (12, 18));
    let first = admin.get(SERVICES).await.ok()["items"][0]["metadata"]["name"].as_str().unwrap().to_owned();
    let victim = if first == "kubernetes" { "s0".to_owned() } else { first };
    let existing = names(&admin.get(SERVICES).await.ok())
        .into_iter()
        .find(|name| *name != "kubernetes")
        .unwrap_or(&victim)
        .to_owned();
    admin.delete(&format!("{SERVICES}/{existing}")).await.ok();
    admin.post(SERVICES, service("next", json!({}))).await.ok();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn node_ports() {
    let cluster = Cluster::start().await;
    let admin = cluster.admin();
    let tasks: Vec<_> = (0..30)
        .map(|i| {
            let admin = admin.clone();
            let body = service(
                &format!("s{i}"),
                json!({"type": "NodePort", "ports": [{"port": 80, "name": "a"}, {"port": 81, "name": "b"}]}),
            );
            tokio::spawn(async move { admin.post(SERVICES, body).await.ok() })
        })
        .collect();
    let mut seen = HashSet::new();
    for task in tasks {
        for port in task.await.unwrap()["spec"]["ports"].as_array().unwrap() {
            let port = port["nodePort"].as_u64().unwrap();
            assert!((30000..=32767).contains(&port) && seen.insert(port), "{port}");
        }
    }
    let free = (30000..32767).find(|port| !seen.contains(port)).unwrap();
    let asking = |name: &str, port: Value| {
        service(name, json!({"type": "NodePort", "ports": [{"port": 80, "nodePort": port}]}))
    };
    admin.post(SERVICES, asking("asked", json!(free))).await.ok();
    admin.post(SERVICES, asking("taken", json!(free))).await.refused(422, "Invalid");
    admin.post(SERVICES, asking("outside", json!(80))).await.refused(422, "Invalid");
    admin.post(SERVICES, asking("wrong", json!(-1))).await.refused(422, "Invalid");
    admin.post(SERVICES, asking("huge", json!(70000))).await.refused(422, "Invalid");
    // No longer a NodePort: the port is free again.
    let plain = json!({"spec": {"type": "ClusterIP", "ports": [{"port": 80}]}});
    let plain = admin.patch(MERGE, &format!("{SERVICES}/asked"), plain).await.ok();
    assert!(plain["spec"]["ports"][0].get("nodePort").is_none(), "{plain}");
    admin.post(SERVICES, asking("now", json!(free))).await.ok();
    admin.delete(&format!("{SERVICES}/now")).await.ok();
    admin.post(SERVICES, asking("then", json!(free))).await.ok();
}

#[tokio::test]
async fn the_clusters_own_come_back() {
    let cluster = Cluster::start().await;
    let admin = cluster.admin();
    for path in [&format!("{SERVICES}/kubernetes"), "/api/v1/namespaces/kube-system/services/kube-dns"] {
        let before = admin.get(path).await.ok();
        admin.delete(path).await.ok();
        let begun = std::time::Instant::now();
        let after = loop {
            let answer = admin.get(path).await;
            if answer.code == 200 {
                break answer.ok();
            }
            assert!(begun.elapsed() < TIMEOUT, "{path} is still missing");
            tokio::time::sleep(std::time::Duration::from_millis(100)).await;
        };
        assert_ne!(after["metadata"]["uid"], before["metadata"]["uid"]);
        assert_eq!(after["spec"]["clusterIP"], before["spec"]["clusterIP"]);
    }
}

#[tokio::test]
async fn external_ips_are_denied_unless_allowed() {
    let service = |name: &str, addresses: &[&str]| json!({"metadata": {"name": name}, "spec": {"externalIPs": addresses, "ports": [{"port": 80}]}});
    let services = "/api/v1/namespaces/default/services";
    let cluster = Cluster::start().await;
    let admin = cluster.admin();
    let refused = admin.post(services, service("s", &["203.0.113.7"])).await.refused(403, "Forbidden");
    let why = "services \"s\" is forbidden: Use of external IPs is denied by admission control.";
    assert_eq!(refused["message"], why);
    admin.post(services, service("s", &[])).await.ok();
    let patch = |addresses: &[&str]| json!({"spec": {"externalIPs": addresses}});
    let one = format!("{services}/s");
    admin.patch(MERGE, &one, patch(&["203.0.113.7"])).await.refused(403, "Forbidden");

    let cluster = Cluster::with(Setup { external_ips: true, ..Setup::default() }).await;
    let admin = cluster.admin();
    let made = admin.post(services, service("s", &["203.0.113.7"])).await.ok();
    assert_eq!(made["spec"]["externalIPs"], json!(["203.0.113.7"]));
}
