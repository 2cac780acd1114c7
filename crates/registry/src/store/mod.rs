//! Images on this server's disk.
//!
//! ```text
//! blobs/HEX                          content by its digest, written elsewhere and renamed once the digest is right
//! uploads/ID                         content on its way; what a server left behind is removed when the next one starts
//! repositories/UID/NAME/blobs/HEX    empty: this repository holds that blob, and may give it out
//! repositories/UID/NAME/manifests/HEX  the type of a manifest in a line, then the manifest as it was sent
//! repositories/UID/NAME/tags/TAG     the digest that a tag stands for
//! ```
//!
//! UID is that of the namespace: one that is made again under the same name does not see what the first one had. A blob
//! is kept once, but a repository gives out only what was pushed to it: whoever knows a digest of others has nothing of it.

mod collect;
mod file;
mod manifests;
mod upload;

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use parking_lot::{Mutex, RwLock};
use tokio::sync::Notify;
use uuid::Uuid;

use crate::digest::Digest;
use crate::error::{ErrorCode, RegistryError, Result};
use crate::name::is_component;

pub use upload::Upload;

/// How much may be pushed, and how long what is unfinished stays.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    pub largest_blob: u64,
    pub uploads: usize,
    pub uploads_per_namespace: usize,
    /// After this long without a byte an upload is given up.
    pub idle: Duration,
    /// For as long a blob that no manifest names waits for one.
    pub grace: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            largest_blob: 10 << 30,
            uploads: 128,
            uploads_per_namespace: 16,
            idle: Duration::from_secs(600),
            grace: Duration::from_secs(3600),
        }
    }
}

pub struct Store {
    root: PathBuf,
    limits: Limits,
    uploads: Mutex<HashMap<Uuid, Arc<upload::Session>>>,
    /// Held by the collection alone, and shared by those who add what it must not miss.
    changes: RwLock<()>,
    deleted: Notify,
}

/// A repository by the UID of its namespace.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Repository {
    pub namespace: String,
    pub name: String,
}

impl Store {
    pub fn open(root: &Path, limits: Limits) -> std::io::Result<Self> {
        for folder in ["blobs", "uploads", "repositories"] {
            fs::create_dir_all(root.join(folder))?;
        }
        // Pushed by others and not meant for all on this machine.
        fs::set_permissions(root, std::os::unix::fs::PermissionsExt::from_mode(0o700))?;
        for left in fs::read_dir(root.join("uploads"))? {
            fs::remove_file(left?.path())?;
        }
        Ok(Store {
            root: root.to_owned(),
            limits,
            uploads: Mutex::default(),
            changes: RwLock::default(),
            deleted: Notify::new(),
        })
    }

    /// Until something was deleted, so that a collection may find something.
    pub async fn deletion(&self) {
        self.deleted.notified().await;
    }

    /// The path and size of a blob that the repository holds. It stays for a while: whoever asks may be about to push a
    /// manifest that names it.
    pub fn blob(&self, repository: &Repository, digest: &Digest) -> Result<(PathBuf, u64)> {
        let unknown =
            || RegistryError::new(ErrorCode::BlobUnknown, format!("{digest} is not in this repository"));
        let _kept = self.changes.read();
        let link = self.folder(repository)?.join("blobs").join(digest.hex());
        let opened = fs::File::options().write(true).open(&link).map_err(|_| unknown())?;
        opened.set_modified(SystemTime::now())?;
        let path = self.blob_path(digest);
        let size = fs::metadata(&path).map_err(|_| unknown())?.len();
        Ok((path, size))
    }

    /// All repositories of a namespace that hold something.
    pub fn repositories(&self, namespace: &str) -> Result<Vec<Repository>> {
        let names = file::names(&self.root.join("repositories").join(checked(namespace)?))?;
        let named = names.into_iter().filter(|name| is_component(name));
        Ok(named.map(|name| Repository { namespace: namespace.to_owned(), name }).collect())
    }

    fn blob_path(&self, digest: &Digest) -> PathBuf {
        self.root.join("blobs").join(digest.hex())
    }

    fn folder(&self, repository: &Repository) -> Result<PathBuf> {
        let place = self.root.join("repositories").join(checked(&repository.namespace)?);
        Ok(place.join(&repository.name))
    }
}

/// UIDs are the server's own; one that could be a path is not.
fn checked(uid: &str) -> Result<&str> {
    let plain = !uid.is_empty() && uid.chars().all(|c| c.is_ascii_alphanumeric() || c == '-');
    let odd = || RegistryError::new(ErrorCode::NameUnknown, "the namespace has no usable UID");
    plain.then_some(uid).ok_or_else(odd)
}
