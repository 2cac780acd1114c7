//! What every part of the agent may need: the configuration, the runtime, the API, the host's facts.

use std::sync::Arc;

use crate::Config;
use crate::cri::Runtime;
use crate::events::Recorder;
use crate::machine::Machine;
use crate::sandbox::ResolvConf;

pub struct Context {
    pub config: Config,
    pub machine: Machine,
    pub host_dns: ResolvConf,
    pub runtime: Arc<dyn Runtime>,
    pub client: kube::Client,
    pub recorder: Recorder,
}
