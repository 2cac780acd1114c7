//! A node for tests: real containerd in a temporary data dir, taken apart at the end, also after a panic.

#![allow(dead_code, reason = "each test binary uses a part of this")]

pub mod fake_api;
#[path = "../../../minik8s/tests/e2e/harness/ranges.rs"]
mod ranges;

use std::future::Future;
use std::io::Cursor;
use std::path::Path;
use std::time::{Duration, Instant};

use minik8s_informer::ApiAccess;
use minik8s_kubelet::containerd::Containerd;
use minik8s_kubelet::image::ImageStore;
use minik8s_kubelet::{Config, prepare, tear_down};
use tokio_util::sync::CancellationToken;

pub use minik8s_kubelet::image::BUSYBOX;
use ranges::Ranges;

/// What was killed may take a moment to be gone.
const GONE: Duration = Duration::from_secs(20);

/// Nothing is kept for a next run.
pub fn access(client: kube::Client) -> ApiAccess {
    ApiAccess::of_node(client, "test-node", CancellationToken::new(), Path::new("/"), &[])
}

pub struct Node {
    pub config: Config,
    pub containerd: Option<Containerd>,
}

/// Runs a test on a node of its own. Several may run side by side, in one process or in many.
pub fn on_a_node<F>(test: impl FnOnce(Node) -> F + Send + 'static)
where
    F: Future<Output = ()> + Send + 'static,
{
    assert!(nix::unistd::Uid::effective().is_root(), "these tests need root");
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let dir = tempfile::Builder::new().prefix("mk8s-test-").tempdir().unwrap();
    let ranges = Ranges::claim();
    let config = config(dir.path(), &ranges);
    let for_cleanup = config.clone();
    let result = runtime.block_on(async {
        // A panic of the spawned task does not skip what follows.
        let task = tokio::spawn(async move {
            let containerd = prepare(&config).await.unwrap();
            let archive = Cursor::new(busybox_archive());
            ImageStore::new(&config.containerd_socket()).load(archive, |_| {}).await.unwrap();
            test(Node { config, containerd }).await;
        });
        let result = task.await;
        let torn_down = tear_down(&for_cleanup).await;
        result.map(|()| torn_down.unwrap())
    });
    let begun = Instant::now();
    let mut leftovers = leftovers(&for_cleanup);
    while !leftovers.is_empty() && begun.elapsed() < GONE {
        std::thread::sleep(Duration::from_millis(100));
        leftovers = self::leftovers(&for_cleanup);
    }
    if let Err(error) = result {
        std::panic::resume_unwind(error.into_panic());
    }
    assert_eq!(leftovers, Vec::<String>::new(), "left behind on the host");
}

fn config(dir: &Path, ranges: &Ranges) -> Config {
    let mut config = Config::new("test-node", dir, "127.0.0.1".parse().unwrap());
    config.pod_cidr = Some(ranges.pods().parse().unwrap());
    config
}

pub fn busybox_archive() -> Vec<u8> {
    let mut archive = Vec::new();
    minik8s_kubelet::image::busybox().unwrap().write(&mut archive).unwrap();
    archive
}

/// What a node taken apart must not leave: processes, mounts, cgroups, interfaces.
fn leftovers(config: &Config) -> Vec<String> {
    let mut found = Vec::new();
    let dir = config.data_dir.to_str().unwrap();
    let mounts = std::fs::read_to_string("/proc/self/mounts").unwrap();
    found.extend(mounts.lines().filter(|line| line.contains(dir)).map(str::to_owned));
    for entry in std::fs::read_dir("/proc").unwrap().flatten() {
        let command = std::fs::read_to_string(entry.path().join("cmdline")).unwrap_or_default();
        if command.contains(dir) {
            found.push(format!("{}: {}", entry.path().display(), command.replace('\0', " ")));
        }
    }
    let interface = format!("/sys/class/net/mk-{}", config.instance());
    let cgroup = format!("/sys/fs/cgroup/memory{}", config.cgroup_root());
    for path in [interface, cgroup] {
        if Path::new(&path).exists() {
            found.push(path);
        }
    }
    found
}
