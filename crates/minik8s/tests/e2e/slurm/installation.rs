//! A real Slurm cluster on this machine, in namespaces of its own, reachable from pods by one link.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use tempfile::TempDir;

use crate::harness::ranges::Number;

const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/e2e/slurm/cluster.sh");
const TIMEOUT: Duration = Duration::from_secs(120);

pub struct Slurm {
    namespaces: Child,
    dir: TempDir,
    link: String,
    pub address: String,
    _number: Number,
}

impl Slurm {
    /// Begins to start it; [`Slurm::ready`] waits for it.
    pub fn start() -> Slurm {
        let dir = TempDir::with_prefix("minik8s-slurm-").unwrap();
        std::fs::set_permissions(dir.path(), std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
        for folder in ["etc-slurm", "bin"] {
            std::fs::create_dir(dir.path().join(folder)).unwrap();
        }
        for key in ["key", "host_key"] {
            run(
                "ssh-keygen",
                &["-q", "-t", "ed25519", "-N", "", "-f", dir.path().join(key).to_str().unwrap()],
            );
        }
        // The stand-in for nvcc, where a real login node has a module.
        let cpu = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/gpu/cpu");
        for file in ["nvcc", "cuda_runtime.h"] {
            std::fs::copy(cpu.join(file), dir.path().join("bin").join(file)).unwrap();
        }
        let number = Number::claim("slurm", 50 * 256 * 64);
        let id = number.value;
        let net = format!("10.{}.{}.{}", 200 + id / 16384, id / 64 % 256, id % 64 * 4);
        let at = |last: u32| {
            let (head, tail) = net.rsplit_once('.').unwrap();
            format!("{head}.{}", tail.parse::<u32>().unwrap() + last)
        };
        let (gateway, address) = (at(1), at(2));
        let log = std::fs::File::create(dir.path().join("log")).unwrap();
        let namespaces = Command::new("unshare")
            .args([
                "--net",
                "--mount",
                "--mount-proc",
                "--pid",
                "--fork",
                "--uts",
                "--ipc",
                "--kill-child",
                "bash",
                SCRIPT,
            ])
            .arg(dir.path())
            .args([format!("{address}/30"), gateway.clone()])
            .stdin(Stdio::null())
            .stdout(log.try_clone().unwrap())
            .stderr(log)
            .spawn()
            .unwrap();
        let slurm = Slurm { namespaces, dir, link: format!("slurm{id}"), address, _number: number };
        let first = slurm.first_process();
        run("ip", &["link", "add", &slurm.link, "type", "veth", "peer", "name", "eth0", "netns", &first]);
        run("ip", &["address", "add", &format!("{gateway}/30"), "dev", &slurm.link]);
        run("ip", &["link", "set", &slurm.link, "up"]);
        slurm
    }

    pub fn ready(&self) {
        let begun = Instant::now();
        while !self.path("ready").exists() {
            let log = || std::fs::read_to_string(self.path("log")).unwrap_or_default();
            assert!(begun.elapsed() < TIMEOUT, "Slurm is not ready:\n{}", log());
            std::thread::sleep(Duration::from_millis(100));
        }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    pub fn file(&self, name: &str) -> String {
        std::fs::read_to_string(self.path(name)).unwrap()
    }

    /// Runs a command as root on the login node.
    pub fn run(&self, script: &str) -> String {
        let first = self.first_process();
        let output = Command::new("nsenter")
            .args(["-t", &first, "-m", "-n", "-p", "-u", "-i", "bash", "-c", script])
            .output()
            .unwrap();
        assert!(output.status.success(), "{script}: {output:?}");
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// Cuts or heals the way there.
    pub fn link(&self, state: &str) {
        run("ip", &["link", "set", &self.link, state]);
    }

    fn first_process(&self) -> String {
        let id = self.namespaces.id();
        let begun = Instant::now();
        loop {
            let children =
                std::fs::read_to_string(format!("/proc/{id}/task/{id}/children")).unwrap_or_default();
            if let Some(first) = children.split_whitespace().next() {
                return first.to_owned();
            }
            assert!(begun.elapsed() < TIMEOUT, "no namespaces");
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

impl Drop for Slurm {
    fn drop(&mut self) {
        if std::thread::panicking() {
            for log in ["log", "slurmctld.log", "sshd.log"] {
                let text = std::fs::read_to_string(self.path(log)).unwrap_or_default();
                let lines: Vec<&str> = text.lines().collect();
                println!("--- {log}\n{}", lines[lines.len().saturating_sub(30)..].join("\n"));
            }
        }
        // With the first process of the PID namespace all others end, and the link goes with the network's.
        let _ = self.namespaces.kill();
        let _ = self.namespaces.wait();
    }
}

fn run(program: &str, arguments: &[&str]) {
    let output = Command::new(program).args(arguments).output().unwrap();
    assert!(output.status.success(), "{program} {arguments:?}: {output:?}");
}
