//! What conformance demands of scheduling, shown with the real binary: API server, scheduler, controllers and
//! `minik8s simulate` as separate processes, each test with a cluster of its own.

mod cluster;

use cluster::{Cluster, condition, is, pod_path};
use http::Method;
use serde_json::{Value, json};

const PODS: &str = "/api/v1/namespaces/default/pods";
const CLASSES: &str = "/apis/scheduling.k8s.io/v1/priorityclasses";

fn asking(resource: &str, amount: &str) -> Value {
    let amounts = json!({resource: amount});
    json!({"containers": [{"name": "c", "image": "x", "resources": {"requests": amounts, "limits": amounts}}]})
}

fn with(mut spec: Value, more: Value) -> Value {
    spec.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    spec
}

/// Simulated nodes have 32 CPUs.
#[tokio::test]
async fn pods_must_fit() {
    let cluster = Cluster::start(2).await;
    for name in ["a", "b"] {
        cluster.create_pod(name, asking("cpu", "20")).await;
    }
    assert_ne!(cluster.node_of("a").await, cluster.node_of("b").await);
    cluster.create_pod("c", asking("cpu", "20")).await;
    let expected = "0/2 nodes are available: 2 Insufficient cpu. preemption: 0/2 nodes are available: \
                    2 No preemption victims found for incoming pod.";
    assert_eq!(cluster.refusal("c").await, expected);
    let events = "/api/v1/namespaces/default/events?fieldSelector=reason=FailedScheduling";
    let told = |list: &Value| {
        let mut items = list["items"].as_array().unwrap().iter();
        items.any(|event| event["involvedObject"]["name"] == "c" && event["message"] == expected)
    };
    cluster.wait(events, told).await;
    cluster.delete(&pod_path("a")).await.unwrap();
    cluster.node_of("c").await;
}

#[tokio::test]
async fn node_selectors_are_respected() {
    let cluster = Cluster::start(2).await;
    cluster.patch("/api/v1/nodes/sim-0001", json!({"metadata": {"labels": {"k": "v"}}})).await.unwrap();
    cluster.create_pod("matching", json!({"nodeSelector": {"k": "v"}})).await;
    assert_eq!(cluster.node_of("matching").await, "sim-0001");
    cluster.create_pod("not-matching", json!({"nodeSelector": {"k": "other"}})).await;
    let refusal = cluster.refusal("not-matching").await;
    assert!(refusal.contains("2 node(s) didn't match Pod's node affinity/selector"), "{refusal}");
    // It is tried again as soon as a node is labelled.
    cluster.patch("/api/v1/nodes/sim-0000", json!({"metadata": {"labels": {"k": "other"}}})).await.unwrap();
    assert_eq!(cluster.node_of("not-matching").await, "sim-0000");
}

#[tokio::test]
async fn host_ports_of_all_addresses_conflict() {
    let cluster = Cluster::start(1).await;
    let on = |ip: &str, port: i32, protocol: &str| {
        let port = json!({"containerPort": 80, "hostPort": port, "hostIP": ip, "protocol": protocol});
        json!({"containers": [{"name": "c", "image": "x", "ports": [port]}]})
    };
    // Different addresses or protocols go together.
    cluster.create_pod("a", on("127.0.0.1", 54321, "TCP")).await;
    cluster.create_pod("b", on("127.0.0.2", 54321, "TCP")).await;
    cluster.create_pod("c", on("127.0.0.2", 54321, "UDP")).await;
    for name in ["a", "b", "c"] {
        cluster.node_of(name).await;
    }
    cluster.create_pod("all", on("0.0.0.0", 54322, "TCP")).await;
    cluster.node_of("all").await;
    cluster.create_pod("one", on("127.0.0.1", 54322, "TCP")).await;
    let refusal = cluster.refusal("one").await;
    assert!(refusal.contains("1 node(s) didn't have free ports for the requested pod ports"), "{refusal}");
}

async fn create_class(cluster: &Cluster, name: &str, value: i32) {
    cluster.create(CLASSES, json!({"metadata": {"name": name}, "value": value})).await;
}

#[tokio::test]
async fn higher_priority_preempts() {
    let cluster = Cluster::start(2).await;
    create_class(&cluster, "low", 1).await;
    create_class(&cluster, "middle", 100).await;
    create_class(&cluster, "high", 1000).await;
    let of = |class: &str, cpu: &str| with(asking("cpu", cpu), json!({"priorityClassName": class}));
    cluster.create_pod("low", of("low", "20")).await;
    cluster.create_pod("middle", of("middle", "20")).await;
    let (low, middle) = (cluster.node_of("low").await, cluster.node_of("middle").await);
    assert_ne!(low, middle);
    cluster.create_pod("high", of("high", "20")).await;
    assert_eq!(cluster.node_of("high").await, low, "the least important makes room");
    cluster.wait_gone(&pod_path("low")).await;
    assert_eq!(cluster.node_of("middle").await, middle);
    // A critical pod finds room too.
    let pod = json!({"metadata": {"name": "critical"}, "spec": of("system-cluster-critical", "20")});
    cluster.create("/api/v1/namespaces/kube-system/pods", pod).await;
    let running = |pod: &Value| pod["status"]["phase"] == "Running";
    let critical = cluster.wait("/api/v1/namespaces/kube-system/pods/critical", running).await;
    assert_eq!(critical["spec"]["nodeName"], middle.as_str());
    cluster.wait_gone(&pod_path("middle")).await;
    assert_eq!(cluster.node_of("high").await, low);
}

#[tokio::test]
async fn preempted_pods_are_marked() {
    let cluster = Cluster::start(1).await;
    create_class(&cluster, "low", 1).await;
    create_class(&cluster, "high", 1000).await;
    let spec = with(asking("cpu", "32"), json!({"priorityClassName": "low"}));
    let victim = json!({"metadata": {"name": "victim", "finalizers": ["example.com/test"]}, "spec": spec});
    cluster.create(PODS, victim).await;
    cluster.node_of("victim").await;
    cluster.create_pod("preemptor", with(asking("cpu", "32"), json!({"priorityClassName": "high"}))).await;
    let marked =
        |pod: &Value| is(pod, "DisruptionTarget") && pod["metadata"]["deletionTimestamp"].is_string();
    let victim = cluster.wait(&pod_path("victim"), marked).await;
    assert_eq!(condition(&victim, "DisruptionTarget")["reason"], "PreemptionByScheduler");
    cluster.patch(&pod_path("victim"), json!({"metadata": {"finalizers": null}})).await.unwrap();
    cluster.wait_gone(&pod_path("victim")).await;
    cluster.node_of("preemptor").await;
}

#[tokio::test]
async fn replica_sets_of_four_priorities() {
    let cluster = Cluster::start(1).await;
    let fake = json!({"status": {"capacity": {"example.com/fakecpu": "1000"}, "allocatable": {"example.com/fakecpu": "1000"}}});
    cluster.patch("/api/v1/nodes/sim-0000/status", fake).await.unwrap();
    let sets = "/apis/apps/v1/namespaces/default/replicasets";
    let create = async |level: i32, amount: &str| {
        create_class(&cluster, &format!("p{level}"), level).await;
        let name = format!("rs{level}");
        let labels = json!({"name": name});
        let spec =
            with(asking("example.com/fakecpu", amount), json!({"priorityClassName": format!("p{level}")}));
        let template = json!({"metadata": {"labels": labels}, "spec": spec});
        let set = json!({"metadata": {"name": name},
            "spec": {"replicas": 1, "selector": {"matchLabels": labels}, "template": template}});
        cluster.create(sets, set).await;
    };
    let ready = |set: &Value| set["status"]["readyReplicas"] == 1;
    for level in 1..=3 {
        create(level, "300").await;
        cluster.wait(&format!("{sets}/rs{level}"), ready).await;
    }
    create(4, "350").await;
    cluster.wait(&format!("{sets}/rs4"), ready).await;
    // The lowest made room; its replacement is made and waits.
    cluster.wait(&format!("{sets}/rs1"), |set| set["status"]["replicas"] == 1 && !ready(set)).await;
    for level in 2..=4 {
        cluster.wait(&format!("{sets}/rs{level}"), ready).await;
    }
    cluster.delete(&format!("{sets}/rs4")).await.unwrap();
    cluster.wait(&format!("{sets}/rs1"), ready).await;
}

#[tokio::test]
async fn priority_class_endpoints() {
    let cluster = Cluster::start(0).await;
    create_class(&cluster, "one", 1).await;
    create_class(&cluster, "two", 2).await;
    let list = cluster.get(CLASSES).await.unwrap();
    let named = |name: &str| list["items"].as_array().unwrap().iter().any(|c| c["metadata"]["name"] == name);
    assert!(["one", "two", "system-cluster-critical", "system-node-critical"].into_iter().all(named));
    let path = format!("{CLASSES}/one");
    let patched = cluster.patch(&path, json!({"description": "patched"})).await.unwrap();
    assert_eq!(patched["description"], "patched");
    let mut changed = patched.clone();
    changed["description"] = json!("updated");
    let updated = cluster.send(Method::PUT, &path, &changed).await.unwrap();
    assert_eq!(updated["description"], "updated");
    let refused = |outcome: Result<Value, kube::Error>| match outcome {
        Err(kube::Error::Api(status)) => assert_eq!((status.code, &*status.reason), (422, "Invalid")),
        other => panic!("{other:?}"),
    };
    refused(cluster.patch(&path, json!({"value": 5})).await);
    let mut changed = updated.clone();
    changed["value"] = json!(7);
    refused(cluster.send(Method::PUT, &path, &changed).await);
    refused(cluster.patch(&path, json!({"preemptionPolicy": "Never"})).await);
}

const RANGES: &str = "/api/v1/namespaces/default/limitranges";

fn limit_range(name: &str) -> Value {
    let amounts = |cpu: &str, memory: &str| json!({"cpu": cpu, "memory": memory});
    json!({"metadata": {"name": name, "labels": {"kind": "test", "name": name}}, "spec": {"limits": [{
        "type": "Container", "min": amounts("50m", "100Mi"), "max": amounts("500m", "500Mi"),
        "default": amounts("500m", "500Mi"), "defaultRequest": amounts("100m", "200Mi"),
    }]}})
}

#[tokio::test]
async fn limit_ranges_fill_in_and_refuse() {
    let cluster = Cluster::start(0).await;
    let created = cluster.create(RANGES, limit_range("range")).await;
    assert_eq!(created["spec"], limit_range("range")["spec"]);
    let resources = async |name: &str, given: Value| {
        let container = json!({"name": "c", "image": "x", "resources": given});
        let pod = json!({"metadata": {"name": name}, "spec": {"containers": [container]}});
        let created = cluster.send(Method::POST, PODS, &pod).await?;
        Ok::<Value, kube::Error>(created["spec"]["containers"][0]["resources"].clone())
    };
    let filled = resources("none", json!({})).await.unwrap();
    let expected =
        json!({"limits": {"cpu": "500m", "memory": "500Mi"}, "requests": {"cpu": "100m", "memory": "200Mi"}});
    assert_eq!(filled, expected);
    let partial =
        resources("some", json!({"requests": {"memory": "150Mi"}, "limits": {"cpu": "300m"}})).await.unwrap();
    assert_eq!(partial["requests"]["memory"], "150Mi");
    assert_eq!(partial["limits"], json!({"cpu": "300m", "memory": "500Mi"}));
    let refused = |outcome: Result<Value, kube::Error>| {
        assert!(matches!(&outcome, Err(kube::Error::Api(status)) if status.code == 403), "{outcome:?}");
    };
    refused(resources("small", json!({"requests": {"cpu": "10m"}})).await);
    refused(resources("large", json!({"limits": {"cpu": "600m"}})).await);
    let path = format!("{RANGES}/range");
    let mut lower = limit_range("range")["spec"]["limits"][0].clone();
    lower["min"]["cpu"] = json!("9m");
    cluster.patch(&path, json!({"spec": {"limits": [lower]}})).await.unwrap();
    resources("small", json!({"requests": {"cpu": "10m"}})).await.unwrap();
    refused(resources("large", json!({"limits": {"cpu": "600m"}})).await);
    cluster.delete(&path).await.unwrap();
    cluster.wait_gone(&path).await;
    resources("large", json!({"limits": {"cpu": "600m"}})).await.unwrap();
}

#[tokio::test]
async fn limit_ranges_by_collection() {
    let cluster = Cluster::start(0).await;
    cluster.create("/api/v1/namespaces", json!({"metadata": {"name": "other"}})).await;
    cluster.create(RANGES, limit_range("one")).await;
    let others = "/api/v1/namespaces/other/limitranges";
    cluster.create(others, limit_range("two")).await;
    let count = async || {
        let list = cluster.get("/api/v1/limitranges?labelSelector=kind=test").await.unwrap();
        list["items"].as_array().unwrap().len()
    };
    assert_eq!(count().await, 2);
    let mut changed = limit_range("one")["spec"]["limits"][0].clone();
    changed["defaultRequest"]["cpu"] = json!("77m");
    let path = format!("{RANGES}/one");
    let patched = cluster.patch(&path, json!({"spec": {"limits": [changed.clone()]}})).await.unwrap();
    assert_eq!(patched["spec"]["limits"][0], changed);
    cluster.delete(&format!("{RANGES}?labelSelector=name=one")).await.unwrap();
    cluster.wait_gone(&path).await;
    assert_eq!(count().await, 1);
    cluster.get(&format!("{others}/two")).await.unwrap();
}

/// The commands around the scheduler, as a user types them.
#[tokio::test]
async fn why_and_cluster_settings() {
    let cluster = Cluster::start(2).await;
    let text = |output: &std::process::Output| String::from_utf8(output.stdout.clone()).unwrap();
    cluster.create_pod("waits", asking("cpu", "40")).await;
    cluster.refusal("waits").await;
    let why = text(&cluster.run(&["why", "pod/waits"]));
    let lines: Vec<&str> = why.lines().collect();
    assert_eq!(lines[0], "Pod default/waits is Pending: none of 2 nodes takes it.", "{why}");
    assert!(
        lines[3].starts_with("sim-0000  Insufficient cpu  request 8 less cpu (40 wanted, 32 of 32 free)"),
        "{why}"
    );
    assert_eq!(text(&cluster.run(&["cluster", "get", "scheduler.strategy"])), "balanced\n");
    assert!(cluster.run(&["cluster", "set", "scheduler.strategy=most-pods"]).status.success());
    assert_eq!(text(&cluster.run(&["cluster", "get", "scheduler.strategy"])), "most-pods\n");
    let wrong = cluster.run(&["cluster", "set", "scheduler.strategy=best"]);
    assert!(!wrong.status.success() && String::from_utf8_lossy(&wrong.stderr).contains("known: balanced"));
    // The scheduler follows without a restart: soon all pods go where most pods are. While it has not seen the change, they
    // go to both nodes in turn.
    let begun = std::time::Instant::now();
    let mut nodes = Vec::new();
    for round in 0.. {
        nodes.clear();
        for i in 0..5 {
            let name = format!("p{}", 5 * round + i);
            cluster.create_pod(&name, json!({})).await;
            nodes.push(cluster.node_of(&name).await);
        }
        if nodes.iter().all(|node| *node == nodes[0]) {
            break;
        }
        assert!(begun.elapsed() < cluster::TIMEOUT, "{nodes:?}");
    }
    let node = cluster.node_of("p0").await;
    let why = format!("Pod default/p0 is Running on node {node} and ready.\n");
    assert_eq!(text(&cluster.run(&["why", "pod/p0"])), why);
    let unknown = cluster.run(&["why", "pod/nobody"]);
    assert!(String::from_utf8_lossy(&unknown.stderr).contains("there is no pod nobody in namespace default"));
}
