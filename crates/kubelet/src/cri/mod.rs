//! The container runtime, as the agent sees it.
//!
//! [`Runtime`] is the edge: everything above it is tested with a fake, [`Cri`] speaks to the real one.

mod client;
mod labels;
mod port;
mod record;

pub use client::Cri;
pub use labels::*;
pub use record::{ContainerRecord, ContainerState, PodRecord, SandboxRecord};

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::Duration;

use async_trait::async_trait;
use k8s_cri::v1::{AuthConfig, ContainerConfig, LinuxContainerResources, PodSandboxConfig};
use thiserror::Error;

use crate::config::PodPort;
use crate::containerd::SpecEdits;
use crate::image::ViewMount;

#[derive(Debug, Clone, Error)]
pub enum RuntimeError {
    /// The runtime said no. Its words are for the user.
    #[error("{0}")]
    Refused(String),
    /// Nobody answers on the socket; trying again will help.
    #[error("the container runtime does not answer: {0}")]
    Unavailable(String),
    #[error("{0}")]
    NotFound(String),
    #[error("timed out: {0}")]
    Timeout(String),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExecOutput {
    pub stdout: Vec<u8>,
    pub stderr: Vec<u8>,
    pub exit_code: i32,
}

/// A container in a list of all.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ContainerRow {
    pub id: String,
    pub name: String,
    pub pod_uid: String,
    pub attempt: u32,
    pub image: String,
    pub image_id: String,
    pub running: bool,
    pub created: jiff::Timestamp,
}

/// Who sees to it that a container with `supplementalGroupsPolicy: Strict` has no groups of its image.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StrictGroups {
    /// The runtime, if its configuration says so.
    Runtime,
    /// We, before the container starts.
    Agent,
    Nobody,
}

/// Which streams of a command are wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StreamFlags {
    pub stdin: bool,
    pub stdout: bool,
    pub stderr: bool,
    pub tty: bool,
}

/// An image that is present on the node.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ImageRecord {
    /// Digest of the image's config.
    pub id: String,
    pub tags: Vec<String>,
    pub digests: Vec<String>,
    pub size: u64,
    /// The numeric user the image runs as, if it names one.
    pub uid: Option<i64>,
    pub username: String,
}

#[async_trait]
pub trait Runtime: Send + Sync + 'static {
    /// Everything the runtime knows of one pod.
    async fn pod(&self, uid: &str) -> Result<PodRecord, RuntimeError>;
    /// One sandbox; `None` if there is none of that id.
    async fn sandbox(&self, id: &str) -> Result<Option<SandboxRecord>, RuntimeError>;
    /// One container of a sandbox.
    async fn container(&self, id: &str, sandbox_id: &str) -> Result<Option<ContainerRecord>, RuntimeError>;
    /// UIDs of all pods that have a sandbox or a container.
    async fn pod_uids(&self) -> Result<Vec<String>, RuntimeError>;
    /// Ids of all sandboxes and containers.
    async fn ids(&self) -> Result<BTreeSet<String>, RuntimeError>;
    /// All containers of all pods, sandboxes not among them.
    async fn container_rows(&self) -> Result<Vec<ContainerRow>, RuntimeError>;
    /// The pod that a container or sandbox belongs to.
    async fn pod_uid_of(&self, id: &str) -> Result<Option<String>, RuntimeError>;

    /// `handler` names one of the runtime's ways to run pods; empty means its default.
    async fn run_sandbox(&self, config: PodSandboxConfig, handler: &str) -> Result<String, RuntimeError>;
    /// Makes a sandbox that runs already and belongs to nobody the pod's; `None` if there is none that fits. `image` is the
    /// one that its container runs, `container` what is known of that so far.
    async fn adopt_sandbox(
        &self,
        _image: &str,
        _config: &PodSandboxConfig,
        _container: &ContainerConfig,
    ) -> Result<Option<SandboxRecord>, RuntimeError> {
        Ok(None)
    }
    /// Its port of the node's bridge; `None` if it has none, or if the runtime does not tell.
    async fn port(&self, _sandbox_id: &str) -> Result<Option<PodPort>, RuntimeError> {
        Ok(None)
    }
    /// The file of its network namespace, likewise.
    async fn network_namespace(&self, _sandbox_id: &str) -> Result<Option<PathBuf>, RuntimeError> {
        Ok(None)
    }
    async fn stop_sandbox(&self, id: &str) -> Result<(), RuntimeError>;
    async fn remove_sandbox(&self, id: &str) -> Result<(), RuntimeError>;

    async fn create_container(
        &self,
        sandbox_id: &str,
        config: ContainerConfig,
        sandbox: PodSandboxConfig,
    ) -> Result<String, RuntimeError>;
    /// How far the runtime can keep the groups of an image's `/etc/group` away from a container.
    async fn strict_groups(&self) -> Result<StrictGroups, RuntimeError>;
    /// Gives a container that was created and not started no other groups than these and its main one.
    async fn set_groups(&self, id: &str, groups: &[i64]) -> Result<(), RuntimeError>;
    /// Gives a container that was created and not started what its devices need.
    async fn edit_spec(&self, id: &str, edits: &SpecEdits) -> Result<(), RuntimeError>;
    async fn start_container(&self, id: &str) -> Result<(), RuntimeError>;
    /// Sends the stop signal, then kills after `grace`.
    async fn stop_container(&self, id: &str, grace: Duration) -> Result<(), RuntimeError>;
    /// Changes the limits of a running container.
    async fn update_resources(
        &self,
        id: &str,
        resources: LinuxContainerResources,
    ) -> Result<(), RuntimeError>;
    /// Makes the runtime write on in a new log file.
    async fn reopen_log(&self, id: &str) -> Result<(), RuntimeError>;
    async fn remove_container(&self, id: &str) -> Result<(), RuntimeError>;
    async fn exec(&self, id: &str, command: &[String], timeout: Duration)
    -> Result<ExecOutput, RuntimeError>;

    /// Addresses on this host where the runtime serves the stream.
    async fn exec_url(
        &self,
        id: &str,
        command: &[String],
        flags: StreamFlags,
    ) -> Result<String, RuntimeError>;
    async fn attach_url(&self, id: &str, flags: StreamFlags) -> Result<String, RuntimeError>;
    async fn port_forward_url(&self, sandbox_id: &str, ports: Vec<i32>) -> Result<String, RuntimeError>;

    async fn image(&self, name: &str) -> Result<Option<ImageRecord>, RuntimeError>;
    async fn images(&self) -> Result<Vec<ImageRecord>, RuntimeError>;
    async fn pull_image(&self, name: &str, auth: Option<AuthConfig>) -> Result<String, RuntimeError>;
    async fn remove_image(&self, id: &str) -> Result<(), RuntimeError>;
    /// What to mount to see the files of an image in a volume of a pod.
    async fn view_image(
        &self,
        image: &ImageRecord,
        pod_uid: &str,
        volume: &str,
    ) -> Result<Vec<ViewMount>, RuntimeError>;
    /// Removes all that was made for a pod by the above. It must not be mounted any more.
    async fn remove_views(&self, pod_uid: &str) -> Result<(), RuntimeError>;
}
