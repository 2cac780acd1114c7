//! Carries out one action of a plan. Knows nothing of the plan's reasons and decides nothing.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use k8s_cri::v1 as cri;
use tokio::sync::oneshot;

use super::blueprint::{Blueprint, Kind};
use super::hook;
use super::limits::{cpu_request, pod_limits};
use super::plan::Action;
use super::qos::{self, QosClass};
use super::runtime_class;
use crate::cgroup;
use crate::container::{Placement, cpu_shares, linux_resources};
use crate::context::Context;
use crate::cri::{ContainerRecord, ContainerState, PodRecord, RuntimeError, SandboxRecord};
use crate::events::{Severity, Subject};
use crate::objects::{Objects, fetch_claims};
use crate::sandbox::{self, Surroundings};
use crate::volume::{PodVolumes, Sources};

/// What is left of the grace after a preStop hook is never less.
const GRACE_AFTER_HOOK: Duration = Duration::from_secs(2);
/// Nodes that do not answer must not keep a pod from ending.
const DRAIN_BOUND: Duration = Duration::from_secs(3);

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

pub type Result<T> = std::result::Result<T, OperationError>;

/// What an operation found out.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Done {
    /// Volumes were brought up to date; when their first token must be renewed.
    pub volumes: Option<Option<Timestamp>>,
    /// What was started, so that nobody has to look for it.
    pub started: Option<Started>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Started {
    Sandbox(SandboxRecord),
    Container(Box<ContainerRecord>),
}

/// A container that the record does not know yet was made since.
const YOUNG: Duration = Duration::from_secs(10);

/// One pod as an operation sees it: a snapshot.
pub struct Operation {
    pub context: Arc<Context>,
    pub blueprint: Blueprint,
    pub record: PodRecord,
}

impl Operation {
    pub async fn carry_out(&self, action: Action) -> Result<Done> {
        match action {
            Action::RunSandbox { attempt, stop } => return self.run_sandbox(attempt, &stop).await,
            Action::SyncVolumes => return self.prepare_volumes().await,
            Action::StartContainer { name, sandbox_id, attempt, restart_delay, discard } => {
                let Some(spec) = self.blueprint.container(&name) else { return Ok(Done::default()) };
                self.end_former(&name).await;
                if let Some(id) = discard {
                    self.runtime(self.context.runtime.remove_container(&id).await, "CreateContainerError")?;
                }
                // The pod's resources may have changed since the last incarnation.
                if attempt > 0 {
                    self.make_room()?;
                }
                return self.start_container(spec, &sandbox_id, attempt, restart_delay).await;
            }
            Action::KillContainer { name, id, grace, why } => self.kill(&name, &id, grace, &why).await?,
            Action::ResizeContainer { name, id, .. } => self.resize(&name, &id).await?,
            Action::RemoveContainer { id, .. } => {
                self.runtime(self.context.runtime.remove_container(&id).await, "FailedRemoveContainer")?;
            }
            Action::StopSandbox { id } => {
                self.runtime(self.context.runtime.stop_sandbox(&id).await, "FailedKillPod")?;
            }
            Action::Release => self.release().await?,
            Action::Remove => self.remove().await?,
        }
        Ok(Done::default())
    }

    async fn run_sandbox(&self, attempt: u32, stop: &[String]) -> Result<Done> {
        for id in stop {
            self.runtime(self.context.runtime.stop_sandbox(id).await, "FailedCreatePodSandBox")?;
        }
        // Nothing of a former sandbox may go on beside the new one.
        self.end_processes(vec![sandbox::pod_cgroup(&self.context.config, &self.blueprint)]).await;
        self.admit().await?;
        self.check_host_ports()?;
        let handler = runtime_class::handler(&self.context.client, &self.blueprint).await;
        let handler = handler.map_err(|e| self.no_sandbox(e))?;
        let done = self.prepare_volumes().await?;
        let _leave = self.context.starts.acquire().await;
        self.limit_pod()?;
        let config = self.sandbox_config(attempt);
        std::fs::create_dir_all(&config.log_directory)
            .map_err(|e| OperationError::new("FailedCreatePodSandBox", format!("log directory: {e}")))?;
        let created = self.context.runtime.run_sandbox(config, &handler).await;
        let id = created.map_err(|e| self.no_sandbox(e))?;
        let sandbox = self.context.runtime.sandbox(&id).await.ok().flatten();
        Ok(Done { started: sandbox.map(Started::Sandbox), ..done })
    }

    /// A container runs once: whatever is left of its former incarnations ends before the next begins. Also what the
    /// container runtime does not know any more, unless it is so young that it may be another container's start.
    async fn end_former(&self, name: &str) {
        let pod = sandbox::pod_cgroup(&self.context.config, &self.blueprint);
        let (containers, sandboxes) = (&self.record.containers, &self.record.sandboxes);
        let is_over = |former: &&ContainerRecord| {
            former.name == name && !matches!(former.state, ContainerState::Running { .. })
        };
        let over = containers.iter().filter(is_over).map(|former| former.id.clone());
        let known: BTreeSet<&str> = containers
            .iter()
            .map(|known| &*known.id)
            .chain(sandboxes.iter().map(|known| &*known.id))
            .collect();
        let there = self.context.cgroups.children_older_than(&pod, YOUNG);
        let forgotten = there.into_iter().filter(|id| !known.contains(id.as_str()));
        self.end_processes(over.chain(forgotten).map(|id| format!("{pod}/{id}")).collect()).await;
    }

    async fn end_processes(&self, cgroups: Vec<String>) {
        let end = move || cgroups.iter().for_each(|cgroup| cgroup::end_processes(cgroup));
        let _ = tokio::task::spawn_blocking(end).await;
    }

    fn no_sandbox(&self, error: impl ToString) -> OperationError {
        let error = OperationError::new("FailedCreatePodSandBox", error);
        let message = format!("Failed to create pod sandbox: {}", error.message);
        self.event(None, Severity::Warning, error.reason, &message);
        error
    }

    /// The pod's own cgroup, and the weight of its class.
    fn limit_pod(&self) -> Result<()> {
        let Context { config, cgroups, .. } = self.context.as_ref();
        let failed =
            |e: std::io::Error| OperationError::new("FailedCreatePodContainer", format!("cgroup: {e}"));
        let limits = pod_limits(&self.blueprint, config.pod_pids);
        cgroup::apply(cgroups, &sandbox::pod_cgroup(config, &self.blueprint), &limits).map_err(failed)?;
        let class = qos::class(&self.blueprint);
        let milli = match class {
            QosClass::Guaranteed => return Ok(()),
            QosClass::BestEffort => 0,
            QosClass::Burstable => {
                let pods = self.context.pods.all().into_iter().map(Blueprint::new);
                pods.filter(|pod| qos::class(pod) == class).map(|pod| cpu_request(&pod)).sum()
            }
        };
        let cgroup = sandbox::class_cgroup(config, class);
        cgroup::set_cpu_shares(cgroups, &cgroup, cpu_shares(milli)).map_err(failed)
    }

    /// Raises the limits of the pod's cgroup to what its containers may have now.
    fn make_room(&self) -> Result<()> {
        let Context { config, cgroups, .. } = self.context.as_ref();
        let cgroup = sandbox::pod_cgroup(config, &self.blueprint);
        let grown = cgroup::grow(cgroups, &cgroup, &pod_limits(&self.blueprint, config.pod_pids));
        grown.map_err(|e| OperationError::new("ResizeError", format!("cgroup: {e}")))
    }

    /// The pod's cgroup must never be smaller than its containers': it grows before and shrinks after them.
    async fn resize(&self, name: &str, id: &str) -> Result<()> {
        let Some(spec) = self.blueprint.container(name) else { return Ok(()) };
        let failed = |e: String| OperationError::new("ResizeError", e);
        self.make_room()?;
        let wanted = spec.spec.resources.clone().unwrap_or_default();
        let memory = self.context.machine.memory as i64;
        let resources = linux_resources(&wanted, qos::class(&self.blueprint), memory);
        let updated = self.context.runtime.update_resources(id, resources).await;
        updated.map_err(|e| failed(e.to_string()))?;
        self.limit_pod().map_err(|e| failed(e.message))?;
        let message = format!("Pod resize completed: container {name}: {}", spec.resources);
        self.event(None, Severity::Normal, "ResizeCompleted", &message);
        Ok(())
    }

    async fn prepare_volumes(&self) -> Result<Done> {
        let failed = |error: String| {
            self.event(None, Severity::Warning, "FailedMount", &error);
            OperationError::new("FailedMount", error)
        };
        let client = &self.context.client;
        let watches = &self.context.watches;
        let objects =
            Objects::fetch(client, watches, &self.blueprint).await.map_err(|e| failed(e.to_string()))?;
        let claims = fetch_claims(client, &self.blueprint).await.map_err(|e| failed(e.to_string()))?;
        let (tokens, renew_at) = self
            .context
            .tokens
            .fetch(client, &self.blueprint, Timestamp::now())
            .await
            .map_err(|e| failed(e.to_string()))?;
        let images = self.image_views().await.map_err(|e| failed(e.message))?;
        let (blueprint, placement) = (self.blueprint.clone(), self.placement());
        let context = self.context.clone();
        let prepared = tokio::task::spawn_blocking(move || {
            let sources = Sources {
                blueprint: &blueprint,
                placement: &placement,
                objects: &objects,
                claims: &claims,
                tokens: &tokens,
                images: &images,
            };
            PodVolumes::new(&context.config, &blueprint).prepare(&sources)
        });
        prepared.await.map_err(|e| failed(e.to_string()))?.map_err(|e| failed(e.to_string()))?;
        Ok(Done { volumes: Some(renew_at), started: None })
    }

    async fn kill(&self, name: &str, id: &str, grace: Duration, why: &str) -> Result<()> {
        let message = if why.is_empty() { format!("Stopping container {name}") } else { why.to_owned() };
        self.event(Some(name), Severity::Normal, "Killing", &message);
        let grace = grace.saturating_sub(self.drain(grace).await).max(GRACE_AFTER_HOOK.min(grace));
        let spec = self.blueprint.container(name);
        let hook = spec.and_then(|s| s.spec.lifecycle.as_ref()?.pre_stop.clone());
        let mut left = grace;
        if let (Some(handler), Some(spec)) = (hook, spec) {
            let started = Instant::now();
            let ips = self.placement().pod_ips;
            let target =
                hook::Target { runtime: self.context.runtime.as_ref(), container: &spec.spec, id, ips: &ips };
            if let Err(error) = hook::run(&handler, &target, grace).await {
                self.event(
                    Some(name),
                    Severity::Warning,
                    "FailedPreStopHook",
                    &format!("PreStopHook failed: {error}"),
                );
            }
            left = grace.saturating_sub(started.elapsed()).max(GRACE_AFTER_HOOK.min(grace));
        }
        self.runtime(self.context.runtime.stop_container(id, left).await, "FailedKillPod")
    }

    /// Before a deleted pod's containers see a signal, new connections go elsewhere on all nodes. Returns how
    /// long that took, which has a bound.
    async fn drain(&self, grace: Duration) -> Duration {
        let started = Instant::now();
        let wanted = self.blueprint.deleted.is_some() && !self.blueprint.host_network();
        if let Some(drains) = self.context.config.drains.as_ref().filter(|_| wanted) {
            let (done, drained) = oneshot::channel();
            if drains.send((self.blueprint.uid.clone(), done)).await.is_ok() {
                let _ = tokio::time::timeout(DRAIN_BOUND.min(grace / 2), drained).await;
            }
        }
        started.elapsed()
    }

    async fn release(&self) -> Result<()> {
        let cgroup = sandbox::pod_cgroup(&self.context.config, &self.blueprint);
        let (context, blueprint) = (self.context.clone(), self.blueprint.clone());
        self.context.tokens.forget(&self.blueprint.uid);
        // Before the directory goes that tells of them: who dies in between must find it again.
        if PodVolumes::new(&self.context.config, &self.blueprint).unmount_images() {
            let removed = self.context.runtime.remove_views(&self.blueprint.uid).await;
            self.runtime(removed, "FailedKillPod")?;
        }
        let released = tokio::task::spawn_blocking(move || {
            cgroup::remove_tree(&cgroup);
            PodVolumes::new(&context.config, &blueprint).release()
        });
        let failed = |e: String| OperationError::new("FailedKillPod", e);
        released.await.map_err(|e| failed(e.to_string()))?.map_err(|e| failed(e.to_string()))
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

    pub(super) fn sandbox_config(&self, attempt: u32) -> cri::PodSandboxConfig {
        let node = Surroundings { config: &self.context.config, host_dns: &self.context.host_dns };
        sandbox::sandbox_config(&self.blueprint, &node, attempt)
    }

    pub(super) fn placement(&self) -> Placement {
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
    pub(super) fn failed(
        &self,
        container: &str,
        reason: &'static str,
        error: impl ToString,
    ) -> OperationError {
        let error = OperationError::new(reason, error);
        self.event(Some(container), Severity::Warning, "Failed", &format!("Error: {}", error.message));
        error
    }

    pub(super) fn event(&self, container: Option<&str>, severity: Severity, reason: &str, message: &str) {
        self.context.recorder.record(subject(&self.blueprint, container), severity, reason, message);
    }
}

/// A pod, or one of its containers, as events name it.
pub fn subject(blueprint: &Blueprint, container: Option<&str>) -> Subject {
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
