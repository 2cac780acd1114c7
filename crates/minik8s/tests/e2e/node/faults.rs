//! kill -9 of the server with its agent, and of containerd: no pod stops, starts twice or is lost.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use minik8s_kubelet::cri::{Cri, Runtime};
use serde_json::{Value, json};

use super::space::{IDLE, Space, idle, shell};
use crate::harness::cluster::{Cluster, NODE};

const PODS: usize = 6;

pub async fn killed_processes(cluster: Arc<Cluster>) {
    let space = Space::new(cluster.clone(), "faults").await;
    let restarts = killed_while_starting(&space).await;
    let before = instances(&space).await;
    assert_eq!(before.len(), PODS);
    killed_while_idle(&space, &before).await;
    containerd_killed(&space, &before, &restarts).await;
    killed_while_ending(&space).await;
    assert_eq!(instances(&space).await, BTreeMap::new(), "containers of deleted pods");
    let pods = cluster.config().pods_dir();
    space.eventually("clean", async || std::fs::read_dir(&pods).unwrap().count() == 0).await;
}

/// The server dies several times at random moments of starting pods; each starts exactly once. A start that was cut off
/// inside containerd counts as one that failed (see `outages`). Returns how many of each pod there were.
async fn killed_while_starting(space: &Space) -> Vec<u64> {
    let mount = json!([{"name": "v", "mountPath": "/v"}]);
    for n in 0..PODS {
        let mut main = shell("main", &format!("echo start >> /v/starts; {IDLE}"));
        main["volumeMounts"] = mount.clone();
        space
            .pod(&format!("p{n}"), json!({"containers": [main], "volumes": [{"name": "v", "emptyDir": {}}]}))
            .await;
    }
    for pause in [60, 250, 500] {
        tokio::time::sleep(Duration::from_millis(pause)).await;
        space.cluster.crash_server();
        space.cluster.restart_server().await;
    }
    let mut all = Vec::new();
    for n in 0..PODS {
        let name = format!("p{n}");
        let pod = space.ready(&name).await;
        let dir = space.cluster.config().pods_dir().join(pod["metadata"]["uid"].as_str().unwrap());
        let starts = || std::fs::read_to_string(dir.join("volumes/v/starts")).unwrap_or_default();
        // A container runs a moment before its first command.
        space.eventually("a start", async || !starts().is_empty()).await;
        let (times, restarts) = (starts().matches("start\n").count() as u64, restarts(&pod));
        assert!((1..=1 + restarts).contains(&times), "{name} started {times} times: {:#}", pod["status"]);
        all.push(restarts);
    }
    all
}

fn restarts(pod: &Value) -> u64 {
    pod["status"]["containerStatuses"][0]["restartCount"].as_u64().unwrap()
}

async fn killed_while_idle(space: &Space, before: &BTreeMap<String, String>) {
    space.cluster.crash_server();
    assert_eq!(&instances(space).await, before, "without minik8s");
    space.cluster.restart_server().await;
    space.pod("later", idle()).await;
    space.ready("later").await;
    space.delete("later", 1).await;
    space.deleted("later").await;
    assert_eq!(&instances(space).await, before, "with a new minik8s");
}

async fn containerd_killed(space: &Space, before: &BTreeMap<String, String>, former: &[u64]) {
    let pid_file = space.cluster.config().containerd_dir().join("pid");
    let pid =
        || std::fs::read_to_string(&pid_file).unwrap().split(' ').next().unwrap().parse::<i32>().unwrap();
    let old = pid();
    nix::sys::signal::kill(nix::unistd::Pid::from_raw(old), nix::sys::signal::Signal::SIGKILL).unwrap();
    // A pod that comes at the worst moment waits until containerd is back.
    space.pod("meanwhile", idle()).await;
    space.ready("meanwhile").await;
    assert_ne!(pid(), old);
    space.delete("meanwhile", 1).await;
    space.deleted("meanwhile").await;
    assert_eq!(&instances(space).await, before);
    for (n, former) in former.iter().enumerate() {
        let pod = space.ready(&format!("p{n}")).await;
        assert_eq!(restarts(&pod), *former, "{:#}", pod["status"]);
    }
}

/// Half of the pods are being deleted when the server dies; the others leave with `kubectl drain`.
async fn killed_while_ending(space: &Space) {
    for n in 0..PODS / 2 {
        space.delete(&format!("p{n}"), 5).await;
    }
    tokio::time::sleep(Duration::from_millis(150)).await;
    space.cluster.crash_server();
    space.cluster.restart_server().await;
    space.kubectl(&["drain", NODE, "--force", "--delete-emptydir-data", "--grace-period=5"]).await;
    for n in 0..PODS {
        space.until(&format!("p{n}"), "deleted", Value::is_null).await;
    }
}

/// The containers that run, by the pods they belong to. Two of one pod are a failure.
pub async fn instances(space: &Space) -> BTreeMap<String, String> {
    let rows = Cri::new(&space.cluster.config().cri_socket()).container_rows().await.unwrap();
    let mut found = BTreeMap::new();
    for row in rows.into_iter().filter(|row| row.running) {
        let other = found.insert(row.pod_uid.clone(), row.id);
        assert_eq!(other, None, "two containers of pod {}", row.pod_uid);
    }
    found
}
