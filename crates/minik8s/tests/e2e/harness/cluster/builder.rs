//! The one way in which tests make a cluster of a server and a real node: what it is like, then [`Builder::run`].

use std::net::{IpAddr, Ipv4Addr};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use minik8s_kubelet::image::{busybox, web};

use super::leftovers::left_behind;
use super::{Cluster, NODE, block_on, load_image};
use crate::harness::program::{BINARY, Program, free_port, owned};
use crate::harness::ranges::Ranges;

/// Lines of a program's log that a failed test shows.
const LAST_LINES: usize = 20;

#[derive(Default)]
pub struct Builder {
    flags: Vec<String>,
    is_linked: bool,
    disk: Option<u32>,
}

impl Builder {
    /// More flags for whichever process is the node.
    pub fn flags(mut self, flags: &[&str]) -> Builder {
        self.flags.extend(owned(flags));
        self
    }

    /// A link leads to the data dir.
    pub fn linked(self) -> Builder {
        Builder { is_linked: true, ..self }
    }

    /// The node is a process of its own, on a disk of its own of that many MiB.
    pub fn node_apart(self, megabytes: u32) -> Builder {
        Builder { disk: Some(megabytes), ..self }
    }

    /// Makes the cluster, with the images busybox and web on its node, runs the test, takes the cluster apart, also after a
    /// panic, and looks for what is left. Several may run side by side, in one process or in many.
    pub fn run(self, test: impl FnOnce(Arc<Cluster>) + Send + 'static) {
        assert!(nix::unistd::Uid::effective().is_root(), "these tests need root");
        let dir = tempfile::Builder::new().prefix("mk8s-node-").tempdir().unwrap();
        let ranges = Ranges::claim();
        match self.disk {
            Some(megabytes) => {
                let disk = Disk::mount(&dir.path().join("disk"), megabytes);
                on(self.apart(dir.path(), &disk.0.join("node"), &ranges), test);
            }
            None => on(self.beside(dir.path(), &ranges), test),
        }
    }

    fn beside(self, dir: &Path, ranges: &Ranges) -> Cluster {
        let data = if self.is_linked { dir.join("link") } else { dir.to_owned() };
        if self.is_linked {
            std::fs::create_dir(dir.join("real")).unwrap();
            std::os::unix::fs::symlink(dir.join("real"), &data).unwrap();
        }
        // A machine whose disk is nearly full is no reason for these pods to go.
        let calm = owned(&["--eviction-hard", ""]);
        let arguments = [server_flags(&data, free_port(), ranges), node_flags(), calm, self.flags].concat();
        let server = Program::new("server", &data.join("log"), arguments);
        Cluster { node_dir: data.clone(), dir: data, server, agent: None }
    }

    fn apart(self, dir: &Path, node_dir: &Path, ranges: &Ranges) -> Cluster {
        let (control, port) = (dir.join("server"), free_port());
        std::fs::create_dir(&control).unwrap();
        let alone = owned(&["--no-agent", "--node-grace", "8"]);
        let arguments = [server_flags(&control, port, ranges), alone].concat();
        let server = Program::new("server", &control.join("log"), arguments);
        let url = format!("https://{}:{port}", outward_address());
        let token = format!("@{}", control.join("join-token").display());
        let data_dir = node_dir.to_str().unwrap();
        let join = owned(&["--data-dir", data_dir, "--server", &url, "--token", &token]);
        let agent = Program::new("agent", &node_dir.join("log"), [join, node_flags(), self.flags].concat());
        Cluster { dir: control, node_dir: node_dir.to_owned(), server, agent: Some(agent) }
    }
}

fn server_flags(data_dir: &Path, port: u16, ranges: &Ranges) -> Vec<String> {
    let (port, data_dir) = (port.to_string(), data_dir.to_str().unwrap());
    let (pods, services) = (ranges.pods(), ranges.services());
    owned(&["--data-dir", data_dir, "--port", &port, "--cluster-cidr", &pods, "--service-cidr", &services])
}

fn node_flags() -> Vec<String> {
    let ports = ["--node-port", "--http-port", "--https-port"];
    let ports = ports.into_iter().flat_map(|flag| [flag.to_owned(), free_port().to_string()]);
    ports.chain(owned(&["--node-name", NODE])).collect()
}

fn on(cluster: Cluster, test: impl FnOnce(Arc<Cluster>) + Send + 'static) {
    let cluster = Arc::new(cluster);
    let programs: Vec<_> = cluster.agent.iter().chain([&cluster.server]).cloned().collect();
    let node_dir = cluster.node_dir.clone();
    // A panic of that thread does not skip what follows.
    let work = std::thread::spawn(move || {
        cluster.server.start();
        if let Some(agent) = &cluster.agent {
            cluster.wait_for_token();
            agent.start();
        }
        block_on(cluster.ready());
        for (file, recipe) in [("busybox.tar", busybox()), ("web.tar", web())] {
            load_image(&cluster.node_dir, file, recipe.unwrap());
        }
        test(cluster);
    });
    let ended = work.join();
    for program in &programs {
        program.stop();
    }
    let teardown = Command::new(BINARY).arg("teardown").arg("--data-dir").arg(&node_dir).output().unwrap();
    let left = left_behind(&node_dir);
    if let Err(panic) = ended {
        programs.iter().for_each(show_log);
        // Said again, and on both streams: the end of a long output is what people get to see.
        println!("{}", message(&*panic));
        panic!("{}", message(&*panic));
    }
    assert_eq!(left, Vec::<String>::new(), "{}", String::from_utf8_lossy(&teardown.stderr));
}

/// The end of what a program said.
pub fn show_log(program: &Program) {
    let log = program.log();
    let lines: Vec<_> = log.lines().collect();
    println!("the last lines of the {}:", program.role);
    lines[lines.len().saturating_sub(LAST_LINES)..].iter().for_each(|line| println!("{line:.800}"));
}

/// What a panic said.
fn message(panic: &(dyn std::any::Any + Send)) -> &str {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("no words")
}

/// A small file system in memory.
struct Disk(PathBuf);

impl Disk {
    fn mount(path: &Path, megabytes: u32) -> Disk {
        std::fs::create_dir_all(path).unwrap();
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
