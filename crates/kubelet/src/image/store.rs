//! containerd's image store: load an archive, list, remove.
//!
//! Blobs go through the content service under a lease, so that garbage collection cannot take them
//! before the image that refers to them exists. Layers are unpacked by the first container that needs them.

use std::collections::HashMap;
use std::io::{Read, Seek, SeekFrom};
use std::path::Path;

use containerd_client::services::v1 as api;
use containerd_client::types::Descriptor as ApiDescriptor;
use thiserror::Error;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::Channel;
use tonic::{Code, Request, Status};

use super::archive::{Archive, ArchiveError, ArchivedImage, Blob, Content};
use super::{NAMESPACE, normalize};
use crate::containerd::connect;

const CHUNK: usize = 1 << 20;
/// The label by which containerd's CRI plugin knows what it has looked at.
const MANAGED: (&str, &str) = ("io.cri-containerd.image", "managed");

#[derive(Debug, Error)]
pub enum StoreError {
    #[error(transparent)]
    Archive(#[from] ArchiveError),
    #[error("containerd refuses")]
    Containerd(#[from] Status),
    #[error("no image {0:?} on this node")]
    NotFound(String),
    #[error("{0} stopped half way: the archive is shorter than it says")]
    Short(String),
}

/// How far a load is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Progress {
    pub image: String,
    pub done: u64,
    pub total: u64,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredImage {
    pub name: String,
    pub digest: String,
}

#[derive(Clone)]
pub struct ImageStore {
    channel: Channel,
}

impl ImageStore {
    pub fn new(containerd_socket: &Path) -> Self {
        ImageStore { channel: connect(containerd_socket) }
    }

    pub async fn exists(&self, name: &str) -> Result<bool, StoreError> {
        let get = in_namespace(api::GetImageRequest { name: normalize(name) });
        match api::images_client::ImagesClient::new(self.channel.clone()).get(get).await {
            Ok(_) => Ok(true),
            Err(status) if status.code() == Code::NotFound => Ok(false),
            Err(status) => Err(status.into()),
        }
    }

    /// Loads every named image of an archive and returns the names.
    pub async fn load<R>(
        &self,
        reader: R,
        mut progress: impl FnMut(Progress),
    ) -> Result<Vec<String>, StoreError>
    where
        R: Read + Seek + Send + 'static,
    {
        let opened = tokio::task::spawn_blocking(move || {
            let mut archive = Archive::open(reader)?;
            let images = archive.images()?;
            Ok::<_, ArchiveError>((archive.into_reader(), images))
        });
        let (mut reader, images) = opened.await.map_err(|e| Status::internal(e.to_string()))??;
        let lease = lease(&self.channel).await?;
        let mut loaded = Vec::new();
        let mut result = Ok(());
        for image in images.iter().filter(|image| !image.names.is_empty()) {
            result = self.store(&mut reader, image, &lease, &mut progress).await;
            if result.is_err() {
                break;
            }
            loaded.extend(image.names.iter().cloned());
        }
        release(&self.channel, lease).await;
        result.map(|()| loaded)
    }

    /// The digest of a stored image's first document.
    pub(super) async fn digest_of(&self, name: &str) -> Result<String, StoreError> {
        let get = in_namespace(api::GetImageRequest { name: normalize(name) });
        match api::images_client::ImagesClient::new(self.channel.clone()).get(get).await {
            Ok(found) => {
                Ok(found.into_inner().image.and_then(|image| image.target).unwrap_or_default().digest)
            }
            Err(status) if status.code() == Code::NotFound => Err(StoreError::NotFound(name.to_owned())),
            Err(status) => Err(status.into()),
        }
    }

    /// A small blob as a whole.
    pub async fn read_blob(&self, digest: &str) -> Result<Vec<u8>, StoreError> {
        self.read_part(digest, 0, 0).await
    }

    /// A part of a blob; all that follows the offset where the size is 0.
    pub async fn read_part(&self, digest: &str, offset: i64, size: i64) -> Result<Vec<u8>, StoreError> {
        let read = in_namespace(api::ReadContentRequest { digest: digest.to_owned(), offset, size });
        let mut client = api::content_client::ContentClient::new(self.channel.clone());
        let mut pieces = client.read(read).await?.into_inner();
        let mut whole = Vec::new();
        while let Some(piece) = pieces.message().await? {
            whole.extend(piece.data);
        }
        Ok(whole)
    }

    /// Stores an image whose blobs are in memory.
    pub(super) async fn put(&self, image: &ArchivedImage) -> Result<(), StoreError> {
        let lease = lease(&self.channel).await?;
        let stored = self.store(&mut std::io::empty(), image, &lease, &mut |_| ()).await;
        release(&self.channel, lease).await;
        stored
    }

    pub async fn list(&self) -> Result<Vec<StoredImage>, StoreError> {
        let all = in_namespace(api::ListImagesRequest::default());
        let mut client = api::images_client::ImagesClient::new(self.channel.clone());
        let images = client.list(all).await?.into_inner().images;
        // The CRI plugin keeps each image a second and third time, by id and by digest.
        let named = images.into_iter().filter(|image| !image.name.starts_with("sha256:"));
        let mut list: Vec<_> = named
            .filter(|image| !image.name.contains('@'))
            .map(|image| StoredImage {
                name: image.name,
                digest: image.target.map(|target| target.digest).unwrap_or_default(),
            })
            .collect();
        list.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(list)
    }

    pub async fn remove(&self, name: &str) -> Result<(), StoreError> {
        let mut client = api::images_client::ImagesClient::new(self.channel.clone());
        let delete =
            in_namespace(api::DeleteImageRequest { name: normalize(name), sync: true, target: None });
        match client.delete(delete).await {
            Ok(_) => Ok(()),
            Err(status) if status.code() == Code::NotFound => Err(StoreError::NotFound(name.to_owned())),
            Err(status) => Err(status.into()),
        }
    }

    async fn store<R: Read + Seek>(
        &self,
        reader: &mut R,
        image: &ArchivedImage,
        lease: &str,
        progress: &mut impl FnMut(Progress),
    ) -> Result<(), StoreError> {
        let total = image.blobs.iter().map(|blob| blob.descriptor.size).sum();
        let mut done = 0;
        for blob in &image.blobs {
            let mut advance = |bytes| {
                done += bytes;
                progress(Progress { image: image.names.join(", "), done, total });
            };
            self.write_blob(reader, blob, lease, &mut advance).await?;
        }
        // containerd's CRI plugin hears of each name, marks it and names the image's id. While it does, a name that is
        // removed would come back; of an image that is marked so already it writes nothing.
        let id = image.id();
        let labels: HashMap<_, _> = id.iter().map(|_| (MANAGED.0.to_owned(), MANAGED.1.to_owned())).collect();
        for name in id.into_iter().chain(image.names.iter().map(String::as_str)) {
            self.name_image(name, image, labels.clone()).await?;
        }
        Ok(())
    }

    async fn write_blob<R: Read + Seek>(
        &self,
        reader: &mut R,
        blob: &Blob,
        lease: &str,
        advance: &mut impl FnMut(u64),
    ) -> Result<(), StoreError> {
        let mut client = api::content_client::ContentClient::new(self.channel.clone());
        let digest = &blob.descriptor.digest;
        let info = with_lease(api::InfoRequest { digest: digest.clone() }, lease);
        if client.info(info).await.is_ok() {
            advance(blob.descriptor.size);
            return Ok(());
        }
        let (sender, receiver) = mpsc::channel(2);
        let write = client.write(with_lease(ReceiverStream::new(receiver), lease));
        let feed = feed(reader, blob, sender, advance);
        let (responses, fed) = tokio::join!(
            async {
                let mut responses = write.await?.into_inner();
                while responses.message().await?.is_some() {}
                Ok::<_, Status>(())
            },
            feed
        );
        match responses {
            // Somebody else stored the same blob in the meantime.
            Err(status) if status.code() == Code::AlreadyExists => Ok(()),
            Err(status) => Err(status.into()),
            Ok(()) => fed,
        }
    }

    async fn name_image(
        &self,
        name: &str,
        image: &ArchivedImage,
        labels: HashMap<String, String>,
    ) -> Result<(), StoreError> {
        let mut client = api::images_client::ImagesClient::new(self.channel.clone());
        let target = ApiDescriptor {
            media_type: image.target.media_type.clone(),
            digest: image.target.digest.clone(),
            size: image.target.size as i64,
            annotations: HashMap::new(),
        };
        let image =
            Some(api::Image { name: name.to_owned(), target: Some(target), labels, ..api::Image::default() });
        let create = in_namespace(api::CreateImageRequest { image: image.clone(), source_date_epoch: None });
        match client.create(create).await {
            Err(status) if status.code() == Code::AlreadyExists => {
                let update = api::UpdateImageRequest { image, update_mask: None, source_date_epoch: None };
                client.update(in_namespace(update)).await?;
                Ok(())
            }
            other => Ok(other.map(drop)?),
        }
    }
}

/// Sends a blob in chunks, then the commit with the labels that tell garbage collection what it refers to.
async fn feed<R: Read + Seek>(
    reader: &mut R,
    blob: &Blob,
    sender: mpsc::Sender<api::WriteContentRequest>,
    advance: &mut impl FnMut(u64),
) -> Result<(), StoreError> {
    let digest = &blob.descriptor.digest;
    let total = blob.descriptor.size;
    let base = api::WriteContentRequest {
        r#ref: format!("minik8s-{digest}"),
        total: total as i64,
        expected: digest.clone(),
        ..api::WriteContentRequest::default()
    };
    let mut offset = 0;
    while offset < total {
        let data = chunk(reader, &blob.content, offset, (total - offset).min(CHUNK as u64))?;
        if data.is_empty() {
            return Err(StoreError::Short(digest.clone()));
        }
        let length = data.len() as u64;
        let action = api::WriteAction::Write as i32;
        let write = api::WriteContentRequest { action, offset: offset as i64, data, ..base.clone() };
        if sender.send(write).await.is_err() {
            // The other side gave up and its error tells why.
            return Ok(());
        }
        offset += length;
        advance(length);
    }
    let labels = blob.children.iter().enumerate();
    let labels = labels.map(|(n, child)| (format!("containerd.io/gc.ref.content.{n}"), child.clone()));
    let action = api::WriteAction::Commit as i32;
    let commit = api::WriteContentRequest { action, offset: offset as i64, labels: labels.collect(), ..base };
    let _ = sender.send(commit).await;
    Ok(())
}

fn chunk<R: Read + Seek>(
    reader: &mut R,
    content: &Content,
    offset: u64,
    length: u64,
) -> Result<Vec<u8>, StoreError> {
    match content {
        Content::Bytes(bytes) => Ok(bytes[offset as usize..(offset + length) as usize].to_vec()),
        Content::At(start) => {
            let mut data = Vec::with_capacity(length as usize);
            reader.seek(SeekFrom::Start(start + offset)).map_err(ArchiveError::Read)?;
            reader.by_ref().take(length).read_to_end(&mut data).map_err(ArchiveError::Read)?;
            Ok(data)
        }
    }
}

/// A request that is about what CRI sees.
pub fn in_namespace<T>(message: T) -> Request<T> {
    let mut request = Request::new(message);
    let namespace = tonic::metadata::MetadataValue::from_static(NAMESPACE);
    request.metadata_mut().insert("containerd-namespace", namespace);
    request
}

/// Keeps what is made under it from garbage collection.
pub async fn lease(channel: &Channel) -> Result<String, Status> {
    // Should we die before releasing it, the lease ends by itself.
    let expiry = jiff::Timestamp::now() + jiff::SignedDuration::from_hours(1);
    let labels = HashMap::from([("containerd.io/gc.expire".to_owned(), expiry.to_string())]);
    let id = format!("minik8s-{}", uuid::Uuid::new_v4());
    let create = in_namespace(api::CreateRequest { id: id.clone(), labels });
    api::leases_client::LeasesClient::new(channel.clone()).create(create).await?;
    Ok(id)
}

pub async fn release(channel: &Channel, lease: String) {
    let delete = in_namespace(api::DeleteRequest { id: lease, sync: false });
    let _ = api::leases_client::LeasesClient::new(channel.clone()).delete(delete).await;
}

pub fn with_lease<T>(message: T, lease: &str) -> Request<T> {
    let mut request = in_namespace(message);
    if let Ok(lease) = lease.parse() {
        request.metadata_mut().insert("containerd-lease", lease);
    }
    request
}
