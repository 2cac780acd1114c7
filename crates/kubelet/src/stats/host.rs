//! `/metrics/node`: the machine, under the names of Prometheus' node exporter, so that its dashboards work.
//!
//! Some of those names are in camel case (`node_memory_MemTotal_bytes`): they are the kernel's.

use std::fs::read_to_string;
use std::path::Path;

use jiff::Timestamp;
use minik8s_metrics::Text;

use super::collect::{Disk, disk};
use super::network::{Traffic, parse};

/// One figure of an interface.
type Read = fn(&Traffic) -> u64;

/// What the kernel says, as text.
#[derive(Debug, Default)]
pub struct Host {
    stat: String,
    meminfo: String,
    loadavg: String,
    network: String,
    diskstats: String,
    data_dir: String,
    disk: Disk,
    /// Name of the node, release of the kernel, machine.
    uname: (String, String, String),
    now: Timestamp,
}

const MODES: [&str; 8] = ["user", "nice", "system", "idle", "iowait", "irq", "softirq", "steal"];
/// The kernel counts in hundredths of a second.
const TICKS: f64 = 100.0;
/// And disks in sectors of this size, whatever theirs is.
const SECTOR: f64 = 512.0;

impl Host {
    pub fn read(data_dir: &Path) -> Host {
        let file = |path: &str| read_to_string(path).unwrap_or_default();
        let uname = nix::sys::utsname::uname();
        let text = |part: fn(&nix::sys::utsname::UtsName) -> &std::ffi::OsStr| {
            uname.as_ref().map(|uname| part(uname).to_string_lossy().into_owned()).unwrap_or_default()
        };
        Host {
            stat: file("/proc/stat"),
            meminfo: file("/proc/meminfo"),
            loadavg: file("/proc/loadavg"),
            network: file("/proc/net/dev"),
            diskstats: file("/proc/diskstats"),
            data_dir: data_dir.display().to_string(),
            disk: disk(data_dir),
            uname: (text(|u| u.nodename()), text(|u| u.release()), text(|u| u.machine())),
            now: Timestamp::now(),
        }
    }

    pub fn page(&self) -> String {
        let mut text = Text::default();
        self.processors(&mut text);
        self.memory(&mut text);
        self.interfaces(&mut text);
        self.disks(&mut text);
        let (node, release, machine) = &self.uname;
        text.metric(
            "node_uname_info",
            "gauge",
            "Labeled system information as provided by the uname system call.",
        );
        let labels =
            [("machine", &**machine), ("nodename", node), ("release", release), ("sysname", "Linux")];
        text.sample("node_uname_info", &labels, 1.0, None);
        one(
            &mut text,
            ("node_time_seconds", "gauge"),
            "System time in seconds since epoch (1970).",
            self.now.as_millisecond() as f64 / 1e3,
        );
        text.finish()
    }

    fn processors(&self, text: &mut Text) {
        let name = "node_cpu_seconds_total";
        text.metric(name, "counter", "Seconds the CPUs spent in each mode.");
        for line in self.stat.lines() {
            let mut words = line.split_whitespace();
            let Some(cpu) = words.next().and_then(|word| word.strip_prefix("cpu")).filter(|n| !n.is_empty())
            else {
                continue;
            };
            for (mode, ticks) in MODES.iter().zip(words.filter_map(|word| word.parse::<f64>().ok())) {
                text.sample(name, &[("cpu", cpu), ("mode", mode)], ticks / TICKS, None);
            }
        }
        for (field, name, kind, help) in [
            ("btime", "node_boot_time_seconds", "gauge", "Node boot time, in unixtime."),
            ("ctxt", "node_context_switches_total", "counter", "Total number of context switches."),
            ("processes", "node_forks_total", "counter", "Total number of forks."),
            ("procs_running", "node_procs_running", "gauge", "Number of processes in runnable state."),
            (
                "procs_blocked",
                "node_procs_blocked",
                "gauge",
                "Number of processes blocked waiting for I/O to complete.",
            ),
        ] {
            if let Some(value) = crate::cgroup::field(&self.stat, field) {
                one(text, (name, kind), help, value as f64);
            }
        }
        let loads = self.loadavg.split_whitespace().filter_map(|word| word.parse().ok());
        for (minutes, load) in ["1", "5", "15"].iter().zip(loads) {
            one(text, (&format!("node_load{minutes}"), "gauge"), &format!("{minutes}m load average."), load);
        }
    }

    /// Every line of `/proc/meminfo`.
    fn memory(&self, text: &mut Text) {
        for line in self.meminfo.lines() {
            let Some((field, rest)) = line.split_once(':') else { continue };
            let mut words = rest.split_whitespace();
            let Some(amount) = words.next().and_then(|word| word.parse::<f64>().ok()) else { continue };
            let field = field.replace(['(', ')'], "_");
            let field = field.trim_end_matches('_');
            let help = format!("Memory information field {field}.");
            match words.next() {
                Some("kB") => {
                    one(text, (&format!("node_memory_{field}_bytes"), "gauge"), &help, amount * 1024.0);
                }
                _ => one(text, (&format!("node_memory_{field}"), "gauge"), &help, amount),
            }
        }
    }

    fn interfaces(&self, text: &mut Text) {
        let all = parse(&self.network);
        let families: [(&str, &str, Read); 6] = [
            ("receive_bytes", "Network device statistic receive_bytes.", |t| t.received),
            ("receive_packets", "Network device statistic receive_packets.", |t| t.received_packets),
            ("receive_errs", "Network device statistic receive_errs.", |t| t.receive_errors),
            ("transmit_bytes", "Network device statistic transmit_bytes.", |t| t.sent),
            ("transmit_packets", "Network device statistic transmit_packets.", |t| t.sent_packets),
            ("transmit_errs", "Network device statistic transmit_errs.", |t| t.send_errors),
        ];
        for (field, help, read) in families {
            let name = format!("node_network_{field}_total");
            text.metric(&name, "counter", help);
            for traffic in &all {
                text.sample(&name, &[("device", &traffic.interface)], read(traffic) as f64, None);
            }
        }
    }

    fn disks(&self, text: &mut Text) {
        let rows: Vec<Vec<&str>> =
            self.diskstats.lines().map(|line| line.split_whitespace().collect()).collect();
        for (name, help, column, unit) in [
            ("reads_completed", "The total number of reads completed successfully.", 3, 1.0),
            ("read_bytes", "The total number of bytes read successfully.", 5, SECTOR),
            ("writes_completed", "The total number of writes completed successfully.", 7, 1.0),
            ("written_bytes", "The total number of bytes written successfully.", 9, SECTOR),
            ("io_time_seconds", "Total seconds spent doing I/Os.", 12, 1e-3),
        ] {
            let name = format!("node_disk_{name}_total");
            text.metric(&name, "counter", help);
            for row in &rows {
                let value = row.get(column).and_then(|word| word.parse::<f64>().ok());
                if let (Some(device), Some(value)) = (row.get(2), value) {
                    text.sample(&name, &[("device", device)], value * unit, None);
                }
            }
        }
        let labels = [("mountpoint", self.data_dir.as_str())];
        for (name, help, value) in [
            ("size_bytes", "Filesystem size in bytes.", self.disk.capacity),
            ("avail_bytes", "Filesystem space available to non-root users in bytes.", self.disk.available),
            ("files", "Filesystem total file nodes.", self.disk.inodes),
            ("files_free", "Filesystem total free file nodes.", self.disk.inodes_free),
        ] {
            let name = format!("node_filesystem_{name}");
            text.metric(&name, "gauge", help);
            text.sample(&name, &labels, value as f64, None);
        }
    }
}

fn one(text: &mut Text, (name, kind): (&str, &str), help: &str, value: f64) {
    text.metric(name, kind, help);
    text.sample(name, &[], value, None);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page() {
        let host = Host {
            stat: "cpu  9 9\ncpu0 100 0 50 1000 10 1 2 3 0 0\nbtime 77\nctxt 5\nprocesses 6\n".into(),
            meminfo: "MemTotal:  10 kB\nActive(anon): 4 kB\nHugePages_Total: 3\n".into(),
            loadavg: "0.5 0.25 0.1 1/2 3\n".into(),
            network: "h\nh\n eth0: 100 2 3 0 0 0 0 0 200 4 5 0 0 0 0 0\n".into(),
            diskstats: " 8 0 sda 1 0 4 0 2 0 8 0 0 250 0\n".into(),
            data_dir: "/d".into(),
            disk: Disk { capacity: 100, available: 60, inodes: 10, inodes_free: 5 },
            uname: ("n".into(), "6".into(), "x86_64".into()),
            now: Timestamp::from_second(9).unwrap(),
        };
        let page = host.page();
        for line in [
            "node_cpu_seconds_total{cpu=\"0\",mode=\"user\"} 1",
            "node_cpu_seconds_total{cpu=\"0\",mode=\"steal\"} 0.03",
            "node_boot_time_seconds 77",
            "node_context_switches_total 5",
            "node_load5 0.25",
            "node_memory_MemTotal_bytes 10240",
            "node_memory_Active_anon_bytes 4096",
            "node_memory_HugePages_Total 3",
            "node_network_transmit_bytes_total{device=\"eth0\"} 200",
            "node_disk_written_bytes_total{device=\"sda\"} 4096",
            "node_disk_io_time_seconds_total{device=\"sda\"} 0.25",
            "node_filesystem_avail_bytes{mountpoint=\"/d\"} 60",
            "node_uname_info{machine=\"x86_64\",nodename=\"n\",release=\"6\",sysname=\"Linux\"} 1",
            "node_time_seconds 9",
        ] {
            assert!(page.lines().any(|found| found == line), "{line} is not in\n{page}");
        }
        assert!(Host::read(Path::new("/")).page().contains("node_memory_MemAvailable_bytes"));
    }
}
