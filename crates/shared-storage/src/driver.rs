//! The CSI driver that an agent is: calls by their names, each answered on a thread of its own.

use std::path::PathBuf;
use std::sync::Arc;

use bytes::Bytes;
use minik8s_csi::registration::{CSI_PLUGIN, PluginInfo};
use minik8s_csi::server::Answers;
use minik8s_csi::{Code, controller, node as node_service};
use minik8s_meta::shared_storage::DRIVER;
use parking_lot::{Mutex, RwLock};
use prost::Message;

use crate::SharedError;
use crate::controller::Root;
use crate::engine::Engine;
use crate::node;
use crate::part::Part;

pub struct SharedDriver {
    pub engine: Arc<dyn Engine>,
    pub part: Arc<RwLock<Option<Part>>>,
    /// Of this node: its name for the servers.
    pub address: String,
    pub socket: PathBuf,
    /// One at a time looks at the whole.
    pub root: Mutex<()>,
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
        SharedError::NotSetUp => Code::UNAVAILABLE,
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
            "NotifyRegistrationStatus" => done,
            "NodeGetInfo" => {
                Ok(node_service::Info { node_id: self.address.clone(), ..Default::default() }.encode_to_vec())
            }
            "NodeGetCapabilities" => {
                use node_service::Can::{GetVolumeStats, StageUnstageVolume};
                Ok(node_service::Capabilities::of(&[StageUnstageVolume, GetVolumeStats]).encode_to_vec())
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
                Ok(self.with_root(|root| root.create(&call))?.encode_to_vec())
            }
            "DeleteVolume" => {
                let call: controller::DeleteVolume = read(message)?;
                self.with_root(|root| root.delete(&call.volume_id)).and(done)
            }
            "ControllerExpandVolume" => {
                let call = read(message)?;
                Ok(self.with_root(|root| root.expand(&call))?.encode_to_vec())
            }
            // Every node reaches every volume; only its end on a node matters.
            "ControllerPublishVolume" => done,
            "ControllerUnpublishVolume" => {
                let call: controller::UnpublishVolume = read(message)?;
                self.engine.forget(&self.part()?, &call.volume_id, &call.node_id).and(done)
            }
            "CreateSnapshot" => {
                let call = read(message)?;
                Ok(self.with_root(|root| root.snapshot(&call))?.encode_to_vec())
            }
            "DeleteSnapshot" => {
                let call: controller::DeleteSnapshot = read(message)?;
                self.with_root(|root| root.delete_snapshot(&call.snapshot_id)).and(done)
            }
            "NodeStageVolume" => node::stage(self.engine.as_ref(), &self.part()?, &read(message)?).and(done),
            "NodeUnstageVolume" => {
                node::unstage(&read::<node_service::UnstageVolume>(message)?.staging_target_path).and(done)
            }
            "NodePublishVolume" => node::publish(&read(message)?).and(done),
            "NodeUnpublishVolume" => {
                node::unpublish(&read::<node_service::UnpublishVolume>(message)?.target_path).and(done)
            }
            "NodeGetVolumeStats" => {
                let call: node_service::GetVolumeStats = read(message)?;
                Ok(node::stats(&call.volume_path)?.encode_to_vec())
            }
            other => Err(SharedError::Call(format!("{other} is not a call of this driver"))),
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
        let _alone = self.root.lock();
        let part = self.part()?;
        let root = Root::mount(self.engine.as_ref(), &part)?;
        act(&root)
    }
}
