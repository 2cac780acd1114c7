//! A cluster of ours and one of Slurm's, connected: what every case needs.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::installation::Slurm;
use crate::harness::cluster::Cluster;

const BINARY: &str = env!("CARGO_BIN_EXE_minik8s");
const TIMEOUT: Duration = Duration::from_secs(180);

pub struct World<'a> {
    pub cluster: &'a Cluster,
    pub slurm: &'a Slurm,
}

impl<'a> World<'a> {
    /// Makes the SlurmCluster `pi`, and waits until it can be used.
    pub fn connect(cluster: &'a Cluster, slurm: &'a Slurm) -> World<'a> {
        slurm.ready();
        make_image(cluster);
        let world = World { cluster, slurm };
        world.log_in();
        world
    }

    fn log_in(&self) {
        let key = format!("--from-file=ssh-privatekey={}", self.slurm.path("key").display());
        self.kubectl(&["create", "secret", "generic", "pi-key", "--type=kubernetes.io/ssh-auth", &key]);
        self.apply(&self.slurm_cluster("pi", "pi-key"));
        self.until("the cluster is reachable", || {
            let cluster = self.get("slurmcluster", "pi");
            cluster["status"]["conditions"][0]["status"] == "True" && cluster["status"]["gpus"]["total"] == 8
        });
        let table = self.kubectl(&["get", "slurmclusters"]);
        assert!(table.contains("GPUS-FREE") && table.contains("8/8") && table.contains("dgx2"), "{table}");
    }

    pub fn slurm_cluster(&self, name: &str, secret: &str) -> Value {
        json!({
            "apiVersion": "minik8s.io/v1", "kind": "SlurmCluster", "metadata": {"name": name},
            "spec": {
                "host": self.slurm.address, "port": 2222, "user": "alice", "hostKey": self.slurm.file("host_key.pub"),
                "secretRef": {"name": secret},
            },
        })
    }

    pub fn nothing_is_left(&self) {
        self.until("the cluster is clean", || {
            self.slurm
                .run("ls -A /$(getent passwd alice | cut -d: -f6)/.minik8s 2>/dev/null || true")
                .is_empty()
        });
    }

    /// kill -9 of every program that follows a job here, which its node starts again.
    pub fn kill_programs(&self) {
        for program in self.programs() {
            let pid: i32 = program.file_name().unwrap().to_string_lossy().parse().unwrap();
            let _ =
                nix::sys::signal::kill(nix::unistd::Pid::from_raw(pid), nix::sys::signal::Signal::SIGKILL);
        }
    }

    /// Where `/proc` has the programs that follow jobs: in the pods of this test, where the program is not on the host's
    /// disk under its name.
    pub fn programs(&self) -> Vec<PathBuf> {
        let is_program = |process: &PathBuf| {
            let command = std::fs::read_to_string(process.join("cmdline")).unwrap_or_default();
            let exe: PathBuf = std::fs::read_link(process.join("exe")).unwrap_or_default();
            command.starts_with("/minik8s\0slurm-submit\0") && exe == Path::new("/minik8s")
        };
        self.pod_processes().into_iter().filter(is_program).collect()
    }

    /// All processes of our pods.
    pub fn pod_processes(&self) -> Vec<PathBuf> {
        let all = std::fs::read_dir("/proc").unwrap().flatten().map(|entry| entry.path());
        all.filter(|process| process.join("cmdline").exists() && self.is_ours(process)).collect()
    }

    /// Its volumes are below our data dir.
    fn is_ours(&self, process: &Path) -> bool {
        let mounts = std::fs::read_to_string(process.join("mountinfo")).unwrap_or_default();
        mounts.contains(self.cluster.dir.to_str().unwrap()) && mounts.contains(" /credentials ")
    }

    pub fn state(&self, job: &str) -> String {
        self.get("gpujob", job)["status"]["state"].as_str().unwrap_or("").to_owned()
    }

    pub fn get(&self, kind: &str, name: &str) -> Value {
        serde_json::from_str(&self.kubectl(&["get", kind, name, "-o", "json"])).unwrap()
    }

    #[track_caller]
    pub fn until(&self, what: &str, is_so: impl Fn() -> bool) {
        let begun = Instant::now();
        while !is_so() {
            if begun.elapsed() > TIMEOUT {
                panic!(
                    "{what}: not so after {TIMEOUT:?}\n{}",
                    self.kubectl(&["get", "gpujobs,slurmclusters,pods,events", "-o", "wide"])
                );
            }
            std::thread::sleep(Duration::from_millis(100));
        }
    }

    pub fn apply(&self, object: &Value) {
        let mut child = self.command("kubectl", &["apply", "-f", "-"]).stdin(Stdio::piped()).spawn().unwrap();
        std::io::Write::write_all(&mut child.stdin.take().unwrap(), object.to_string().as_bytes()).unwrap();
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success(), "{object:#}\n{}", String::from_utf8_lossy(&output.stderr));
    }

    pub fn kubectl(&self, arguments: &[&str]) -> String {
        let output = self.command("kubectl", arguments).output().unwrap();
        assert!(
            output.status.success(),
            "kubectl {arguments:?}: {}",
            String::from_utf8_lossy(&output.stderr)
        );
        String::from_utf8(output.stdout).unwrap()
    }

    pub fn minik8s(&self, arguments: &[&str]) -> String {
        let output = self.command(BINARY, arguments).output().unwrap();
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
        said
    }

    fn command(&self, program: &str, arguments: &[&str]) -> Command {
        let mut command = Command::new(program);
        command.args(arguments).env("KUBECONFIG", self.cluster.kubeconfig());
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }
}

/// The image as a node makes it, of a program without its symbols: those of a debug build are most of it.
fn make_image(cluster: &Cluster) {
    let small = cluster.dir.join("minik8s-small");
    let strip = Command::new("strip").arg("-o").arg(&small).arg(BINARY).status().unwrap();
    assert!(strip.success());
    let made = Command::new(&small)
        .args(["image", "slurm-submit", "--data-dir"])
        .arg(&cluster.dir)
        .output()
        .unwrap();
    assert!(made.status.success(), "{made:?}");
}

pub fn gpu_job(name: &str, spec: Value) -> Value {
    let mut spec = spec;
    if spec["source"].is_null() {
        spec["source"] = json!({"files": {"readme": "nothing to compile"}});
    }
    json!({"apiVersion": "minik8s.io/v1", "kind": "GPUJob", "metadata": {"name": name}, "spec": spec})
}
