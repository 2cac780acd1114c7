//! Devices of a device plugin, end to end: scheduler, node and a plugin that is a process of its own.

use std::io::Write;
use std::process::{Child, Command, Stdio};

use serde_json::{Value, json};

use super::device_plugin;
use super::space::{IDLE, Space, said, shell};
use crate::harness::cluster::NODE;

/// What the process of the plugin is told.
const WORDS: &str = "TEST_DEVICE_PLUGIN_WORDS";
const PROCESS: &str = "node::counted_devices::is_a_process_of_its_own";

#[test]
#[ignore = "it is the process that other tests start"]
fn is_a_process_of_its_own() {
    device_plugin::run(&std::env::var(WORDS).expect("Plugin::start sets it"));
}

/// A plugin at work. Dropped, it is killed.
struct Plugin(Child);

impl Plugin {
    fn start(space: &Space, resource: &str, count: usize) -> Plugin {
        let dir = space.cluster.config().data_dir.join("device-plugins");
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--ignored", "--exact", PROCESS]);
        command.env(WORDS, format!("serve {} {resource} {count} plain", dir.display()));
        Plugin(command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap())
    }

    fn tell(&mut self, line: &str) {
        writeln!(self.0.stdin.as_mut().unwrap(), "{line}").unwrap();
    }
}

impl Drop for Plugin {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn asking(resource: &str, count: usize, script: &str) -> Value {
    let mut main = shell("main", script);
    main["resources"] = json!({"limits": {resource: count.to_string()}});
    json!({"containers": [main], "terminationGracePeriodSeconds": 1})
}

/// Until the node says that so many of its devices can be used.
async fn offers(space: &Space, resource: &str, usable: &str) {
    let path = format!("/api/v1/nodes/{NODE}");
    space
        .eventually(&format!("{usable} of {resource}"), async || {
            let node = space.get(&path).await.unwrap_or_default();
            node["status"]["allocatable"][resource] == usable
        })
        .await;
}

pub async fn counted_devices(space: Space) {
    let resource = &format!("{}.example/gpu", space.name);
    let mut plugin = Plugin::start(&space, resource, 4);
    offers(&space, resource, "4").await;

    // Two of one memory node: the odd ones are near the other.
    let script = format!("[ $FAKE_DEVICES = dev-0,dev-2 ] && test -c /dev/fake/dev-2 && {{ {IDLE}; }}");
    space.pod("pair", asking(resource, 2, &script)).await;
    space.ready("pair").await;

    // More than there ever are, and more than there are now: both wait, and say why.
    let missing = format!("Insufficient {resource}");
    space.pod("greedy", asking(resource, 5, IDLE)).await;
    space.event("greedy", "FailedScheduling", &missing).await;
    space.pod("later", asking(resource, 3, IDLE)).await;
    space.event("later", "FailedScheduling", &missing).await;
    let why =
        said(space.command(env!("CARGO_BIN_EXE_minik8s")).args(["why", "pod/later"]).output().await.unwrap());
    assert!(why.out.contains(&format!("request 1 less {resource} (3 wanted, 2 of 4 free)")), "{why:?}");

    // One falls ill: three are left, which are enough as soon as the pair is gone.
    plugin.tell("ill dev-1");
    offers(&space, resource, "3").await;
    space.delete("pair", 1).await;
    space.deleted("pair").await;
    space.ready("later").await;
    let devices = space.kubectl(&["exec", "later", "--", "sh", "-c", "ls /dev/fake"]).await;
    assert_eq!(devices, "dev-0\ndev-2\ndev-3\n", "not the ill one");

    // Well again, it is the fourth, and one is not five.
    plugin.tell("well dev-1");
    offers(&space, resource, "4").await;
    space.pod("last", asking(resource, 1, "[ $FAKE_DEVICES = dev-1 ] && sleep 1000")).await;
    space.ready("last").await;

    // A plugin that is gone offers nothing; who has devices goes on.
    drop(plugin);
    offers(&space, resource, "0").await;
    space.pod("too-late", asking(resource, 1, IDLE)).await;
    space.event("too-late", "FailedScheduling", &missing).await;
    let later = space.get(&space.path("pods", "later")).await.unwrap();
    assert_eq!(later["status"]["containerStatuses"][0]["restartCount"], 0);
    assert_eq!(later["status"]["phase"], "Running");
}
