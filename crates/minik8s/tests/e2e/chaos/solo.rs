//! Pods of a StatefulSet have names that nobody may bear twice: all nodes are of this machine, so it can be seen which
//! of their processes run at the same time.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

const PAUSE: Duration = Duration::from_millis(100);

pub struct Solo {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<Sightings>,
}

#[derive(Default)]
pub struct Sightings {
    /// How many processes there were, one after the other.
    pub processes: usize,
    /// Names that were borne twice at once.
    pub doubles: Vec<String>,
}

impl Solo {
    /// Watches the processes whose environment has `SOLO=RUN/NAME`.
    pub fn watch(run: &str) -> Solo {
        let stop = Arc::new(AtomicBool::new(false));
        let (stopped, mark) = (stop.clone(), format!("SOLO={run}/"));
        let thread = std::thread::spawn(move || {
            let start = Instant::now();
            let mut seen = BTreeSet::new();
            let mut doubles: BTreeMap<String, (Instant, Instant)> = BTreeMap::new();
            while !stopped.load(Ordering::Relaxed) {
                let now = running(&mark);
                seen.extend(now.values().flatten().copied());
                for (name, pids) in now.iter().filter(|(_, pids)| pids.len() > 1) {
                    // One may have ended while we looked for the other.
                    let still = pids.iter().filter(|pid| name_of(**pid, &mark).as_ref() == Some(name));
                    let still: Vec<String> = still.map(|pid| format!("{pid}{}", place_of(*pid))).collect();
                    if still.len() > 1 {
                        let now = Instant::now();
                        let seen = doubles.entry(format!("{name}: {}", still.join(" and ")));
                        seen.or_insert((now, now)).1 = now;
                    }
                }
                std::thread::sleep(PAUSE);
            }
            let told = |(double, (first, last)): (String, (Instant, Instant))| {
                let seconds = |at: Instant| at.duration_since(start).as_secs_f64();
                format!("{double}, {:.1}-{:.1}", seconds(first), seconds(last))
            };
            Sightings { processes: seen.len(), doubles: doubles.into_iter().map(told).collect() }
        });
        Solo { stop, thread }
    }

    pub fn end(self) -> Sightings {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().unwrap()
    }
}

fn running(mark: &str) -> BTreeMap<String, Vec<u32>> {
    let mut found: BTreeMap<String, Vec<u32>> = BTreeMap::new();
    for entry in std::fs::read_dir("/proc").into_iter().flatten().flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else { continue };
        if let Some(name) = name_of(pid, mark) {
            found.entry(name).or_default().push(pid);
        }
    }
    found
}

/// The name of the pod whose process that is, if it is one that runs.
fn name_of(pid: u32, mark: &str) -> Option<String> {
    let comm = std::fs::read_to_string(format!("/proc/{pid}/comm")).ok()?;
    let environment =
        (comm.trim() == "sleep").then(|| std::fs::read(format!("/proc/{pid}/environ")).ok())??;
    let text = String::from_utf8_lossy(&environment);
    text.split('\0').find_map(|variable| variable.strip_prefix(mark)).map(str::to_owned)
}

/// Its control group, which tells the node.
fn place_of(pid: u32) -> String {
    let groups = std::fs::read_to_string(format!("/proc/{pid}/cgroup")).unwrap_or_default();
    groups
        .lines()
        .find_map(|line| line.split_once("memory:"))
        .map_or(String::new(), |(_, at)| format!(" in {at}"))
}
