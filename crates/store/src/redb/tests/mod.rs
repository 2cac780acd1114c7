//! What the disk can do to us: fail, fill up, be slow, lose power. On a simulated disk.

mod damage;
mod faults;
mod power;
mod simulated_disk;

use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;

use self::simulated_disk::SimulatedDisk;
use super::RedbStore;
use super::disk::Disk;
use crate::{Commit, Op, Options, Outcome, Result, Revision, Store};

fn open(disk: &Arc<SimulatedDisk>) -> Result<Arc<RedbStore>> {
    let handle = disk.clone();
    let opener = Box::new(move |builder: &redb::Builder| builder.create_with_backend(handle.handle()));
    RedbStore::start(Disk::open_with(Path::new("simulated"), opener)?, Options::default())
}

fn put(key: &str, value: impl Into<Bytes>) -> Commit {
    Commit { conditions: Vec::new(), ops: vec![Op::Put { key: key.into(), value: value.into() }] }
}

async fn try_put(store: &RedbStore, key: &str, value: impl Into<Bytes>) -> Result<Revision> {
    match store.commit(put(key, value)).await? {
        Outcome::Committed(revision) => Ok(revision),
        Outcome::Conflict(conflict) => panic!("{conflict:?}"),
    }
}
