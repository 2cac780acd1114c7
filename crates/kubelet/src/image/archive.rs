//! Reads image archives: what `docker save` and `skopeo copy … oci-archive:` write.
//!
//! The tar file is scanned once for the places of its members; blobs are then read from there, so an
//! archive never has to fit into memory. Nothing is unpacked to disk.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom};

use serde::de::DeserializeOwned;
use sha2::{Digest, Sha256};
use thiserror::Error;

use super::manifest::{self, Descriptor, DockerImage, Index, Manifest};
use super::normalize;

/// JSON documents larger than this are refused rather than read into memory.
const LARGEST_DOCUMENT: u64 = 8 << 20;
/// Index within index within index is as deep as anybody nests them.
const DEEPEST_INDEX: usize = 4;
const MOST_LINKS: usize = 8;
/// How much of a layer is read at once.
const PIECE: usize = 64 << 10;

#[derive(Debug, Error)]
pub enum ArchiveError {
    #[error("cannot read the archive")]
    Read(#[from] io::Error),
    #[error("neither a docker nor an OCI archive: it has no manifest.json and no index.json")]
    NotAnImage,
    #[error("the archive has no member {0}")]
    Missing(String),
    #[error("{member} is not what it should be")]
    Malformed { member: String, source: serde_json::Error },
    #[error("{0} is too large for a JSON document")]
    TooLarge(String),
    #[error("no image of the archive has a name")]
    NoName,
}

/// An image archive, with the images in it.
pub struct Archive<R> {
    reader: R,
    members: BTreeMap<String, Member>,
}

#[derive(Debug, Clone)]
enum Member {
    File { offset: u64, size: u64 },
    Link(String),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ArchivedImage {
    /// Full names, with registry and tag.
    pub names: Vec<String>,
    pub target: Descriptor,
    /// In an order in which they can be stored: what is referred to comes first.
    pub blobs: Vec<Blob>,
}

impl ArchivedImage {
    /// The digest of its configuration, which is an image's id. `None` where there are several platforms to choose from.
    pub fn id(&self) -> Option<&str> {
        let mut manifests = self.blobs.iter().filter(|blob| blob.descriptor.is_manifest());
        let (only, None) = (manifests.next()?, manifests.next()) else { return None };
        let config = |blob: &&Blob| {
            manifest::CONFIGS.contains(&blob.descriptor.media_type.as_str())
                && only.children.contains(&blob.descriptor.digest)
        };
        self.blobs.iter().find(config).map(|blob| blob.descriptor.digest.as_str())
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Blob {
    pub descriptor: Descriptor,
    pub content: Content,
    /// Digests this blob refers to.
    pub children: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Content {
    /// At this offset of the archive, as long as the descriptor says.
    At(u64),
    Bytes(Vec<u8>),
}

impl<R: Read + Seek> Archive<R> {
    pub fn open(mut reader: R) -> Result<Self, ArchiveError> {
        reader.seek(SeekFrom::Start(0))?;
        let mut members = BTreeMap::new();
        let mut tar = tar::Archive::new(&mut reader);
        for entry in tar.entries_with_seek()? {
            let entry = entry?;
            let name = clean(&entry.path()?.to_string_lossy());
            let kind = entry.header().entry_type();
            if kind.is_file() {
                let (offset, size) = (entry.raw_file_position(), entry.size());
                members.insert(name, Member::File { offset, size });
            } else if (kind.is_symlink() || kind.is_hard_link())
                && let Some(target) = entry.link_name()?
            {
                let target = target.to_string_lossy();
                let target = if kind.is_symlink() { beside(&name, &target) } else { clean(&target) };
                members.insert(name, Member::Link(target));
            }
        }
        Ok(Archive { reader, members })
    }

    pub fn images(&mut self) -> Result<Vec<ArchivedImage>, ArchiveError> {
        let images = if self.members.contains_key("index.json") {
            self.oci_images()?
        } else if self.members.contains_key("manifest.json") {
            self.docker_images()?
        } else {
            return Err(ArchiveError::NotAnImage);
        };
        if images.iter().all(|image| image.names.is_empty()) {
            return Err(ArchiveError::NoName);
        }
        Ok(images)
    }

    pub fn into_reader(self) -> R {
        self.reader
    }

    fn oci_images(&mut self) -> Result<Vec<ArchivedImage>, ArchiveError> {
        let index: Index = self.json("index.json")?;
        let mut images = Vec::new();
        for target in index.manifests {
            let name = ["io.containerd.image.name", "org.opencontainers.image.ref.name"]
                .iter()
                .find_map(|key| target.annotations.get(*key))
                .map(|name| normalize(name));
            let mut blobs = Vec::new();
            self.collect(&target, DEEPEST_INDEX, &mut BTreeSet::new(), &mut blobs)?;
            images.push(ArchivedImage { names: name.into_iter().collect(), target, blobs });
        }
        Ok(images)
    }

    /// Adds a blob and, before it, everything it refers to.
    fn collect(
        &mut self,
        descriptor: &Descriptor,
        depth: usize,
        seen: &mut BTreeSet<String>,
        blobs: &mut Vec<Blob>,
    ) -> Result<(), ArchiveError> {
        if !seen.insert(descriptor.digest.clone()) {
            return Ok(());
        }
        let member = format!("blobs/{}", descriptor.digest.replacen(':', "/", 1));
        let mut children = Vec::new();
        if descriptor.is_index() && depth > 0 {
            let index: Index = self.json(&member)?;
            for child in index.manifests {
                // Archives of one platform keep the index of all platforms.
                let child_member = format!("blobs/{}", child.digest.replacen(':', "/", 1));
                if self.locate(&child_member).is_ok() {
                    self.collect(&child, depth - 1, seen, blobs)?;
                    children.push(child.digest);
                }
            }
        } else if descriptor.is_manifest() {
            let manifest: Manifest = self.json(&member)?;
            for child in std::iter::once(manifest.config).chain(manifest.layers) {
                self.collect(&child, 0, seen, blobs)?;
                children.push(child.digest);
            }
        }
        let (offset, size) = self.locate(&member)?;
        let descriptor = Descriptor { size, ..descriptor.clone() };
        blobs.push(Blob { descriptor, content: Content::At(offset), children });
        Ok(())
    }

    fn docker_images(&mut self) -> Result<Vec<ArchivedImage>, ArchiveError> {
        let described: Vec<DockerImage> = self.json("manifest.json")?;
        described.into_iter().map(|image| self.docker_image(image)).collect()
    }

    fn docker_image(&mut self, image: DockerImage) -> Result<ArchivedImage, ArchiveError> {
        let config = self.blob(manifest::CONFIG, &image.config)?;
        let mut blobs = Vec::new();
        let mut layers = Vec::new();
        for member in &image.layers {
            let media_type = self.layer_type(member)?;
            let blob = self.blob(media_type, member)?;
            layers.push(blob.descriptor.clone());
            // An empty layer often appears several times.
            if !blobs.contains(&blob) {
                blobs.push(blob);
            }
        }
        let document = Manifest {
            schema_version: 2,
            media_type: Some(manifest::MANIFEST.to_owned()),
            config: config.descriptor.clone(),
            layers,
        };
        let bytes = serde_json::to_vec(&document)
            .map_err(|source| ArchiveError::Malformed { member: "manifest.json".to_owned(), source })?;
        let target = Descriptor::of(manifest::MANIFEST, &bytes);
        blobs.push(config);
        let children = blobs.iter().map(|blob| blob.descriptor.digest.clone()).collect();
        blobs.push(Blob { descriptor: target.clone(), content: Content::Bytes(bytes), children });
        let names = image.repo_tags.unwrap_or_default().iter().map(|name| normalize(name)).collect();
        Ok(ArchivedImage { names, target, blobs })
    }

    fn blob(&mut self, media_type: &str, member: &str) -> Result<Blob, ArchiveError> {
        let (offset, size) = self.locate(member)?;
        self.reader.seek(SeekFrom::Start(offset))?;
        let mut hash = Sha256::new();
        let mut content = BufReader::with_capacity(PIECE, (&mut self.reader).take(size));
        loop {
            let piece = content.fill_buf()?;
            if piece.is_empty() {
                break;
            }
            hash.update(piece);
            let length = piece.len();
            content.consume(length);
        }
        let descriptor = Descriptor {
            media_type: media_type.to_owned(),
            digest: manifest::digest_of(hash),
            size,
            annotations: BTreeMap::new(),
        };
        Ok(Blob { descriptor, content: Content::At(offset), children: Vec::new() })
    }

    /// A layer's media type by its first bytes: archives do not tell.
    fn layer_type(&mut self, member: &str) -> Result<&'static str, ArchiveError> {
        let (offset, size) = self.locate(member)?;
        self.reader.seek(SeekFrom::Start(offset))?;
        let mut magic = Vec::new();
        (&mut self.reader).take(size.min(4)).read_to_end(&mut magic)?;
        Ok(match magic.as_slice() {
            [0x1f, 0x8b, ..] => "application/vnd.oci.image.layer.v1.tar+gzip",
            [0x28, 0xb5, 0x2f, 0xfd] => "application/vnd.oci.image.layer.v1.tar+zstd",
            _ => manifest::LAYER,
        })
    }

    fn json<T: DeserializeOwned>(&mut self, member: &str) -> Result<T, ArchiveError> {
        let (offset, size) = self.locate(member)?;
        if size > LARGEST_DOCUMENT {
            return Err(ArchiveError::TooLarge(member.to_owned()));
        }
        self.reader.seek(SeekFrom::Start(offset))?;
        let mut bytes = Vec::new();
        (&mut self.reader).take(size).read_to_end(&mut bytes)?;
        serde_json::from_slice(&bytes)
            .map_err(|source| ArchiveError::Malformed { member: member.to_owned(), source })
    }

    fn locate(&self, member: &str) -> Result<(u64, u64), ArchiveError> {
        let mut name = clean(member);
        for _ in 0..MOST_LINKS {
            match self.members.get(&name) {
                Some(Member::File { offset, size }) => return Ok((*offset, *size)),
                Some(Member::Link(target)) => name = target.clone(),
                None => break,
            }
        }
        Err(ArchiveError::Missing(member.to_owned()))
    }
}

/// A member's path without `.`, `..` and leading slashes.
fn clean(path: &str) -> String {
    let mut parts: Vec<&str> = Vec::new();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop();
            }
            part => parts.push(part),
        }
    }
    parts.join("/")
}

/// Where a symbolic link in `name`'s directory points.
fn beside(name: &str, target: &str) -> String {
    match name.rsplit_once('/') {
        Some((dir, _)) if !target.starts_with('/') => clean(&format!("{dir}/{target}")),
        _ => clean(target),
    }
}

#[cfg(test)]
#[path = "archive_tests.rs"]
mod tests;
