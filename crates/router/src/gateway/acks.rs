//! Tells the control plane for which Gateways this node answers: when it has the listeners of one and listens on all of
//! their ports, or knows why it cannot. Once per change; while nothing changes nobody wakes.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use kube::Client;
use minik8s_meta::Backoff;
use minik8s_meta::gateway::{GatewayAck, GatewayAckSpec, GatewayConfig, GatewayPortProblem};
use parking_lot::Mutex;
use tokio::sync::Notify;
use tracing::{debug, warn};

use crate::sources::Name;

/// Until the control plane is told again what it could not be told.
const RETRY: Backoff = Backoff::millis(250, 2_000);

/// A router's port, and whether it is UDP.
type Place = (u16, bool);

#[derive(Debug, Default)]
pub struct Acks {
    state: Mutex<State>,
    changed: Notify,
}

#[derive(Debug, Default)]
struct State {
    wanted: BTreeMap<Name, Wanted>,
    /// Ports that are listened on, or why not. Those of which nothing is known are being tried.
    ports: BTreeMap<Place, Result<(), String>>,
}

/// A Gateway as the table has it.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Wanted {
    uid: String,
    revision: String,
    places: Vec<Place>,
}

impl Acks {
    /// A port is listened on from now on, unless there is a problem.
    pub fn listens(&self, place: Place, problem: Option<&io::Error>) {
        let found = problem.map_or(Ok(()), |problem| Err(problem.to_string()));
        self.state.lock().ports.insert(place, found);
        self.changed.notify_one();
    }

    /// Nobody listens on others any more.
    pub fn retain(&self, places: &BTreeSet<Place>) {
        self.state.lock().ports.retain(|place, _| places.contains(place));
    }

    /// These are in the table.
    pub fn want(&self, gateways: &[Arc<GatewayConfig>]) {
        let wanted: BTreeMap<Name, Wanted> = gateways.iter().filter_map(|config| wanted(config)).collect();
        let mut state = self.state.lock();
        if state.wanted != wanted {
            state.wanted = wanted;
            self.changed.notify_one();
        }
    }

    /// Runs for ever.
    pub async fn report(&self, client: &Client, node: &str) {
        let mut told: BTreeMap<Name, (String, GatewayAckSpec)> = BTreeMap::new();
        let mut retries = RETRY.retries();
        loop {
            self.changed.notified().await;
            let due = self.state.lock().due(&mut told);
            for (name, uid, spec) in due {
                match tell(client, node, &name, &uid, &spec).await {
                    Ok(()) => {
                        retries.succeeded();
                        told.insert(name, (uid, spec));
                    }
                    Err(error) => {
                        let pause = retries.failed();
                        match retries.is_first() {
                            true => warn!(%error, "cannot say for which Gateways this node answers"),
                            false => debug!(%error, "cannot acknowledge a Gateway"),
                        }
                        tokio::time::sleep(pause).await;
                        self.changed.notify_one();
                    }
                }
            }
        }
    }
}

/// `None` for those of a server that does not want to know.
fn wanted(config: &GatewayConfig) -> Option<(Name, Wanted)> {
    let (meta, spec) = (&config.metadata, &config.spec);
    let place = |port: &minik8s_meta::gateway::GatewayPort| {
        Some((u16::try_from(port.router_port).ok()?, port.protocol == "UDP"))
    };
    let wanted = Wanted {
        uid: meta.uid.clone()?,
        revision: Some(spec.revision.clone()).filter(|revision| !revision.is_empty())?,
        places: spec.ports.iter().filter_map(place).collect(),
    };
    Some(((meta.namespace.clone()?, meta.name.clone()?), wanted))
}

impl State {
    /// Gateways of whose ports all is known, unless it was told.
    fn due(
        &self,
        told: &mut BTreeMap<Name, (String, GatewayAckSpec)>,
    ) -> Vec<(Name, String, GatewayAckSpec)> {
        told.retain(|name, (uid, _)| self.wanted.get(name).is_some_and(|wanted| wanted.uid == *uid));
        let each = self.wanted.iter().filter_map(|(name, wanted)| {
            let mut problems = Vec::new();
            for place in &wanted.places {
                if let Err(problem) = self.ports.get(place)? {
                    let message = format!("cannot listen on port {} ({problem})", place.0);
                    problems.push(GatewayPortProblem { router_port: place.0.into(), message });
                }
            }
            let (gateway, revision) = (name.1.clone(), wanted.revision.clone());
            let spec = GatewayAckSpec { gateway, revision, problems };
            let is_told = told.get(name).is_some_and(|(_, known)| *known == spec);
            (!is_told).then(|| (name.clone(), wanted.uid.clone(), spec))
        });
        each.collect()
    }
}

/// Named after the configuration's uid, since a node may write only what has one dot before its name.
async fn tell(
    client: &Client,
    node: &str,
    (namespace, gateway): &Name,
    uid: &str,
    spec: &GatewayAckSpec,
) -> kube::Result<()> {
    let name = format!("{uid}.{node}");
    let path = format!("/apis/internal.minik8s.io/v1/namespaces/{namespace}/gatewayacks/{name}");
    let owner = OwnerReference {
        api_version: "internal.minik8s.io/v1".to_owned(),
        kind: "GatewayConfig".to_owned(),
        name: gateway.clone(),
        uid: uid.to_owned(),
        ..OwnerReference::default()
    };
    let ack = GatewayAck {
        metadata: ObjectMeta {
            name: Some(name),
            namespace: Some(namespace.clone()),
            owner_references: Some(vec![owner]),
            ..ObjectMeta::default()
        },
        spec: spec.clone(),
        ..GatewayAck::default()
    };
    let body = serde_json::to_vec(&ack).map_err(kube::Error::SerdeError)?;
    let request = http::Request::put(path).header("content-type", "application/json").body(body);
    client.request::<serde_json::Value>(request.map_err(kube::Error::HttpError)?).await.map(drop)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn config(revision: &str) -> Arc<GatewayConfig> {
        let port = |router_port: i32, protocol: &str| json!({"port": 80, "routerPort": router_port, "protocol": protocol});
        let config = json!({"metadata": {"name": "g", "namespace": "ns", "uid": "u"},
            "spec": {"revision": revision, "ports": [port(25_000, "HTTP"), port(25_001, "UDP")]}});
        Arc::new(serde_json::from_value(config).unwrap())
    }

    #[test]
    fn gateway_is_acknowledged_when_all_is_known_of_its_ports() {
        let (acks, mut told) = (Acks::default(), BTreeMap::new());
        let mut due = || -> Vec<(String, Vec<String>)> {
            let due = acks.state.lock().due(&mut told);
            told.extend(due.iter().map(|(name, uid, spec)| (name.clone(), (uid.clone(), spec.clone()))));
            let message = |problem: &GatewayPortProblem| problem.message.clone();
            let shown = |spec: GatewayAckSpec| (spec.revision, spec.problems.iter().map(message).collect());
            due.into_iter().map(|(_, _, spec)| shown(spec)).collect()
        };
        let one = |revision: &str, problems: &[&str]| {
            vec![(revision.to_owned(), problems.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>())]
        };
        acks.want(&[config("r1")]);
        assert!(due().is_empty());
        acks.listens((25_000, false), None);
        assert!(due().is_empty(), "nothing is known of the other");
        let taken = io::Error::from(io::ErrorKind::AddrInUse);
        acks.listens((25_001, true), Some(&taken));
        assert_eq!(due(), one("r1", &["cannot listen on port 25001 (address in use)"]));
        assert!(due().is_empty(), "once");
        acks.listens((25_001, true), None);
        assert_eq!(due(), one("r1", &[]));
        acks.want(&[config("r2")]);
        assert_eq!(due(), one("r2", &[]));
        acks.want(&[config("")]);
        assert!(due().is_empty(), "nobody wants to know");
        acks.retain(&BTreeSet::new());
        acks.want(&[config("r3")]);
        assert!(due().is_empty(), "the ports are to be listened on first");
    }
}
