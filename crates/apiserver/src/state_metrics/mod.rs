//! `/metrics/kube-state`: what objects say of themselves, under the names of kube-state-metrics, so that dashboards and
//! alerts written for it work, and after those what kinds of features hand in. Made from the store when somebody asks.

mod cluster;
mod pods;
mod storage;
mod workloads;

use minik8s_api::state_metrics::{Page, StateMetrics};

use crate::api::Api;
use crate::error::Result;

/// Every kind that is told of: group, version and plural, and what is told.
const KINDS: &[(&str, &str, &str, StateMetrics)] = &[
    ("", "v1", "configmaps", cluster::config_maps),
    ("batch", "v1", "cronjobs", workloads::cron_jobs),
    ("apps", "v1", "daemonsets", workloads::daemon_sets),
    ("apps", "v1", "deployments", workloads::deployments),
    ("", "v1", "endpoints", cluster::endpoints),
    ("autoscaling", "v2", "horizontalpodautoscalers", workloads::autoscalers),
    ("networking.k8s.io", "v1", "ingresses", cluster::ingresses),
    ("batch", "v1", "jobs", workloads::jobs),
    ("", "v1", "namespaces", cluster::namespaces),
    ("", "v1", "nodes", cluster::nodes),
    ("", "v1", "persistentvolumeclaims", storage::claims),
    ("", "v1", "persistentvolumes", storage::volumes),
    ("", "v1", "pods", pods::pods),
    ("policy", "v1", "poddisruptionbudgets", workloads::budgets),
    ("apps", "v1", "replicasets", workloads::replica_sets),
    ("", "v1", "resourcequotas", cluster::quotas),
    ("", "v1", "secrets", cluster::secrets),
    ("", "v1", "services", cluster::services),
    ("apps", "v1", "statefulsets", workloads::stateful_sets),
];

pub async fn text(api: &Api) -> Result<String> {
    let mut page = Page::default();
    for (group, version, plural, write) in KINDS {
        let served = api.registry.built_in(group, version, plural)?;
        write(&api.registry.all(&served, "").await?, &mut page);
    }
    for served in api.registry.catalog.snapshot().resources() {
        if let Some(write) = served.resource().state_metrics {
            write(&api.registry.all(served, "").await?, &mut page);
        }
    }
    Ok(page.finish())
}

#[cfg(test)]
mod tests;
