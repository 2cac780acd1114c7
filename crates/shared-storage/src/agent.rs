//! The agent's care for shared storage: remembers the set-up that it was told, keeps this node's servers running, and
//! answers as a CSI driver.

use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use minik8s_csi::server::serve;
use minik8s_meta::error_chain;
use minik8s_meta::shared_storage::{DRIVER, SharedNodeStatus, SharedStorage};
use parking_lot::{Mutex, RwLock};
use tokio::sync::Notify;
use tokio::task::JoinSet;

use crate::daemon::{self, at, write_closed};
use crate::driver::SharedDriver;
use crate::engine::Engine;
use crate::moosefs::{MooseFs, client_config};
use crate::part::Part;
use crate::pending::Pending;
use crate::root_mount::{self, RootMount};
use crate::{SharedError, guard, mount};

/// How soon a server that died is started again.
const LOOK: Duration = Duration::from_secs(2);
const PAUSE: Duration = Duration::from_secs(1);

/// What of the machine matters.
#[derive(Debug, Clone)]
pub struct Machine {
    pub data_dir: PathBuf,
    pub node: String,
    /// By which servers know this node's mounts.
    pub address: std::net::IpAddr,
    /// Tells this minik8s from others on the machine.
    pub instance: String,
    /// Where pods are.
    pub bridge: String,
}

impl Machine {
    fn dir(&self) -> PathBuf {
        self.data_dir.join("shared")
    }

    fn config_file(&self) -> PathBuf {
        self.dir().join("config.json")
    }

    fn sockets(&self) -> (PathBuf, PathBuf) {
        let own = self.data_dir.join("plugins").join(DRIVER).join("csi.sock");
        (own, self.data_dir.join("plugins_registry").join(format!("{DRIVER}-reg.sock")))
    }

    fn part(&self, setup: SharedStorage) -> Part {
        Part { dir: self.dir().join(&setup.id), node: self.node.clone(), setup }
    }

    /// What was told last.
    fn known(&self) -> Option<Part> {
        let text = fs::read(self.config_file()).ok()?;
        match serde_json::from_slice(&text) {
            Ok(setup) => Some(self.part(setup)),
            Err(error) => {
                tracing::warn!(%error, "cannot read how shared storage is set up; the server tells it again");
                None
            }
        }
    }
}

pub struct SharedStorageAgent {
    machine: Machine,
    engine: Arc<dyn Engine>,
    part: Arc<RwLock<Option<Part>>>,
    problem: Mutex<Option<String>>,
    root: Arc<Mutex<RootMount>>,
    changed: Notify,
    /// One change, or one look, at a time.
    alone: Mutex<()>,
}

impl SharedStorageAgent {
    pub fn new(machine: Machine) -> Self {
        SharedStorageAgent {
            part: Arc::new(RwLock::new(machine.known())),
            engine: Arc::new(MooseFs),
            machine,
            problem: Mutex::default(),
            root: Arc::default(),
            changed: Notify::new(),
            alone: Mutex::default(),
        }
    }

    /// Never returns. Does nothing as long as there is no set-up.
    pub async fn run(self: &Arc<Self>) {
        let mut serving: JoinSet<()> = JoinSet::new();
        loop {
            let has_part = self.part.read().is_some();
            if has_part && serving.is_empty() {
                self.serve(&mut serving);
            } else if !has_part {
                serving.shutdown().await;
                let (own, registration) = self.machine.sockets();
                [own, registration].iter().for_each(|socket| drop(fs::remove_file(socket)));
                self.changed.notified().await;
                continue;
            }
            let agent = self.clone();
            let _ = tokio::task::spawn_blocking(move || agent.look()).await;
            tokio::select! {
                () = self.changed.notified() => {}
                () = tokio::time::sleep(LOOK) => {}
            }
        }
    }

    fn serve(&self, serving: &mut JoinSet<()>) {
        let (own, registration) = self.machine.sockets();
        let driver = Arc::new(SharedDriver {
            engine: self.engine.clone(),
            part: self.part.clone(),
            address: self.machine.address.to_string(),
            socket: own.clone(),
            root: self.root.clone(),
            pending: Pending::default(),
        });
        // The driver's own socket first: whoever sees the other asks it at once.
        for socket in [own, registration] {
            let driver = driver.clone();
            serving.spawn(async move {
                loop {
                    let _ = socket.parent().map(fs::create_dir_all);
                    let Err(error) = serve(&socket, driver.clone()).await else { continue };
                    tracing::warn!(%error, ?socket, "cannot serve shared volumes");
                    tokio::time::sleep(PAUSE).await;
                }
            });
        }
    }

    /// Brings up what is down.
    fn look(&self) {
        let _alone = self.alone.lock();
        let Some(part) = self.part.read().clone() else { return };
        // One that a call holds is in use.
        if let Some(mut root) = self.root.try_lock()
            && let Err(error) = root.let_go_if_idle(&part)
        {
            tracing::warn!(%error, "cannot unmount the whole of the shared file system");
        }
        let looked = daemon::keep_running(self.engine.as_ref(), &part);
        let problem = looked.err().map(|error| error_chain(&error));
        let mut known = self.problem.lock();
        if *known != problem {
            if let Some(problem) = &problem {
                tracing::warn!(problem, "shared storage is not whole on this node");
            }
            *known = problem;
        }
    }

    /// Takes in how shared storage is set up, or that it is not. Blocks.
    pub fn apply(&self, setup: Option<SharedStorage>) -> Result<(), SharedError> {
        setup.as_ref().map_or(Ok(()), check)?;
        let _alone = self.alone.lock();
        let old = self.part.read().clone();
        let new = setup.map(|setup| self.machine.part(setup));
        if let Some(part) = &new {
            // Also when nothing changed: rules can be flushed by others.
            self.close(part)?;
        }
        if old == new {
            return Ok(());
        }
        if let Some(old) = &old {
            self.leave(old, new.as_ref())?;
        }
        match &new {
            Some(part) => self.enter(part)?,
            None => {
                let file = self.machine.config_file();
                match fs::remove_file(&file) {
                    Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(at(&file)(error)),
                    _ => {}
                }
                guard::open(&self.machine.instance)?;
            }
        }
        *self.part.write() = new;
        *self.problem.lock() = None;
        self.changed.notify_one();
        Ok(())
    }

    /// Remembers a set-up; the password is for root alone.
    fn enter(&self, part: &Part) -> Result<(), SharedError> {
        let client = client_config(part);
        let config = serde_json::to_string(&part.setup).map_err(io::Error::from)?;
        for (path, text) in [client, (self.machine.config_file(), config)] {
            if let Some(dir) = path.parent() {
                fs::create_dir_all(dir).map_err(at(dir))?;
                fs::set_permissions(dir, fs::Permissions::from_mode(0o700)).map_err(at(dir))?;
            }
            write_closed(&path, &text)?;
        }
        Ok(())
    }

    /// Ends servers that the new part does not have. Mounts that a master was behind who is no more are cut off: whoever
    /// waits there would wait for ever.
    fn leave(&self, old: &Part, new: Option<&Part>) -> Result<(), SharedError> {
        mount::let_go(&root_mount::path(old))?;
        let kept: Vec<&str> = new
            .filter(|new| new.setup.id == old.setup.id)
            .map(|new| self.engine.daemons(new).iter().map(|daemon| daemon.name).collect())
            .unwrap_or_default();
        for daemon in self.engine.daemons(old).iter().rev().filter(|one| !kept.contains(&one.name)) {
            daemon::stop(daemon)?;
        }
        if let Some(new) = new {
            self.engine.set_old_aside(new)?;
        }
        if new.is_some_and(|new| new.setup.master != old.setup.master) {
            mount::cut_off(&self.machine.data_dir)?;
        }
        Ok(())
    }

    fn close(&self, part: &Part) -> Result<(), SharedError> {
        let Machine { instance, bridge, .. } = &self.machine;
        guard::close(&guard::rules(instance, bridge, &part.addresses(), self.engine.ports()))
    }

    /// Blocks.
    pub fn status(&self) -> SharedNodeStatus {
        let Some(part) = self.part.read().clone() else { return SharedNodeStatus::default() };
        let mut problem = self.problem.lock().clone();
        let mut cluster = None;
        if part.is_master() && problem.is_none() {
            match self.engine.status(&part) {
                Ok(status) => cluster = Some(status),
                Err(error) => problem = Some(error_chain(&error)),
            }
        }
        SharedNodeStatus {
            id: Some(part.setup.id.clone()),
            daemons: self.engine.daemons(&part).iter().map(daemon::status).collect(),
            problem,
            directory: Some(part.dir.to_string_lossy().into_owned()),
            cluster,
        }
    }

    /// Ends the servers of a node that is taken apart. Its data stays.
    pub fn tear_down(machine: Machine) -> Result<(), SharedError> {
        let agent = SharedStorageAgent::new(machine);
        let Some(part) = agent.part.read().clone() else { return Ok(()) };
        mount::cut_off(&agent.machine.data_dir)?;
        for daemon in agent.engine.daemons(&part).iter().rev() {
            daemon::stop(daemon)?;
        }
        guard::open(&agent.machine.instance)
    }
}

/// What becomes parts of paths and of lines of files must not lead elsewhere.
fn check(setup: &SharedStorage) -> Result<(), SharedError> {
    let is_word = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphanumeric());
    let words = [&setup.id, &setup.password, &setup.auth_code];
    let mut addresses = setup.servers.iter().chain([&setup.master]).map(|server| &server.address);
    let is_good = words.iter().all(|word| is_word(word))
        && addresses.all(|address| address.parse::<std::net::IpAddr>().is_ok())
        && setup.copies > 0;
    if is_good { Ok(()) } else { Err(SharedError::Setup) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::part::tests::part;

    #[test]
    fn setup_that_would_lead_elsewhere_is_refused() {
        let is_good = |change: &dyn Fn(&mut SharedStorage)| {
            let mut setup = part("a", "/d").setup;
            change(&mut setup);
            check(&setup).is_ok()
        };
        assert!(is_good(&|_| {}));
        assert!(!is_good(&|setup| setup.id = "../../etc".to_owned()));
        assert!(!is_good(&|setup| setup.id = String::new()));
        assert!(!is_good(&|setup| setup.password = "a\nb".to_owned()));
        assert!(!is_good(&|setup| setup.servers[0].address = "10.0.0.1 } drop".to_owned()));
        assert!(!is_good(&|setup| setup.master.address = "host".to_owned()));
        assert!(!is_good(&|setup| setup.copies = 0));
    }
}
