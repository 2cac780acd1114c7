//! The CRI configuration of a pod's sandbox.

use std::collections::HashMap;
use std::path::PathBuf;

use k8s_cri::v1 as cri;
use k8s_openapi::api::core::v1 as core;

use super::dns::{ResolvConf, dns_config};
use crate::Config;
use crate::container::{linux_resources, sandbox_security};
use crate::cri::{POD_NAME, POD_NAMESPACE, POD_UID};
use crate::pod::{DesiredPod, QosClass, qos_class};

/// Host names are cut to what the kernel takes.
const LONGEST_HOSTNAME: usize = 63;

/// What a sandbox needs to know of its node.
pub struct Surroundings<'a> {
    pub config: &'a Config,
    pub host_dns: &'a ResolvConf,
}

pub fn sandbox_config(
    desired_pod: &DesiredPod,
    node: &Surroundings<'_>,
    attempt: u32,
) -> cri::PodSandboxConfig {
    let annotations = desired_pod.pod.metadata.annotations.clone().unwrap_or_default();
    cri::PodSandboxConfig {
        metadata: Some(cri::PodSandboxMetadata {
            name: desired_pod.name.clone(),
            uid: desired_pod.uid.clone(),
            namespace: desired_pod.namespace.clone(),
            attempt,
        }),
        // A pod in the node's network shares the node's name: there is nothing to set.
        hostname: match desired_pod.host_network() {
            true => String::new(),
            false => hostname(desired_pod, &node.config.node_name),
        },
        log_directory: pod_log_dir(node.config, desired_pod).to_string_lossy().into_owned(),
        dns_config: Some(dns_config(desired_pod, node.config, node.host_dns)),
        port_mappings: port_mappings(desired_pod),
        labels: labels(desired_pod),
        annotations: annotations.into_iter().collect(),
        linux: Some(cri::LinuxPodSandboxConfig {
            cgroup_parent: pod_cgroup(node.config, desired_pod),
            security_context: Some(sandbox_security(desired_pod, &node.config.seccomp_dir())),
            sysctls: sysctls(desired_pod),
            overhead: overhead(desired_pod),
            ..Default::default()
        }),
        ..Default::default()
    }
}

/// `ROOT/burstable/podUID`; guaranteed pods stand directly below the root, and so do those that live in a slot: weighed by
/// themselves, they have what the class would give them.
pub fn pod_cgroup(config: &Config, desired_pod: &DesiredPod) -> String {
    if let Some(slot) = config.adopted_slots.cgroup_of(&desired_pod.uid) {
        return format!("{}/{slot}", config.cgroup_root());
    }
    format!("{}/pod{}", class_cgroup(config, qos_class(desired_pod)), desired_pod.uid)
}

/// The cgroup of all pods of a class.
pub fn class_cgroup(config: &Config, class: QosClass) -> String {
    let class = match class {
        QosClass::Guaranteed => "",
        QosClass::Burstable => "/burstable",
        QosClass::BestEffort => "/besteffort",
    };
    format!("{}{class}", config.cgroup_root())
}

pub fn pod_log_dir(config: &Config, desired_pod: &DesiredPod) -> PathBuf {
    config.logs_dir().join(pod_log_name(desired_pod))
}

/// What the directory of a pod's logs is called.
pub fn pod_log_name(desired_pod: &DesiredPod) -> String {
    format!("{}_{}_{}", desired_pod.namespace, desired_pod.name, desired_pod.uid)
}

/// The pod's host name; with host networking it is the node's.
pub fn hostname(desired_pod: &DesiredPod, node_name: &str) -> String {
    let spec = desired_pod.spec();
    if desired_pod.host_network() {
        return node_name.to_owned();
    }
    if let Some(name) = hostname_override(desired_pod) {
        return name.to_owned();
    }
    let wanted = spec.and_then(|s| s.hostname.as_deref()).filter(|name| !name.is_empty());
    let mut name = wanted.unwrap_or(&desired_pod.name).to_owned();
    if spec.and_then(|s| s.set_hostname_as_fqdn) == Some(true)
        && let Some(subdomain) = spec.and_then(|s| s.subdomain.as_deref())
    {
        return format!("{name}.{subdomain}.{}.svc", desired_pod.namespace);
    }
    let cut = (0..=LONGEST_HOSTNAME.min(name.len())).rev().find(|&n| name.is_char_boundary(n)).unwrap_or(0);
    name.truncate(cut);
    name.trim_end_matches(['-', '.']).to_owned()
}

/// A host name that is taken as it is: it has nothing to do with names in DNS.
pub fn hostname_override(desired_pod: &DesiredPod) -> Option<&str> {
    desired_pod.spec()?.hostname_override.as_deref().filter(|name| !name.is_empty())
}

fn labels(desired_pod: &DesiredPod) -> HashMap<String, String> {
    let own =
        [(POD_NAME, &desired_pod.name), (POD_NAMESPACE, &desired_pod.namespace), (POD_UID, &desired_pod.uid)];
    let users = desired_pod.pod.metadata.labels.clone().unwrap_or_default();
    users.into_iter().chain(own.into_iter().map(|(k, v)| (k.to_owned(), v.clone()))).collect()
}

fn port_mappings(desired_pod: &DesiredPod) -> Vec<cri::PortMapping> {
    let ports = desired_pod.containers.iter().flat_map(|c| c.spec.ports.iter().flatten());
    if desired_pod.host_network() {
        return Vec::new();
    }
    ports.filter_map(port_mapping).collect()
}

fn port_mapping(port: &core::ContainerPort) -> Option<cri::PortMapping> {
    let protocol = match port.protocol.as_deref() {
        Some("UDP") => cri::Protocol::Udp,
        Some("SCTP") => cri::Protocol::Sctp,
        _ => cri::Protocol::Tcp,
    };
    Some(cri::PortMapping {
        protocol: protocol as i32,
        container_port: port.container_port,
        host_port: port.host_port.filter(|port| *port > 0)?,
        host_ip: port.host_ip.clone().unwrap_or_default(),
    })
}

/// For runtimes that put a pod into a machine of its own, which must be that much larger.
fn overhead(desired_pod: &DesiredPod) -> Option<cri::LinuxContainerResources> {
    let limits = desired_pod.spec()?.overhead.clone()?;
    let amounts = core::ResourceRequirements { limits: Some(limits), ..Default::default() };
    let resources = linux_resources(&amounts, QosClass::Guaranteed, 0);
    Some(cri::LinuxContainerResources { oom_score_adj: 0, ..resources })
}

fn sysctls(desired_pod: &DesiredPod) -> HashMap<String, String> {
    let context = desired_pod.spec().and_then(|spec| spec.security_context.as_ref());
    let list = context.and_then(|c| c.sysctls.as_ref()).into_iter().flatten();
    list.map(|sysctl| (sysctl.name.clone(), sysctl.value.clone())).collect()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn host_names() {
        let check = |name: &str, spec: Value, want: &str| {
            let pod = json!({"metadata": {"name": name, "namespace": "ns"}, "spec": spec});
            let desired_pod = DesiredPod::new(Arc::new(serde_json::from_value(pod).unwrap()));
            assert_eq!(hostname(&desired_pod, "node"), want);
        };
        check("web", json!({"containers": []}), "web");
        check("web", json!({"containers": [], "hostname": "other"}), "other");
        check("web", json!({"containers": [], "hostNetwork": true}), "node");
        check(&format!("{}-bc", "a".repeat(62)), json!({"containers": []}), &"a".repeat(62));
        let fqdn = json!({"containers": [], "subdomain": "sub", "setHostnameAsFQDN": true});
        check("web", fqdn, "web.sub.ns.svc");
        let own = json!({"containers": [], "hostname": "other", "subdomain": "sub", "hostnameOverride": "a.b.example"});
        check("web", own, "a.b.example");
    }
}
