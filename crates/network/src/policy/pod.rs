//! What policies ask about a pod.

use std::net::IpAddr;

use kube::ResourceExt;
use minik8s_meta::pod_address::{PodAddress, PodAddressPort};

use super::{Key, Labels, Protocol};

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Pod {
    pub namespace: String,
    pub name: String,
    pub labels: Labels,
    pub node: String,
    pub host_network: bool,
    /// Its containers have ended for good: its addresses may be somebody else's.
    pub ended: bool,
    /// Of all families; none before it has one and after it has ended.
    pub addresses: Vec<IpAddr>,
    pub ports: Vec<NamedPort>,
    /// In seconds: of two pods that claim an address, the younger one has it.
    pub created: i64,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct NamedPort {
    pub name: String,
    pub protocol: Protocol,
    pub number: u16,
}

impl From<&PodAddress> for Pod {
    fn from(pod: &PodAddress) -> Self {
        let port = |port: &PodAddressPort| {
            Some(NamedPort {
                name: port.name.clone(),
                protocol: Protocol::parse(Some(&port.protocol))?,
                number: port.port,
            })
        };
        Pod {
            namespace: pod.namespace().unwrap_or_default(),
            name: pod.name_any(),
            labels: pod.metadata.labels.clone().unwrap_or_default(),
            node: pod.spec.node_name.clone(),
            host_network: pod.spec.host_network,
            ended: pod.spec.ended,
            addresses: pod.spec.addresses.iter().filter_map(|text| text.parse().ok()).collect(),
            ports: pod.spec.ports.iter().filter_map(port).collect(),
            created: pod.metadata.creation_timestamp.as_ref().map_or(0, |time| time.0.as_second()),
        }
    }
}

impl Pod {
    pub fn key(&self) -> Key {
        (self.namespace.clone(), self.name.clone())
    }

    /// Containers may share a name of a port only if they mean different protocols.
    pub fn port(&self, name: &str, protocol: Protocol) -> Option<u16> {
        let found = self.ports.iter().find(|port| port.name == name && port.protocol == protocol);
        found.map(|port| port.number)
    }
}
