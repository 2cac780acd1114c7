//! The drivers of this node: found by their sockets in `plugins_registry/`, asked who they are, and told that they are
//! known.
//!
//! The directory is the data dir's, where only root writes: whoever can put a socket there is root of the machine.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::Duration;

use futures::future::join_all;
use minik8s_csi::registration::{CSI_PLUGIN, InfoRequest, RegistrationStatus};
use minik8s_csi::{Driver, driver_name_fault, node};
use minik8s_meta::Backoff;
use nix::sys::inotify::AddWatchFlags;
use parking_lot::RwLock;
use tokio::sync::{Notify, mpsc};
use tokio::time::timeout;
use tracing::{info, warn};

use super::socket::{SocketId, sockets};
use super::{csi_node, removal};
use crate::context::VolumeContext;
use crate::devices::dra::api::DRA_PLUGIN;
use crate::devices::dra::{Dra, Plugins};
use crate::dir_changes::tell_changes;

/// Until sockets that did not answer are asked again, and what could not be told or taken away is tried again.
const AGAIN: Duration = Duration::from_secs(20);
/// A socket is there a moment before anybody listens.
const RETRY: Backoff = Backoff { first: Duration::from_secs(1), most: AGAIN };
/// Who registers says at once who it is. One that hangs keeps the others waiting no longer.
const ANSWER: Duration = Duration::from_secs(10);

/// A driver that is registered.
#[derive(Debug, Clone, PartialEq)]
pub struct Registered {
    pub driver: Driver,
    pub info: node::Info,
    pub can: node::Capabilities,
    /// The socket by which it registered: another one is another registration.
    socket: SocketId,
}

#[derive(Default)]
pub struct Drivers {
    /// By name.
    known: RwLock<BTreeMap<String, Registered>>,
    /// Sockets of which it was said that they do not answer.
    mute: RwLock<BTreeSet<SocketId>>,
}

impl Drivers {
    pub fn get(&self, name: &str) -> Option<Registered> {
        self.known.read().get(name).cloned()
    }

    pub fn all(&self) -> BTreeMap<String, Registered> {
        self.known.read().clone()
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
    let mut retries = RETRY.retries();
    loop {
        let is_complete = scan(&context.csi.drivers, &dra.plugins, &dir).await;
        let pause = if is_complete { AGAIN } else { retries.failed() };
        if let Err(error) = csi_node::tell(context).await {
            warn!(%error, "cannot tell the CSI drivers of this node");
        }
        // Not beside it: nothing is wiped of a driver that has just come back.
        dra.plugins.wipe_slices_of_lost_drivers(&context.client, &context.node.config.node_name).await;
        looked.notify_one();
        tokio::select! {
            Some(()) = changes.recv() => retries.succeeded(),
            () = tokio::time::sleep(pause) => {}
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

/// Registers what is new and forgets what is gone. False if a socket did not answer.
async fn scan(drivers: &Drivers, plugins: &Plugins, dir: &Path) -> bool {
    let sockets = match sockets(dir) {
        Ok(sockets) => sockets,
        Err(error) => {
            warn!(%error, ?dir, "cannot tell which drivers are there");
            return false;
        }
    };
    let gone: Vec<String> = {
        let mut known = drivers.known.write();
        let is_there = |one: &Registered| sockets.contains(&one.socket);
        let gone = known.iter().filter(|(_, one)| !is_there(one)).map(|(name, _)| name.clone()).collect();
        known.retain(|_, one| is_there(one));
        gone
    };
    gone.iter().for_each(|driver| info!(driver, "a CSI driver is gone"));
    plugins.retain_sockets(|socket| sockets.contains(socket));
    let is_known = |socket: &SocketId| {
        drivers.known.read().values().any(|one| one.socket == *socket) || plugins.has_socket(socket)
    };
    let new: Vec<SocketId> = sockets.into_iter().filter(|socket| !is_known(socket)).collect();
    let answers = join_all(new.iter().map(|socket| register(drivers, plugins, socket))).await;
    let mut is_complete = true;
    for (socket, registered) in new.into_iter().zip(answers) {
        match registered {
            Ok(Some(name)) => {
                drivers.mute.write().remove(&socket);
                info!(driver = name, "a driver is registered");
            }
            Ok(None) => {}
            Err(error) => {
                is_complete = false;
                if drivers.mute.write().insert(socket.clone()) {
                    warn!(socket = ?socket.path, error, "a plugin cannot be registered; it is asked again");
                }
            }
        }
    }
    is_complete
}

/// Asks a plugin who it is. None if it is no driver of volumes or devices, or is refused, which it is told.
async fn register(drivers: &Drivers, plugins: &Plugins, socket: &SocketId) -> Result<Option<String>, String> {
    let plugin = Driver::new(&socket.path);
    let found = timeout(ANSWER, plugin.call(&InfoRequest {})).await;
    let found =
        found.map_err(|_| format!("no answer within {ANSWER:?}"))?.map_err(|error| error.to_string())?;
    if found.kind == DRA_PLUGIN {
        let refused = plugins.register(&found, socket).err();
        return Ok(answer(&plugin, found.name, refused).await);
    }
    if found.kind != CSI_PLUGIN {
        return Ok(None);
    }
    let refused = driver_name_fault(&found.name).map(str::to_owned).or_else(|| {
        let is_old =
            !found.supported_versions.iter().any(|version| version.trim_start_matches('v').starts_with("1."));
        is_old.then(|| format!("speaks versions {:?} of CSI, this node 1.x", found.supported_versions))
    });
    if refused.is_none() {
        let driver = match found.endpoint.as_str() {
            "" => plugin.clone(),
            endpoint => Driver::new(endpoint.trim_start_matches("unix://")),
        };
        let info = driver.call(&node::GetInfo {}).await.map_err(|error| error.to_string())?;
        let can = driver.call(&node::GetCapabilities {}).await.map_err(|error| error.to_string())?;
        let registered = Registered { driver, info, can, socket: socket.clone() };
        drivers.known.write().insert(found.name.clone(), registered);
    }
    Ok(answer(&plugin, found.name, refused).await)
}

/// Tells a plugin what became of its registration.
async fn answer(plugin: &Driver, name: String, refused: Option<String>) -> Option<String> {
    if let Some(error) = &refused {
        warn!(driver = name, error, "a driver is refused");
    }
    let plugin_registered = refused.is_none();
    let status = RegistrationStatus { plugin_registered, error: refused.unwrap_or_default() };
    // Whether the plugin hears it or not, it is as it is.
    let _ = plugin.call(&status).await;
    plugin_registered.then_some(name)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use bytes::Bytes;
    use minik8s_csi::Code;
    use minik8s_csi::registration::PluginInfo;
    use minik8s_csi::server::{Answers, serve};
    use prost::Message;

    use super::*;

    struct Fake(&'static str, &'static str);

    impl Answers for Fake {
        fn answer(&self, method: &str, _: Bytes) -> Result<Vec<u8>, (Code, String)> {
            Ok(match method {
                "GetInfo" => PluginInfo {
                    kind: CSI_PLUGIN.to_owned(),
                    name: self.0.to_owned(),
                    endpoint: String::new(),
                    supported_versions: vec![self.1.to_owned()],
                }
                .encode_to_vec(),
                "NodeGetInfo" => {
                    node::Info { node_id: "id".to_owned(), ..Default::default() }.encode_to_vec()
                }
                "NodeGetCapabilities" => node::Capabilities::of(&[node::Can::ExpandVolume]).encode_to_vec(),
                "NotifyRegistrationStatus" => Vec::new(),
                other => return Err((Code::UNIMPLEMENTED, other.to_owned())),
            })
        }
    }

    #[tokio::test]
    async fn driver_is_registered_by_its_socket() {
        let check = async |name: &'static str, version: &'static str, expected: Option<&str>| {
            let dir = tempfile::tempdir().unwrap();
            let socket = dir.path().join("reg.sock");
            let (at, answers) = (socket.clone(), Arc::new(Fake(name, version)));
            let server = tokio::spawn(async move { serve(&at, answers).await });
            let found = loop {
                match sockets(dir.path()).unwrap().pop() {
                    Some(socket) => break socket,
                    None => tokio::task::yield_now().await,
                }
            };
            let drivers = Drivers::default();
            let registered = loop {
                match register(&drivers, &Plugins::default(), &found).await {
                    Ok(registered) => break registered,
                    Err(error) => assert!(error.contains("refused"), "{error}"),
                }
            };
            assert_eq!(registered.as_deref(), expected);
            assert_eq!(drivers.get(name).is_some(), expected.is_some());
            if let Some(known) = drivers.get(name) {
                assert_eq!(known.info.node_id, "id");
                assert!(known.can.has(node::Can::ExpandVolume));
                assert!(!known.can.has(node::Can::StageUnstageVolume));
            }
            server.abort();
        };
        check("a.example", "1.9.0", Some("a.example")).await;
        check("a.example", "v1.0.0", Some("a.example")).await;
        check("a.example", "0.3.0", None).await;
        check("../../etc", "1.0.0", None).await;
    }

    #[tokio::test]
    async fn driver_that_comes_when_another_goes_is_registered() {
        let dir = tempfile::tempdir().unwrap();
        let (drivers, plugins) = (Drivers::default(), Plugins::default());
        for name in ["a.example", "b.example", "c.example"] {
            let socket = dir.path().join(format!("{name}-reg.sock"));
            let (at, answers) = (socket.clone(), Arc::new(Fake(name, "1.0.0")));
            let server = tokio::spawn(async move { serve(&at, answers).await });
            // Until somebody listens.
            while !socket.exists() || !scan(&drivers, &plugins, dir.path()).await {
                tokio::task::yield_now().await;
            }
            assert_eq!(drivers.all().into_keys().collect::<Vec<_>>(), [name]);
            server.abort();
            assert!(server.await.is_err());
            std::fs::remove_file(socket).unwrap();
        }
    }

    #[tokio::test]
    async fn plugin_that_hangs_keeps_no_other_waiting() {
        let dir = tempfile::tempdir().unwrap();
        let mute = |name: &str| std::os::unix::net::UnixListener::bind(dir.path().join(name)).unwrap();
        let _mute = ["a-reg.sock", "c-reg.sock", "d-reg.sock"].map(mute);
        let (drivers, plugins) = (Drivers::default(), Plugins::default());
        let socket = dir.path().join("b-reg.sock");
        let (at, answers) = (socket.clone(), Arc::new(Fake("b.example", "1.0.0")));
        let server = tokio::spawn(async move { serve(&at, answers).await });
        while tokio::net::UnixStream::connect(&socket).await.is_err() {
            tokio::task::yield_now().await;
        }
        let registered = async {
            while drivers.get("b.example").is_none() {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        };
        tokio::select! {
            _ = scan(&drivers, &plugins, dir.path()) => panic!("the others do not answer"),
            in_time = timeout(ANSWER / 2, registered) => in_time.unwrap(),
        }
        // What cannot be looked at is not gone.
        assert!(!scan(&drivers, &plugins, &socket).await);
        assert!(drivers.get("b.example").is_some());
        server.abort();
    }
}
