//! The DRA drivers of this node: registered by their sockets, like drivers of volumes, and what is left of those that go.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use k8s_openapi::api::resource::v1::ResourceSlice;
use kube::Api;
use kube::api::{DeleteParams, ListParams};
use minik8s_csi::Driver;
use minik8s_csi::registration::PluginInfo;
use minik8s_informer::Lenient;
use parking_lot::Mutex;
use tracing::{info, warn};

use super::api::VERSION;
use crate::csi::SocketId;

/// A driver that is started anew comes back sooner; what one that is gone has offered must not be scheduled.
const WIPE_AFTER: Duration = Duration::from_secs(30);

#[derive(Default)]
pub struct Plugins {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// By name, with the socket by which it registered.
    known: BTreeMap<String, (Driver, SocketId)>,
    /// Gone, since when.
    lost: BTreeMap<String, Instant>,
    /// Those of an earlier life of this agent have been looked for.
    is_complete: bool,
}

impl Plugins {
    pub fn get(&self, name: &str) -> Option<Driver> {
        self.state.lock().known.get(name).map(|(driver, _)| driver.clone())
    }

    pub fn has_socket(&self, socket: &SocketId) -> bool {
        self.state.lock().known.values().any(|(_, known)| known == socket)
    }

    /// Forgets those whose sockets are gone.
    pub fn retain_sockets(&self, is_there: impl Fn(&SocketId) -> bool) {
        let mut state = self.state.lock();
        let gone: Vec<String> = state
            .known
            .iter()
            .filter(|(_, (_, socket))| !is_there(socket))
            .map(|(name, _)| name.clone())
            .collect();
        for name in gone {
            info!(driver = name, "a DRA driver is gone");
            state.known.remove(&name);
            state.lost.insert(name, Instant::now());
        }
    }

    /// Else why not, which the driver is told.
    pub fn register(&self, found: &PluginInfo, socket: &SocketId) -> Result<(), String> {
        if let Some(fault) = minik8s_csi::driver_name_fault(&found.name) {
            return Err(fault.to_owned());
        }
        if !found.supported_versions.iter().any(|version| version == VERSION) {
            return Err(format!("supports {:?}, this node {VERSION}", found.supported_versions));
        }
        let driver = match found.endpoint.as_str() {
            "" => Driver::new(&socket.path),
            endpoint => Driver::new(endpoint.trim_start_matches("unix://")),
        };
        let mut state = self.state.lock();
        state.lost.remove(&found.name);
        state.known.insert(found.name.clone(), (driver, socket.clone()));
        Ok(())
    }

    /// A driver that does not come back leaves nothing that pods could be sent here for.
    pub async fn wipe_slices_of_lost_drivers(&self, client: &kube::Client, node: &str) {
        let slices: Api<Lenient<ResourceSlice>> = Api::all(client.clone());
        let of_node = format!("spec.nodeName={node}");
        if !self.state.lock().is_complete {
            match slices.list(&ListParams::default().fields(&of_node)).await {
                Ok(list) => {
                    let mut state = self.state.lock();
                    state.is_complete = true;
                    for driver in list.items.into_iter().map(|slice| slice.into_inner().spec.driver) {
                        if !state.known.contains_key(&driver) {
                            state.lost.entry(driver).or_insert_with(Instant::now);
                        }
                    }
                }
                Err(error) => tracing::debug!(%error, "cannot list the node's ResourceSlices"),
            }
        }
        for driver in self.lost_for_good(Instant::now()) {
            let of_driver = ListParams::default().fields(&format!("{of_node},spec.driver={driver}"));
            match slices.delete_collection(&DeleteParams::default(), &of_driver).await {
                Ok(_) => {
                    info!(driver, "the devices of a DRA driver that is gone are offered no more");
                    self.state.lock().lost.remove(&driver);
                }
                Err(error) => warn!(%error, driver, "cannot delete ResourceSlices of a driver that is gone"),
            }
        }
    }

    fn lost_for_good(&self, now: Instant) -> Vec<String> {
        let state = self.state.lock();
        let long = state.lost.iter().filter(|(_, since)| now.duration_since(**since) >= WIPE_AFTER);
        long.map(|(name, _)| name.clone()).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn driver_is_known_by_its_socket() {
        let plugins = Plugins::default();
        let found = |name: &str, version: &str| PluginInfo {
            kind: super::super::api::DRA_PLUGIN.to_owned(),
            name: name.to_owned(),
            endpoint: "/run/dra.sock".to_owned(),
            supported_versions: vec![version.to_owned()],
        };
        let socket = |inode: u64| SocketId { path: "/run/reg.sock".into(), inode, created: None };
        assert!(plugins.register(&found("../gpu", VERSION), &socket(1)).is_err());
        let old = plugins.register(&found("gpu.example", "v1beta1.DRAPlugin"), &socket(1)).unwrap_err();
        assert!(old.contains("v1beta1") && old.contains(VERSION), "{old}");
        plugins.register(&found("gpu.example", VERSION), &socket(7)).unwrap();
        assert_eq!(plugins.get("gpu.example").unwrap().socket(), Path::new("/run/dra.sock"));
        assert!(plugins.has_socket(&socket(7)));
        plugins.retain_sockets(|known| *known != socket(7));
        assert!(plugins.get("gpu.example").is_none());
        let now = Instant::now();
        assert!(plugins.lost_for_good(now).is_empty());
        assert_eq!(plugins.lost_for_good(now + WIPE_AFTER * 2), ["gpu.example"]);
        plugins.register(&found("gpu.example", VERSION), &socket(8)).unwrap();
        assert!(plugins.lost_for_good(now + WIPE_AFTER * 2).is_empty(), "it came back");
    }
}
