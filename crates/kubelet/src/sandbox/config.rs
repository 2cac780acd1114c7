//! The CRI configuration of a pod's sandbox.

use std::collections::HashMap;
use std::path::PathBuf;

use k8s_cri::v1 as cri;
use k8s_openapi::api::core::v1 as core;

use super::dns::{ResolvConf, dns_config};
use crate::Config;
use crate::container::{linux_resources, sandbox_security};
use crate::cri::{POD_NAME, POD_NAMESPACE, POD_UID};
use crate::pod::{Blueprint, QosClass, qos_class};

/// Host names are cut to what the kernel takes.
const LONGEST_HOSTNAME: usize = 63;

/// What a sandbox needs to know of its node.
pub struct Surroundings<'a> {
    pub config: &'a Config,
    pub host_dns: &'a ResolvConf,
}

pub fn sandbox_config(blueprint: &Blueprint, node: &Surroundings<'_>, attempt: u32) -> cri::PodSandboxConfig {
    let annotations = blueprint.pod.metadata.annotations.clone().unwrap_or_default();
    cri::PodSandboxConfig {
        metadata: Some(cri::PodSandboxMetadata {
            name: blueprint.name.clone(),
            uid: blueprint.uid.clone(),
            namespace: blueprint.namespace.clone(),
            attempt,
        }),
        // A pod in the node's network shares the node's name: there is nothing to set.
        hostname: match blueprint.host_network() {
            true => String::new(),
            false => hostname(blueprint, &node.config.node_name),
        },
        log_directory: pod_log_dir(node.config, blueprint).to_string_lossy().into_owned(),
        dns_config: Some(dns_config(blueprint, node.config, node.host_dns)),
        port_mappings: port_mappings(blueprint),
        labels: labels(blueprint),
        annotations: annotations.into_iter().collect(),
        linux: Some(cri::LinuxPodSandboxConfig {
            cgroup_parent: pod_cgroup(node.config, blueprint),
            security_context: Some(sandbox_security(blueprint)),
            sysctls: sysctls(blueprint),
            overhead: overhead(blueprint),
            ..Default::default()
        }),
        ..Default::default()
    }
}

/// `ROOT/burstable/podUID`; guaranteed pods stand directly below the root.
pub fn pod_cgroup(config: &Config, blueprint: &Blueprint) -> String {
    format!("{}/pod{}", class_cgroup(config, qos_class(blueprint)), blueprint.uid)
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

pub fn pod_log_dir(config: &Config, blueprint: &Blueprint) -> PathBuf {
    let name = format!("{}_{}_{}", blueprint.namespace, blueprint.name, blueprint.uid);
    config.logs_dir().join(name)
}

/// The pod's host name; with host networking it is the node's.
pub fn hostname(blueprint: &Blueprint, node_name: &str) -> String {
    let spec = blueprint.spec();
    if blueprint.host_network() {
        return node_name.to_owned();
    }
    let wanted = spec.and_then(|s| s.hostname.as_deref()).filter(|name| !name.is_empty());
    let mut name = wanted.unwrap_or(&blueprint.name).to_owned();
    if spec.and_then(|s| s.set_hostname_as_fqdn) == Some(true)
        && let Some(subdomain) = spec.and_then(|s| s.subdomain.as_deref())
    {
        return format!("{name}.{subdomain}.{}.svc", blueprint.namespace);
    }
    let cut = (0..=LONGEST_HOSTNAME.min(name.len())).rev().find(|&n| name.is_char_boundary(n)).unwrap_or(0);
    name.truncate(cut);
    name.trim_end_matches(['-', '.']).to_owned()
}

fn labels(blueprint: &Blueprint) -> HashMap<String, String> {
    let own = [(POD_NAME, &blueprint.name), (POD_NAMESPACE, &blueprint.namespace), (POD_UID, &blueprint.uid)];
    let users = blueprint.pod.metadata.labels.clone().unwrap_or_default();
    users.into_iter().chain(own.into_iter().map(|(k, v)| (k.to_owned(), v.clone()))).collect()
}

fn port_mappings(blueprint: &Blueprint) -> Vec<cri::PortMapping> {
    let ports = blueprint.containers.iter().flat_map(|c| c.spec.ports.iter().flatten());
    if blueprint.host_network() {
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
fn overhead(blueprint: &Blueprint) -> Option<cri::LinuxContainerResources> {
    let limits = blueprint.spec()?.overhead.clone()?;
    let amounts = core::ResourceRequirements { limits: Some(limits), ..Default::default() };
    let resources = linux_resources(&amounts, QosClass::Guaranteed, 0);
    Some(cri::LinuxContainerResources { oom_score_adj: 0, ..resources })
}

fn sysctls(blueprint: &Blueprint) -> HashMap<String, String> {
    let context = blueprint.spec().and_then(|spec| spec.security_context.as_ref());
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
            let blueprint = Blueprint::new(Arc::new(serde_json::from_value(pod).unwrap()));
            assert_eq!(hostname(&blueprint, "node"), want);
        };
        check("web", json!({"containers": []}), "web");
        check("web", json!({"containers": [], "hostname": "other"}), "other");
        check("web", json!({"containers": [], "hostNetwork": true}), "node");
        check(&format!("{}-bc", "a".repeat(62)), json!({"containers": []}), &"a".repeat(62));
        let fqdn = json!({"containers": [], "subdomain": "sub", "setHostnameAsFQDN": true});
        check("web", fqdn, "web.sub.ns.svc");
    }
}
