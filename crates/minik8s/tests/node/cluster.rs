//! A server with its node in a temporary data dir, taken apart at the end, also after a panic.

use std::future::Future;
use std::net::{IpAddr, Ipv4Addr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use kube::config::{KubeConfigOptions, Kubeconfig};
use minik8s_kubelet::image::{Recipe, busybox, web};

pub const NODE: &str = "test-node";
/// Long enough for a busy machine.
pub const PATIENCE: Duration = Duration::from_secs(90);
const BINARY: &str = env!("CARGO_BIN_EXE_minik8s");

static NEXT_NETWORK: AtomicU32 = AtomicU32::new(0);

pub struct Cluster {
    pub dir: PathBuf,
    server: Server,
}

pub fn block_on<T>(work: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(work)
}

/// Runs a test on a cluster of its own. Several may run side by side, in one process or in many.
pub fn on_a_cluster(test: impl FnOnce(Arc<Cluster>) + Send + 'static) {
    assert!(nix::unistd::Uid::effective().is_root(), "these tests need root");
    let dir = tempfile::Builder::new().prefix("mk8s-node-").tempdir().unwrap();
    let server = Server::new(dir.path());
    let cluster = Arc::new(Cluster { dir: dir.path().to_owned(), server: server.clone() });
    // A panic of that thread does not skip what follows.
    let work = std::thread::spawn(move || {
        cluster.server.start();
        block_on(cluster.server.ready());
        for (file, recipe) in [("busybox.tar", busybox()), ("web.tar", web())] {
            load_image(&cluster.dir, file, recipe.unwrap());
        }
        test(cluster);
    });
    let ended = work.join();
    server.stop();
    let teardown = Command::new(BINARY).arg("teardown").arg("--data-dir").arg(dir.path()).output().unwrap();
    let left = left_behind(dir.path());
    if let Err(error) = ended {
        let log = std::fs::read_to_string(dir.path().join("log")).unwrap_or_default();
        let lines: Vec<_> = log.lines().collect();
        println!("the server's last words:\n{}", lines[lines.len().saturating_sub(60)..].join("\n"));
        std::panic::resume_unwind(error);
    }
    assert_eq!(left, Vec::<String>::new(), "{}", String::from_utf8_lossy(&teardown.stderr));
}

/// Writes an archive into the data dir and gives it to the node.
pub fn load_image(dir: &Path, file: &str, recipe: Recipe) {
    let path = dir.join(file);
    recipe.write(std::fs::File::create(&path).unwrap()).unwrap();
    let load =
        Command::new(BINARY).args(["image", "load", "--data-dir"]).arg(dir).arg(path).output().unwrap();
    assert!(load.status.success(), "{load:?}");
}

impl Cluster {
    /// kill -9 of control plane and agent at once.
    pub fn crash_server(&self) {
        self.server.signal("KILL");
        self.server.reap();
    }

    pub async fn restart_server(&self) {
        self.server.start();
        self.server.ready().await;
    }

    pub async fn client(&self) -> kube::Client {
        self.server.client().await.unwrap()
    }

    pub fn config(&self) -> minik8s_kubelet::Config {
        node_config(&self.dir)
    }

    /// Where the node's router listens.
    #[allow(dead_code, reason = "only the examples ask for it")]
    pub fn http_port(&self) -> &str {
        let mut arguments = self.server.arguments.iter().skip_while(|argument| *argument != "--http-port");
        arguments.nth(1).unwrap()
    }

    pub fn kubeconfig(&self) -> PathBuf {
        self.dir.join("admin.kubeconfig")
    }
}

fn node_config(dir: &Path) -> minik8s_kubelet::Config {
    minik8s_kubelet::Config::new(NODE, dir, IpAddr::V4(Ipv4Addr::LOCALHOST))
}

#[derive(Clone)]
struct Server {
    dir: PathBuf,
    arguments: Vec<String>,
    child: Arc<Mutex<Option<Child>>>,
}

impl Server {
    fn new(dir: &Path) -> Server {
        let port = || TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port().to_string();
        // Unlikely to meet another test process, certain not to meet another test of this one.
        let unique = std::process::id() * 4 + NEXT_NETWORK.fetch_add(1, Ordering::Relaxed) % 4;
        let (high, low) = (unique / 256 % 50, unique % 256);
        let arguments = [
            ("--port", port()),
            ("--node-port", port()),
            ("--http-port", port()),
            ("--https-port", port()),
            ("--node-name", NODE.to_owned()),
            ("--cluster-cidr", format!("10.{}.{low}.0/24", 150 + high)),
            ("--service-cidr", format!("10.{}.{low}.0/24", 100 + high)),
        ];
        let arguments = arguments.into_iter().flat_map(|(flag, value)| [flag.to_owned(), value]).collect();
        Server { dir: dir.to_owned(), arguments, child: Arc::default() }
    }

    fn start(&self) {
        let log = std::fs::File::options().create(true).append(true).open(self.dir.join("log")).unwrap();
        let mut command = Command::new(BINARY);
        command.arg("server").arg("--data-dir").arg(&self.dir).args(&self.arguments);
        command.env("NO_COLOR", "1").stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
        *self.child.lock().unwrap() = Some(command.spawn().unwrap());
    }

    /// Waits until the node is ready.
    async fn ready(&self) {
        let begun = Instant::now();
        loop {
            if let Some(client) = self.client().await {
                let nodes: kube::Api<k8s_openapi::api::core::v1::Node> = kube::Api::all(client);
                let node = nodes.get_opt(NODE).await.ok().flatten().and_then(|node| node.status);
                let mut conditions = node.and_then(|status| status.conditions).into_iter().flatten();
                if conditions.any(|c| c.type_ == "Ready" && c.status == "True") {
                    return;
                }
            }
            let ended = self.child.lock().unwrap().as_mut().is_none_or(|c| c.try_wait().unwrap().is_some());
            if ended || begun.elapsed() > PATIENCE {
                let log = std::fs::read_to_string(self.dir.join("log")).unwrap_or_default();
                panic!("the server is not ready:\n{log}");
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    async fn client(&self) -> Option<kube::Client> {
        let kubeconfig = Kubeconfig::read_from(self.dir.join("admin.kubeconfig")).ok()?;
        let options = KubeConfigOptions::default();
        let config = kube::Config::from_custom_kubeconfig(kubeconfig, &options).await.ok()?;
        kube::Client::try_from(config).ok()
    }

    fn signal(&self, name: &str) {
        if let Some(child) = self.child.lock().unwrap().as_ref() {
            let pid = nix::unistd::Pid::from_raw(child.id() as i32);
            let _ = nix::sys::signal::kill(
                pid,
                format!("SIG{name}").parse::<nix::sys::signal::Signal>().unwrap(),
            );
        }
    }

    fn reap(&self) {
        if let Some(mut child) = self.child.lock().unwrap().take() {
            child.wait().unwrap();
        }
    }

    fn stop(&self) {
        self.signal("TERM");
        self.reap();
    }
}

/// What a node taken apart must not leave: processes, mounts, cgroups, interfaces, rules.
fn left_behind(dir: &Path) -> Vec<String> {
    let mut found = Vec::new();
    let config = node_config(dir);
    let (dir, instance) = (dir.to_str().unwrap(), config.instance());
    let mounts = std::fs::read_to_string("/proc/self/mounts").unwrap();
    found.extend(mounts.lines().filter(|line| line.contains(dir)).map(str::to_owned));
    for entry in std::fs::read_dir("/proc").unwrap().flatten() {
        let command = std::fs::read_to_string(entry.path().join("cmdline")).unwrap_or_default();
        if command.contains(dir) {
            found.push(format!("{}: {}", entry.path().display(), command.replace('\0', " ")));
        }
    }
    let interface = format!("/sys/class/net/mk-{instance}");
    let cgroups =
        ["", "/memory", "/cpu", "/pids"].map(|c| format!("/sys/fs/cgroup{c}{}", config.cgroup_root()));
    found.extend(cgroups.into_iter().chain([interface]).filter(|path| Path::new(path).exists()));
    for listing in [["nft", "list", "tables"], ["iptables-save", "-t", "nat"]] {
        let output = Command::new(listing[0]).args(&listing[1..]).stderr(Stdio::null()).output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        found.extend(text.lines().filter(|line| line.contains(&instance)).map(str::to_owned));
    }
    found
}
