//! What all nodes of a cluster must agree on. The server's flags say it; nodes read it from the API.
//!
//! It is kept in the ConfigMap `minik8s-cluster`, beside what users may set there. A node remembers it in its
//! data dir, so that it can start while no server answers.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::Path;
use std::time::Duration;

use anyhow::Context;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::Api;
use kube::api::{Patch, PatchParams, PostParams};
use minik8s_informer::Backoff;
use minik8s_meta::Cidrs;
use serde_json::json;

pub const NAMESPACE: &str = "kube-system";
pub const NAME: &str = "minik8s-cluster";
const CHECKPOINT: &str = "cluster-settings.json";
const RETRY: Backoff = Backoff::millis(250, 5_000);

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClusterSettings {
    pub cluster_cidr: Cidrs,
    /// What pods have as their name servers: one address of each family that Services have, the primary one first.
    pub dns_addresses: Vec<IpAddr>,
    pub domain: String,
    /// After this long without a sign of life a node counts as dead.
    pub node_grace: Duration,
}

impl ClusterSettings {
    /// How often a node must say that it lives: some of it may get lost.
    pub fn heartbeat(&self) -> Duration {
        (self.node_grace / 4).clamp(Duration::from_millis(500), Duration::from_secs(10))
    }

    fn to_data(&self) -> BTreeMap<String, String> {
        let pairs = [
            ("network.clusterCIDR", self.cluster_cidr.to_string()),
            ("dns.address", comma_separated(&self.dns_addresses)),
            ("dns.domain", self.domain.clone()),
            ("node.graceSeconds", self.node_grace.as_secs().to_string()),
        ];
        pairs.map(|(key, value)| (key.to_owned(), value)).into()
    }

    fn from_data(data: &BTreeMap<String, String>) -> anyhow::Result<Self> {
        let text = |key: &str| {
            let value = data.get(key).map(String::as_str);
            value.with_context(|| format!("the ConfigMap {NAMESPACE}/{NAME} does not say {key}"))
        };
        let wrong = |key: &str| format!("the ConfigMap {NAMESPACE}/{NAME} says nonsense for {key}");
        Ok(ClusterSettings {
            cluster_cidr: text("network.clusterCIDR")?
                .parse()
                .with_context(|| wrong("network.clusterCIDR"))?,
            dns_addresses: text("dns.address")?
                .split(',')
                .map(str::parse::<IpAddr>)
                .collect::<Result<_, _>>()
                .with_context(|| wrong("dns.address"))?,
            domain: text("dns.domain")?.to_owned(),
            node_grace: Duration::from_secs(
                text("node.graceSeconds")?.parse().with_context(|| wrong("node.graceSeconds"))?,
            ),
        })
    }

    /// Writes it down for all nodes; what else the ConfigMap holds stays.
    pub async fn publish(&self, client: kube::Client) -> anyhow::Result<()> {
        let api: Api<ConfigMap> = Api::namespaced(client, NAMESPACE);
        let patch = json!({"data": self.to_data()});
        match api.patch(NAME, &PatchParams::default(), &Patch::Merge(patch)).await {
            Err(kube::Error::Api(status)) if status.code == 404 => {}
            other => return other.map(drop).map_err(Into::into),
        }
        let mut map = ConfigMap { data: Some(self.to_data()), ..ConfigMap::default() };
        map.metadata.name = Some(NAME.to_owned());
        match api.create(&PostParams::default(), &map).await {
            // Another server was quicker, and says the same.
            Err(kube::Error::Api(status)) if status.code == 409 => Ok(()),
            other => other.map(drop).map_err(Into::into),
        }
    }

    /// What the API says; if no server answers, what it said the last time.
    pub async fn fetch(client: kube::Client, data_dir: &Path) -> anyhow::Result<Self> {
        let api: Api<ConfigMap> = Api::namespaced(client, NAMESPACE);
        let path = data_dir.join(CHECKPOINT);
        let mut retries = RETRY.retries();
        loop {
            match api.get(NAME).await {
                Ok(map) => {
                    let data = map.data.unwrap_or_default();
                    let settings = ClusterSettings::from_data(&data)?;
                    std::fs::write(&path, json!(settings.to_data()).to_string())
                        .with_context(|| format!("cannot write {}", path.display()))?;
                    return Ok(settings);
                }
                Err(error) => {
                    let checkpoint = std::fs::read(&path).ok();
                    let data = checkpoint.and_then(|text| serde_json::from_slice(&text).ok());
                    if let Some(settings) = data.and_then(|data| ClusterSettings::from_data(&data).ok()) {
                        tracing::warn!(%error, "no server answers; starting with the settings of last time");
                        return Ok(settings);
                    }
                    tracing::warn!(%error, "waiting for the cluster's settings");
                }
            }
            tokio::time::sleep(retries.failed()).await;
        }
    }
}

/// An agent that knows one family alone still reads it in a cluster that has no other.
fn comma_separated(addresses: &[IpAddr]) -> String {
    addresses.iter().map(ToString::to_string).collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(cluster: &str, dns: &[&str]) -> ClusterSettings {
        ClusterSettings {
            cluster_cidr: cluster.parse().unwrap(),
            dns_addresses: dns.iter().map(|address| address.parse().unwrap()).collect(),
            domain: "cluster.local".to_owned(),
            node_grace: Duration::from_secs(3),
        }
    }

    #[test]
    fn settings_survive_the_way_to_a_node() {
        let both = settings("10.244.0.0/16,fd00:10:244::/56", &["10.96.0.10", "fd00:10:96::a"]);
        assert_eq!(both.to_data()["network.clusterCIDR"], "10.244.0.0/16,fd00:10:244::/56");
        assert_eq!(both.to_data()["dns.address"], "10.96.0.10,fd00:10:96::a");
        assert_eq!(ClusterSettings::from_data(&both.to_data()).unwrap(), both);
        let settings = settings("10.244.0.0/16", &["10.96.0.10"]);
        let data = settings.to_data();
        // As servers that know IPv4 alone write it, and agents of theirs read it.
        assert_eq!((&*data["network.clusterCIDR"], &*data["dns.address"]), ("10.244.0.0/16", "10.96.0.10"));
        assert_eq!(ClusterSettings::from_data(&data).unwrap(), settings);
        for key in data.keys() {
            let mut less = data.clone();
            less.remove(key);
            let error = ClusterSettings::from_data(&less).unwrap_err();
            assert!(error.to_string().contains(key), "{error}");
        }
        assert_eq!(settings.heartbeat(), Duration::from_millis(750));
    }
}
