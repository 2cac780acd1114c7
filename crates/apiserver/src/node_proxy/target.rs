//! Where a request for a node, pod or service goes.

use std::sync::Arc;

use serde_json::Value;

use crate::api::Api;
use crate::error::{ApiError, Result};
use crate::object::Object;
use crate::registry::Call;
use crate::request::Query;

const KUBELET_PORT: u16 = 10250;

pub struct Target {
    pub host: String,
    pub port: u16,
    /// The name that the other side must prove to have; `None` for plain HTTP.
    pub tls: Option<String>,
    pub path: String,
}

pub async fn find(api: &Arc<Api>, call: &Call, query: &Query, rest: &str) -> Result<Target> {
    match (call.served.plural.as_str(), call.subresource.as_str()) {
        ("pods", "proxy") => pod(api, call, rest).await,
        ("services", "proxy") => service(api, call, rest).await,
        ("nodes", "proxy") => {
            let (_, name, _) = split_name(&call.name);
            let node = api.registry.get(&call.served, "", name).await?;
            kubelet(&node, format!("/{rest}"))
        }
        ("pods", kind) => pod_stream(api, call, query, kind).await,
        _ => Err(ApiError::no_such_resource()),
    }
}

/// Logs, exec, attach and port-forward: answered by the kubelet of the pod's node.
async fn pod_stream(api: &Arc<Api>, call: &Call, query: &Query, kind: &str) -> Result<Target> {
    let pod = api.registry.get(&call.served, &call.namespace, &call.name).await?;
    let node = pod["spec"]["nodeName"].as_str().unwrap_or_default();
    if node.is_empty() {
        return Err(ApiError::bad_request(format!("pod {} does not have a host assigned", call.name)));
    }
    let (namespace, name) = (&call.namespace, &call.name);
    let path = match kind {
        "portforward" => format!("/portForward/{namespace}/{name}"),
        "log" => format!("/containerLogs/{namespace}/{name}/{}", container(&pod, query.text("container"))?),
        kind => format!("/{kind}/{namespace}/{name}/{}", container(&pod, query.text("container"))?),
    };
    let nodes = api.registry.built_in("", "v1", "nodes")?;
    kubelet(&api.registry.get(&nodes, "", node).await?, path)
}

/// The container that is meant: the named one, the annotated default, or the only one.
fn container(pod: &Value, wanted: &str) -> Result<String> {
    let names = |list: &str| -> Vec<&str> {
        let containers = pod["spec"][list].as_array().into_iter().flatten();
        containers.filter_map(|container| container["name"].as_str()).collect()
    };
    let (containers, init, ephemeral) =
        (names("containers"), names("initContainers"), names("ephemeralContainers"));
    let default = pod["metadata"]["annotations"]["kubectl.kubernetes.io/default-container"].as_str();
    if !wanted.is_empty() {
        let known = [&containers, &init, &ephemeral].iter().any(|list| list.contains(&wanted));
        return match known {
            true => Ok(wanted.to_owned()),
            false => {
                Err(ApiError::bad_request(format!("container {wanted} is not valid for pod {}", pod.name())))
            }
        };
    }
    match (containers.as_slice(), default) {
        ([only], _) => Ok((*only).to_owned()),
        (many, Some(default)) if many.contains(&default) => Ok(default.to_owned()),
        (many, _) => {
            let mut text = format!(
                "a container name must be specified for pod {}, choose one of: [{}]",
                pod.name(),
                many.join(" ")
            );
            if !init.is_empty() {
                text += &format!(" or one of the init containers: [{}]", init.join(" "));
            }
            Err(ApiError::bad_request(text))
        }
    }
}

fn kubelet(node: &Value, path: String) -> Result<Target> {
    let addresses = node["status"]["addresses"].as_array().into_iter().flatten();
    let address = addresses.into_iter().find(|address| address["type"] == "InternalIP");
    let Some(host) = address.and_then(|address| address["address"].as_str()) else {
        return Err(ApiError::unavailable(format!("node {} has told no address yet", node.name())));
    };
    let port = node["status"]["daemonEndpoints"]["kubeletEndpoint"]["Port"].as_u64();
    let port = port.and_then(|port| u16::try_from(port).ok()).unwrap_or(KUBELET_PORT);
    // A node proves its name: an address may be another machine's tomorrow.
    Ok(Target { host: host.to_owned(), port, tls: Some(node.name().to_owned()), path })
}

/// `NAME`, `NAME:PORT` or `SCHEME:NAME:PORT`.
fn split_name(text: &str) -> (&str, &str, &str) {
    match text.split(':').collect::<Vec<_>>().as_slice() {
        [scheme, name, port] => (scheme, name, port),
        [name, port] => ("", name, port),
        _ => ("", text, ""),
    }
}

fn plain_http(scheme: &str) -> Result<()> {
    match scheme {
        "" | "http" => Ok(()),
        other => Err(ApiError::bad_request(format!("proxy to {other:?} is not possible; use http"))),
    }
}

async fn pod(api: &Arc<Api>, call: &Call, rest: &str) -> Result<Target> {
    let (scheme, name, port) = split_name(&call.name);
    plain_http(scheme)?;
    let pod = api.registry.get(&call.served, &call.namespace, name).await?;
    let host = pod["status"]["podIP"].as_str().unwrap_or_default();
    if host.is_empty() {
        return Err(ApiError::unavailable(format!("pod {name} has no address yet")));
    }
    let containers = pod["spec"]["containers"].as_array().into_iter().flatten();
    let mut ports = containers.flat_map(|container| container["ports"].as_array()).flatten();
    let found = match port {
        "" => ports.next().and_then(|port| port["containerPort"].as_u64()).or(Some(80)),
        port => match port.parse() {
            Ok(number) => Some(number),
            Err(_) => ports.find(|p| p["name"] == port).and_then(|p| p["containerPort"].as_u64()),
        },
    };
    let port = found.and_then(|port| u16::try_from(port).ok());
    let port = port.ok_or_else(|| ApiError::bad_request(format!("pod {name} has no such port")))?;
    Ok(Target { host: host.to_owned(), port, tls: None, path: format!("/{rest}") })
}

/// One of the service's ready endpoints, at random.
async fn service(api: &Arc<Api>, call: &Call, rest: &str) -> Result<Target> {
    let (scheme, name, wanted) = split_name(&call.name);
    plain_http(scheme)?;
    let service = api.registry.get(&call.served, &call.namespace, name).await?;
    let ports = service["spec"]["ports"].as_array().cloned().unwrap_or_default();
    let port = ports.iter().find(|port| {
        wanted.is_empty()
            || port["name"] == wanted
            || port["port"].as_u64().is_some_and(|p| p.to_string() == wanted)
    });
    let port_name = port
        .ok_or_else(|| ApiError::unavailable(format!("service {name} has no port {wanted:?}")))?["name"]
        .clone();
    let slices = api.registry.built_in("discovery.k8s.io", "v1", "endpointslices")?;
    let all = api.registry.all(&slices, &call.namespace).await?;
    let mut candidates = Vec::new();
    for slice in all.iter().filter(|slice| slice["metadata"]["labels"]["kubernetes.io/service-name"] == name)
    {
        let slice_ports = slice["ports"].as_array().into_iter().flatten();
        let same =
            |p: &&Value| p["name"].as_str().unwrap_or_default() == port_name.as_str().unwrap_or_default();
        let Some(number) = slice_ports.into_iter().find(same).and_then(|p| p["port"].as_u64()) else {
            continue;
        };
        for endpoint in slice["endpoints"].as_array().into_iter().flatten() {
            if endpoint["conditions"]["ready"] != false
                && let Some(address) = endpoint["addresses"][0].as_str()
            {
                candidates.push((address.to_owned(), number));
            }
        }
    }
    if candidates.is_empty() {
        return Err(ApiError::unavailable(format!("no endpoints available for service \"{name}\"")));
    }
    let (host, port) = candidates.swap_remove(rand::random_range(0..candidates.len()));
    let port = u16::try_from(port).map_err(ApiError::internal)?;
    Ok(Target { host, port, tls: None, path: format!("/{rest}") })
}
