//! Manifests of a repository, and the tags that stand for some of them.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use super::{Repository, Store, file};
use crate::digest::Digest;
use crate::error::{ErrorCode, RegistryError, Result};
use crate::manifest::Manifest;
use crate::name::{Reference, is_tag};

/// A manifest as it was sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stored {
    pub digest: Digest,
    pub media_type: String,
    pub bytes: Vec<u8>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tag {
    pub name: String,
    pub digest: Digest,
}

impl Store {
    /// Keeps a manifest all of whose parts the repository holds.
    pub fn put_manifest(
        &self,
        repository: &Repository,
        reference: &Reference,
        bytes: &[u8],
        content_type: &str,
    ) -> Result<Digest> {
        let (manifest, digest) = (Manifest::parse(bytes, content_type)?, Digest::of(bytes));
        if let Reference::Digest(asked) = reference
            && *asked != digest
        {
            let told = format!("the manifest has the digest {digest}, not {asked}");
            return Err(RegistryError::new(ErrorCode::DigestInvalid, told));
        }
        let folder = self.folder(repository)?;
        let _kept = self.changes.read();
        let missing = |what: &Digest| {
            RegistryError::new(
                ErrorCode::ManifestBlobUnknown,
                format!("{what} was not pushed to this repository"),
            )
        };
        for (blob, _) in &manifest.blobs {
            let is_there = folder.join("blobs").join(blob.hex()).exists() && self.blob_path(blob).exists();
            is_there.then_some(()).ok_or_else(|| missing(blob))?;
        }
        for part in &manifest.manifests {
            let is_there = folder.join("manifests").join(part.hex()).exists();
            is_there.then_some(()).ok_or_else(|| missing(part))?;
        }
        let path = folder.join("manifests").join(digest.hex());
        file::write_atomically(&path, &[manifest.media_type.as_bytes(), b"\n", bytes])?;
        if let Reference::Tag(tag) = reference {
            file::write_atomically(&folder.join("tags").join(tag), &[digest.to_string().as_bytes()])?;
        }
        Ok(digest)
    }

    pub fn manifest(&self, repository: &Repository, reference: &Reference) -> Result<Stored> {
        let folder = self.folder(repository)?;
        let unknown = || {
            let named = match reference {
                Reference::Tag(tag) => tag.clone(),
                Reference::Digest(digest) => digest.to_string(),
            };
            RegistryError::new(
                ErrorCode::ManifestUnknown,
                format!("there is no manifest {named} in this repository"),
            )
        };
        let digest = match reference {
            Reference::Digest(digest) => digest.clone(),
            Reference::Tag(tag) => read_tag(&folder, tag).ok_or_else(unknown)?,
        };
        read_manifest(&folder, &digest).ok_or_else(unknown)
    }

    pub fn tags(&self, repository: &Repository) -> Result<Vec<Tag>> {
        let folder = self.folder(repository)?;
        let names = file::names(&folder.join("tags"))?.into_iter().filter(|name| is_tag(name));
        Ok(names.filter_map(|name| Some(Tag { digest: read_tag(&folder, &name)?, name })).collect())
    }

    /// A tag alone, or a manifest with all tags that stand for it.
    pub fn delete_manifest(&self, repository: &Repository, reference: &Reference) -> Result<()> {
        let folder = self.folder(repository)?;
        let found = self.manifest(repository, reference)?;
        let _kept = self.changes.read();
        match reference {
            Reference::Tag(tag) => file::remove(&folder.join("tags").join(tag))?,
            Reference::Digest(digest) => {
                for tag in self.tags(repository)?.iter().filter(|tag| tag.digest == *digest) {
                    file::remove(&folder.join("tags").join(&tag.name))?;
                }
                file::remove(&folder.join("manifests").join(found.digest.hex()))?;
            }
        }
        self.deleted.notify_one();
        Ok(())
    }

    /// Every blob that manifests of the repository name, with its size.
    pub fn named_blobs(&self, repository: &Repository) -> Result<BTreeMap<Digest, u64>> {
        let folder = self.folder(repository)?;
        let digests = file::names(&folder.join("manifests"))?;
        let mut blobs = BTreeMap::new();
        for digest in digests.iter().filter_map(|hex| Digest::from_hex(hex)) {
            let Some(stored) = read_manifest(&folder, &digest) else { continue };
            blobs.extend(Manifest::parse(&stored.bytes, &stored.media_type)?.blobs);
        }
        Ok(blobs)
    }
}

fn read_tag(folder: &Path, tag: &str) -> Option<Digest> {
    fs::read_to_string(folder.join("tags").join(tag)).ok()?.parse().ok()
}

fn read_manifest(folder: &Path, digest: &Digest) -> Option<Stored> {
    let whole = fs::read(folder.join("manifests").join(digest.hex())).ok()?;
    let line = whole.iter().position(|byte| *byte == b'\n')?;
    let media_type = String::from_utf8(whole[..line].to_vec()).ok()?;
    Some(Stored { digest: digest.clone(), media_type, bytes: whole[line + 1..].to_vec() })
}
