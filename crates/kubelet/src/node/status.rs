//! The status of the node object. Pure.

use std::collections::BTreeMap;

use jiff::Timestamp;
use k8s_openapi::api::core::v1 as core;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use crate::Config;
use crate::cri::ImageRecord;
use crate::machine::Machine;
use crate::pressure::{Pressure, Resource};

/// Upstream lists no more than this.
const MOST_IMAGES: usize = 50;
/// The Kubernetes version whose API this node speaks.
const VERSION: &str = "v1.37.0+minik8s";

/// What was seen of the runtime.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Observation {
    pub pressure: Pressure,
    pub not_ready: Option<String>,
    pub runtime_version: String,
    pub images: Vec<ImageRecord>,
    /// Whether `supplementalGroupsPolicy: Strict` is kept.
    pub strict_groups: bool,
    /// Of device plugins, by resource: how many devices there are, and how many of them can be used.
    pub devices: BTreeMap<String, (usize, usize)>,
}

pub fn default_labels(config: &Config, machine: &Machine) -> BTreeMap<String, String> {
    let _ = machine;
    let pairs = [
        ("kubernetes.io/hostname", config.node_name.as_str()),
        ("kubernetes.io/os", "linux"),
        ("kubernetes.io/arch", architecture()),
        ("beta.kubernetes.io/os", "linux"),
        ("beta.kubernetes.io/arch", architecture()),
    ];
    let own = pairs.into_iter().map(|(key, value)| (key.to_owned(), value.to_owned()));
    own.chain(config.labels.clone()).collect()
}

fn addresses(config: &Config) -> Vec<core::NodeAddress> {
    let address = |type_: &str, address| core::NodeAddress { type_: type_.to_owned(), address };
    let internal = config.node_ip_texts().into_iter().map(|one| address("InternalIP", one));
    internal.chain([address("Hostname", config.node_name.clone())]).collect()
}

pub fn node_status(
    config: &Config,
    machine: &Machine,
    seen: &Observation,
    node: &core::Node,
    now: Timestamp,
) -> core::NodeStatus {
    let measured = capacity(config, machine);
    let with_devices = |count: fn(&(usize, usize)) -> usize| -> BTreeMap<String, Quantity> {
        let devices = seen.devices.iter().map(|(name, all)| (name.clone(), Quantity(count(all).to_string())));
        devices.chain(measured.clone()).collect()
    };
    core::NodeStatus {
        addresses: Some(addresses(config)),
        allocatable: Some(with_devices(|(_, usable)| *usable)),
        capacity: Some(with_devices(|(all, _)| *all)),
        conditions: Some(conditions(seen, node, now)),
        daemon_endpoints: Some(core::NodeDaemonEndpoints {
            kubelet_endpoint: Some(core::DaemonEndpoint { port: config.port.into() }),
        }),
        features: Some(core::NodeFeatures { supplemental_groups_policy: Some(seen.strict_groups) }),
        images: Some(images(&seen.images)).filter(|list| !list.is_empty()),
        node_info: Some(core::NodeSystemInfo {
            architecture: architecture().to_owned(),
            boot_id: machine.boot_id.clone(),
            container_runtime_version: seen.runtime_version.clone(),
            kernel_version: machine.kernel.clone(),
            kube_proxy_version: String::new(),
            kubelet_version: VERSION.to_owned(),
            machine_id: machine.machine_id.clone(),
            operating_system: "linux".to_owned(),
            os_image: machine.os_image.clone(),
            system_uuid: machine.system_uuid.clone(),
            ..Default::default()
        }),
        ..Default::default()
    }
}

pub fn capacity(config: &Config, machine: &Machine) -> BTreeMap<String, Quantity> {
    let measured = [
        ("cpu", machine.cpus.to_string()),
        ("memory", format!("{}Ki", machine.memory / 1024)),
        ("ephemeral-storage", format!("{}Ki", machine.disk / 1024)),
        ("pods", config.max_pods.to_string()),
        ("hugepages-1Gi", "0".to_owned()),
        ("hugepages-2Mi", "0".to_owned()),
    ];
    let measured = measured.into_iter().map(|(name, amount)| (name.to_owned(), amount));
    let all: BTreeMap<_, _> = measured.chain(config.capacity.clone()).collect();
    all.into_iter().map(|(name, amount)| (name, Quantity(amount))).collect()
}

fn conditions(seen: &Observation, node: &core::Node, now: Timestamp) -> Vec<core::NodeCondition> {
    let ready = match &seen.not_ready {
        None => ("Ready", "True", "KubeletReady", "kubelet is posting ready status".to_owned()),
        Some(why) => ("Ready", "False", "KubeletNotReady", why.clone()),
    };
    let pressure =
        |kind: &'static str, resource, fine: (&'static str, &str), short: (&'static str, &str)| match seen
            .pressure
            .is_short_of(resource)
        {
            true => (kind, "True", short.0, short.1.to_owned()),
            false => (kind, "False", fine.0, fine.1.to_owned()),
        };
    let all = [
        pressure(
            "MemoryPressure",
            Resource::Memory,
            ("KubeletHasSufficientMemory", "kubelet has sufficient memory available"),
            ("KubeletHasInsufficientMemory", "kubelet has insufficient memory available"),
        ),
        pressure(
            "DiskPressure",
            Resource::Disk,
            ("KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
            ("KubeletHasDiskPressure", "kubelet has disk pressure"),
        ),
        pressure(
            "PIDPressure",
            Resource::Pids,
            ("KubeletHasSufficientPID", "kubelet has sufficient PID available"),
            ("KubeletHasInsufficientPID", "kubelet has insufficient PID available"),
        ),
        ready,
    ];
    let old = node.status.as_ref().and_then(|status| status.conditions.clone()).unwrap_or_default();
    all.into_iter()
        .map(|(kind, status, reason, message)| {
            let same = old.iter().find(|c| c.type_ == kind && c.status == status);
            core::NodeCondition {
                type_: kind.to_owned(),
                status: status.to_owned(),
                reason: Some(reason.to_owned()),
                message: Some(message),
                last_heartbeat_time: Some(Time(now)),
                last_transition_time: same.and_then(|c| c.last_transition_time.clone()).or(Some(Time(now))),
            }
        })
        .collect()
}

/// The largest first.
fn images(records: &[ImageRecord]) -> Vec<core::ContainerImage> {
    let mut records: Vec<_> = records.iter().collect();
    records.sort_by_key(|image| std::cmp::Reverse((image.size, image.id.clone())));
    let image = |record: &ImageRecord| core::ContainerImage {
        names: Some(record.digests.iter().chain(&record.tags).cloned().collect()),
        size_bytes: Some(record.size as i64),
    };
    records.into_iter().take(MOST_IMAGES).map(image).collect()
}

/// Go's name of this machine's architecture.
fn architecture() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn config() -> Config {
        Config::new("n1", Path::new("/d"), "192.0.2.1".parse().unwrap())
    }

    #[test]
    fn capacity_can_be_overridden() {
        let mut config = config();
        config.capacity.insert("cpu".into(), "64".into());
        config.capacity.insert("example.com/gpu".into(), "2".into());
        let machine = Machine { cpus: 2, memory: 4096, ..Machine::default() };
        let got = capacity(&config, &machine);
        let want = [("cpu", "64"), ("memory", "4Ki"), ("pods", "110"), ("example.com/gpu", "2")];
        for (name, amount) in want {
            assert_eq!(got[name].0, amount, "{name}");
        }
    }

    #[test]
    fn transition_times_stay_until_something_changes() {
        let (early, late) = (Timestamp::from_second(1).unwrap(), Timestamp::from_second(2).unwrap());
        let ready = Observation::default();
        let broken = Observation { not_ready: Some("no network".into()), ..Observation::default() };
        let first = conditions(&ready, &core::Node::default(), early);
        let node = core::Node {
            status: Some(core::NodeStatus { conditions: Some(first), ..Default::default() }),
            ..Default::default()
        };
        let check = |seen: &Observation, status: &str, since: Timestamp| {
            let all = conditions(seen, &node, late);
            let ready = all.iter().find(|c| c.type_ == "Ready").unwrap();
            assert_eq!(ready.status, status);
            assert_eq!(ready.last_transition_time, Some(Time(since)));
            assert_eq!(ready.last_heartbeat_time, Some(Time(late)));
        };
        check(&ready, "True", early);
        check(&broken, "False", late);
    }
}
