//! `/metrics`: what the agent itself does and uses.

use std::collections::BTreeMap;
use std::time::Duration;

use parking_lot::Mutex;

use minik8s_metrics::Text;

use super::collect::{Disk, NodeSample};

/// How often each kind of operation on pods was carried out, how often it failed, how long it took.
#[derive(Default)]
pub struct Operations {
    counts: Mutex<BTreeMap<&'static str, Count>>,
}

/// One figure of an operation.
type Read = fn(&Count) -> f64;

#[derive(Debug, Clone, Copy, Default, PartialEq)]
struct Count {
    done: u64,
    failed: u64,
    time: Duration,
}

/// What the kernel says of this process.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Process {
    pub resident_bytes: u64,
    pub cpu_seconds: f64,
}

impl Operations {
    pub fn note(&self, kind: &'static str, took: Duration, failed: bool) {
        let mut counts = self.counts.lock();
        let count = counts.entry(kind).or_default();
        count.done += 1;
        count.failed += u64::from(failed);
        count.time += took;
    }
}

impl Process {
    pub fn measure() -> Process {
        let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
        let resident =
            status.lines().find_map(|line| line.strip_prefix("VmRSS:")?.trim().strip_suffix(" kB"));
        let kilobytes: u64 = resident.and_then(|n| n.trim().parse().ok()).unwrap_or_default();
        let used = nix::sys::resource::getrusage(nix::sys::resource::UsageWho::RUSAGE_SELF);
        let seconds = |time: nix::sys::time::TimeVal| time.tv_sec() as f64 + time.tv_usec() as f64 / 1e6;
        let cpu_seconds = used.map(|u| seconds(u.user_time()) + seconds(u.system_time())).unwrap_or_default();
        Process { resident_bytes: kilobytes * 1024, cpu_seconds }
    }
}

pub fn own(sample: &NodeSample, operations: &Operations, process: Process) -> String {
    let mut text = Text::default();
    let containers: usize = sample.pods.iter().map(|pod| pod.containers.len()).sum();
    let running = sample.pods.iter().filter(|pod| !pod.containers.is_empty()).count();
    let mut gauge = |name: &str, help: &str, labels: &[(&str, &str)], value: f64| {
        text.metric(name, "gauge", help);
        text.sample(name, labels, value, None);
    };
    gauge("kubelet_node_name", "The node's name. The count is always 1.", &[("node", &sample.node)], 1.0);
    gauge("kubelet_running_pods", "Number of pods that have a running container", &[], running as f64);
    let state = [("container_state", "running")];
    gauge("kubelet_running_containers", "Number of containers currently running", &state, containers as f64);
    gauge(
        "process_resident_memory_bytes",
        "Resident memory size in bytes.",
        &[],
        process.resident_bytes as f64,
    );
    text.metric("process_cpu_seconds_total", "counter", "Total user and system CPU time spent in seconds.");
    text.sample("process_cpu_seconds_total", &[], process.cpu_seconds, None);
    let counts = operations.counts.lock().clone();
    let mut family = |name: &str, kind: &str, help: &str, values: &[(&str, Read)]| {
        text.metric(name, kind, help);
        for (operation, count) in &counts {
            for (suffix, value) in values {
                let labels = [("operation_type", *operation)];
                text.sample(&format!("{name}{suffix}"), &labels, value(count), None);
            }
        }
    };
    family(
        "kubelet_runtime_operations_total",
        "counter",
        "Cumulative number of runtime operations by operation type.",
        &[("", |count| count.done as f64)],
    );
    family(
        "kubelet_runtime_operations_errors_total",
        "counter",
        "Cumulative number of runtime operation errors by operation type.",
        &[("", |count| count.failed as f64)],
    );
    family(
        "kubelet_runtime_operations_duration_seconds",
        "summary",
        "Duration in seconds of runtime operations by operation type.",
        &[("_sum", |count| count.time.as_secs_f64()), ("_count", |count| count.done as f64)],
    );
    volumes(sample, &mut text);
    text.finish()
}

/// A figure of a volume.
type DiskMetric = (&'static str, &'static str, fn(&Disk) -> u64);

fn volumes(sample: &NodeSample, text: &mut Text) {
    const DISK_METRICS: [DiskMetric; 6] = [
        ("capacity_bytes", "Capacity in bytes of the volume", |disk| disk.capacity),
        ("available_bytes", "Number of available bytes in the volume", |disk| disk.available),
        ("used_bytes", "Number of used bytes in the volume", |disk| {
            disk.capacity.saturating_sub(disk.available)
        }),
        ("inodes", "Maximum number of inodes in the volume", |disk| disk.inodes),
        ("inodes_free", "Number of free inodes in the volume", |disk| disk.inodes_free),
        ("inodes_used", "Number of used inodes in the volume", |disk| {
            disk.inodes.saturating_sub(disk.inodes_free)
        }),
    ];
    // Two pods can have one claim.
    let claims = sample
        .pods
        .iter()
        .flat_map(|pod| pod.claims.iter().map(|claim| ((&pod.namespace, &claim.claim), claim)));
    let claims: BTreeMap<_, _> = claims.collect();
    if claims.is_empty() {
        return;
    }
    for (name, help, figure) in DISK_METRICS {
        let name = format!("kubelet_volume_stats_{name}");
        text.metric(&name, "gauge", help);
        for ((namespace, claim), sample) in &claims {
            let labels = [("namespace", namespace.as_str()), ("persistentvolumeclaim", claim.as_str())];
            text.sample(&name, &labels, figure(&sample.disk) as f64, None);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page() {
        let operations = Operations::default();
        operations.note("run_podsandbox", Duration::from_millis(250), false);
        operations.note("run_podsandbox", Duration::from_millis(250), true);
        let process = Process { resident_bytes: 4096, cpu_seconds: 1.5 };
        let page = own(&super::super::resource::tests::node(), &operations, process);
        for line in [
            "kubelet_running_pods 1",
            "kubelet_running_containers{container_state=\"running\"} 1",
            "process_cpu_seconds_total 1.5",
            "kubelet_volume_stats_used_bytes{namespace=\"default\",persistentvolumeclaim=\"data-web\"} 20",
            "kubelet_runtime_operations_total{operation_type=\"run_podsandbox\"} 2",
            "kubelet_runtime_operations_errors_total{operation_type=\"run_podsandbox\"} 1",
            "kubelet_runtime_operations_duration_seconds_sum{operation_type=\"run_podsandbox\"} 0.5",
        ] {
            assert!(page.lines().any(|found| found == line), "{line} is not in\n{page}");
        }
        assert!(Process::measure().resident_bytes > 0);
    }
}
