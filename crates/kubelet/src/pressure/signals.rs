//! What is short. Pure but for the reading at the end.

use std::collections::BTreeMap;
use std::path::Path;

use jiff::{SignedDuration, Timestamp};

use super::thresholds::{Signal, Thresholds};
use crate::stats::disk;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Resource {
    Memory,
    Disk,
    Pids,
}

impl Resource {
    pub fn name(self) -> &'static str {
        match self {
            Resource::Memory => "memory",
            Resource::Disk => "ephemeral-storage",
            Resource::Pids => "pids",
        }
    }
}

/// How much is left.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Signals {
    pub memory_available: u64,
    pub memory: u64,
    pub disk_available: u64,
    pub disk_capacity: u64,
    pub inodes_free: u64,
    pub inodes: u64,
    pub pids_available: u64,
    pub pids: u64,
}

/// A resource below its threshold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shortage {
    pub resource: Resource,
    pub threshold: String,
    pub available: String,
}

impl Signals {
    /// How much is left, and of how much.
    fn reading(&self, signal: Signal) -> (u64, u64) {
        match signal {
            Signal::Memory => (self.memory_available, self.memory),
            Signal::Nodefs | Signal::Imagefs => (self.disk_available, self.disk_capacity),
            Signal::NodefsInodes | Signal::ImagefsInodes => (self.inodes_free, self.inodes),
            Signal::Pids => (self.pids_available, self.pids),
        }
    }
}

/// One per resource at most, the worst first.
pub fn shortages(signals: &Signals, thresholds: &Thresholds) -> Vec<Shortage> {
    let mut all: Vec<Shortage> = Vec::new();
    for (signal, amount) in thresholds.iter() {
        let (available, capacity) = signals.reading(signal);
        let (threshold, resource) = (amount.of(capacity), signal.resource());
        // A file system that counts no inodes is not short of them.
        if capacity == 0 || available >= threshold || all.iter().any(|known| known.resource == resource) {
            continue;
        }
        let shown = |amount: u64| match signal.is_bytes() {
            true => format!("{}Ki", amount >> 10),
            false => amount.to_string(),
        };
        all.push(Shortage { resource, threshold: shown(threshold), available: shown(available) });
    }
    all
}

/// Which resources are short or were so a short time ago.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Pressure {
    last_seen: BTreeMap<Resource, Timestamp>,
}

impl Pressure {
    /// A shortage is remembered for a while, so that the node does not flap.
    pub fn note(&mut self, shortages: &[Shortage], now: Timestamp, retention: SignedDuration) {
        self.last_seen.retain(|_, seen| now.duration_since(*seen) < retention);
        for shortage in shortages {
            self.last_seen.insert(shortage.resource, now);
        }
    }

    pub fn is_short_of(&self, resource: Resource) -> bool {
        self.last_seen.contains_key(&resource)
    }

    /// Without the times, which change all the time.
    pub fn resources(&self) -> Vec<Resource> {
        self.last_seen.keys().copied().collect()
    }
}

pub fn read(data_dir: &Path) -> Signals {
    let number =
        |path: &str| std::fs::read_to_string(path).ok().and_then(|text| text.trim().parse::<u64>().ok());
    let meminfo = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let kilobytes = |name: &str| {
        let rest = meminfo.lines().find_map(|line| line.strip_prefix(name));
        rest.and_then(|rest| rest.trim().strip_suffix("kB")?.trim().parse::<u64>().ok())
    };
    let disk = disk(data_dir);
    let pids = number("/proc/sys/kernel/pid_max")
        .unwrap_or(0)
        .min(number("/proc/sys/kernel/threads-max").unwrap_or(u64::MAX));
    Signals {
        // A file that cannot be read is no reason to end pods.
        memory_available: kilobytes("MemAvailable:").map_or(u64::MAX, |kilobytes| kilobytes * 1024),
        memory: kilobytes("MemTotal:").unwrap_or_default() * 1024,
        disk_available: disk.available,
        disk_capacity: disk.capacity,
        inodes_free: disk.inodes_free,
        inodes: disk.inodes,
        pids_available: pids.saturating_sub(running_tasks()),
        pids,
    }
}

/// The fourth field of `/proc/loadavg` is `RUNNABLE/EXISTING`.
fn running_tasks() -> u64 {
    let text = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let field = text.split_whitespace().nth(3).and_then(|field| field.split_once('/'));
    field.and_then(|(_, existing)| existing.parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plenty() -> Signals {
        Signals {
            memory_available: 1 << 30,
            memory: 1 << 31,
            disk_available: 50,
            disk_capacity: 100,
            inodes_free: 50,
            inodes: 100,
            pids_available: 50,
            pids: 100,
        }
    }

    #[test]
    fn what_is_below_its_threshold_is_short() {
        let check = |signals: Signals, thresholds: &str, want: &[Resource]| {
            let got = shortages(&signals, &thresholds.parse().unwrap());
            let got: Vec<_> = got.into_iter().map(|s| s.resource).collect();
            assert_eq!(got, want, "{signals:?} {thresholds}");
        };
        let usual = Thresholds::default().to_string();
        check(plenty(), &usual, &[]);
        check(Signals { memory_available: 99 << 20, ..plenty() }, &usual, &[Resource::Memory]);
        check(Signals { disk_available: 9, ..plenty() }, &usual, &[Resource::Disk]);
        check(Signals { inodes_free: 4, ..plenty() }, &usual, &[Resource::Disk]);
        check(Signals { disk_available: 9, inodes_free: 4, ..plenty() }, &usual, &[Resource::Disk]);
        check(Signals { pids_available: 9, ..plenty() }, &usual, &[Resource::Pids]);
        check(Signals { inodes: 0, inodes_free: 0, ..plenty() }, &usual, &[]);
        check(Signals::default(), "", &[]);
        check(plenty(), "pid.available<60%,memory.available<60%", &[Resource::Memory, Resource::Pids]);
        check(plenty(), "imagefs.available<51", &[Resource::Disk]);
    }

    #[test]
    fn shortages_are_kept_for_a_while() {
        let at = |seconds| Timestamp::from_second(seconds).unwrap();
        let five_minutes = SignedDuration::from_mins(5);
        let mut pressure = Pressure::default();
        let none_left = Signals { memory_available: 0, ..plenty() };
        pressure.note(&shortages(&none_left, &Thresholds::default()), at(0), five_minutes);
        assert!(pressure.is_short_of(Resource::Memory));
        pressure.note(&[], at(299), five_minutes);
        assert!(pressure.is_short_of(Resource::Memory));
        pressure.note(&[], at(300), five_minutes);
        assert!(!pressure.is_short_of(Resource::Memory));
    }

    #[test]
    fn this_machine_can_be_read() {
        let signals = read(Path::new("/"));
        assert!(signals.memory_available > 0 && signals.disk_capacity > 0 && signals.pids > 0);
        assert!(signals.memory > signals.memory_available);
    }
}
