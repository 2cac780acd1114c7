//! The one list of features of servers, and the one of agents. What is not in them is not in the program; what is switched
//! off costs nothing.

use std::sync::Arc;

use anyhow::bail;
use minik8s_api::Extension;
use minik8s_controllers::features::{
    Autoscaling, DynamicResources, NetworkPolicies, ResourceMetrics, ResourceQuotas, Routing, Services,
    Workloads,
};
use minik8s_feature::{AgentFeature, AgentParts, NodePlace, ServerFeature};
use minik8s_functions::Functions;
use minik8s_gateway::GatewayApi;
use minik8s_informer::Kind;
use minik8s_mesh::Mesh;
use minik8s_mesh::agent::MeshAgent;
use minik8s_metrics::History;
use minik8s_monitoring::Monitoring;
use minik8s_network::pod_network::Backend;
use minik8s_registry::ImageRegistry;
use minik8s_slurm::GpuJobs;
use minik8s_storage::Storage;
use minik8s_ui::Dashboard;
use minik8s_workflows::Workflows;

use crate::network::NetworkAgent;
use crate::router::{RouterAgent, RouterFlags};
use crate::why::placement::Placement;

/// The features of a control plane, and what they share with others.
pub struct ServerFeatures {
    pub list: Vec<Arc<dyn ServerFeature>>,
    /// What nodes and pods use. Nothing is in it where nobody collects.
    pub history: Arc<History>,
}

impl ServerFeatures {
    /// All of them but those that are switched off; the mesh only where pods have proxies.
    pub fn new(disabled: &[String], mesh: bool) -> anyhow::Result<Self> {
        let mesh = mesh && !disabled.iter().any(|name| name == "mesh");
        let mut features = ServerFeatures::without(disabled, mesh)?;
        if mesh {
            features.list.push(Arc::new(Mesh::default()));
        }
        Ok(features)
    }

    /// All that need not be asked for, but those that are switched off.
    fn without(disabled: &[String], mesh: bool) -> anyhow::Result<Self> {
        let metrics = ResourceMetrics::default();
        let (history, wants) = (metrics.history.clone(), metrics.wants.clone());
        let autoscaling = Autoscaling { history: history.clone(), wants, ..Autoscaling::default() };
        let in_registry = !disabled.iter().any(|name| name == "registry");
        let mut list: Vec<Arc<dyn ServerFeature>> = vec![
            Arc::new(Workloads),
            Arc::new(Services),
            Arc::new(NetworkPolicies),
            Arc::new(Routing),
            Arc::new(metrics),
            Arc::new(autoscaling),
            Arc::new(ResourceQuotas),
            Arc::new(DynamicResources),
            Arc::new(Dashboard::default()),
            Arc::new(Workflows::default()),
            Arc::new(GpuJobs),
            Arc::new(Storage),
            Arc::new(Monitoring::default()),
            Arc::new(Functions::new(in_registry)),
            Arc::new(GatewayApi { mesh }),
            Arc::new(ImageRegistry::default()),
            Arc::new(Placement::new(history.clone())),
        ];
        let of_node = AgentFeatures::to_teardown();
        check_names(disabled, list.iter().map(|feature| feature.name()).chain(of_node.names()))?;
        list.retain(|feature| !disabled.iter().any(|name| name == feature.name()));
        Ok(ServerFeatures { list, history })
    }

    /// What they add to the API.
    pub fn extension(&self) -> Extension {
        Extension::merge(self.list.iter().map(|feature| feature.extension()))
    }
}

/// The features of a node's agent.
pub struct AgentFeatures(Vec<Box<dyn AgentFeature>>);

impl AgentFeatures {
    /// All of them. The network comes after those that tell it names.
    fn all(backend: Backend, domain: &str, router: Option<RouterFlags>) -> Self {
        let mesh = MeshAgent::default();
        AgentFeatures(vec![
            Box::new(RouterAgent { flags: router, led: mesh.led.clone(), ..RouterAgent::default() }),
            Box::new(NetworkAgent::new(backend, domain, mesh.routed.subscribe())),
            Box::new(mesh),
        ])
    }

    /// All of them but those that are switched off.
    pub fn new(backend: Backend, domain: &str, router: RouterFlags, disabled: &[String]) -> Self {
        let mut features = AgentFeatures::all(backend, domain, Some(router));
        features.0.retain(|feature| !disabled.iter().any(|name| name == feature.name()));
        features
    }

    /// All of them, to take away what they may have left.
    pub fn to_teardown() -> Self {
        AgentFeatures::all(Backend::Auto, "", None)
    }

    /// Refuses names that no feature of a node has.
    pub fn check(disabled: &[String]) -> anyhow::Result<()> {
        check_names(disabled, AgentFeatures::to_teardown().names())
    }

    pub fn names(&self) -> impl Iterator<Item = &'static str> {
        self.0.iter().map(|feature| feature.name())
    }

    /// The kinds that the node must know of while no server answers.
    pub fn checkpointed(&self) -> Vec<Kind> {
        self.0.iter().flat_map(|feature| feature.checkpointed()).collect()
    }

    pub async fn run(&self, parts: &mut AgentParts) {
        for feature in &self.0 {
            feature.run(parts).await;
        }
    }

    pub fn metrics(&self) -> String {
        self.0.iter().map(|feature| feature.metrics()).collect()
    }

    /// What one of them tells at a path of the node's port.
    pub fn read(&self, path: &[&str]) -> Option<String> {
        self.0.iter().find_map(|feature| feature.read(path))
    }

    pub async fn teardown(&self, place: &NodePlace) {
        for feature in &self.0 {
            feature.teardown(place).await;
        }
    }
}

fn check_names<'a>(disabled: &[String], known: impl Iterator<Item = &'a str>) -> anyhow::Result<()> {
    let names: Vec<&str> = known.collect();
    if let Some(unknown) = disabled.iter().find(|name| !names.contains(&name.as_str())) {
        bail!("--disable-feature {unknown}: there is no such feature; there are {}", names.join(", "));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn features_can_each_be_switched_off() {
        let all = ServerFeatures::without(&[], false).unwrap();
        for feature in &all.list {
            let rest = ServerFeatures::without(&[feature.name().to_owned()], false).unwrap();
            assert_eq!(rest.list.len(), all.list.len() - 1);
            assert!(rest.list.iter().all(|other| other.name() != feature.name()));
        }
    }

    /// A node in a directory, whose server is away.
    fn agent_parts(dir: &std::path::Path) -> AgentParts {
        let stop = tokio_util::sync::CancellationToken::new();
        let client =
            kube::Client::try_from(kube::Config::new("http://127.0.0.1:1".parse().unwrap())).unwrap();
        let node = minik8s_feature::NodeInfo {
            name: "n1".to_owned(),
            address: std::net::Ipv4Addr::LOCALHOST.into(),
            node_ips: vec![std::net::Ipv4Addr::LOCALHOST.into()],
            place: NodePlace { data_dir: dir.to_owned(), instance: "ffffff".to_owned() },
            pods_dir: dir.join("pods"),
            bridge: "none".to_owned(),
            own_ports: Default::default(),
            cluster_cidr: "10.42.0.0/16".parse().unwrap(),
            dns_addresses: vec![std::net::Ipv4Addr::LOCALHOST.into()],
            domain: "cluster.local".to_owned(),
        };
        let access = minik8s_informer::ApiAccess::of_node(client, "n1", stop.clone(), dir, &[]);
        AgentParts::new(access, node, stop)
    }

    fn agent_features(dir: &std::path::Path, disabled: &[String]) -> AgentFeatures {
        let hosts_file = dir.join("hosts");
        let router = RouterFlags { http_port: 0, https_port: 0, hosts_file };
        AgentFeatures::new(Backend::Auto, "cluster.local", router, disabled)
    }

    #[test]
    fn agent_features_can_each_be_switched_off() {
        let dir = tempfile::tempdir().unwrap();
        let all: Vec<&str> = agent_features(dir.path(), &[]).names().collect();
        assert!(!all.is_empty());
        for name in &all {
            let disabled = [(*name).to_owned()];
            assert!(AgentFeatures::check(&disabled).is_ok());
            let rest = agent_features(dir.path(), &disabled);
            assert!(rest.names().all(|other| other != *name) && rest.0.len() == all.len() - 1);
        }
        assert!(AgentFeatures::check(&["rooter".to_owned()]).is_err());
        assert_eq!(AgentFeatures::to_teardown().names().collect::<Vec<_>>(), all, "each is taken apart");
    }

    /// What is switched off starts no task and takes no request of pods.
    #[tokio::test]
    async fn agent_feature_that_is_switched_off_costs_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let all: Vec<String> = agent_features(dir.path(), &[]).names().map(str::to_owned).collect();
        let mut parts = agent_parts(dir.path());
        let none = agent_features(dir.path(), &all);
        none.run(&mut parts).await;
        assert!(parts.tasks.is_empty() && parts.hosts.is_none());
        let hooks = &parts.hooks;
        assert!(hooks.drains.is_none() && hooks.port_guards.is_none() && hooks.mesh.is_none());
        assert_eq!((none.metrics(), none.checkpointed().len()), (String::new(), 0));
        let calls = ["functionCalls", "shop", "hello"];
        assert_eq!(none.read(&calls), None);
        let router = agent_features(dir.path(), &["network".to_owned()]);
        assert_eq!(router.read(&calls).as_deref(), Some(r#"{"items":[]}"#));
        assert_eq!((router.read(&calls[..2]), router.read(&["exec", "shop", "hello"])), (None, None));
        // The network would change this machine's.
        agent_features(dir.path(), &["network".to_owned()]).run(&mut parts).await;
        assert!(!parts.tasks.is_empty() && parts.hosts.is_some() && parts.hooks.mesh.is_some());
    }

    #[test]
    fn mesh_is_there_only_when_asked_for() {
        let names = |disabled: &[&str], mesh: bool| -> Vec<&'static str> {
            let disabled: Vec<String> = disabled.iter().map(|name| (*name).to_owned()).collect();
            let features = ServerFeatures::new(&disabled, mesh).unwrap();
            features.list.iter().map(|feature| feature.name()).collect()
        };
        assert!(!names(&[], false).contains(&"mesh") && names(&[], true).contains(&"mesh"));
        assert!(!names(&["mesh"], true).contains(&"mesh"));
    }

    #[test]
    fn unknown_feature_is_refused_with_the_known_ones() {
        let error = ServerFeatures::without(&["wokloads".to_owned()], false).err().unwrap().to_string();
        assert!(error.contains("wokloads") && error.contains("workloads, services"), "{error}");
    }

    #[test]
    fn computed_kinds_come_and_go_with_their_feature() {
        let kinds = |disabled: &[&str]| -> Vec<String> {
            let disabled: Vec<String> = disabled.iter().map(|name| (*name).to_owned()).collect();
            let extension = ServerFeatures::without(&disabled, false).unwrap().extension();
            extension.kinds.iter().map(|kind| kind.qualified()).collect()
        };
        assert!(kinds(&[]).contains(&"scalingdecisions.minik8s.io".to_owned()));
        assert!(!kinds(&["autoscaling"]).contains(&"scalingdecisions.minik8s.io".to_owned()));
        assert!(!kinds(&["resource-metrics"]).contains(&"pods.metrics.k8s.io".to_owned()));
    }
}
