//! The container runtime as the rest of the agent sees it: pods that live in a slot look as if they had been made by the
//! runtime like any other, and slots that nobody has are not there.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use jiff::Timestamp;
use k8s_cri::v1 as cri;
use parking_lot::Mutex;
use tracing::warn;

use super::entry::{adopted_container, binds, message, move_log, translated};
use super::inject::{Injection, inject};
use super::record::SlotRecord;
use super::{Slots, door, is_slot, tell_failure};
use crate::cgroup::Hierarchy;
use crate::config::PodPort;
use crate::containerd::SpecEdits;
use crate::cri::*;
use crate::image::ViewMount;

/// [`Runtime`] with slots.
pub struct SlotRuntime {
    inner: Arc<dyn Runtime>,
    slots: Arc<Slots>,
    cgroups: Hierarchy,
    /// The cgroup of all pods of this agent.
    cgroup_root: String,
    /// What is to be said to containers that were created and not started, by their ids.
    messages: Mutex<BTreeMap<String, Vec<u8>>>,
}

impl SlotRuntime {
    pub fn new(inner: Arc<dyn Runtime>, slots: Arc<Slots>, cgroups: Hierarchy, cgroup_root: String) -> Self {
        SlotRuntime { inner, slots, cgroups, cgroup_root, messages: Mutex::default() }
    }

    /// Makes the container that runs in a slot the pod's; or says why it cannot be.
    async fn enter(
        &self,
        slot: &SlotRecord,
        config: &cri::ContainerConfig,
        sandbox: &cri::PodSandboxConfig,
    ) -> Result<(), String> {
        let form = self.slots.state.lock().forms.get(&slot.image).cloned();
        let form = form.ok_or("its runtime is not known any more")?;
        if let Some(reason) = form.refuses(config) {
            return Err(reason.to_owned());
        }
        let dir = self.slots.dir.join(&slot.uid);
        let processes =
            self.cgroups.dir("memory", &format!("{}/{}/{}", self.cgroup_root, slot.uid, slot.container));
        let resources = config.linux.as_ref().and_then(|linux| linux.resources.as_ref());
        let oom_score_adj = resources.map_or(0, |resources| resources.oom_score_adj);
        let (log, hostname) = (PathBuf::from(&sandbox.log_directory), sandbox.hostname.clone());
        let (mounts, dns) = (config.mounts.clone(), sandbox.dns_config.clone().unwrap_or_default());
        let entered = tokio::task::spawn_blocking(move || {
            move_log(&dir.join("log"), &log)?;
            let binds = binds(&dir, &mounts, &hostname, &dns)?;
            inject(&processes.join("cgroup.procs"), &Injection { binds, hostname, oom_score_adj })
        });
        entered.await.map_err(|e| e.to_string())?.map_err(|e| e.to_string())?;
        if let Some(resources) = form.changed_resources(config) {
            self.inner.update_resources(&slot.container, resources).await.map_err(|e| e.to_string())?;
        }
        self.slots.enter(&slot.uid, adopted_container(config, sandbox));
        self.messages.lock().insert(slot.container.clone(), message(config, sandbox));
        Ok(())
    }

    async fn discard(&self, slot: &SlotRecord) -> Result<(), RuntimeError> {
        self.inner.remove_container(&slot.container).await?;
        self.messages.lock().remove(&slot.container);
        self.slots.forget_container(&slot.uid).map_err(|error| RuntimeError::Refused(error.to_string()))
    }

    /// Says what to run; from now on it is the pod's program.
    async fn tell(&self, slot: &SlotRecord, message: Vec<u8>) -> Result<(), RuntimeError> {
        let door = self.slots.state.lock().doors.remove(&slot.uid);
        let (slots, uid) = (self.slots.clone(), slot.uid.clone());
        let told = tokio::task::spawn_blocking(move || {
            let door = door.map_or_else(|| door::open(&slots.dir.join(&uid)), Ok)?;
            door::tell(door, &message)?;
            let now = Timestamp::now();
            slots.update(&uid, |adoption| {
                if let Some(container) = &mut adoption.container {
                    container.started = Some(now);
                }
            })
        });
        let told = told.await.map_err(io::Error::other).and_then(|told| told);
        told.map_err(|error| RuntimeError::Refused(format!("the slot's program cannot be told: {error}")))
    }
}

#[async_trait]
impl Runtime for SlotRuntime {
    async fn pod(&self, uid: &str) -> Result<PodRecord, RuntimeError> {
        let mut record = self.inner.pod(uid).await?;
        let Some(slot) = self.slots.of_pod(uid) else { return Ok(record) };
        let own = self.inner.pod(&slot.uid).await?;
        record.sandboxes.extend(own.sandboxes);
        record.containers.extend(own.containers.into_iter().filter_map(|found| translated(&slot, found)));
        if let Some(adoption) = slot.adoption.filter(|_| record.name.is_empty()) {
            (record.namespace, record.name) = (adoption.namespace, adoption.name);
        }
        record.sort();
        Ok(record)
    }

    async fn container(&self, id: &str, sandbox_id: &str) -> Result<Option<ContainerRecord>, RuntimeError> {
        let found = self.inner.container(id, sandbox_id).await?;
        match self.slots.adopted_with(id) {
            Some(slot) => Ok(found.and_then(|found| translated(&slot, found))),
            None => Ok(found),
        }
    }

    async fn pod_uids(&self) -> Result<Vec<String>, RuntimeError> {
        let uids = self.inner.pod_uids().await?;
        let real = |uid: String| if is_slot(&uid) { self.slots.pod_of(&uid) } else { Some(uid) };
        Ok(uids.into_iter().filter_map(real).collect::<BTreeSet<_>>().into_iter().collect())
    }

    async fn container_rows(&self) -> Result<Vec<ContainerRow>, RuntimeError> {
        let mut rows = self.inner.container_rows().await?;
        for row in rows.iter_mut().filter(|row| is_slot(&row.pod_uid)) {
            // One that nobody has still uses its image.
            row.pod_uid = self.slots.pod_of(&row.pod_uid).unwrap_or_default();
        }
        Ok(rows)
    }

    async fn pod_uid_of(&self, id: &str) -> Result<Option<String>, RuntimeError> {
        let uid = self.inner.pod_uid_of(id).await?;
        Ok(uid.and_then(|uid| if is_slot(&uid) { self.slots.pod_of(&uid) } else { Some(uid) }))
    }

    async fn adopt_sandbox(
        &self,
        image: &str,
        config: &cri::PodSandboxConfig,
        container: &cri::ContainerConfig,
    ) -> Result<Option<SandboxRecord>, RuntimeError> {
        let (slots, image) = (self.slots.clone(), image.to_owned());
        let (sandbox, container) = (config.clone(), container.clone());
        let taken = tokio::task::spawn_blocking(move || slots.take(&image, &sandbox, &container)).await;
        let taken = taken.map_err(io::Error::other).and_then(|taken| taken);
        let slot = match taken {
            Ok(Some(slot)) => slot,
            Ok(None) => return Ok(None),
            Err(error) => {
                warn!(%error, "no slot can be adopted");
                return Ok(None);
            }
        };
        match self.inner.sandbox(&slot.sandbox).await {
            Ok(Some(sandbox)) if sandbox.ready => Ok(Some(sandbox)),
            _ => {
                tell_failure(&slot.uid, &"its sandbox does not run any more");
                self.slots.spoil(&slot.uid);
                Ok(None)
            }
        }
    }

    async fn create_container(
        &self,
        sandbox_id: &str,
        config: cri::ContainerConfig,
        sandbox: cri::PodSandboxConfig,
    ) -> Result<String, RuntimeError> {
        if let Some(slot) = self.slots.adopted_with(sandbox_id) {
            let is_unused = slot.adoption.as_ref().is_some_and(|adoption| adoption.container.is_none());
            if is_unused && !slot.container.is_empty() {
                match self.enter(&slot, &config, &sandbox).await {
                    Ok(()) => return Ok(slot.container),
                    Err(reason) => {
                        // Its name and its files are not the pod's: the pod gets one of its own.
                        self.inner.stop_sandbox(sandbox_id).await?;
                        return Err(RuntimeError::Refused(format!("slot {}: {reason}", slot.uid)));
                    }
                }
            }
        }
        self.inner.create_container(sandbox_id, config, sandbox).await
    }

    async fn start_container(&self, id: &str) -> Result<(), RuntimeError> {
        let message = self.messages.lock().remove(id);
        match (self.slots.adopted_with(id), message) {
            (Some(slot), Some(message)) => self.tell(&slot, message).await,
            _ => self.inner.start_container(id).await,
        }
    }

    async fn remove_container(&self, id: &str) -> Result<(), RuntimeError> {
        match self.slots.adopted_with(id).filter(|slot| slot.container == id) {
            Some(slot) => self.discard(&slot).await,
            None => self.inner.remove_container(id).await,
        }
    }

    async fn sandbox(&self, id: &str) -> Result<Option<SandboxRecord>, RuntimeError> {
        self.inner.sandbox(id).await
    }

    async fn ids(&self) -> Result<BTreeSet<String>, RuntimeError> {
        self.inner.ids().await
    }

    async fn run_sandbox(
        &self,
        config: cri::PodSandboxConfig,
        handler: &str,
    ) -> Result<String, RuntimeError> {
        self.inner.run_sandbox(config, handler).await
    }

    async fn port(&self, sandbox_id: &str) -> Result<Option<PodPort>, RuntimeError> {
        self.inner.port(sandbox_id).await
    }

    async fn network_namespace(&self, sandbox_id: &str) -> Result<Option<PathBuf>, RuntimeError> {
        self.inner.network_namespace(sandbox_id).await
    }

    async fn stop_sandbox(&self, id: &str) -> Result<(), RuntimeError> {
        self.inner.stop_sandbox(id).await
    }

    async fn remove_sandbox(&self, id: &str) -> Result<(), RuntimeError> {
        self.inner.remove_sandbox(id).await?;
        self.slots.changed.notify_one();
        Ok(())
    }

    async fn strict_groups(&self) -> Result<StrictGroups, RuntimeError> {
        self.inner.strict_groups().await
    }

    async fn set_groups(&self, id: &str, groups: &[i64]) -> Result<(), RuntimeError> {
        self.inner.set_groups(id, groups).await
    }

    async fn edit_spec(&self, id: &str, edits: &SpecEdits) -> Result<(), RuntimeError> {
        self.inner.edit_spec(id, edits).await
    }

    async fn stop_container(&self, id: &str, grace: Duration) -> Result<(), RuntimeError> {
        self.inner.stop_container(id, grace).await
    }

    async fn update_resources(
        &self,
        id: &str,
        resources: cri::LinuxContainerResources,
    ) -> Result<(), RuntimeError> {
        self.inner.update_resources(id, resources).await
    }

    async fn reopen_log(&self, id: &str) -> Result<(), RuntimeError> {
        self.inner.reopen_log(id).await
    }

    async fn exec(
        &self,
        id: &str,
        command: &[String],
        timeout: Duration,
    ) -> Result<ExecOutput, RuntimeError> {
        self.inner.exec(id, command, timeout).await
    }

    async fn exec_url(
        &self,
        id: &str,
        command: &[String],
        flags: StreamFlags,
    ) -> Result<String, RuntimeError> {
        self.inner.exec_url(id, command, flags).await
    }

    async fn attach_url(&self, id: &str, flags: StreamFlags) -> Result<String, RuntimeError> {
        self.inner.attach_url(id, flags).await
    }

    async fn port_forward_url(&self, sandbox_id: &str, ports: Vec<i32>) -> Result<String, RuntimeError> {
        self.inner.port_forward_url(sandbox_id, ports).await
    }

    async fn image(&self, name: &str) -> Result<Option<ImageRecord>, RuntimeError> {
        self.inner.image(name).await
    }

    async fn images(&self) -> Result<Vec<ImageRecord>, RuntimeError> {
        self.inner.images().await
    }

    async fn pull_image(&self, name: &str, auth: Option<cri::AuthConfig>) -> Result<String, RuntimeError> {
        self.inner.pull_image(name, auth).await
    }

    async fn remove_image(&self, id: &str) -> Result<(), RuntimeError> {
        self.inner.remove_image(id).await
    }

    async fn view_image(
        &self,
        image: &ImageRecord,
        pod_uid: &str,
        volume: &str,
    ) -> Result<Vec<ViewMount>, RuntimeError> {
        self.inner.view_image(image, pod_uid, volume).await
    }

    async fn remove_views(&self, pod_uid: &str) -> Result<(), RuntimeError> {
        self.inner.remove_views(pod_uid).await
    }
}
