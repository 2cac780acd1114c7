//! Device plugins: the agent with a real containerd, and a plugin that is a process of its own behind a real socket.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

#[path = "support/device_plugin.rs"]
mod device_plugin;
mod support;

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use minik8s_kubelet::TopologyPolicy;
use serde_json::{Value, json};
use support::fake_api::FakeApi;
use support::{BUSYBOX, on_a_node};

const RESOURCE: &str = "example.com/fake";
const NODE: &str = "/api/v1/nodes/test-node";
/// Generous: the machine may be busy with other tests.
const TIMEOUT: Duration = Duration::from_secs(120);

/// What the process of a plugin is told.
const WORDS: &str = "DEVICE_PLUGIN_WORDS";

/// A process that runs [`plugin_process`].
fn plugin(words: &str) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["plugin_process", "--exact", "--ignored", "--nocapture"]).env(WORDS, words);
    command.stdout(Stdio::null());
    command
}

#[test]
#[ignore = "it is the process of a plugin that the other test starts"]
fn plugin_process() {
    let words = std::env::var(WORDS).expect("only the other test starts this one");
    device_plugin::run(&words);
}

/// A plugin at work. Dropped, it is killed.
struct Plugin {
    child: Child,
    said: Arc<Mutex<Vec<String>>>,
}

impl Plugin {
    fn start(data_dir: &Path, count: usize) -> Self {
        let dir = data_dir.join("device-plugins");
        let mut child = plugin(&format!("serve {} {RESOURCE} {count}", dir.display()))
            .stdin(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let said: Arc<Mutex<Vec<String>>> = Arc::default();
        let (lines, heard) = (BufReader::new(child.stderr.take().unwrap()), said.clone());
        std::thread::spawn(move || {
            lines.lines().map_while(Result::ok).for_each(|line| heard.lock().unwrap().push(line))
        });
        Plugin { child, said }
    }

    fn tell(&mut self, line: &str) {
        writeln!(self.child.stdin.as_mut().unwrap(), "{line}").unwrap();
    }

    fn heard(&self, line: &str) -> usize {
        self.said.lock().unwrap().iter().filter(|said| *said == line).count()
    }

    /// What it says comes through a pipe: waits until it has come so often.
    async fn hears(&self, line: &str, count: usize) {
        let begun = Instant::now();
        while self.heard(line) < count {
            assert!(begun.elapsed() < TIMEOUT, "{line}: {:?}", self.said);
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
}

impl Drop for Plugin {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

struct Cluster {
    api: FakeApi,
    agent: tokio::task::JoinHandle<()>,
    node: support::Node,
}

impl Cluster {
    fn new(node: support::Node) -> Self {
        let api = FakeApi::new();
        let agent = start(&node, &api);
        Cluster { api, agent, node }
    }

    async fn restart_agent(&mut self) {
        self.agent.abort();
        let _ = (&mut self.agent).await;
        self.agent = start(&self.node, &self.api);
    }

    fn pod(&self, name: &str, count: u32, script: &str) -> String {
        let path = format!("/api/v1/namespaces/default/pods/{name}");
        let metadata = json!({"name": name, "namespace": "default", "uid": uuid::Uuid::new_v4().to_string()});
        let amounts = json!({RESOURCE: count.to_string()});
        let main = json!({"name": "main", "image": BUSYBOX, "command": ["sh", "-c", script],
            "resources": {"limits": amounts, "requests": amounts}});
        let spec = json!({"nodeName": "test-node", "restartPolicy": "Never", "containers": [main]});
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
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    async fn phase(&self, path: &str, phase: &str) -> Value {
        self.until(path, phase, |pod| pod["status"]["phase"] == phase).await
    }

    /// Until the node says that it has so many devices, and that so many can be used.
    async fn offers(&self, all: &str, usable: &str) {
        let what = format!("offers {usable} of {all}");
        self.until(NODE, &what, |node| {
            node["status"]["capacity"][RESOURCE] == all && node["status"]["allocatable"][RESOURCE] == usable
        })
        .await;
    }

    async fn delete(&self, path: &str) {
        self.api.delete_gracefully(path, 1);
        self.until(path, "deleted", Value::is_null).await;
    }

    /// What `podresources` says.
    async fn listed(&self) -> String {
        let dir = self.node.config.data_dir.join("pod-resources");
        let mut asks = plugin(&format!("list {}", dir.display()));
        // The agent that answers runs in this process.
        let output = tokio::task::spawn_blocking(move || asks.output().unwrap()).await.unwrap();
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stderr).unwrap()
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        self.agent.abort();
    }
}

fn start(node: &support::Node, api: &FakeApi) -> tokio::task::JoinHandle<()> {
    let (config, client) = (node.config.clone(), api.client());
    tokio::spawn(async move { minik8s_kubelet::run(config, support::access(client)).await.unwrap() })
}

const IDLE: &str = "trap 'exit 0' TERM; sleep 1000 & wait";

#[test]
fn device_plugin_gives_its_devices_to_pods() {
    on_a_node(|node| async move {
        let mut cluster = Cluster::new(node);
        let data_dir = cluster.node.config.data_dir.clone();
        cluster.until(NODE, "registered", |node| node["status"]["capacity"].is_object()).await;
        std::fs::create_dir_all(data_dir.join("device-plugins")).unwrap();
        let mut plugin = Plugin::start(&data_dir, 2);
        cluster.offers("2", "2").await;

        // The device is there, by the plugin's choice, and the plugin hears of the start.
        let first = cluster.pod("first", 1, "test -c /dev/fake/dev-1 && [ $FAKE_DEVICES = dev-1 ] && { trap 'exit 0' TERM; sleep 1000 & wait; }");
        cluster.phase(&first, "Running").await;
        plugin.hears("prestart dev-1", 1).await;
        assert_eq!((plugin.heard("allocate dev-1"), plugin.heard("prestart dev-1")), (1, 1));
        let second = cluster.pod("second", 1, IDLE);
        cluster.phase(&second, "Running").await;
        plugin.hears("prestart dev-0", 1).await;
        assert_eq!(plugin.heard("allocate dev-0"), 1);
        let listed = cluster.listed().await;
        assert!(listed.contains("default/first/main example.com/fake dev-1\n"), "{listed}");
        assert!(listed.contains("allocatable example.com/fake dev-0,dev-1\n"), "{listed}");

        // There are no more.
        let third = cluster.pod("third", 1, IDLE);
        let refused = cluster.phase(&third, "Failed").await;
        assert_eq!(refused["status"]["reason"], "OutOfexample.com/fake", "{refused:#}");

        // What is over gives its devices back.
        cluster.delete(&second).await;
        let brief = cluster.pod("brief", 1, "[ $FAKE_DEVICES = dev-0 ]");
        cluster.phase(&brief, "Succeeded").await;
        let again = cluster.pod("again", 1, "[ $FAKE_DEVICES = dev-0 ]");
        cluster.phase(&again, "Succeeded").await;

        // An ill device is not given out; the one who has it goes on.
        plugin.tell("ill dev-0");
        cluster.offers("2", "1").await;
        let unlucky = cluster.pod("unlucky", 1, IDLE);
        let refused = cluster.phase(&unlucky, "Failed").await;
        assert_eq!(refused["status"]["reason"], "OutOfexample.com/fake", "{refused:#}");
        plugin.tell("well dev-0");
        cluster.offers("2", "2").await;

        // A plugin that dies, and comes again.
        drop(plugin);
        cluster.offers("2", "0").await;
        let plugin = Plugin::start(&data_dir, 3);
        cluster.offers("3", "3").await;
        assert_eq!(cluster.api.get(&first).unwrap()["status"]["phase"], "Running");

        // A new agent: the plugin registers again, and whose devices are whose is known.
        cluster.restart_agent().await;
        plugin.hears("registered true", 2).await;
        cluster.offers("3", "3").await;
        assert!(cluster.listed().await.contains("default/first/main example.com/fake dev-1\n"));
        let both = cluster.pod("both", 2, "[ $FAKE_DEVICES = dev-0,dev-2 ]");
        cluster.phase(&both, "Succeeded").await;
        let running = cluster.api.get(&first).unwrap();
        assert_eq!(running["status"]["containerStatuses"][0]["restartCount"], 0);

        // Devices 0 and 2 are near to one memory node, 1 and 3 to another: a strict node gives no pod some of both.
        drop(plugin);
        cluster.node.config.topology_policy = TopologyPolicy::SingleNumaNode;
        cluster.restart_agent().await;
        let _plugin = Plugin::start(&data_dir, 4);
        cluster.offers("4", "4").await;
        let wide = cluster.pod("wide", 3, IDLE);
        let refused = cluster.phase(&wide, "Failed").await;
        assert_eq!(refused["status"]["reason"], "TopologyAffinityError", "{refused:#}");
        let narrow = cluster.pod("narrow", 2, "[ $FAKE_DEVICES = dev-0,dev-2 ]");
        cluster.phase(&narrow, "Succeeded").await;
    });
}
