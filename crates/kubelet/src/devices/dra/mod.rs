//! Devices that pods claim (`resource.k8s.io`): the drivers of this node prepare them, containers get what they prepared.
//!
//! The scheduler has decided which devices a claim has; here a claim is prepared before the first container of its first
//! pod, and unprepared after the last container of its last one. Before a driver is asked, a record on the disk says so:
//! an agent that was killed finds by it what must be undone. It never chooses a device, and never uses a claim that is
//! not reserved for the pod.

pub mod api;
mod given;
mod plugins;
mod prepare;
mod prepared;

use std::collections::{BTreeSet, HashMap};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::Mutex;
use thiserror::Error;

pub use plugins::Plugins;
use prepared::Prepared;

pub struct Dra {
    pub plugins: Plugins,
    dir: PathBuf,
    prepared: Mutex<Prepared>,
    /// By the claim's UID: pods may share it, and one of them at a time has it prepared or unprepared. A driver that hangs
    /// holds up nobody else's claims.
    working: Mutex<HashMap<String, Arc<tokio::sync::Mutex<()>>>>,
}

#[derive(Debug, Error)]
pub enum DraError {
    #[error("resourceclaim {0} of the pod has not been made yet")]
    NotMade(String),
    #[error("resourceclaim {0}: {1}")]
    Api(String, kube::Error),
    #[error("resourceclaim {0} was not made for this pod")]
    NotOurs(String),
    #[error("resourceclaim {0} has no devices: it is not allocated")]
    NotAllocated(String),
    #[error("resourceclaim {0} is not reserved for this pod")]
    NotReserved(String),
    #[error("DRA driver {0} is not registered on this node: is its kubelet plugin running here?")]
    NoDriver(String),
    #[error("DRA driver {driver}: {problem}")]
    Driver { driver: String, problem: String },
    #[error("cannot write down which claims are prepared: {0}")]
    Record(#[from] std::io::Error),
}

impl Dra {
    pub fn new(data_dir: &Path) -> Self {
        Dra {
            plugins: Plugins::default(),
            dir: data_dir.to_owned(),
            prepared: Mutex::new(Prepared::read(data_dir)),
            working: Mutex::default(),
        }
    }

    /// Whoever works on a claim holds this.
    fn turn(&self, claim: &str) -> Arc<tokio::sync::Mutex<()>> {
        let mut working = self.working.lock();
        working.retain(|_, turn| Arc::strong_count(turn) > 1);
        working.entry(claim.to_owned()).or_default().clone()
    }

    /// All pods of this node are known: claims of others have no users here.
    pub fn retain(&self, uids: &BTreeSet<String>) {
        let mut prepared = self.prepared.lock();
        if prepared.retain_users(uids)
            && let Err(error) = prepared.write(&self.dir)
        {
            tracing::warn!(%error, "cannot write down which claims are prepared");
        }
    }
}
