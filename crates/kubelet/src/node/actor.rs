//! Registers the node and tells the API server that it lives.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use ipnet::IpNet;
use jiff::Timestamp;
use k8s_openapi::api::core::v1 as core;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::{Api, Patch, PatchParams, PostParams};
use kube::runtime::wait::await_condition;
use minik8s_informer::{Backoff, Lenient};
use minik8s_meta::Cidrs;
use serde_json::{Value, json};
use tokio::sync::watch;
use tracing::{info, warn};

use super::lease::renew_lease;
use super::status::{Observation, default_labels, node_status};
use crate::cni;
use crate::context::NodeContext;
use crate::cri::{Cri, Runtime, RuntimeError, StrictGroups};
use crate::devices::Devices;
use crate::pressure::Pressure;

/// How often an unchanged status is sent.
const STATUS: Duration = Duration::from_secs(300);
const RETRY: Backoff = Backoff::millis(250, 5_000);
const SHORT: Duration = Duration::from_millis(20);
/// A runtime that is busy may take this long to answer, however often the node reports.
const SHORTEST_TIMEOUT: Duration = Duration::from_secs(3);

pub struct NodeActor {
    context: Arc<NodeContext>,
    client: kube::Client,
    devices: Arc<Devices>,
    cri: Cri,
    pressure: watch::Receiver<Pressure>,
}

impl NodeActor {
    pub fn new(
        context: Arc<NodeContext>,
        client: kube::Client,
        devices: Arc<Devices>,
        cri: Cri,
        pressure: watch::Receiver<Pressure>,
    ) -> Self {
        NodeActor { context, client, devices, cri, pressure }
    }

    /// Never returns.
    pub async fn run(self) {
        let mut retries = RETRY.retries();
        let uid = loop {
            match self.register().await {
                Ok(uid) => break uid,
                Err(error) => warn!(%error, "cannot register the node"),
            }
            tokio::time::sleep(retries.failed()).await;
        };
        info!(node = self.context.config.node_name, "registered");
        // A runtime that hangs makes the node unready, not dead: nothing that waits for it delays the lease.
        tokio::join!(self.keep_lease(&uid), self.keep_status());
    }

    async fn keep_lease(&self, uid: &str) {
        let mut ticks = self.heartbeat();
        loop {
            ticks.tick().await;
            if let Err(error) = renew_lease(&self.context.config, &self.client, uid).await {
                warn!(%error, "cannot renew the node's lease");
            }
        }
    }

    async fn keep_status(&self) {
        self.open_network().await;
        let mut sent: Option<(Value, Instant)> = None;
        let mut seen = Observation::default();
        let mut ticks = self.heartbeat();
        let mut pressure = self.pressure.clone();
        let mut devices = self.devices.changes();
        loop {
            tokio::select! {
                _ = ticks.tick() => {}
                // A node in need does not wait for its next heartbeat.
                Ok(()) = pressure.changed() => {}
                // Nor do pods that wait for a device.
                Ok(()) = devices.changed() => {}
            }
            self.observe(&mut seen).await;
            if let Err(error) = self.report(&seen, &mut sent).await {
                warn!(%error, "cannot report the node's status");
                sent = None;
            }
        }
    }

    fn heartbeat(&self) -> tokio::time::Interval {
        let mut ticks = tokio::time::interval(self.context.config.heartbeat);
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        ticks
    }

    fn api(&self) -> Api<core::Node> {
        Api::all(self.client.clone())
    }

    /// For what others may have written to.
    fn lenient(&self) -> Api<Lenient<core::Node>> {
        Api::all(self.client.clone())
    }

    /// Waits for the pods' range of addresses and tells the runtime. Until then the node is not ready.
    async fn open_network(&self) {
        let config = &self.context.config;
        if config.pod_cidr.is_some() || config.cri_endpoint.is_some() {
            return;
        }
        let mut retries = RETRY.retries();
        let range = loop {
            let given =
                await_condition(self.lenient(), &config.node_name, |node: Option<&Lenient<core::Node>>| {
                    node.and_then(|node| pod_range(&node.0.object)).is_some()
                });
            match given.await {
                Ok(Some(node)) => match pod_range(&node.0.object) {
                    Some(range) => break range,
                    None => continue,
                },
                Ok(None) => continue,
                Err(error) => warn!(%error, "waiting for the node's pod addresses"),
            }
            tokio::time::sleep(retries.failed()).await;
        };
        info!(%range, "the node's pod addresses");
        while let Err(error) = cni::write(config, range) {
            warn!(%error, "cannot write the pod network's configuration");
            tokio::time::sleep(retries.failed()).await;
        }
        // containerd reads it in a moment; then the first report can already say that the node is ready. One that hangs is
        // told of like any other.
        let ready = async {
            while !matches!(self.cri.not_ready().await, Ok(None)) {
                tokio::time::sleep(SHORT).await;
            }
        };
        let _ = tokio::time::timeout(SHORTEST_TIMEOUT, ready).await;
    }

    /// Makes the node object or brings its labels and annotations up to date; returns its UID.
    async fn register(&self) -> Result<String, kube::Error> {
        let config = &self.context.config;
        let labels = default_labels(config, &self.context.machine);
        let node = core::Node {
            metadata: ObjectMeta {
                name: Some(config.node_name.clone()),
                labels: Some(labels.clone()),
                annotations: Some(config.annotations.clone()).filter(|all| !all.is_empty()),
                ..Default::default()
            },
            spec: Some(core::NodeSpec {
                taints: Some(config.taints.clone()).filter(|taints| !taints.is_empty()),
                ..Default::default()
            }),
            status: None,
        };
        let node = match self.api().create(&PostParams::default(), &node).await {
            Err(kube::Error::Api(error)) if error.code == 409 => self.update_labels(labels).await?,
            other => other?,
        };
        Ok(node.metadata.uid.unwrap_or_default())
    }

    async fn update_labels(&self, labels: BTreeMap<String, String>) -> Result<core::Node, kube::Error> {
        let name = &self.context.config.node_name;
        let node = self.lenient().get(name).await?.into_inner();
        let annotations = &self.context.config.annotations;
        let is_in = |wanted: &BTreeMap<String, String>, has: &Option<BTreeMap<String, String>>| {
            wanted.iter().all(|(key, value)| has.as_ref().and_then(|has| has.get(key)) == Some(value))
        };
        if is_in(&labels, &node.metadata.labels) && is_in(annotations, &node.metadata.annotations) {
            return Ok(node);
        }
        let patch = json!({"metadata": {"labels": labels, "annotations": annotations}});
        Ok(self.lenient().patch(name, &PatchParams::default(), &Patch::Merge(patch)).await?.into_inner())
    }

    async fn report(
        &self,
        observation: &Observation,
        sent: &mut Option<(Value, Instant)>,
    ) -> Result<(), kube::Error> {
        let name = &self.context.config.node_name;
        let node = self.lenient().get(name).await?.into_inner();
        let status =
            node_status(&self.context.config, &self.context.machine, observation, &node, Timestamp::now());
        let value = serde_json::to_value(&status).unwrap_or_default();
        // Heartbeat times change always; they alone are no reason to write.
        let essence = without_heartbeats(value.clone());
        if let Some((last, at)) = sent
            && *last == essence
            && at.elapsed() < STATUS
        {
            return Ok(());
        }
        let patch = json!({"status": with_replaced_addresses(value)});
        self.lenient().patch_status(name, &PatchParams::default(), &Patch::Strategic(patch)).await?;
        *sent = Some((essence, Instant::now()));
        Ok(())
    }

    /// What a runtime that does not answer said before is still the best that is known of it.
    async fn observe(&self, seen: &mut Observation) {
        seen.pressure = self.pressure.borrow().clone();
        seen.devices = self.devices.counts();
        let timeout = self.context.config.heartbeat.max(SHORTEST_TIMEOUT);
        let ask = async {
            let not_ready = self.cri.not_ready().await?;
            let strict_groups = self.cri.strict_groups().await? != StrictGroups::Nobody;
            Ok::<_, RuntimeError>((
                not_ready,
                self.cri.version().await?,
                self.cri.images().await?,
                strict_groups,
            ))
        };
        seen.not_ready = match tokio::time::timeout(timeout, ask).await {
            Ok(Ok((not_ready, version, images, strict_groups))) => {
                (seen.runtime_version, seen.images, seen.strict_groups) = (version, images, strict_groups);
                not_ready
            }
            Ok(Err(error)) => Some(format!("container runtime is down: {error}")),
            Err(_) => Some(format!("container runtime is down: no answer within {timeout:?}")),
        };
    }
}

/// The ranges of addresses that the cluster has given to the node: one, or one of each family.
fn pod_range(node: &core::Node) -> Option<Cidrs> {
    let spec = node.spec.as_ref()?;
    let all = spec.pod_cidrs.iter().flatten().filter(|range| Some(*range) != spec.pod_cidr.as_ref());
    let second: Option<IpNet> = all.into_iter().next().and_then(|range| range.parse().ok());
    Cidrs::new(spec.pod_cidr.as_deref()?.parse().ok()?, second).ok()
}

fn without_heartbeats(mut status: Value) -> Value {
    for condition in status["conditions"].as_array_mut().into_iter().flatten() {
        if let Some(condition) = condition.as_object_mut() {
            condition.remove("lastHeartbeatTime");
        }
    }
    status
}

/// As a whole: addresses are merged by their type, which those of two families share.
fn with_replaced_addresses(mut status: Value) -> Value {
    if let Some(addresses) = status["addresses"].as_array_mut() {
        addresses.push(json!({"$patch": "replace"}));
    }
    status
}
