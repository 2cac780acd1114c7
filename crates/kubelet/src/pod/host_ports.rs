//! Ports of the node that a pod wants (`hostPort`) and somebody else has.
//!
//! Rules come before listeners: what a pod takes, a program of the machine loses without a word, so the user is told. The
//! node's own ports are never given away: nobody could reach it any more, not even to delete the pod.

use super::desired_pod::DesiredPod;
use super::operation::{Operation, OperationError, Result};
use crate::events::Severity;

const RESERVED: &str = "HostPortReserved";
const IN_USE: &str = "HostPortInUse";

impl Operation {
    /// Before the pod's ports are opened.
    pub(super) fn check_host_ports(&self) -> Result<()> {
        let config = &self.context.node.config;
        let node = &config.node_name;
        for (protocol, port) in host_ports(&self.desired_pod) {
            if protocol == "TCP" && config.own_ports.contains(&port) {
                let message = format!(
                    "hostPort {port}/{protocol} is a port of node {node} itself, so the pod does not start; use \
                     another hostPort"
                );
                self.event(None, Severity::Warning, RESERVED, &message);
                return Err(OperationError::new(RESERVED, message));
            }
            if config.somebody_listens.is_some_and(|listens| listens(protocol, port)) {
                let message = format!(
                    "a program of node {node} listens on port {port}/{protocol}, too; connections to it reach this \
                     pod: stop the program, or use another hostPort"
                );
                self.event(None, Severity::Warning, IN_USE, &message);
            }
        }
        Ok(())
    }
}

/// In the node's own network there is nothing to open: who wants a port that is taken is told so when it listens.
fn host_ports(desired_pod: &DesiredPod) -> Vec<(&str, u16)> {
    if desired_pod.host_network() {
        return Vec::new();
    }
    let ports = desired_pod.containers.iter().flat_map(|container| container.spec.ports.iter().flatten());
    let wanted = ports.filter_map(|port| {
        let number = u16::try_from(port.host_port?).ok().filter(|number| *number != 0)?;
        Some((port.protocol.as_deref().unwrap_or("TCP"), number))
    });
    wanted.collect()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn which_ports_a_pod_wants() {
        let check = |spec: Value, ports: Value, want: &[(&str, u16)]| {
            let mut pod = json!({"metadata": {}, "spec": spec});
            pod["spec"]["containers"] = json!([{"name": "c", "ports": ports}]);
            let desired_pod = DesiredPod::new(Arc::new(serde_json::from_value(pod).unwrap()));
            assert_eq!(host_ports(&desired_pod), want);
        };
        let ports = json!([
            {"containerPort": 80}, {"containerPort": 81, "hostPort": 8081},
            {"containerPort": 53, "hostPort": 53, "protocol": "UDP"}, {"containerPort": 82, "hostPort": 0},
        ]);
        check(json!({}), ports.clone(), &[("TCP", 8081), ("UDP", 53)]);
        check(json!({"hostNetwork": true}), ports, &[]);
    }
}
