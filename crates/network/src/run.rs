//! Keeps the node's network in step with the API server, driven by its events.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::{Namespace, Node, Service};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use k8s_openapi::api::networking::v1::NetworkPolicy;
use kube::ResourceExt;
use minik8s_informer::{ApiAccess, Backoff, Caches, Change, Informer, Kind, ListOptions};
use minik8s_meta::pod_address::PodAddress;
use minik8s_meta::{IpFamily, error_chain};
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until};
use tokio_util::task::AbortOnDropHandle;
use tracing::{error, warn};

use crate::backends::Backends;
use crate::config::table_of;
use crate::drain::{Drains, EndingPod};
use crate::health::HealthPorts;
use crate::localnet::Localnet;
use crate::names::Names;
use crate::pod_network::{self, Kernel, Owner};
use crate::pod_ports;
use crate::proxy::Nft;
use crate::reports::Reports;
use crate::service_rules::ServiceRules;
use crate::{Config, policy, sysctl};

/// Events come in groups: a Service and its slices, the pods of a Deployment.
const GATHER: Duration = Duration::from_millis(5);
const ZONE: &str = "topology.kubernetes.io/zone";
/// After rules were refused.
pub(crate) const RETRY: Backoff = Backoff::millis(500, 4_000);

/// The kinds that a node must know of to lead connections, and to guard its pods, while no server answers.
pub fn checkpointed() -> Vec<Kind> {
    vec![
        Kind::of::<Service>(),
        Kind::of::<EndpointSlice>(),
        Kind::of::<NetworkPolicy>(),
        Kind::of::<PodAddress>(),
        Kind::of::<Namespace>(),
    ]
}

/// Leads connections to Services until it is told to stop; the rules stay. It also ends when a part of it does, so that
/// whoever runs it can start it anew.
pub async fn run(access: ApiAccess, config: Config, ending: &mut mpsc::Receiver<EndingPod>) {
    let ApiAccess { client, caches, recorder } = access;
    let reports = Arc::new(Reports::new(recorder, &config.node_name));
    let uplinks = uplinks(&config).await;
    let families: Vec<_> = config.cluster_cidr.families().collect();
    for problem in sysctl::prepare(&families, &uplinks) {
        reports.about_node("KernelSettingMissing", problem);
    }
    let mut names = Names::start(&config).await;
    let names_again = Names::retry_at(names.as_ref(), &config);
    let mut rules = ServiceRules::new(&config, reports.clone()).await;
    let is_bare = wait_for_rules(&rules, &config, &reports).await;
    let services = caches.informer::<Service>(ListOptions::default());
    let slices = caches.informer::<EndpointSlice>(ListOptions::default());
    let is_checkpointed = services.is_checkpointed() && !services.is_empty();
    let (mut service_changes, mut slice_changes) = (services.subscribe(), slices.subscribe());
    let mut drains = Drains::new(client, caches.clone(), &config.node_name, config.mesh.clone());
    let nodes = caches.informer::<Node>(ListOptions::default());
    let mut node_changes = nodes.subscribe();
    let (mut pod_network, mut policies) = follow_beside(&config, &reports, nodes, caches);
    let mut health = HealthPorts::default();
    let mut backends = Backends::default();
    let mut retries = RETRY.retries();
    let mut due: Option<Instant> = None;
    loop {
        if backends.has_changed() && (backends.is_complete() || is_checkpointed) {
            due.get_or_insert_with(|| Instant::now() + GATHER);
        }
        if due.is_none() && backends.is_complete() {
            drains.rules_applied(&mut backends);
        }
        tokio::select! {
            () = config.stop.cancelled() => return,
            _ = &mut pod_network => return error!("routes to other nodes' pods are no longer followed"),
            _ = &mut policies => return error!("NetworkPolicies are no longer followed"),
            () = Names::ended(&mut names) => return error!("names are no longer answered"),
            () = until(names_again), if names_again.is_some() => return error!("names are not answered yet"),
            change = service_changes.next() => {
                if backends.take_service(change) {
                    config.metrics.rules.service_changed();
                }
            }
            change = slice_changes.next() => {
                if backends.take_slice(change) {
                    config.metrics.rules.slice_changed();
                }
            }
            change = node_changes.next() => {
                if zone(&change, &config.node_name).is_some_and(|zone| rules.is_moved_to(zone)) {
                    backends.mark_all();
                }
            }
            Some(pod) = ending.recv() => drains.add(pod),
            () = drains.proxies_applied() => {}
            () = until(due), if due.is_some() => {
                due = None;
                let changed = backends.take_changed();
                if let Some(names) = &names {
                    names.update(&backends, &changed);
                }
                health.update(&backends, &changed, (&config.node_name, config.any_address()));
                rules.note(changed);
                // What is only remembered is older than rules that are there already.
                if !backends.is_complete() && !is_bare {
                    continue;
                }
                match rules.apply(&mut backends, names.as_ref()).await {
                    Ok(()) => retries.succeeded(),
                    Err(error) => {
                        let cause = error_chain(&error);
                        let message = format!("Services do not work on this node: {cause}; it is tried again");
                        reports.about_node("ServicesFailed", message);
                        due = Some(Instant::now() + retries.failed());
                    }
                }
            }
        }
    }
}

type Followed = AbortOnDropHandle<()>;

/// Tasks for routes to other nodes' pods and for NetworkPolicies, which end when they are dropped.
fn follow_beside(
    config: &Config,
    reports: &Arc<Reports>,
    nodes: Arc<Informer<Node>>,
    caches: Arc<Caches>,
) -> (Followed, Followed) {
    let (of_routes, of_policies) = ((config.clone(), reports.clone()), (config.clone(), reports.clone()));
    let pod_network = tokio::spawn(async move {
        pod_network::follow(&of_routes.0, nodes, &of_routes.1).await;
    });
    let policies = tokio::spawn(async move {
        policy::follow(&caches, &of_policies.0, &of_policies.1).await;
    });
    (AbortOnDropHandle::new(pod_network), AbortOnDropHandle::new(policies))
}

/// The zone that a change of a node's object tells of, if it is this one's; it may have none.
fn zone(change: &Change<Node>, node: &str) -> Option<Option<String>> {
    let Change::Applied { new, .. } = change else { return None };
    (new.name_any() == node).then(|| new.labels().get(ZONE).cloned())
}

/// Whether the kernel has no rules of a former run. Says at once, not at the first Service, that something is missing,
/// and waits until it is there.
async fn wait_for_rules(rules: &ServiceRules, config: &Config, reports: &Reports) -> bool {
    let mut retries = RETRY.retries();
    loop {
        match rules.is_bare().await {
            Ok(is_bare) => return is_bare,
            Err(error) => {
                let message = format!("Services do not work on this node: {}", error_chain(&error));
                reports.about_node("ServicesFailed", message);
            }
        }
        tokio::select! {
            () = tokio::time::sleep(retries.failed()) => {}
            () = config.stop.cancelled() => return true,
        }
    }
}

async fn until(due: Option<Instant>) {
    sleep_until(due.unwrap_or_else(Instant::now)).await;
}

/// Those whose addresses this machine's kernel knows: rules of another one are refused.
pub(crate) fn machine_families() -> impl Iterator<Item = IpFamily> {
    let has_v6 = std::path::Path::new("/proc/net/if_inet6").exists();
    std::iter::once(IpFamily::V4).chain(has_v6.then_some(IpFamily::V6))
}

/// The interfaces that have the node's addresses.
async fn uplinks(config: &Config) -> Vec<String> {
    let mut found = Vec::new();
    for address in &config.node_ips {
        found.extend(Kernel::default().uplink(*address).await.ok().map(|uplink| uplink.device));
    }
    found
}

/// Removes the rules and routes of a stopped agent; where there are none it does nothing.
pub async fn tear_down(instance: &str) {
    pod_ports::clear(instance).await;
    policy::clear(instance).await;
    // First of all: the rules make it safe.
    if let Err(error) = Localnet::of(instance).revert() {
        warn!(%error, "cannot take back route_localnet of this machine's interfaces");
    }
    for family in machine_families() {
        if let Err(error) = Nft.delete_table(family, &table_of(instance)).await {
            warn!("cannot remove the rules of Services: {error}");
        }
    }
    if let Err(error) = Kernel::default().clear(&Owner::of(instance)).await {
        warn!("cannot remove the routes to other nodes: {error}");
    }
}
