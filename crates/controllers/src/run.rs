//! All controllers together.

use std::sync::Arc;

use ipnet::Ipv4Net;
use k8s_openapi::api::apps::v1::ReplicaSet;
use k8s_openapi::api::core::v1::ReplicationController;
use k8s_openapi::jiff::{SignedDuration, Timestamp};
use kube::Client;
use minik8s_metrics::{Decisions, History};
use minik8s_runtime::{Caches, Manager, Settings};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::Catalog;
use crate::autoscale::Autoscalers;
use crate::certificate::{Authority, Certificates};
use crate::cron_job::CronJobs;
use crate::daemon_set::DaemonSets;
use crate::deployment::Deployments;
use crate::disruption::DisruptionBudgets;
use crate::endpoint_mirror::EndpointMirror;
use crate::endpoints::ServiceEndpoints;
use crate::garbage::GarbageCollector;
use crate::job::{Jobs, LostJobPods};
use crate::load_balancer::LoadBalancers;
use crate::measure::{self, Wants};
use crate::namespace::Namespaces;
use crate::node::{DEFAULT_GRACE, NodeLifecycle, Trouble};
use crate::node_range::NodeRanges;
use crate::pod_garbage::PodGarbage;
use crate::quota::Quotas;
use crate::replicas::Replicas;
use crate::routing::{DnsStatuses, IngressStatuses};
use crate::service_account::{DefaultAccounts, RootCertificates, Signer, TokenSecrets};
use crate::stateful_set::StatefulSets;

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
    /// Nodes without a range of pod addresses get one out of this.
    pub cluster_range: Option<Ipv4Net>,
    /// Signs certificate requests.
    pub authority: Option<Arc<dyn Authority>>,
    /// After this long without a sign of life a node counts as unreachable.
    pub node_grace: SignedDuration,
    /// When the store last refused a write: nodes could not be heard then.
    pub store_trouble: Trouble,
    /// Where figures are collected, and where autoscalers leave what they decided.
    pub figures: Arc<History>,
    pub decisions: Arc<Decisions>,
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
            cluster_range: None,
            authority: None,
            node_grace: DEFAULT_GRACE,
            store_trouble: Arc::new(|| None),
            figures: Arc::default(),
            decisions: Arc::default(),
        }
    }
}

/// Runs every controller until `config.stop`.
pub async fn run(client: Client, config: Config) {
    let Config {
        stop,
        leads,
        caches,
        root_ca,
        token_signer,
        cluster_range,
        authority,
        node_grace,
        store_trouble,
        figures,
        decisions,
    } = config;
    let caches = caches.unwrap_or_else(|| Caches::new(client.clone(), stop.clone()));
    let settings = Settings { stop: stop.clone(), leads };
    let mut manager = Manager::new(client.clone(), caches.clone(), settings);
    manager.add(Replicas::<ReplicaSet>::default());
    manager.add(Replicas::<ReplicationController>::default());
    manager.add(Deployments);
    manager.add(DaemonSets);
    manager.add(StatefulSets);
    manager.add(Jobs);
    manager.add(LostJobPods);
    manager.add(CronJobs);
    manager.add(DisruptionBudgets);
    manager.add(ServiceEndpoints);
    manager.add(EndpointMirror);
    manager.add(LoadBalancers);
    manager.add(DefaultAccounts);
    if let Some((signer, root_ca)) = token_signer.zip(root_ca.clone()) {
        manager.add(TokenSecrets { signer, root_ca });
    }
    if let Some(certificate) = root_ca {
        manager.add(RootCertificates { certificate });
    }
    manager.add(NodeLifecycle::new(Arc::new(Timestamp::now), store_trouble, node_grace));
    if let Some(cluster) = cluster_range {
        manager.add(NodeRanges { cluster });
    }
    if let Some(authority) = authority {
        manager.add(Certificates { authority });
    }
    manager.add(PodGarbage);
    manager.add(DnsStatuses);
    manager.add(IngressStatuses);
    // Last, so that kinds which others want whole are not watched twice.
    let catalog = Arc::new(Catalog::default());
    let wants = Arc::new(Wants::default());
    manager.add(Autoscalers::new(
        Some(client.clone()),
        catalog.clone(),
        figures.clone(),
        wants.clone(),
        decisions,
    ));
    manager.add(Quotas::new(catalog.clone()));
    manager.add(GarbageCollector::new(catalog.clone()));
    manager.add(Namespaces::new(catalog.clone()));
    tokio::join!(
        manager.run(),
        catalog.run(client.clone(), caches.clone(), stop.clone()),
        measure::run(client, caches, figures, wants, stop)
    );
}
