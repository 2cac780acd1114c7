//! Where the cluster's servers are: servers tell it, nodes follow it, and the administrator's kubeconfig has a
//! context for each.
//!
//! It stands in the ConfigMap `minik8s-cluster`, as URLs with commas between them. Nodes also know the addresses
//! they were given when they joined.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use k8s_openapi::api::core::v1::ConfigMap;
use kube::Api;
use kube::api::{Patch, PatchParams};
use minik8s_apiserver::Live;
use minik8s_auth::pki::{Pki, write_kubeconfig};
use minik8s_informer::{Backoff, Caches, Change, ListOptions};
use minik8s_join::{Member, ServerAddress};
use serde_json::json;
use tokio::sync::watch;

use crate::cluster_settings::{NAME, NAMESPACE};
use crate::registry_hosts::RegistryHosts;

const FIELD: &str = "servers";
const RETRY: Backoff = Backoff::millis(500, 10_000);

/// Tells the cluster of every change, for ever.
pub async fn publish(
    client: kube::Client,
    mut live: watch::Receiver<Live>,
    kubeconfig: Arc<AdminKubeconfig>,
) {
    let api: Api<ConfigMap> = Api::namespaced(client, NAMESPACE);
    let mut retries = RETRY.retries();
    loop {
        let servers = urls(&live.borrow_and_update());
        if let Err(error) = kubeconfig.write(&servers) {
            tracing::warn!("the administrator's kubeconfig: {error:#}");
        }
        let patch = Patch::Merge(json!({"data": {FIELD: servers.join(",")}}));
        match api.patch(NAME, &PatchParams::default(), &patch).await {
            Ok(_) => {
                retries.succeeded();
                if live.changed().await.is_err() {
                    return;
                }
            }
            Err(error) => {
                tracing::warn!(%error, "cannot tell the nodes where the servers are");
                tokio::time::sleep(retries.failed()).await;
            }
        }
    }
}

fn urls(live: &Live) -> Vec<String> {
    live.iter().map(|address| format!("https://{address}")).collect()
}

/// `DIR/admin.kubeconfig`.
pub struct AdminKubeconfig {
    pub pki: Arc<Pki>,
    pub path: std::path::PathBuf,
    /// How this machine reaches its own server.
    pub url: String,
    /// This server as others know it.
    pub own: String,
}

impl AdminKubeconfig {
    /// This machine's server is what it uses; a context of its own leads to each of the others.
    pub fn write(&self, servers: &[String]) -> anyhow::Result<()> {
        let others: Vec<&str> = servers.iter().filter(|url| **url != self.own).map(String::as_str).collect();
        Ok(write_kubeconfig(Path::new(&self.path), &self.pki.admin_kubeconfig(&self.url, &others))?)
    }
}

/// Keeps a node's list of servers current, for ever: that of its agent, and that of its containerd.
pub async fn follow(member: Arc<Member>, caches: Arc<Caches>, hosts: RegistryHosts) {
    let tell = |member: &Member| {
        let servers: Vec<String> = member.all_servers().iter().map(ToString::to_string).collect();
        if let Err(error) = hosts.write(&servers) {
            tracing::warn!("containerd does not know where the registry is: {error:#}");
        }
    };
    tell(&member);
    let only = ListOptions::fields(format!("metadata.name={NAME}")).within(NAMESPACE);
    let informer = caches.informer::<ConfigMap>(only);
    let mut changes = informer.subscribe();
    loop {
        let Change::Applied { new: map, .. } = changes.next().await else { continue };
        let listed = map.data.as_ref().map(listed).unwrap_or_default();
        if let Err(error) = member.learn_servers(&listed) {
            tracing::warn!(%error, "cannot keep where the servers are");
        }
        tell(&member);
    }
}

fn listed(data: &BTreeMap<String, String>) -> Vec<ServerAddress> {
    let urls = data.get(FIELD).map(String::as_str).unwrap_or_default();
    urls.split(',').filter_map(|url| url.parse().ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_server_tells_a_node_understands() {
        let live: Live =
            ["10.0.0.1:6443", "[fd00::2]:7000"].iter().map(|text| text.parse().unwrap()).collect();
        let data = BTreeMap::from([(FIELD.to_owned(), urls(&live).join(","))]);
        let shown: Vec<String> = listed(&data).iter().map(ToString::to_string).collect();
        assert_eq!(shown, ["https://10.0.0.1:6443", "https://[fd00::2]:7000"]);
        assert_eq!(listed(&BTreeMap::new()), []);
        assert_eq!(listed(&BTreeMap::from([(FIELD.to_owned(), "nonsense,".to_owned())])), []);
    }
}
