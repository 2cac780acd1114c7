//! Nothing remains of a deleted pod: no container, cgroup, mount, directory, interface or address.

use std::path::{Path, PathBuf};

use minik8s_kubelet::containerd::{Shim, kill_tree, shims};
use minik8s_kubelet::cri::{Cri, Runtime};
use serde_json::json;

use super::space::{IDLE, Space, idle, shell};

pub async fn nothing_remains(space: Space) {
    space.config_map("cm", json!({"k": "v"})).await;
    let mut main = shell("main", IDLE);
    main["volumeMounts"] = json!([
        {"name": "mem", "mountPath": "/mem"}, {"name": "cm", "mountPath": "/k", "subPath": "k"}, {"name": "disk", "mountPath": "/disk"},
    ]);
    main["resources"] = json!({"limits": {"memory": "32Mi"}});
    let volumes = json!([{"name": "mem", "emptyDir": {"medium": "Memory"}}, {"name": "cm", "configMap": {"name": "cm"}}, {"name": "disk", "emptyDir": {}}]);
    space.pod("pod", json!({"containers": [main, shell("crash", "exit 1")], "volumes": volumes})).await;
    let crashed = |pod: &serde_json::Value| {
        let statuses = pod["status"]["containerStatuses"].as_array();
        statuses.is_some_and(|all| {
            all.iter().any(|s| s["restartCount"].as_u64() >= Some(1))
                && all.iter().any(|s| s["ready"] == true)
        })
    };
    let pod = space.until("pod", "crashed", crashed).await;
    let (uid, ip) = (pod["metadata"]["uid"].as_str().unwrap(), pod["status"]["podIP"].as_str().unwrap());
    let before = traces(&space, uid, ip).await;
    for kind in ["mount", "cgroup", "directory", "address", "container"] {
        assert!(before.iter().any(|trace| trace.starts_with(kind)), "no {kind} was found at all: {before:?}");
    }
    space.kubectl(&["delete", "pod", "pod"]).await;
    assert_eq!(traces(&space, uid, ip).await, Vec::<String>::new());
}

/// Shims that containerd does not know are ended by the running agent; those of other agents are left alone.
pub async fn forgotten_containers(space: Space) {
    space.pod("beside", idle()).await;
    let before = space.ready("beside").await;
    let dir = tempfile::tempdir().unwrap();
    let own = ForgottenShim::start(&dir.path().join("own"), &space.cluster.config().containerd_socket());
    let others = ForgottenShim::start(&dir.path().join("others"), &dir.path().join("containerd.sock"));
    space.eventually("the forgotten shim gone", async || !own.runs()).await;
    assert!(others.runs(), "it belongs to somebody else");
    let after = space.ready("beside").await;
    assert_eq!(after["status"]["containerStatuses"], before["status"]["containerStatuses"]);
    space.delete("beside", 0).await;
    space.deleted("beside").await;
}

/// A real shim that no containerd has asked for.
struct ForgottenShim {
    socket: PathBuf,
    bundle: PathBuf,
    /// It ends when nobody reads what it has to say.
    _log: std::fs::File,
}

impl ForgottenShim {
    fn start(bundle: &Path, socket: &Path) -> ForgottenShim {
        std::fs::create_dir(bundle).unwrap();
        std::fs::write(bundle.join("config.json"), "{}").unwrap();
        let log = bundle.join("log");
        assert!(std::process::Command::new("mkfifo").arg(&log).status().unwrap().success());
        let log = std::fs::File::options().read(true).write(true).open(log).unwrap();
        let started = std::process::Command::new("containerd-shim-runc-v2")
            .args(["-namespace", "k8s.io", "-id", "forgotten", "-publish-binary", "true", "-address"])
            .arg(socket)
            .arg("start")
            .current_dir(bundle)
            .output()
            .unwrap();
        assert!(started.status.success(), "{started:?}");
        let shim = ForgottenShim { socket: socket.to_owned(), bundle: bundle.to_owned(), _log: log };
        assert!(shim.runs(), "{started:?}");
        shim
    }

    fn runs(&self) -> bool {
        self.processes().next().is_some()
    }

    fn processes(&self) -> impl Iterator<Item = Shim> {
        shims(&self.socket).into_iter().filter(|shim| shim.id == "forgotten")
    }
}

impl Drop for ForgottenShim {
    fn drop(&mut self) {
        self.processes().for_each(|shim| kill_tree(shim.pid));
        let address = std::fs::read_to_string(self.bundle.join("address")).unwrap_or_default();
        let _ = std::fs::remove_file(address.trim_start_matches("unix://"));
    }
}

async fn traces(space: &Space, uid: &str, ip: &str) -> Vec<String> {
    let config = space.cluster.config();
    let mut found = Vec::new();
    let mounts = std::fs::read_to_string("/proc/self/mounts").unwrap();
    found.extend(mounts.lines().filter(|line| line.contains(uid)).map(|line| format!("mount {line}")));
    for controller in ["memory", "cpu", "pids", ""] {
        let root = PathBuf::from("/sys/fs/cgroup").join(controller).join(&config.cgroup_root()[1..]);
        for class in ["", "burstable", "besteffort"] {
            let dir = root.join(class).join(format!("pod{uid}"));
            found.extend(dir.exists().then(|| format!("cgroup {}", dir.display())));
        }
    }
    for dir in [config.pods_dir(), config.logs_dir()] {
        let names = std::fs::read_dir(dir).unwrap().flatten().map(|entry| entry.path());
        found.extend(
            names
                .filter(|path| path.to_str().unwrap().contains(uid))
                .map(|p| format!("directory {}", p.display())),
        );
    }
    found.extend(
        addresses(&config.cni_dir())
            .into_iter()
            .filter(|address| address == ip)
            .map(|a| format!("address {a}")),
    );
    let rules = std::process::Command::new("iptables-save").args(["-t", "nat"]).output().unwrap();
    let rules = String::from_utf8_lossy(&rules.stdout).into_owned();
    found.extend(
        rules.lines().filter(|line| line.contains(&format!(" {ip}/32 "))).map(|line| format!("rule {line}")),
    );
    let record = Cri::new(&config.cri_socket()).pod(uid).await.unwrap();
    found.extend(record.containers.iter().map(|c| format!("container {}", c.name)));
    found.extend(record.sandboxes.iter().map(|s| format!("sandbox {}", s.id)));
    found
}

/// The addresses that are given out: a file each.
pub fn addresses(dir: &Path) -> Vec<String> {
    let Ok(entries) = std::fs::read_dir(dir) else { return Vec::new() };
    entries
        .flatten()
        .flat_map(|entry| match entry.path().is_dir() {
            true => addresses(&entry.path()),
            false => vec![entry.file_name().into_string().unwrap()],
        })
        .filter(|name| name.parse::<std::net::IpAddr>().is_ok())
        .collect()
}

/// All cgroups of pods that are left on this node.
pub fn cgroups_of_pods(config: &minik8s_kubelet::Config) -> Vec<String> {
    let roots = ["memory", "cpu", "pids", ""]
        .map(|controller| PathBuf::from("/sys/fs/cgroup").join(controller).join(&config.cgroup_root()[1..]));
    let classes = roots.iter().flat_map(|root| ["", "burstable", "besteffort"].map(|class| root.join(class)));
    let entries = classes.flat_map(|dir| std::fs::read_dir(dir).into_iter().flatten().flatten());
    let names = entries.map(|entry| entry.path().display().to_string());
    names.filter(|path| path.rsplit('/').next().is_some_and(|name| name.starts_with("pod"))).collect()
}
