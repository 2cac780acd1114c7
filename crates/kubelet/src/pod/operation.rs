//! Carries out one action of a plan. Knows nothing of the plan's reasons and decides nothing.

use std::time::Duration;

use k8s_cri::v1 as cri;

use super::blueprint::{Blueprint, ContainerSpec};
use super::plan::Action;
use crate::container::{self, Placement};
use crate::context::Context;
use crate::cri::{PodRecord, RuntimeError};
use crate::events::{Severity, Subject};
use crate::objects::Objects;
use crate::sandbox::{self, Surroundings};
use crate::{cgroup, image_pull};

/// Why an operation failed, in Kubernetes' terms.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OperationError {
    pub reason: &'static str,
    pub message: String,
}

impl OperationError {
    pub fn new(reason: &'static str, message: impl ToString) -> Self {
        OperationError { reason, message: message.to_string() }
    }
}

type Result<T> = std::result::Result<T, OperationError>;

/// One pod as an operation sees it: a snapshot.
pub struct Operation {
    pub context: std::sync::Arc<Context>,
    pub blueprint: Blueprint,
    pub record: PodRecord,
}

impl Operation {
    pub async fn carry_out(&self, action: Action) -> Result<()> {
        match action {
            Action::RunSandbox { attempt, stop } => self.run_sandbox(attempt, &stop).await,
            Action::StartContainer { name, sandbox_id, attempt, restart_delay, discard } => {
                let Some(spec) = self.blueprint.container(&name) else { return Ok(()) };
                if let Some(id) = discard {
                    self.runtime(self.context.runtime.remove_container(&id).await, "CreateContainerError")?;
                }
                self.start_container(spec, &sandbox_id, attempt, restart_delay).await
            }
            Action::KillContainer { name, id, grace, why } => {
                self.event(
                    Some(&name),
                    Severity::Normal,
                    "Killing",
                    &format!("Stopping container {name}: {why}"),
                );
                let stopped = self.context.runtime.stop_container(&id, grace).await;
                self.runtime(stopped, "FailedKillPod")
            }
            Action::RemoveContainer { id, .. } => {
                self.runtime(self.context.runtime.remove_container(&id).await, "FailedRemoveContainer")
            }
            Action::StopSandbox { id } => {
                self.runtime(self.context.runtime.stop_sandbox(&id).await, "FailedKillPod")
            }
            Action::Release => self.release().await,
            Action::Remove => self.remove().await,
        }
    }

    async fn run_sandbox(&self, attempt: u32, stop: &[String]) -> Result<()> {
        for id in stop {
            self.runtime(self.context.runtime.stop_sandbox(id).await, "FailedCreatePodSandBox")?;
        }
        let config = self.sandbox_config(attempt);
        std::fs::create_dir_all(&config.log_directory)
            .map_err(|e| OperationError::new("FailedCreatePodSandBox", format!("log directory: {e}")))?;
        let created = self.context.runtime.run_sandbox(config).await;
        if let Err(error) = &created {
            let message = format!("Failed to create pod sandbox: {error}");
            self.event(None, Severity::Warning, "FailedCreatePodSandBox", &message);
        }
        self.runtime(created.map(drop), "FailedCreatePodSandBox")
    }

    async fn start_container(
        &self,
        spec: &ContainerSpec,
        sandbox_id: &str,
        attempt: u32,
        restart_delay: Duration,
    ) -> Result<()> {
        let name = &spec.spec.name;
        let image = image_pull::ensure(&self.context, &self.blueprint, spec).await?;
        let objects = Objects::fetch(&self.context.client, &self.blueprint)
            .await
            .map_err(|e| self.failed(name, "CreateContainerConfigError", e))?;
        let config_error = |e: String| self.failed(name, "CreateContainerConfigError", e);
        let env = container::environment(&self.blueprint, spec, &objects, &self.placement(), &[])
            .map_err(|e| config_error(e.to_string()))?;
        let target = spec.target.as_ref().and_then(|target| self.record.container(target));
        let security =
            container::container_security(&self.blueprint, spec, &image, target.map(|c| c.id.as_str()))
                .map_err(|e| config_error(e.to_string()))?;
        let config = container::container_config(container::Request {
            blueprint: &self.blueprint,
            container: spec,
            attempt,
            restart_delay,
            image_id: &image.id,
            env: &env,
            mounts: Vec::new(),
            security,
            node_memory: self.context.machine.memory as i64,
            termination_message: String::new(),
        });
        let sandbox_config = self.sandbox_config(0);
        let log_dir = sandbox::pod_log_dir(&self.context.config, &self.blueprint).join(name);
        std::fs::create_dir_all(log_dir).map_err(|e| self.failed(name, "CreateContainerError", e))?;
        let id = self
            .context
            .runtime
            .create_container(sandbox_id, config, sandbox_config)
            .await
            .map_err(|e| self.failed(name, "CreateContainerError", e))?;
        self.event(Some(name), Severity::Normal, "Created", &format!("Created container: {name}"));
        self.context
            .runtime
            .start_container(&id)
            .await
            .map_err(|e| self.failed(name, "RunContainerError", e))?;
        self.event(Some(name), Severity::Normal, "Started", &format!("Started container {name}"));
        Ok(())
    }

    async fn release(&self) -> Result<()> {
        let cgroup = sandbox::pod_cgroup(&self.context.config, &self.blueprint);
        let removed = tokio::task::spawn_blocking(move || cgroup::remove_tree(&cgroup)).await;
        removed.map_err(|e| OperationError::new("FailedKillPod", e))
    }

    async fn remove(&self) -> Result<()> {
        for sandbox in &self.record.sandboxes {
            self.runtime(self.context.runtime.remove_sandbox(&sandbox.id).await, "FailedKillPod")?;
        }
        for container in &self.record.containers {
            self.runtime(self.context.runtime.remove_container(&container.id).await, "FailedKillPod")?;
        }
        self.release().await?;
        let logs = sandbox::pod_log_dir(&self.context.config, &self.blueprint);
        match std::fs::remove_dir_all(logs) {
            Err(e) if e.kind() != std::io::ErrorKind::NotFound => {
                Err(OperationError::new("FailedKillPod", e))
            }
            _ => Ok(()),
        }
    }

    fn sandbox_config(&self, attempt: u32) -> cri::PodSandboxConfig {
        let node = Surroundings { config: &self.context.config, host_dns: &self.context.host_dns };
        sandbox::sandbox_config(&self.blueprint, &node, attempt)
    }

    fn placement(&self) -> Placement {
        let context = &self.context;
        let pod_ips = match self.blueprint.host_network() {
            true => vec![context.config.node_ip.to_string()],
            false => self.record.sandbox().map(|sandbox| sandbox.ips.clone()).unwrap_or_default(),
        };
        Placement {
            node_name: context.config.node_name.clone(),
            host_ip: context.config.node_ip.to_string(),
            pod_ips,
            allocatable_cpu: context.machine.cpus as i64 * 1000,
            allocatable_memory: context.machine.memory as i64,
        }
    }

    fn runtime(&self, result: std::result::Result<(), RuntimeError>, reason: &'static str) -> Result<()> {
        result.map_err(|error| OperationError::new(reason, error))
    }

    /// An error of a container, told in an event too.
    fn failed(&self, container: &str, reason: &'static str, error: impl ToString) -> OperationError {
        let error = OperationError::new(reason, error);
        self.event(Some(container), Severity::Warning, "Failed", &format!("Error: {}", error.message));
        error
    }

    fn event(&self, container: Option<&str>, severity: Severity, reason: &str, message: &str) {
        self.context.recorder.record(subject(&self.blueprint, container), severity, reason, message);
    }
}

/// A pod, or one of its containers, as events name it.
pub fn subject(blueprint: &Blueprint, container: Option<&str>) -> Subject {
    use super::blueprint::Kind;
    let list = |name: &str| match blueprint.container(name).map(|c| c.kind) {
        Some(Kind::Init | Kind::Sidecar) => "initContainers",
        Some(Kind::Ephemeral) => "ephemeralContainers",
        _ => "containers",
    };
    Subject {
        kind: "Pod",
        namespace: blueprint.namespace.clone(),
        name: blueprint.name.clone(),
        uid: blueprint.pod.metadata.uid.clone().unwrap_or_default(),
        field_path: container.map(|name| format!("spec.{}{{{name}}}", list(name))),
    }
}
