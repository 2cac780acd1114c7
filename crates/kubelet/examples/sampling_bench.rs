//! What one measurement of 100 pods costs: real cgroups, each with a process in it, read as the agent reads them once a
//! second, and written as it sends them. As root; the cgroups and processes go at the end.
//!
//! Usage: `sampling_bench [PODS] [ROUNDS]`. The target is half a percent of a core: 5 ms of CPU time a round.

use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use minik8s_kubelet::{Hierarchy, Subject, Subjects, remove_cgroups};
use minik8s_metrics::{Frames, History, Line};
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeValLike;

const CONTROLLERS: [&str; 4] = ["cpuacct", "cpu", "memory", "blkio"];
/// Of version 2 of cgroups.
const UNIFIED: [&str; 3] = ["cpu", "memory", "io"];
const TARGET_PERCENT: f64 = 0.5;

type AnyError = Box<dyn std::error::Error>;

fn main() -> Result<(), AnyError> {
    let mut numbers = std::env::args().skip(1).map(|text| text.parse::<usize>());
    let pods = numbers.next().transpose()?.unwrap_or(100);
    let rounds = numbers.next().transpose()?.unwrap_or(200);
    let group = Group::new(pods)?;
    let mut subjects = Subjects::new(group.hierarchy.clone());
    subjects.set(&group.subjects(), usize::MAX);
    // The first measurement opens the files.
    let first = subjects.measure();
    let known = first.values.iter().filter(|value| value.is_some()).count();
    assert!(known >= pods * 4, "only {known} of {} metrics can be read", first.values.len());

    let (read, wall) = timed(rounds, || {
        subjects.measure();
    })?;
    let layout = Line::Layout((*subjects.layout).clone()).encode();
    let (written, _) = timed(rounds, || {
        Line::Reading(first.clone()).encode();
    })?;
    let line = Line::Reading(first.clone()).encode();
    let (mut frames, history) = (Frames::default(), History::default());
    frames.take(std::str::from_utf8(&layout)?)?;
    let line = std::str::from_utf8(&line)?;
    let (recorded, _) = timed(rounds, || {
        if let Ok(Some((layout, reading))) = frames.take(line) {
            history.record("node", layout, &reading, jiff::Timestamp::now(), &|_, _| true);
        }
    })?;

    let percent = |cost: Duration| cost.as_secs_f64() * 100.0;
    let agent = percent(read + written);
    println!("sampling {pods} pods once a second, CPU time a round ({rounds} rounds)");
    println!("  agent: reading files   {read:>10.1?}   ({wall:.1?} by the clock)");
    println!("  agent: writing a line  {written:>10.1?}   ({} bytes)", line.len());
    println!("  server: keeping it     {recorded:>10.1?}");
    println!("  agent: {agent:.2} % of a core (target: at most {TARGET_PERCENT} %)");
    Ok(())
}

/// CPU time and time by the clock of one round.
fn timed(rounds: usize, mut round: impl FnMut()) -> Result<(Duration, Duration), AnyError> {
    let (before, begun) = (cpu_time()?, Instant::now());
    (0..rounds).for_each(|_| round());
    let count = u32::try_from(rounds.max(1))?;
    Ok(((cpu_time()? - before) / count, begun.elapsed() / count))
}

fn cpu_time() -> Result<Duration, AnyError> {
    let usage = getrusage(UsageWho::RUSAGE_SELF)?;
    let microseconds = usage.user_time().num_microseconds() + usage.system_time().num_microseconds();
    Ok(Duration::from_micros(u64::try_from(microseconds)?))
}

/// Cgroups with sleeping processes, gone when dropped.
struct Group {
    hierarchy: Hierarchy,
    name: String,
    pods: usize,
    sleepers: Vec<Child>,
}

impl Group {
    fn new(pods: usize) -> Result<Group, AnyError> {
        let name = format!("minik8s-sampling-{}", std::process::id());
        let mut group = Group { hierarchy: Hierarchy::detect(), name, pods, sleepers: Vec::new() };
        for pod in 0..pods {
            group.hierarchy.create(group.controllers(), &group.cgroup(pod))?;
            // In a network of its own, as pods are: the machine's would list everybody's interfaces.
            let mut sleeper = Command::new("unshare");
            let sleeper = sleeper.args(["--net", "sleep", "1d"]).stdin(Stdio::null()).spawn()?;
            let pid = sleeper.id().to_string();
            group.sleepers.push(sleeper);
            for dir in group.dirs(pod) {
                std::fs::write(dir.join("cgroup.procs"), &pid)?;
            }
        }
        Ok(group)
    }

    fn controllers(&self) -> &'static [&'static str] {
        match self.hierarchy {
            Hierarchy::V1(_) => &CONTROLLERS,
            Hierarchy::V2(_) => &UNIFIED,
        }
    }

    fn pod(&self, pod: usize) -> String {
        format!("/{}/pod{pod}", self.name)
    }

    fn cgroup(&self, pod: usize) -> String {
        format!("{}/main", self.pod(pod))
    }

    fn dirs(&self, pod: usize) -> Vec<PathBuf> {
        let cgroup = self.cgroup(pod);
        let mut dirs: Vec<_> =
            self.controllers().iter().map(|controller| self.hierarchy.dir(controller, &cgroup)).collect();
        dirs.dedup();
        dirs
    }

    fn subjects(&self) -> Vec<Subject> {
        let subject = |pod: usize| Subject {
            namespace: "default".to_owned(),
            name: format!("web-{pod}"),
            uid: format!("{pod:032x}"),
            cgroup: self.pod(pod),
            host_network: false,
            containers: vec![("main".to_owned(), "main".to_owned())],
        };
        (0..self.pods).map(subject).collect()
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        for sleeper in &mut self.sleepers {
            let _ = sleeper.kill();
            let _ = sleeper.wait();
        }
        remove_cgroups(&self.name);
    }
}
