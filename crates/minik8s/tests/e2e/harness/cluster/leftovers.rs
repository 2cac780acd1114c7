//! What a node that was taken apart must not leave: processes, mounts, cgroups, interfaces, rules.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use super::node_config;

/// What was killed may take a moment to be gone.
const GONE: Duration = Duration::from_secs(20);

/// What is there to stay.
pub fn left_behind(dir: &Path) -> Vec<String> {
    let begun = Instant::now();
    loop {
        let found = found_now(dir);
        if found.is_empty() || begun.elapsed() > GONE {
            return found;
        }
        std::thread::sleep(Duration::from_millis(100));
    }
}

fn found_now(dir: &Path) -> Vec<String> {
    let mut found = Vec::new();
    let config = node_config(dir);
    let dir = config.data_dir.clone();
    let (dir, instance) = (dir.to_str().unwrap(), config.instance());
    let mounts = std::fs::read_to_string("/proc/self/mounts").unwrap();
    found.extend(mounts.lines().filter(|line| line.contains(dir)).map(str::to_owned));
    for entry in std::fs::read_dir("/proc").unwrap().flatten() {
        let command = std::fs::read_to_string(entry.path().join("cmdline")).unwrap_or_default();
        if command.contains(dir) {
            found.push(format!("{}: {}", entry.path().display(), command.replace('\0', " ")));
        }
    }
    let interface = format!("/sys/class/net/mk-{instance}");
    let cgroups =
        ["", "/memory", "/cpu", "/pids"].map(|c| format!("/sys/fs/cgroup{c}{}", config.cgroup_root()));
    found.extend(cgroups.into_iter().chain([interface]).filter(|path| Path::new(path).exists()));
    for listing in [["nft", "list", "tables"], ["iptables-save", "-t", "nat"]] {
        let output = Command::new(listing[0]).args(&listing[1..]).stderr(Stdio::null()).output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        found.extend(text.lines().filter(|line| line.contains(&instance)).map(str::to_owned));
    }
    found
}
