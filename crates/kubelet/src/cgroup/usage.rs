//! What a cgroup uses. Reading files is a hundred times cheaper than asking the runtime.

use std::fs::read_to_string;
use std::path::Path;

use super::Hierarchy;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Usage {
    /// CPU time since the beginning, in nanoseconds.
    pub cpu: u64,
    pub memory: u64,
    /// Memory that cannot be taken away easily.
    pub working_set: u64,
    pub rss: u64,
    pub page_faults: u64,
    pub major_page_faults: u64,
    pub processes: u64,
}

/// `None` if there is no such cgroup.
pub fn usage(hierarchy: &Hierarchy, cgroup: &str) -> Option<Usage> {
    let read =
        |controller: &str, file: &str| read_to_string(hierarchy.dir(controller, cgroup).join(file)).ok();
    let number = |controller: &str, file: &str| read(controller, file)?.trim().parse::<u64>().ok();
    let stat = read("memory", "memory.stat")?;
    let field = |name: &str| field(&stat, name).unwrap_or_default();
    let processes = number("pids", "pids.current").unwrap_or_default();
    Some(match hierarchy {
        Hierarchy::V1(_) => {
            let memory = number("memory", "memory.usage_in_bytes")?;
            Usage {
                cpu: number("cpuacct", "cpuacct.usage").or_else(|| number("cpu", "cpuacct.usage"))?,
                memory,
                working_set: memory.saturating_sub(field("total_inactive_file")),
                rss: field("total_rss"),
                page_faults: field("total_pgfault"),
                major_page_faults: field("total_pgmajfault"),
                processes,
            }
        }
        Hierarchy::V2(_) => {
            let memory = number("memory", "memory.current")?;
            let cpu = read("cpu", "cpu.stat")?;
            Usage {
                cpu: self::field(&cpu, "usage_usec")?.saturating_mul(1000),
                memory,
                working_set: memory.saturating_sub(field("inactive_file")),
                rss: field("anon"),
                page_faults: field("pgfault"),
                major_page_faults: field("pgmajfault"),
                processes,
            }
        }
    })
}

/// The whole machine: all CPUs' busy time and what is not available.
pub fn machine_usage() -> Usage {
    let stat = read_to_string("/proc/stat").unwrap_or_default();
    let meminfo = read_to_string("/proc/meminfo").unwrap_or_default();
    let kilobytes = |name: &str| meminfo_field(&meminfo, name).unwrap_or_default() * 1024;
    let total = kilobytes("MemTotal");
    Usage {
        cpu: busy_nanoseconds(&stat),
        memory: total.saturating_sub(kilobytes("MemFree")),
        working_set: total.saturating_sub(kilobytes("MemAvailable")),
        rss: kilobytes("AnonPages"),
        processes: count_processes(Path::new("/proc")),
        ..Usage::default()
    }
}

pub fn field(stat: &str, name: &str) -> Option<u64> {
    stat.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')?.trim().parse().ok())
}

pub fn meminfo_field(meminfo: &str, name: &str) -> Option<u64> {
    let rest = meminfo.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
    rest.trim().strip_suffix("kB")?.trim().parse().ok()
}

/// The first line counts hundredths of seconds: user, nice, system, idle, iowait, irq, softirq, steal.
pub fn busy_nanoseconds(stat: &str) -> u64 {
    let line = stat.lines().next().unwrap_or_default();
    let ticks: Vec<u64> = line.split_whitespace().skip(1).take(8).filter_map(|n| n.parse().ok()).collect();
    let busy: u64 = ticks.iter().enumerate().filter(|(n, _)| !matches!(n, 3 | 4)).map(|(_, t)| t).sum();
    busy.saturating_mul(10_000_000)
}

fn count_processes(proc: &Path) -> u64 {
    let Ok(entries) = std::fs::read_dir(proc) else { return 0 };
    let is_pid = |name: &std::ffi::OsStr| name.as_encoded_bytes().iter().all(u8::is_ascii_digit);
    entries.flatten().filter(|entry| is_pid(&entry.file_name())).count() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with_files(files: &[(&str, &str)]) -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let path = dir.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        dir
    }

    #[test]
    fn both_versions() {
        let v1 = with_files(&[
            ("memory/pod/memory.stat", "cache 1\ntotal_inactive_file 100\ntotal_rss 7\ntotal_pgfault 3\n"),
            ("memory/pod/memory.usage_in_bytes", "300\n"),
            ("cpuacct/pod/cpuacct.usage", "5000\n"),
            ("pids/pod/pids.current", "2\n"),
        ]);
        let want = Usage {
            cpu: 5000,
            memory: 300,
            working_set: 200,
            rss: 7,
            page_faults: 3,
            processes: 2,
            ..Usage::default()
        };
        assert_eq!(usage(&Hierarchy::V1(v1.path().into()), "/pod"), Some(want));
        let v2 = with_files(&[
            ("pod/memory.stat", "anon 7\ninactive_file 100\npgfault 3\n"),
            ("pod/memory.current", "300\n"),
            ("pod/cpu.stat", "usage_usec 5\nuser_usec 1\n"),
            ("pod/pids.current", "2\n"),
        ]);
        assert_eq!(usage(&Hierarchy::V2(v2.path().into()), "/pod"), Some(want));
        assert_eq!(usage(&Hierarchy::V2(v2.path().into()), "/gone"), None);
    }

    #[test]
    fn the_machine() {
        assert_eq!(busy_nanoseconds("cpu  100 0 50 1000 10 1 2 3 0 0\ncpu0 1\n"), 156 * 10_000_000);
        assert_eq!(meminfo_field("MemTotal:  10 kB\nMemFree: 4 kB\n", "MemFree"), Some(4));
        let machine = machine_usage();
        assert!(machine.cpu > 0 && machine.working_set > 0 && machine.processes > 1);
    }
}
