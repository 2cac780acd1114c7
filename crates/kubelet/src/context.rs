//! What parts of the agent share, in pieces: each part is given those that it needs, and reaches nothing else.

use std::sync::Arc;

use k8s_openapi::api::core::v1::Service;
use minik8s_informer::{Caches, Informer, ListOptions};
use minik8s_shared_storage::SharedStorageAgent;
use parking_lot::Mutex;
use tokio::sync::Semaphore;

use crate::Config;
use crate::cgroup::Hierarchy;
use crate::cri::Runtime;
use crate::csi::Csi;
use crate::devices::Devices;
use crate::events::Recorder;
use crate::housekeeping::ImageAges;
use crate::machine::Machine;
use crate::node::NodeCache;
use crate::objects::ObjectWatches;
use crate::pod::PodIndex;
use crate::probe::ProbeCounts;
use crate::sandbox::ResolvConf;
use crate::stats::{Collector, Operations, Sampler};
use crate::storage::Storage;
use crate::volume::{CertificateCache, TokenCache};

/// This machine and what runs on it. Nobody asks the API server with it.
pub struct NodeContext {
    pub config: Config,
    pub machine: Machine,
    pub host_dns: ResolvConf,
    pub cgroups: Hierarchy,
    pub runtime: Arc<dyn Runtime>,
    pub pods: PodIndex,
    /// Leave to make the runtime start something. More at once make no start faster, and each holds memory meanwhile.
    pub starts: Semaphore,
    pub image_ages: Mutex<ImageAges>,
    /// Held by whoever makes an image from the machine's own packages.
    pub image_maker: tokio::sync::Mutex<()>,
}

/// The volumes of this machine, and who is told of them.
pub struct VolumeContext {
    pub node: Arc<NodeContext>,
    pub client: kube::Client,
    pub recorder: Recorder,
    pub storage: Storage,
    pub csi: Csi,
    pub shared: Arc<SharedStorageAgent>,
}

impl VolumeContext {
    pub fn new(node: Arc<NodeContext>, client: kube::Client, recorder: Recorder) -> Self {
        let (storage, shared) = (Storage::new(&node.config), node.config.shared_storage());
        let shared = Arc::new(SharedStorageAgent::new(shared));
        VolumeContext { node, client, recorder, storage, csi: Csi::default(), shared }
    }
}

/// What the agent measures and counts.
#[derive(Default)]
pub struct MetricsContext {
    pub stats: Collector,
    pub sampler: Sampler,
    pub operations: Operations,
    pub probes: Arc<ProbeCounts>,
}

/// What makes pods of their objects.
pub struct PodContext {
    pub node: Arc<NodeContext>,
    pub volumes: Arc<VolumeContext>,
    pub metrics: Arc<MetricsContext>,
    pub client: kube::Client,
    pub recorder: Recorder,
    pub devices: Arc<Devices>,
    pub tokens: TokenCache,
    pub certificates: CertificateCache,
    pub watches: ObjectWatches,
    pub node_cache: NodeCache,
    pub services: Arc<Informer<Service>>,
}

impl PodContext {
    pub fn new(
        volumes: Arc<VolumeContext>,
        metrics: Arc<MetricsContext>,
        devices: Arc<Devices>,
        caches: &Arc<Caches>,
    ) -> Self {
        PodContext {
            node: volumes.node.clone(),
            client: volumes.client.clone(),
            recorder: volumes.recorder.clone(),
            volumes,
            metrics,
            devices,
            tokens: TokenCache::default(),
            certificates: CertificateCache::default(),
            watches: ObjectWatches::new(caches.clone()),
            node_cache: NodeCache::new(caches.informer(ListOptions::default())),
            services: caches.informer(ListOptions::default()),
        }
    }
}

/// What the node's HTTPS port shows.
pub struct ServerContext {
    pub node: Arc<NodeContext>,
    pub volumes: Arc<VolumeContext>,
    pub metrics: Arc<MetricsContext>,
}
