//! A claim gets a volume that its driver makes.
//!
//! The claim keeps a finalizer while a volume may be made of which no object tells: so one that is deleted meanwhile leaves
//! nothing in the storage system.

use std::sync::Arc;

use k8s_openapi::api::core::v1::{Node, PersistentVolume, PersistentVolumeClaim};
use k8s_openapi::api::storage::v1::{CSINode, StorageClass};
use kube::Api;
use kube::api::PostParams;
use minik8s_csi::controller::{
    Content, CreateVolume, DeleteVolume, Volume, VolumeContentSource, VolumeSource,
};
use minik8s_csi::{CapacityRange, Mode, Mount, Topology, TopologyRequirement, VolumeCapability};
use minik8s_meta::{Quantity, QuantityFormat};
use minik8s_runtime::{EventRecord, Key};
use serde_json::{Value, json};

use super::due::{PROVISIONING, VOLUME, provisioned_name};
use super::operator::Operator;
use super::remote::RemoteError;
use super::secrets;
use crate::annotation::{PROVISIONED_BY, SELECTED_NODE, VOLUME_PROTECTION, annotation};
use crate::attach::driver_of;
use crate::fit::{attributes_class, requested};
use crate::local::made_for;

pub const COMPONENT: &str = "persistentvolume-controller";

pub fn volume_name(claim: &PersistentVolumeClaim) -> String {
    provisioned_name(claim)
}

impl Operator {
    pub async fn provision(
        &self,
        claim: &PersistentVolumeClaim,
        class: &StorageClass,
    ) -> Result<(), RemoteError> {
        self.patch_finalizers(claim, &[PROVISIONING], &[]).await?;
        let made = match self.check_node(claim, &class.provisioner) {
            Ok(()) => self.create(claim, class).await,
            Err(error) => Err(error),
        };
        match made {
            Ok(made) => {
                let volume = volume(claim, class, &made);
                let volumes: Api<PersistentVolume> = Api::all(self.client.clone());
                match volumes.create(&PostParams::default(), &volume).await {
                    Err(kube::Error::Api(status)) if status.code == 409 => {}
                    other => drop(other?),
                }
                let message = format!("Successfully provisioned volume {}", provisioned_name(claim));
                self.executor
                    .recorder()
                    .record(COMPONENT, EventRecord::normal(claim, "ProvisioningSucceeded", message));
                Ok(())
            }
            Err(error) => {
                let message = format!(
                    "failed to provision volume with StorageClass {:?}: {error}",
                    class.metadata.name.as_deref().unwrap_or_default()
                );
                self.executor
                    .recorder()
                    .record(COMPONENT, EventRecord::warning(claim, "ProvisioningFailed", message));
                // There is no room where the scheduler has chosen: it chooses again.
                let is_chosen = annotation(&claim.metadata, SELECTED_NODE).is_some();
                if is_chosen && error.is_of_the_node() {
                    self.patch(claim, json!({"metadata": {"annotations": {SELECTED_NODE: Value::Null}}}))
                        .await?;
                }
                Err(error)
            }
        }
    }

    /// A claim that has its volume needs no finalizer any more; one that is deleted without one may have left a volume
    /// in the storage system.
    pub async fn settle(
        &self,
        claim: &PersistentVolumeClaim,
        class: Option<&StorageClass>,
        is_written: bool,
    ) -> Result<(), RemoteError> {
        let volumes: Api<PersistentVolume> = Api::all(self.client.clone());
        // A cache can be late, and what is written down is not ours to undo.
        let is_written = is_written || volumes.get_opt(&provisioned_name(claim)).await?.is_some();
        if let Some(class) = class.filter(|_| claim.metadata.deletion_timestamp.is_some() && !is_written) {
            self.undo(claim, class).await?;
        }
        self.patch_finalizers(claim, &[], &[PROVISIONING]).await
    }

    async fn undo(&self, claim: &PersistentVolumeClaim, class: &StorageClass) -> Result<(), RemoteError> {
        // Making it again is the only way to hear what it is called.
        let made = match self.create(claim, class).await {
            Err(error) if error.is_final() => return Ok(()),
            other => other?,
        };
        let remote = self.remote(&class.provisioner, |node| self.is_selected(claim, node));
        let reference = reference(class, claim, "provisioner");
        let secrets = secrets::read(&self.client, reference.as_ref()).await?;
        remote.call(&DeleteVolume { volume_id: made.volume_id, secrets }).await.map(drop)
    }

    fn check_node(&self, claim: &PersistentVolumeClaim, driver: &str) -> Result<(), RemoteError> {
        let nodes = self.remote(driver, |_| true).nodes;
        match annotation(&claim.metadata, SELECTED_NODE) {
            Some(node) if !nodes.is_empty() && !nodes.iter().any(|one| one == node) => {
                Err(RemoteError::WrongNode { driver: driver.to_owned(), node: node.to_owned() })
            }
            _ => Ok(()),
        }
    }

    async fn create(
        &self,
        claim: &PersistentVolumeClaim,
        class: &StorageClass,
    ) -> Result<Volume, RemoteError> {
        let mut call = request(claim, class);
        call.volume_content_source = self.source(claim, &class.provisioner)?;
        call.secrets = secrets::read(&self.client, reference(class, claim, "provisioner").as_ref()).await?;
        let selected = annotation(&claim.metadata, SELECTED_NODE);
        let (csi_nodes, nodes) = (self.caches.of::<CSINode>().list(), self.caches.of::<Node>().list());
        call.accessibility_requirements = topology(&class.provisioner, selected, &csi_nodes, &nodes)?;
        let remote = self.remote(&class.provisioner, |node| self.is_selected(claim, node));
        if let Some(name) = attributes_class(claim) {
            call.mutable_parameters = self.mutable_parameters(name, &remote).await?;
        }
        let made = remote.call(&call).await?.volume.unwrap_or_default();
        if made.volume_id.is_empty() {
            return Err(RemoteError::Answer("it has made a volume without a name".to_owned()));
        }
        Ok(made)
    }

    fn is_selected(&self, claim: &PersistentVolumeClaim, node: &Node) -> bool {
        annotation(&claim.metadata, SELECTED_NODE)
            .is_some_and(|name| node.metadata.name.as_deref() == Some(name))
    }

    /// The volume or snapshot whose content a new one starts with.
    fn source(
        &self,
        claim: &PersistentVolumeClaim,
        driver: &str,
    ) -> Result<Option<VolumeContentSource>, RemoteError> {
        let spec = claim.spec.as_ref();
        let Some(wanted) = spec.and_then(|spec| spec.data_source_ref.as_ref()) else { return Ok(None) };
        let wish = |why: String| Err(RemoteError::Wish(why));
        if crate::snapshot::source_of(claim).is_some() {
            return self.snapshot_source(claim, driver, &wanted.name).map(Some);
        }
        if wanted.kind != "PersistentVolumeClaim" {
            return wish(format!(
                "cannot start with a {}: the dataSource can be a PersistentVolumeClaim or a VolumeSnapshot",
                wanted.kind
            ));
        }
        let namespace = claim.metadata.namespace.clone().unwrap_or_default();
        let source = self.caches.of::<PersistentVolumeClaim>().get(&Key::new(namespace, &*wanted.name));
        let volume = source.and_then(|source| source.spec.as_ref()?.volume_name.clone());
        let volume = volume.and_then(|name| self.caches.of::<PersistentVolume>().get(&Key::new("", name)));
        match volume {
            Some(volume) if driver_of(&volume) == Some(driver) => {
                let handle = volume
                    .spec
                    .as_ref()
                    .and_then(|spec| spec.csi.as_ref())
                    .map(|csi| csi.volume_handle.clone());
                let content = Content::Volume(VolumeSource { volume_id: handle.unwrap_or_default() });
                Ok(Some(VolumeContentSource { content: Some(content) }))
            }
            Some(_) => wish(format!("the volume of {:?} to start with is of another driver", wanted.name)),
            None => wish(format!("the claim {:?} to start with is not there, or not bound", wanted.name)),
        }
    }
}

/// Where the volume must be reachable: from the node that the scheduler chose, or from any that has the driver. Pure.
pub fn topology(
    driver: &str,
    selected: Option<&str>,
    csi_nodes: &[Arc<CSINode>],
    nodes: &[Arc<Node>],
) -> Result<Option<TopologyRequirement>, RemoteError> {
    let mut all: Vec<Topology> = Vec::new();
    for csi in csi_nodes {
        let name = csi.metadata.name.as_deref().unwrap_or_default();
        let known = csi.spec.drivers.iter().find(|known| known.name == driver);
        let keys = known.and_then(|known| known.topology_keys.as_ref()).filter(|keys| !keys.is_empty());
        let Some(keys) = keys.filter(|_| selected.is_none_or(|selected| selected == name)) else { continue };
        let node = nodes.iter().find(|node| node.metadata.name.as_deref() == Some(name));
        let labels = node.and_then(|node| node.metadata.labels.as_ref());
        let pair = |key: &String| Some((key.clone(), labels?.get(key)?.clone()));
        match keys.iter().map(pair).collect() {
            Some(segments) => {
                let topology = Topology { segments };
                if !all.contains(&topology) {
                    all.push(topology);
                }
            }
            // Without all of them, the volume could be made where the node does not reach it.
            None if selected.is_some() => {
                let why =
                    format!("node {name} does not have all labels of the driver {driver} yet ({keys:?})");
                return Err(RemoteError::Wish(why));
            }
            None => {}
        }
    }
    Ok((!all.is_empty()).then(|| TopologyRequirement { requisite: all.clone(), preferred: all }))
}

fn reference(
    class: &StorageClass,
    claim: &PersistentVolumeClaim,
    purpose: &str,
) -> Option<k8s_openapi::api::core::v1::SecretReference> {
    secrets::reference(class, claim, purpose).and_then(|value| serde_json::from_value(value).ok())
}

/// What is asked of the driver. Pure; secrets, topology and source come from elsewhere.
pub fn request(claim: &PersistentVolumeClaim, class: &StorageClass) -> CreateVolume {
    let spec = claim.spec.clone().unwrap_or_default();
    let is_block = spec.volume_mode.as_deref() == Some("Block");
    let mount = Mount {
        fs_type: secrets::fs_type(class).unwrap_or_default(),
        mount_flags: class.mount_options.clone().unwrap_or_default(),
        volume_mount_group: String::new(),
    };
    let modes = spec.access_modes.unwrap_or_default();
    let capability = |mode: &String| {
        VolumeCapability::new(is_block, mount.clone(), Mode::of(std::slice::from_ref(mode), false))
    };
    CreateVolume {
        name: provisioned_name(claim),
        capacity_range: Some(CapacityRange::at_least(requested(claim).value())),
        volume_capabilities: modes.iter().map(capability).collect(),
        parameters: secrets::plain_parameters(class),
        ..Default::default()
    }
}

/// The object of a volume that was made. Pure.
pub fn volume(claim: &PersistentVolumeClaim, class: &StorageClass, made: &Volume) -> PersistentVolume {
    let mut object = made_for(claim, class, &provisioned_name(claim));
    let mut annotations = json!({PROVISIONED_BY: class.provisioner});
    if let Some(secret) = secrets::reference(class, claim, "provisioner") {
        annotations["volume.kubernetes.io/provisioner-deletion-secret-name"] = secret["name"].clone();
        annotations["volume.kubernetes.io/provisioner-deletion-secret-namespace"] =
            secret["namespace"].clone();
    }
    object["metadata"]["annotations"] = annotations;
    object["metadata"]["finalizers"] = json!([VOLUME_PROTECTION, VOLUME]);
    if made.capacity_bytes > requested(claim).value() {
        let size = Quantity::new(made.capacity_bytes, QuantityFormat::BinarySi).to_string();
        object["spec"]["capacity"]["storage"] = size.into();
    }
    let mut csi = json!({
        "driver": class.provisioner,
        "volumeHandle": made.volume_id,
        "volumeAttributes": made.volume_context,
        "fsType": secrets::fs_type(class),
    });
    let purposes = [
        ("controller-publish", "controllerPublishSecretRef"),
        ("controller-expand", "controllerExpandSecretRef"),
        ("node-stage", "nodeStageSecretRef"),
        ("node-publish", "nodePublishSecretRef"),
        ("node-expand", "nodeExpandSecretRef"),
    ];
    for (purpose, field) in purposes {
        if let Some(reference) = secrets::reference(class, claim, purpose) {
            csi[field] = reference;
        }
    }
    object["spec"]["csi"] = csi;
    if let Some(name) = attributes_class(claim) {
        object["spec"]["volumeAttributesClassName"] = name.into();
    }
    let term = |topology: &Topology| {
        let mut pairs: Vec<_> = topology.segments.iter().collect();
        pairs.sort();
        let one = |(key, value): (&String, &String)| json!({"key": key, "operator": "In", "values": [value]});
        json!({"matchExpressions": pairs.into_iter().map(one).collect::<Vec<_>>()})
    };
    let terms: Vec<Value> =
        made.accessible_topology.iter().filter(|one| !one.segments.is_empty()).map(term).collect();
    if !terms.is_empty() {
        object["spec"]["nodeAffinity"] = json!({"required": {"nodeSelectorTerms": terms}});
    }
    serde_json::from_value(object).expect("a volume made of known fields")
}
