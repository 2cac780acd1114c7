//! The whole agent: brings the runtime up and runs all actors.

use std::sync::Arc;

use minik8s_informer::ApiAccess;
use parking_lot::Mutex;
use thiserror::Error;
use tokio::sync::{Semaphore, mpsc, watch};
use tracing::info;

use crate::Config;
use crate::cgroup::Hierarchy;
use crate::context::{MetricsContext, NodeContext, PodContext, ServerContext, VolumeContext};
use crate::cri::Cri;
use crate::csi::keep_drivers;
use crate::devices::Devices;
use crate::events::Recorder;
use crate::housekeeping::keep_house;
use crate::log_export::export_logs;
use crate::machine::Machine;
use crate::node::NodeActor;
use crate::pod::{Manager, PodIndex};
use crate::prepare::{PrepareError, prepare};
use crate::pressure::{Pressure, PressureActor};
use crate::sandbox::ResolvConf;
use crate::server::{self, ServingError};
use crate::slots::{self, SlotRuntime, Slots};
use crate::storage::{keep_volumes, tell_capacity, watch_fullness};

#[derive(Debug, Error)]
pub enum RunError {
    #[error("cannot bring the container runtime up")]
    Prepare(#[from] PrepareError),
    #[error("cannot open the node's HTTPS port")]
    Serve(#[from] ServingError),
    #[error("{0} has ended, without which there is no node")]
    Ended(&'static str),
}

/// What a machine can have under way of what its runtime shall start.
const STARTS_PER_CPU: usize = 8;

/// Runs the agent until the returned future is dropped. Pods and containerd go on without it.
pub async fn run(mut config: Config, access: ApiAccess) -> Result<(), RunError> {
    let ApiAccess { client, caches, recorder } = access;
    let containerd = prepare(&config).await?;
    let cri = Cri::new(&config.cri_socket())
        .with_timeout(config.runtime_timeout)
        .with_primary_family(config.primary_family);
    let host_dns = ResolvConf::parse(&std::fs::read_to_string("/etc/resolv.conf").unwrap_or_default());
    let machine = Machine::detect(&config);
    let slots = Arc::new(Slots::load(&config));
    let counted = slots.clone();
    config.metrics.add(move || counted.metrics());
    let cgroups = Hierarchy::detect();
    let with_slots =
        SlotRuntime::new(Arc::new(cri.clone()), slots.clone(), cgroups.clone(), config.cgroup_root());
    let node = Arc::new(NodeContext {
        starts: Semaphore::new(STARTS_PER_CPU * machine.cpus),
        machine,
        host_dns,
        cgroups,
        runtime: Arc::new(with_slots),
        pods: PodIndex::default(),
        image_ages: Mutex::default(),
        image_maker: tokio::sync::Mutex::default(),
        config,
    });
    let config = &node.config;
    let volumes = Arc::new(VolumeContext::new(node.clone(), client.clone(), Recorder::new(recorder)));
    let metrics = Arc::new(MetricsContext::default());
    let devices = Arc::new(Devices::new(config));
    let pods = PodContext::new(volumes.clone(), metrics.clone(), devices.clone(), &caches);
    info!(node = config.node_name, "the node agent runs");
    let runtime_timeout = config.runtime_timeout;
    let supervise = async {
        match containerd {
            Some(mut containerd) => containerd.supervise(runtime_timeout).await,
            None => std::future::pending().await,
        }
    };
    let answer = {
        let context =
            ServerContext { node: node.clone(), volumes: volumes.clone(), metrics: metrics.clone() };
        async move {
            match context.node.config.serving.clone() {
                Some(serving) => server::serve(Arc::new(context), serving).await,
                None => std::future::pending().await,
            }
        }
    };
    let (evict, evictions) = mpsc::channel(16);
    let (tell_pressure, pressure) = watch::channel(Pressure::default());
    let watch_pressure = PressureActor {
        context: volumes.clone(),
        metrics: metrics.clone(),
        evictions: evict,
        pressure: tell_pressure,
        evicting: None,
    };
    let keep_slots = slots::keep(node.clone(), Arc::new(cri.clone()), slots, pressure.clone());
    let report = NodeActor::new(node.clone(), client, devices.clone(), cri, pressure);
    let pods = Manager::new(Arc::new(pods), evictions);
    // None of them ends by itself.
    let ended = tokio::select! {
        _ = supervise => "the care for containerd",
        _ = watch_pressure.run() => "the watch of the machine's resources",
        _ = keep_house(&node) => "housekeeping",
        () = export_logs(config) => "the export of logs",
        _ = keep_volumes(&volumes, &caches) => "the care for volumes",
        _ = watch_fullness(&volumes) => "the watch over full volumes",
        () = tell_capacity(&volumes) => "the word on the room for volumes",
        () = volumes.shared.run() => "the care for shared storage",
        () = keep_drivers(&volumes, &devices.dra) => "the care for CSI drivers",
        () = devices.run() => "the care for devices",
        _ = metrics.sampler.run(&node) => "the sampler of metrics",
        _ = report.run() => "the reporter of the node's status",
        () = keep_slots => "the care for slots",
        _ = pods.run() => "the manager of pods",
        failed = answer => { failed?; "the node's HTTPS port" }
    };
    Err(RunError::Ended(ended))
}
