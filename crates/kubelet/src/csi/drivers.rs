//! The drivers of this node: found by their sockets in `plugins_registry/`, asked who they are, and told that they are
//! known.
//!
//! The directory is the data dir's, where only root writes: whoever can put a socket there is root of the machine. Nothing
//! here waits for a driver that hangs.

use std::collections::BTreeMap;
use std::pin::pin;
use std::time::Duration;

use minik8s_csi::{Driver, node};
use minik8s_meta::Backoff;
use nix::sys::inotify::AddWatchFlags;
use parking_lot::RwLock;
use tokio::sync::{Notify, mpsc};
use tokio::time::{sleep, timeout};
use tracing::{info, warn};

use super::registrations::Registrations;
use super::socket::SocketId;
use super::{csi_node, removal};
use crate::context::VolumeContext;
use crate::devices::dra::Dra;
use crate::dir_changes::tell_changes;

/// Until sockets that did not answer are asked again, and what could not be told or taken away is tried again.
const AGAIN: Duration = Duration::from_secs(20);
/// A socket is there a moment before anybody listens.
const RETRY: Backoff = Backoff { first: Duration::from_secs(1), most: AGAIN };
/// The server is told of whoever answers so soon together with what is gone: one that was started anew is not missed.
const AT_ONCE: Duration = Duration::from_secs(1);

/// A driver that is registered.
#[derive(Debug, Clone, PartialEq)]
pub struct Registered {
    pub driver: Driver,
    pub info: node::Info,
    pub can: node::Capabilities,
    /// The socket by which it registered: another one is another registration.
    pub(super) socket: SocketId,
}

#[derive(Default)]
pub struct Drivers {
    /// By name.
    known: RwLock<BTreeMap<String, Registered>>,
}

impl Drivers {
    pub fn get(&self, name: &str) -> Option<Registered> {
        self.known.read().get(name).cloned()
    }

    pub fn all(&self) -> BTreeMap<String, Registered> {
        self.known.read().clone()
    }

    pub(super) fn insert(&self, name: String, driver: Registered) {
        self.known.write().insert(name, driver);
    }

    pub(super) fn has_socket(&self, socket: &SocketId) -> bool {
        self.known.read().values().any(|known| known.socket == *socket)
    }

    /// Forgets those whose sockets are gone.
    pub(super) fn retain_sockets(&self, is_there: impl Fn(&SocketId) -> bool) {
        self.known.write().retain(|driver, known| {
            let stays = is_there(&known.socket);
            if !stays {
                info!(driver, "a CSI driver is gone");
            }
            stays
        });
    }
}

/// Never returns.
pub async fn keep_drivers(context: &VolumeContext, dra: &Dra) {
    let looked = Notify::new();
    tokio::join!(keep_registered(context, dra, &looked), take_away_unused(context, dra, &looked));
}

async fn keep_registered(context: &VolumeContext, dra: &Dra, looked: &Notify) {
    let dir = context.node.config.plugins_registry_dir();
    let (sender, mut changes) = mpsc::channel(1);
    let interesting = AddWatchFlags::IN_CREATE | AddWatchFlags::IN_MOVE | AddWatchFlags::IN_DELETE;
    let watched =
        tokio::fs::create_dir_all(&dir).await.and_then(|()| tell_changes(&dir, interesting, sender));
    if let Err(error) = watched {
        warn!(%error, ?dir, "new CSI drivers are seen late");
    }
    let mut registrations = Registrations::new(&context.csi.drivers, &dra.plugins);
    let mut retries = RETRY.retries();
    loop {
        if registrations.look(&dir) {
            // Who takes longer goes on below.
            let _ = timeout(AT_ONCE, registrations.all_answered()).await;
        }
        let pause = if registrations.has_failed() { retries.failed() } else { AGAIN };
        let mut again = pin!(sleep(pause));
        loop {
            if let Err(error) = csi_node::tell(context).await {
                warn!(%error, "cannot tell the CSI drivers of this node");
            }
            // Not beside it: nothing is wiped of a driver that has just come back.
            dra.plugins.wipe_slices_of_lost_drivers(&context.client, &context.node.config.node_name).await;
            looked.notify_one();
            tokio::select! {
                Some(()) = changes.recv() => {
                    retries.succeeded();
                    break;
                }
                () = &mut again => break,
                Some(()) = registrations.answered() => {}
            }
        }
    }
}

/// Beside the above: a driver that hangs when its volume is taken away keeps no other from being registered.
async fn take_away_unused(context: &VolumeContext, dra: &Dra, looked: &Notify) {
    loop {
        looked.notified().await;
        removal::release_unused(context).await;
        dra.unprepare_unused().await;
    }
}
