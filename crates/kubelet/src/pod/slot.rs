//! Instances of functions that begin in a sandbox which runs already.

use k8s_cri::v1 as cri;
use tracing::warn;

use super::desired_pod::{ContainerSpec, DesiredPod};
use super::operation::Operation;
use super::port;
use crate::Config;
use crate::container::container_security;
use crate::context::NodeContext;
use crate::cri::{ImageRecord, SandboxRecord};
use crate::events::Severity;
use crate::image::runtime_of;

impl Operation {
    /// The sandbox that the pod has adopted, if there was one that fits.
    pub(super) async fn adopt_slot(&self, attempt: u32, handler: &str) -> Option<SandboxRecord> {
        let [container] = self.desired_pod.containers.as_slice() else { return None };
        let image = container.spec.image.as_deref().filter(|image| runtime_of(image).is_some())?;
        if attempt > 0 || !handler.is_empty() || self.desired_pod.host_network() {
            return None;
        }
        let shape = shape(&self.desired_pod, container, &self.context.node.config)?;
        match self.context.node.runtime.adopt_sandbox(image, &self.sandbox_config(attempt), &shape).await {
            Ok(adopted) => {
                if adopted.is_some() {
                    let told = "Adopted a sandbox that was started before";
                    self.event(None, Severity::Normal, "SlotAdopted", told);
                }
                adopted
            }
            Err(error) => {
                warn!(%error, pod = self.desired_pod.full_name(), "cannot adopt a slot");
                None
            }
        }
    }
}

/// What of a container's configuration is known before its volumes and variables are: enough to see that it does not fit.
fn shape(
    desired_pod: &DesiredPod,
    container: &ContainerSpec,
    config: &Config,
) -> Option<cri::ContainerConfig> {
    let spec = &container.spec;
    if spec.volume_devices.as_ref().is_some_and(|devices| !devices.is_empty()) {
        return None;
    }
    let profiles = config.seccomp_dir();
    let security =
        container_security(desired_pod, container, &ImageRecord::default(), None, &profiles).ok()?;
    let mount = |path: &String, is_private: bool| cri::Mount {
        container_path: path.clone(),
        propagation: match is_private {
            true => cri::MountPropagation::PropagationPrivate as i32,
            false => cri::MountPropagation::PropagationHostToContainer as i32,
        },
        ..Default::default()
    };
    let mounts = spec.volume_mounts.iter().flatten();
    let is_private = |propagation: Option<&str>| matches!(propagation, None | Some("None"));
    let variable = |name: &String| cri::KeyValue { key: name.clone(), value: String::new() };
    Some(cri::ContainerConfig {
        command: spec.command.clone().unwrap_or_default(),
        args: spec.args.clone().unwrap_or_default(),
        working_dir: spec.working_dir.clone().unwrap_or_default(),
        stdin: spec.stdin.unwrap_or(false),
        tty: spec.tty.unwrap_or(false),
        envs: spec.env.iter().flatten().map(|one| variable(&one.name)).collect(),
        mounts: mounts
            .map(|one| mount(&one.mount_path, is_private(one.mount_propagation.as_deref())))
            .collect(),
        linux: Some(cri::LinuxContainerConfig { resources: None, security_context: Some(security) }),
        ..Default::default()
    })
}

/// The port of a sandbox that is nobody's.
pub async fn guard_port(context: &NodeContext, sandbox_id: &str) -> Result<(), String> {
    port::guard(context, sandbox_id, None).await
}
