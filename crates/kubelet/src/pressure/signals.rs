//! What is short. Pure but for the reading at the end.

use std::collections::BTreeMap;
use std::path::Path;

use jiff::{SignedDuration, Timestamp};

use crate::stats::disk;

/// A shortage is remembered this long, so that the node does not flap.
const REMEMBERED: SignedDuration = SignedDuration::from_mins(5);

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

const MEMORY_THRESHOLD: u64 = 100 << 20;
const DISK_PERCENT: u64 = 10;
const INODES_PERCENT: u64 = 5;
const PIDS_PERCENT: u64 = 10;

/// The worst first: memory kills soonest.
pub fn shortages(signals: &Signals) -> Vec<Shortage> {
    let mut all = Vec::new();
    let mebibytes = |bytes: u64| format!("{}Mi", bytes >> 20);
    if signals.memory_available < MEMORY_THRESHOLD {
        all.push(Shortage {
            resource: Resource::Memory,
            threshold: mebibytes(MEMORY_THRESHOLD),
            available: mebibytes(signals.memory_available),
        });
    }
    let short =
        |available: u64, capacity: u64, percent: u64| capacity > 0 && available * 100 / capacity < percent;
    if short(signals.disk_available, signals.disk_capacity, DISK_PERCENT)
        || short(signals.inodes_free, signals.inodes, INODES_PERCENT)
    {
        all.push(Shortage {
            resource: Resource::Disk,
            threshold: mebibytes(signals.disk_capacity / 100 * DISK_PERCENT),
            available: mebibytes(signals.disk_available),
        });
    }
    if short(signals.pids_available, signals.pids, PIDS_PERCENT) {
        all.push(Shortage {
            resource: Resource::Pids,
            threshold: (signals.pids / 100 * PIDS_PERCENT).to_string(),
            available: signals.pids_available.to_string(),
        });
    }
    all
}

/// Which resources are short or were so a short time ago.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Pressure {
    last_seen: BTreeMap<Resource, Timestamp>,
}

impl Pressure {
    pub fn note(&mut self, shortages: &[Shortage], now: Timestamp) {
        self.last_seen.retain(|_, seen| now.duration_since(*seen) < REMEMBERED);
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
    let available = meminfo.lines().find_map(|line| line.strip_prefix("MemAvailable:"));
    let available = available.and_then(|rest| rest.trim().strip_suffix("kB")?.trim().parse::<u64>().ok());
    let disk = disk(data_dir);
    let pids = number("/proc/sys/kernel/pid_max")
        .unwrap_or(0)
        .min(number("/proc/sys/kernel/threads-max").unwrap_or(u64::MAX));
    Signals {
        // A file that cannot be read is no reason to end pods.
        memory_available: available.map_or(u64::MAX, |kilobytes| kilobytes * 1024),
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
            disk_available: 50,
            disk_capacity: 100,
            inodes_free: 50,
            inodes: 100,
            pids_available: 50,
            pids: 100,
        }
    }

    #[test]
    fn thresholds() {
        let check = |signals: Signals, want: &[Resource]| {
            let got: Vec<_> = shortages(&signals).into_iter().map(|s| s.resource).collect();
            assert_eq!(got, want, "{signals:?}");
        };
        check(plenty(), &[]);
        check(Signals { memory_available: 99 << 20, ..plenty() }, &[Resource::Memory]);
        check(Signals { disk_available: 9, ..plenty() }, &[Resource::Disk]);
        check(Signals { inodes_free: 4, ..plenty() }, &[Resource::Disk]);
        check(Signals { pids_available: 9, ..plenty() }, &[Resource::Pids]);
        // A file system without inodes to count is not short of them.
        check(Signals { inodes: 0, inodes_free: 0, ..plenty() }, &[]);
    }

    #[test]
    fn shortages_are_remembered_for_a_while() {
        let at = |seconds| Timestamp::from_second(seconds).unwrap();
        let mut pressure = Pressure::default();
        pressure.note(&shortages(&Signals { memory_available: 0, ..plenty() }), at(0));
        assert!(pressure.is_short_of(Resource::Memory));
        pressure.note(&[], at(299));
        assert!(pressure.is_short_of(Resource::Memory));
        pressure.note(&[], at(300));
        assert!(!pressure.is_short_of(Resource::Memory));
    }

    #[test]
    fn this_machine_can_be_read() {
        let signals = read(Path::new("/"));
        assert!(signals.memory_available > 0 && signals.disk_capacity > 0 && signals.pids > 0);
    }
}
