//! All controllers together: those that every cluster needs, and those of its features.

use std::path::PathBuf;
use std::sync::Arc;

use k8s_openapi::jiff::{SignedDuration, Timestamp};
use kube::Client;
use minik8s_api::Records;
use minik8s_feature::{Parts, ServerFeature};
use minik8s_meta::Cidrs;
use minik8s_runtime::{Caches, Settings};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::certificate::{Authority, Certificates};
use crate::garbage_collector::GarbageCollector;
use crate::namespace::Namespaces;
use crate::node::{DEFAULT_GRACE, NodeLifecycle, Trouble};
use crate::node_ipam::NodeRanges;
use crate::pod_gc::PodGarbage;
use crate::service_account::{DefaultAccounts, RootCertificates, Signer, TokenSecrets};

/// What the controllers need to be told.
pub struct Config {
    pub stop: CancellationToken,
    /// Work is done only while this says true.
    pub leads: watch::Receiver<bool>,
    /// Caches to share with others of this process.
    pub caches: Option<Arc<Caches>>,
    /// The CA certificate (PEM) that pods are to trust.
    pub root_ca: Option<String>,
    /// Makes the tokens that Secrets of service accounts hold.
    pub token_signer: Option<Signer>,
    /// Nodes without ranges of pod addresses get one out of each of these.
    pub cluster_cidr: Option<Cidrs>,
    /// Signs certificate requests.
    pub authority: Option<Arc<dyn Authority>>,
    /// After this long without a sign of life a node counts as unreachable.
    pub node_grace: SignedDuration,
    /// When the store last refused a write: nodes could not be heard then.
    pub store_trouble: Trouble,
    /// What features keep beside objects.
    pub records: Option<Arc<dyn Records>>,
    /// Where features may keep files.
    pub data_dir: Option<PathBuf>,
    /// What the cluster can do beyond that.
    pub features: Vec<Arc<dyn ServerFeature>>,
}

impl Default for Config {
    fn default() -> Self {
        let settings = Settings::default();
        Config {
            stop: settings.stop,
            leads: settings.leads,
            caches: None,
            root_ca: None,
            token_signer: None,
            cluster_cidr: None,
            authority: None,
            node_grace: DEFAULT_GRACE,
            store_trouble: Arc::new(|| None),
            records: None,
            data_dir: None,
            features: Vec::new(),
        }
    }
}

/// Runs every controller until `config.stop`, or until one of them ends by itself.
pub async fn run(client: Client, config: Config) {
    let caches = config.caches.unwrap_or_else(|| Caches::new(client.clone(), config.stop.clone()));
    let settings = Settings { stop: config.stop, leads: config.leads };
    let mut parts = Parts::new(client, caches, settings);
    parts.records = config.records;
    parts.data_dir = config.data_dir;
    parts.controller(DefaultAccounts);
    if let Some((signer, root_ca)) = config.token_signer.zip(config.root_ca.clone()) {
        parts.controller(TokenSecrets { signer, root_ca });
    }
    if let Some(certificate) = config.root_ca {
        parts.controller(RootCertificates { certificate });
    }
    parts.controller(NodeLifecycle::new(Arc::new(Timestamp::now), config.store_trouble, config.node_grace));
    if let Some(cluster) = config.cluster_cidr {
        parts.controller(NodeRanges { cluster });
    }
    if let Some(authority) = config.authority {
        parts.controller(Certificates { authority });
    }
    parts.controller(PodGarbage);
    for feature in &config.features {
        feature.start(&mut parts);
    }
    // Last, so that kinds which others want whole are not watched twice.
    parts.controller(GarbageCollector::new(parts.catalog.clone()));
    parts.controller(Namespaces::new(parts.catalog.clone()));
    parts.run().await;
}
