//! How soon a job runs, what its pod needs, and that a hundred GPUJobs are a hundred Slurm jobs, whoever is killed.
//! Takes minutes and a machine to itself, so `make test` leaves it out; docs/gpu.md says how to run it. Times are printed and
//! not judged: they are the machine's as much as ours.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, Instant};

use futures::future::join_all;
use kube::Api;
use kube::api::{ListParams, PostParams};
use minik8s_slurm::GpuJob;
use serde_json::{Value, json};

use super::installation::Slurm;
use super::world::{World, gpu_job};
use crate::harness::cluster::{Cluster, block_on};
use crate::harness::seed::seed;

const JOBS: usize = 100;
const SAMPLES: usize = 5;
/// How often somebody dies while the jobs are under way.
const KILLS: u64 = 12;
const LONGEST: Duration = Duration::from_secs(1800);

#[test]
#[ignore = "takes minutes: see docs/gpu.md"]
fn a_hundred_jobs_are_a_hundred_slurm_jobs() {
    let slurm = Slurm::start();
    Cluster::builder().run(move |cluster| {
        let world = World::connect(&cluster, &slurm);
        world.time_to_running();
        world.many("burst", 0);
        world.many("killed", seed("SLURM_SEED"));
        world.nothing_is_left();
    });
}

impl World<'_> {
    /// From the request to Running, by sbatch itself and by a GPUJob; and the memory of the pod meanwhile.
    fn time_to_running(&self) {
        let own: Vec<Duration> = (0..SAMPLES).map(|_| self.slurms_own()).collect();
        let ours: Vec<Duration> =
            (0..SAMPLES).map(|number| self.our_own(&format!("sample-{number}"))).collect();
        let (own, ours) = (median(own), median(ours));
        println!(
            "submit -> Running: sbatch {own:?}, GPUJob {ours:?}, above Slurm's own {:?}",
            ours.saturating_sub(own)
        );
    }

    fn slurms_own(&self) -> Duration {
        let script = r#"cd /tmp; begin=$(date +%s%N)
id=$(sbatch --parsable --output=/dev/null --wrap 'sleep 60')
until [ "$(squeue -h -j "$id" -o %T)" = RUNNING ]; do sleep 0.02; done
echo $((($(date +%s%N) - begin) / 1000)); scancel "$id""#;
        let said = self.slurm.run(&format!(
            "setpriv --reuid 3001 --regid 3001 --clear-groups bash -c '{}'",
            script.replace('\'', r"'\''")
        ));
        Duration::from_micros(said.trim().parse().unwrap())
    }

    fn our_own(&self, name: &str) -> Duration {
        let begun = Instant::now();
        self.create(&[name.to_owned()], "sleep 60");
        while self.states(&[name.to_owned()]) != ["Running"] {
            assert!(begun.elapsed() < LONGEST, "{}", self.kubectl(&["get", "gpujobs,pods", "-o", "wide"]));
            std::thread::sleep(Duration::from_millis(20));
        }
        let took = begun.elapsed();
        println!("{name}: Running after {took:?}, its pod has {}", self.pod_memory());
        self.kubectl(&["delete", "gpujob", name, "--timeout=120s"]);
        took
    }

    /// A hundred at once. With a seed, programs and the server with its node die again and again meanwhile.
    fn many(&self, prefix: &str, seed: u64) {
        let names: Vec<String> = (0..JOBS).map(|number| format!("{prefix}-{number}")).collect();
        let begun = Instant::now();
        self.create(&names, "true");
        println!("{JOBS} GPUJobs created after {:?}", begun.elapsed());
        let (mut kills, mut random, mut submitted) = (0, seed, None);
        loop {
            let jobs = self.jobs(&names);
            if submitted.is_none() && jobs.iter().all(|job| job["status"]["slurmID"].is_i64()) {
                submitted = Some(begun.elapsed());
                println!("{JOBS} Slurm jobs submitted after {:?}", begun.elapsed());
            }
            if jobs.iter().all(|job| job["status"]["cleaned"] == true) {
                break;
            }
            assert!(begun.elapsed() < LONGEST, "{}", self.kubectl(&["get", "gpujobs,pods", "-o", "wide"]));
            if seed > 0 && kills < KILLS {
                kills += 1;
                // Of Knuth's: any that is not the same each time will do.
                random =
                    random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                std::thread::sleep(Duration::from_millis(500 + (random >> 33) % 3000));
                self.kill_programs();
                if random >> 63 == 1 {
                    self.cluster.crash_server();
                    self.kill_programs();
                    block_on(self.cluster.restart_server());
                }
            }
            std::thread::sleep(Duration::from_millis(100));
        }
        println!("{JOBS} over after {:?}, {kills} kills", begun.elapsed());
        assert_eq!(self.states(&names), vec!["Completed"; JOBS]);
        self.each_ran_once(prefix);
        self.kubectl(
            &[
                &["delete", "gpujob", "--timeout=300s"],
                &names.iter().map(String::as_str).collect::<Vec<_>>()[..],
            ]
            .concat(),
        );
    }

    fn each_ran_once(&self, prefix: &str) {
        let said = self.slurm.run("sacct -a -n -X -P -S now-2hours -o JobName");
        let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
        for name in said.lines().filter(|name| name.starts_with(&format!("{prefix}-"))) {
            *counts.entry(name).or_default() += 1;
        }
        let twice: Vec<_> = counts.iter().filter(|(_, count)| **count != 1).collect();
        assert!(counts.len() == JOBS && twice.is_empty(), "{} names, {twice:?}", counts.len());
        println!("{} Slurm jobs of {} names", counts.values().sum::<usize>(), counts.len());
    }

    fn create(&self, names: &[String], run: &str) {
        block_on(async {
            let api = self.api().await;
            let jobs = names
                .iter()
                .map(|name| serde_json::from_value::<GpuJob>(gpu_job(name, json!({"run": run}))).unwrap());
            let made = join_all(jobs.map(|job| {
                let api = api.clone();
                async move { api.create(&PostParams::default(), &job).await }
            }));
            made.await.into_iter().for_each(|made| drop(made.unwrap()));
        });
    }

    fn jobs(&self, names: &[String]) -> Vec<Value> {
        let listed = block_on(async { self.api().await.list(&ListParams::default()).await }).unwrap();
        let values = listed.items.iter().map(|job| serde_json::to_value(job).unwrap());
        values.filter(|job| names.iter().any(|name| job["metadata"]["name"] == **name)).collect()
    }

    fn states(&self, names: &[String]) -> Vec<String> {
        let state = |job: &Value| job["status"]["state"].as_str().unwrap_or("").to_owned();
        self.jobs(names).iter().map(state).collect()
    }

    async fn api(&self) -> Api<GpuJob> {
        Api::namespaced(self.cluster.client().await, "default")
    }

    /// Of the program and its ssh: what each has for itself, and their share of what is in memory once for all pods.
    fn pod_memory(&self) -> String {
        let (mut private, mut shared) = (0, 0);
        for process in self.pod_processes() {
            let text = std::fs::read_to_string(process.join("smaps_rollup")).unwrap_or_default();
            private += kilobytes(&text, "Private_Dirty:") + kilobytes(&text, "Private_Clean:");
            shared += kilobytes(&text, "Rss:");
        }
        format!(
            "{} KiB of its own, {} KiB with what others map too, cgroup {}",
            private,
            shared,
            self.cgroup_memory()
        )
    }

    /// As `kubectl top` counts it: what its cgroup uses, without files that can go.
    fn cgroup_memory(&self) -> String {
        let Some(program) = self.programs().into_iter().next() else { return "?".to_owned() };
        let groups = std::fs::read_to_string(program.join("cgroup")).unwrap_or_default();
        let path = |line: &str| line.rsplit(':').next().unwrap_or_default().to_owned();
        let version_1 = groups.lines().find(|line| line.contains(":memory:")).map(path);
        let (dir, usage, inactive) = match version_1 {
            Some(path) => {
                (format!("/sys/fs/cgroup/memory{path}"), "memory.usage_in_bytes", "total_inactive_file")
            }
            None => {
                let path = groups.lines().find(|line| line.starts_with("0::")).map(path).unwrap_or_default();
                (format!("/sys/fs/cgroup{path}"), "memory.current", "inactive_file")
            }
        };
        let read = |file: &str| std::fs::read_to_string(Path::new(&dir).join(file)).unwrap_or_default();
        let used: u64 = read(usage).trim().parse().unwrap_or(0);
        let stat = read("memory.stat");
        let idle =
            stat.lines().find_map(|line| line.strip_prefix(&format!("{inactive} "))?.parse::<u64>().ok());
        format!("{} KiB", used.saturating_sub(idle.unwrap_or(0)) / 1024)
    }
}

fn kilobytes(text: &str, field: &str) -> u64 {
    let line = text.lines().find_map(|line| line.strip_prefix(field));
    line.and_then(|line| line.split_whitespace().next()?.parse().ok()).unwrap_or(0)
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort();
    times[times.len() / 2]
}
