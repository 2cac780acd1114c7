//! What a fresh cluster has: namespaces, the `kubernetes` Service, RBAC rules, priority classes, the
//! router's IngressClass.
//!
//! Run at every start: it makes what is missing and repairs the rules that carry `autoupdate`, and leaves
//! everything else as the users want it. What no cluster can do without is made again while it runs.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use minik8s_api::routing;
use minik8s_auth::rbac::{RbacKind, bootstrap as rbac};
use minik8s_meta::{IpFamily, nth_address};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::api::Api;
use crate::error::Result;
use crate::flow;
use crate::object::{Object, object_at};
use crate::registry::{Call, Registry};
use crate::server::Config;

/// How long a deleted Service of the cluster itself may be missing.
const REPAIR: Duration = Duration::from_secs(5);

/// Makes again what people delete and pods need, until `stop`.
pub async fn keep(api: Arc<Api>, config: Config, port: u16, stop: CancellationToken) {
    while stop.run_until_cancelled(tokio::time::sleep(REPAIR)).await.is_some() {
        if let Err(error) = indispensable(&api.registry, &config, port).await {
            tracing::warn!(%error, "the cluster's own Services could not be looked after");
        }
    }
}

async fn indispensable(registry: &Registry, config: &Config, port: u16) -> Result<()> {
    for name in ["default", "kube-system", "kube-public", "kube-node-lease"] {
        ensure(registry, json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}))
            .await?;
    }
    for object in flow::defaults::mandatory() {
        ensure(registry, object).await?;
    }
    kubernetes_service(registry, config, port).await?;
    dns_service(registry, config).await
}

pub async fn run(registry: &Registry, config: &Config, port: u16) -> Result<()> {
    indispensable(registry, config, port).await?;
    for (name, value, description) in [
        (
            "system-cluster-critical",
            2_000_000_000,
            "Used for system critical pods that must run in the cluster.",
        ),
        (
            "system-node-critical",
            2_000_001_000,
            "Used for system critical pods that must not be moved from their node.",
        ),
    ] {
        let class = json!({
            "apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": name},
            "value": value, "description": description, "preemptionPolicy": "PreemptLowerPriority",
        });
        ensure(registry, class).await?;
    }
    for object in flow::defaults::levels().into_iter().chain(flow::defaults::schemas()) {
        ensure(registry, object).await?;
    }
    for (kind, object) in rbac::objects() {
        ensure_rules(registry, kind, object).await?;
    }
    service_ranges(registry, config).await?;
    ensure(
        registry,
        json!({
            "apiVersion": "networking.k8s.io/v1", "kind": "IngressClass",
            "metadata": {"name": routing::CLASS}, "spec": {"controller": routing::CONTROLLER},
        }),
    )
    .await
}

/// The ServiceCIDR `kubernetes`: the ranges of the flags. A second family is added to it, nothing is taken away.
async fn service_ranges(registry: &Registry, config: &Config) -> Result<()> {
    let ranges: Vec<String> = config.service_cidr.iter().map(|range| range.to_string()).collect();
    let wanted = json!({
        "apiVersion": "networking.k8s.io/v1", "kind": "ServiceCIDR", "metadata": {"name": "kubernetes"},
        "spec": {"cidrs": ranges},
    });
    ensure(registry, wanted.clone()).await?;
    let call = call_for(registry, &wanted)?;
    let found = registry.get(&call.served, &call.namespace, &call.name).await?;
    let known: Vec<&str> =
        found["spec"]["cidrs"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    if known.len() < ranges.len() && ranges.iter().zip(&known).all(|(wanted, known)| wanted == known) {
        return set_fields(registry, &wanted, &["spec"]).await;
    }
    if known != ranges {
        tracing::warn!(
            "the ServiceCIDR kubernetes says {}, --service-cidr says {}: addresses come from the latter",
            known.join(","),
            config.service_cidr
        );
    }
    Ok(())
}

/// The Service `kube-dns` at the tenth address of each family. It has no endpoints: on every node it leads to the node's
/// own resolver.
async fn dns_service(registry: &Registry, config: &Config) -> Result<()> {
    let addresses: Vec<String> = config
        .service_cidr
        .iter()
        .filter_map(|range| nth_address(range, 10))
        .map(|ip| ip.to_string())
        .collect();
    let labels = json!({
        "k8s-app": "kube-dns", "kubernetes.io/cluster-service": "true", "kubernetes.io/name": "CoreDNS",
    });
    let service = json!({
        "apiVersion": "v1", "kind": "Service",
        "metadata": {"name": "kube-dns", "namespace": "kube-system", "labels": labels},
        "spec": {
            "clusterIP": addresses.first(), "clusterIPs": addresses, "type": "ClusterIP",
            "ipFamilyPolicy": "PreferDualStack",
            "ports": [
                {"name": "dns", "port": 53, "targetPort": 53, "protocol": "UDP"},
                {"name": "dns-tcp", "port": 53, "targetPort": 53, "protocol": "TCP"},
            ],
        },
    });
    let made = match ensure(registry, service.clone()).await {
        Ok(()) => add_family(registry, &service).await,
        failed => failed,
    };
    match made {
        // Names are resolved at that address whatever Service has it.
        Err(error) if error.code == 422 => {
            let addresses = addresses.join(",");
            tracing::warn!("the Service kube-dns cannot have its address {addresses}: {}", error.message);
            Ok(())
        }
        other => other,
    }
}

/// Gives a Service that was made before the cluster had its second family an address of it.
async fn add_family(registry: &Registry, wanted: &Value) -> Result<()> {
    let call = call_for(registry, wanted)?;
    let (wanted, found) = (&wanted["spec"], registry.get(&call.served, &call.namespace, &call.name).await?);
    let count = |spec: &Value| spec["clusterIPs"].as_array().map_or(0, Vec::len);
    if count(&found["spec"]) >= count(wanted) || found["spec"]["clusterIP"] != wanted["clusterIP"] {
        return Ok(());
    }
    let change = |old: &Value| {
        let mut new = old.clone();
        for field in ["ipFamilyPolicy", "clusterIPs"] {
            new["spec"][field] = wanted[field].clone();
        }
        // They follow from the addresses.
        object_at(&mut new, "spec").shift_remove("ipFamilies");
        Ok(new)
    };
    registry.change(&call, change).await.map(drop)
}

/// Creates the object unless it is there.
async fn ensure(registry: &Registry, object: Value) -> Result<()> {
    let call = call_for(registry, &object)?;
    if registry.store.get(&call.key()).await?.is_some() {
        return Ok(());
    }
    let mut object = object;
    call.served.strategy.default(&mut object);
    match registry.create(&call, object).await {
        // Another server may have been quicker, also to take the object's address.
        Err(error) if registry.store.get(&call.key()).await?.is_none() => Err(error),
        _ => Ok(()),
    }
}

fn call_for(registry: &Registry, object: &Value) -> Result<Call> {
    let api_version = object["apiVersion"].as_str().unwrap_or_default();
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    let kind = object["kind"].as_str().unwrap_or_default();
    let snapshot = registry.catalog.snapshot();
    let served = snapshot.find_kind(group, version, kind).cloned();
    let served = served.ok_or_else(|| {
        crate::error::ApiError::internal(format_args!("{api_version} {kind} is not served"))
    })?;
    Ok(Call::internal(served, object.namespace(), object.name()))
}

/// Adds rules and subjects that a newer version needs; what users added stays.
async fn ensure_rules(registry: &Registry, kind: RbacKind, object: Value) -> Result<()> {
    let call = call_for(registry, &object)?;
    let existing = match registry.get(&call.served, &call.namespace, &call.name).await {
        Ok(existing) => existing,
        Err(error) if error.code == 404 => return ensure(registry, object).await,
        Err(error) => return Err(error),
    };
    if rbac::reconcile(kind, Some(&existing), &object).is_none() {
        return Ok(());
    }
    let change = |old: &Value| Ok(rbac::reconcile(kind, Some(old), &object).unwrap_or_else(|| old.clone()));
    registry.change(&call, change).await.map(drop)
}

/// The Service `kubernetes` and the endpoint behind it: this server.
async fn kubernetes_service(registry: &Registry, config: &Config, port: u16) -> Result<()> {
    let labels = json!({"component": "apiserver", "provider": "kubernetes"});
    let service = json!({
        "apiVersion": "v1", "kind": "Service",
        "metadata": {"name": "kubernetes", "namespace": "default", "labels": labels},
        "spec": {
            "clusterIP": config.service_address().to_string(), "type": "ClusterIP",
            "ports": [{"name": "https", "port": 443, "targetPort": port, "protocol": "TCP"}],
        },
    });
    ensure(registry, service).await?;
    // Of several servers each adds itself when it serves.
    if config.has_peers {
        Ok(())
    } else {
        let own = SocketAddr::new(config.advertise, port);
        point_to(registry, own, &[own].into()).await
    }
}

/// Makes the Service `kubernetes` lead to these servers, as far as they are of the same family as this one.
pub async fn point_to(registry: &Registry, own: SocketAddr, servers: &BTreeSet<SocketAddr>) -> Result<()> {
    // A loopback address is no endpoint: it would mean something else to every pod.
    let fits = |server: &&SocketAddr| server.is_ipv4() == own.is_ipv4() && !server.ip().is_loopback();
    let reachable: Vec<&SocketAddr> = servers.iter().filter(fits).collect();
    let Some(port) = reachable.iter().map(|server| server.port()).min() else { return Ok(()) };
    // A list of endpoints has one port for all.
    let hosts: Vec<String> = reachable
        .iter()
        .filter(|server| server.port() == port)
        .map(|server| server.ip().to_string())
        .collect();
    let ports = json!([{"name": "https", "port": port, "protocol": "TCP"}]);
    let endpoints = |host: &String| json!({"addresses": [host], "conditions": {"ready": true}});
    let slice = json!({
        "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice",
        "metadata": {
            "name": "kubernetes", "namespace": "default",
            "labels": {"kubernetes.io/service-name": "kubernetes"},
        },
        "addressType": IpFamily::of(own.ip()).name(),
        "endpoints": hosts.iter().map(endpoints).collect::<Vec<Value>>(),
        "ports": ports,
    });
    let addresses: Vec<Value> = hosts.iter().map(|host| json!({"ip": host})).collect();
    let endpoints = json!({
        "apiVersion": "v1", "kind": "Endpoints",
        "metadata": {
            "name": "kubernetes", "namespace": "default",
            "labels": {"endpointslice.kubernetes.io/skip-mirror": "true"},
        },
        "subsets": [{"addresses": addresses, "ports": ports}],
    });
    for object in [slice, endpoints] {
        ensure(registry, object.clone()).await?;
        set_fields(registry, &object, &["endpoints", "ports", "subsets"]).await?;
    }
    Ok(())
}

/// Writes those fields of the object if they are not so.
async fn set_fields(registry: &Registry, wanted: &Value, fields: &[&str]) -> Result<()> {
    let call = call_for(registry, wanted)?;
    let differs = |old: &Value| fields.iter().any(|field| wanted.get(field) != old.get(field));
    if !differs(&registry.get(&call.served, &call.namespace, &call.name).await?) {
        return Ok(());
    }
    let change = |old: &Value| {
        let mut new = old.clone();
        for field in fields {
            if let Some(value) = wanted.get(field) {
                new[*field] = value.clone();
            }
        }
        Ok(new)
    };
    registry.change(&call, change).await.map(drop)
}
