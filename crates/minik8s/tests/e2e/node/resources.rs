//! Requests and limits, as the kernel enforces them.

use std::path::PathBuf;

use serde_json::{Value, json};

use super::space::{IDLE, Space, condition, once, shell, state};

/// The value of a limit of a pod or of its container, on hosts with either version of cgroups.
pub fn limit(space: &Space, pod: &Value, of_container: bool, v1: (&str, &str), v2: &str) -> String {
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
    // containerd may tell of the end before it has heard that memory was short.
    let explained = |pod: &Value| state(pod)["terminated"]["reason"] == "OOMKilled";
    let pod = space.until("greedy", "ended for want of memory", explained).await;
    assert_eq!(pod["status"]["phase"], "Failed", "{:#}", pod["status"]);
    assert_eq!(state(&pod)["terminated"]["exitCode"], 137);
    assert!(space.kubectl(&["get", "pod", "greedy"]).await.contains("OOMKilled"));
}

/// Files in memory count, and an emptyDir on disk that outgrows its limit costs the pod its place.
pub async fn too_many_files_in_memory(space: Space) {
    let mut spec = once("dd if=/dev/zero of=/mem/file bs=1M count=8; stat -c %s /mem/file");
    spec["containers"][0]["volumeMounts"] = json!([{"name": "mem", "mountPath": "/mem"}]);
    spec["volumes"] = json!([{"name": "mem", "emptyDir": {"medium": "Memory", "sizeLimit": "4Mi"}}]);
    let log = space.output("full", spec).await;
    assert!(log.contains("No space left on device") && log.lines().any(|line| line == "4194304"), "{log}");

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

/// Containers of a pod grow and shrink at once, each as its spec says.
pub async fn resize_of_many_containers(space: Space) {
    type Amounts = (&'static str, &'static str);
    let resources = |requests: Amounts, limits: Amounts| {
        let list = |(cpu, memory): Amounts| {
            let all = [("cpu", cpu), ("memory", memory)].into_iter().filter(|(_, amount)| !amount.is_empty());
            all.map(|(name, amount)| (name.to_owned(), amount.into())).collect::<serde_json::Map<_, Value>>()
        };
        let lists = [("requests", list(requests)), ("limits", list(limits))];
        let lists = lists.into_iter().filter(|(_, list)| !list.is_empty());
        lists.map(|(name, list)| (name.to_owned(), Value::Object(list))).collect::<serde_json::Map<_, _>>()
    };
    let exact = |amounts: Amounts| resources(amounts, amounts);
    let containers = |all: &[serde_json::Map<String, Value>]| -> Value {
        let all = all.iter().enumerate();
        all.map(|(n, resources)| {
            let mut container = shell(&format!("c{n}"), IDLE);
            container["resources"] = Value::Object(resources.clone());
            container
        })
        .collect()
    };
    let as_wanted = |pod: &Value| {
        let statuses = pod["status"]["containerStatuses"].as_array().cloned().unwrap_or_default();
        let containers = pod["spec"]["containers"].as_array().unwrap();
        statuses.len() == containers.len()
            && statuses.iter().zip(containers).all(|(status, container)| {
                status["ready"] == true
                    && status["restartCount"] == 0
                    && status["resources"] == container["resources"]
                    && condition(pod, "PodResizeInProgress").is_null()
                    && condition(pod, "PodResizePending").is_null()
            })
    };
    let resize = async |name: &str, all: &[serde_json::Map<String, Value>]| {
        let wanted: Vec<_> = all
            .iter()
            .enumerate()
            .map(|(n, resources)| json!({"name": format!("c{n}"), "resources": resources}))
            .collect();
        let patch = json!({"spec": {"containers": wanted}}).to_string();
        space.kubectl(&["patch", "pod", name, "--subresource=resize", "-p", &patch]).await;
        let pod = space.until(name, "resized", |pod| {
            let as_asked = pod["spec"]["containers"].as_array().unwrap().iter().zip(all);
            as_asked
                .into_iter()
                .all(|(container, want)| container["resources"] == Value::Object(want.clone()))
                && as_wanted(pod)
        });
        pod.await
    };
    let three = |a: Amounts, b: Amounts, c: Amounts| [exact(a), exact(b), exact(c)];
    let start = three(("10m", "16Mi"), ("10m", "16Mi"), ("10m", "16Mi"));
    space.pod("guaranteed", json!({"containers": containers(&start)})).await;
    let six = [
        resources(("10m", "16Mi"), ("20m", "32Mi")),
        resources(("10m", ""), ("20m", "")),
        resources(("", "16Mi"), ("", "32Mi")),
        resources(("10m", "16Mi"), ("", "")),
        resources(("10m", ""), ("", "")),
        resources(("2m", "16Mi"), ("10m", "32Mi")),
    ];
    space.pod("burstable", json!({"containers": containers(&six)})).await;
    let pod = space.until("guaranteed", "up", as_wanted).await;
    assert_eq!(pod["status"]["qosClass"], "Guaranteed");
    // A net increase, a net decrease, and some of both.
    resize("guaranteed", &three(("20m", "32Mi"), ("15m", "16Mi"), ("5m", "24Mi"))).await;
    resize("guaranteed", &three(("10m", "24Mi"), ("10m", "16Mi"), ("5m", "16Mi"))).await;
    let pod = resize("guaranteed", &three(("15m", "24Mi"), ("5m", "24Mi"), ("5m", "16Mi"))).await;
    let memory = limit(&space, &pod, false, ("memory", "memory.limit_in_bytes"), "memory.max");
    assert_eq!(memory, (64_u64 << 20).to_string(), "of the whole pod");
    space.until("burstable", "up", as_wanted).await;
    resize(
        "burstable",
        &[
            resources(("20m", "24Mi"), ("30m", "48Mi")),
            resources(("5m", ""), ("30m", "")),
            resources(("", "24Mi"), ("", "24Mi")),
            resources(("5m", "24Mi"), ("", "")),
            resources(("20m", ""), ("", "")),
            // The kernel sees no difference between the requests; the status does.
            resources(("1m", "16Mi"), ("5m", "32Mi")),
        ],
    )
    .await;

    // What is read from the subresource is the pod, and can be written back there.
    let path = space.path("pods", "guaranteed");
    let through = format!("{path}/resize");
    space
        .eventually("replaced", async || {
            let mut pod = space.get(&through).await.unwrap();
            pod["spec"]["containers"][0]["resources"] = Value::Object(exact(("10m", "16Mi")));
            space.send(http::Method::PUT, &through, pod).await.is_ok()
        })
        .await;
    let done = |pod: &Value| {
        pod["spec"]["containers"][0]["resources"]["limits"]["memory"] == "16Mi" && as_wanted(pod)
    };
    space.until("guaranteed", "resized by a replacement", done).await;
    // A probe or a report may fall between the two.
    space
        .eventually("the same from both", async || space.get(&path).await == space.get(&through).await)
        .await;
}
