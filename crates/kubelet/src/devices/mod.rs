//! Devices of this machine that plugins offer (`deviceplugin/v1beta1`), and the containers that have them.
//!
//! A plugin registers at the agent's socket and tells its devices; they become capacity of the node under the plugin's
//! resource name. A pod that asks for some gets them when it is admitted, for as long as it lives; whose they are
//! outlives the agent ([`checkpoint`]). Devices that are claimed instead of counted are in [`dra`]. What is decided is in [`inventory`], which is pure. It never makes a device, and
//! never touches one that no pod asked for.

mod api;
mod cdi;
mod checkpoint;
pub mod dra;
mod given;
mod inventory;
mod plugin;
mod serve;
mod topology;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::watch;
use tokio_util::task::AbortOnDropHandle;
use tonic::Status;
use tracing::{info, warn};

use crate::Config;
use api::{ContainerDevices, ContainerResources, PodResources, RegisterRequest};
use dra::Dra;

use inventory::Inventory;
use plugin::Plugin;
use serve::{PodResourcesLister, Registration, SOCKET};

/// The only one there is.
const VERSION: &str = "v1beta1";
const RETRY: Duration = Duration::from_secs(5);
/// Where plugins look for a kubelet, and monitors for `podresources`.
const STANDARD: &str = "/var/lib/kubelet";
/// An agent with another data dir is one of several on its machine: it leaves that place alone.
const USUAL_DATA_DIR: &str = "/var/lib/minik8s";
const PLUGINS: &str = "device-plugins";
const POD_RESOURCES: &str = "pod-resources";

pub use given::AllocateError;
pub use topology::TopologyPolicy;

pub struct Devices {
    /// What is claimed, not counted.
    pub dra: Dra,
    data_dir: PathBuf,
    cdi: Vec<PathBuf>,
    topology: TopologyPolicy,
    state: Mutex<State>,
    /// Counts changes of what the node has.
    changes: watch::Sender<u64>,
    /// One pod's devices are chosen at a time.
    allocating: tokio::sync::Mutex<()>,
}

#[derive(Default)]
struct State {
    inventory: Inventory,
    plugins: BTreeMap<String, Running>,
}

struct Running {
    plugin: Plugin,
    number: u64,
    _follows: AbortOnDropHandle<()>,
}

impl Devices {
    pub fn new(config: &Config) -> Self {
        let kept = checkpoint::read(&config.data_dir.join(PLUGINS));
        let mut cdi: Vec<PathBuf> = cdi::DIRECTORIES.iter().map(PathBuf::from).collect();
        // Of this agent alone, where a machine has several.
        cdi.push(config.data_dir.join("cdi"));
        Devices {
            dra: Dra::new(&config.data_dir),
            data_dir: config.data_dir.clone(),
            cdi,
            topology: config.topology_policy,
            state: Mutex::new(State { inventory: Inventory::new(kept), plugins: BTreeMap::new() }),
            changes: watch::Sender::new(0),
            allocating: tokio::sync::Mutex::default(),
        }
    }

    /// Serves both sockets for ever.
    pub async fn run(self: &Arc<Self>) {
        link_standard_paths(&self.data_dir);
        let plugins = async {
            loop {
                let served = serve::serve(&self.dir(), Registration(self.clone())).await;
                if let Err(error) = served {
                    warn!(error, "device plugins cannot register");
                }
                tokio::time::sleep(RETRY).await;
            }
        };
        let monitors = async {
            loop {
                let dir = self.data_dir.join(POD_RESOURCES);
                if let Err(error) = serve::serve(&dir, PodResourcesLister(self.clone())).await {
                    warn!(error, "nobody can ask for pods' resources");
                }
                tokio::time::sleep(RETRY).await;
            }
        };
        tokio::join!(plugins, monitors);
    }

    fn dir(&self) -> PathBuf {
        self.data_dir.join(PLUGINS)
    }

    /// Rings whenever the node has other devices than before.
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }

    /// By resource: how many devices there are, and how many of them can be used.
    pub fn counts(&self) -> BTreeMap<String, (usize, usize)> {
        self.state.lock().inventory.counts()
    }

    pub fn pods(&self) -> Vec<PodResources> {
        let mut pods = self.state.lock().inventory.pods();
        for ((namespace, name), containers) in self.dra.in_use() {
            let known = pods.iter().position(|pod| pod.namespace == namespace && pod.name == name);
            let at = known.unwrap_or_else(|| {
                pods.push(PodResources { name, namespace, containers: Vec::new() });
                pods.len() - 1
            });
            for (container, dynamic_resources) in containers {
                match pods[at].containers.iter_mut().find(|known| known.name == container) {
                    Some(known) => known.dynamic_resources = dynamic_resources,
                    None => pods[at].containers.push(ContainerResources {
                        name: container,
                        devices: Vec::new(),
                        dynamic_resources,
                    }),
                }
            }
        }
        pods
    }

    pub fn allocatable(&self) -> Vec<ContainerDevices> {
        self.state.lock().inventory.allocatable()
    }

    /// A pod is over: its devices are free.
    pub fn release(&self, uid: &str) {
        self.retain(|owner| owner != uid);
    }

    /// All pods of this node are known: devices of others are free.
    pub fn release_all_but(&self, uids: &BTreeSet<String>) {
        self.retain(|owner| uids.contains(owner));
    }

    fn retain(&self, lives: impl Fn(&str) -> bool) {
        let mut state = self.state.lock();
        if state.inventory.retain(|one| lives(&one.uid)) {
            self.keep(&state);
        }
    }

    fn keep(&self, state: &State) {
        if let Err(error) = checkpoint::write(&self.dir(), state.inventory.allocations()) {
            warn!(%error, "cannot write down whose devices are whose");
        }
    }

    /// A plugin offers a resource. One that did before is replaced: it was started again.
    pub fn register(self: &Arc<Self>, request: RegisterRequest) -> Result<(), Status> {
        check(&request).map_err(Status::invalid_argument)?;
        let RegisterRequest { endpoint, resource_name: resource, options, .. } = request;
        info!(resource, endpoint, "a device plugin has registered");
        let plugin = Plugin::new(&self.dir().join(endpoint), options.unwrap_or_default());
        let mut state = self.state.lock();
        let number = state.plugins.get(&resource).map_or(0, |before| before.number + 1);
        let follows = tokio::spawn(follow(self.clone(), resource.clone(), plugin.clone(), number));
        let _follows = AbortOnDropHandle::new(follows);
        state.plugins.insert(resource, Running { plugin, number, _follows });
        Ok(())
    }

    fn tell(&self) {
        self.changes.send_modify(|count| *count += 1);
    }
}

/// Takes in what a plugin tells of its devices, until it goes.
async fn follow(devices: Arc<Devices>, resource: String, plugin: Plugin, number: u64) {
    let ended = match plugin.devices().await {
        Err(error) => error.to_string(),
        Ok(mut told) => loop {
            match told.message().await {
                Ok(Some(list)) => {
                    if devices.state.lock().inventory.set(&resource, &list.devices) {
                        devices.tell();
                    }
                }
                Ok(None) => break "it has ended".to_owned(),
                Err(error) => break error.to_string(),
            }
        },
    };
    warn!(resource, ended, "a device plugin is away: its devices cannot be given out");
    let mut state = devices.state.lock();
    if state.plugins.get(&resource).is_some_and(|running| running.number == number) {
        state.inventory.lose(&resource);
        state.plugins.remove(&resource);
        drop(state);
        devices.tell();
    }
}

/// What a registration may say.
fn check(request: &RegisterRequest) -> Result<(), String> {
    let RegisterRequest { version, endpoint, resource_name, .. } = request;
    if version != VERSION {
        return Err(format!(
            "requested API version \"{version}\" is not supported by kubelet. Supported version is \"{VERSION}\""
        ));
    }
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    let is_name = |text: &str| !text.is_empty() && text.len() <= 253 && text.chars().all(plain);
    let is_extended = resource_name.split_once('/').is_some_and(|(domain, name)| {
        is_name(domain)
            && is_name(name)
            && !domain.starts_with("requests.")
            && domain != "kubernetes.io"
            && !domain.ends_with(".kubernetes.io")
    });
    if !is_extended {
        return Err(format!(
            "the ResourceName \"{resource_name}\" is invalid: it must be DOMAIN/NAME, outside of kubernetes.io"
        ));
    }
    if !is_name(endpoint) || endpoint.starts_with('.') || endpoint == SOCKET {
        return Err(format!(
            "the endpoint \"{endpoint}\" is invalid: it must be the name of a socket beside {SOCKET}"
        ));
    }
    Ok(())
}

/// Plugins that are written for every kubelet find this one, if it is the machine's only one.
fn link_standard_paths(data_dir: &Path) {
    if data_dir != Path::new(USUAL_DATA_DIR) {
        return;
    }
    for name in [PLUGINS, POD_RESOURCES] {
        let (place, own) = (Path::new(STANDARD).join(name), data_dir.join(name));
        if place.symlink_metadata().is_ok() {
            continue;
        }
        let linked = std::fs::create_dir_all(STANDARD).and_then(|()| std::os::unix::fs::symlink(own, &place));
        if let Err(error) = linked {
            warn!(%error, "plugins do not find the agent at {}", place.display());
        }
    }
}

/// Takes away what leads plugins here.
pub fn unlink_standard_paths(data_dir: &Path) {
    for name in [PLUGINS, POD_RESOURCES] {
        let place = Path::new(STANDARD).join(name);
        if std::fs::read_link(&place).is_ok_and(|to| to == data_dir.join(name))
            && let Err(error) = std::fs::remove_file(&place)
        {
            warn!(%error, "cannot remove {}", place.display());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn registration_names_a_resource_and_a_socket_beside_ours() {
        let request = |version: &str, resource: &str, endpoint: &str| RegisterRequest {
            version: version.to_owned(),
            endpoint: endpoint.to_owned(),
            resource_name: resource.to_owned(),
            options: None,
        };
        assert_eq!(check(&request(VERSION, "nvidia.com/gpu", "nvidia-gpu.sock")), Ok(()));
        for (version, resource, endpoint, why) in [
            ("v1alpha1", "nvidia.com/gpu", "a.sock", "not supported"),
            (VERSION, "gpu", "a.sock", "ResourceName"),
            (VERSION, "kubernetes.io/gpu", "a.sock", "ResourceName"),
            (VERSION, "x.kubernetes.io/gpu", "a.sock", "ResourceName"),
            (VERSION, "nvidia.com/gpu/1", "a.sock", "ResourceName"),
            (VERSION, "nvidia.com/gpu", "../../run/docker.sock", "endpoint"),
            (VERSION, "nvidia.com/gpu", "/run/docker.sock", "endpoint"),
            (VERSION, "nvidia.com/gpu", "..", "endpoint"),
            (VERSION, "nvidia.com/gpu", SOCKET, "endpoint"),
            (VERSION, "nvidia.com/gpu", "", "endpoint"),
        ] {
            let told = check(&request(version, resource, endpoint)).unwrap_err();
            assert!(told.contains(why), "{told}");
        }
    }
}
