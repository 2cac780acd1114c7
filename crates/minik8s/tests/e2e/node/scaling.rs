//! What is measured, what autoscalers make of it, and the pages for Prometheus.

use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use http::Method;
use serde_json::{Value, json};

use super::space::{Space, condition, shell};
use crate::harness::cluster::NODE;

/// A number from the cgroup of a pod's first container, on hosts with either version of cgroups.
fn cgroup_number(space: &Space, pod: &Value, v1: (&str, &str), v2: (&str, &str)) -> f64 {
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let id = text(&pod["status"]["containerStatuses"][0]["containerID"]);
    let root = PathBuf::from("/sys/fs/cgroup");
    let is_v1 = root.join(v1.0).exists();
    let root = if is_v1 { root.join(v1.0) } else { root };
    let class = text(&pod["status"]["qosClass"]).to_lowercase();
    let class = if class == "guaranteed" { String::new() } else { class };
    let dir = root.join(&space.cluster.config().cgroup_root()[1..]).join(class);
    let dir = dir.join(format!("pod{}", text(&pod["metadata"]["uid"]))).join(id.rsplit('/').next().unwrap());
    let (file, field) = if is_v1 { (v1.1, "") } else { v2 };
    let content = std::fs::read_to_string(dir.join(file)).unwrap();
    let line = content.lines().find_map(|line| line.strip_prefix(field)).unwrap();
    line.trim().parse().unwrap()
}

async fn metrics(space: &Space, pod: &str) -> Option<Value> {
    space.get(&format!("/apis/metrics.k8s.io/v1beta1/namespaces/{}/pods/{pod}", space.name)).await
}

fn amount(usage: &Value, suffix: &str) -> f64 {
    usage.as_str().unwrap().strip_suffix(suffix).unwrap().parse().unwrap()
}

/// `kubectl top` works seconds after a pod is ready, and says what the kernel says.
pub async fn top_agrees_with_cgroups(space: Space) {
    let mut main = shell("main", "dd if=/dev/zero of=/mem/f bs=1M count=24; while :; do :; done");
    main["resources"] = json!({"limits": {"cpu": "100m", "memory": "64Mi"}});
    main["volumeMounts"] = json!([{"name": "mem", "mountPath": "/mem"}]);
    let volumes = json!([{"name": "mem", "emptyDir": {"medium": "Memory"}}]);
    let spec = json!({"terminationGracePeriodSeconds": 0, "containers": [main, shell("idle", "sleep 1000")], "volumes": volumes});
    space.labelled_pod("busy", json!({"app": "busy"}), spec).await;
    let pod = space.ready("busy").await;
    let ready = Instant::now();
    space.eventually("measured", async || metrics(&space, "busy").await.is_some()).await;
    println!("measured {:?} after it was ready", ready.elapsed());
    // The containers' order in status and metrics is that of their names.
    let main =
        pod["status"]["containerStatuses"].as_array().unwrap().iter().position(|c| c["name"] == "main");
    let mut pod = pod.clone();
    let status = pod["status"]["containerStatuses"][main.unwrap()].clone();
    pod["status"]["containerStatuses"] = json!([status]);
    let cpu = || cgroup_number(&space, &pod, ("cpuacct", "cpuacct.usage"), ("cpu.stat", "usage_usec "));
    let unit = if PathBuf::from("/sys/fs/cgroup/cpuacct").exists() { 1e9 } else { 1e6 };
    let mut tries = Vec::new();
    space
        .eventually("in agreement within 5 %", async || {
            let (before, then) = (cpu(), Instant::now());
            tokio::time::sleep(Duration::from_secs(10)).await;
            let used = (cpu() - before) / unit / then.elapsed().as_secs_f64();
            // A busy node may miss a measurement.
            let Some(found) = metrics(&space, "busy").await else { return false };
            let main =
                found["containers"].as_array().unwrap().iter().find(|c| c["name"] == "main").unwrap().clone();
            let told = amount(&main["usage"]["cpu"], "n") / 1e9;
            let memory =
                cgroup_number(&space, &pod, ("memory", "memory.usage_in_bytes"), ("memory.current", ""));
            let told_memory = amount(&main["usage"]["memory"], "Ki") * 1024.0;
            tries.push((used, told, memory, told_memory));
            // Nothing of it is page cache that could go.
            (told / used - 1.0).abs() < 0.05 && (told_memory / memory - 1.0).abs() < 0.05
        })
        .await;
    println!("cores by cgroup and by metrics, bytes likewise: {tries:?}");
    // A busy node may miss a measurement here, too.
    let shown = async |what: &[&str], seen: &dyn Fn(&str) -> bool| {
        let top = async || seen(&space.try_kubectl(&[&["top"], what].concat()).await.out);
        space.eventually(&format!("top {what:?}"), top).await;
    };
    let of_main = |top: &str| top.lines().any(|line| line.starts_with("busy") && line.contains("main"));
    shown(&["pod", "--containers", "-l", "app=busy"], &of_main).await;
    shown(&["pod", "--sort-by=cpu"], &|top| top.contains("busy")).await;
    assert!(space.try_kubectl(&["top", "pod", "-l", "app=none"]).await.err.contains("No resources found"));
    shown(&["node"], &|top| top.contains(NODE)).await;
    let v1 = space.get(&format!("/apis/metrics.k8s.io/v1/nodes/{NODE}")).await.unwrap();
    assert_eq!((&v1["kind"], &v1["apiVersion"]), (&json!("NodeMetrics"), &json!("metrics.k8s.io/v1")));
}

/// Out and in on CPU, with status, events and an account of it.
pub async fn scaling_on_cpu(space: Space) {
    // A new process costs a millisecond or two on a busy machine, and three replicas become one only below 3m each: at
    // rest it makes one a second.
    let mut main = shell("main", "while [ -e /config/busy ] || sleep 1; do :; done");
    main["image"] = minik8s_kubelet::image::BUSYBOX.into();
    main["resources"] = json!({"requests": {"cpu": "20m"}, "limits": {"cpu": "50m"}});
    main["volumeMounts"] = json!([{"name": "config", "mountPath": "/config"}]);
    let labels = json!({"app": "web"});
    space.config_map("load", json!({})).await;
    let deployment = json!({
        "metadata": {"name": "web"},
        "spec": {"selector": {"matchLabels": labels}, "template": {"metadata": {"labels": labels}, "spec": {
            "terminationGracePeriodSeconds": 0, "containers": [main],
            "volumes": [{"name": "config", "configMap": {"name": "load"}}]}}},
    });
    let path = |group: &str, resource: &str, name: &str| {
        format!("/apis/{group}/namespaces/{}/{resource}{name}", space.name)
    };
    space.send(Method::POST, &path("apps/v1", "deployments", ""), deployment).await.unwrap();
    let autoscaler = json!({
        "metadata": {"name": "web"},
        "spec": {"scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
            "minReplicas": 1, "maxReplicas": 3, "behavior": {"scaleDown": {"stabilizationWindowSeconds": 3}},
            "metrics": [{"type": "Resource", "resource": {"name": "cpu",
                "target": {"type": "Utilization", "averageUtilization": 50}}}]},
    });
    space
        .send(Method::POST, &path("autoscaling/v2", "horizontalpodautoscalers", ""), autoscaler)
        .await
        .unwrap();
    let get = async || space.get(&path("autoscaling/v2", "horizontalpodautoscalers", "/web")).await.unwrap();
    let replicas = async || {
        let deployment = space.get(&path("apps/v1", "deployments", "/web")).await.unwrap();
        deployment["spec"]["replicas"].as_i64().unwrap()
    };
    let active = async || condition(&get().await, "ScalingActive")["status"] == "True";
    space.eventually("active", active).await;
    space.change("configmaps", "load", json!({"data": {"busy": ""}})).await;
    answered_at_once(&space, &path("minik8s.io/v1", "scalingdecisions", "/web"), &replicas).await;
    space.eventually("three", async || replicas().await == 3).await;
    space
        .event("web", "SuccessfulRescale", "cpu resource utilization (percentage of request) above target")
        .await;
    // The new size is written before the status tells of it.
    space.eventually("told", async || get().await["status"]["desiredReplicas"] == 3).await;
    assert!(get().await["status"]["lastScaleTime"].is_string());
    let why = space.command(env!("CARGO_BIN_EXE_minik8s")).args(["why", "hpa/web"]).output().await.unwrap();
    let why = String::from_utf8_lossy(&why.stdout).into_owned();
    assert!(why.contains("metric cpu (target 50% a pod)") && why.contains("of 20m requested"), "{why}");
    backtested(&space).await;
    space.change("configmaps", "load", json!({"data": null})).await;
    space.eventually("one", async || replicas().await == 1).await;
    space.event("web", "SuccessfulRescale", "All metrics below target").await;
    let described = space.kubectl(&["describe", "hpa", "web"]).await;
    assert!(described.contains("ScalingActive") && described.contains("ValidMetricFound"), "{described}");
    let v1 = space.get(&path("autoscaling/v1", "horizontalpodautoscalers", "/web")).await.unwrap();
    assert_eq!(v1["spec"]["targetCPUUtilizationPercentage"], 50);
}

/// With what was just measured, a smaller bound would have held.
async fn backtested(space: &Space) {
    let run = async |settings: &str| {
        let mut command = space.command(env!("CARGO_BIN_EXE_minik8s"));
        let ran = command.args(["why", "hpa/web", "--backtest", settings]).output().await.unwrap();
        String::from_utf8_lossy(&ran.stdout).into_owned() + &String::from_utf8_lossy(&ran.stderr)
    };
    let has = |told: &str, title: &str, range: &str| {
        told.lines().any(|line| line.starts_with(title) && line.contains(range))
    };
    // What was measured is remembered every few seconds.
    space.eventually("remembered", async || has(&run("max=2").await, "as it was", "1..3")).await;
    let told = run("max=2,target=10").await;
    assert!(has(&told, "would have been", "1..2"), "{told}");
    assert!(run("max=1000").await.contains("up to 300"));
}

/// The first decision above the target is the one that scales, and the new size is written within seconds of it.
async fn answered_at_once(space: &Space, decision: &str, replicas: &impl AsyncFn() -> i64) {
    let above = async || {
        let decided = space.get(decision).await.unwrap_or_default();
        decided["metrics"][0]["ratio"].as_f64().filter(|ratio| *ratio > 1.1).map(|_| decided)
    };
    let mut first = None;
    space
        .eventually("measured above the target", async || {
            first = above().await;
            first.is_some()
        })
        .await;
    let (measurable, first) = (Instant::now(), first.unwrap());
    let (before, desired) = (first["replicas"].as_i64().unwrap(), first["desired"].as_i64().unwrap());
    // It may be a later one than the first that is seen here, after the new size was taken.
    assert!(desired > before || before > 1, "{first:#}");
    space.eventually("scaled", async || replicas().await > 1).await;
    println!("a step of load was answered {:?} after it was measurable", measurable.elapsed());
    // Generous: three seconds is for a machine that has nothing else to do.
    assert!(measurable.elapsed() < Duration::from_secs(20), "{:?}", measurable.elapsed());
}

/// Pods that tell how busy they are.
pub async fn scaling_on_own_metrics(space: Space) {
    let script =
        "mkdir /tmp/www; echo 'queue_length 30' >/tmp/www/metrics; exec httpd -f -p 8080 -h /tmp/www";
    let mut main = shell("main", script);
    main["image"] = minik8s_kubelet::image::BUSYBOX.into();
    let labels = json!({"app": "queue"});
    let deployment = json!({
        "metadata": {"name": "queue"},
        "spec": {"selector": {"matchLabels": labels}, "template": {
            "metadata": {"labels": labels, "annotations": {"prometheus.io/port": "8080"}},
            "spec": {"terminationGracePeriodSeconds": 0, "containers": [main]}}},
    });
    let base = |group: &str, resource: &str| format!("/apis/{group}/namespaces/{}/{resource}", space.name);
    space.send(Method::POST, &base("apps/v1", "deployments"), deployment).await.unwrap();
    let autoscaler = json!({
        "metadata": {"name": "queue"},
        "spec": {"scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "queue"}, "maxReplicas": 2,
            "metrics": [{"type": "Pods", "pods": {"metric": {"name": "queue_length"},
                "target": {"type": "AverageValue", "averageValue": "10"}}}]},
    });
    let autoscalers = base("autoscaling/v2", "horizontalpodautoscalers");
    space.send(Method::POST, &autoscalers, autoscaler).await.unwrap();
    let desired = async || {
        let found = space.get(&format!("{autoscalers}/queue")).await.unwrap();
        found["status"]["desiredReplicas"] == 2
            && found["status"]["currentMetrics"][0]["pods"]["current"]["averageValue"] == "30"
    };
    space.eventually("two", desired).await;
}

/// Every page for Prometheus passes its own linter.
pub async fn pages_for_prometheus(space: Space) {
    space.pod("some", super::space::idle()).await;
    space.ready("some").await;
    let node = format!("/api/v1/nodes/{NODE}/proxy");
    let some = format!("kube_pod_status_phase{{namespace=\"{}\",pod=\"some\"", space.name);
    for (path, part) in [
        ("/metrics".to_owned(), "apiserver_request_total{"),
        ("/metrics".to_owned(), "apiserver_storage_objects{resource=\"pods\"}"),
        ("/metrics/kube-state".to_owned(), &some),
        (format!("{node}/metrics"), "kubelet_running_pods"),
        (format!("{node}/metrics"), "coredns_dns_request_duration_seconds_bucket{"),
        (format!("{node}/metrics"), "kubeproxy_sync_proxy_rules_duration_seconds_bucket{"),
        (format!("{node}/metrics/resource"), "node_cpu_usage_seconds_total"),
        (format!("{node}/metrics/cadvisor"), "container_network_receive_bytes_total{"),
        (format!("{node}/metrics/node"), "node_memory_MemAvailable_bytes"),
    ] {
        let page = space.kubectl(&["get", "--raw", &path]).await;
        assert!(page.contains(part), "{path} without {part}:\n{page}");
        let complaints = lint(&page);
        // The node exporter's names of memory are the kernel's, in camel case.
        let complaints: Vec<_> =
            complaints.lines().filter(|line| !line.starts_with("node_memory_")).collect();
        assert!(complaints.is_empty(), "{path}: {complaints:#?}");
    }
}

/// What `promtool check metrics` says of a page.
fn lint(page: &str) -> String {
    let mut tool = Command::new("promtool");
    tool.args(["check", "metrics"]).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut tool = tool.spawn().expect("promtool is there: scripts/setup installs it");
    let mut input = tool.stdin.take().unwrap();
    let page = page.to_owned();
    let feed = std::thread::spawn(move || std::io::Write::write_all(&mut input, page.as_bytes()));
    let output = tool.wait_with_output().unwrap();
    feed.join().unwrap().unwrap();
    String::from_utf8_lossy(&output.stderr).into_owned() + &String::from_utf8_lossy(&output.stdout)
}
