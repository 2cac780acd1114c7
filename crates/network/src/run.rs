//! Keeps the node's network in step with the API server, driven by its events.

use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use k8s_openapi::api::core::v1::{Node, Service};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::Api;
use kube::runtime::{WatchStreamExt, watcher};
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until};
use tokio_util::task::AbortOnDropHandle;
use tracing::warn;

use crate::backends::Backends;
use crate::config::table_of;
use crate::drain::{Drains, EndingPod};
use crate::health::HealthPorts;
use crate::names::Names;
use crate::pod_network::{self, Kernel, Owner};
use crate::proxy::{Nft, NftError};
use crate::reports::Reports;
use crate::service_rules::ServiceRules;
use crate::{Config, sysctl};

/// Events come in groups: a Service and its slices, the pods of a Deployment.
const GATHER: Duration = Duration::from_millis(5);
/// Until the next try after rules were refused.
const RETRY: Duration = Duration::from_secs(2);
/// Until what is known is handed on to be kept: it may change many times a second.
const REMEMBER: Duration = Duration::from_secs(1);

/// Leads connections to Services until it is told to stop; the rules stay.
pub async fn run(client: kube::Client, config: Config, mut ending: mpsc::Receiver<EndingPod>) {
    let reports = Arc::new(Reports::new(client.clone(), &config.node_name));
    for problem in sysctl::prepare() {
        reports.about_node("KernelSettingMissing", problem);
    }
    let names = Names::start(&config).await;
    let mut rules = ServiceRules::new(&config, reports.clone());
    let is_bare = wait_for_rules(&rules, &config, &reports).await;
    let every = watcher::Config::default;
    let mut service_events =
        std::pin::pin!(watcher(Api::<Service>::all(client.clone()), every()).default_backoff());
    let mut slice_events =
        std::pin::pin!(watcher(Api::<EndpointSlice>::all(client.clone()), every()).default_backoff());
    let node_events = watcher(Api::<Node>::all(client.clone()), every()).default_backoff();
    let mut drains = Drains::new(client, &config.node_name);
    let (pod_network_config, pod_network_reports) = (config.clone(), reports.clone());
    let _pod_network = AbortOnDropHandle::new(tokio::spawn(async move {
        pod_network::follow(&pod_network_config, node_events, &pod_network_reports).await;
    }));
    let mut health = HealthPorts::default();
    let mut backends = Backends::remembering(&config.known);
    let (mut due, mut remember): (Option<Instant>, Option<Instant>) = (None, None);
    loop {
        if backends.has_changed() && (backends.is_complete() || backends.is_remembered()) {
            due.get_or_insert_with(|| Instant::now() + GATHER);
        }
        if due.is_none() && backends.is_complete() {
            drains.rules_applied(&mut backends);
        }
        tokio::select! {
            () = config.stop.cancelled() => return,
            Some(event) = service_events.next() => match event {
                Ok(event) => {
                    config.metrics.rules.service_seen(&event);
                    backends.take_service(event);
                }
                Err(error) => lost_sight(&error),
            },
            Some(event) = slice_events.next() => match event {
                Ok(event) => {
                    config.metrics.rules.slice_seen(&event);
                    backends.take_slice(event);
                }
                Err(error) => lost_sight(&error),
            },
            Some(pod) = ending.recv() => drains.add(pod),
            () = until(due), if due.is_some() => {
                due = None;
                let changed = backends.take_changed();
                if let Some(names) = &names {
                    names.update(&backends, &changed);
                }
                health.update(&backends, &changed, &config.node_name);
                rules.note(changed);
                // What is only remembered is older than rules that are there already.
                if (backends.is_complete() || is_bare)
                    && let Err(error) = rules.apply(&mut backends, names.as_ref()).await
                {
                    let message =
                        format!("Services do not work on this node: {}; it is tried again", chain(&error));
                    reports.about_node("ServicesFailed", message);
                    due = Some(Instant::now() + RETRY);
                }
                if backends.is_complete() {
                    remember.get_or_insert_with(|| Instant::now() + REMEMBER);
                }
            }
            () = until(remember), if remember.is_some() => {
                remember = None;
                config.memory.send_replace(Arc::new(backends.known()));
            }
        }
    }
}

/// Whether the kernel has no rules of a former run. Says at once, not at the first Service, that something is missing,
/// and waits until it is there.
async fn wait_for_rules(rules: &ServiceRules, config: &Config, reports: &Reports) -> bool {
    loop {
        match rules.is_bare().await {
            Ok(is_bare) => return is_bare,
            Err(error) => {
                let message = format!("Services do not work on this node: {}", chain(&error));
                reports.about_node("ServicesFailed", message);
            }
        }
        tokio::select! {
            () = tokio::time::sleep(RETRY) => {}
            () = config.stop.cancelled() => return true,
        }
    }
}

/// The error with what caused it.
fn chain(error: &NftError) -> String {
    let causes = std::iter::successors(std::error::Error::source(error), |cause| cause.source());
    causes.fold(error.to_string(), |text, cause| format!("{text}: {cause}"))
}

async fn until(due: Option<Instant>) {
    sleep_until(due.unwrap_or_else(Instant::now)).await;
}

/// Removes the rules and routes of a stopped agent; where there are none it does nothing.
pub async fn tear_down(instance: &str) {
    if let Err(error) = Nft.delete_table(&table_of(instance)).await {
        warn!("cannot remove the rules of Services: {error}");
    }
    if let Err(error) = Kernel::default().clear(&Owner::of(instance)).await {
        warn!("cannot remove the routes to other nodes: {error}");
    }
}

fn lost_sight(error: &watcher::Error) {
    warn!(%error, "lost sight of Services or their endpoints; the rules stay as they are");
}
