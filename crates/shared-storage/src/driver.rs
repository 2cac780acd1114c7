//! The CSI driver that an agent is: calls by their names, each answered on a thread of its own.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use minik8s_csi::registration::{CSI_PLUGIN, PluginInfo};
use minik8s_csi::server::Answers;
use minik8s_csi::{Code, PluginCapabilities, controller, node as node_service};
use minik8s_meta::shared_storage::DRIVER;
use parking_lot::{Mutex, RwLock};
use prost::Message;

use crate::SharedError;
use crate::check;
use crate::controller::Root;
use crate::engine::Engine;
use crate::node;
use crate::part::Part;
use crate::pending::Pending;
use crate::root_mount::RootMount;

/// How long a call waits for the one before it.
const ROOT_TIMEOUT: Duration = Duration::from_secs(20);

pub struct SharedDriver {
    pub engine: Arc<dyn Engine>,
    pub part: Arc<RwLock<Option<Part>>>,
    /// Of this node: its name for the servers.
    pub address: String,
    pub socket: PathBuf,
    /// One at a time looks at the whole.
    pub root: Arc<Mutex<RootMount>>,
    pub pending: Pending,
}

impl Answers for SharedDriver {
    fn answer(&self, method: &str, message: Bytes) -> Result<Vec<u8>, (Code, String)> {
        self.act(method, message).map_err(|error| (code(&error), error.to_string()))
    }
}

fn code(error: &SharedError) -> Code {
    match error {
        SharedError::Name(_) | SharedError::Block | SharedError::Call(_) => Code::INVALID_ARGUMENT,
        SharedError::NotFound(_) => Code::NOT_FOUND,
        SharedError::Exists(_) => Code::ALREADY_EXISTS,
        SharedError::NotStaged(_) => Code::FAILED_PRECONDITION,
        SharedError::Method(_) => Code::UNIMPLEMENTED,
        SharedError::NotSetUp => Code::UNAVAILABLE,
        SharedError::Pending(_) => Code::ABORTED,
        _ => Code::INTERNAL,
    }
}

fn read<M: Message + Default>(message: Bytes) -> Result<M, SharedError> {
    M::decode(message).map_err(|error| SharedError::Call(error.to_string()))
}

impl SharedDriver {
    fn act(&self, method: &str, message: Bytes) -> Result<Vec<u8>, SharedError> {
        let done = Ok(Vec::new());
        match method {
            "GetInfo" => Ok(self.info().encode_to_vec()),
            "NotifyRegistrationStatus" | "Probe" => done,
            "GetPluginInfo" => {
                let vendor_version = env!("CARGO_PKG_VERSION").to_owned();
                Ok(minik8s_csi::PluginInfo { name: DRIVER.to_owned(), vendor_version }.encode_to_vec())
            }
            "GetPluginCapabilities" => Ok(PluginCapabilities::controller_and_growth().encode_to_vec()),
            "NodeGetInfo" => {
                Ok(node_service::Info { node_id: self.address.clone(), ..Default::default() }.encode_to_vec())
            }
            "NodeGetCapabilities" => {
                use node_service::Can::{GetVolumeStats, StageUnstageVolume, VolumeCondition};
                let can = [StageUnstageVolume, GetVolumeStats, VolumeCondition];
                Ok(node_service::Capabilities::of(&can).encode_to_vec())
            }
            "ControllerGetCapabilities" => {
                use controller::Can::{
                    CloneVolume, CreateDeleteSnapshot, CreateDeleteVolume, ExpandVolume,
                    PublishUnpublishVolume,
                };
                let can = [
                    CreateDeleteVolume,
                    PublishUnpublishVolume,
                    CreateDeleteSnapshot,
                    CloneVolume,
                    ExpandVolume,
                ];
                Ok(controller::Capabilities::of(&can).encode_to_vec())
            }
            "CreateVolume" => {
                let call = read(message)?;
                check::create(&call)?;
                Ok(self.with_root(|root| root.create(&call))?.encode_to_vec())
            }
            "DeleteVolume" => {
                let call: controller::DeleteVolume = read(message)?;
                check::need("volume_id", &call.volume_id)?;
                self.with_root(|root| root.delete(&call.volume_id)).and(done)
            }
            "ControllerExpandVolume" => {
                let call = read(message)?;
                check::expand(&call)?;
                Ok(self.with_root(|root| root.expand(&call))?.encode_to_vec())
            }
            // Every node reaches every volume; only its end on a node matters.
            "ControllerPublishVolume" => {
                let call: controller::PublishVolume = read(message)?;
                check::publish(&call)?;
                self.with_root(|root| root.volume(&call.volume_id)).map(drop).and(done)
            }
            "ControllerUnpublishVolume" => {
                let call: controller::UnpublishVolume = read(message)?;
                check::need("volume_id", &call.volume_id)?;
                self.engine.forget(&self.part()?, &call.volume_id, &call.node_id).and(done)
            }
            "CreateSnapshot" => {
                let call = read(message)?;
                check::snapshot(&call)?;
                Ok(self.with_root(|root| root.snapshot(&call))?.encode_to_vec())
            }
            "DeleteSnapshot" => {
                let call: controller::DeleteSnapshot = read(message)?;
                check::need("snapshot_id", &call.snapshot_id)?;
                self.with_root(|root| root.delete_snapshot(&call.snapshot_id)).and(done)
            }
            "ValidateVolumeCapabilities" => {
                let call: controller::ValidateCapabilities = read(message)?;
                check::validate(&call)?;
                Ok(self.with_root(|root| root.validate(&call))?.encode_to_vec())
            }
            other => self.act_on_node(other, message),
        }
    }

    /// Each touches a mount, whose servers may be away.
    fn act_on_node(&self, method: &str, message: Bytes) -> Result<Vec<u8>, SharedError> {
        let begin = |path: &str| self.pending.begin(format!("{method} {path}"));
        let done = Ok(Vec::new());
        match method {
            "NodeStageVolume" => {
                let call: node_service::StageVolume = read(message)?;
                check::stage(&call)?;
                let _begun = begin(&call.staging_target_path)?;
                node::stage(self.engine.as_ref(), &self.part()?, &call).and(done)
            }
            "NodeUnstageVolume" => {
                let call: node_service::UnstageVolume = read(message)?;
                check::volume_at(&call.volume_id, &call.staging_target_path)?;
                let path = call.staging_target_path;
                let _begun = begin(&path)?;
                node::unstage(&path).and(done)
            }
            "NodePublishVolume" => {
                let call: node_service::PublishVolume = read(message)?;
                check::node_publish(&call)?;
                let _begun = begin(&call.target_path)?;
                node::publish(&call).and(done)
            }
            "NodeUnpublishVolume" => {
                let call: node_service::UnpublishVolume = read(message)?;
                check::volume_at(&call.volume_id, &call.target_path)?;
                let path = call.target_path;
                let _begun = begin(&path)?;
                node::unpublish(&path).and(done)
            }
            "NodeGetVolumeStats" => {
                let call: node_service::GetVolumeStats = read(message)?;
                check::volume_at(&call.volume_id, &call.volume_path)?;
                let path = call.volume_path;
                let _begun = begin(&path)?;
                Ok(node::stats(&path)?.encode_to_vec())
            }
            other => Err(SharedError::Method(other.to_owned())),
        }
    }

    fn info(&self) -> PluginInfo {
        PluginInfo {
            kind: CSI_PLUGIN.to_owned(),
            name: DRIVER.to_owned(),
            endpoint: self.socket.to_string_lossy().into_owned(),
            supported_versions: vec!["1.0.0".to_owned()],
        }
    }

    fn part(&self) -> Result<Part, SharedError> {
        self.part.read().clone().ok_or(SharedError::NotSetUp)
    }

    fn with_root<T>(&self, act: impl FnOnce(&Root<'_>) -> Result<T, SharedError>) -> Result<T, SharedError> {
        let alone = self.root.try_lock_for(ROOT_TIMEOUT);
        let mut mount =
            alone.ok_or_else(|| SharedError::Pending("another call looks at the whole".to_owned()))?;
        let part = self.part()?;
        let root = Root::mount(self.engine.as_ref(), &part, &mut mount)?;
        let done = act(&root)?;
        // What was seen where it is not any more says nothing: a volume is not gone because its file system is.
        if root.is_mounted() { Ok(done) } else { Err(SharedError::NotSetUp) }
    }
}
