//! The whole agent with a real containerd and an API server in memory.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod support;

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use support::fake_api::FakeApi;
use support::{BUSYBOX, on_a_node};

/// Generous: the machine may be busy with other tests.
const TIMEOUT: Duration = Duration::from_secs(120);
const EVENTS: &str = "/api/v1/namespaces/default/events/";

/// An agent at work, and the API server it works for.
struct Cluster {
    api: FakeApi,
    agent: tokio::task::JoinHandle<()>,
}

impl Drop for Cluster {
    fn drop(&mut self) {
        self.agent.abort();
    }
}

fn with_agent<F>(test: impl FnOnce(Cluster, support::Node) -> F + Send + 'static)
where
    F: Future<Output = ()> + Send + 'static,
{
    on_a_node(|node| async move {
        let api = FakeApi::new();
        let agent = start_agent(&node, &api);
        test(Cluster { api, agent }, node).await;
    });
}

fn start_agent(node: &support::Node, api: &FakeApi) -> tokio::task::JoinHandle<()> {
    let (config, client) = (node.config.clone(), api.client());
    tokio::spawn(async move { minik8s_kubelet::run(config, support::access(client)).await.unwrap() })
}

impl Cluster {
    /// Binds a pod to the node and returns its path.
    fn pod(&self, name: &str, mut spec: Value) -> String {
        for list in ["containers", "initContainers"] {
            for container in spec[list].as_array_mut().into_iter().flatten() {
                if container["image"].is_null() {
                    container["image"] = BUSYBOX.into();
                }
            }
        }
        spec["nodeName"] = "test-node".into();
        let path = format!("/api/v1/namespaces/default/pods/{name}");
        let metadata = json!({"name": name, "namespace": "default", "uid": uuid::Uuid::new_v4().to_string()});
        self.api.put(&path, json!({"metadata": metadata, "spec": spec}));
        path
    }

    async fn until(&self, path: &str, what: &str, seen: impl Fn(&Value) -> bool) -> Value {
        let deadline = Instant::now() + TIMEOUT;
        loop {
            let object = self.api.get(path).unwrap_or_default();
            if seen(&object) {
                return object;
            }
            assert!(Instant::now() < deadline, "{path} never {what}: {object:#}");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    async fn phase(&self, path: &str, phase: &str) -> Value {
        self.until(path, phase, |pod| pod["status"]["phase"] == phase).await
    }

    async fn waiting(&self, path: &str, reason: &str) -> Value {
        self.until(path, reason, |pod| state(pod)["waiting"]["reason"] == reason).await
    }

    /// Events are told beside all else, and may come a moment after what they are about.
    async fn event(&self, what: &str, seen: impl Fn(&Value) -> bool) {
        let deadline = Instant::now() + TIMEOUT;
        while !self.api.list(EVENTS).iter().any(&seen) {
            assert!(Instant::now() < deadline, "no event {what}: {:#?}", self.api.list(EVENTS));
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    async fn warning(&self, reason: &str) {
        self.event(reason, |event| event["reason"] == reason && event["type"] == "Warning").await;
    }
}

fn state(pod: &Value) -> &Value {
    &pod["status"]["containerStatuses"][0]["state"]
}

/// Ends when told to.
const IDLE: &str = "trap 'exit 0' TERM; sleep 1000 & wait";

fn shell(name: &str, script: &str) -> Value {
    json!({"name": name, "command": ["sh", "-c", script]})
}

fn condition<'a>(object: &'a Value, kind: &str) -> &'a Value {
    let conditions = object["status"]["conditions"].as_array().unwrap();
    &conditions.iter().find(|c| c["type"] == kind).unwrap()["status"]
}

#[test]
fn a_pod_runs_and_is_deleted() {
    with_agent(|cluster, node| async move {
        let node_path = "/api/v1/nodes/test-node";
        let is_ready =
            |node: &Value| node["status"]["conditions"].is_array() && condition(node, "Ready") == "True";
        let registered = cluster.until(node_path, "ready", is_ready).await;
        assert_ne!(registered["status"]["capacity"]["memory"], Value::Null);

        let script = "trap 'exit 0' TERM; while :; do sleep 0.1; done";
        let path = cluster.pod("web", json!({"containers": [shell("main", script)]}));
        let pod = cluster.phase(&path, "Running").await;
        assert_eq!(condition(&pod, "Ready"), "True", "{pod:#}");
        assert_ne!(pod["status"]["podIP"], Value::Null);
        assert_eq!(pod["status"]["hostIP"], "127.0.0.1");
        assert_eq!(pod["status"]["qosClass"], "BestEffort");
        assert!(state(&pod)["running"]["startedAt"].is_string());

        cluster.api.delete_gracefully(&path, 10);
        cluster.until(&path, "deleted", Value::is_null).await;
        let logs: Vec<_> = std::fs::read_dir(node.config.logs_dir()).unwrap().collect();
        assert!(logs.is_empty(), "{logs:?}");
        for reason in ["Pulled", "Created", "Started", "Killing"] {
            cluster.event(reason, |event| event["reason"] == reason).await;
        }
    });
}

/// The runtime may be somebody else's: here a containerd that the agent did not start.
#[test]
fn a_runtime_of_somebody_else() {
    on_a_node(|node| async move {
        let dir = tempfile::Builder::new().prefix("mk8s-other-").tempdir().unwrap();
        let mut config = minik8s_kubelet::Config::new("test-node", dir.path(), node.config.node_ip);
        config.cri_endpoint = Some(node.config.containerd_socket());
        let api = FakeApi::new();
        let (run_config, client) = (config.clone(), api.client());
        let agent =
            tokio::spawn(
                async move { minik8s_kubelet::run(run_config, support::access(client)).await.unwrap() },
            );
        let cluster = Cluster { api, agent };
        let path = cluster.pod("web", json!({"containers": [shell("main", IDLE)]}));
        cluster.phase(&path, "Running").await;
        assert!(!config.containerd_dir().join("config.toml").exists(), "no containerd of its own");
        cluster.api.delete_gracefully(&path, 5);
        cluster.until(&path, "deleted", Value::is_null).await;
        drop(cluster);
        minik8s_kubelet::tear_down(&config).await.unwrap();
    });
}

#[test]
fn pods_that_end_say_how() {
    with_agent(|cluster, _node| async move {
        let never = |script: &str| json!({"restartPolicy": "Never", "containers": [shell("main", script)]});
        let good = cluster.pod("good", never("exit 0"));
        let bad = cluster.pod("bad", never("exit 3"));
        let pod = cluster.phase(&good, "Succeeded").await;
        assert_eq!(state(&pod)["terminated"]["reason"], "Completed");
        let pod = cluster.phase(&bad, "Failed").await;
        assert_eq!(state(&pod)["terminated"]["exitCode"], 3);
        assert_eq!(state(&pod)["terminated"]["reason"], "Error");
    });
}

#[test]
fn a_crashing_container_backs_off() {
    with_agent(|cluster, _node| async move {
        let path = cluster.pod("crash", json!({"containers": [shell("main", "exit 1")]}));
        let pod = cluster.waiting(&path, "CrashLoopBackOff").await;
        let status = &pod["status"]["containerStatuses"][0];
        assert_eq!(status["restartCount"], 1);
        assert_eq!(status["lastState"]["terminated"]["exitCode"], 1);
        assert_eq!(pod["status"]["phase"], "Running");
        let message = status["state"]["waiting"]["message"].as_str().unwrap();
        assert!(
            message.starts_with("back-off 10s restarting failed container=main pod=crash_default("),
            "{message}"
        );
    });
}

#[test]
fn what_cannot_start_says_why() {
    with_agent(|cluster, _node| async move {
        let image = |image: &str, policy: &str| json!({"containers": [{"name": "main", "image": image, "imagePullPolicy": policy}]});
        let absent = cluster.pod("absent", image("localhost:1/nothing:1", "IfNotPresent"));
        let never = cluster.pod("never", image("minik8s.io/nothing:1", "Never"));
        let invalid = cluster.pod("invalid", image("Not A Name", "IfNotPresent"));
        let command =
            cluster.pod("command", json!({"containers": [{"name": "main", "command": ["/not/there"]}]}));
        let variable =
            json!([{"name": "V", "valueFrom": {"configMapKeyRef": {"name": "later", "key": "k"}}}]);
        let mut needs = shell("main", "test $V = v; sleep 1000");
        needs["env"] = variable;
        let late = cluster.pod("late", json!({"containers": [needs]}));

        cluster.waiting(&never, "ErrImageNeverPull").await;
        cluster.waiting(&invalid, "InvalidImageName").await;
        cluster.waiting(&absent, "ImagePullBackOff").await;
        let pod = cluster.waiting(&late, "CreateContainerConfigError").await;
        assert_eq!(state(&pod)["waiting"]["message"], "configmap \"later\" not found");
        cluster.api.put(
            "/api/v1/namespaces/default/configmaps/later",
            json!({"metadata": {"name": "later"}, "data": {"k": "v"}}),
        );
        cluster.phase(&late, "Running").await;
        let last = |pod: &Value| pod["status"]["containerStatuses"][0]["lastState"]["terminated"].clone();
        let pod = cluster.until(&command, "StartError", |pod| last(pod)["reason"] == "StartError").await;
        assert_eq!(last(&pod)["exitCode"], 128);
        for path in [absent, never, invalid, command, late] {
            cluster.api.delete_gracefully(&path, 0);
            cluster.until(&path, "deleted", Value::is_null).await;
        }
    });
}

/// As with a Job's: the object stays until somebody has counted how the pod ended.
#[test]
fn pod_deleted_before_its_container_started_fails() {
    with_agent(|cluster, _node| async move {
        let hold = |path: &str| {
            let mut pod = cluster.api.get(path).unwrap();
            pod["metadata"]["finalizers"] = json!(["batch.kubernetes.io/job-tracking"]);
            cluster.api.put(path, pod);
        };
        let image = json!({"name": "main", "image": "localhost:1/nothing:1"});
        let pull = cluster.pod("pull", json!({"restartPolicy": "Never", "containers": [image]}));
        let volume = json!({"name": "s", "secret": {"secretName": "never"}});
        let mount = cluster.pod("mount", json!({"containers": [shell("main", IDLE)], "volumes": [volume]}));
        hold(&pull);
        hold(&mount);
        cluster.waiting(&pull, "ErrImagePull").await;
        cluster.until(&mount, "without its volume", |pod| pod["status"]["reason"] == "FailedMount").await;
        for path in [&pull, &mount] {
            cluster.api.delete_gracefully(path, 1);
            let pod = cluster.phase(path, "Failed").await;
            assert_eq!(state(&pod)["terminated"]["reason"], "ContainerStatusUnknown", "{pod:#}");
            assert_eq!(condition(&pod, "Ready"), "False");
        }
    });
}

/// As upstream: a hook that hangs is given up when the pod is deleted.
#[test]
fn pod_whose_post_start_hook_hangs_is_deleted_in_its_grace() {
    with_agent(|cluster, _node| async move {
        let mut main = shell("main", IDLE);
        main["lifecycle"] = json!({"postStart": {"exec": {"command": ["sleep", "1000"]}}});
        let path = cluster.pod("hook", json!({"containers": [main]}));
        cluster.event("at its hook", |event| event["reason"] == "Started").await;
        let begun = Instant::now();
        cluster.api.delete_gracefully(&path, 5);
        cluster.until(&path, "deleted", Value::is_null).await;
        // The rest is for a busy machine.
        assert!(begun.elapsed() < Duration::from_secs(60), "{:?}", begun.elapsed());
    });
}

/// What cannot run here is refused for good; what runs here is never refused, whatever a new agent thinks of it.
#[test]
fn pod_that_does_not_fit_is_rejected_and_one_that_runs_never() {
    with_agent(|mut cluster, node| async move {
        let with_port = |port: u16| {
            let mut main = shell("main", IDLE);
            main["ports"] = json!([{"containerPort": 80, "hostPort": port}]);
            json!({"containers": [main]})
        };
        let holder = cluster.pod("holder", with_port(18_080));
        cluster.phase(&holder, "Running").await;
        let mut greedy = shell("main", IDLE);
        greedy["resources"] = json!({"requests": {"cpu": "1000"}});
        let check = async |path: &str, reason: &str, message: &str| {
            let pod = cluster.phase(path, "Failed").await;
            assert_eq!(pod["status"]["reason"], reason, "{pod:#}");
            let told = pod["status"]["message"].as_str().unwrap();
            assert!(told.starts_with(&format!("Pod was rejected: {message}")), "{told}");
            assert_eq!(pod["status"]["containerStatuses"], Value::Null, "nothing of it was made");
            cluster.warning(reason).await;
        };
        let ports = cluster.pod("ports", with_port(18_080));
        check(&ports, "NodePorts", "Predicate NodePorts failed: node(s) didn't have free ports").await;
        let large = cluster.pod("large", json!({"containers": [greedy]}));
        check(&large, "OutOfcpu", "Node didn't have enough resource: cpu, requested: 1000000").await;
        let elsewhere = json!({"containers": [shell("main", IDLE)], "nodeSelector": {"disk": "none"}});
        let elsewhere = cluster.pod("elsewhere", elsewhere);
        check(&elsewhere, "NodeAffinity", "Predicate NodeAffinity failed").await;
        // A label that came a moment ago counts.
        let node_path = "/api/v1/nodes/test-node";
        let mut labelled = cluster.api.get(node_path).unwrap();
        labelled["metadata"]["labels"]["disk"] = "new".into();
        cluster.api.put(node_path, labelled);
        let selected = json!({"containers": [shell("main", IDLE)], "nodeSelector": {"disk": "new"}});
        let selected = cluster.pod("selected", selected);
        cluster.phase(&selected, "Running").await;
        let file = node.config.manifests_dir().join("static.yaml");
        std::fs::create_dir_all(node.config.manifests_dir()).unwrap();
        let manifest = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "static"},
            "spec": {"containers": [{"name": "main", "image": BUSYBOX, "command": ["sh", "-c", IDLE]}]}});
        std::fs::write(&file, manifest.to_string()).unwrap();
        let mirror = "/api/v1/namespaces/default/pods/static-test-node";
        cluster.phase(mirror, "Running").await;

        // A new agent on a node that has become too small.
        cluster.agent.abort();
        let _ = (&mut cluster.agent).await;
        let (mut config, client) = (node.config.clone(), cluster.api.client());
        config.max_pods = 1;
        cluster.agent =
            tokio::spawn(async move { minik8s_kubelet::run(config, support::access(client)).await.unwrap() });
        let late = cluster.pod("late", json!({"containers": [shell("main", IDLE)]}));
        let pod = cluster.phase(&late, "Failed").await;
        assert_eq!(pod["status"]["reason"], "OutOfpods");
        for path in [&holder, &selected, mirror] {
            let pod = cluster.api.get(path).unwrap();
            assert_eq!(pod["status"]["phase"], "Running", "{pod:#}");
            assert_eq!(pod["status"]["containerStatuses"][0]["restartCount"], 0);
        }
        // What has gone makes room.
        std::fs::remove_file(&file).unwrap();
        cluster.until(mirror, "deleted", Value::is_null).await;
        for path in [&holder, &selected, &late, &ports, &large, &elsewhere] {
            cluster.api.delete_gracefully(path, 1);
            cluster.until(path, "deleted", Value::is_null).await;
        }
        let next = cluster.pod("next", with_port(18_080));
        cluster.phase(&next, "Running").await;
    });
}

/// A critical pod takes the place of another one.
#[test]
fn critical_pod_preempts_another() {
    on_a_node(|node| async move {
        let api = FakeApi::new();
        let (mut config, client) = (node.config.clone(), api.client());
        config.max_pods = 1;
        let agent =
            tokio::spawn(async move { minik8s_kubelet::run(config, support::access(client)).await.unwrap() });
        let cluster = Cluster { api, agent };
        let plain = cluster.pod("plain", json!({"containers": [shell("main", IDLE)]}));
        cluster.phase(&plain, "Running").await;
        let critical = json!({"containers": [shell("main", IDLE)], "priority": 2_000_000_000});
        let critical = cluster.pod("critical", critical);
        cluster.phase(&critical, "Running").await;
        let pod = cluster.phase(&plain, "Failed").await;
        assert_eq!(pod["status"]["reason"], "Preempting");
        assert_eq!(condition(&pod, "DisruptionTarget"), "True");
    });
}

/// A container that will be replaced serves until it ends.
#[test]
fn container_that_is_being_replaced_stays_ready_until_it_ends() {
    with_agent(|cluster, _node| async move {
        let slow = shell("main", "trap 'sleep 2; exit 0' TERM; sleep 1000 & wait");
        let path = cluster.pod("web", json!({"containers": [slow]}));
        let is_ready =
            |pod: &Value| pod["status"]["conditions"].is_array() && condition(pod, "Ready") == "True";
        let mut pod = cluster.until(&path, "ready", is_ready).await;
        let seen = cluster.api.versions(&path).len();
        pod["spec"]["containers"][0]["image"] = "localhost:1/nothing:1".into();
        cluster.api.put(&path, pod);
        cluster.until(&path, "stopped", |pod| state(pod)["running"].is_null()).await;
        let versions = cluster.api.versions(&path);
        assert!(versions.len() > seen + 1);
        for version in &versions[seen..] {
            let runs = state(version)["running"].is_object();
            assert_eq!(is_ready(version), runs, "{:#}", version["status"]);
        }
    });
}

#[test]
fn init_containers_come_first_and_sidecars_stay() {
    with_agent(|cluster, _node| async move {
        let mut sidecar = shell("side", IDLE);
        sidecar["restartPolicy"] = "Always".into();
        let path = cluster.pod(
            "init",
            json!({"restartPolicy": "Never", "initContainers": [shell("first", "exit 0"), sidecar],
                "containers": [shell("main", "sleep 0.5")]}),
        );
        let pod = cluster.phase(&path, "Running").await;
        let init = &pod["status"]["initContainerStatuses"];
        assert_eq!(init[0]["state"]["terminated"]["exitCode"], 0);
        assert!(init[1]["state"]["running"].is_object(), "{init:#}");
        cluster.phase(&path, "Succeeded").await;
    });
}

#[test]
fn a_new_agent_finds_its_pods_again() {
    with_agent(|mut cluster, node| async move {
        let path = cluster.pod("stays", json!({"containers": [shell("main", IDLE)]}));
        let before = cluster.phase(&path, "Running").await;
        let ends = cluster.pod("ends", json!({"containers": [shell("main", IDLE)]}));
        cluster.phase(&ends, "Running").await;
        let unknown = cluster.pod("unknown", json!({"containers": [shell("main", IDLE)]}));
        let orphan = cluster.phase(&unknown, "Running").await;
        cluster.agent.abort();
        let _ = (&mut cluster.agent).await;

        // One pod is deleted while no agent runs, one vanishes altogether.
        cluster.api.delete_gracefully(&ends, 1);
        let fresh = FakeApi::new();
        for path in [&path, &ends] {
            fresh.put(path, cluster.api.get(path).unwrap());
        }
        let agent = start_agent(&node, &fresh);
        let cluster = Cluster { api: fresh, agent };
        cluster.until(&ends, "deleted", Value::is_null).await;
        let after = cluster.phase(&path, "Running").await;
        assert_eq!(state(&before), state(&after));
        assert_eq!(after["status"]["containerStatuses"][0]["restartCount"], 0);

        use minik8s_kubelet::cri::{Cri, Runtime};
        let uid = orphan["metadata"]["uid"].as_str().unwrap();
        let cri = Cri::new(&node.config.cri_socket());
        let deadline = Instant::now() + TIMEOUT;
        while !cri.pod(uid).await.unwrap().is_empty() {
            assert!(Instant::now() < deadline, "the unknown pod is still there");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    });
}

/// A pod's log lines, without times.
fn log(node: &support::Node, container: &str) -> String {
    let dirs = std::fs::read_dir(node.config.logs_dir()).unwrap().flatten();
    let file = dirs.map(|dir| dir.path().join(container).join("0.log")).find(|file| file.exists());
    let text = file.and_then(|file| std::fs::read_to_string(file).ok()).unwrap_or_default();
    text.lines().map(|line| line.splitn(4, ' ').nth(3).unwrap().to_owned() + "\n").collect()
}

#[test]
fn volumes_hold_what_they_should_and_follow_changes() {
    with_agent(|cluster, node| async move {
        let path = "/api/v1/namespaces/default/configmaps/settings";
        let settings = |value: &str| json!({"metadata": {"name": "settings"}, "data": {"k": value}});
        cluster.api.put(path, settings("old"));
        let script = "cat /cm/k /dir/k; echo; stat -c %a /scratch /mem; cat /part; echo; cat /info/name; echo; \
             df -m /mem | tail -1 | awk '{print $2}'; \
             until [ $(cat /cm/k) = new ]; do sleep 0.05; done; echo changed; cat /part";
        let mut main = shell("main", script);
        main["volumeMounts"] = json!([
            {"name": "cm", "mountPath": "/cm"},
            {"name": "cm", "mountPath": "/dir"},
            {"name": "cm", "mountPath": "/part", "subPath": "k"},
            {"name": "scratch", "mountPath": "/scratch"},
            {"name": "mem", "mountPath": "/mem"},
            {"name": "info", "mountPath": "/info"},
        ]);
        let items = json!([{"path": "name", "fieldRef": {"fieldPath": "metadata.name"}}]);
        let pod = cluster.pod(
            "vol",
            json!({"restartPolicy": "Never", "containers": [main], "volumes": [
                {"name": "cm", "configMap": {"name": "settings"}},
                {"name": "scratch", "emptyDir": {}},
                {"name": "mem", "emptyDir": {"medium": "Memory", "sizeLimit": "3Mi"}},
                {"name": "info", "downwardAPI": {"items": items}},
            ]}),
        );
        cluster
            .until(&pod, "read its files", |pod| {
                pod["status"]["phase"] == "Running" && log(&node, "main").contains("vol\n3\n")
            })
            .await;
        cluster.api.put(path, settings("new"));
        cluster.phase(&pod, "Succeeded").await;
        assert_eq!(log(&node, "main"), "oldold\n777\n1777\nold\nvol\n3\nchanged\nold\n");
        cluster.api.delete_gracefully(&pod, 1);
        cluster.until(&pod, "deleted", Value::is_null).await;
        assert_eq!(std::fs::read_dir(node.config.pods_dir()).unwrap().count(), 0);
    });
}

#[test]
fn a_volume_that_is_missing_is_waited_for() {
    with_agent(|cluster, _node| async move {
        let pod = cluster.pod(
            "late",
            json!({"restartPolicy": "Never", "containers": [shell("main", "exit 0")],
                "volumes": [{"name": "s", "secret": {"secretName": "later"}}]}),
        );
        let message = "MountVolume.SetUp failed for volume \"s\" : secret \"default\"/\"later\" not found";
        cluster.event(message, |event| event["message"] == message).await;
        cluster.api.put("/api/v1/namespaces/default/secrets/later", json!({"metadata": {"name": "later"}}));
        cluster.phase(&pod, "Succeeded").await;
    });
}

#[test]
fn termination_message_hosts_and_hooks() {
    with_agent(|cluster, node| async move {
        let never =
            |container: Value| json!({"restartPolicy": "Never", "hostname": "me", "containers": [container]});
        let words = cluster.pod("words", never(shell("main", "printf sorry > /dev/termination-log; exit 1")));
        let mut fallback = shell("main", "echo one; echo two; exit 1");
        fallback["terminationMessagePolicy"] = "FallbackToLogsOnError".into();
        let logged = cluster.pod("logged", never(fallback));
        let pod = cluster.phase(&words, "Failed").await;
        assert_eq!(state(&pod)["terminated"]["message"], "sorry");
        let mut unended = shell("main", "echo -n DONE; exit 1");
        unended["terminationMessagePolicy"] = "FallbackToLogsOnError".into();
        let unended = cluster.pod("unended", never(unended));
        let pod = cluster.phase(&logged, "Failed").await;
        assert_eq!(state(&pod)["terminated"]["message"], "one\ntwo\n");
        let pod = cluster.phase(&unended, "Failed").await;
        assert_eq!(state(&pod)["terminated"]["message"], "DONE");

        let hosts = cluster.pod("hosts", never(shell("hosts", "hostname; grep me /etc/hosts | cut -f2")));
        cluster.phase(&hosts, "Succeeded").await;
        assert_eq!(log(&node, "hosts"), "me\nme\n");

        let mut hooked =
            shell("hooked", "trap 'exit 0' TERM; while :; do sleep 0.1; cat /tmp/* 2>/dev/null; done");
        hooked["lifecycle"] = json!({
            "postStart": {"exec": {"command": ["sh", "-c", "echo began > /tmp/a"]}},
            "preStop": {"exec": {"command": ["sh", "-c", "echo ends > /tmp/b; sleep 0.5"]}},
        });
        let hooks = cluster.pod("hooks", never(hooked));
        cluster.phase(&hooks, "Running").await;
        let follow = {
            let node_config = node.config.clone();
            move || {
                let dirs = std::fs::read_dir(node_config.logs_dir()).unwrap().flatten();
                let file = dirs.map(|dir| dir.path().join("hooked/0.log")).find(|file| file.exists());
                file.and_then(|file| std::fs::read_to_string(file).ok()).unwrap_or_default()
            }
        };
        cluster.api.delete_gracefully(&hooks, 10);
        let mut seen = String::new();
        cluster
            .until(&hooks, "deleted", |pod| {
                let now = follow();
                if now.contains("ends") {
                    assert!(now.contains("began"));
                }
                pod.is_null()
            })
            .await;
        seen.push_str(&follow());
        assert!(seen.is_empty(), "the log is gone with the pod");

        let mut broken = shell("main", "trap 'exit 0' TERM; while :; do sleep 0.1; done");
        broken["lifecycle"] = json!({"postStart": {"exec": {"command": ["false"]}}});
        let broken = cluster.pod("broken", never(broken));
        cluster.until(&broken, "ended", |pod| state(pod)["terminated"].is_object()).await;
    });
}

#[test]
fn probes_decide() {
    with_agent(|cluster, _node| async move {
        let probe = |command: &str| json!({"exec": {"command": ["sh", "-c", command]}, "periodSeconds": 1, "failureThreshold": 1});
        let mut ready = shell("main", &format!("(sleep 2; touch /tmp/up) & {IDLE}"));
        ready["readinessProbe"] = probe("test -e /tmp/up");
        let ready = cluster.pod("ready", json!({"containers": [ready]}));
        let mut dies = shell("main", &format!("(sleep 2; touch /tmp/ill) & {IDLE}"));
        dies["livenessProbe"] = probe("! test -e /tmp/ill");
        let dies = cluster.pod("dies", json!({"containers": [dies]}));
        let mut starts = shell("main", &format!("(sleep 2; touch /tmp/up) & {IDLE}"));
        starts["startupProbe"] = json!({"exec": {"command": ["test", "-e", "/tmp/up"]}, "periodSeconds": 1, "failureThreshold": 30});
        let starts = cluster.pod("starts", json!({"containers": [starts]}));
        let mut web =
            shell("main", "mkdir /tmp/w; echo ok > /tmp/w/index.html; exec httpd -f -p 8080 -h /tmp/w");
        web["ports"] = json!([{"name": "http", "containerPort": 8080}]);
        web["readinessProbe"] = json!({"httpGet": {"path": "/", "port": "http"}, "periodSeconds": 1});
        // It may listen late on a busy machine.
        web["livenessProbe"] =
            json!({"tcpSocket": {"port": 8080}, "periodSeconds": 1, "failureThreshold": 60});
        let web = cluster.pod("web", json!({"containers": [web]}));

        cluster.phase(&ready, "Running").await;
        let versions = cluster.api.versions(&ready);
        let first = versions.iter().find(|pod| pod["status"]["phase"] == "Running").unwrap();
        assert_eq!(condition(first, "Ready"), "False");
        let is_ready =
            |pod: &Value| pod["status"]["conditions"].is_array() && condition(pod, "Ready") == "True";
        cluster.until(&ready, "ready", is_ready).await;
        cluster.until(&web, "ready", is_ready).await;
        cluster
            .until(&starts, "started", |pod| pod["status"]["containerStatuses"][0]["started"] == true)
            .await;
        let restarts = |pod: &Value| pod["status"]["containerStatuses"][0]["restartCount"] == 1;
        cluster.until(&dies, "restarted", restarts).await;
        let killed = "Container main failed liveness probe, will be restarted";
        cluster.event(killed, |event| event["reason"] == "Killing" && event["message"] == killed).await;
        cluster.event("Unhealthy", |event| event["reason"] == "Unhealthy").await;
        let pod = cluster.api.get(&web).unwrap();
        assert_eq!(pod["status"]["containerStatuses"][0]["restartCount"], 0);
    });
}

#[test]
fn limits_are_enforced() {
    with_agent(|cluster, node| async move {
        let mut greedy = shell("main", "exec dd if=/dev/zero of=/dev/null bs=64M count=1");
        greedy["resources"] = json!({"limits": {"memory": "16Mi", "cpu": "500m"}, "requests": {"memory": "16Mi", "cpu": "500m"}});
        let greedy = cluster.pod("greedy", json!({"restartPolicy": "Never", "containers": [greedy]}));
        // containerd may tell of the end before it has heard that memory was short.
        let explained = |pod: &Value| state(pod)["terminated"]["reason"] == "OOMKilled";
        let pod = cluster.until(&greedy, "ended for want of memory", explained).await;
        assert_eq!(pod["status"]["phase"], "Failed", "{:#}", pod["status"]);
        assert_eq!(state(&pod)["terminated"]["exitCode"], 137);
        assert_eq!(pod["status"]["qosClass"], "Guaranteed");

        let mut modest = shell(
            "modest",
            "cat /sys/fs/cgroup/cpu/cpu.shares /sys/fs/cgroup/cpu/cpu.cfs_quota_us 2>/dev/null; true",
        );
        modest["resources"] = json!({"requests": {"cpu": "250m"}, "limits": {"cpu": "2"}});
        let pod = cluster.pod("modest", json!({"restartPolicy": "Never", "containers": [modest]}));
        let pod = cluster.phase(&pod, "Succeeded").await;
        assert_eq!(pod["status"]["qosClass"], "Burstable");
        let lines = log(&node, "modest");
        assert!(lines.is_empty() || lines == "256\n200000\n", "{lines}");
    });
}
