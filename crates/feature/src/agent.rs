//! What a feature of a node's agent is: a part beside the kubelet that can be left out.
//!
//! The kubelet asks features for what pods need of them through [`PodHooks`]. It knows what it asks for, since that is part of
//! how a pod is made: that its end is announced and its port guarded, that a proxy of the mesh is let in, which runtimes of
//! functions are to be warm. It never knows who answers. Where nobody does, pods are made without it; only a pod with a proxy
//! of the mesh is refused then, since it would be without what the proxy is there for.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::Arc;

use futures::future::BoxFuture;
use minik8s_informer::{ApiAccess, Kind};
use minik8s_meta::Cidrs;
use minik8s_meta::mesh::MeshStep;
use minik8s_runtime::{Supervisor, TaskError};
use minik8s_telemetry::Tracer;
use tokio::sync::{mpsc, oneshot, watch};
use tokio_util::sync::CancellationToken;

/// A part of a node's agent that can be left out.
pub trait AgentFeature: Send + Sync {
    /// As `--disable-feature` names it.
    fn name(&self) -> &'static str;

    /// The kinds that the node must know of while no server answers.
    fn checkpointed(&self) -> Vec<Kind> {
        Vec::new()
    }

    /// Starts its tasks and says what pods may ask of it. Called once; features that stand before it in the list have run.
    fn run<'a>(&'a self, parts: &'a mut AgentParts) -> BoxFuture<'a, ()>;

    /// What it counts, in Prometheus' text format.
    fn metrics(&self) -> String {
        String::new()
    }

    /// What it tells the API server at a path of the node's port, as JSON. `None`: the path is not one of its own.
    fn read(&self, _path: &[&str]) -> Option<String> {
        None
    }

    /// Takes away what a stopped node has left on its machine outside its data dir; does nothing where there is nothing.
    fn teardown<'a>(&'a self, _place: &'a NodePlace) -> BoxFuture<'a, ()> {
        Box::pin(std::future::ready(()))
    }
}

/// Where a node keeps its things.
#[derive(Debug, Clone)]
pub struct NodePlace {
    pub data_dir: PathBuf,
    /// Tells what this node has in the kernel from what others on the machine have.
    pub instance: String,
}

/// The node that features are a part of.
#[derive(Debug, Clone)]
pub struct NodeInfo {
    pub name: String,
    /// The address under which others know the node.
    pub address: IpAddr,
    /// Addresses of the node that its pods reach: one of each family that pods have, the primary one first.
    pub node_ips: Vec<IpAddr>,
    pub place: NodePlace,
    /// What pods have on this machine, by UID.
    pub pods_dir: PathBuf,
    /// The interface that this node's pods are behind.
    pub bridge: String,
    /// Ports of the node that nobody may take.
    pub own_ports: BTreeSet<u16>,
    pub cluster_cidr: Cidrs,
    /// What pods have as their name servers: one address of each family that Services have, the primary one first.
    pub dns_addresses: Vec<IpAddr>,
    pub domain: String,
}

/// Whom to tell that it is done, or why not.
type Done = oneshot::Sender<Result<(), String>>;

/// The interface on the node, and what the pod behind it may send from: its hardware address and its addresses.
type PodPort = (String, String, Vec<IpAddr>);
/// Namespace and name of a pod that is about to start, and a port to be guarded.
type PortRequest = (Option<(String, String)>, PodPort, Done);

/// A pod (by its UID), which of its requests are wanted (as in a query), and where lines about them go.
type TapRequest = (String, String, mpsc::Sender<Vec<u8>>, Done);

/// What the kubelet asks features for. `None`: nobody has to be asked.
#[derive(Debug, Default)]
pub struct PodHooks {
    /// A pod (by its UID) is about to end.
    pub drains: Option<mpsc::Sender<(String, oneshot::Sender<()>)>>,
    /// An interface of a pod, with the addresses that the pod may send from, is to be guarded.
    pub port_guards: Option<mpsc::Sender<PortRequest>>,
    /// Something about a pod with a proxy of the mesh.
    pub mesh: Option<mpsc::Sender<(MeshStep, Done)>>,
    /// Requests of a pod with a proxy are to be seen.
    pub mesh_taps: Option<mpsc::Sender<TapRequest>>,
    /// The largest packet of pods.
    pub pod_mtu: Option<u32>,
    /// Runtimes that functions of the cluster use.
    pub function_runtimes: Option<watch::Receiver<Arc<BTreeSet<String>>>>,
}

/// The agent that features add their tasks to.
pub struct AgentParts {
    pub access: ApiAccess,
    pub node: NodeInfo,
    pub hooks: PodHooks,
    /// Names that lead to this node itself.
    pub hosts: Option<watch::Receiver<Arc<BTreeSet<String>>>>,
    /// Who tells of requests. `None`: nobody collects them.
    pub tracer: Option<Tracer>,
    pub stop: CancellationToken,
    pub tasks: Supervisor,
}

impl AgentParts {
    pub fn new(access: ApiAccess, node: NodeInfo, stop: CancellationToken) -> Self {
        let tasks = Supervisor::new(stop.clone());
        AgentParts { access, node, hooks: PodHooks::default(), hosts: None, tracer: None, stop, tasks }
    }

    /// Runs what `start` makes, and again whenever that ends: an object that it cannot bear must not take the pods' agent
    /// with it.
    pub fn task<F>(&mut self, name: &str, start: impl FnMut() -> F + Send + 'static)
    where
        F: Future<Output = Result<(), TaskError>> + Send + 'static,
    {
        self.tasks.restart(name, start);
    }
}
