//! Starting a container: image, environment, mounts, security, then the runtime, then the postStart hook.

use std::path::PathBuf;
use std::time::Duration;

use k8s_cri::v1 as cri;
use minik8s_informer::Key;

use super::admission::GROUPS_MESSAGE;
use super::desired_pod::ContainerSpec;
use super::operation::{Done, Operation, Result, Started};
use super::{hook, mesh};
use crate::container;
use crate::cri::{RuntimeError, StrictGroups};
use crate::events::Severity;
use crate::objects::Objects;
use crate::services::{service_env, services_synced};
use crate::volume::{ContainerFiles, PodVolumes};
use crate::{image_pull, sandbox};

/// Mounts and devices of a container, and the file that becomes its termination message.
type Files = (Vec<cri::Mount>, Vec<cri::Device>, PathBuf);

impl Operation {
    pub(super) async fn start_container(
        &self,
        spec: &ContainerSpec,
        sandbox_id: &str,
        attempt: u32,
        restart_delay: Duration,
    ) -> Result<Done> {
        let name = &spec.spec.name;
        let runtime = &self.context.node.runtime;
        let pull = image_pull::ensure(&self.context, &self.desired_pod, image_pull::Wanted::by(spec));
        let image = self.unless_stopped(pull).await?;
        let config_error = |e: String| self.failed(name, "CreateContainerConfigError", e);
        let objects =
            Objects::of_environment(&self.context.client, &self.context.watches, &self.desired_pod, spec)
                .await
                .map_err(|e| config_error(e.to_string()))?;
        let placement = self.placement();
        let links = self.service_links().await;
        let mut env = container::environment(&self.desired_pod, spec, &objects, &placement, &links)
            .map_err(|e| config_error(e.to_string()))?;
        let given = self.context.devices.given(&self.desired_pod.uid, name).await.map_err(config_error)?;
        given.add_env(&mut env);
        let target = spec.target.as_ref().and_then(|target| self.record.container(target));
        let profiles = self.context.node.config.seccomp_dir();
        let target = target.map(|container| container.id.as_str());
        let security = container::container_security(&self.desired_pod, spec, &image, target, &profiles)
            .map_err(|e| config_error(e.to_string()))?;
        let user = security.run_as_user.as_ref().map(|user| user.value);
        mesh::check_user(&self.desired_pod, spec, user).map_err(config_error)?;
        let (mut mounts, mut devices, message) = self.files(spec, attempt, &env, &placement.pod_ips).await?;
        mounts.extend(given.mounts.iter().cloned());
        devices.extend(given.devices.iter().cloned());
        let mut config = container::container_config(container::Request {
            desired_pod: &self.desired_pod,
            container: spec,
            attempt,
            restart_delay: restart_delay.min(self.context.node.config.longest_restart_delay),
            image_id: &image.id,
            env: &env,
            mounts,
            devices,
            security,
            node_memory: self.context.node.machine.memory as i64,
            termination_message: message.to_string_lossy().into_owned(),
        })
        .map_err(|e| self.failed(name, "CreateContainerConfigError", e))?;
        given.add_annotations(&mut config);
        let leave = self.context.node.starts.acquire().await;
        let log_dir = sandbox::pod_log_dir(&self.context.node.config, &self.desired_pod).join(name);
        let made = tokio::fs::create_dir_all(log_dir).await;
        made.map_err(|e| self.failed(name, "CreateContainerError", e))?;
        let created = runtime.create_container(sandbox_id, config, self.sandbox_config(0)).await;
        let id = created.map_err(|e| self.failed(name, "CreateContainerError", e))?;
        self.keep_groups_strict(&id).await.map_err(|e| self.failed(name, "CreateContainerError", e))?;
        if !given.edits.is_empty() {
            let edited = runtime.edit_spec(&id, &given.edits).await;
            edited.map_err(|e| self.failed(name, "CreateContainerError", e))?;
        }
        self.event(Some(name), Severity::Normal, "Created", &format!("Created container: {name}"));
        let started = runtime.start_container(&id).await;
        started.map_err(|e| self.failed(name, "RunContainerError", e))?;
        drop(leave);
        self.event(Some(name), Severity::Normal, "Started", &format!("Started container {name}"));
        self.await_proxy(spec).await;
        self.post_start(spec, &id, &placement.pod_ips).await?;
        let container = runtime.container(&id, sandbox_id).await.ok().flatten();
        Ok(Done {
            started: container.map(|container| Started::Container(Box::new(container))),
            ..Done::default()
        })
    }

    /// Where the runtime does not keep the image's groups away, we do.
    async fn keep_groups_strict(&self, id: &str) -> std::result::Result<(), RuntimeError> {
        let Some(groups) = container::strict_groups(&self.desired_pod) else { return Ok(()) };
        match self.context.node.runtime.strict_groups().await? {
            StrictGroups::Runtime => Ok(()),
            StrictGroups::Agent => self.context.node.runtime.set_groups(id, &groups).await,
            StrictGroups::Nobody => Err(RuntimeError::Refused(GROUPS_MESSAGE.to_owned())),
        }
    }

    /// The API server's address always, other Services of the namespace unless the pod does not want them.
    async fn service_links(&self) -> Vec<(String, String)> {
        let services = &self.context.services;
        services_synced(services).await;
        let wanted = self.desired_pod.spec().and_then(|spec| spec.enable_service_links).unwrap_or(true);
        let mut visible = match wanted {
            true => services.in_namespace(&self.desired_pod.namespace),
            false => Vec::new(),
        };
        let has_own = visible.iter().any(|service| service.metadata.name.as_deref() == Some("kubernetes"));
        if !has_own {
            visible.extend(services.get(&Key::new("default", "kubernetes")));
        }
        service_env(&visible)
    }

    async fn files(
        &self,
        spec: &ContainerSpec,
        attempt: u32,
        env: &[(String, String)],
        ips: &[String],
    ) -> Result<Files> {
        let (own, of, env, ips) = (self.clone(), spec.clone(), env.to_vec(), ips.to_vec());
        let made = tokio::task::spawn_blocking(move || own.make_files(&of, attempt, &env, &ips)).await;
        let made = made.unwrap_or_else(|error| Err(error.to_string()));
        made.map_err(|e| self.failed(&spec.spec.name, "CreateContainerConfigError", e))
    }

    /// A handful of small files and bind mounts as a rule. But the first proxy has the whole program copied, and the server
    /// of a volume may not answer.
    fn make_files(
        &self,
        spec: &ContainerSpec,
        attempt: u32,
        env: &[(String, String)],
        ips: &[String],
    ) -> std::result::Result<Files, String> {
        let config = &self.context.node.config;
        let host = std::fs::read_to_string("/etc/hosts").unwrap_or_default();
        let hosts =
            sandbox::hosts_file(&self.desired_pod, ips, &config.cluster_domain, &config.node_name, &host);
        let volumes = PodVolumes::new(config, &self.desired_pod);
        let files = ContainerFiles { volumes: &volumes, container: spec, attempt, env, hosts };
        let (mut mounts, message) = files.prepare().map_err(|e| e.to_string())?;
        let of_proxy = self.proxy_mounts(spec, volumes.dir());
        mounts.extend(of_proxy.map_err(|e| format!("cannot mount the proxy: {e}"))?);
        Ok((mounts, files.devices().map_err(|e| e.to_string())?, message))
    }

    /// A container whose hook fails is ended. One whose pod must end is ended like any other, without waiting for its hook.
    async fn post_start(&self, spec: &ContainerSpec, id: &str, ips: &[String]) -> Result<()> {
        let Some(handler) = spec.spec.lifecycle.as_ref().and_then(|l| l.post_start.clone()) else {
            return Ok(());
        };
        let runtime = self.context.node.runtime.as_ref();
        let origin = super::mesh::origin(&self.context.node.config, &self.desired_pod);
        let target = hook::Target { runtime, container: &spec.spec, id, ips, origin: &origin };
        let ran = tokio::select! {
            ran = hook::run(&handler, &target, hook::NO_LIMIT) => ran,
            () = self.stop.cancelled() => return Ok(()),
        };
        let Err(error) = ran else { return Ok(()) };
        let name = &spec.spec.name;
        let message = format!("PostStartHook failed: {error}");
        self.event(Some(name), Severity::Warning, "FailedPostStartHook", &message);
        let _ = runtime.stop_container(id, self.desired_pod.grace).await;
        Err(self.failed(name, "PostStartHookError", message))
    }
}
