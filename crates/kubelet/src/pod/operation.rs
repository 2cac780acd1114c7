//! Carries out one action of a plan. Knows nothing of the plan's reasons and decides nothing.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use k8s_cri::v1 as cri;
use minik8s_datadir::remove_tree;
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;
use tracing::warn;

use super::desired_pod::{DesiredPod, Kind};
use super::hook;
use super::limits::{cpu_request, pod_limits};
use super::plan::Action;
use super::port;
use super::qos::{self, QosClass};
use super::runtime_class;
use crate::cgroup;
use crate::container::{Placement, cpu_shares, linux_resources};
use crate::context::{NodeContext, PodContext};
use crate::cri::{ContainerRecord, ContainerState, PodRecord, RuntimeError, SandboxRecord};
use crate::csi;
use crate::ended_logs::{self, EndedPod};
use crate::events::{Severity, Subject};
use crate::objects::{Objects, fetch_claims};
use crate::sandbox::{self, Surroundings};
use crate::volume::{Applicant, PodVolumes, Sources};

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

/// The reason of what was given up because the pod must end. No failure: nobody is told.
pub const STOPPED: &str = "Stopped";

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
#[derive(Clone)]
pub struct Operation {
    pub context: Arc<PodContext>,
    pub desired_pod: DesiredPod,
    pub record: PodRecord,
    /// Fires when the pod must end: what only waits gives up then.
    pub stop: CancellationToken,
}

impl Operation {
    pub async fn carry_out(&self, action: Action) -> Result<Done> {
        match action {
            Action::RunSandbox { attempt, stop } => return self.run_sandbox(attempt, &stop).await,
            Action::SyncVolumes => return self.prepare_volumes(false).await,
            Action::StartContainer { name, sandbox_id, attempt, restart_delay, discard } => {
                let Some(spec) = self.desired_pod.container(&name) else { return Ok(Done::default()) };
                self.end_former(&name).await;
                if let Some(id) = discard {
                    self.runtime(
                        self.context.node.runtime.remove_container(&id).await,
                        "CreateContainerError",
                    )?;
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
                self.runtime(self.context.node.runtime.remove_container(&id).await, "FailedRemoveContainer")?;
            }
            Action::StopSandbox { id } => {
                self.runtime(self.context.node.runtime.stop_sandbox(&id).await, "FailedKillPod")?;
            }
            Action::Release => self.release().await?,
            Action::Remove => self.remove().await?,
        }
        Ok(Done::default())
    }

    async fn run_sandbox(&self, attempt: u32, stop: &[String]) -> Result<Done> {
        for id in stop {
            self.runtime(self.context.node.runtime.stop_sandbox(id).await, "FailedCreatePodSandBox")?;
        }
        // Nothing of a former sandbox may go on beside the new one.
        self.end_processes(vec![sandbox::pod_cgroup(&self.context.node.config, &self.desired_pod)]).await;
        self.admit().await?;
        self.check_host_ports()?;
        let handler = runtime_class::handler(&self.context.client, &self.desired_pod).await;
        let handler = handler.map_err(|e| self.no_sandbox(e))?;
        let done = self.prepare_volumes(true).await?;
        self.prepare_claims().await?;
        let _leave = self.context.node.starts.acquire().await;
        // Before anything asks for the pod's cgroup, which may be the slot's.
        let adopted = self.adopt_slot(attempt, &handler).await;
        if let Err(error) = self.limit_pod() {
            if let Some(sandbox) = &adopted {
                // Nothing of it may run without its limits.
                let _ = self.context.node.runtime.stop_sandbox(&sandbox.id).await;
            }
            return Err(error);
        }
        let config = self.sandbox_config(attempt);
        tokio::fs::create_dir_all(&config.log_directory)
            .await
            .map_err(|e| OperationError::new("FailedCreatePodSandBox", format!("log directory: {e}")))?;
        let id = match &adopted {
            Some(sandbox) => sandbox.id.clone(),
            None => self
                .context
                .node
                .runtime
                .run_sandbox(config, &handler)
                .await
                .map_err(|e| self.no_sandbox(e))?,
        };
        let pod = (self.desired_pod.namespace.clone(), self.desired_pod.name.clone());
        if let Err(error) = port::guard(&self.context.node, &id, Some(pod)).await {
            let message =
                format!("the pod could send with others' addresses or past NetworkPolicies: {error}");
            self.event(None, Severity::Warning, "PortNotGuarded", &message);
        }
        if let Err(error) = self.join_mesh(&id).await {
            // Nothing of it may run past its proxy.
            let _ = self.context.node.runtime.stop_sandbox(&id).await;
            return Err(self.no_sandbox(format!("the pod's connections cannot be led to its proxy: {error}")));
        }
        let sandbox = match adopted {
            Some(sandbox) => Some(sandbox),
            None => self.context.node.runtime.sandbox(&id).await.ok().flatten(),
        };
        Ok(Done { started: sandbox.map(Started::Sandbox), ..done })
    }

    /// A container runs once: whatever is left of its former incarnations ends before the next begins. Also what the
    /// container runtime does not know any more, unless it is so young that it may be another container's start.
    async fn end_former(&self, name: &str) {
        let pod = sandbox::pod_cgroup(&self.context.node.config, &self.desired_pod);
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
        let waiting = self.context.node.config.adopted_slots.container_of(&self.desired_pod.uid);
        let there = self.context.node.cgroups.children_older_than(&pod, YOUNG);
        let is_forgotten = |id: &String| !known.contains(id.as_str()) && Some(id) != waiting.as_ref();
        let forgotten = there.into_iter().filter(is_forgotten);
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
        let NodeContext { config, cgroups, .. } = self.context.node.as_ref();
        let failed =
            |e: std::io::Error| OperationError::new("FailedCreatePodContainer", format!("cgroup: {e}"));
        let limits = pod_limits(&self.desired_pod, config.pod_pids);
        cgroup::apply(cgroups, &sandbox::pod_cgroup(config, &self.desired_pod), &limits).map_err(failed)?;
        let class = qos::class(&self.desired_pod);
        let milli = match class {
            QosClass::Guaranteed => return Ok(()),
            QosClass::BestEffort => 0,
            QosClass::Burstable => {
                let pods = self.context.node.pods.all().into_iter().map(DesiredPod::new);
                pods.filter(|pod| qos::class(pod) == class).map(|pod| cpu_request(&pod)).sum()
            }
        };
        let cgroup = sandbox::class_cgroup(config, class);
        cgroup::set_cpu_shares(cgroups, &cgroup, cpu_shares(milli)).map_err(failed)
    }

    /// Raises the limits of the pod's cgroup to what its containers may have now.
    fn make_room(&self) -> Result<()> {
        let NodeContext { config, cgroups, .. } = self.context.node.as_ref();
        let cgroup = sandbox::pod_cgroup(config, &self.desired_pod);
        let grown = cgroup::grow(cgroups, &cgroup, &pod_limits(&self.desired_pod, config.pod_pids));
        grown.map_err(|e| OperationError::new("ResizeError", format!("cgroup: {e}")))
    }

    /// The pod's cgroup must never be smaller than its containers': it grows before and shrinks after them.
    async fn resize(&self, name: &str, id: &str) -> Result<()> {
        let Some(spec) = self.desired_pod.container(name) else { return Ok(()) };
        let failed = |e: String| OperationError::new("ResizeError", e);
        self.make_room()?;
        let wanted = spec.spec.resources.clone().unwrap_or_default();
        let memory = self.context.node.machine.memory as i64;
        let resources = linux_resources(&wanted, qos::class(&self.desired_pod), memory);
        let updated = self.context.node.runtime.update_resources(id, resources).await;
        updated.map_err(|e| failed(e.to_string()))?;
        self.limit_pod().map_err(|e| failed(e.message))?;
        let message = format!("Pod resize completed: container {name}: {}", spec.resources);
        self.event(None, Severity::Normal, "ResizeCompleted", &message);
        Ok(())
    }

    /// What only a start needs is not done again for a pod that runs.
    async fn prepare_volumes(&self, is_start: bool) -> Result<Done> {
        let failed = |error: String| {
            self.event(None, Severity::Warning, "FailedMount", &error);
            OperationError::new("FailedMount", error)
        };
        let client = &self.context.client;
        let watches = &self.context.watches;
        let objects =
            Objects::fetch(client, watches, &self.desired_pod).await.map_err(|e| failed(e.to_string()))?;
        let claims =
            fetch_claims(client, &self.desired_pod, is_start).await.map_err(|e| failed(e.to_string()))?;
        let claims = self.stage_claims(claims, is_start).await.map_err(|e| failed(e.message))?;
        self.publish_inline(is_start).await.map_err(|e| failed(e.message))?;
        let (tokens, renew_at) = self
            .context
            .tokens
            .fetch(client, &self.desired_pod, Timestamp::now())
            .await
            .map_err(|e| failed(e.to_string()))?;
        let applicant =
            Applicant { client, node: &self.context.node.config.node_name, desired_pod: &self.desired_pod };
        let requested = self.context.certificates.fetch(&applicant, Timestamp::now());
        let requested = async { requested.await.map_err(|e| failed(e.to_string())) };
        let (certificates, certificates_end) = self.unless_stopped(requested).await?;
        let images = match self.unless_stopped(self.image_views()).await {
            Err(error) if error.reason == STOPPED => return Err(error),
            images => images.map_err(|e| failed(e.message))?,
        };
        let (desired_pod, placement) = (self.desired_pod.clone(), self.placement());
        let context = self.context.clone();
        let prepared = tokio::task::spawn_blocking(move || {
            let sources = Sources {
                desired_pod: &desired_pod,
                placement: &placement,
                objects: &objects,
                claims: &claims,
                tokens: &tokens,
                certificates: &certificates,
                images: &images,
            };
            PodVolumes::new(&context.node.config, &desired_pod).prepare(&sources)
        });
        prepared.await.map_err(|e| failed(e.to_string()))?.map_err(|e| failed(e.to_string()))?;
        let of_drivers = csi::look_again(&self.context.node.config, &self.desired_pod.uid, Timestamp::now());
        let renew_at = [renew_at, certificates_end, of_drivers].into_iter().flatten().min();
        Ok(Done { volumes: Some(renew_at), started: None })
    }

    /// For what may take long and leaves nothing half done: pulls and hooks.
    pub(super) async fn unless_stopped<T>(&self, work: impl Future<Output = Result<T>>) -> Result<T> {
        tokio::select! {
            done = work => done,
            () = self.stop.cancelled() => Err(OperationError::new(STOPPED, "the pod must end")),
        }
    }

    async fn kill(&self, name: &str, id: &str, grace: Duration, why: &str) -> Result<()> {
        let message = if why.is_empty() { format!("Stopping container {name}") } else { why.to_owned() };
        self.event(Some(name), Severity::Normal, "Killing", &message);
        let grace = grace.saturating_sub(self.drain(grace).await).max(GRACE_AFTER_HOOK.min(grace));
        let spec = self.desired_pod.container(name);
        let hook = spec.and_then(|s| s.spec.lifecycle.as_ref()?.pre_stop.clone());
        let mut left = grace;
        if let (Some(handler), Some(spec)) = (hook, spec) {
            let started = Instant::now();
            let ips = self.placement().pod_ips;
            let origin = super::mesh::origin(&self.context.node.config, &self.desired_pod);
            let runtime = self.context.node.runtime.as_ref();
            let target = hook::Target { runtime, container: &spec.spec, id, ips: &ips, origin: &origin };
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
        self.runtime(self.context.node.runtime.stop_container(id, left).await, "FailedKillPod")
    }

    /// Before a deleted pod's containers see a signal, new connections go elsewhere on all nodes. Returns how
    /// long that took, which has a bound.
    async fn drain(&self, grace: Duration) -> Duration {
        let started = Instant::now();
        let wanted = self.desired_pod.deleted.is_some() && !self.desired_pod.host_network();
        if let Some(drains) = self.context.node.config.drains.as_ref().filter(|_| wanted) {
            let (done, drained) = oneshot::channel();
            if drains.send((self.desired_pod.uid.clone(), done)).await.is_ok() {
                let _ = tokio::time::timeout(DRAIN_BOUND.min(grace / 2), drained).await;
            }
        }
        started.elapsed()
    }

    async fn release(&self) -> Result<()> {
        let cgroup = sandbox::pod_cgroup(&self.context.node.config, &self.desired_pod);
        let (context, desired_pod) = (self.context.clone(), self.desired_pod.clone());
        self.context.tokens.forget(&self.desired_pod.uid);
        self.context.certificates.forget(&self.desired_pod.uid);
        self.leave_mesh().await;
        // Before the directory goes that tells of them: who dies in between must find it again.
        let unmounted = PodVolumes::new(&self.context.node.config, &self.desired_pod).unmount_images();
        if unmounted.map_err(|e| self.not_removed(e))? {
            let removed = self.context.node.runtime.remove_views(&self.desired_pod.uid).await;
            self.runtime(removed, "FailedKillPod")?;
        }
        let of_drivers = csi::unpublish_pod(&self.context.volumes, &self.desired_pod.uid).await;
        let of_drivers = of_drivers.map_err(|e| self.not_removed(e))?;
        self.unprepare_claims().await?;
        let released = tokio::task::spawn_blocking(move || {
            cgroup::remove_tree(&cgroup);
            PodVolumes::new(&context.node.config, &desired_pod).release()
        });
        released.await.map_err(|e| self.not_removed(e))?.map_err(|e| self.not_removed(e))?;
        self.context.volumes.storage.release_unused().await;
        csi::release_volumes(&self.context.volumes, &of_drivers).await;
        Ok(())
    }

    /// The pod is not gone before all of it is: it is told, and tried again.
    fn not_removed(&self, error: impl ToString) -> OperationError {
        let error = OperationError::new("FailedKillPod", error);
        let message = format!("error killing pod: {}", error.message);
        self.event(None, Severity::Warning, error.reason, &message);
        error
    }

    async fn remove(&self) -> Result<()> {
        for sandbox in &self.record.sandboxes {
            self.runtime(self.context.node.runtime.remove_sandbox(&sandbox.id).await, "FailedKillPod")?;
        }
        for container in &self.record.containers {
            self.runtime(self.context.node.runtime.remove_container(&container.id).await, "FailedKillPod")?;
        }
        self.release().await?;
        self.keep_logs().await;
        let (dir, name) = (self.context.node.config.logs_dir(), sandbox::pod_log_name(&self.desired_pod));
        let removed = tokio::task::spawn_blocking(move || remove_tree(&dir, name)).await;
        removed.map_err(|e| self.not_removed(e))?.map_err(|e| self.not_removed(e))
    }

    /// Where they cannot be kept, the pod goes all the same.
    async fn keep_logs(&self) {
        let Some(retention) = self.context.node.config.housekeeping.logs.retention else { return };
        let (config, desired_pod) = (&self.context.node.config, &self.desired_pod);
        let (logs, folder) = (sandbox::pod_log_dir(config, desired_pod), config.ended_logs_dir());
        let ended = EndedPod {
            namespace: desired_pod.namespace.clone(),
            name: desired_pod.name.clone(),
            uid: desired_pod.uid.clone(),
            labels: desired_pod.pod.metadata.labels.clone().unwrap_or_default(),
            containers: Vec::new(),
        };
        let kept = tokio::task::spawn_blocking(move || {
            let kept = ended_logs::keep(&logs, &folder, ended);
            ended_logs::prune(&folder, retention, std::time::SystemTime::now());
            kept
        });
        if let Ok(Err(error)) = kept.await {
            warn!(%error, pod = desired_pod.name, namespace = desired_pod.namespace, "its logs are not kept");
        }
    }

    pub(super) fn sandbox_config(&self, attempt: u32) -> cri::PodSandboxConfig {
        let node = Surroundings { config: &self.context.node.config, host_dns: &self.context.node.host_dns };
        sandbox::sandbox_config(&self.desired_pod, &node, attempt)
    }

    pub(super) fn placement(&self) -> Placement {
        let context = &self.context;
        let pod_ips = match self.desired_pod.host_network() {
            true => context.node.config.node_ip_texts(),
            false => self.record.sandbox().map(|sandbox| sandbox.ips.clone()).unwrap_or_default(),
        };
        Placement {
            node_name: context.node.config.node_name.clone(),
            host_ips: context.node.config.node_ip_texts(),
            pod_ips,
            allocatable_cpu: context.node.machine.cpus as i64 * 1000,
            allocatable_memory: context.node.machine.memory as i64,
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
        self.context.recorder.record(subject(&self.desired_pod, container), severity, reason, message);
    }
}

/// A pod, or one of its containers, as events name it.
pub fn subject(desired_pod: &DesiredPod, container: Option<&str>) -> Subject {
    let list = |name: &str| match desired_pod.container(name).map(|c| c.kind) {
        Some(Kind::Init | Kind::Sidecar) => "initContainers",
        Some(Kind::Ephemeral) => "ephemeralContainers",
        _ => "containers",
    };
    Subject {
        kind: "Pod",
        namespace: desired_pod.namespace.clone(),
        name: desired_pod.name.clone(),
        uid: desired_pod.pod.metadata.uid.clone().unwrap_or_default(),
        field_path: container.map(|name| format!("spec.{}{{{name}}}", list(name))),
    }
}
