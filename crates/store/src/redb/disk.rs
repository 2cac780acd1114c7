//! The file: what is in it, how it is opened, and what to do when it fails. Everything here blocks.
//!
//! Three tables. `values` has every value that can still be read, `changes` says what each commit did to which
//! key and which revision that replaced, `meta` has a few numbers. Both are ordered by revision, not by key:
//! so a group of commits writes a few neighbouring pages at the end, whatever its keys are, where a table by
//! key would write a page for each. Nobody asks the disk by key, since the newest entries are in memory:
//! older ones are found by undoing `changes`, watches replay them, and compaction follows them to exactly
//! those values that nobody can reach any more.
//!
//! redb refuses to go on after an I/O error, so the file is opened anew then. A write that failed may still
//! have reached the disk. If the revision found afterwards tells so, it has not failed after all; if the
//! file cannot be opened at once, the write has failed for good, and the next one removes what is left of it.

mod fill;
mod purge;
mod snapshot;

use std::fs::{File, Permissions};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use parking_lot::RwLock;
use redb::{
    Builder, Database, DatabaseError, ReadTransaction, ReadableDatabase, ReadableTable, TableDefinition,
};

use super::newest::Newest;
use crate::{Change, Error, Event, Result, Revision};

/// What was put at a revision under a key.
const VALUES: TableDefinition<(Revision, &str), &[u8]> = TableDefinition::new("values");
/// At a revision, to a key: the revision of what was replaced (0: nothing), and whether it was deleted.
const CHANGES: TableDefinition<(Revision, &str), (Revision, bool)> = TableDefinition::new("changes");
const META: TableDefinition<&str, u64> = TableDefinition::new("meta");

const FORMAT: u64 = 2;
/// As in etcd, an empty store is at 1, so that no revision a client ever sees is 0.
const FIRST_REVISION: Revision = 1;
/// The newest values are in memory already; this is for inner pages and old history.
const CACHE_BYTES: usize = 8 << 20;

/// A file is shrunk when it is larger than this, and than so many times what is in it.
const WASTEFUL_BYTES: u64 = 8 << 20;
const WASTEFUL_FACTOR: u64 = 4;

pub(super) struct Disk {
    path: PathBuf,
    opener: Opener,
    /// None after a failure, until the file could be opened again, and after closing.
    database: RwLock<Option<Database>>,
}

type Opener = Box<dyn Fn(&Builder) -> Result<Database, DatabaseError> + Send + Sync>;

pub(super) struct Loaded {
    pub(super) newest: Newest,
    /// Values that are kept only as history.
    pub(super) history_bytes: u64,
}

/// One durable step.
pub(super) struct Write<'a> {
    /// The revision before.
    pub(super) base: Revision,
    pub(super) events: &'a [Arc<Event>],
    pub(super) revision: Revision,
    pub(super) compacted: Revision,
    /// How many changes may be purged on the way.
    pub(super) purge: usize,
}

impl Disk {
    pub(super) fn open(path: &Path) -> Result<Self> {
        let file = path.to_owned();
        let open = move |builder: &Builder| {
            close_to_others(&file)?;
            builder.create(&file)
        };
        let disk = Disk::open_with(path, Box::new(open))?;
        sync_directory(path).map_err(|error| disk.failed("syncing the directory of", error))?;
        Ok(disk)
    }

    pub(super) fn open_with(path: &Path, opener: Opener) -> Result<Self> {
        let disk = Disk { path: path.to_owned(), opener, database: RwLock::new(None) };
        let database = disk.open_database()?;
        *disk.database.write() = Some(database);
        Ok(disk)
    }

    /// Reads all newest values, and makes the tables of a new file.
    pub(super) fn load(&self) -> Result<Loaded> {
        self.guarded("preparing", || self.prepare())?;
        self.guarded("reading", || {
            let transaction = self.read()?;
            let meta = transaction.open_table(META)?;
            let number = |name| Ok::<_, redb::Error>(meta.get(name)?.map_or(0, |number| number.value()));
            let mut newest = Newest::new(number("revision")?, number("compacted")?);
            let mut history_bytes = 0;
            for row in transaction.open_table(VALUES)?.iter()? {
                let (at, value) = row?;
                let (revision, key) = at.value();
                history_bytes += newest.restore(key, Bytes::copy_from_slice(value.value()), revision) as u64;
            }
            for row in transaction.open_table(CHANGES)?.iter()? {
                let (at, change) = row?;
                if let ((revision, key), (_, true)) = (at.value(), change.value()) {
                    history_bytes += newest.restore_deletion(key, revision) as u64;
                }
            }
            Ok(Loaded { newest, history_bytes })
        })
    }

    /// A file that was once much larger than what it holds now, `used`, gives the rest back. redb does that
    /// by itself only where the free pages are at the end.
    pub(super) fn shrink_if_wasteful(&self, used: u64) -> Result<()> {
        let size = std::fs::metadata(&self.path).map_or(0, |file| file.len());
        if size < WASTEFUL_BYTES || size / WASTEFUL_FACTOR < used {
            return Ok(());
        }
        tracing::info!(path = %self.path.display(), size, used, "shrinking the store");
        self.guarded("shrinking", || {
            if let Some(database) = &mut *self.database.write() {
                database.compact()?;
            }
            Ok(())
        })
    }

    /// Makes `write` durable. After an error nothing of it is there. Returns whether more is to be purged.
    pub(super) fn write(&self, write: &Write<'_>) -> Result<bool> {
        self.reopen_if_lost()?;
        let error = match self.guarded("writing", || self.try_write(write)) {
            Ok(purge_left) => return Ok(purge_left),
            Err(error) => error,
        };
        tracing::error!(%error, "the store's disk failed; opening the file again");
        self.close();
        self.reopen_if_lost()?;
        if !write.events.is_empty() && self.revision_on_disk()? == write.revision {
            return Ok(true);
        }
        Err(error)
    }

    /// Lets go of the file.
    pub(super) fn close(&self) {
        let database = self.database.write().take();
        // A damaged file may make redb panic once more; nothing is left to be done about it.
        let _ = catch_unwind(AssertUnwindSafe(|| drop(database)));
    }

    fn try_write(&self, write: &Write<'_>) -> Result<bool, redb::Error> {
        let transaction = match &*self.database.read() {
            Some(database) => database.begin_write()?,
            None => return Err(redb::Error::DatabaseClosed),
        };
        let purge_left = {
            let mut values = transaction.open_table(VALUES)?;
            let mut changes = transaction.open_table(CHANGES)?;
            let mut meta = transaction.open_table(META)?;
            let found = meta.get("revision")?.map_or(0, |revision| revision.value());
            if found < write.base {
                let lost = format!("it is at revision {found}, but {} had been made durable", write.base);
                return Err(redb::Error::Corrupted(lost));
            }
            purge::take_back(&mut values, &mut changes, write.base)?;
            for event in write.events {
                let at = (event.revision, &*event.key);
                if let Change::Put(value) = &event.change {
                    values.insert(at, &value[..])?;
                }
                let replaced = event.previous.as_ref().map_or(0, |previous| previous.revision);
                changes.insert(at, (replaced, event.change == Change::Delete))?;
            }
            meta.insert("revision", write.revision)?;
            meta.insert("compacted", write.compacted)?;
            purge::purge(&mut values, &mut changes, write.compacted, write.purge)?
        };
        transaction.commit()?;
        Ok(purge_left)
    }

    /// Makes what a new file lacks, and refuses files from the future.
    fn prepare(&self) -> Result<(), redb::Error> {
        let guard = self.database.read();
        let Some(database) = &*guard else { return Err(redb::Error::DatabaseClosed) };
        let transaction = database.begin_write()?;
        {
            transaction.open_table(VALUES)?;
            transaction.open_table(CHANGES)?;
            let mut meta = transaction.open_table(META)?;
            let format = meta.get("format")?.map(|format| format.value());
            match format {
                Some(FORMAT) => return Ok(()),
                Some(other) => {
                    return Err(redb::Error::Corrupted(format!(
                        "its format is {other}, this version reads {FORMAT}; use the version of minik8s that wrote it"
                    )));
                }
                None => {
                    meta.insert("format", FORMAT)?;
                    meta.insert("revision", FIRST_REVISION)?;
                    meta.insert("compacted", 0)?;
                }
            }
        }
        transaction.commit()?;
        Ok(())
    }

    fn read(&self) -> Result<ReadTransaction, redb::Error> {
        match &*self.database.read() {
            Some(database) => Ok(database.begin_read()?),
            None => Err(redb::Error::DatabaseClosed),
        }
    }

    fn revision_on_disk(&self) -> Result<Revision> {
        self.guarded("reading", || {
            let meta = self.read()?.open_table(META)?;
            Ok(meta.get("revision")?.map_or(0, |revision| revision.value()))
        })
    }

    fn reopen_if_lost(&self) -> Result<()> {
        let mut database = self.database.write();
        if database.is_none() {
            *database = Some(self.open_database()?);
        }
        Ok(())
    }

    fn open_database(&self) -> Result<Database> {
        let mut builder = Database::builder();
        builder.set_cache_size(CACHE_BYTES);
        let opened = catch_unwind(AssertUnwindSafe(|| {
            let mut database = (self.opener)(&builder)?;
            // Damage that is found now does not spread.
            if !database.check_integrity()? {
                tracing::warn!(path = %self.path.display(), "the store was damaged and has been repaired");
            }
            Ok(database)
        }));
        let path = self.path.display();
        match opened {
            Ok(Ok(database)) => Ok(database),
            Ok(Err(DatabaseError::DatabaseAlreadyOpen)) => Err(Error::InUse(path.to_string())),
            Ok(Err(DatabaseError::Storage(redb::StorageError::Io(error))))
                if error.kind() != std::io::ErrorKind::InvalidData =>
            {
                Err(Error::Open(format!(
                    "{path}: {error}; check that the directory exists, is writable and has space"
                )))
            }
            Ok(Err(error)) => Err(self.damaged(error)),
            Err(_) => Err(self.damaged("reading it failed half-way")),
        }
    }

    /// Works on the file; damage, which redb may answer with a panic, becomes an error.
    fn guarded<T>(&self, doing: &str, work: impl FnOnce() -> Result<T, redb::Error>) -> Result<T> {
        match catch_unwind(AssertUnwindSafe(work)) {
            Ok(Ok(done)) => Ok(done),
            Ok(Err(redb::Error::DatabaseClosed)) => Err(Error::Closed),
            Ok(Err(error @ (redb::Error::Io(_) | redb::Error::PreviousIo))) => Err(self.failed(doing, error)),
            Ok(Err(error)) => Err(self.damaged(error)),
            Err(_) => Err(self.damaged("reading it failed half-way")),
        }
    }

    fn damaged(&self, problem: impl std::fmt::Display) -> Error {
        let path = self.path.display();
        Error::Open(format!(
            "{path} is damaged or not a minik8s store: {problem}; move it away and restore a copy, or start \
             without it to begin with an empty cluster"
        ))
    }

    fn failed(&self, doing: &str, error: impl std::fmt::Display) -> Error {
        Error::Engine(format!("{doing} {}: {error}", self.path.display()))
    }
}

/// The file holds every Secret of a cluster.
fn close_to_others(path: &Path) -> std::io::Result<()> {
    let file = File::options().create(true).truncate(false).write(true).mode(0o600).open(path)?;
    if file.metadata()?.permissions().mode() & 0o077 != 0 {
        file.set_permissions(Permissions::from_mode(0o600))?;
    }
    Ok(())
}

/// A new file is durable only when its directory is.
fn sync_directory(path: &Path) -> std::io::Result<()> {
    let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    File::open(directory)?.sync_all()
}
