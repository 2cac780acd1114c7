//! What goes wrong and when. The plan is pure: one seed is one plan.

use std::path::Path;
use std::time::{Duration, Instant};

use crate::harness::lab::Lab;

/// The first node is the server's.
pub const NODES: u32 = 3;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Fault {
    /// kill -9 of a node's minik8s, which is started again after a while. On node 1 that is the server.
    Minik8s(u32),
    Containerd(u32),
    /// The process that watches over a pod.
    Shim(u32),
    /// A container's own process.
    PodProcess(u32),
    /// The process that holds a pod's namespaces.
    Sandbox(u32),
    /// kill -9 of every minik8s and containerd at once.
    All,
    /// The cable is pulled, and plugged in again.
    Cut(u32),
    /// Packets come late, and some do not come at all.
    Slow(u32),
    /// Power failure and reboot.
    Crash(u32),
    /// No room is left below the server's data dir.
    FullDisk,
}

/// A fault, how long it lasts, and the pause after it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Step {
    pub fault: Fault,
    pub lasts: Duration,
    pub then: Duration,
}

/// A fault that came: from when until when, and the pod (its UID) whose process was killed.
#[derive(Clone)]
pub struct Done {
    pub step: Step,
    pub begun: Instant,
    pub ended: Instant,
    pub pod: Option<String>,
}

impl Fault {
    pub fn kind(self) -> &'static str {
        match self {
            Fault::Minik8s(1) => "kill -9 of the server",
            Fault::Minik8s(_) => "kill -9 of an agent",
            Fault::Containerd(_) => "kill -9 of containerd",
            Fault::Shim(_) => "kill -9 of a shim",
            Fault::PodProcess(_) => "kill -9 of a pod's process",
            Fault::Sandbox(_) => "kill -9 of a pod's sandbox",
            Fault::All => "kill -9 of every minik8s and containerd",
            Fault::Cut(1) => "the server's cable pulled",
            Fault::Cut(_) => "another cable pulled",
            Fault::Slow(_) => "packets late and lost",
            Fault::Crash(1) => "power failure and reboot of the server",
            Fault::Crash(_) => "power failure and reboot of another",
            Fault::FullDisk => "the server's disk full",
        }
    }
}

/// Steps for about that long. Every kind comes once before any comes again, in an order that the seed decides.
pub fn plan(seed: u64, time: Duration) -> Vec<Step> {
    let mut random = Random(seed);
    let mut steps: Vec<Step> = Vec::new();
    let mut bag: Vec<fn(u32, u32) -> Fault> = Vec::new();
    let mut planned = Duration::ZERO;
    while planned < time {
        if bag.is_empty() {
            bag = vec![
                |_, _| Fault::Minik8s(1),
                |_, other| Fault::Minik8s(other),
                |any, _| Fault::Containerd(any),
                |any, _| Fault::Shim(any),
                |any, _| Fault::PodProcess(any),
                |any, _| Fault::Sandbox(any),
                |_, _| Fault::All,
                |_, _| Fault::Cut(1),
                |_, other| Fault::Cut(other),
                |_, other| Fault::Slow(other),
                |_, _| Fault::Crash(1),
                |_, other| Fault::Crash(other),
                |_, _| Fault::FullDisk,
            ];
        }
        let make = bag.swap_remove(random.below(bag.len() as u64) as usize);
        let (any, other) = (1 + random.below(NODES.into()), 2 + random.below(u64::from(NODES) - 1));
        let fault = make(any as u32, other as u32);
        let lasts = Duration::from_millis(match fault {
            // Longer than a node's grace, or not.
            Fault::Cut(_) | Fault::Crash(_) => 1000 + random.below(5000),
            Fault::Slow(_) | Fault::FullDisk => 1000 + random.below(2500),
            Fault::Minik8s(_) | Fault::All => random.below(1500),
            Fault::Containerd(_) | Fault::Shim(_) | Fault::PodProcess(_) | Fault::Sandbox(_) => 0,
        });
        let then = Duration::from_millis(200 + random.below(1500));
        planned += lasts + then;
        steps.push(Step { fault, lasts, then });
    }
    steps
}

/// Does it, and undoes it in the end. What is not there to be killed is left alone.
pub fn carry_out(lab: &Lab, step: Step) -> Done {
    let wait = || std::thread::sleep(step.lasts);
    let node = |number: u32| format!("node{number}");
    let kill = |number: u32, process: &str| {
        let killed = lab.try_run(&["kill", &node(number), process]);
        let text = String::from_utf8_lossy(&killed.stdout).into_owned();
        text.trim().rsplit_once(" of pod ").map(|(_, pod)| pod.to_owned())
    };
    let begun = Instant::now();
    let mut pod = None;
    match step.fault {
        Fault::Minik8s(number) => {
            lab.try_run(&["kill", &node(number)]);
            wait();
            lab.run(&["start", &node(number)]);
        }
        Fault::Containerd(number) => drop(kill(number, "containerd")),
        Fault::Shim(number) => pod = kill(number, "containerd-shim"),
        Fault::PodProcess(number) => pod = kill(number, "httpd"),
        Fault::Sandbox(number) => pod = kill(number, "pause"),
        Fault::All => {
            for number in 1..=NODES {
                lab.try_run(&["kill", &node(number)]);
                lab.try_run(&["kill", &node(number), "containerd"]);
            }
            wait();
            for number in 1..=NODES {
                lab.run(&["start", &node(number)]);
            }
        }
        Fault::Cut(number) => {
            lab.run(&["cut", &node(number)]);
            wait();
            lab.run(&["heal", &node(number)]);
        }
        Fault::Slow(number) => {
            lab.run(&["slow", &node(number), "delay", "60ms", "30ms", "loss", "8%"]);
            wait();
            lab.run(&["fast", &node(number)]);
        }
        Fault::Crash(number) => {
            lab.run(&["crash", &node(number)]);
            wait();
            lab.run(&["start", &node(number)]);
        }
        Fault::FullDisk => {
            let ballast = lab.dir.join("node1/data/ballast");
            fill(&ballast);
            wait();
            std::fs::remove_file(&ballast).expect("the ballast goes");
        }
    }
    Done { step, begun, ended: Instant::now(), pod }
}

/// Until nothing more fits.
fn fill(path: &Path) {
    use std::io::Write;
    let mut file = std::fs::File::create(path).expect("a file to fill the disk with");
    for size in [1 << 20, 1 << 12] {
        let block = vec![0; size];
        while file.write_all(&block).is_ok() {}
    }
}

/// SplitMix64: the same numbers for the same seed, for ever.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % bound.max(1)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn a_seed_is_a_plan() {
        let minute = Duration::from_secs(60);
        assert_eq!(plan(7, minute), plan(7, minute));
        assert_ne!(plan(7, minute), plan(8, minute));
        // A longer plan begins like the shorter one.
        let short = plan(7, Duration::from_secs(20));
        assert_eq!(plan(7, minute)[..short.len()], short);
    }

    #[test]
    fn every_kind_of_fault_comes() {
        for seed in 0..50 {
            let steps = plan(seed, Duration::from_secs(60));
            let kinds: BTreeSet<&str> = steps.iter().map(|step| step.fault.kind()).collect();
            assert_eq!(kinds.len(), 13, "{kinds:?}");
        }
    }
}
