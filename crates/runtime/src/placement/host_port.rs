//! Ports of a host that pods occupy.

use k8s_openapi::api::core::v1::PodSpec;

/// A port of the host that a pod occupies.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostPort {
    /// `0.0.0.0` is every address.
    pub ip: Box<str>,
    pub protocol: Box<str>,
    pub port: i32,
}

impl HostPort {
    pub fn collides(&self, other: &HostPort) -> bool {
        const ANY: &str = "0.0.0.0";
        let same_address = self.ip == other.ip || &*self.ip == ANY || &*other.ip == ANY;
        self.port == other.port && self.protocol == other.protocol && same_address
    }
}

/// All that a pod wants.
pub fn host_ports(spec: &PodSpec) -> Vec<HostPort> {
    let containers = spec.containers.iter().chain(spec.init_containers.iter().flatten());
    let ports = containers.flat_map(|c| c.ports.iter().flatten());
    ports
        .filter_map(|port| {
            let number = port.host_port.filter(|&p| p > 0)?;
            Some(HostPort {
                ip: port.host_ip.as_deref().filter(|ip| !ip.is_empty()).unwrap_or("0.0.0.0").into(),
                protocol: port.protocol.as_deref().unwrap_or("TCP").into(),
                port: number,
            })
        })
        .collect()
}
