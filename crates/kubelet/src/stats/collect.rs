//! One look at everything.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Instant;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Volume;
use minik8s_datadir::is_mount_point;
use nix::sys::statvfs::statvfs;
use parking_lot::Mutex;

use super::network::{Traffic, traffic_of};
use crate::Config;
use crate::cgroup::{Usage, machine_usage, usage};
use crate::context::{NodeContext, VolumeContext};
use crate::cri::{ContainerRow, RuntimeError};
use crate::csi;
use crate::objects::claim_name;
use crate::pod::DesiredPod;
use crate::sandbox::pod_cgroup;
use crate::volume::PodVolumes;

#[derive(Debug, Clone, PartialEq)]
pub struct NodeSample {
    pub node: String,
    pub time: Timestamp,
    pub booted: Timestamp,
    pub usage: Usage,
    /// Billionths of a core since the last look; `None` at the first.
    pub cpu_rate: Option<u64>,
    pub memory_total: u64,
    pub disk: Disk,
    pub traffic: Vec<Traffic>,
    pub pods: Vec<PodSample>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Disk {
    pub capacity: u64,
    pub available: u64,
    pub inodes: u64,
    pub inodes_free: u64,
}

#[derive(Debug, Clone, PartialEq)]
pub struct PodSample {
    pub namespace: String,
    pub name: String,
    pub uid: String,
    pub started: Timestamp,
    pub usage: Usage,
    pub cpu_rate: Option<u64>,
    pub traffic: Vec<Traffic>,
    pub containers: Vec<ContainerSample>,
    pub claims: Vec<ClaimSample>,
}

/// A claim that a pod has mounted, and how full its volume is.
#[derive(Debug, Clone, PartialEq)]
pub struct ClaimSample {
    /// The name of the volume in the pod.
    pub volume: String,
    pub claim: String,
    /// Where it is mounted.
    pub path: PathBuf,
    pub disk: Disk,
}

#[derive(Debug, Clone, PartialEq)]
pub struct ContainerSample {
    pub name: String,
    pub id: String,
    pub image: String,
    pub started: Timestamp,
    pub usage: Usage,
    pub cpu_rate: Option<u64>,
}

/// Remembers the last look, for rates.
#[derive(Default)]
pub struct Collector {
    last: Mutex<BTreeMap<String, (Instant, u64)>>,
}

impl Collector {
    pub async fn collect(&self, context: &VolumeContext) -> Result<NodeSample, RuntimeError> {
        let rows = context.node.runtime.container_rows().await?;
        let mut by_pod: BTreeMap<&str, Vec<&ContainerRow>> = BTreeMap::new();
        for row in &rows {
            by_pod.entry(&row.pod_uid).or_default().push(row);
        }
        let mut rates = Rates { now: Instant::now(), last: self.last.lock().clone(), next: BTreeMap::new() };
        let of_drivers = csi::volume_stats(context).await;
        let pods = context.node.pods.all().into_iter().map(DesiredPod::new);
        let pods = pods.filter_map(|pod| {
            let rows = by_pod.get(pod.uid.as_str()).cloned().unwrap_or_default();
            let claims = sample_claims(&context.node.config, &pod, &of_drivers);
            Some(PodSample { claims, ..sample_pod(&context.node, &pod, &rows, &mut rates)? })
        });
        let pods: Vec<_> = pods.collect();
        let usage = machine_usage();
        let sample = NodeSample {
            node: context.node.config.node_name.clone(),
            time: Timestamp::now(),
            booted: booted(),
            cpu_rate: rates.of("/", usage.cpu),
            usage,
            memory_total: context.node.machine.memory,
            disk: disk(&context.node.config.data_dir),
            traffic: traffic_of(std::process::id()),
            pods,
        };
        *self.last.lock() = rates.next;
        Ok(sample)
    }
}

struct Rates {
    now: Instant,
    last: BTreeMap<String, (Instant, u64)>,
    next: BTreeMap<String, (Instant, u64)>,
}

impl Rates {
    fn of(&mut self, cgroup: &str, cpu: u64) -> Option<u64> {
        self.next.insert(cgroup.to_owned(), (self.now, cpu));
        let (at, before) = self.last.get(cgroup)?;
        let elapsed = self.now.duration_since(*at).as_nanos();
        let used = u128::from(cpu.checked_sub(*before)?);
        u64::try_from((used * 1_000_000_000).checked_div(elapsed)?).ok()
    }
}

fn sample_pod(
    context: &NodeContext,
    pod: &DesiredPod,
    rows: &[&ContainerRow],
    rates: &mut Rates,
) -> Option<PodSample> {
    let cgroup = pod_cgroup(&context.config, pod);
    let whole = usage(&context.cgroups, &cgroup)?;
    let containers = rows.iter().filter(|row| row.running).filter_map(|row| {
        let own = format!("{cgroup}/{}", row.id);
        let usage = usage(&context.cgroups, &own)?;
        Some(ContainerSample {
            name: row.name.clone(),
            id: row.id.clone(),
            image: row.image.clone(),
            started: row.created,
            cpu_rate: rates.of(&own, usage.cpu),
            usage,
        })
    });
    let containers: Vec<_> = containers.collect();
    let status = pod.pod.status.as_ref();
    let traffic = match pod.host_network() {
        true => Vec::new(),
        false => any_process(context, &cgroup, &containers).map(traffic_of).unwrap_or_default(),
    };
    Some(PodSample {
        namespace: pod.namespace.clone(),
        name: pod.name.clone(),
        uid: pod.uid.clone(),
        started: status.and_then(|s| s.start_time.as_ref()).map_or(Timestamp::UNIX_EPOCH, |time| time.0),
        cpu_rate: rates.of(&cgroup, whole.cpu),
        usage: whole,
        traffic,
        containers,
        claims: Vec::new(),
    })
}

/// The claims of this node's pods with their namespaces, each once, with how full their volumes are.
pub async fn claim_samples(context: &VolumeContext) -> Vec<(String, ClaimSample)> {
    let pods = context.node.pods.all().into_iter().map(DesiredPod::new);
    let has_claims = |pod: &DesiredPod| {
        let volumes = pod.spec().and_then(|spec| spec.volumes.as_deref()).unwrap_or_default();
        volumes.iter().any(|volume| claim_name(pod, volume).is_some())
    };
    let pods: Vec<DesiredPod> = pods.filter(has_claims).collect();
    if pods.is_empty() {
        return Vec::new();
    }
    let of_drivers = csi::volume_stats(context).await;
    let mut all: BTreeMap<(String, String), ClaimSample> = BTreeMap::new();
    for pod in &pods {
        for sample in sample_claims(&context.node.config, pod, &of_drivers) {
            all.insert((pod.namespace.clone(), sample.claim.clone()), sample);
        }
    }
    all.into_iter().map(|((namespace, _), sample)| (namespace, sample)).collect()
}

/// Volumes of the class `local` and those on disks are file systems of this machine, and answer at once; for those of
/// drivers, the drivers have spoken. Others are not asked.
fn sample_claims(
    config: &Config,
    pod: &DesiredPod,
    of_drivers: &BTreeMap<PathBuf, Disk>,
) -> Vec<ClaimSample> {
    let volumes = pod.spec().and_then(|spec| spec.volumes.as_deref()).unwrap_or_default();
    let mounted = PodVolumes::new(config, pod);
    let sample = |volume: &Volume| {
        let claim = claim_name(pod, volume)?;
        let path = mounted.path(&volume.name)?;
        let own = [config.volumes_dir(), config.disks_dir()];
        let is_own = own.iter().any(|dir| path.starts_with(dir)) && is_mount_point(&path);
        let disk = if is_own { Some(disk(&path)) } else { of_drivers.get(&path).copied() };
        Some(ClaimSample { volume: volume.name.clone(), claim, disk: disk?, path })
    };
    volumes.iter().filter_map(sample).collect()
}

/// All containers of a pod share a network: any process of theirs will do.
fn any_process(context: &NodeContext, cgroup: &str, containers: &[ContainerSample]) -> Option<u32> {
    containers.iter().find_map(|container| {
        let dir = context.cgroups.dir("memory", &format!("{cgroup}/{}", container.id));
        let processes = std::fs::read_to_string(dir.join("cgroup.procs")).ok()?;
        processes.lines().next()?.parse().ok()
    })
}

pub fn disk(path: &std::path::Path) -> Disk {
    let Ok(fs) = statvfs(path) else { return Disk::default() };
    // Blocks kept back for emergencies do not count, neither as used nor as available.
    let usable = fs.blocks().saturating_sub(fs.blocks_free()) + fs.blocks_available();
    Disk {
        capacity: usable * fs.fragment_size(),
        available: fs.blocks_available() * fs.fragment_size(),
        inodes: fs.files(),
        inodes_free: fs.files_available(),
    }
}

fn booted() -> Timestamp {
    let stat = std::fs::read_to_string("/proc/stat").unwrap_or_default();
    let seconds = stat.lines().find_map(|line| line.strip_prefix("btime ")?.trim().parse().ok());
    Timestamp::from_second(seconds.unwrap_or(0)).unwrap_or_default()
}
