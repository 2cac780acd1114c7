//! The whole agent: brings the runtime up and runs all actors.

use std::sync::Arc;

use parking_lot::Mutex;
use thiserror::Error;
use tokio::sync::{Semaphore, mpsc, watch};
use tracing::info;

use crate::Config;
use crate::cgroup::Hierarchy;
use crate::context::Context;
use crate::cri::Cri;
use crate::events::Recorder;
use crate::housekeeping::keep_house;
use crate::machine::Machine;
use crate::node::NodeActor;
use crate::objects::ObjectWatches;
use crate::pod::{Manager, PodIndex};
use crate::prepare::{PrepareError, prepare};
use crate::pressure::{Pressure, PressureActor};
use crate::sandbox::ResolvConf;
use crate::server::{self, ServingError};
use crate::services::Services;
use crate::stats::{Collector, Operations, Sampler};
use crate::volume::TokenCache;

#[derive(Debug, Error)]
pub enum RunError {
    #[error("cannot bring the container runtime up")]
    Prepare(#[from] PrepareError),
    #[error("cannot open the node's HTTPS port")]
    Serve(#[from] ServingError),
}

/// What a machine can have under way of what its runtime shall start.
const STARTS_PER_CPU: usize = 8;

/// Runs the agent until the returned future is dropped. Pods and containerd go on without it.
pub async fn run(config: Config, client: kube::Client) -> Result<(), RunError> {
    let containerd = prepare(&config).await?;
    let cri = Cri::new(&config.cri_socket()).with_timeout(config.runtime_timeout);
    let (recorder, write_events) = Recorder::new(client.clone(), &config.node_name);
    let (services, watch_services) = Services::new(client.clone());
    let host_dns = ResolvConf::parse(&std::fs::read_to_string("/etc/resolv.conf").unwrap_or_default());
    let machine = Machine::detect(&config);
    let context = Arc::new(Context {
        starts: Semaphore::new(STARTS_PER_CPU * machine.cpus),
        machine,
        host_dns,
        runtime: Arc::new(cri.clone()),
        watches: ObjectWatches::new(client.clone()),
        client,
        recorder,
        tokens: TokenCache::default(),
        pods: PodIndex::default(),
        services,
        cgroups: Hierarchy::detect(),
        stats: Collector::default(),
        sampler: Sampler::default(),
        operations: Operations::default(),
        image_ages: Mutex::default(),
        config,
    });
    info!(node = context.config.node_name, "the node agent runs");
    let runtime_timeout = context.config.runtime_timeout;
    let supervise = async {
        match containerd {
            Some(mut containerd) => containerd.supervise(runtime_timeout).await,
            None => std::future::pending().await,
        }
    };
    let answer = {
        let context = context.clone();
        async move {
            match context.config.serving.clone() {
                Some(serving) => server::serve(context, serving).await,
                None => std::future::pending().await,
            }
        }
    };
    let (evict, evictions) = mpsc::channel(16);
    let (tell_pressure, pressure) = watch::channel(Pressure::default());
    let watch_pressure =
        PressureActor { context: context.clone(), evictions: evict, pressure: tell_pressure, evicting: None };
    let node = NodeActor::new(context.clone(), cri, pressure);
    let pods = Manager::new(context.clone(), evictions);
    let work = async {
        tokio::join!(
            supervise,
            write_events,
            watch_services,
            watch_pressure.run(),
            keep_house(context.clone()),
            context.sampler.run(&context),
            node.run(),
            pods.run()
        )
    };
    tokio::select! {
        _ = work => Ok(()),
        failed = answer => Ok(failed?),
    }
}
