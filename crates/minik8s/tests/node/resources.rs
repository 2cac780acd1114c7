//! Requests and limits, as the kernel enforces them.

use std::path::PathBuf;

use serde_json::{Value, json};

use crate::space::{IDLE, Space, condition, once, shell, state};

/// The value of a limit of a pod or of its container, on hosts with either version of cgroups.
fn limit(space: &Space, pod: &Value, of_container: bool, v1: (&str, &str), v2: &str) -> String {
    let uid = pod["metadata"]["uid"].as_str().unwrap();
    let id =
        pod["status"]["containerStatuses"][0]["containerID"].as_str().unwrap().rsplit('/').next().unwrap();
    let (root, file) = match PathBuf::from("/sys/fs/cgroup").join(v1.0).exists() {
        true => (PathBuf::from("/sys/fs/cgroup").join(v1.0), v1.1),
        false => (PathBuf::from("/sys/fs/cgroup"), v2),
    };
    let class = match pod["status"]["qosClass"].as_str().unwrap() {
        "Guaranteed" => "",
        "Burstable" => "burstable",
        _ => "besteffort",
    };
    let root = root.join(&space.cluster.config().cgroup_root()[1..]).join(class).join(format!("pod{uid}"));
    let path = if of_container { root.join(id) } else { root }.join(file);
    std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display())).trim().to_owned()
}

pub async fn limits_in_cgroups(space: Space) {
    let mut main = shell("main", IDLE);
    main["resources"] =
        json!({"requests": {"cpu": "250m", "memory": "16Mi"}, "limits": {"cpu": "500m", "memory": "32Mi"}});
    let mut guaranteed = main.clone();
    guaranteed["resources"]["requests"] = guaranteed["resources"]["limits"].clone();
    space.pod("burstable", json!({"containers": [main]})).await;
    space.pod("guaranteed", json!({"containers": [guaranteed]})).await;
    for (name, shares, weight) in [("burstable", "256", "10"), ("guaranteed", "512", "20")] {
        let pod = space.ready(name).await;
        assert_eq!(pod["status"]["qosClass"].as_str().unwrap().to_lowercase(), name);
        let check = |v1: (&str, &str), v2: &str, want: [&str; 2]| {
            for of_container in [false, true] {
                let found = limit(&space, &pod, of_container, v1, v2);
                assert!(want.contains(&found.as_str()), "{name} {} is {found}, not {want:?}", v1.1);
            }
        };
        check(("memory", "memory.limit_in_bytes"), "memory.max", ["33554432", "33554432"]);
        check(("cpu", "cpu.cfs_quota_us"), "cpu.max", ["50000", "50000 100000"]);
        check(("cpu", "cpu.shares"), "cpu.weight", [shares, weight]);
    }
}

pub async fn out_of_memory(space: Space) {
    let mut spec = once("exec dd if=/dev/zero of=/dev/null bs=64M count=1");
    spec["containers"][0]["resources"] = json!({"limits": {"memory": "16Mi"}});
    space.pod("greedy", spec).await;
    let pod = space.phase("greedy", "Failed").await;
    assert_eq!(state(&pod)["terminated"]["reason"], "OOMKilled", "{:#}", pod["status"]);
    assert_eq!(state(&pod)["terminated"]["exitCode"], 137);
    assert!(space.kubectl(&["get", "pod", "greedy"]).await.contains("OOMKilled"));
}

/// Files in memory count, and an emptyDir on disk that outgrows its limit costs the pod its place.
pub async fn too_many_files_in_memory(space: Space) {
    let mut spec = once("dd if=/dev/zero of=/mem/file bs=1M count=8; stat -c %s /mem/file");
    spec["containers"][0]["volumeMounts"] = json!([{"name": "mem", "mountPath": "/mem"}]);
    spec["volumes"] = json!([{"name": "mem", "emptyDir": {"medium": "Memory", "sizeLimit": "4Mi"}}]);
    let log = space.output("full", spec).await;
    assert!(log.contains("No space left on device") && log.ends_with("4194304\n"), "{log}");

    let mut spec = json!({"containers": [shell("main", &format!("dd if=/dev/zero of=/disk/file bs=1M count=8; {IDLE}"))]});
    spec["containers"][0]["volumeMounts"] = json!([{"name": "disk", "mountPath": "/disk"}]);
    spec["volumes"] = json!([{"name": "disk", "emptyDir": {"sizeLimit": "4Mi"}}]);
    space.pod("outgrown", spec).await;
    let pod = space.phase("outgrown", "Failed").await;
    assert_eq!(pod["status"]["reason"], "Evicted", "{:#}", pod["status"]);
}

/// Resources of a running container change without a restart, or with one where it asks for that.
pub async fn resize_in_place(space: Space) {
    let mut main = shell("main", IDLE);
    let resources = |cpu: &str, memory: &str| json!({"requests": {"cpu": cpu, "memory": memory}, "limits": {"cpu": cpu, "memory": memory}});
    main["resources"] = resources("100m", "16Mi");
    let mut restarts = main.clone();
    restarts["resizePolicy"] = json!([{"resourceName": "cpu", "restartPolicy": "RestartContainer"}]);
    space.pod("stays", json!({"containers": [main]})).await;
    space.pod("restarts", json!({"containers": [restarts]})).await;
    let before = space.ready("stays").await;
    let status = |pod: &Value| pod["status"]["containerStatuses"][0].clone();
    assert_eq!(status(&before)["resources"]["limits"]["memory"], "16Mi");
    let resize = async |name: &str, cpu: &str, memory: &str| {
        let patch = json!({"spec": {"containers": [{"name": "main", "resources": resources(cpu, memory)}]}})
            .to_string();
        space.kubectl(&["patch", "pod", name, "--subresource=resize", "-p", &patch]).await;
    };
    resize("stays", "200m", "32Mi").await;
    let grown = |pod: &Value| status(pod)["resources"]["limits"] == json!({"cpu": "200m", "memory": "32Mi"});
    let pod = space.until("stays", "grown", grown).await;
    assert_eq!(status(&pod)["allocatedResources"], json!({"cpu": "200m", "memory": "32Mi"}));
    assert_eq!(status(&pod)["containerID"], status(&before)["containerID"]);
    assert_eq!(status(&pod)["restartCount"], 0);
    assert_eq!(pod["status"]["observedGeneration"], pod["metadata"]["generation"]);
    for of_container in [false, true] {
        assert_eq!(
            limit(&space, &pod, of_container, ("memory", "memory.limit_in_bytes"), "memory.max"),
            "33554432"
        );
        let quota = limit(&space, &pod, of_container, ("cpu", "cpu.cfs_quota_us"), "cpu.max");
        assert!(["20000", "20000 100000"].contains(&quota.as_str()), "{quota}");
    }
    resize("stays", "100m", "24Mi").await;
    let shrunk = |pod: &Value| status(pod)["resources"]["limits"]["memory"] == "24Mi";
    let pod = space.until("stays", "shrunk", shrunk).await;
    assert_eq!(limit(&space, &pod, true, ("memory", "memory.limit_in_bytes"), "memory.max"), "25165824");
    assert_eq!(status(&pod)["restartCount"], 0);
    resize("stays", "1000", "24Mi").await;
    let refused = |pod: &Value| condition(pod, "PodResizePending")["reason"] == "Infeasible";
    let pod = space.until("stays", "refused", refused).await;
    assert_eq!(status(&pod)["resources"]["limits"]["cpu"], "100m");
    resize("stays", "100m", "24Mi").await;
    space.until("stays", "content", |pod| condition(pod, "PodResizePending").is_null()).await;

    space.ready("restarts").await;
    resize("restarts", "150m", "16Mi").await;
    let restarted =
        |pod: &Value| status(pod)["restartCount"] == 1 && status(pod)["resources"]["limits"]["cpu"] == "150m";
    space.until("restarts", "restarted", restarted).await;
}
