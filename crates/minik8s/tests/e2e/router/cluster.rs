//! A cluster of one node in a temporary data dir, taken apart at the end, also after a panic.

use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use minik8s_kubelet::image::busybox;

use crate::harness::cluster::load_image;
use crate::harness::program::{BINARY, Program, free_port, owned};
use crate::harness::ranges::Ranges;

/// Long enough for a busy machine.
const TIMEOUT: Duration = Duration::from_secs(180);

pub struct Cluster {
    dir: tempfile::TempDir,
    server: Program,
    _ranges: Ranges,
    pub http_port: u16,
    pub https_port: u16,
    pub hosts_file: PathBuf,
}

impl Cluster {
    pub fn start() -> Self {
        assert!(nix::unistd::Uid::effective().is_root(), "this test needs root");
        let dir = tempfile::Builder::new().prefix("mk8s-router-").tempdir().unwrap();
        let [api_port, node_port, http_port, https_port] = [0; 4].map(|_| free_port());
        let http = TcpListener::bind(("127.0.0.1", http_port)).unwrap();
        let hosts_file = dir.path().join("hosts");
        std::fs::write(&hosts_file, "127.0.0.1 localhost\n").unwrap();
        let ranges = Ranges::claim();
        let (data_dir, hosts) = (dir.path().to_str().unwrap(), hosts_file.to_str().unwrap());
        let arguments = [
            ("--bind", "127.0.0.1"),
            ("--node-name", "router-test"),
            ("--data-dir", data_dir),
            ("--hosts-file", hosts),
            ("--port", &api_port.to_string()),
            ("--node-port", &node_port.to_string()),
            ("--http-port", &http_port.to_string()),
            ("--https-port", &https_port.to_string()),
            ("--cluster-cidr", &ranges.pods()),
            ("--service-cidr", &ranges.services()),
        ];
        let arguments = arguments.iter().flat_map(|(flag, value)| owned(&[flag, value])).collect();
        let server = Program::new("server", &dir.path().join("log"), arguments);
        server.start();
        let cluster = Cluster { server, _ranges: ranges, dir, http_port, https_port, hosts_file };
        cluster.eventually("the node is ready", || {
            let kubeconfig = cluster.dir.path().join("admin.kubeconfig");
            kubeconfig.exists()
                && cluster.try_kubectl(&["get", "nodes"]).is_some_and(|text| text.contains(" Ready"))
        });
        // Somebody else had the router's port, and leaves now.
        cluster.eventually("the router says that its port is taken", || {
            cluster
                .kubectl(&["get", "events", "--field-selector=reason=RouterPortInUse"])
                .contains("router-test")
        });
        drop(http);
        cluster.eventually("the router takes its port", || {
            TcpStream::connect(("127.0.0.1", cluster.http_port)).is_ok()
        });
        load_image(cluster.dir.path(), "busybox.tar", busybox().unwrap());
        cluster.eventually("the default account", || {
            cluster.try_kubectl(&["get", "serviceaccount", "default"]).is_some()
        });
        cluster
    }

    pub fn file(&self, name: &str, content: &str) -> String {
        let path = self.dir.path().join(name);
        std::fs::write(&path, content).unwrap();
        path.display().to_string()
    }

    pub fn apply(&self, objects: &str) {
        let path = self.file("objects.yaml", objects);
        self.kubectl(&["apply", "-f", &path]);
    }

    pub fn try_kubectl(&self, args: &[&str]) -> Option<String> {
        let kubeconfig = self.dir.path().join("admin.kubeconfig");
        let output = Command::new("kubectl").arg("--kubeconfig").arg(kubeconfig).args(args).output().unwrap();
        output.status.success().then(|| String::from_utf8(output.stdout).unwrap())
    }

    #[track_caller]
    pub fn kubectl(&self, args: &[&str]) -> String {
        let kubeconfig = self.dir.path().join("admin.kubeconfig");
        let output = Command::new("kubectl").arg("--kubeconfig").arg(kubeconfig).args(args).output().unwrap();
        let (out, error) =
            (String::from_utf8(output.stdout).unwrap(), String::from_utf8_lossy(&output.stderr));
        assert!(output.status.success(), "kubectl {args:?}: {out}{error}\n{}", self.log());
        out
    }

    /// What a command in a pod prints, if it succeeds.
    pub fn exec(&self, pod: &str, command: &[String]) -> Option<String> {
        let args = ["exec", pod, "--"].into_iter().chain(command.iter().map(String::as_str));
        self.try_kubectl(&args.collect::<Vec<_>>())
    }

    /// What a busybox command on this machine prints, were the cluster's hosts file this machine's.
    pub fn on_node(&self, command: &[String]) -> Option<String> {
        let script = "mount --bind \"$0\" /etc/hosts && exec busybox \"$@\"";
        let output = Command::new("unshare")
            .args(["--mount", "sh", "-c", script])
            .arg(&self.hosts_file)
            .args([&command[0], &command[1], "busybox"])
            .args(&command[2..])
            .output()
            .unwrap();
        output.status.success().then(|| String::from_utf8(output.stdout).unwrap())
    }

    #[track_caller]
    pub fn eventually(&self, what: &str, mut holds: impl FnMut() -> bool) {
        let begun = Instant::now();
        while !holds() {
            assert!(begun.elapsed() < TIMEOUT, "{what}, within {TIMEOUT:?}\n{}", self.log());
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    fn log(&self) -> String {
        self.server.log()
    }

    fn minik8s(&self, args: &[&str]) {
        let output = Command::new(BINARY).args(args).arg("--data-dir").arg(self.dir.path()).output();
        let output = output.unwrap();
        assert!(output.status.success(), "minik8s {args:?}: {}", String::from_utf8_lossy(&output.stderr));
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        self.server.stop();
        self.minik8s(&["teardown"]);
        let hosts = std::fs::read_to_string(&self.hosts_file).unwrap_or_default();
        if !std::thread::panicking() {
            assert_eq!(hosts, "127.0.0.1 localhost\n", "teardown removes the block");
        }
    }
}
