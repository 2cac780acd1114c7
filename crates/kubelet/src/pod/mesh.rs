//! Pods with a proxy of the mesh: before anything of such a pod runs, its connections are led to the proxy; and nothing
//! else of it starts before the proxy routes.
//!
//! A pod is of the mesh by its spec alone: an init container that stays, of the proxy's name and image.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use k8s_cri::v1 as cri;
use minik8s_meta::mesh::{
    MESH_LABEL, MeshStep, NETNS_FILE, SIDECAR, SIDECAR_UID, SOCKET_DIR, is_sidecar_image,
};
use tokio::sync::oneshot;
use tokio::time::timeout;

use super::desired_pod::{ContainerSpec, DesiredPod, Kind};
use super::operation::Operation;
use crate::config::Config;
use crate::events::Severity;
use crate::handler::Origin;
use crate::image::{SIDECAR_PROGRAM, sidecar_program};
use crate::volume::PodVolumes;

/// The folder below the pod's own that has the socket of its proxy.
const FOLDER: &str = "mesh";
const BOUND: Duration = Duration::from_secs(30);

fn is_proxy(container: &ContainerSpec) -> bool {
    container.kind == Kind::Sidecar
        && container.spec.name == SIDECAR
        && is_sidecar_image(container.spec.image.as_deref())
}

/// Whether a pod has a proxy. In the host's network nothing can be led to one.
fn is_meshed(desired_pod: &DesiredPod) -> bool {
    !desired_pod.host_network() && desired_pod.containers.iter().any(is_proxy)
}

/// Whether a container may run as this user, which its image can name, too: what the proxy's user sends is led past the
/// proxy, so nobody else may be it. Users that a spec names were looked at when the pod was made.
pub(super) fn check_user(
    desired_pod: &DesiredPod,
    container: &ContainerSpec,
    user: Option<i64>,
) -> Result<(), String> {
    if user != Some(SIDECAR_UID) || is_proxy(container) || !is_meshed(desired_pod) {
        return Ok(());
    }
    Err(format!(
        "container runs as user {SIDECAR_UID} of its image, whose connections the mesh takes for those of its proxy: set \
         runAsUser to another, or the label {MESH_LABEL}: disabled"
    ))
}

/// Where connections of the agent to the pod's containers begin.
pub(super) fn origin(config: &Config, desired_pod: &DesiredPod) -> Origin {
    if !is_meshed(desired_pod) {
        return Origin::default();
    }
    let file = PodVolumes::new(config, desired_pod).dir().join(FOLDER).join(NETNS_FILE);
    Origin { netns: std::fs::read_to_string(file).ok().map(PathBuf::from) }
}

impl Operation {
    /// Returns when the pod's connections are led to its proxy, or why not.
    pub(super) async fn join_mesh(&self, sandbox_id: &str) -> Result<(), String> {
        if !is_meshed(&self.desired_pod) {
            return Ok(());
        }
        let netns = self.context.node.runtime.network_namespace(sandbox_id).await;
        let netns = netns.map_err(|error| error.to_string())?;
        let netns = netns.ok_or("the container runtime does not tell its network namespace")?;
        let dir = PodVolumes::new(&self.context.node.config, &self.desired_pod).dir().join(FOLDER);
        let pod = format!("{}/{}", self.desired_pod.namespace, self.desired_pod.name);
        self.ask_mesh(MeshStep::Start { uid: self.desired_pod.uid.clone(), pod, dir, netns }).await
    }

    /// A proxy that does not come to know its routes goes by what it knew before, or lets nobody in. The pod runs all the
    /// same: what it sends arrives.
    pub(super) async fn await_proxy(&self, spec: &ContainerSpec) {
        if !is_proxy(spec) || !is_meshed(&self.desired_pod) {
            return;
        }
        let uid = self.desired_pod.uid.clone();
        let ready = tokio::select! {
            ready = self.ask_mesh(MeshStep::Ready { uid }) => ready,
            () = self.stop.cancelled() => Ok(()),
        };
        if let Err(error) = ready {
            let message = format!("the pod starts before its proxy has heard of any routes: {error}");
            self.event(Some(SIDECAR), Severity::Warning, "ProxyNotReady", &message);
        }
    }

    pub(super) async fn leave_mesh(&self) {
        if is_meshed(&self.desired_pod) {
            let _ = self.ask_mesh(MeshStep::End { uid: self.desired_pod.uid.clone() }).await;
        }
    }

    /// The program, and the socket over which it is fed.
    pub(super) fn proxy_mounts(&self, spec: &ContainerSpec, pod_dir: &Path) -> io::Result<Vec<cri::Mount>> {
        if !is_proxy(spec) || !is_meshed(&self.desired_pod) {
            return Ok(Vec::new());
        }
        let folder = pod_dir.join(FOLDER);
        std::fs::create_dir_all(&folder)?;
        let mount = |host: &Path, container: &str| cri::Mount {
            container_path: container.to_owned(),
            host_path: host.to_string_lossy().into_owned(),
            readonly: true,
            ..Default::default()
        };
        let program = sidecar_program(&self.context.node.config.data_dir)?;
        Ok(vec![mount(&program, SIDECAR_PROGRAM), mount(&folder, SOCKET_DIR)])
    }

    async fn ask_mesh(&self, step: MeshStep) -> Result<(), String> {
        let ended = || "the agent of the mesh has ended".to_owned();
        let mesh = self.context.node.config.mesh.as_ref().ok_or("this node has no mesh")?;
        let (done, answer) = oneshot::channel();
        mesh.send((step, done)).await.map_err(|_| ended())?;
        match timeout(BOUND, answer).await {
            Ok(answer) => answer.unwrap_or_else(|_| Err(ended())),
            Err(_) => Err(format!("the agent of the mesh does not answer within {BOUND:?}")),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use minik8s_meta::mesh::SIDECAR_IMAGE;
    use serde_json::json;

    use super::*;

    #[test]
    fn proxys_user_by_image_is_refused_in_a_meshed_pod() {
        let pod = |init: serde_json::Value, host_network: bool| {
            let spec = json!({"hostNetwork": host_network, "initContainers": init, "containers": [{"name": "main"}]});
            DesiredPod::new(Arc::new(serde_json::from_value(json!({"metadata": {}, "spec": spec})).unwrap()))
        };
        let proxy = || json!([{"name": SIDECAR, "image": SIDECAR_IMAGE, "restartPolicy": "Always"}]);
        let check = |pod: &DesiredPod, container: &str, user: Option<i64>, expected: bool| {
            let container = pod.containers.iter().find(|one| one.spec.name == container).unwrap();
            assert_eq!(check_user(pod, container, user).is_ok(), expected, "{user:?}");
        };
        check(&pod(proxy(), false), "main", Some(1337), false);
        check(&pod(proxy(), false), "main", Some(1000), true);
        check(&pod(proxy(), false), "main", None, true);
        check(&pod(proxy(), false), SIDECAR, Some(1337), true);
        check(&pod(proxy(), true), "main", Some(1337), true);
        check(&pod(json!([]), false), "main", Some(1337), true);
    }
}
