//! Who a container runs as, and what it may do.

use serde_json::json;

use super::space::{Space, once, state};

pub async fn users_and_groups(space: Space) {
    let mut spec = once("id -u; id -g; id -G; stat -c '%g %a' /v; touch /v/f; stat -c '%u %g' /v/f");
    spec["securityContext"] =
        json!({"runAsUser": 1001, "runAsGroup": 1002, "fsGroup": 1003, "supplementalGroups": [1004]});
    spec["containers"][0]["volumeMounts"] = json!([{"name": "v", "mountPath": "/v"}]);
    spec["volumes"] = json!([{"name": "v", "emptyDir": {}}]);
    let log = space.output("pod", spec.clone()).await;
    let lines: Vec<_> = log.lines().collect();
    assert_eq!(lines[..2], ["1001", "1002"]);
    let mut groups: Vec<_> = lines[2].split(' ').collect();
    groups.sort_unstable();
    assert_eq!(groups, ["1002", "1003", "1004"]);
    assert_eq!(lines[3..], ["1003 2777", "1001 1003"]);

    // A container's own word counts more than its pod's.
    spec["containers"][0]["securityContext"] = json!({"runAsUser": 1000});
    spec["containers"][0]["command"] = json!(["sh", "-c", "id -u; id -G"]);
    let log = space.output("container", spec.clone()).await;
    assert!(log.starts_with("1000\n"), "{log}");
    // User 1000 of the image is in a group of the image too.
    assert!(log.contains("2000"), "{log}");
    spec["containers"][0]["securityContext"] = json!({"runAsUser": 65534, "runAsGroup": 2002});
    spec["containers"][0]["command"] = json!(["sh", "-c", "id -u; id -g"]);
    assert_eq!(space.output("nobody", spec).await, "65534\n2002\n");
}

/// With the strict policy the image's groups do not count, neither for the container nor for what is run in it.
pub async fn strict_groups(space: Space) {
    let spec = |policy: &str| {
        let mut spec = once("id -G; trap 'exit 0' TERM; sleep 1000 & wait");
        spec["securityContext"] = json!({"runAsUser": 1000, "runAsGroup": 1000, "fsGroup": 1003,
            "supplementalGroups": [1004], "supplementalGroupsPolicy": policy});
        spec
    };
    for (policy, want) in [("Merge", "1000 1003 1004 2000"), ("Strict", "1000 1003 1004")] {
        let name = policy.to_lowercase();
        space.pod(&name, spec(policy)).await;
        space.ready(&name).await;
        let sorted = |text: String| {
            let mut groups: Vec<_> = text.split_whitespace().map(str::to_owned).collect();
            groups.sort_unstable();
            groups.join(" ")
        };
        space.eventually("a log", async || !space.kubectl(&["logs", &name]).await.is_empty()).await;
        assert_eq!(sorted(space.kubectl(&["logs", &name]).await), want, "{policy}");
        assert_eq!(sorted(space.kubectl(&["exec", &name, "--", "id", "-G"]).await), want, "{policy}");
    }
    let node = space.get(&format!("/api/v1/nodes/{}", crate::harness::cluster::NODE)).await.unwrap();
    assert_eq!(node["status"]["features"]["supplementalGroupsPolicy"], true);
}

pub async fn privileges(space: Space) {
    let status = "grep -E 'CapEff|NoNewPrivs|Seccomp:' /proc/self/status; touch /file && echo wrote; mount -t tmpfs none /tmp && echo mounted";
    let output = async |name: &str, context: serde_json::Value| {
        let mut spec = once(&format!("{{ {status}; }} 2>/dev/null; true"));
        spec["containers"][0]["securityContext"] = context;
        space.output(name, spec).await
    };
    let field = |log: &str, name: &str| {
        let line = log.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':').map(str::trim));
        u64::from_str_radix(line.unwrap_or_else(|| panic!("{name} in {log}")), 16).unwrap()
    };
    let (net_admin, chown) = (1 << 12, 1 << 0);
    let plain = output("plain", json!({})).await;
    assert!(plain.contains("wrote") && !plain.contains("mounted"), "{plain}");
    assert_eq!(field(&plain, "CapEff") & (net_admin | chown), chown);
    assert_eq!((field(&plain, "NoNewPrivs"), field(&plain, "Seccomp")), (0, 0));

    let changed = json!({
        "capabilities": {"add": ["NET_ADMIN"], "drop": ["CHOWN"]},
        "readOnlyRootFilesystem": true,
        "allowPrivilegeEscalation": false,
        "seccompProfile": {"type": "RuntimeDefault"},
    });
    let log = output("changed", changed).await;
    assert!(!log.contains("wrote"), "{log}");
    assert_eq!(field(&log, "CapEff") & (net_admin | chown), net_admin);
    assert_eq!((field(&log, "NoNewPrivs"), field(&log, "Seccomp")), (1, 2));
    let log = output("none", json!({"capabilities": {"drop": ["ALL"]}})).await;
    assert_eq!(field(&log, "CapEff"), 0);
    let log = output("privileged", json!({"privileged": true})).await;
    assert!(log.contains("mounted"), "{log}");
}

pub async fn root_is_refused(space: Space) {
    let mut spec = once("true");
    spec["securityContext"] = json!({"runAsNonRoot": true});
    space.pod("root", spec.clone()).await;
    spec["securityContext"]["runAsUser"] = 1000.into();
    spec["containers"][0]["command"] = json!(["id", "-u"]);
    assert_eq!(space.output("user", spec).await, "1000\n");
    let pod = space.waiting("root", "CreateContainerConfigError").await;
    let message = state(&pod)["waiting"]["message"].as_str().unwrap();
    assert!(message.contains("container has runAsNonRoot and image will run as root"), "{message}");
}

pub async fn sysctls(space: Space) {
    let mut spec = once("cat /proc/sys/kernel/shm_rmid_forced /proc/sys/net/ipv4/ip_unprivileged_port_start");
    spec["securityContext"] = json!({"sysctls": [{"name": "kernel.shm_rmid_forced", "value": "1"}, {"name": "net.ipv4.ip_unprivileged_port_start", "value": "80"}]});
    assert_eq!(space.output("pod", spec.clone()).await, "1\n80\n");
    // Names that cannot be are refused at once; those that would reach beyond the pod, by the node.
    let set = |name: &str| json!({"name": name, "value": "1"});
    spec["securityContext"]["sysctls"] = json!([set("kernel.shm_rmid_forced"), set("foo-"), set("bar..")]);
    let invalid = json!({"metadata": {"name": "invalid"}, "spec": spec.clone()});
    let refused =
        space.send(http::Method::POST, &space.path("pods", ""), invalid).await.unwrap_err().to_string();
    assert!(refused.contains("sysctls[1].name") && refused.contains("sysctls[2].name"), "{refused}");
    spec["securityContext"]["sysctls"] = json!([set("kernel.shm_rmid_forced"), set("kernel.msgmax")]);
    space.pod("unsafe", spec).await;
    let pod = space.phase("unsafe", "Failed").await;
    assert_eq!(pod["status"]["reason"], "SysctlForbidden", "{:#}", pod["status"]);
    assert_eq!(
        pod["status"]["message"],
        "Pod was rejected: forbidden sysctl: \"kernel.msgmax\" not allowlisted"
    );
}

/// A profile that the administrator put on the node is obeyed; no other file of it is taken for one.
pub async fn seccomp_profiles(space: Space) {
    let profiles = space.cluster.config().seccomp_dir();
    std::fs::create_dir_all(profiles.join("team")).unwrap();
    let profile = json!({"defaultAction": "SCMP_ACT_ALLOW",
        "syscalls": [{"names": ["mkdir", "mkdirat"], "action": "SCMP_ACT_ERRNO"}]});
    std::fs::write(profiles.join("team/no-mkdir.json"), profile.to_string()).unwrap();
    let spec = |name: &str| {
        let mut spec = once("mkdir /made 2>/dev/null && echo made || echo refused");
        spec["securityContext"] = json!({"seccompProfile": {"type": "Localhost", "localhostProfile": name}});
        spec
    };
    assert_eq!(space.output("confined", spec("team/no-mkdir.json")).await, "refused\n");
    let elsewhere = profiles.join("team/no-mkdir.json");
    let elsewhere = elsewhere.to_str().unwrap().trim_start_matches('/').to_owned();
    space.pod("elsewhere", spec(&elsewhere)).await;
    space.event("elsewhere", "FailedCreatePodSandBox", &format!("seccomp/{elsewhere}")).await;
}

/// What the node cannot give is never left out.
pub async fn unsupported_security(space: Space) {
    let refused = async |name: &str, spec: serde_json::Value, reason: &str, message: &str| {
        space.pod(name, spec).await;
        let pod = space.phase(name, "Failed").await;
        assert_eq!(pod["status"]["reason"], reason, "{:#}", pod["status"]);
        assert_eq!(pod["status"]["message"], format!("Pod was rejected: {message}"));
    };
    let mut windows = once("true");
    windows["os"] = json!({"name": "windows"});
    let message = "Failed to admit pod as the OS field doesn't match node OS";
    refused("windows", windows, "PodOSNotSupported", message).await;

    let mut own_users = once("true");
    own_users["hostUsers"] = false.into();
    space.pod("own-users", own_users).await;
    let message = "can't set `spec.hostUsers: false`, runtime does not support user namespaces";
    space.event("own-users", "FailedCreatePodSandBox", message).await;
    let pod = space.get(&space.path("pods", "own-users")).await.unwrap();
    assert_eq!(pod["status"]["phase"], "Pending");

    let mut deep = once("true");
    deep["volumes"] = json!([{"name": "v", "emptyDir": {}}]);
    let mount =
        |mode: &str| json!([{"name": "v", "mountPath": "/v", "readOnly": true, "recursiveReadOnly": mode}]);
    deep["containers"][0]["volumeMounts"] = mount("Enabled");
    space.pod("deep", deep.clone()).await;
    let pod = space.waiting("deep", "CreateContainerConfigError").await;
    let message = state(&pod)["waiting"]["message"].as_str().unwrap();
    let want = "volume \"v\" requested recursive read-only mode, but it is not supported by the runtime";
    assert!(message.contains(want), "{message}");
    deep["containers"][0]["volumeMounts"] = mount("IfPossible");
    deep["containers"][0]["command"] =
        json!(["sh", "-c", "touch /v/f 2>/dev/null && echo wrote || echo read-only"]);
    assert_eq!(space.output("if-possible", deep).await, "read-only\n");

    // Whether the kernel has AppArmor is the machine's business: with it the pod is confined, without it not run.
    let profile = |kind: &str| {
        let mut pod = once("cat /proc/self/attr/current 2>/dev/null || echo unconfined");
        pod["securityContext"] = json!({"appArmorProfile": {"type": kind}});
        pod
    };
    if std::path::Path::new("/sys/kernel/security/apparmor").exists() {
        let confined = space.output("confined", profile("RuntimeDefault")).await;
        assert!(confined.contains("(enforce)"), "{confined}");
    } else {
        let message = "Cannot enforce AppArmor: AppArmor is not enabled on the host";
        refused("confined", profile("RuntimeDefault"), "AppArmor", message).await;
    }
    let unconfined = space.output("unconfined", profile("Unconfined")).await;
    assert_eq!(unconfined.trim(), "unconfined");
}
