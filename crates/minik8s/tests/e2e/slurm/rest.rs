//! The same without a login node: by slurmrestd and a token of Slurm's own.

use serde_json::{Value, json};

use super::world::{World, gpu_job};

impl World<'_> {
    pub fn by_slurmrestd(&self) {
        self.token_opens_the_cluster();
        self.apply(
            &json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "matmul-source"}, "data": {
                "matmul.cu": include_str!("../../../../../examples/gpu/matmul.cu"),
                "check.h": include_str!("../../../../../examples/gpu/check.h"),
            }}),
        );
        for (name, spec) in [
            (
                "rest-good",
                json!({
                    "source": {"configMapRef": {"name": "matmul-source"}}, "slurm": {"gpus": 1, "time": "00:05:00"},
                    "build": "nvcc -O1 -o matmul matmul.cu", "run": "./matmul 20 30 10",
                }),
            ),
            (
                "rest-broken",
                json!({"source": {"files": {"a.cu": "int main() { return nothing; }\n"}}, "build": "nvcc a.cu", "run": "true"}),
            ),
            ("rest-three", json!({"run": "echo before; exit 3"})),
            ("rest-array", json!({"run": "test $SLURM_ARRAY_TASK_ID != 1", "slurm": {"array": "0-2"}})),
            ("rest-refused", json!({"run": "true", "slurm": {"partition": "nope"}})),
            ("rest-files", json!({"run": "true", "results": {"files": ["*.csv"]}})),
            ("rest-endless", json!({"run": "sleep 600"})),
        ] {
            self.apply(&by_rest(name, spec));
        }
        self.until("rest-endless runs", || self.state("rest-endless") == "Running");
        self.kill_programs();
        self.rest_ends();
        self.minik8s(&["gpu", "cancel", "rest-endless"]);
        self.until("rest-endless is cancelled", || self.state("rest-endless") == "Cancelled");
        self.apply(&by_rest("rest-deleted", json!({"run": "sleep 600"})));
        self.until("rest-deleted runs", || self.state("rest-deleted") == "Running");
        self.kubectl(&["delete", "gpujob", "rest-deleted", "--timeout=120s"]);
        self.until("nothing runs there", || self.slurm.run("squeue -h -o %j").is_empty());
        let names = self.slurm.run("sacct -a -n -X -P -S now-1hour -o JobName");
        for (name, count) in
            [("good", 1), ("three", 1), ("array", 3), ("refused", 0), ("files", 0), ("endless", 1)]
        {
            let found = names.lines().filter(|line| line.starts_with(&format!("rest-{name}-"))).count();
            assert_eq!(found, count, "{name} in\n{names}");
        }
    }

    fn token_opens_the_cluster(&self) {
        let token = self.slurm.file("token");
        for (name, token, status) in [("rest", token.trim(), "True"), ("forged", "forged", "False")] {
            let secret = format!("--from-literal=token={token}");
            self.kubectl(&["create", "secret", "generic", &format!("{name}-token"), &secret]);
            self.apply(&json!({
                "apiVersion": "minik8s.io/v1", "kind": "SlurmCluster", "metadata": {"name": name},
                "spec": {
                    "user": "alice", "secretRef": {"name": format!("{name}-token")},
                    "slurmrestd": {"url": format!("http://{}:6820", self.slurm.address)},
                },
            }));
            self.until(&format!("{name} was tried"), || {
                self.get("slurmcluster", name)["status"]["conditions"][0]["status"] == status
            });
        }
        assert_eq!(self.get("slurmcluster", "rest")["status"]["gpus"]["total"], 8);
        let why = self.get("slurmcluster", "forged")["status"]["conditions"][0]["message"].clone();
        assert!(why.as_str().unwrap().contains("token"), "{why}");
    }

    fn rest_ends(&self) {
        let check = |name: &str, state: &str, reason: &str, words: &str| {
            self.until(&format!("{name} is {state}"), || self.state(name) == state);
            let job = self.get("gpujob", name);
            assert_eq!(job["status"]["reason"].as_str().unwrap_or(""), reason, "{job:#}");
            assert!(job["status"]["message"].as_str().unwrap_or("").contains(words), "{job:#}");
            job
        };
        let good = check("rest-good", "Completed", "", "");
        assert!(
            good["status"]["accounting"]["allocTRES"].as_str().unwrap().contains("gres/gpu=1"),
            "{good:#}"
        );
        assert!(self.minik8s(&["gpu", "logs", "rest-good"]).contains("matmul 20x30x10"));
        check("rest-broken", "Failed", "CompileError", "a.cu:1:");
        let three = check("rest-three", "Failed", "NonZeroExitCode", "exit code 3");
        assert_eq!(three["status"]["exitCode"], 3);
        check("rest-array", "Failed", "NonZeroExitCode", "1 of 3 tasks did not succeed: 1");
        check("rest-refused", "Failed", "SubmissionRefused", "Invalid partition");
        check("rest-files", "Failed", "SubmissionRefused", "carries no files");
    }
}

fn by_rest(name: &str, mut spec: Value) -> Value {
    spec["cluster"] = json!("rest");
    gpu_job(name, spec)
}
