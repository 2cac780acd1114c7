//! What every part of the agent may need: the configuration, the runtime, the API, the host's facts.

use std::sync::Arc;

use k8s_openapi::api::core::v1::Service;
use minik8s_informer::Informer;
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

pub struct Context {
    pub config: Config,
    pub machine: Machine,
    pub host_dns: ResolvConf,
    pub runtime: Arc<dyn Runtime>,
    pub client: kube::Client,
    pub recorder: Recorder,
    pub tokens: TokenCache,
    pub certificates: CertificateCache,
    pub storage: Storage,
    pub csi: Csi,
    pub shared: Arc<SharedStorageAgent>,
    pub devices: Arc<Devices>,
    pub watches: ObjectWatches,
    pub pods: PodIndex,
    pub node: NodeCache,
    pub services: Arc<Informer<Service>>,
    pub cgroups: Hierarchy,
    pub stats: Collector,
    pub sampler: Sampler,
    pub operations: Operations,
    pub probes: Arc<ProbeCounts>,
    /// Leave to make the runtime start something. More at once make no start faster, and each holds memory meanwhile.
    pub starts: Semaphore,
    pub image_ages: Mutex<ImageAges>,
    /// Held by whoever makes an image from the machine's own packages.
    pub image_maker: tokio::sync::Mutex<()>,
}
