//! [`Runtime`] over a CRI socket.

use std::collections::{BTreeSet, HashMap};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use jiff::Timestamp;
use k8s_cri::v1 as cri;
use k8s_cri::v1::image_service_client::ImageServiceClient;
use k8s_cri::v1::runtime_service_client::RuntimeServiceClient;
use minik8s_meta::IpFamily;
use tokio::sync::{OnceCell, Semaphore};
use tonic::transport::Channel;
use tonic::{Code, Request, Status};
use tracing::warn;

use super::*;
use crate::containerd::{SpecEdits, can_set_groups, connect, edit_spec, end_task, set_groups};
use crate::image::{ImageViews, ViewMount};

/// Enough for a list of some thousand containers.
const LARGEST_ANSWER: usize = 64 << 20;
/// A call that takes longer than this hangs, unless somebody says otherwise.
const CALL_TIMEOUT: Duration = Duration::from_secs(120);
/// What containerd's CRI says of a container that it has stopped and that containerd keeps.
const HAS_TASK: &str = "failed to delete containerd container";
/// Pods that are looked at as a whole at the same time: that is several calls with buffers of their own, and when
/// the runtime has been away all pods are looked at.
const LOOKS: usize = 8;

#[derive(Clone)]
pub struct Cri {
    runtime: RuntimeServiceClient<Channel>,
    images: ImageServiceClient<Channel>,
    /// For what CRI cannot do and containerd can.
    containerd: Channel,
    timeout: Duration,
    /// Whose addresses of a pod come first.
    primary_family: IpFamily,
    strict_groups: Arc<OnceCell<StrictGroups>>,
    looks: Arc<Semaphore>,
}

impl Cri {
    pub fn new(socket: &Path) -> Self {
        let channel = connect(socket);
        Cri {
            runtime: RuntimeServiceClient::new(channel.clone()).max_decoding_message_size(LARGEST_ANSWER),
            images: ImageServiceClient::new(channel.clone()).max_decoding_message_size(LARGEST_ANSWER),
            containerd: channel,
            timeout: CALL_TIMEOUT,
            primary_family: IpFamily::V4,
            strict_groups: Arc::default(),
            looks: Arc::new(Semaphore::new(LOOKS)),
        }
    }

    pub fn with_timeout(self, timeout: Duration) -> Self {
        Cri { timeout, ..self }
    }

    pub fn with_primary_family(self, primary_family: IpFamily) -> Self {
        Cri { primary_family, ..self }
    }

    fn call<T>(&self, message: T) -> Request<T> {
        let mut request = Request::new(message);
        request.set_timeout(self.timeout);
        request
    }

    /// Name and version, as the node reports them: `containerd://1.6.20`.
    pub async fn version(&self) -> Result<String, RuntimeError> {
        let answer =
            self.runtime.clone().version(self.call(cri::VersionRequest::default())).await?.into_inner();
        let version = answer.runtime_version.trim_start_matches('v');
        Ok(format!("{}://{version}", answer.runtime_name))
    }

    /// `None` when runtime and network are ready, else the reason why not.
    pub async fn not_ready(&self) -> Result<Option<String>, RuntimeError> {
        let answer =
            self.runtime.clone().status(self.call(cri::StatusRequest::default())).await?.into_inner();
        let conditions = answer.status.map(|status| status.conditions).unwrap_or_default();
        let failing = conditions.into_iter().filter(|condition| !condition.status);
        let reasons: Vec<_> =
            failing.map(|c| format!("{} not ready: {} {}", c.r#type, c.reason, c.message)).collect();
        Ok((!reasons.is_empty()).then(|| reasons.join("; ")))
    }

    /// CRI says what snapshotter it uses in an answer meant for people.
    async fn views(&self) -> Result<ImageViews, RuntimeError> {
        let status = self.runtime.clone().status(self.call(cri::StatusRequest { verbose: true })).await?;
        let config = status.into_inner().info.remove("config").unwrap_or_default();
        let config: serde_json::Value = serde_json::from_str(&config).unwrap_or_default();
        match config["containerd"]["snapshotter"].as_str() {
            Some(snapshotter) => Ok(ImageViews::new(self.containerd.clone(), snapshotter.to_owned())),
            None => Err(RuntimeError::Refused("image volumes need containerd as the runtime".to_owned())),
        }
    }

    async fn sandboxes(&self, filter: cri::PodSandboxFilter) -> Result<Vec<cri::PodSandbox>, RuntimeError> {
        let list = self.call(cri::ListPodSandboxRequest { filter: Some(filter) });
        Ok(self.runtime.clone().list_pod_sandbox(list).await?.into_inner().items)
    }

    async fn containers(&self, filter: cri::ContainerFilter) -> Result<Vec<cri::Container>, RuntimeError> {
        let list = self.call(cri::ListContainersRequest { filter: Some(filter) });
        Ok(self.runtime.clone().list_containers(list).await?.into_inner().containers)
    }

    /// `None` if it was removed after it was listed.
    async fn sandbox_record(&self, id: &str) -> Result<Option<SandboxRecord>, RuntimeError> {
        let pod_sandbox_id = id.to_owned();
        let status = self.call(cri::PodSandboxStatusRequest { pod_sandbox_id, verbose: false });
        let answer = match self.runtime.clone().pod_sandbox_status(status).await {
            Ok(answer) => answer.into_inner(),
            Err(status) if status.code() == Code::NotFound => return Ok(None),
            Err(status) => return Err(status.into()),
        };
        let Some(status) = answer.status else { return Ok(None) };
        let network = status.network.unwrap_or_default();
        let more = network.additional_ips.into_iter().map(|ip| ip.ip);
        let mut ips: Vec<String> =
            std::iter::once(network.ip).chain(more).filter(|ip| !ip.is_empty()).collect();
        // Runtimes have an order of their own.
        ips.sort_by_key(|ip| ip.contains(':') != (self.primary_family == IpFamily::V6));
        Ok(Some(SandboxRecord {
            id: status.id,
            attempt: status.metadata.map(|m| m.attempt).unwrap_or_default(),
            ready: status.state == cri::PodSandboxState::SandboxReady as i32,
            created: timestamp(status.created_at).unwrap_or_default(),
            ips,
        }))
    }

    async fn container_record(
        &self,
        id: &str,
        sandbox_id: &str,
    ) -> Result<Option<ContainerRecord>, RuntimeError> {
        let status = self.call(cri::ContainerStatusRequest { container_id: id.to_owned(), verbose: false });
        match self.runtime.clone().container_status(status).await {
            Ok(answer) => Ok(answer.into_inner().status.map(|status| record(sandbox_id.to_owned(), status))),
            Err(status) if status.code() == Code::NotFound => Ok(None),
            Err(status) => Err(status.into()),
        }
    }
}

fn record(sandbox_id: String, status: cri::ContainerStatus) -> ContainerRecord {
    let metadata = status.metadata.clone().unwrap_or_default();
    let annotation = |key: &str| status.annotations.get(key).cloned().unwrap_or_default();
    ContainerRecord {
        sandbox_id,
        name: metadata.name,
        attempt: metadata.attempt,
        state: container_state(&status),
        image: status.image.clone().unwrap_or_default().image,
        image_id: status.image_ref.clone(),
        hash: annotation(CONTAINER_HASH),
        restart_delay: Duration::from_secs(annotation(RESTART_DELAY).parse().unwrap_or_default()),
        termination_message: annotation(TERMINATION_MESSAGE),
        resources: annotation(RESOURCES),
        log_path: status.log_path,
        id: status.id,
    }
}

fn container_state(status: &cri::ContainerStatus) -> ContainerState {
    match status.state() {
        cri::ContainerState::ContainerCreated => ContainerState::Created,
        cri::ContainerState::ContainerRunning => {
            ContainerState::Running { started: timestamp(status.started_at).unwrap_or_default() }
        }
        cri::ContainerState::ContainerExited => ContainerState::Exited {
            started: timestamp(status.started_at),
            finished: timestamp(status.finished_at).unwrap_or_default(),
            code: status.exit_code,
            reason: status.reason.clone(),
            message: status.message.clone(),
        },
        cri::ContainerState::ContainerUnknown => ContainerState::Unknown,
    }
}

#[async_trait]
impl Runtime for Cri {
    async fn pod(&self, uid: &str) -> Result<PodRecord, RuntimeError> {
        let _look = self.looks.acquire().await;
        let labels = HashMap::from([(POD_UID.to_owned(), uid.to_owned())]);
        let (sandboxes, containers) = tokio::try_join!(
            self.sandboxes(cri::PodSandboxFilter { label_selector: labels.clone(), ..Default::default() }),
            self.containers(cri::ContainerFilter { label_selector: labels.clone(), ..Default::default() }),
        )?;
        let label = |key: &str| {
            let of_sandbox = sandboxes.iter().find_map(|s| s.labels.get(key));
            of_sandbox.or_else(|| containers.iter().find_map(|c| c.labels.get(key))).cloned()
        };
        let (namespace, name) = (label(POD_NAMESPACE), label(POD_NAME));
        let (sandboxes, containers) = tokio::try_join!(
            futures::future::try_join_all(sandboxes.iter().map(|s| self.sandbox_record(&s.id))),
            futures::future::try_join_all(
                containers.iter().map(|c| self.container_record(&c.id, &c.pod_sandbox_id))
            ),
        )?;
        let mut record = PodRecord {
            uid: uid.to_owned(),
            namespace: namespace.unwrap_or_default(),
            name: name.unwrap_or_default(),
            sandboxes: sandboxes.into_iter().flatten().collect(),
            containers: containers.into_iter().flatten().collect(),
        };
        record.sort();
        Ok(record)
    }

    async fn sandbox(&self, id: &str) -> Result<Option<SandboxRecord>, RuntimeError> {
        self.sandbox_record(id).await
    }

    async fn container(&self, id: &str, sandbox_id: &str) -> Result<Option<ContainerRecord>, RuntimeError> {
        self.container_record(id, sandbox_id).await
    }

    async fn pod_uids(&self) -> Result<Vec<String>, RuntimeError> {
        let (sandboxes, containers) =
            tokio::try_join!(self.sandboxes(Default::default()), self.containers(Default::default()))?;
        let labels = sandboxes.into_iter().map(|s| s.labels).chain(containers.into_iter().map(|c| c.labels));
        let uids: BTreeSet<_> = labels.filter_map(|mut labels| labels.remove(POD_UID)).collect();
        Ok(uids.into_iter().collect())
    }

    async fn ids(&self) -> Result<BTreeSet<String>, RuntimeError> {
        let (sandboxes, containers) =
            tokio::try_join!(self.sandboxes(Default::default()), self.containers(Default::default()))?;
        let sandboxes = sandboxes.into_iter().map(|sandbox| sandbox.id);
        Ok(sandboxes.chain(containers.into_iter().map(|container| container.id)).collect())
    }

    async fn container_rows(&self) -> Result<Vec<ContainerRow>, RuntimeError> {
        let all = self.containers(Default::default()).await?;
        let row = |mut container: cri::Container| {
            let metadata = container.metadata.take().unwrap_or_default();
            ContainerRow {
                name: metadata.name,
                attempt: metadata.attempt,
                pod_uid: container.labels.remove(POD_UID).unwrap_or_default(),
                image: container.image.take().unwrap_or_default().image,
                image_id: container.image_ref,
                running: container.state == cri::ContainerState::ContainerRunning as i32,
                created: timestamp(container.created_at).unwrap_or_default(),
                id: container.id,
            }
        };
        Ok(all.into_iter().map(row).collect())
    }

    async fn pod_uid_of(&self, id: &str) -> Result<Option<String>, RuntimeError> {
        let by_id = cri::ContainerFilter { id: id.to_owned(), ..Default::default() };
        let containers = self.containers(by_id).await?;
        if let Some(container) = containers.into_iter().next() {
            return Ok(container.labels.get(POD_UID).cloned());
        }
        let by_id = cri::PodSandboxFilter { id: id.to_owned(), ..Default::default() };
        let sandboxes = self.sandboxes(by_id).await?;
        Ok(sandboxes.into_iter().next().and_then(|sandbox| sandbox.labels.get(POD_UID).cloned()))
    }

    async fn run_sandbox(
        &self,
        config: cri::PodSandboxConfig,
        handler: &str,
    ) -> Result<String, RuntimeError> {
        let runtime_handler = handler.to_owned();
        let run = self.call(cri::RunPodSandboxRequest { config: Some(config), runtime_handler });
        Ok(self.runtime.clone().run_pod_sandbox(run).await?.into_inner().pod_sandbox_id)
    }

    async fn port(&self, sandbox_id: &str) -> Result<Option<PodPort>, RuntimeError> {
        let pod_sandbox_id = sandbox_id.to_owned();
        let status = self.call(cri::PodSandboxStatusRequest { pod_sandbox_id, verbose: true });
        let answer = self.runtime.clone().pod_sandbox_status(status).await?.into_inner();
        Ok(answer.info.get("info").and_then(|info| port::port_of(info)))
    }

    async fn network_namespace(&self, sandbox_id: &str) -> Result<Option<PathBuf>, RuntimeError> {
        let pod_sandbox_id = sandbox_id.to_owned();
        let status = self.call(cri::PodSandboxStatusRequest { pod_sandbox_id, verbose: true });
        let answer = self.runtime.clone().pod_sandbox_status(status).await?.into_inner();
        Ok(answer.info.get("info").and_then(|info| port::network_namespace_of(info)))
    }

    async fn stop_sandbox(&self, id: &str) -> Result<(), RuntimeError> {
        let stop = self.call(cri::StopPodSandboxRequest { pod_sandbox_id: id.to_owned() });
        if_there(self.runtime.clone().stop_pod_sandbox(stop).await.map(drop))
    }

    async fn remove_sandbox(&self, id: &str) -> Result<(), RuntimeError> {
        let remove = self.call(cri::RemovePodSandboxRequest { pod_sandbox_id: id.to_owned() });
        if_there(self.runtime.clone().remove_pod_sandbox(remove).await.map(drop))
    }

    async fn create_container(
        &self,
        sandbox_id: &str,
        config: cri::ContainerConfig,
        sandbox: cri::PodSandboxConfig,
    ) -> Result<String, RuntimeError> {
        let create = self.call(cri::CreateContainerRequest {
            pod_sandbox_id: sandbox_id.to_owned(),
            config: Some(config),
            sandbox_config: Some(sandbox),
        });
        Ok(self.runtime.clone().create_container(create).await?.into_inner().container_id)
    }

    async fn strict_groups(&self) -> Result<StrictGroups, RuntimeError> {
        let find_out = async {
            let status = self.runtime.clone().status(self.call(cri::StatusRequest::default())).await?;
            let features = status.into_inner().features.unwrap_or_default();
            if features.supplemental_groups_policy {
                return Ok(StrictGroups::Runtime);
            }
            Ok(match can_set_groups(self.containerd.clone()).await? {
                true => StrictGroups::Agent,
                false => StrictGroups::Nobody,
            })
        };
        self.strict_groups.get_or_try_init(|| find_out).await.copied()
    }

    async fn set_groups(&self, id: &str, groups: &[i64]) -> Result<(), RuntimeError> {
        Ok(set_groups(self.containerd.clone(), id, groups).await?)
    }

    async fn edit_spec(&self, id: &str, edits: &SpecEdits) -> Result<(), RuntimeError> {
        Ok(edit_spec(self.containerd.clone(), id, edits).await?)
    }

    async fn start_container(&self, id: &str) -> Result<(), RuntimeError> {
        let start = self.call(cri::StartContainerRequest { container_id: id.to_owned() });
        Ok(self.runtime.clone().start_container(start).await.map(drop)?)
    }

    async fn stop_container(&self, id: &str, grace: Duration) -> Result<(), RuntimeError> {
        let timeout = grace.as_secs() as i64;
        let mut stop = Request::new(cri::StopContainerRequest { container_id: id.to_owned(), timeout });
        stop.set_timeout(grace + self.timeout);
        if_there(self.runtime.clone().stop_container(stop).await.map(drop))
    }

    async fn update_resources(
        &self,
        id: &str,
        resources: cri::LinuxContainerResources,
    ) -> Result<(), RuntimeError> {
        let update = self.call(cri::UpdateContainerResourcesRequest {
            container_id: id.to_owned(),
            linux: Some(resources),
            ..Default::default()
        });
        Ok(self.runtime.clone().update_container_resources(update).await.map(drop)?)
    }

    async fn reopen_log(&self, id: &str) -> Result<(), RuntimeError> {
        let reopen = self.call(cri::ReopenContainerLogRequest { container_id: id.to_owned() });
        Ok(self.runtime.clone().reopen_container_log(reopen).await.map(drop)?)
    }

    async fn remove_container(&self, id: &str) -> Result<(), RuntimeError> {
        let remove = async || {
            let remove = self.call(cri::RemoveContainerRequest { container_id: id.to_owned() });
            if_there(self.runtime.clone().remove_container(remove).await.map(drop))
        };
        match remove().await {
            // It is stopped as far as CRI knows, but containerd has a task of it, which nobody else would ever end.
            Err(error) if error.to_string().contains(HAS_TASK) => {
                warn!(id, %error, "ending what containerd still runs for a container");
                end_task(&self.containerd, id).await?;
                remove().await
            }
            removed => removed,
        }
    }

    async fn exec(
        &self,
        id: &str,
        command: &[String],
        timeout: Duration,
    ) -> Result<ExecOutput, RuntimeError> {
        let mut exec = Request::new(cri::ExecSyncRequest {
            container_id: id.to_owned(),
            cmd: command.to_vec(),
            timeout: timeout.as_secs() as i64,
        });
        exec.set_timeout(timeout + Duration::from_secs(5));
        let answer = self.runtime.clone().exec_sync(exec).await?.into_inner();
        Ok(ExecOutput { stdout: answer.stdout, stderr: answer.stderr, exit_code: answer.exit_code })
    }

    async fn exec_url(
        &self,
        id: &str,
        command: &[String],
        flags: StreamFlags,
    ) -> Result<String, RuntimeError> {
        let StreamFlags { stdin, stdout, stderr, tty } = flags;
        let (container_id, cmd) = (id.to_owned(), command.to_vec());
        let exec = self.call(cri::ExecRequest { container_id, cmd, tty, stdin, stdout, stderr });
        Ok(self.runtime.clone().exec(exec).await?.into_inner().url)
    }

    async fn attach_url(&self, id: &str, flags: StreamFlags) -> Result<String, RuntimeError> {
        let StreamFlags { stdin, stdout, stderr, tty } = flags;
        let attach =
            self.call(cri::AttachRequest { container_id: id.to_owned(), stdin, tty, stdout, stderr });
        Ok(self.runtime.clone().attach(attach).await?.into_inner().url)
    }

    async fn port_forward_url(&self, sandbox_id: &str, ports: Vec<i32>) -> Result<String, RuntimeError> {
        let forward =
            self.call(cri::PortForwardRequest { pod_sandbox_id: sandbox_id.to_owned(), port: ports });
        Ok(self.runtime.clone().port_forward(forward).await?.into_inner().url)
    }

    async fn image(&self, name: &str) -> Result<Option<ImageRecord>, RuntimeError> {
        let status = self.call(cri::ImageStatusRequest { image: Some(spec(name)), verbose: false });
        let image = self.images.clone().image_status(status).await?.into_inner().image;
        Ok(image.map(image_record))
    }

    async fn images(&self) -> Result<Vec<ImageRecord>, RuntimeError> {
        let list = self.call(cri::ListImagesRequest { filter: None });
        let images = self.images.clone().list_images(list).await?.into_inner().images;
        Ok(images.into_iter().map(image_record).collect())
    }

    async fn pull_image(&self, name: &str, auth: Option<cri::AuthConfig>) -> Result<String, RuntimeError> {
        // No time limit: an image is as large as it is. The caller drops the call when the pod goes.
        let pull = cri::PullImageRequest { image: Some(spec(name)), auth, sandbox_config: None };
        Ok(self.images.clone().pull_image(pull).await?.into_inner().image_ref)
    }

    async fn remove_image(&self, id: &str) -> Result<(), RuntimeError> {
        let remove = self.call(cri::RemoveImageRequest { image: Some(spec(id)) });
        if_there(self.images.clone().remove_image(remove).await.map(drop))
    }

    async fn view_image(
        &self,
        image: &ImageRecord,
        pod_uid: &str,
        volume: &str,
    ) -> Result<Vec<ViewMount>, RuntimeError> {
        let name = image.tags.first().or(image.digests.first()).unwrap_or(&image.id);
        Ok(self.views().await?.make(&image.id, name, pod_uid, volume).await?)
    }

    async fn remove_views(&self, pod_uid: &str) -> Result<(), RuntimeError> {
        Ok(self.views().await?.remove_of(pod_uid).await?)
    }
}

fn spec(name: &str) -> cri::ImageSpec {
    cri::ImageSpec { image: name.to_owned(), ..Default::default() }
}

fn image_record(image: cri::Image) -> ImageRecord {
    ImageRecord {
        id: image.id,
        tags: image.repo_tags,
        digests: image.repo_digests,
        size: image.size,
        uid: image.uid.map(|uid| uid.value),
        username: image.username,
    }
}

/// What is gone already needs no stopping or removing.
fn if_there(result: Result<(), Status>) -> Result<(), RuntimeError> {
    match result {
        Err(status) if status.code() == Code::NotFound => Ok(()),
        other => Ok(other?),
    }
}

/// CRI counts nanoseconds; zero means never.
fn timestamp(nanoseconds: i64) -> Option<Timestamp> {
    (nanoseconds != 0).then(|| Timestamp::from_nanosecond(nanoseconds.into()).unwrap_or_default())
}

impl From<Status> for RuntimeError {
    fn from(status: Status) -> Self {
        let message = status.message().to_owned();
        match status.code() {
            Code::Unavailable => RuntimeError::Unavailable(message),
            Code::NotFound => RuntimeError::NotFound(message),
            Code::DeadlineExceeded | Code::Cancelled => RuntimeError::Timeout(message),
            _ => RuntimeError::Refused(message),
        }
    }
}
