//! What every part of the agent may need: the configuration, the runtime, the API, the host's facts.

use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::Semaphore;

use crate::Config;
use crate::cgroup::Hierarchy;
use crate::cri::Runtime;
use crate::events::Recorder;
use crate::housekeeping::ImageAges;
use crate::machine::Machine;
use crate::objects::ObjectWatches;
use crate::pod::PodIndex;
use crate::sandbox::ResolvConf;
use crate::services::Services;
use crate::stats::{Collector, Operations, Sampler};
use crate::volume::TokenCache;

pub struct Context {
    pub config: Config,
    pub machine: Machine,
    pub host_dns: ResolvConf,
    pub runtime: Arc<dyn Runtime>,
    pub client: kube::Client,
    pub recorder: Recorder,
    pub tokens: TokenCache,
    pub watches: ObjectWatches,
    pub pods: PodIndex,
    pub services: Services,
    pub cgroups: Hierarchy,
    pub stats: Collector,
    pub sampler: Sampler,
    pub operations: Operations,
    /// Leave to make the runtime start something. More at once make no start faster, and each holds memory meanwhile.
    pub starts: Semaphore,
    pub image_ages: Mutex<ImageAges>,
}
