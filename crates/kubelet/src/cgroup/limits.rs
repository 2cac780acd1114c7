//! Limits of a pod as a whole.

use std::fs;
use std::io;

use super::Hierarchy;

const PERIOD: i64 = 100_000;

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PodLimits {
    pub cpu_shares: i64,
    /// Microseconds per tenth of a second.
    pub cpu_quota: Option<i64>,
    pub memory: Option<i64>,
    pub pids: Option<u32>,
}

/// Makes the cgroup and sets its limits.
pub fn apply(hierarchy: &Hierarchy, cgroup: &str, limits: &PodLimits) -> io::Result<()> {
    hierarchy.create(&["cpu", "memory", "pids"], cgroup)?;
    for (controller, file, value) in settings(hierarchy, limits) {
        fs::write(hierarchy.dir(controller, cgroup).join(file), value)?;
    }
    Ok(())
}

/// Raises limits to at least these; lowers none.
pub fn grow(hierarchy: &Hierarchy, cgroup: &str, limits: &PodLimits) -> io::Result<()> {
    for (controller, file, value) in settings(hierarchy, limits) {
        let path = hierarchy.dir(controller, cgroup).join(file);
        if is_more(&value, &fs::read_to_string(&path)?) {
            fs::write(path, value)?;
        }
    }
    Ok(())
}

/// Compares two contents of a limit file, where `max` and negative numbers are no limit at all.
fn is_more(new: &str, old: &str) -> bool {
    let amount = |text: &str| match text.split_whitespace().next().map(str::parse::<i64>) {
        Some(Ok(number)) if number >= 0 => number,
        _ => i64::MAX,
    };
    amount(new) > amount(old)
}

/// Sets the weight of a whole class of pods.
pub fn set_cpu_shares(hierarchy: &Hierarchy, cgroup: &str, shares: i64) -> io::Result<()> {
    hierarchy.create(&["cpu"], cgroup)?;
    let (file, value) = cpu_shares(hierarchy, shares);
    fs::write(hierarchy.dir("cpu", cgroup).join(file), value)
}

fn cpu_shares(hierarchy: &Hierarchy, shares: i64) -> (&'static str, String) {
    match hierarchy {
        Hierarchy::V1(_) => ("cpu.shares", shares.to_string()),
        Hierarchy::V2(_) => ("cpu.weight", weight(shares).to_string()),
    }
}

/// v1's shares (2 to 262144) as v2's weight (1 to 10000), as all runtimes convert them.
fn weight(shares: i64) -> i64 {
    1 + (shares.clamp(2, 262_144) - 2) * 9_999 / 262_142
}

/// Controller, file and content.
fn settings(hierarchy: &Hierarchy, limits: &PodLimits) -> Vec<(&'static str, &'static str, String)> {
    let (file, shares) = cpu_shares(hierarchy, limits.cpu_shares);
    let mut all = vec![("cpu", file, shares)];
    let v2 = matches!(hierarchy, Hierarchy::V2(_));
    // No limit is written down too: there may have been one before.
    let none = if v2 { "max" } else { "-1" };
    let written = |limit: Option<i64>| limit.map_or(none.to_owned(), |limit| limit.to_string());
    match v2 {
        true => all.push(("cpu", "cpu.max", format!("{} {PERIOD}", written(limits.cpu_quota)))),
        false => {
            all.push(("cpu", "cpu.cfs_period_us", PERIOD.to_string()));
            all.push(("cpu", "cpu.cfs_quota_us", written(limits.cpu_quota)));
        }
    }
    let file = if v2 { "memory.max" } else { "memory.limit_in_bytes" };
    all.push(("memory", file, written(limits.memory)));
    if let Some(pids) = limits.pids {
        all.push(("pids", "pids.max", pids.to_string()));
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_versions() {
        let limits =
            PodLimits { cpu_shares: 1024, cpu_quota: Some(50_000), memory: Some(4096), pids: Some(9) };
        let check = |hierarchy: Hierarchy, want: &[&str]| {
            let got: Vec<_> = settings(&hierarchy, &limits)
                .iter()
                .map(|(_, file, value)| format!("{file}={value}"))
                .collect();
            assert_eq!(got, want);
        };
        check(
            Hierarchy::V1("/c".into()),
            &[
                "cpu.shares=1024",
                "cpu.cfs_period_us=100000",
                "cpu.cfs_quota_us=50000",
                "memory.limit_in_bytes=4096",
                "pids.max=9",
            ],
        );
        check(
            Hierarchy::V2("/c".into()),
            &["cpu.weight=39", "cpu.max=50000 100000", "memory.max=4096", "pids.max=9"],
        );
    }

    #[test]
    fn limits_that_grow() {
        let check = |new: &str, old: &str, want: bool| assert_eq!(is_more(new, old), want, "{new} {old}");
        check("2", "1\n", true);
        check("1", "2\n", false);
        check("max", "7\n", true);
        check("-1", "max\n", false);
        check("200 100000", "100 100000\n", true);
    }

    #[test]
    fn weights() {
        let check = |shares, want| assert_eq!(weight(shares), want);
        check(0, 1);
        check(2, 1);
        check(1024, 39);
        check(262_144, 10_000);
        check(i64::MAX, 10_000);
    }
}
