//! What an admitted pod takes of its node. Pure.

use std::sync::Arc;

use k8s_openapi::api::core::v1 as core;
use minik8s_runtime::placement::{HostPort, Resources, host_ports, requested_by};

use crate::pod::desired_pod::{DesiredPod, identity};
use crate::pod::qos::{self, QosClass};
use crate::pod::resize;

/// Pods of this priority are the system's own.
const CRITICAL_PRIORITY: i32 = 2_000_000_000;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Footprint {
    pub uid: String,
    pub requests: Resources,
    pub ports: Vec<HostPort>,
    pub class: QosClass,
    pub priority: Option<i32>,
    /// From a file of this node.
    pub is_static: bool,
    pub is_critical: bool,
}

impl Footprint {
    pub fn of(pod: &core::Pod) -> Self {
        let desired_pod = DesiredPod::new(Arc::new(pod.clone()));
        let empty = core::PodSpec::default();
        let spec = pod.spec.as_ref().unwrap_or(&empty);
        let mut requests = requested_by(spec);
        if let Some(given) = resize::pending(&desired_pod) {
            (requests.cpu, requests.memory) = (given.cpu, given.memory);
        }
        let is_static = desired_pod.is_static();
        Footprint {
            uid: identity(pod),
            requests,
            ports: host_ports(spec),
            class: qos::class(&desired_pod),
            priority: spec.priority,
            is_static,
            is_critical: is_static || spec.priority.is_some_and(|priority| priority >= CRITICAL_PRIORITY),
        }
    }

    /// What it gives back of a resource when it ends.
    pub fn request(&self, resource: &str) -> i64 {
        match resource {
            "pods" => 1,
            "cpu" => self.requests.cpu,
            "memory" => self.requests.memory,
            "ephemeral-storage" => self.requests.ephemeral_storage,
            other => self.requests.other(other),
        }
    }
}
