//! What is measured once a second: the files of every running container.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Instant;

use minik8s_metrics::{ContainerLayout, Layout, NodeUsage, PodLayout, Reading};

use super::gauge::{Buffer, Gauge};
use super::network;
use crate::cgroup::{Hierarchy, busy_nanoseconds, field, meminfo_field};

/// A pod that runs here, with its running containers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Subject {
    pub namespace: String,
    pub name: String,
    pub uid: String,
    pub cgroup: String,
    pub host_network: bool,
    /// Name and id.
    pub containers: Vec<(String, String)>,
}

pub struct Subjects {
    pub layout: Arc<Layout>,
    hierarchy: Hierarchy,
    pods: Vec<PodGauges>,
    stat: Gauge,
    meminfo: Gauge,
    buffer: Buffer,
    /// Files stay open: there are not too many of them.
    keep: bool,
    began: Instant,
}

struct PodGauges {
    uid: String,
    /// `/proc/PID/net/dev` of any process, once one was found.
    traffic: Option<Gauge>,
    host_network: bool,
    containers: Vec<ContainerGauges>,
}

struct ContainerGauges {
    id: String,
    cgroup: String,
    cpu: Gauge,
    memory: Gauge,
    memory_stat: Gauge,
    disk: Gauge,
}

impl Subjects {
    pub fn new(hierarchy: Hierarchy) -> Self {
        Subjects {
            layout: Arc::default(),
            hierarchy,
            pods: Vec::new(),
            stat: Gauge::new("/proc/stat"),
            meminfo: Gauge::new("/proc/meminfo"),
            buffer: Buffer::default(),
            keep: true,
            began: Instant::now(),
        }
    }

    /// Measures these from now on. What was measured before keeps its open files.
    pub fn set(&mut self, subjects: &[Subject], most_files: usize) {
        let layout = layout(subjects);
        if layout == *self.layout {
            return;
        }
        self.keep = subjects.iter().map(|pod| 1 + 4 * pod.containers.len()).sum::<usize>() <= most_files;
        let mut known: HashMap<String, PodGauges> =
            self.pods.drain(..).map(|pod| (pod.uid.clone(), pod)).collect();
        let pods = subjects.iter().map(|subject| {
            let old = known.remove(&subject.uid);
            PodGauges::new(&self.hierarchy, subject, old)
        });
        self.pods = pods.collect();
        self.layout = Arc::new(layout);
    }

    /// Reads everything once.
    pub fn measure(&mut self) -> Reading {
        let (keep, buffer) = (self.keep, &mut self.buffer);
        let at = u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX);
        let cpu = self.stat.read(buffer, true).map(busy_nanoseconds).unwrap_or_default();
        let meminfo = self.meminfo.read(buffer, true).unwrap_or_default();
        let kilobytes = |name: &str| meminfo_field(meminfo, name).unwrap_or_default();
        let working_set = kilobytes("MemTotal").saturating_sub(kilobytes("MemAvailable")) * 1024;
        let mut values = Vec::with_capacity(self.layout.width());
        for pod in &mut self.pods {
            values.extend(pod.traffic(&self.hierarchy, buffer, keep));
            for container in &mut pod.containers {
                values.extend(container.read(&self.hierarchy, buffer, keep));
            }
        }
        Reading { at, node: NodeUsage { cpu, working_set }, values }
    }
}

impl PodGauges {
    fn new(hierarchy: &Hierarchy, subject: &Subject, old: Option<PodGauges>) -> Self {
        let (traffic, old) = old.map_or((None, Vec::new()), |pod| (pod.traffic, pod.containers));
        let mut known: HashMap<String, ContainerGauges> =
            old.into_iter().map(|container| (container.id.clone(), container)).collect();
        let containers = subject.containers.iter().map(|(_, id)| {
            let cgroup = format!("{}/{id}", subject.cgroup);
            known.remove(id).unwrap_or_else(|| ContainerGauges::new(hierarchy, id, cgroup))
        });
        PodGauges {
            uid: subject.uid.clone(),
            traffic,
            host_network: subject.host_network,
            containers: containers.collect(),
        }
    }

    /// Bytes received and sent. All containers of a pod share a network: any process of theirs will do.
    fn traffic(&mut self, hierarchy: &Hierarchy, buffer: &mut Buffer, keep: bool) -> [Option<u64>; 2] {
        if self.host_network {
            return [None, None];
        }
        if self.traffic.is_none() {
            let process = self.containers.iter().find_map(|container| container.process(hierarchy));
            self.traffic = process.map(|pid| Gauge::new(format!("/proc/{pid}/net/dev")));
        }
        let Some(table) = self.traffic.as_mut().and_then(|gauge| gauge.read(buffer, keep)) else {
            // That process has ended; another one is looked for next time.
            self.traffic = None;
            return [None, None];
        };
        let sum = |of: fn(&network::Traffic) -> u64| network::parse(table).iter().map(of).sum();
        [Some(sum(|traffic| traffic.received)), Some(sum(|traffic| traffic.sent))]
    }
}

impl ContainerGauges {
    fn new(hierarchy: &Hierarchy, id: &str, cgroup: String) -> Self {
        let gauge = |controller: &str, file: &str| Gauge::new(hierarchy.dir(controller, &cgroup).join(file));
        let (cpu, memory, disk) = match hierarchy {
            Hierarchy::V1(root) => {
                let controller = if root.join("cpuacct").exists() { "cpuacct" } else { "cpu" };
                let disk = gauge("blkio", "blkio.throttle.io_service_bytes_recursive");
                (gauge(controller, "cpuacct.usage"), gauge("memory", "memory.usage_in_bytes"), disk)
            }
            Hierarchy::V2(_) => (gauge("", "cpu.stat"), gauge("", "memory.current"), gauge("", "io.stat")),
        };
        let memory_stat = gauge("memory", "memory.stat");
        ContainerGauges { id: id.to_owned(), cgroup, cpu, memory, memory_stat, disk }
    }

    fn process(&self, hierarchy: &Hierarchy) -> Option<u32> {
        let dir = hierarchy.dir("memory", &self.cgroup);
        std::fs::read_to_string(dir.join("cgroup.procs")).ok()?.lines().next()?.parse().ok()
    }

    /// CPU time, working set, bytes read and written.
    fn read(&mut self, hierarchy: &Hierarchy, buffer: &mut Buffer, keep: bool) -> [Option<u64>; 4] {
        let is_v2 = matches!(hierarchy, Hierarchy::V2(_));
        let cpu = match is_v2 {
            true => {
                self.cpu.read(buffer, keep).and_then(|stat| field(stat, "usage_usec")).map(|us| us * 1000)
            }
            false => self.cpu.number(buffer, keep),
        };
        let memory = self.memory.number(buffer, keep);
        let idle = if is_v2 { "inactive_file" } else { "total_inactive_file" };
        let idle = self.memory_stat.read(buffer, keep).and_then(|stat| field(stat, idle));
        let working_set = memory.map(|memory| memory.saturating_sub(idle.unwrap_or_default()));
        let (read, written) = self.disk.read(buffer, keep).map(|stat| disk(stat, is_v2)).unzip();
        [cpu, working_set, read, written]
    }
}

/// Bytes read and written, over all disks.
fn disk(stat: &str, is_v2: bool) -> (u64, u64) {
    let words = |line| str::split_whitespace(line);
    let sum = |name: &str| -> u64 {
        let of_line = |line| -> Option<u64> {
            match is_v2 {
                true => words(line).find_map(|word| word.strip_prefix(name)?.strip_prefix('=')?.parse().ok()),
                false => {
                    words(line).nth(1).filter(|word| *word == name).and(words(line).nth(2)?.parse().ok())
                }
            }
        };
        stat.lines().filter_map(of_line).sum::<u64>()
    };
    if is_v2 { (sum("rbytes"), sum("wbytes")) } else { (sum("Read"), sum("Write")) }
}

fn layout(subjects: &[Subject]) -> Layout {
    let container = |(name, id): &(String, String)| ContainerLayout {
        name: name.clone(),
        // Enough of it to tell two lives apart.
        id: id.chars().take(12).collect(),
    };
    let pod = |subject: &Subject| PodLayout {
        namespace: subject.namespace.clone(),
        name: subject.name.clone(),
        uid: subject.uid.clone(),
        containers: subject.containers.iter().map(container).collect(),
    };
    Layout { pods: subjects.iter().map(pod).collect() }
}

/// How many files this process may have open.
pub fn most_open_files() -> usize {
    let limits = nix::sys::resource::getrlimit(nix::sys::resource::Resource::RLIMIT_NOFILE);
    limits.map_or(0, |(soft, _)| usize::try_from(soft).unwrap_or(usize::MAX))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn write(root: &Path, files: &[(&str, &str)]) {
        for (path, text) in files {
            let path = root.join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
    }

    fn subject(containers: &[(&str, &str)]) -> Subject {
        let containers = containers.iter().map(|(name, id)| ((*name).to_owned(), (*id).to_owned()));
        Subject {
            namespace: "ns".into(),
            name: "p".into(),
            uid: "u".into(),
            cgroup: "/pod".into(),
            host_network: true,
            containers: containers.collect(),
        }
    }

    fn check(hierarchy: fn(std::path::PathBuf) -> Hierarchy, files: &[(&str, &str)]) {
        let dir = tempfile::tempdir().unwrap();
        write(dir.path(), files);
        let mut subjects = Subjects::new(hierarchy(dir.path().into()));
        for most_files in [0, 100] {
            subjects.set(&[], 0);
            subjects.set(&[subject(&[("main", "c1"), ("gone", "c2")])], most_files);
            let reading = subjects.measure();
            let main = [Some(5000), Some(200), Some(30), Some(7)];
            let expected: Vec<_> = [None, None].into_iter().chain(main).chain([None; 4]).collect();
            assert_eq!(reading.values, expected, "{most_files}");
            assert_eq!(reading.values.len(), subjects.layout.width());
            assert!(reading.node.cpu > 0 && reading.node.working_set > 0);
        }
    }

    #[test]
    fn both_versions() {
        check(
            Hierarchy::V1,
            &[
                ("cpuacct/pod/c1/cpuacct.usage", "5000\n"),
                ("memory/pod/c1/memory.usage_in_bytes", "300\n"),
                ("memory/pod/c1/memory.stat", "inactive_file 1\ntotal_inactive_file 100\n"),
                (
                    "blkio/pod/c1/blkio.throttle.io_service_bytes_recursive",
                    "8:0 Read 10\n8:0 Write 7\n8:16 Read 20\n8:16 Total 20\nTotal 37\n",
                ),
            ],
        );
        check(
            Hierarchy::V2,
            &[
                ("pod/c1/cpu.stat", "usage_usec 5\nuser_usec 1\n"),
                ("pod/c1/memory.current", "300\n"),
                ("pod/c1/memory.stat", "anon 7\ninactive_file 100\n"),
                ("pod/c1/io.stat", "8:0 rbytes=10 wbytes=7 rios=1\n8:16 rbytes=20 wbytes=0\n"),
            ],
        );
    }

    #[test]
    fn traffic_of_any_process() {
        let dir = tempfile::tempdir().unwrap();
        let procs = format!("{}\n", std::process::id());
        write(dir.path(), &[("pod/c1/cgroup.procs", &procs)]);
        let mut subjects = Subjects::new(Hierarchy::V2(dir.path().into()));
        let own_network = Subject { host_network: false, ..subject(&[("main", "c1")]) };
        subjects.set(&[own_network], 100);
        assert!(subjects.measure().values[0].is_some());
    }
}
