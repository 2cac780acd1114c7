//! The facts of this machine that the node reports and that pods are measured against.

use std::fs::read_to_string;

use crate::Config;
use crate::stats::disk;

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Machine {
    pub cpus: usize,
    pub memory: u64,
    /// Size of the file system that holds the data dir.
    pub disk: u64,
    pub hostname: String,
    pub machine_id: String,
    pub system_uuid: String,
    pub boot_id: String,
    pub kernel: String,
    pub os_image: String,
}

impl Machine {
    pub fn detect(config: &Config) -> Self {
        let first_line = |path: &str| read_to_string(path).unwrap_or_default().trim().to_owned();
        let hostname = first_line("/proc/sys/kernel/hostname");
        let or_name = |text: String| if text.is_empty() { config.node_name.clone() } else { text };
        Machine {
            cpus: std::thread::available_parallelism().map_or(1, Into::into),
            memory: total_memory(&read_to_string("/proc/meminfo").unwrap_or_default()).unwrap_or_default(),
            disk: disk(&config.data_dir).capacity,
            machine_id: or_name(first_line("/etc/machine-id")),
            system_uuid: or_name(first_line("/sys/class/dmi/id/product_uuid")),
            boot_id: first_line("/proc/sys/kernel/random/boot_id"),
            kernel: first_line("/proc/sys/kernel/osrelease"),
            os_image: os_image(&read_to_string("/etc/os-release").unwrap_or_default()),
            hostname: or_name(hostname),
        }
    }
}

fn total_memory(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    let kibibytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kibibytes * 1024)
}

fn os_image(os_release: &str) -> String {
    let name = os_release.lines().find_map(|line| line.strip_prefix("PRETTY_NAME="));
    name.map_or("Linux", |name| name.trim_matches('"')).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files() {
        assert_eq!(total_memory("MemTotal:       16303428 kB\nMemFree: 1 kB\n"), Some(16_303_428 * 1024));
        assert_eq!(total_memory("nothing"), None);
        assert_eq!(os_image("NAME=\"D\"\nPRETTY_NAME=\"Debian 12\"\n"), "Debian 12");
        assert_eq!(os_image(""), "Linux");
    }
}
