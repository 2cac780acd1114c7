//! GPU jobs on a real node and a real Slurm: through kubectl and `minik8s gpu`, with whatever can die dying.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

#[path = "../node/cluster.rs"]
#[allow(dead_code, reason = "the node's tests need more of it")]
mod cluster;
mod slurm;

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use cluster::{Cluster, on_a_cluster};
use serde_json::{Value, json};
use slurm::Slurm;

const BINARY: &str = env!("CARGO_BIN_EXE_minik8s");
const TIMEOUT: Duration = Duration::from_secs(180);

#[test]
fn gpu_jobs_on_a_real_slurm() {
    let slurm = Slurm::start();
    on_a_cluster(move |cluster| {
        slurm.ready();
        let world = World { cluster: &cluster, slurm: &slurm };
        make_image(&cluster);
        world.connect();
        world.many_ends();
        world.nothing_is_left();
        world.faults();
        world.nothing_is_left();
        world.wrong_key_is_told();
    });
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

struct World<'a> {
    cluster: &'a Cluster,
    slurm: &'a Slurm,
}

impl World<'_> {
    fn connect(&self) {
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

    fn slurm_cluster(&self, name: &str, secret: &str) -> Value {
        json!({
            "apiVersion": "minik8s.io/v1", "kind": "SlurmCluster", "metadata": {"name": name},
            "spec": {
                "host": self.slurm.address, "port": 2222, "user": "alice", "hostKey": self.slurm.file("host_key.pub"),
                "secretRef": {"name": secret},
            },
        })
    }

    /// Every way in which a job ends, all at once, while the programs that follow them are killed.
    fn many_ends(&self) {
        let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/gpu");
        let [matmul, check] = ["matmul.cu", "check.h"].map(|file| examples.join(file).display().to_string());
        let build = "nvcc -O1 -o matmul matmul.cu";
        let run = "./matmul 20 30 10 | tee answer.txt";
        let submit = ["gpu", "submit", &matmul, &check, "--gpus", "1", "--build", build, "--run", run];
        let said = self.minik8s(&[&submit[..], &["--results", "answer*.txt"]].concat());
        assert_eq!(said, "gpujob.minik8s.io/matmul created\n");
        let hostile = "it's $(touch pwned) `touch pwned`; touch pwned\n#SBATCH --nodes=99";
        for (name, spec) in [
            (
                "broken",
                json!({"source": {"files": {"a.cu": "int main() { return nothing; }\n"}}, "build": "nvcc a.cu", "run": "true"}),
            ),
            ("three", json!({"run": "echo before; exit 3"})),
            ("killed", json!({"run": "kill -9 $$"})),
            ("array", json!({"run": "test $SLURM_ARRAY_TASK_ID != 2", "slurm": {"array": "0-3%2"}})),
            ("refused", json!({"run": "true", "slurm": {"partition": "nope"}})),
            ("again", json!({"run": "echo x >>../tries; test $(wc -l <../tries) = 2", "backoffLimit": 3})),
            ("missing", json!({"run": "true", "results": {"files": ["*.csv"]}})),
            (
                "hostile",
                json!({
                    "source": {"files": {"it's $(id); `id`": "x"}},
                    "run": "printf %s \"$VALUE\" >value.txt",
                    "slurm": {"environment": {"VALUE": hostile}},
                    "results": {"files": ["value.txt", "pwned", "it*"]},
                }),
            ),
        ] {
            self.apply(&gpu_job(name, spec));
        }
        // At whatever they are: once while most upload or compile, once while most have been submitted.
        for job in ["three", "array"] {
            self.until(&format!("{job} has begun"), || !self.state(job).is_empty());
            self.kill_programs();
        }
        let check = |name: &str, state: &str, reason: &str| {
            self.until(&format!("{name} is {state}"), || self.state(name) == state);
            let job = self.get("gpujob", name);
            assert_eq!(job["status"]["reason"].as_str().unwrap_or(""), reason, "{job:#}");
            job
        };
        let matmul = check("matmul", "Completed", "");
        assert_eq!(matmul["status"]["exitCode"], 0);
        assert!(
            matmul["status"]["accounting"]["allocTRES"].as_str().unwrap().contains("gres/gpu=1"),
            "{matmul:#}"
        );
        let broken = check("broken", "Failed", "CompileError");
        let words = broken["status"]["message"].as_str().unwrap();
        assert!(words.contains("a.cu:1:") && words.contains("nothing"), "{words}");
        assert_eq!(check("three", "Failed", "NonZeroExitCode")["status"]["exitCode"], 3);
        assert_eq!(check("killed", "Failed", "Signal")["status"]["signal"], 9);
        let array = check("array", "Failed", "NonZeroExitCode");
        assert_eq!(array["status"]["message"], "1 of 4 tasks did not succeed: 2");
        let refused = check("refused", "Failed", "SubmissionRefused");
        assert!(refused["status"]["message"].as_str().unwrap().contains("nvalid partition"), "{refused:#}");
        assert_eq!(check("again", "Completed", "")["status"]["attempt"], 1);
        check("missing", "Failed", "ResultsMissing");
        check("hostile", "Failed", "ResultsMissing");
        let table = self.kubectl(&["get", "gpujobs"]);
        assert!(table.contains("SLURM-ID") && table.contains("Failed (exit code 3)"), "{table}");
        let list = self.minik8s(&["gpu", "list"]);
        assert!(list.contains("matmul") && list.contains("Completed") && list.contains("dgx2"), "{list}");

        // What it printed, what it brought back, and what was submitted.
        assert!(self.minik8s(&["gpu", "logs", "matmul"]).contains("PASS"));
        let dir = self.cluster.dir.join("results");
        self.minik8s(&["gpu", "results", "matmul", "-o", dir.to_str().unwrap()]);
        assert!(std::fs::read_to_string(dir.join("answer.txt")).unwrap().contains("matmul 20x30x10"));
        self.minik8s(&["gpu", "results", "hostile", "-o", dir.to_str().unwrap()]);
        assert_eq!(std::fs::read_to_string(dir.join("value.txt")).unwrap(), hostile);
        assert!(dir.join("it's $(id); `id`").exists() && !dir.join("pwned").exists());
        let script = self.minik8s(&["gpu", "script", "matmul"]);
        assert!(script.contains("#SBATCH --gpus=1\n") && script.contains("./matmul 20 30 10"), "{script}");

        // Exactly as many as were asked for, whoever was killed: "again" twice, "refused" and "broken" never ran.
        let names = self.slurm.run("sacct -a -n -X -P -S now-1hour -o JobName,State");
        for (name, count) in
            [("matmul", 1), ("three", 1), ("killed", 1), ("array", 4), ("again", 2), ("missing", 1)]
        {
            let found = names.lines().filter(|line| line.starts_with(&format!("{name}-"))).count();
            assert_eq!(found, count, "{name} in\n{names}");
        }
    }

    /// Queueing, a cut, a crash of Slurm's controller, of the server, cancelling and deleting.
    fn faults(&self) {
        self.apply(&gpu_job("late", json!({"run": "sleep 600", "slurm": {"time": "00:30:00"}})));
        self.until("late runs", || self.state("late") == "Running");
        // Slurm's limits are minutes; this one has passed.
        let late = self.get("gpujob", "late")["status"]["slurmID"].clone();
        self.slurm.run(&format!("scontrol update job={late} timelimit=0"));
        self.until("late is over", || self.state("late") == "TimedOut");

        let all = json!({"gpus": 8});
        self.apply(&gpu_job("first", json!({"run": "echo started; sleep 600", "slurm": all})));
        self.until("first runs", || self.state("first") == "Running");
        self.apply(&gpu_job("second", json!({"run": "sleep 600", "slurm": all})));
        self.until("second waits", || {
            let job = self.get("gpujob", "second");
            job["status"]["state"] == "Queued"
                && ["Resources", "Priority"].contains(&job["status"]["reason"].as_str().unwrap_or(""))
        });
        self.until("output comes while it runs", || {
            self.minik8s(&["gpu", "logs", "first"]).contains("started")
        });

        self.slurm.link("down");
        self.until("first is unreachable", || {
            self.get("gpujob", "first")["status"]["unreachableSince"].is_string()
        });
        self.slurm.link("up");
        self.until("first is reachable", || {
            let job = self.get("gpujob", "first");
            job["status"]["state"] == "Running" && job["status"]["unreachableSince"].is_null()
        });
        self.slurm.run("kill -9 $(cat /run/slurmctld.pid); slurmctld");
        self.cluster.crash_server();
        self.kill_programs();
        cluster::block_on(self.cluster.restart_server());
        self.until("first still runs", || self.state("first") == "Running");

        self.minik8s(&["gpu", "cancel", "first"]);
        self.until("first is cancelled", || self.state("first") == "Cancelled");
        self.kubectl(&["delete", "gpujob", "second", "--timeout=120s"]);
        let left = self.slurm.run("squeue -h -o %j");
        assert_eq!(left, "", "nothing runs there any more");
        let count = self.slurm.run("sacct -a -n -X -P -S now-1hour -o JobName");
        // Slurm's controller loses what it has not yet saved when it is killed: never more than once is what counts.
        for (name, least) in [("first", 1), ("second", 0)] {
            let found = count.lines().filter(|line| line.starts_with(&format!("{name}-"))).count();
            assert!((least..=1).contains(&found), "{name} in\n{count}");
        }
    }

    fn nothing_is_left(&self) {
        self.until("the cluster is clean", || {
            self.slurm
                .run("ls -A /$(getent passwd alice | cut -d: -f6)/.minik8s 2>/dev/null || true")
                .is_empty()
        });
    }

    fn wrong_key_is_told(&self) {
        let other = self.cluster.dir.join("other");
        let made =
            Command::new("ssh-keygen").args(["-q", "-t", "ed25519", "-N", "", "-f"]).arg(&other).status();
        assert!(made.unwrap().success());
        self.kubectl(&[
            "create",
            "secret",
            "generic",
            "wrong",
            &format!("--from-file=ssh-privatekey={}", other.display()),
        ]);
        self.apply(&self.slurm_cluster("locked", "wrong"));
        let mut changed = self.slurm_cluster("changed", "pi-key");
        changed["spec"]["hostKey"] = std::fs::read_to_string(other.with_extension("pub")).unwrap().into();
        self.apply(&changed);
        for (name, words) in [("locked", "key of the Secret"), ("changed", "spec.hostKey")] {
            self.until(&format!("{name} says why"), || {
                let condition = self.get("slurmcluster", name)["status"]["conditions"][0].clone();
                condition["status"] == "False"
                    && condition["message"].as_str().is_some_and(|text| text.contains(words))
            });
        }
    }

    /// kill -9 of every program that follows a job here, which its node starts again.
    fn kill_programs(&self) {
        for entry in std::fs::read_dir("/proc").unwrap().flatten() {
            let command = std::fs::read_to_string(entry.path().join("cmdline")).unwrap_or_default();
            // In the pods of this test: its program is not on the host's disk under this name.
            let root: PathBuf = std::fs::read_link(entry.path().join("exe")).unwrap_or_default();
            if command.starts_with("/minik8s\0slurm-submit\0")
                && root == Path::new("/minik8s")
                && self.is_ours(&entry.path())
            {
                let pid: i32 = entry.file_name().to_string_lossy().parse().unwrap();
                let _ = nix::sys::signal::kill(
                    nix::unistd::Pid::from_raw(pid),
                    nix::sys::signal::Signal::SIGKILL,
                );
            }
        }
    }

    /// Its volumes are below our data dir.
    fn is_ours(&self, process: &Path) -> bool {
        let mounts = std::fs::read_to_string(process.join("mountinfo")).unwrap_or_default();
        mounts.contains(self.cluster.dir.to_str().unwrap())
    }

    fn state(&self, job: &str) -> String {
        self.get("gpujob", job)["status"]["state"].as_str().unwrap_or("").to_owned()
    }

    fn get(&self, kind: &str, name: &str) -> Value {
        serde_json::from_str(&self.kubectl(&["get", kind, name, "-o", "json"])).unwrap()
    }

    #[track_caller]
    fn until(&self, what: &str, is_so: impl Fn() -> bool) {
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

    fn apply(&self, object: &Value) {
        let mut child = self.command("kubectl", &["apply", "-f", "-"]).stdin(Stdio::piped()).spawn().unwrap();
        std::io::Write::write_all(&mut child.stdin.take().unwrap(), object.to_string().as_bytes()).unwrap();
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success(), "{object:#}\n{}", String::from_utf8_lossy(&output.stderr));
    }

    fn kubectl(&self, arguments: &[&str]) -> String {
        let output = self.command("kubectl", arguments).output().unwrap();
        assert!(
            output.status.success(),
            "kubectl {arguments:?}: {}",
            String::from_utf8_lossy(&output.stderr)
        );
        String::from_utf8(output.stdout).unwrap()
    }

    fn minik8s(&self, arguments: &[&str]) -> String {
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

fn gpu_job(name: &str, spec: Value) -> Value {
    let mut spec = spec;
    if spec["source"].is_null() {
        spec["source"] = json!({"files": {"readme": "nothing to compile"}});
    }
    json!({"apiVersion": "minik8s.io/v1", "kind": "GPUJob", "metadata": {"name": name}, "spec": spec})
}
