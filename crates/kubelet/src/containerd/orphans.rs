//! What interrupted starts left behind: shims that containerd has forgotten, and containers that containerd has
//! but that CRI does not know, so that nobody would ever remove them.
//!
//! Only for a containerd of our own: in one that others use too, an unknown container is somebody's.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::Duration;

use containerd_client::services::v1::containers_client::ContainersClient;
use containerd_client::services::v1::snapshots::RemoveSnapshotRequest;
use containerd_client::services::v1::snapshots::snapshots_client::SnapshotsClient;
use containerd_client::services::v1::{Container, DeleteContainerRequest, ListContainersRequest};
use jiff::Timestamp;
use minik8s_datadir::unmount_and_remove;
use tonic::Status;
use tonic::transport::Channel;
use tracing::{info, warn};

use super::connect;
use super::shims::{Shim, kill_tree, shims};
use super::tasks::{end_task, if_there};
use crate::Config;
use crate::image::{NAMESPACE, in_namespace};

/// Says that a container was made by CRI.
const KIND: &str = "io.cri-containerd.kind";

pub struct Orphans {
    channel: Channel,
    socket: PathBuf,
    bundles: PathBuf,
    /// No start takes longer than this, so whatever is older is not being started.
    longest_start: Duration,
    /// Shims that nobody knew the last time. A shim that is about to end is seen once, not twice.
    suspects: BTreeSet<Shim>,
    /// Of shims that were ended; what could not be removed is tried again.
    left: BTreeSet<String>,
}

impl Orphans {
    pub fn new(config: &Config) -> Self {
        let socket = config.containerd_socket();
        Orphans {
            channel: connect(&socket),
            socket,
            bundles: config.containerd_dir().join("state/io.containerd.runtime.v2.task").join(NAMESPACE),
            longest_start: config.runtime_timeout,
            suspects: BTreeSet::new(),
            left: BTreeSet::new(),
        }
    }

    /// Removes what is left over. `known` asks CRI for the ids of all sandboxes and containers. Returns the ids that
    /// went.
    pub async fn sweep<E: From<Status>>(
        &mut self,
        known: impl Future<Output = Result<BTreeSet<String>, E>>,
        now: Timestamp,
    ) -> Result<Vec<String>, E> {
        // In this order: what is there when the shims are listed has its container already.
        let shims = shims(&self.socket);
        let list = in_namespace(ListContainersRequest::default());
        let containers =
            ContainersClient::new(self.channel.clone()).list(list).await?.into_inner().containers;
        let known = known.await?;
        let mut gone = Vec::new();
        let settled = now - self.longest_start;
        let unknown = |container: &&Container| {
            made_by_cri(container).is_some_and(|made| made < settled) && !known.contains(&container.id)
        };
        for container in containers.iter().filter(unknown) {
            info!(id = container.id, "removing a container that an interrupted start left");
            self.remove(container).await?;
            gone.push(container.id.clone());
        }
        let ids = containers.into_iter().map(|container| container.id).chain(known).collect();
        let (forgotten, suspects) = forgotten(shims, &ids, &self.suspects);
        self.suspects = suspects;
        for shim in forgotten {
            info!(id = shim.id, pid = shim.pid, "ending a shim that containerd has forgotten");
            kill_tree(shim.pid);
            self.left.insert(shim.id.clone());
            gone.push(shim.id);
        }
        self.remove_bundles();
        Ok(gone)
    }

    /// The directories in which ended shims worked, and what is mounted there.
    fn remove_bundles(&mut self) {
        let bundles = &self.bundles;
        self.left.retain(|id| match unmount_and_remove(bundles, id) {
            Ok(()) => false,
            Err(error) => {
                warn!(%error, id, "what a forgotten shim left stays for now");
                true
            }
        });
    }

    async fn remove(&self, container: &Container) -> Result<(), Status> {
        let container_id = &container.id;
        end_task(&self.channel, container_id).await?;
        let delete = in_namespace(DeleteContainerRequest { id: container_id.clone() });
        if_there(ContainersClient::new(self.channel.clone()).delete(delete).await)?;
        if container.snapshot_key.is_empty() {
            return Ok(());
        }
        let remove = RemoveSnapshotRequest {
            snapshotter: container.snapshotter.clone(),
            key: container.snapshot_key.clone(),
        };
        if_there(SnapshotsClient::new(self.channel.clone()).remove(in_namespace(remove)).await)
    }
}

/// When it was made, if CRI has made it.
fn made_by_cri(container: &Container) -> Option<Timestamp> {
    let created = container.created_at.as_ref().filter(|_| container.labels.contains_key(KIND))?;
    Timestamp::new(created.seconds, created.nanos).ok()
}

/// Shims without a container: those seen for the second time, and those to look at again.
fn forgotten(
    shims: Vec<Shim>,
    ids: &BTreeSet<String>,
    suspects: &BTreeSet<Shim>,
) -> (Vec<Shim>, BTreeSet<Shim>) {
    let unknown = shims.into_iter().filter(|shim| !ids.contains(&shim.id));
    let (twice, once): (Vec<_>, Vec<_>) = unknown.partition(|shim| suspects.contains(shim));
    (twice, once.into_iter().collect())
}

/// What is not there needs no removal.
#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shims_are_suspected_before_they_go() {
        let ids = BTreeSet::from(["known".to_owned()]);
        let shim = |pid: i32, id: &str| Shim { pid, id: id.to_owned() };
        let all = || vec![shim(1, "known"), shim(2, "lost")];
        let (gone, suspects) = forgotten(all(), &ids, &BTreeSet::new());
        assert_eq!((gone, suspects.len()), (vec![], 1));
        let (gone, none) = forgotten(all(), &ids, &suspects);
        assert_eq!((gone, none.len()), (vec![shim(2, "lost")], 0));
        let (gone, _) = forgotten(vec![shim(3, "lost")], &ids, &suspects);
        assert_eq!(gone, [], "another process of that id");
    }
}
