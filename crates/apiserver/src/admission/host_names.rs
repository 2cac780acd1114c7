//! Host names of DNS objects and Ingresses: only those that their namespace may have
//! ([`minik8s_api::routing::check_host`] says which). Judged when a name is claimed: objects that have it already
//! keep it. Between namespaces that may both have a name, routing lets the older claim win.

use async_trait::async_trait;
use minik8s_api::routing::{ALLOWED_HOSTS, HostGrant, HostUse, check_host, host_patterns, reserved_host};
use serde_json::Value;

use super::{Admission, Operation, Request};
use crate::error::{ApiError, Result};
use crate::object::Object;
use crate::registry::Registry;

pub struct HostNames {
    pub cluster_domain: String,
}

#[async_trait]
impl Admission for HostNames {
    async fn review(&self, registry: &Registry, request: &mut Request<'_>) -> Result<()> {
        let call = request.call;
        let wanted = match (call.served.group.as_str(), call.served.plural.as_str()) {
            ("minik8s.io", "dns") => HostUse::Resolved,
            ("networking.k8s.io", "ingresses") => HostUse::Routed,
            _ => return Ok(()),
        };
        if request.operation == Operation::Delete || !call.subresource.is_empty() {
            return Ok(());
        }
        let old: Vec<&str> = request.old.into_iter().flat_map(hosts).collect();
        let new: Vec<&str> = hosts(request.object).filter(|host| !old.contains(host)).collect();
        if new.is_empty() {
            return Ok(());
        }
        let (grants, nodes) = (grants(registry).await?, node_names(registry).await?);
        for host in new {
            let checked = match reserved_host(host, &self.cluster_domain) {
                Some(why) => Err(why.to_owned()),
                None if nodes.iter().any(|node| node == host) => Err("it is the name of a node".to_owned()),
                None => check_host(host, wanted, &call.namespace, &grants),
            };
            if let Err(why) = checked {
                let host = if host.is_empty() { "*" } else { host };
                let why = format!("host {host:?} may not be claimed: {why}");
                return Err(ApiError::forbidden(Some(call.served.resource()), request.object.name(), why));
            }
        }
        Ok(())
    }
}

/// The hosts that an object claims; nothing stands for all of them.
fn hosts(object: &Value) -> impl Iterator<Item = &str> {
    let spec = &object["spec"];
    let rules = spec["rules"].as_array().into_iter().flatten();
    let named = rules.map(|rule| rule["host"].as_str().unwrap_or_default());
    // Only Ingresses have one.
    named.chain((!spec["defaultBackend"].is_null()).then_some(""))
}

async fn grants(registry: &Registry) -> Result<Vec<HostGrant>> {
    let namespaces = registry.all(&*registry.built_in("", "v1", "namespaces")?, "").await?;
    let grant = |namespace: &Value| {
        let annotation = namespace["metadata"]["annotations"][ALLOWED_HOSTS].as_str();
        // An annotation that makes no sense allows nothing: it cannot be written, but might be there.
        let patterns = annotation.map(|text| host_patterns(text).unwrap_or_default());
        HostGrant { namespace: namespace.name().to_owned(), patterns }
    };
    Ok(namespaces.iter().map(grant).collect())
}

async fn node_names(registry: &Registry) -> Result<Vec<String>> {
    let nodes = registry.all(&*registry.built_in("", "v1", "nodes")?, "").await?;
    Ok(nodes.iter().map(|node| node.name().to_owned()).collect())
}
