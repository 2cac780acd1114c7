//! Pods that this node refuses for good: it could only run them as they do not want to be run.

use k8s_openapi::api::core::v1 as core;

use super::desired_pod::DesiredPod;
use super::local_state::ForcedTermination;
use super::operation::{Operation, OperationError, Result};
use super::unsupported;
use crate::container;
use crate::cri::StrictGroups;
use crate::devices::AllocateError;
use crate::devices::dra::DraError;
use crate::events::Severity;

const GROUPS: &str = "SupplementalGroupsPolicyNotSupported";
pub const GROUPS_MESSAGE: &str = "SupplementalGroupsPolicy=Strict is not supported in this node";
/// As upstream names a pod for which something could not be had that the scheduler had counted on.
const DEVICES: &str = "UnexpectedAdmissionError";
const TOPOLOGY: &str = "TopologyAffinityError";
const SYSCTLS: &str = "SysctlForbidden";

/// Those that have their value in the pod's own namespaces and cannot harm others.
const SAFE_SYSCTLS: [&str; 12] = [
    "kernel.shm_rmid_forced",
    "net.ipv4.ip_local_port_range",
    "net.ipv4.ip_local_reserved_ports",
    "net.ipv4.ip_unprivileged_port_start",
    "net.ipv4.ping_group_range",
    "net.ipv4.tcp_fin_timeout",
    "net.ipv4.tcp_keepalive_intvl",
    "net.ipv4.tcp_keepalive_probes",
    "net.ipv4.tcp_keepalive_time",
    "net.ipv4.tcp_rmem",
    "net.ipv4.tcp_syncookies",
    "net.ipv4.tcp_wmem",
];

impl Operation {
    /// Looks at a pod before anything of it is made.
    pub(super) async fn admit(&self) -> Result<()> {
        self.check_supported()?;
        let devices = self.context.devices.allocate(&self.desired_pod.uid, &self.desired_pod.pod).await;
        devices.map_err(|problem| match problem {
            AllocateError::Unavailable(_) => OperationError::new(DEVICES, problem),
            AllocateError::Topology => OperationError::new(TOPOLOGY, problem),
        })?;
        if let Some(name) = unsafe_sysctl(&self.desired_pod) {
            return Err(OperationError::new(
                SYSCTLS,
                format!("forbidden sysctl: \"{name}\" not allowlisted"),
            ));
        }
        if container::strict_groups(&self.desired_pod).is_none() {
            return Ok(());
        }
        match self.context.node.runtime.strict_groups().await {
            Ok(StrictGroups::Nobody) => Err(OperationError::new(GROUPS, GROUPS_MESSAGE)),
            Ok(_) => Ok(()),
            Err(error) => Err(OperationError::new("FailedCreatePodSandBox", error)),
        }
    }
}

impl Operation {
    /// The drivers of the devices that the pod claims make them ready. Tried again until they do.
    pub(super) async fn prepare_claims(&self) -> Result<()> {
        let DesiredPod { uid, pod, .. } = &self.desired_pod;
        let prepared = self.context.devices.dra.prepare(&self.context.client, uid, pod).await;
        prepared.map_err(|error| self.claims_failed("FailedPrepareDynamicResources", "prepare", &error))
    }

    pub(super) async fn unprepare_claims(&self) -> Result<()> {
        let done = self.context.devices.dra.unprepare(&self.desired_pod.uid).await;
        done.map_err(|error| self.claims_failed("FailedUnprepareDynamicResources", "unprepare", &error))
    }

    fn claims_failed(&self, reason: &'static str, what: &str, error: &DraError) -> OperationError {
        let message = format!("Failed to {what} dynamic resources: {error}");
        self.event(None, Severity::Warning, reason, &message);
        OperationError::new(reason, message)
    }
}

/// The end of a pod that was refused; `None` if the error is of another kind.
pub fn refusal(error: &OperationError) -> Option<ForcedTermination> {
    let refused =
        [GROUPS, SYSCTLS, DEVICES, TOPOLOGY, unsupported::OS, unsupported::APP_ARMOR].contains(&error.reason);
    refused.then(|| ForcedTermination {
        reason: error.reason.to_owned(),
        message: format!("Pod was rejected: {}", error.message),
        at_once: true,
        rejected: true,
    })
}

fn unsafe_sysctl(desired_pod: &DesiredPod) -> Option<String> {
    let context = desired_pod.spec().and_then(|spec: &core::PodSpec| spec.security_context.as_ref());
    let names = context.and_then(|context| context.sysctls.as_ref()).into_iter().flatten();
    // Slashes are another way to write the dots.
    let dotted = names.map(|sysctl| sysctl.name.replace('/', "."));
    dotted.into_iter().find(|name| !SAFE_SYSCTLS.contains(&name.as_str()))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::json;

    use super::*;

    #[test]
    fn sysctls() {
        let check = |names: &[&str], want: Option<&str>| {
            let list: Vec<_> = names.iter().map(|name| json!({"name": name, "value": "1"})).collect();
            let pod =
                json!({"metadata": {}, "spec": {"containers": [], "securityContext": {"sysctls": list}}});
            let desired_pod = DesiredPod::new(Arc::new(serde_json::from_value(pod).unwrap()));
            assert_eq!(unsafe_sysctl(&desired_pod).as_deref(), want, "{names:?}");
        };
        check(&[], None);
        check(&["kernel.shm_rmid_forced", "net/ipv4/tcp_syncookies"], None);
        check(&["net.ipv4.tcp_rmem", "kernel.msgmax"], Some("kernel.msgmax"));
        check(&["net/ipv4/ip_forward"], Some("net.ipv4.ip_forward"));
    }

    #[test]
    fn only_refusals_end_a_pod() {
        let end = |reason| refusal(&OperationError::new(reason, "m")).map(|end| end.reason);
        assert_eq!(end(SYSCTLS).as_deref(), Some(SYSCTLS));
        assert_eq!(end("FailedMount"), None);
    }
}
