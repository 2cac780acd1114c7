//! What the kernel must be able to do.

use std::process::{Command, Stdio};

use super::Finding;

/// Tried in a network namespace that ends with the command.
const TRIED: [(&str, &[&str]); 4] = [
    ("bridges", &["ip", "link", "add", "mk0", "type", "bridge"]),
    ("virtual cables (veth)", &["ip", "link", "add", "mk0", "type", "veth", "peer", "name", "mk1"]),
    ("VXLAN", &["ip", "link", "add", "mk0", "type", "vxlan", "id", "1", "dstport", "8472"]),
    ("nftables", &["nft", "add", "table", "ip", "minik8s-doctor"]),
];
const CONTROLLERS: [&str; 3] = ["cpu", "memory", "pids"];

pub fn check() -> Vec<Finding> {
    let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
    let mut findings = vec![overlay(&read("/proc/filesystems"))];
    findings.push(cgroups(&read("/proc/mounts"), &read("/sys/fs/cgroup/cgroup.controllers")));
    findings.extend(TRIED.iter().map(|(what, command)| {
        let tried = Command::new("unshare").arg("--net").args(*command).stderr(Stdio::null()).status();
        match tried.is_ok_and(|status| status.success()) {
            true => Finding::fine(format!("the kernel has {what}")),
            false => Finding::broken(
                format!("the kernel has no {what} (`unshare --net {}` fails)", command.join(" ")),
                "run as root with a kernel that has it, or load its module with modprobe",
            ),
        }
    }));
    findings
}

fn overlay(filesystems: &str) -> Finding {
    match filesystems.lines().any(|line| line.split_whitespace().next_back() == Some("overlay")) {
        true => Finding::fine("the kernel has overlayfs"),
        false => Finding::warning(
            "the kernel has no overlayfs: images take more room and time",
            "modprobe overlay",
        ),
    }
}

/// Version 1 hierarchies, or the controllers of the version 2 tree.
fn cgroups(mounts: &str, unified: &str) -> Finding {
    let has = |controller: &str| {
        unified.split_whitespace().any(|name| name == controller)
            || mounts.lines().any(|line| {
                let fields: Vec<&str> = line.split_whitespace().collect();
                matches!(fields.as_slice(), [_, _, "cgroup", options, ..]
                    if options.split(',').any(|option| option == controller))
            })
    };
    let missing: Vec<&str> = CONTROLLERS.into_iter().filter(|controller| !has(controller)).collect();
    match missing.is_empty() {
        true => Finding::fine("cgroups limit cpu, memory and processes"),
        false => Finding::broken(
            format!("cgroups cannot limit: {}", missing.join(", ")),
            "mount the cgroup file systems (systemd does), or enable the controllers on the kernel's command line",
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::super::Severity;
    use super::*;

    #[test]
    fn cgroup_versions() {
        let check = |mounts: &str, unified: &str, expected: Severity| {
            assert_eq!(cgroups(mounts, unified).severity, expected, "{mounts} {unified}");
        };
        let v1 = "cgroup /sys/fs/cgroup/cpu cgroup rw,cpu 0 0\ncgroup /m cgroup rw,memory 0 0\ncgroup /p cgroup rw,pids 0 0\n";
        check(v1, "", Severity::Fine);
        check("cgroup2 /sys/fs/cgroup cgroup2 rw 0 0", "cpuset cpu io memory pids", Severity::Fine);
        check("cgroup2 /sys/fs/cgroup cgroup2 rw 0 0", "cpu pids", Severity::Broken);
        check("", "", Severity::Broken);
    }

    #[test]
    fn overlayfs() {
        assert_eq!(overlay("nodev\tproc\nnodev\toverlay\n").severity, Severity::Fine);
        assert_eq!(overlay("nodev\tproc\n\text4\n").severity, Severity::Warning);
    }
}
