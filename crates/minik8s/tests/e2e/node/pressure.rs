//! A node that runs short of disk, memory or processes: images go first, then pods, the greedy ones before others.

use std::sync::Arc;
use std::time::{Duration, Instant};

use minik8s_kubelet::cri::{Cri, Runtime};
use minik8s_kubelet::image::Recipe;
use serde_json::{Value, json};

use super::space::{IDLE, Space, condition, shell};
use crate::harness::cluster::{Cluster, NODE, load_image};

/// A shortage is seen at once, and forgotten soon.
const QUICK: [&str; 4] =
    ["--eviction-pressure-transition-period", "2s", "--minimum-image-ttl-duration", "0s"];
const UNUSED: &str = "minik8s.io/unused:1";
const SMALL: &str = "minik8s.io/small:1";
/// Seconds in which a busy machine has seen others end, and taken their taint away.
const LATER: u32 = 25;

pub async fn pressure(cluster: Arc<Cluster>) {
    let space = Space::new(cluster, "pressure").await;
    images_beyond_the_threshold(&space).await;
    disk(&space).await;
    // Something is always in use, so less than everything is left.
    lack(&space, "memory.available<100%", "MemoryPressure", "memory").await;
    lack(&space, "pid.available<100%", "PIDPressure", "pids").await;
    taints_that_evict(&space).await;
}

/// A taint ends pods that do not bear it, others when their time is over, unless it goes before.
async fn taints_that_evict(space: &Space) {
    let pod = |tolerations: Value| json!({"containers": [shell("main", IDLE)], "tolerations": tolerations, "terminationGracePeriodSeconds": 1});
    let bears = |seconds: u32| json!([{"key": "test", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": seconds}]);
    for (name, tolerations) in [("at-once", json!([])), ("soon", bears(2)), ("later", bears(LATER))] {
        space.pod(name, pod(tolerations)).await;
        space.ready(name).await;
    }
    let begun = Instant::now();
    space.kubectl(&["taint", "node", NODE, "test=yes:NoExecute"]).await;
    let ends = |pod: &Value| pod.is_null() || pod["metadata"]["deletionTimestamp"].is_string();
    space.until("at-once", "ended", ends).await;
    space.until("soon", "ended", ends).await;
    // Taints know the second in which they came, not its fraction.
    assert!(begun.elapsed() > Duration::from_secs(1));
    space.kubectl(&["taint", "node", NODE, "test:NoExecute-"]).await;
    space.deleted("at-once").await;
    space.deleted("soon").await;
    tokio::time::sleep(Duration::from_secs((LATER + 2).into()).saturating_sub(begun.elapsed())).await;
    let later = space.ready("later").await;
    assert_eq!(later["metadata"]["deletionTimestamp"], Value::Null);
}

fn restart(space: &Space, interval: &str, eviction: &str) {
    space.cluster.crash_agent();
    let flags = ["--housekeeping-interval", interval, "--eviction-hard", eviction];
    space.cluster.start_agent(&[&QUICK[..], &flags].concat());
}

fn load(space: &Space, name: &str, megabytes: usize) {
    let content = (0..megabytes << 20).map(|n| (n * 7 % 251) as u8).collect();
    load_image(space.cluster.node_dir(), "big.tar", Recipe::new(name).file("ballast", 0o644, content));
    std::fs::remove_file(space.cluster.node_dir().join("big.tar")).unwrap();
}

async fn has_image(space: &Space, name: &str) -> bool {
    Cri::new(&space.cluster.config().cri_socket()).image(name).await.unwrap().is_some()
}

async fn pressed(space: &Space, kind: &str, want: &str) {
    let node = format!("/api/v1/nodes/{NODE}");
    let status = async || condition(&space.get(&node).await.unwrap_or_default(), kind)["status"].clone();
    space.eventually(&format!("{kind}={want}"), async || status().await == want).await;
}

/// Above the high threshold unused images go; those that are used, and the pause image, stay.
async fn images_beyond_the_threshold(space: &Space) {
    space.pod("user", json!({"containers": [shell("main", IDLE)], "terminationGracePeriodSeconds": 0})).await;
    space.ready("user").await;
    load(space, SMALL, 1);
    let often = ["--housekeeping-interval", "100ms"];
    space.cluster.crash_agent();
    let thresholds = ["--image-gc-high-threshold", "1", "--image-gc-low-threshold", "0"];
    let ttl = ["--minimum-image-ttl-duration", "0s", "--eviction-hard", ""];
    space.cluster.start_agent(&[&often[..], &thresholds, &ttl].concat());
    space.eventually("without the unused image", async || !has_image(space, SMALL).await).await;
    assert!(has_image(space, minik8s_kubelet::image::BUSYBOX).await);
    assert!(has_image(space, minik8s_kubelet::image::PAUSE_IMAGE).await);
    space.delete("user", 0).await;
    space.deleted("user").await;
}

/// First the images that nobody uses; when that is not enough, the pod that takes most.
async fn disk(space: &Space) {
    restart(space, "500ms", "nodefs.available<30%");
    load(space, UNUSED, 30);
    let writer = |name: &str, first: u32| {
        let mut main = shell(
            "main",
            &format!(
                "dd if=/dev/zero of=/v/first bs=1M count={first}; touch /v/up; \
                 until [ -e /v/more ]; do sleep 0.1; done; dd if=/dev/zero of=/v/second bs=1M count=40; {IDLE}"
            ),
        );
        main["volumeMounts"] = json!([{"name": "v", "mountPath": "/v"}]);
        main["readinessProbe"] = json!({"exec": {"command": ["test", "-e", "/v/up"]}, "periodSeconds": 1});
        (name.to_owned(), json!({"containers": [main], "volumes": [{"name": "v", "emptyDir": {}}]}))
    };
    // A little more than may be used, but less than that and the image.
    let disk = nix::sys::statvfs::statvfs(space.cluster.node_dir()).unwrap();
    let megabytes = |blocks: u64| ((blocks * disk.fragment_size()) >> 20) as u32;
    let allowed = megabytes(disk.blocks_available()) - megabytes(disk.blocks()) * 3 / 10;
    let (greedy, spec) = writer("greedy", allowed + 10);
    space.pod(&greedy, spec).await;
    let (modest, spec) = writer("modest", 1);
    space.pod(&modest, spec).await;
    for name in [&greedy, &modest] {
        space.ready(name).await;
    }
    space.eventually("without the unused image", async || !has_image(space, UNUSED).await).await;
    let pod = space.get(&space.path("pods", "greedy")).await.unwrap();
    assert_eq!(pod["status"]["phase"], "Running", "that was enough: {:#}", pod["status"]);
    space.kubectl(&["exec", "greedy", "--", "touch", "/v/more"]).await;
    let pod = evicted(space, "greedy", "ephemeral-storage").await;
    assert_eq!(pod["status"]["containerStatuses"][0]["state"]["running"], Value::Null);
    pressed(space, "DiskPressure", "True").await;
    // The files went with the pod.
    pressed(space, "DiskPressure", "False").await;
    let pod = space.get(&space.path("pods", "modest")).await.unwrap();
    assert_eq!(pod["status"]["phase"], "Running", "{:#}", pod["status"]);
    for name in ["greedy", "modest"] {
        space.delete(name, 0).await;
        space.deleted(name).await;
    }
}

async fn evicted(space: &Space, name: &str, resource: &str) -> Value {
    let pod = space.phase(name, "Failed").await;
    let status = &pod["status"];
    assert_eq!(status["reason"], "Evicted", "{status:#}");
    let message = status["message"].as_str().unwrap();
    assert!(message.starts_with(&format!("The node was low on resource: {resource}.")), "{message}");
    assert_eq!(condition(&pod, "DisruptionTarget")["reason"], "TerminationByKubelet");
    space.event(name, "Evicted", "The node was low on resource").await;
    pod
}

/// The pod that takes more than it asked for goes first. The node says what it lacks, until it does not.
async fn lack(space: &Space, threshold: &str, kind: &str, resource: &str) {
    restart(space, "500ms", "");
    let pod = |memory: &str, script: &str| {
        let mut main = shell("main", script);
        main["resources"] = json!({"requests": {"memory": memory}});
        json!({"containers": [main]})
    };
    let (modest, greedy) = (format!("modest-{resource}"), format!("greedy-{resource}"));
    space.pod(&modest, pod("64Mi", IDLE)).await;
    space.pod(&greedy, pod("1Ki", &format!("for i in 1 2 3 4 5; do sleep 1000 & done; {IDLE}"))).await;
    space.ready(&modest).await;
    space.ready(&greedy).await;
    // Long enough between two evictions to tell their times apart, which are whole seconds.
    restart(space, "2s", threshold);
    let first = evicted(space, &greedy, resource).await;
    pressed(space, kind, "True").await;
    let second = evicted(space, &modest, resource).await;
    let at =
        |pod: &Value| condition(pod, "DisruptionTarget")["lastTransitionTime"].as_str().unwrap().to_owned();
    assert!(at(&first) < at(&second), "{first:#} {second:#}");
    restart(space, "500ms", "");
    pressed(space, kind, "False").await;
}
