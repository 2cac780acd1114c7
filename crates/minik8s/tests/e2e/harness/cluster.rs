//! A server with its node in temporary data dirs, taken apart at the end, also after a panic.

use std::future::Future;
use std::net::{IpAddr, Ipv4Addr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use kube::config::{KubeConfigOptions, Kubeconfig};
use minik8s_kubelet::image::{Recipe, busybox, web};

use super::ranges::Ranges;

pub const NODE: &str = "test-node";

/// Long enough for a busy machine.
pub const TIMEOUT: Duration = Duration::from_secs(180);
const BINARY: &str = env!("CARGO_BIN_EXE_minik8s");

pub struct Cluster {
    /// The server's data dir.
    pub dir: PathBuf,
    server: Program,
    /// The node, where it is a program of its own.
    agent: Option<Program>,
}

pub fn block_on<T>(work: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(work)
}

/// Runs a test on a cluster of its own, in one process. Several may run side by side, in one process or in many.
pub fn on_a_cluster(test: impl FnOnce(Arc<Cluster>) + Send + 'static) {
    on_a_cluster_with(&[], test);
}

/// The same with some flags besides.
pub fn on_a_cluster_with(flags: &[&str], test: impl FnOnce(Arc<Cluster>) + Send + 'static) {
    let dir = tempfile::Builder::new().prefix("mk8s-node-").tempdir().unwrap();
    let network = Network::new();
    // A machine whose disk is nearly full is no reason for these pods to go.
    let calm = ["--eviction-hard", ""].map(str::to_owned);
    let flags = flags.iter().map(|flag| (*flag).to_owned()).collect();
    let node = [network.server(), network.node(), calm.to_vec(), flags].concat();
    let server = Program::new("server", dir.path(), node);
    on(Cluster { dir: dir.path().to_owned(), server, agent: None }, test);
}

/// The same with a data dir to which a link leads.
pub fn on_a_linked_cluster(test: impl FnOnce(Arc<Cluster>) + Send + 'static) {
    let dir = tempfile::Builder::new().prefix("mk8s-node-").tempdir().unwrap();
    let (real, link) = (dir.path().join("real"), dir.path().join("link"));
    std::fs::create_dir(&real).unwrap();
    std::os::unix::fs::symlink(&real, &link).unwrap();
    let network = Network::new();
    let calm = ["--eviction-hard", ""].map(str::to_owned);
    let server = Program::new("server", &link, [network.server(), network.node(), calm.to_vec()].concat());
    on(Cluster { dir: link, server, agent: None }, test);
}

/// The same with the node in a process of its own, on a disk of its own of that many MiB.
pub fn on_a_cluster_apart(megabytes: u32, test: impl FnOnce(Arc<Cluster>) + Send + 'static) {
    let dir = tempfile::Builder::new().prefix("mk8s-node-").tempdir().unwrap();
    let (disk, network) = (Disk::mount(&dir.path().join("disk"), megabytes), Network::new());
    let control = dir.path().join("server");
    std::fs::create_dir(&control).unwrap();
    let alone = ["--no-agent", "--node-grace", "8"].map(str::to_owned);
    let server = Program::new("server", &control, [network.server(), alone.to_vec()].concat());
    let join = [
        ("--server", format!("https://{}:{}", outward_address(), network.port)),
        ("--token", format!("@{}", control.join("join-token").display())),
    ];
    let join = join.into_iter().flat_map(|(flag, value)| [flag.to_owned(), value]).collect();
    let agent = Program::new("agent", &disk.0.join("node"), [network.node(), join].concat());
    on(Cluster { dir: control, server, agent: Some(agent) }, test);
}

/// Lines of a program's log that a failed test shows.
const LAST_WORDS: usize = 20;

fn on(cluster: Cluster, test: impl FnOnce(Arc<Cluster>) + Send + 'static) {
    assert!(nix::unistd::Uid::effective().is_root(), "these tests need root");
    let cluster = Arc::new(cluster);
    let programs: Vec<_> = cluster.agent.iter().chain([&cluster.server]).cloned().collect();
    let node_dir = cluster.node_dir().to_owned();
    // A panic of that thread does not skip what follows.
    let work = std::thread::spawn(move || {
        cluster.server.start(&[]);
        if let Some(agent) = &cluster.agent {
            cluster.wait_for_token();
            agent.start(&[]);
        }
        block_on(cluster.ready());
        for (file, recipe) in [("busybox.tar", busybox()), ("web.tar", web())] {
            load_image(cluster.node_dir(), file, recipe.unwrap());
        }
        test(cluster);
    });
    let ended = work.join();
    programs.iter().for_each(Program::stop);
    let teardown = Command::new(BINARY).arg("teardown").arg("--data-dir").arg(&node_dir).output().unwrap();
    let left = left_behind(&node_dir);
    if let Err(panic) = ended {
        for program in &programs {
            let log = std::fs::read_to_string(program.dir.join("log")).unwrap_or_default();
            let lines: Vec<_> = log.lines().collect();
            let last = &lines[lines.len().saturating_sub(LAST_WORDS)..];
            println!("the last words of the {}:", program.role);
            last.iter().for_each(|line| println!("{line:.240}"));
        }
        // Said again, and on both streams: the end of a long output is what people get to see.
        println!("{}", message(&*panic));
        panic!("{}", message(&*panic));
    }
    assert_eq!(left, Vec::<String>::new(), "{}", String::from_utf8_lossy(&teardown.stderr));
}

/// What a panic said.
pub fn message(panic: &(dyn std::any::Any + Send)) -> &str {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("no words")
}

/// A small file system in memory.
struct Disk(PathBuf);

impl Disk {
    fn mount(path: &Path, megabytes: u32) -> Disk {
        std::fs::create_dir_all(path.join("node")).unwrap();
        let size = format!("size={megabytes}m");
        let mount =
            Command::new("mount").args(["-t", "tmpfs", "-o", &size, "minik8s-test"]).arg(path).status();
        assert!(mount.unwrap().success(), "cannot mount a tmpfs");
        std::fs::create_dir_all(path.join("node")).unwrap();
        Disk(path.to_owned())
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}

/// The address that others see; nothing is sent.
fn outward_address() -> IpAddr {
    let socket = std::net::UdpSocket::bind("0.0.0.0:0").unwrap();
    let outward = socket.connect("192.0.2.1:9").and_then(|()| socket.local_addr());
    outward.map_or(IpAddr::V4(Ipv4Addr::LOCALHOST), |address| address.ip())
}

/// Writes an archive into the data dir and gives it to the node.
pub fn load_image(dir: &Path, file: &str, recipe: Recipe) {
    let path = dir.join(file);
    recipe.write(std::fs::File::create(&path).unwrap()).unwrap();
    load_archive(dir, &path);
}

pub fn load_archive(dir: &Path, archive: &Path) {
    let load =
        Command::new(BINARY).args(["image", "load", "--data-dir"]).arg(dir).arg(archive).output().unwrap();
    assert!(load.status.success(), "{load:?}");
}

impl Cluster {
    /// kill -9 of the control plane, and of the agent with it where they are one.
    pub fn crash_server(&self) {
        self.server.signal("KILL");
        self.server.reap();
    }

    pub async fn restart_server(&self) {
        self.server.start(&[]);
        self.ready().await;
    }

    /// The same with another program, as after an upgrade.
    pub async fn restart_server_as(&self, binary: &Path) {
        *self.server.binary.lock().unwrap() = binary.to_owned();
        self.restart_server().await;
    }

    /// kill -9 of an agent that is a program of its own.
    pub fn crash_agent(&self) {
        let agent = self.agent.as_ref().unwrap();
        agent.signal("KILL");
        agent.reap();
    }

    /// Starts it again, with these flags besides. It is not waited for.
    pub fn start_agent(&self, flags: &[&str]) {
        self.agent.as_ref().unwrap().start(flags);
    }

    pub async fn client(&self) -> kube::Client {
        self.try_client().await.unwrap()
    }

    pub fn config(&self) -> minik8s_kubelet::Config {
        node_config(self.node_dir())
    }

    pub fn node_dir(&self) -> &Path {
        &self.agent.as_ref().unwrap_or(&self.server).dir
    }

    /// Where the node's router listens.
    pub fn http_port(&self) -> &str {
        let mut arguments = self.server.arguments.iter().skip_while(|argument| *argument != "--http-port");
        arguments.nth(1).unwrap()
    }

    pub fn kubeconfig(&self) -> PathBuf {
        self.dir.join("admin.kubeconfig")
    }

    /// Waits until the node is ready.
    pub async fn ready(&self) {
        let begun = Instant::now();
        while !self.is_ready().await {
            let programs = self.agent.iter().chain([&self.server]);
            if let Some(ended) = programs.into_iter().find(|p| p.has_ended() || begun.elapsed() > TIMEOUT) {
                let log = std::fs::read_to_string(ended.dir.join("log")).unwrap_or_default();
                panic!("the {} is not ready:\n{log}", ended.role);
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    async fn is_ready(&self) -> bool {
        let Some(client) = self.try_client().await else { return false };
        let nodes: kube::Api<k8s_openapi::api::core::v1::Node> = kube::Api::all(client);
        let node = nodes.get_opt(NODE).await.ok().flatten().and_then(|node| node.status);
        let mut conditions = node.and_then(|status| status.conditions).into_iter().flatten();
        conditions.any(|c| c.type_ == "Ready" && c.status == "True")
    }

    async fn try_client(&self) -> Option<kube::Client> {
        let kubeconfig = Kubeconfig::read_from(self.kubeconfig()).ok()?;
        let options = KubeConfigOptions::default();
        let config = kube::Config::from_custom_kubeconfig(kubeconfig, &options).await.ok()?;
        kube::Client::try_from(config).ok()
    }

    fn wait_for_token(&self) {
        let begun = Instant::now();
        while !self.dir.join("join-token").exists() {
            assert!(begun.elapsed() < TIMEOUT && !self.server.has_ended(), "the server makes no token");
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

fn node_config(dir: &Path) -> minik8s_kubelet::Config {
    let dir = minik8s_datadir::resolve(dir).unwrap();
    minik8s_kubelet::Config::new(NODE, &dir, IpAddr::V4(Ipv4Addr::LOCALHOST))
}

/// Ports and addresses that nobody else uses.
struct Network {
    port: String,
    ranges: Ranges,
}

impl Network {
    fn new() -> Network {
        Network { port: free_port(), ranges: Ranges::claim() }
    }

    fn server(&self) -> Vec<String> {
        let arguments = [
            ("--port", self.port.clone()),
            ("--cluster-cidr", self.ranges.pods()),
            ("--service-cidr", self.ranges.services()),
        ];
        arguments.into_iter().flat_map(|(flag, value)| [flag.to_owned(), value]).collect()
    }

    fn node(&self) -> Vec<String> {
        let ports = ["--node-port", "--http-port", "--https-port"];
        let ports = ports.into_iter().flat_map(|flag| [flag.to_owned(), free_port()]);
        ports.chain(["--node-name".to_owned(), NODE.to_owned()]).collect()
    }
}

fn free_port() -> String {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port().to_string()
}

/// minik8s as a server or an agent, which can be started again and again.
#[derive(Clone)]
struct Program {
    role: &'static str,
    dir: PathBuf,
    arguments: Vec<String>,
    child: Arc<Mutex<Option<Child>>>,
    /// What it is started from the next time.
    binary: Arc<Mutex<PathBuf>>,
}

impl Program {
    fn new(role: &'static str, dir: &Path, arguments: Vec<String>) -> Program {
        let binary = Arc::new(Mutex::new(BINARY.into()));
        Program { role, dir: dir.to_owned(), arguments, child: Arc::default(), binary }
    }

    fn start(&self, more: &[&str]) {
        let log = std::fs::File::options().create(true).append(true).open(self.dir.join("log")).unwrap();
        let mut command = Command::new(&*self.binary.lock().unwrap());
        command.arg(self.role).arg("--data-dir").arg(&self.dir).args(&self.arguments).args(more);
        command.env_remove("NO_COLOR").stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
        *self.child.lock().unwrap() = Some(command.spawn().unwrap());
    }

    fn has_ended(&self) -> bool {
        self.child.lock().unwrap().as_mut().is_none_or(|child| child.try_wait().unwrap().is_some())
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
    let dir = config.data_dir.clone();
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
