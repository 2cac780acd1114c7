//! GPU jobs on a real node and a real Slurm: through kubectl and `minik8s gpu`, with whatever can die dying.

mod installation;
mod rest;
mod scale;
mod world;

use installation::Slurm;
use serde_json::json;
use std::path::Path;
use std::process::Command;
use world::{World, gpu_job};

use crate::harness::cluster::{Cluster, block_on};

#[test]
fn gpu_jobs_on_a_real_slurm() {
    let slurm = Slurm::start();
    Cluster::builder().run(move |cluster| {
        let world = World::connect(&cluster, &slurm);
        world.many_ends();
        world.nothing_is_left();
        world.faults();
        world.nothing_is_left();
        world.by_slurmrestd();
        world.nothing_is_left();
        world.wrong_key_is_told();
    });
}

impl World<'_> {
    /// Every way in which a job ends, all at once, while the programs that follow them are killed.
    fn many_ends(&self) {
        let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/gpu");
        let [matmul, check] = ["matmul.cu", "check.h"].map(|file| examples.join(file).display().to_string());
        let build = "nvcc -O1 -o matmul matmul.cu";
        let run = "./matmul 20 30 10 | tee answer.txt";
        let submit = ["gpu", "submit", &matmul, &check, "--gpus", "1", "--build", build, "--run", run];
        let said = self.minik8s(&[&submit[..], &["--results", "answer*.txt"]].concat());
        assert_eq!(said, "gpujob.minik8s.io/matmul created\n");
        self.submit_flat(&examples);
        self.kubectl(&["create", "configmap", "program", "--from-literal=program.sh=echo 1,2,3"]);
        self.apply(&json!({
            "apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "results"},
            "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Mi"}}},
        }));
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
            ("greedy", json!({"run": "true", "slurm": {"gres": "gpu:99"}})),
            ("long", json!({"run": "true", "slurm": {"time": "10:00:00"}})),
            (
                "kept",
                json!({
                    "source": {"configMapRef": {"name": "program"}},
                    "run": "sh program.sh >kept.csv",
                    "slurm": {"ntasks": 1, "gpusPerTask": 1, "nice": 5, "requeue": false, "mailType": "NONE"},
                    "results": {"files": ["*.csv"], "claim": "results"},
                }),
            ),
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
        assert_eq!(check("flat", "Completed", "")["spec"]["slurm"]["gres"], "gpu:1");
        let broken = check("broken", "Failed", "CompileError");
        let words = broken["status"]["message"].as_str().unwrap();
        assert!(words.contains("a.cu:1:") && words.contains("nothing"), "{words}");
        assert_eq!(check("three", "Failed", "NonZeroExitCode")["status"]["exitCode"], 3);
        assert_eq!(check("killed", "Failed", "Signal")["status"]["signal"], 9);
        let array = check("array", "Failed", "NonZeroExitCode");
        assert_eq!(array["status"]["message"], "1 of 4 tasks did not succeed: 2");
        let refused = check("refused", "Failed", "SubmissionRefused");
        assert!(refused["status"]["message"].as_str().unwrap().contains("nvalid partition"), "{refused:#}");
        let greedy = check("greedy", "Failed", "SubmissionRefused");
        assert!(greedy["status"]["message"].as_str().unwrap().contains("not available"), "{greedy:#}");
        let long = check("long", "Failed", "PartitionTimeLimit");
        assert!(long["status"]["message"].as_str().unwrap().contains("never start"), "{long:#}");
        let kept = check("kept", "Completed", "");
        assert_eq!(kept["status"]["results"][0]["name"], "kept.csv", "{kept:#}");
        assert_eq!(self.kept("kept/kept.csv"), "1,2,3\n");
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

        // Without its pod, a job still has its output: in what was brought back.
        self.kubectl(&["delete", "pod", "matmul-submit"]);
        assert!(self.minik8s(&["gpu", "logs", "-f", "matmul"]).contains("PASS"));
        assert!(self.minik8s(&["gpu", "logs", "flat"]).contains("PASS"));

        // Exactly as many as were asked for, whoever was killed: "again" twice, "refused" and "broken" never ran.
        let names = self.slurm.run("sacct -a -n -X -P -S now-1hour -o JobName,State");
        for (name, count) in
            [("matmul", 1), ("three", 1), ("killed", 1), ("array", 4), ("again", 2), ("missing", 1)]
        {
            let found = names.lines().filter(|line| line.starts_with(&format!("{name}-"))).count();
            assert_eq!(found, count, "{name} in\n{names}");
        }
    }

    /// The flat form, with the files of a folder.
    fn submit_flat(&self, examples: &Path) {
        let flat = json!({
            "name": "flat", "partition": "dgx2", "threadNum": 1, "taskPerNode": 1, "cpu_per_task": 2, "gpu-num": 1,
            "file": "result", "codePath": examples, "build": "nvcc -O1 -o matadd matadd.cu", "run": "./matadd 10 7",
        });
        let file = self.cluster.dir.join("flat.yaml");
        std::fs::write(&file, flat.to_string()).unwrap();
        self.minik8s(&["gpu", "submit", "-f", file.to_str().unwrap()]);
    }

    /// What is in the claim for results, as a pod that mounts it reads it.
    fn kept(&self, name: &str) -> String {
        let submit = self.get("pod", "kept-submit");
        let claim = json!({"name": "results", "persistentVolumeClaim": {"claimName": "results"}});
        self.apply(&json!({
            "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "reader"},
            "spec": {
                "restartPolicy": "Never", "volumes": [claim],
                "containers": [{
                    "name": "cat", "image": submit["spec"]["containers"][0]["image"], "command": ["/bin/cat", format!("/results/{name}")],
                    "volumeMounts": [{"name": "results", "mountPath": "/results"}],
                }],
            },
        }));
        self.until("the reader is over", || self.get("pod", "reader")["status"]["phase"] == "Succeeded");
        self.kubectl(&["logs", "reader"])
    }

    /// Queueing, a cut, a crash of Slurm's controller, of the server, cancelling and deleting.
    fn faults(&self) {
        self.crash_between_upload_and_submit();
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
        block_on(self.cluster.restart_server());
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

    /// The files are there, nothing is submitted, and everybody dies.
    fn crash_between_upload_and_submit(&self) {
        let build = "until [ -e ../../go ]; do sleep 0.1; done";
        self.apply(&gpu_job("slow", json!({"build": build, "run": "true"})));
        self.until("slow compiles", || self.state("slow") == "Compiling");
        self.cluster.crash_server();
        self.kill_programs();
        self.slurm.run("touch ~alice/.minik8s/go");
        block_on(self.cluster.restart_server());
        self.until("slow is over", || self.state("slow") == "Completed");
        let names = self.slurm.run("rm ~alice/.minik8s/go; sacct -a -n -X -P -S now-1hour -o JobName");
        assert_eq!(names.lines().filter(|name| name.starts_with("slow-")).count(), 1, "{names}");
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
}
