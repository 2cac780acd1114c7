//! The registrations of plugins that are under way: side by side, so that one that hangs keeps no other waiting, however
//! long it may take its time.
//!
//! They go on only while somebody waits for an answer: who does something else meanwhile finds the drivers as they were.
//! Nothing here tells the server, and nothing retries.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

use futures::future::{BoxFuture, FutureExt};
use futures::stream::{FuturesUnordered, StreamExt};
use minik8s_csi::registration::{CSI_PLUGIN, InfoRequest, RegistrationStatus};
use minik8s_csi::{Driver, driver_name_fault, node};
use tokio::time::timeout;
use tracing::{info, warn};

use super::drivers::{Drivers, Registered};
use super::socket::{SocketId, sockets};
use crate::devices::dra::Plugins;
use crate::devices::dra::api::DRA_PLUGIN;

/// Who registers says at once who it is, and hears at once what became of it. What drivers are asked about the node they
/// may ask somebody else: that has the time of every call.
const ANSWER: Duration = Duration::from_secs(10);

/// The name of the driver. None if it is no driver of volumes or devices, or is refused.
type Outcome = Result<Option<String>, String>;

pub struct Registrations<'a> {
    drivers: &'a Drivers,
    plugins: &'a Plugins,
    running: FuturesUnordered<BoxFuture<'a, (SocketId, Outcome)>>,
    /// The sockets of those that are running.
    asked: BTreeSet<SocketId>,
    /// Sockets of which it was said that they do not answer.
    mute: BTreeSet<SocketId>,
    has_failed: bool,
}

impl<'a> Registrations<'a> {
    pub fn new(drivers: &'a Drivers, plugins: &'a Plugins) -> Self {
        Registrations {
            drivers,
            plugins,
            running: FuturesUnordered::new(),
            asked: BTreeSet::new(),
            mute: BTreeSet::new(),
            has_failed: false,
        }
    }

    /// Forgets what is gone, and begins to ask what is new. Whether that is anything.
    pub fn look(&mut self, dir: &Path) -> bool {
        self.has_failed = false;
        let sockets = match sockets(dir) {
            Ok(sockets) => sockets,
            Err(error) => {
                warn!(%error, ?dir, "cannot tell which drivers are there");
                self.has_failed = true;
                return false;
            }
        };
        self.drivers.retain_sockets(|socket| sockets.contains(socket));
        self.plugins.retain_sockets(|socket| sockets.contains(socket));
        self.mute.retain(|socket| sockets.contains(socket));
        let (drivers, plugins) = (self.drivers, self.plugins);
        let before = self.running.len();
        for socket in sockets {
            let is_known = drivers.has_socket(&socket) || plugins.has_socket(&socket);
            if is_known || !self.asked.insert(socket.clone()) {
                continue;
            }
            let registration = async move {
                let outcome = register(drivers, plugins, &socket).await;
                (socket, outcome)
            };
            self.running.push(registration.boxed());
        }
        self.running.len() > before
    }

    /// Whether, since the last look, a socket did not answer, or the directory could not be read.
    pub fn has_failed(&self) -> bool {
        self.has_failed
    }

    /// Waits until one of them ends; None if none is under way. May be given up at any time.
    pub async fn answered(&mut self) -> Option<()> {
        let (socket, outcome) = self.running.next().await?;
        self.asked.remove(&socket);
        match outcome {
            Ok(Some(name)) => {
                self.mute.remove(&socket);
                info!(driver = name, "a driver is registered");
            }
            Ok(None) => {}
            Err(error) => {
                self.has_failed = true;
                if self.mute.insert(socket.clone()) {
                    warn!(socket = ?socket.path, error, "a plugin cannot be registered; it is asked again");
                }
            }
        }
        Some(())
    }

    pub async fn all_answered(&mut self) {
        while self.answered().await.is_some() {}
    }
}

/// Asks a plugin who it is, and tells it what became of it.
async fn register(drivers: &Drivers, plugins: &Plugins, socket: &SocketId) -> Outcome {
    let plugin = Driver::new(&socket.path);
    let found = timeout(ANSWER, plugin.call(&InfoRequest {})).await;
    let found =
        found.map_err(|_| format!("no answer within {ANSWER:?}"))?.map_err(|error| error.to_string())?;
    if found.kind == DRA_PLUGIN {
        still_there(socket)?;
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
        still_there(socket)?;
        drivers.insert(found.name.clone(), Registered { driver, info, can, socket: socket.clone() });
    }
    Ok(answer(&plugin, found.name, refused).await)
}

/// One that took so long that another has its place must not take the other's.
fn still_there(socket: &SocketId) -> Result<(), String> {
    if socket.is_there() { Ok(()) } else { Err("its socket is gone".to_owned()) }
}

/// Tells a plugin what became of its registration.
async fn answer(plugin: &Driver, name: String, refused: Option<String>) -> Option<String> {
    if let Some(error) = &refused {
        warn!(driver = name, error, "a driver is refused");
    }
    let plugin_registered = refused.is_none();
    let status = RegistrationStatus { plugin_registered, error: refused.unwrap_or_default() };
    // Whether the plugin hears it or not, it is as it is.
    let _ = timeout(ANSWER, plugin.call(&status)).await;
    plugin_registered.then_some(name)
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::path::PathBuf;
    use std::sync::Arc;
    use std::sync::mpsc::{Receiver, channel};

    use bytes::Bytes;
    use minik8s_csi::Code;
    use minik8s_csi::registration::PluginInfo;
    use minik8s_csi::server::{Answers, serve};
    use parking_lot::Mutex;
    use prost::Message;
    use tokio::net::UnixStream;
    use tokio::task::JoinHandle;

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

    async fn serve_at(socket: PathBuf, answers: Arc<dyn Answers>) -> JoinHandle<io::Result<()>> {
        let at = socket.clone();
        let server = tokio::spawn(async move { serve(&at, answers).await });
        while UnixStream::connect(&socket).await.is_err() {
            tokio::task::yield_now().await;
        }
        server
    }

    #[tokio::test]
    async fn driver_that_comes_when_another_goes_is_registered() {
        let dir = tempfile::tempdir().unwrap();
        let (drivers, plugins) = (Drivers::default(), Plugins::default());
        let mut registrations = Registrations::new(&drivers, &plugins);
        for name in ["a.example", "b.example", "c.example"] {
            let socket = dir.path().join(format!("{name}-reg.sock"));
            let server = serve_at(socket.clone(), Arc::new(Fake(name, "1.0.0"))).await;
            assert!(registrations.look(dir.path()));
            registrations.all_answered().await;
            assert_eq!(drivers.all().into_keys().collect::<Vec<_>>(), [name]);
            assert!(!registrations.has_failed());
            assert!(!registrations.look(dir.path()), "nobody is asked twice");
            server.abort();
            assert!(server.await.is_err());
            std::fs::remove_file(socket).unwrap();
        }
    }

    /// Others do not answer meanwhile.
    async fn until_registered(registrations: &mut Registrations<'_>, drivers: &Drivers, name: &str) {
        let registered = async {
            while drivers.get(name).is_none() {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        };
        tokio::select! {
            () = registrations.all_answered() => panic!("the others do not answer"),
            in_time = timeout(ANSWER / 2, registered) => in_time.unwrap(),
        }
    }

    #[tokio::test]
    async fn plugin_that_hangs_keeps_no_other_waiting() {
        let dir = tempfile::tempdir().unwrap();
        let mute = |name: &str| std::os::unix::net::UnixListener::bind(dir.path().join(name)).unwrap();
        let _mute = ["a-reg.sock", "c-reg.sock", "d-reg.sock"].map(mute);
        let (drivers, plugins) = (Drivers::default(), Plugins::default());
        let mut registrations = Registrations::new(&drivers, &plugins);
        let socket = dir.path().join("b-reg.sock");
        let server = serve_at(socket.clone(), Arc::new(Fake("b.example", "1.0.0"))).await;
        assert!(registrations.look(dir.path()));
        until_registered(&mut registrations, &drivers, "b.example").await;
        // What cannot be looked at is not gone.
        assert!(!registrations.look(&socket));
        assert!(registrations.has_failed());
        assert!(drivers.get("b.example").is_some());
        server.abort();
    }

    /// Never answers one of the calls, until whoever holds the other end lets go of it.
    struct Hanging {
        fake: Fake,
        call: &'static str,
        held: Mutex<Receiver<()>>,
    }

    impl Answers for Hanging {
        fn answer(&self, method: &str, message: Bytes) -> Result<Vec<u8>, (Code, String)> {
            if method == self.call {
                let _ = self.held.lock().recv();
            }
            self.fake.answer(method, message)
        }
    }

    #[tokio::test]
    async fn driver_that_hangs_keeps_none_waiting_that_comes_later() {
        let dir = tempfile::tempdir().unwrap();
        let (drivers, plugins) = (Drivers::default(), Plugins::default());
        let mut registrations = Registrations::new(&drivers, &plugins);
        let mut ends = Vec::new();
        for (name, call) in [
            ("a.example", "NodeGetInfo"),
            ("b.example", "NodeGetCapabilities"),
            ("c.example", "NotifyRegistrationStatus"),
        ] {
            let (end, held) = channel();
            ends.push(end);
            let answers = Hanging { fake: Fake(name, "1.0.0"), call, held: Mutex::new(held) };
            serve_at(dir.path().join(format!("{name}-reg.sock")), Arc::new(answers)).await;
        }
        registrations.look(dir.path());
        until_registered(&mut registrations, &drivers, "c.example").await;
        let socket = dir.path().join("d-reg.sock");
        serve_at(socket.clone(), Arc::new(Fake("d.example", "1.0.0"))).await;
        assert!(registrations.look(dir.path()));
        until_registered(&mut registrations, &drivers, "d.example").await;
        assert_eq!(drivers.all().into_keys().collect::<Vec<_>>(), ["c.example", "d.example"]);
        // Those that hang and lose their sockets take no place when they go on.
        for name in ["a.example", "b.example"] {
            std::fs::remove_file(dir.path().join(format!("{name}-reg.sock"))).unwrap();
        }
        ends.clear();
        registrations.all_answered().await;
        assert!(registrations.has_failed());
        assert_eq!(drivers.all().into_keys().collect::<Vec<_>>(), ["c.example", "d.example"]);
    }
}
