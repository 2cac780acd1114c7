//! The node itself: what it says of itself, its metrics, and people who want it empty.

use minik8s_kubelet::cri::{Cri, Runtime};
use minik8s_kubelet::image::BUSYBOX;
use serde_json::{Value, json};

use super::space::{IDLE, Space, condition, idle, is_ready, shell};
use crate::harness::cluster::NODE;

const MIRROR: &str = "kubernetes.io/config.mirror";

pub async fn what_the_node_says(space: Space) {
    let node = space.get(&format!("/api/v1/nodes/{NODE}")).await.unwrap();
    let status = &node["status"];
    for (kind, want) in
        [("Ready", "True"), ("MemoryPressure", "False"), ("DiskPressure", "False"), ("PIDPressure", "False")]
    {
        assert_eq!(condition(&node, kind)["status"], want, "{kind}");
    }
    for resource in ["cpu", "memory", "ephemeral-storage", "pods"] {
        assert!(
            status["capacity"][resource].is_string() && status["allocatable"][resource].is_string(),
            "{resource}"
        );
    }
    assert_eq!(node["metadata"]["labels"]["kubernetes.io/hostname"], NODE);
    assert!(status["nodeInfo"]["containerRuntimeVersion"].as_str().unwrap().starts_with("containerd://"));
    assert!(status["addresses"].as_array().unwrap().iter().any(|a| a["type"] == "InternalIP"));
    let lease = space
        .get(&format!("/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/{NODE}"))
        .await
        .unwrap();
    assert_eq!(lease["spec"]["holderIdentity"], NODE);
    assert_eq!(lease["metadata"]["ownerReferences"][0]["uid"], node["metadata"]["uid"]);
}

pub async fn metrics(space: Space) {
    space.pod("busy", json!({"containers": [shell("main", &format!("i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done; {IDLE}"))]})).await;
    let uid = space.ready("busy").await["metadata"]["uid"].clone();
    let page = async |page: &str| {
        space.kubectl(&["get", "--raw", &format!("/api/v1/nodes/{NODE}/proxy/{page}")]).await
    };
    assert_eq!(page("healthz").await, "ok");
    let pod = |name: &str| format!("{name}{{container=\"main\",namespace=\"{}\",pod=\"busy\"}}", space.name);
    let resource = page("metrics/resource").await;
    for name in ["container_cpu_usage_seconds_total", "container_memory_working_set_bytes"] {
        let line = resource
            .lines()
            .find(|line| line.starts_with(&pod(name)))
            .unwrap_or_else(|| panic!("{name} in {resource}"));
        assert!(line.split(' ').nth(1).unwrap().parse::<f64>().unwrap() > 0.0, "{line}");
    }
    assert!(resource.contains("node_cpu_usage_seconds_total"), "{resource}");
    let cadvisor = page("metrics/cadvisor").await;
    assert!(
        cadvisor
            .lines()
            .any(|line| line.starts_with("container_cpu_usage_seconds_total{")
                && line.contains("pod=\"busy\"")),
        "{cadvisor}"
    );
    let own = page("metrics").await;
    assert!(own.lines().any(|line| line.starts_with("kubelet_running_pods ")), "{own}");
    let summary: Value = serde_json::from_str(&page("stats/summary").await).unwrap();
    assert_eq!(summary["node"]["nodeName"], NODE);
    let pods = summary["pods"].as_array().unwrap();
    let found = pods.iter().find(|pod| pod["podRef"]["uid"] == uid).unwrap();
    assert_eq!(found["containers"][0]["name"], "main");
    assert!(found["containers"][0]["memory"]["workingSetBytes"].as_u64() > Some(0), "{found:#}");
    let pods: Value = serde_json::from_str(&page("pods").await).unwrap();
    assert!(pods["items"].as_array().unwrap().iter().any(|pod| pod["metadata"]["uid"] == uid));
}

/// A new pod waits while the node is cordoned, as those of other cases would.
pub async fn cordon(space: Space) {
    space.pod("before", idle()).await;
    space.ready("before").await;
    space.kubectl(&["cordon", NODE]).await;
    space.pod("waits", idle()).await;
    let pod =
        space.until("waits", "refused", |pod| condition(pod, "PodScheduled")["status"] == "False").await;
    space.kubectl(&["uncordon", NODE]).await;
    assert_eq!(condition(&pod, "PodScheduled")["reason"], "Unschedulable");
    space.ready("waits").await;
}

/// Pods from files: they have a mirror, outlive its deletion, and follow their file.
pub async fn static_pods(space: Space) {
    let file = space.cluster.config().manifests_dir().join("web.yaml");
    let manifest = |word: &str| {
        format!(
            "apiVersion: v1\nkind: Pod\nmetadata:\n  name: web\n  namespace: {}\nspec:\n  terminationGracePeriodSeconds: 1\n  \
             containers:\n  - name: main\n    image: {BUSYBOX}\n    command: [sh, -c, \"echo {word}; {IDLE}\"]\n",
            space.name
        )
    };
    let write = |text: &str| {
        // Nobody must see half a file.
        let new = file.with_extension("new");
        std::fs::write(&new, text).unwrap();
        std::fs::rename(new, &file).unwrap();
    };
    let name = format!("web-{NODE}");
    write(&manifest("first"));
    let first = space.ready(&name).await;
    assert_eq!(first["metadata"]["annotations"]["kubernetes.io/config.source"], "file");
    assert_eq!(first["metadata"]["ownerReferences"][0]["kind"], "Node");
    // A container runs a moment before its first word.
    let says = async |words: &str| {
        space.eventually(words, async || space.kubectl(&["logs", &name]).await == words).await;
    };
    says("first\n").await;
    let container = |pod: &Value| pod["status"]["containerStatuses"][0]["containerID"].clone();
    space.delete(&name, 0).await;
    let uid = first["metadata"]["uid"].clone();
    let again =
        space.until(&name, "mirrored again", |pod| pod["metadata"]["uid"] != uid && is_ready(pod)).await;
    assert_eq!(container(&again), container(&first), "the container went on");

    write(&manifest("second"));
    let second =
        space.until(&name, "replaced", |pod| is_ready(pod) && container(pod) != container(&first)).await;
    assert_eq!(second["status"]["containerStatuses"][0]["restartCount"], 0);
    says("second\n").await;
    std::fs::remove_file(&file).unwrap();
    space.deleted(&name).await;
    let (config, uid) = (space.cluster.config(), second["metadata"]["annotations"][MIRROR].as_str().unwrap());
    space
        .eventually("gone", async || Cri::new(&config.cri_socket()).pod(uid).await.unwrap().is_empty())
        .await;
}

/// A log that grows large is divided; what is read back are the newest lines.
pub async fn log_rotation(space: Space) {
    let main = shell(
        "main",
        &format!("yes {} | head -c 12000000; while :; do echo; echo tick; sleep 1; done", "x".repeat(999)),
    );
    space.pod("talks", json!({"containers": [main], "terminationGracePeriodSeconds": 0})).await;
    let pod = space.ready("talks").await;
    let uid = pod["metadata"]["uid"].as_str().unwrap();
    let dir = space.cluster.config().logs_dir().join(format!("{}_talks_{uid}/main", space.name));
    space.eventually("rotated", async || std::fs::read_dir(&dir).unwrap().count() > 1).await;
    space
        .eventually("goes on", async || space.kubectl(&["logs", "talks", "--tail=1"]).await == "tick\n")
        .await;
    space.delete("talks", 0).await;
    space.deleted("talks").await;
}
