//! The agent, containerd, the API server and the disk fail, one after the other, on a node that is a program of
//! its own: no container leaks, none starts twice, no pod is lost.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use minik8s_kubelet::cri::{ContainerRecord, ContainerState, Cri, PodRecord, Runtime};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};

use super::faults::instances;
use super::leftovers::{addresses, cgroups_of_pods};
use super::space::{IDLE, Space, condition, idle, is_ready, shell};
use crate::harness::cluster::{Cluster, NODE};

/// The agent is killed this often, each time a little later after a pod was made.
const KILLS: u64 = 14;
const STEP: Duration = Duration::from_millis(45);
/// Nothing is evicted for want of room: here the disk is full on purpose.
const NO_EVICTION: [&str; 2] = ["--eviction-hard", ""];

pub async fn outages(cluster: Arc<Cluster>) {
    let space = Space::new(cluster.clone(), "outages").await;
    cluster.crash_agent();
    cluster.start_agent(&NO_EVICTION);
    killed_at_many_moments(&space).await;
    let before = instances(&space).await;
    assert_eq!(before.len(), KILLS as usize);
    containerd_hangs(&space, &before).await;
    api_server_away(&space).await;
    full_disk(&space).await;
    everything_goes(&space).await;
}

/// Every start is interrupted somewhere, some several times; each container runs exactly once. A start that was cut
/// off inside containerd counts as one that failed, so there may be a restart of what never ran, or ran for a moment
/// before containerd took it back.
async fn killed_at_many_moments(space: &Space) {
    for n in 0..KILLS {
        let mut main = shell("main", &format!("echo start >> /v/starts; {IDLE}"));
        main["volumeMounts"] = json!([{"name": "v", "mountPath": "/v"}]);
        let volumes = json!([{"name": "v", "emptyDir": {}}]);
        space.pod(&format!("k{n}"), json!({"containers": [main], "volumes": volumes})).await;
        tokio::time::sleep(STEP * n as u32).await;
        space.cluster.crash_agent();
        space.cluster.start_agent(&NO_EVICTION);
    }
    let config = space.cluster.config();
    for n in 0..KILLS {
        let pod = space.ready(&format!("k{n}")).await;
        let uid = pod["metadata"]["uid"].as_str().unwrap();
        let file = config.pods_dir().join(uid).join("volumes/v/starts");
        let starts = || std::fs::read_to_string(&file).unwrap_or_default();
        // A container runs a moment before its first command.
        space.eventually("a start", async || !starts().is_empty()).await;
        let starts = starts();
        let restarts = pod["status"]["containerStatuses"][0]["restartCount"].as_u64().unwrap() as usize;
        let times = starts.matches("start\n").count();
        assert!(
            (1..=1 + restarts).contains(&times),
            "k{n} started {times} times, restarted {restarts} times"
        );
        let record = record(space, uid).await;
        assert_eq!(record.sandboxes.iter().filter(|sandbox| sandbox.ready).count(), 1, "{record:#?}");
        let ran = |container: &&ContainerRecord| {
            !matches!(container.state, ContainerState::Created | ContainerState::Exited { started: None, .. })
        };
        assert_eq!(record.containers.iter().filter(ran).count(), 1, "{record:#?}");
    }
}

async fn uid(space: &Space, pod: &str) -> String {
    let pod = space.get(&space.path("pods", pod)).await.unwrap();
    pod["metadata"]["uid"].as_str().unwrap().to_owned()
}

async fn record(space: &Space, uid: &str) -> PodRecord {
    Cri::new(&space.cluster.config().cri_socket()).pod(uid).await.unwrap()
}

/// The node says that it is not ready, and is not taken for dead; when containerd goes on, so does all else.
async fn containerd_hangs(space: &Space, before: &BTreeMap<String, String>) {
    let node = format!("/api/v1/nodes/{NODE}");
    let lease = format!("/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/{NODE}");
    let renewed = async || space.get(&lease).await.unwrap()["spec"]["renewTime"].clone();
    let pid_file = space.cluster.config().containerd_dir().join("pid");
    let pid: i32 = std::fs::read_to_string(pid_file).unwrap().split(' ').next().unwrap().parse().unwrap();
    kill(Pid::from_raw(pid), Signal::SIGSTOP).unwrap();
    space.pod("during", idle()).await;
    let k0 = uid(space, "k0").await;
    space.delete("k0", 1).await;
    let why = async || {
        let node = space.get(&node).await.unwrap();
        condition(&node, "Ready")["message"].as_str().unwrap_or_default().to_owned()
    };
    space.eventually("unready", async || why().await.contains("container runtime is down")).await;
    let then = renewed().await;
    space.eventually("alive all the same", async || renewed().await != then).await;
    kill(Pid::from_raw(pid), Signal::SIGCONT).unwrap();
    let during = space.ready("during").await;
    space.deleted("k0").await;
    space.cluster.ready().await;
    let mut expected = before.clone();
    expected.remove(&k0);
    let mut now = instances(space).await;
    assert!(now.remove(during["metadata"]["uid"].as_str().unwrap()).is_some());
    assert_eq!(now, expected);
}

/// Without the API server pods go on and are restarted, by an agent that was restarted too.
async fn api_server_away(space: &Space) {
    space.config_map("settings", json!({"colour": "green"})).await;
    let mut main = shell("main", &format!("echo $COLOUR $(cat /settings/colour) >> /v/log; {IDLE}"));
    main["env"] =
        json!([{"name": "COLOUR", "valueFrom": {"configMapKeyRef": {"name": "settings", "key": "colour"}}}]);
    main["volumeMounts"] =
        json!([{"name": "v", "mountPath": "/v"}, {"name": "settings", "mountPath": "/settings"}]);
    let volumes =
        json!([{"name": "v", "emptyDir": {}}, {"name": "settings", "configMap": {"name": "settings"}}]);
    space.pod("survivor", json!({"containers": [main], "volumes": volumes})).await;
    let pod = space.ready("survivor").await;
    let uid = pod["metadata"]["uid"].as_str().unwrap();
    let log = space.cluster.config().pods_dir().join(uid).join("volumes/v/log");
    let lines = || std::fs::read_to_string(&log).unwrap_or_default();
    space.eventually("its first line", async || lines() == "green green\n").await;
    let before = instances(space).await;

    space.cluster.crash_server();
    let cri = Cri::new(&space.cluster.config().cri_socket());
    let command = ["kill", "1"].map(str::to_owned);
    cri.exec(&before[uid], &command, Duration::from_secs(60)).await.unwrap();
    space
        .eventually("restarted without an API server", async || {
            let record = record(space, uid).await;
            let newest = record.container("main").unwrap();
            newest.attempt == 1 && matches!(newest.state, ContainerState::Running { .. })
        })
        .await;
    let meanwhile = instances(space).await;
    space.cluster.crash_agent();
    space.cluster.start_agent(&NO_EVICTION);
    tokio::time::sleep(Duration::from_secs(3)).await;
    assert_eq!(instances(space).await, meanwhile, "an agent without an API server touches nothing");

    let begun = Instant::now();
    space.cluster.restart_server().await;
    let restarted = |pod: &Value| is_ready(pod) && pod["status"]["containerStatuses"][0]["restartCount"] == 1;
    space.until("survivor", "known to have been restarted", restarted).await;
    println!("after the API server's return the node was up to date in {:?}", begun.elapsed());
    assert_eq!(instances(space).await, meanwhile);
    assert_eq!(lines(), "green green\n".repeat(2));
}

/// What cannot be written is told and tried again; nothing half done stays.
async fn full_disk(space: &Space) {
    let before = instances(space).await;
    let ballast = space.cluster.node_dir().join("ballast");
    fill(&ballast);
    space.pod("squeezed", idle()).await;
    let k1 = uid(space, "k1").await;
    space.delete("k1", 1).await;
    space.change("configmaps", "settings", json!({"data": {"colour": "x".repeat(100_000)}})).await;
    let described = async || space.kubectl(&["describe", "pod", "squeezed"]).await;
    // In containerd's words or in the kernel's, whoever notices first.
    let told = async || described().await.to_lowercase().contains("no space left on device");
    space.eventually("told", told).await;
    // The agent dies in the middle of it.
    space.cluster.crash_agent();
    space.cluster.start_agent(&NO_EVICTION);
    tokio::time::sleep(Duration::from_secs(1)).await;
    std::fs::remove_file(ballast).unwrap();

    // A start that failed for want of room counts as one; that nothing runs twice is seen below.
    let pod = space.ready("squeezed").await;
    space.deleted("k1").await;
    let mut expected = before;
    expected.remove(&k1);
    let mut now = instances(space).await;
    assert!(now.remove(pod["metadata"]["uid"].as_str().unwrap()).is_some());
    assert_eq!(now, expected);
    let survivor = space.ready("survivor").await;
    let volumes = space.cluster.config().pods_dir().join(survivor["metadata"]["uid"].as_str().unwrap());
    let settings = volumes.join("volumes/settings");
    let size = || std::fs::metadata(settings.join("colour")).map_or(0, |metadata| metadata.len());
    space.eventually("the file as it is now", async || size() == 100_000).await;
    // The file, the link and what it leads to; what that was before goes a moment later.
    space.eventually("three entries", async || std::fs::read_dir(&settings).unwrap().count() == 3).await;
}

/// Takes every byte that is left.
fn fill(path: &std::path::Path) {
    use std::io::Write;
    let mut file = std::fs::File::create(path).unwrap();
    let mut size = 1 << 20;
    while size > 0 {
        if file.write_all(&vec![0; size]).is_err() {
            size /= 2;
        }
    }
}

async fn everything_goes(space: &Space) {
    space.kubectl(&["delete", "pods", "--all", "--grace-period=1"]).await;
    let config = space.cluster.config();
    let cri = Cri::new(&config.cri_socket());
    space.eventually("no container", async || cri.pod_uids().await.unwrap().is_empty()).await;
    space
        .eventually("no directory", async || std::fs::read_dir(config.pods_dir()).unwrap().count() == 0)
        .await;
    assert_eq!(addresses(&config.cni_dir()), Vec::<String>::new());
    assert_eq!(cgroups_of_pods(&config), Vec::<String>::new());
}
