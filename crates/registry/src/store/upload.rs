//! Blobs on their way: in a file of their own, hashed as they come, and a blob only once the digest is right.
//!
//! What is known of an upload is in this process alone: after a restart its client begins anew.

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use minik8s_datadir::has_room;
use parking_lot::Mutex;
use sha2::{Digest as _, Sha256};
use tokio::io::AsyncWriteExt;
use tokio::sync::OwnedMutexGuard;
use uuid::Uuid;

use super::{Repository, Store, file};
use crate::digest::Digest;
use crate::error::{ErrorCode, RegistryError, Result};

/// The disk's free space is looked at again after so many bytes.
const STEP: u64 = 64 << 20;

pub struct Session {
    pub repository: Repository,
    state: Arc<tokio::sync::Mutex<State>>,
    size: AtomicU64,
    touched: Mutex<Instant>,
}

struct State {
    file: tokio::fs::File,
    path: PathBuf,
    hash: Sha256,
}

/// An upload that this request alone writes to.
pub struct Upload {
    pub id: Uuid,
    store: Arc<Store>,
    session: Arc<Session>,
    state: OwnedMutexGuard<State>,
}

impl Store {
    pub async fn begin(self: &Arc<Self>, repository: &Repository) -> Result<Upload> {
        self.abandon_idle();
        self.check_room()?;
        let id = Uuid::new_v4();
        let path = self.root.join("uploads").join(id.to_string());
        self.folder(repository)?;
        let file = tokio::fs::File::create_new(&path).await?;
        let state = State { file, path: path.clone(), hash: Sha256::new() };
        let session = Arc::new(Session {
            repository: repository.clone(),
            state: Arc::new(tokio::sync::Mutex::new(state)),
            size: AtomicU64::new(0),
            touched: Mutex::new(Instant::now()),
        });
        if let Err(refused) = self.add(id, session) {
            file::remove(&path)?;
            return Err(refused);
        }
        self.resume(repository, id)
    }

    fn add(&self, id: Uuid, session: Arc<Session>) -> Result<()> {
        let mut uploads = self.uploads.lock();
        let same = |other: &&Arc<Session>| other.repository.namespace == session.repository.namespace;
        let of_namespace = uploads.values().filter(same).count();
        if uploads.len() >= self.limits.uploads || of_namespace >= self.limits.uploads_per_namespace {
            let told = "too many uploads are unfinished: finish or cancel some, or wait until they end by themselves";
            return Err(RegistryError::new(ErrorCode::TooManyRequests, told));
        }
        uploads.insert(id, session);
        Ok(())
    }

    pub fn resume(self: &Arc<Self>, repository: &Repository, id: Uuid) -> Result<Upload> {
        let session = self.session(repository, id)?;
        let busy = |_| RegistryError::new(ErrorCode::UploadInvalid, "another request writes to this upload");
        let state = session.state.clone().try_lock_owned().map_err(busy)?;
        *session.touched.lock() = Instant::now();
        Ok(Upload { id, store: self.clone(), session, state })
    }

    /// How many bytes have come.
    pub fn received(&self, repository: &Repository, id: Uuid) -> Result<u64> {
        Ok(self.session(repository, id)?.size.load(Ordering::Relaxed))
    }

    pub fn cancel(&self, repository: &Repository, id: Uuid) -> Result<()> {
        self.session(repository, id)?;
        self.uploads.lock().remove(&id);
        Ok(file::remove(&self.root.join("uploads").join(id.to_string()))?)
    }

    fn session(&self, repository: &Repository, id: Uuid) -> Result<Arc<Session>> {
        let found = self.uploads.lock().get(&id).filter(|session| session.repository == *repository).cloned();
        found.ok_or_else(|| RegistryError::new(ErrorCode::UploadUnknown, "there is no such upload"))
    }

    pub(super) fn has_upload(&self, repository: &Repository) -> bool {
        self.uploads.lock().values().any(|session| session.repository == *repository)
    }

    /// Forgets what nobody has written to for long.
    pub(super) fn abandon_idle(&self) {
        let idle = |session: &Session| {
            session.state.try_lock().is_ok() && session.touched.lock().elapsed() >= self.limits.idle
        };
        let mut uploads = self.uploads.lock();
        let ended: Vec<Uuid> =
            uploads.iter().filter(|(_, session)| idle(session)).map(|(id, _)| *id).collect();
        for id in ended {
            uploads.remove(&id);
            let _ = file::remove(&self.root.join("uploads").join(id.to_string()));
        }
    }

    fn check_room(&self) -> Result<()> {
        if !has_room(&self.root)? {
            let told = "the server's disk is nearly full: delete images that nobody needs";
            return Err(RegistryError::new(ErrorCode::Unavailable, told));
        }
        Ok(())
    }

    /// How long a client may be silent in the middle of a body.
    pub fn idle(&self) -> Duration {
        self.limits.idle
    }
}

impl Upload {
    pub fn size(&self) -> u64 {
        self.session.size.load(Ordering::Relaxed)
    }

    pub async fn append(&mut self, bytes: &[u8]) -> Result<()> {
        let (before, length) = (self.size(), bytes.len() as u64);
        if before + length > self.store.limits.largest_blob {
            let told = format!("a blob has at most {} bytes", self.store.limits.largest_blob);
            return Err(RegistryError::new(ErrorCode::SizeInvalid, told));
        }
        if before / STEP != (before + length) / STEP {
            self.store.check_room()?;
        }
        if let Err(error) = self.state.file.write_all(bytes).await {
            // How much of it was written is not known: nothing can follow.
            self.forget();
            return Err(error.into());
        }
        self.state.hash.update(bytes);
        self.session.size.store(before + length, Ordering::Relaxed);
        *self.session.touched.lock() = Instant::now();
        Ok(())
    }

    /// Makes it a blob of its repository. One that is not what its client says is thrown away.
    pub async fn finish(mut self, digest: &Digest) -> Result<()> {
        let written = async {
            self.state.file.flush().await?;
            self.state.file.sync_all().await
        };
        let (written, found) = (written.await, Digest::from_hash(self.state.hash.clone()));
        if written.is_err() || found != *digest {
            self.forget();
            written?;
            let told = format!("the content has the digest {found}, not {digest}");
            return Err(RegistryError::new(ErrorCode::DigestInvalid, told));
        }
        let kept = tokio::task::spawn_blocking(move || self.keep(&found)).await;
        kept.map_err(std::io::Error::other)?
    }

    /// The collection sees the blob together with the link that holds it.
    fn keep(self, digest: &Digest) -> Result<()> {
        let store = &self.store;
        let link = store.folder(&self.session.repository)?.join("blobs").join(digest.hex());
        let _kept = store.changes.read();
        fs::rename(&self.state.path, store.blob_path(digest))?;
        file::sync_folder(&store.root.join("blobs"))?;
        file::write_atomically(&link, &[])?;
        store.uploads.lock().remove(&self.id);
        Ok(())
    }

    fn forget(&self) {
        self.store.uploads.lock().remove(&self.id);
        let _ = file::remove(&self.state.path);
    }
}
