//! The files of an image for a pod to read: a view of the snapshot that containers of the image start from.
//!
//! containerd has unpacked what it pulled. What was loaded from an archive is unpacked here, layer by layer, as
//! containerd's own client does it for the first container. A view carries the pod's UID as a label, so that it can
//! be found again whatever the agent forgot, and keeps its layers from garbage collection. Nothing is mounted here.

use std::collections::HashMap;

use containerd_client::services::v1 as api;
use containerd_client::services::v1::snapshots as snap;
use containerd_client::services::v1::snapshots::snapshots_client::SnapshotsClient;
use containerd_client::types::{Descriptor as ApiDescriptor, Mount};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use sha2::{Digest, Sha256};
use tonic::transport::Channel;
use tonic::{Code, Status};

use super::manifest::{Descriptor, Index, Manifest, digest_of};
use super::store::{in_namespace, lease, release, with_lease};

/// The pod that a view was made for.
const POD: &str = "minik8s.io/pod";
/// Manifests and configurations are small; what is larger is something else.
const LARGEST_DOCUMENT: usize = 16 << 20;

/// What to mount to see a view.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ViewMount {
    pub kind: String,
    pub source: String,
    pub options: Vec<String>,
}

/// The part of an image's configuration that says what its layers are.
#[derive(Deserialize)]
struct ImageConfig {
    rootfs: RootFs,
}

#[derive(Deserialize)]
struct RootFs {
    diff_ids: Vec<String>,
}

pub struct ImageViews {
    channel: Channel,
    snapshotter: String,
}

impl ImageViews {
    pub fn new(channel: Channel, snapshotter: String) -> Self {
        ImageViews { channel, snapshotter }
    }

    /// Makes a view anew. `id` is the digest of the image's configuration, `name` one that containerd has it by.
    pub async fn make(
        &self,
        id: &str,
        name: &str,
        pod: &str,
        volume: &str,
    ) -> Result<Vec<ViewMount>, Status> {
        let key = format!("minik8s-{pod}-{volume}");
        self.remove(&key).await?;
        let config: ImageConfig = self.document(id).await?;
        let chain = chain_ids(&config.rootfs.diff_ids);
        let parent = chain.last().cloned().unwrap_or_default();
        let lease = lease(&self.channel).await?;
        let made = async {
            if !parent.is_empty() && !self.has(&parent).await? {
                self.unpack(&self.layers(id, name).await?, &chain, &lease).await?;
            }
            let root = ("containerd.io/gc.root".to_owned(), jiff::Timestamp::now().to_string());
            let labels = HashMap::from([root, (POD.to_owned(), pod.to_owned())]);
            let snapshotter = self.snapshotter.clone();
            let view = snap::ViewSnapshotRequest { snapshotter, key, parent: parent.clone(), labels };
            Ok(self.snapshots().view(with_lease(view, &lease)).await?.into_inner().mounts)
        };
        let made: Result<Vec<Mount>, Status> = made.await;
        release(&self.channel, lease).await;
        let mount =
            |mount: Mount| ViewMount { kind: mount.r#type, source: mount.source, options: mount.options };
        Ok(made?.into_iter().map(mount).collect())
    }

    /// Removes all views of a pod.
    pub async fn remove_of(&self, pod: &str) -> Result<(), Status> {
        let filters = vec![format!("labels.\"{POD}\"=={pod}")];
        let list = snap::ListSnapshotsRequest { snapshotter: self.snapshotter.clone(), filters };
        let mut answers = self.snapshots().list(in_namespace(list)).await?.into_inner();
        let mut found = Vec::new();
        while let Some(answer) = answers.message().await? {
            found.extend(answer.info.into_iter().map(|info| info.name));
        }
        for key in found {
            self.remove(&key).await?;
        }
        Ok(())
    }

    fn snapshots(&self) -> SnapshotsClient<Channel> {
        SnapshotsClient::new(self.channel.clone())
    }

    async fn remove(&self, key: &str) -> Result<(), Status> {
        let (snapshotter, key) = (self.snapshotter.clone(), key.to_owned());
        match self.snapshots().remove(in_namespace(snap::RemoveSnapshotRequest { snapshotter, key })).await {
            Err(status) if status.code() != Code::NotFound => Err(status),
            _ => Ok(()),
        }
    }

    async fn has(&self, key: &str) -> Result<bool, Status> {
        let (snapshotter, key) = (self.snapshotter.clone(), key.to_owned());
        match self.snapshots().stat(in_namespace(snap::StatSnapshotRequest { snapshotter, key })).await {
            Ok(_) => Ok(true),
            Err(status) if status.code() == Code::NotFound => Ok(false),
            Err(status) => Err(status),
        }
    }

    /// The layers of the image with that configuration.
    async fn layers(&self, id: &str, name: &str) -> Result<Vec<Descriptor>, Status> {
        let get = in_namespace(api::GetImageRequest { name: name.to_owned() });
        let image =
            api::images_client::ImagesClient::new(self.channel.clone()).get(get).await?.into_inner().image;
        let target = image.and_then(|image| image.target).unwrap_or_default();
        let target = Descriptor {
            media_type: target.media_type,
            digest: target.digest,
            size: target.size as u64,
            annotations: Default::default(),
        };
        let manifests = match target.is_index() {
            true => self.document::<Index>(&target.digest).await?.manifests,
            false => vec![target],
        };
        for manifest in manifests.iter().filter(|manifest| manifest.is_manifest()) {
            match self.document::<Manifest>(&manifest.digest).await {
                Ok(manifest) if manifest.config.digest == id => return Ok(manifest.layers),
                Ok(_) => {}
                // Those of other platforms are not here.
                Err(status) if status.code() == Code::NotFound => {}
                Err(status) => return Err(status),
            }
        }
        Err(Status::not_found(format!("no manifest of image {name} names its configuration {id}")))
    }

    async fn unpack(&self, layers: &[Descriptor], chain: &[String], lease: &str) -> Result<(), Status> {
        if layers.len() != chain.len() {
            return Err(Status::internal(
                "the image's manifest and its configuration differ in their layers",
            ));
        }
        let mut parent = String::new();
        for (layer, name) in layers.iter().zip(chain) {
            if !self.has(name).await? {
                self.unpack_layer(layer, &parent, name, lease).await?;
            }
            parent = name.clone();
        }
        Ok(())
    }

    async fn unpack_layer(
        &self,
        layer: &Descriptor,
        parent: &str,
        name: &str,
        lease: &str,
    ) -> Result<(), Status> {
        let key = format!("minik8s-unpack-{}", uuid::Uuid::new_v4());
        let snapshotter = || self.snapshotter.clone();
        let prepare = snap::PrepareSnapshotRequest {
            snapshotter: snapshotter(),
            key: key.clone(),
            parent: parent.to_owned(),
            ..Default::default()
        };
        let mounts = self.snapshots().prepare(with_lease(prepare, lease)).await?.into_inner().mounts;
        let diff = ApiDescriptor {
            media_type: layer.media_type.clone(),
            digest: layer.digest.clone(),
            size: layer.size as i64,
            annotations: HashMap::new(),
        };
        let apply = api::ApplyRequest { diff: Some(diff), mounts, ..Default::default() };
        let applied =
            api::diff_client::DiffClient::new(self.channel.clone()).apply(with_lease(apply, lease)).await;
        if let Err(status) = applied {
            let _ = self.remove(&key).await;
            return Err(status);
        }
        let commit = snap::CommitSnapshotRequest {
            snapshotter: snapshotter(),
            name: name.to_owned(),
            key: key.clone(),
            ..Default::default()
        };
        match self.snapshots().commit(with_lease(commit, lease)).await {
            // Somebody else unpacked the same layer in the meantime.
            Err(status) if status.code() == Code::AlreadyExists => self.remove(&key).await,
            other => other.map(drop),
        }
    }

    /// A blob of JSON.
    async fn document<T: DeserializeOwned>(&self, digest: &str) -> Result<T, Status> {
        let read = api::ReadContentRequest { digest: digest.to_owned(), ..Default::default() };
        let mut client = api::content_client::ContentClient::new(self.channel.clone());
        let mut parts = client.read(in_namespace(read)).await?.into_inner();
        let mut bytes = Vec::new();
        while let Some(part) = parts.message().await? {
            bytes.extend(part.data);
            if bytes.len() > LARGEST_DOCUMENT {
                return Err(Status::internal(format!("{digest} is too large for what it should be")));
            }
        }
        serde_json::from_slice(&bytes)
            .map_err(|e| Status::internal(format!("{digest} is not understood: {e}")))
    }
}

/// The names of the snapshots of a stack of layers, from the lowest to the whole.
fn chain_ids(diff_ids: &[String]) -> Vec<String> {
    let mut chain: Vec<String> = Vec::new();
    for diff in diff_ids {
        chain.push(match chain.last() {
            None => diff.clone(),
            Some(below) => digest_of(Sha256::new_with_prefix(format!("{below} {diff}"))),
        });
    }
    chain
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chains_of_layers() {
        let check = |diffs: &[&str], want: &[&str]| {
            let diffs: Vec<_> = diffs.iter().map(|diff| (*diff).to_owned()).collect();
            assert_eq!(chain_ids(&diffs), want, "{diffs:?}");
        };
        check(&[], &[]);
        check(&["sha256:a"], &["sha256:a"]);
        // `printf 'sha256:a sha256:b' | sha256sum`
        let two = "sha256:970a948bffa8de94d6e22d747ba8c95030e6e546909f98f54e99a13005e173a8";
        check(&["sha256:a", "sha256:b"], &["sha256:a", two]);
    }
}
