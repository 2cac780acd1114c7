//! Which resource is carried out how.

use std::net::IpAddr;
use std::sync::Arc;

use async_trait::async_trait;
use ipnet::IpNet;
use k8s_openapi::api::core::v1::{ConfigMap, Node, Service};
use kube::{Api, Client};
use minik8s_asl::definition::{Integration, Pattern, Resource};
use minik8s_asl::engine::MAP_ITERATION;
use minik8s_runtime::Caches;
use serde_json::Value;

use super::egress::SETTINGS;
use super::{
    Call, Egress, Invoker, Job, Submitted, TaskError, Tasks, child, http_invoke, log_result, map_iteration,
};
use crate::engine::drive::pattern;

/// Tasks of a cluster.
pub struct Integrations {
    client: Client,
    caches: Arc<Caches>,
    functions: Arc<dyn Invoker>,
    children: child::Seen,
}

#[async_trait]
impl Tasks for Integrations {
    async fn run(&self, job: &Job, submitted: Submitted<'_>) -> Result<Value, TaskError> {
        let request = &job.request;
        if let Some((name, payload)) = request.function() {
            let call = Call {
                namespace: &job.context.namespace,
                name: &name,
                payload: &payload,
                key: job.idempotency_key(),
                result_key: job.result_key.as_deref(),
                again: job.again,
                instance: &job.instance,
            };
            let begun = jiff::Timestamp::now();
            let answer = self.functions.invoke(&call).await?;
            return Ok(match log_result::is_wanted(request) {
                false => answer,
                true => {
                    let log = log_result::of(&self.client, job, begun).await;
                    log_result::output(&answer, &log)
                }
            });
        }
        if request.resource == MAP_ITERATION {
            return map_iteration::run(&self.client, &self.children, job).await;
        }
        let resource = Resource::parse(&request.resource)
            .map_err(|problem| TaskError::new("States.Runtime", problem))?;
        match &resource.integration {
            Integration::Service { service, action, .. } if service == "http" && action == "invoke" => {
                http_invoke::run(&self.client, &self.egress().await, job).await
            }
            Integration::Service { service, action, pattern }
                if service == "states" && action == "startExecution" =>
            {
                child::run(&self.client, &self.children, *pattern, job, submitted).await
            }
            _ => Err(TaskError::new(
                "States.Runtime",
                format!(
                    "The resource {} is not known here: there are functions (function:NAME, Lambda ARNs, \
                     lambda:invoke), states:startExecution and http:invoke.",
                    request.resource
                ),
            )),
        }
    }

    fn acknowledge(&self, job: &Job) {
        if let (Some((name, _)), Some(key)) = (job.request.function(), &job.result_key) {
            self.functions.acknowledge(&job.context.namespace, &name, key);
        }
    }

    fn cancel(&self, job: &Job) {
        let is_awaited = pattern(&job.request.resource) != Pattern::RequestResponse;
        if job.request.resource == MAP_ITERATION || is_awaited {
            tokio::spawn(child::stop(self.client.clone(), job.clone()));
        }
    }
}

impl Integrations {
    pub fn new(client: Client, caches: Arc<Caches>, functions: Arc<dyn Invoker>) -> Self {
        let children = child::Seen::new(&caches);
        Integrations { client, caches, functions, children }
    }

    /// What may be reached now.
    async fn egress(&self) -> Egress {
        let mut egress = Egress { own: own_addresses(), ..Egress::default() };
        let (nodes, services) = (self.caches.of::<Node>(), self.caches.of::<Service>());
        // What is not known yet could not be refused.
        nodes.wait_synced().await;
        services.wait_synced().await;
        for node in nodes.list() {
            let addresses = node.status.iter().flat_map(|status| status.addresses.iter().flatten());
            egress.own.extend(addresses.filter_map(|address| address.address.parse::<IpAddr>().ok()));
            let ranges =
                node.spec.iter().flat_map(|spec| spec.pod_cidrs.iter().flatten().chain(&spec.pod_cidr));
            egress.cluster.extend(ranges.filter_map(|range| range.parse::<IpNet>().ok()));
        }
        for service in services.list() {
            let addresses = service
                .spec
                .iter()
                .flat_map(|spec| spec.cluster_ips.iter().flatten().chain(&spec.cluster_ip));
            egress
                .cluster
                .extend(addresses.filter_map(|address| address.parse::<IpAddr>().ok()).map(IpNet::from));
        }
        let (namespace, name, key) = SETTINGS;
        let settings: Api<ConfigMap> = Api::namespaced(self.client.clone(), namespace);
        if let Ok(Some(settings)) = settings.get_opt(name).await
            && let Some(text) = settings.data.as_ref().and_then(|data| data.get(key))
        {
            // What cannot be read allows nothing.
            egress.allowed = text.parse().unwrap_or_default();
        }
        egress
    }
}

fn own_addresses() -> Vec<IpAddr> {
    let Ok(interfaces) = nix::ifaddrs::getifaddrs() else { return Vec::new() };
    let addresses = interfaces.filter_map(|interface| interface.address);
    addresses
        .filter_map(|address| match (address.as_sockaddr_in(), address.as_sockaddr_in6()) {
            (Some(v4), _) => Some(IpAddr::V4(v4.ip())),
            (_, Some(v6)) => Some(IpAddr::V6(v6.ip())),
            _ => None,
        })
        .collect()
}
