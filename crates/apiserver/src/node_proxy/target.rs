//! Where a request for a node, pod or service goes.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use serde_json::Value;

use super::address;
use crate::api::Api;
use crate::error::{ApiError, Result};
use crate::object::Object;
use crate::registry::{Call, Registry};
use crate::request::Query;

const KUBELET_PORT: u16 = 10250;

/// How the other side is spoken to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Security {
    Plain,
    /// TLS without looking at the certificate.
    Unverified,
    /// The node of this name, which it must prove to have.
    Kubelet(String),
}

#[derive(Debug)]
pub struct Target {
    pub address: SocketAddr,
    pub security: Security,
    /// As it came, to the letter; empty if nothing follows `proxy`.
    pub path: String,
}

pub async fn find(api: &Arc<Api>, call: &Call, query: &Query, rest: &str) -> Result<Target> {
    match (call.served.plural.as_str(), call.subresource.as_str()) {
        ("pods", "proxy") => pod(api, call, rest).await,
        ("services", "proxy") => service(api, call, rest).await,
        ("nodes", "proxy") => {
            let wanted = Name::parse("node", &call.name)?;
            let node = api.registry.get(&call.served, "", wanted.name).await?;
            node_port(&node, &wanted, api.node_proxy.own, rest.to_owned())
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
    kubelet(&api.registry.get(&nodes, "", node).await?, api.node_proxy.own, path)
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

fn kubelet(node: &Value, own: IpAddr, path: String) -> Result<Target> {
    let address = SocketAddr::new(address::kubelet(internal_ip(node)?, own)?, kubelet_port(node));
    // A node proves its name: an address may be another machine's tomorrow.
    Ok(Target { address, security: Security::Kubelet(node.name().to_owned()), path })
}

/// The kubelet, unless another port of its node is asked for.
fn node_port(node: &Value, wanted: &Name<'_>, own: IpAddr, path: String) -> Result<Target> {
    if wanted.port.is_empty() || wanted.port == kubelet_port(node).to_string() {
        return kubelet(node, own, path);
    }
    let port = wanted.port.parse();
    let port = port.map_err(|_| ApiError::bad_request(format!("node {} has no such port", wanted.name)))?;
    let address = SocketAddr::new(address::dialable(internal_ip(node)?)?, port);
    Ok(Target { address, security: wanted.security(), path })
}

fn internal_ip(node: &Value) -> Result<&str> {
    let addresses = node["status"]["addresses"].as_array().into_iter().flatten();
    let address = addresses.into_iter().find(|address| address["type"] == "InternalIP");
    let told = address.and_then(|address| address["address"].as_str());
    told.ok_or_else(|| ApiError::unavailable(format!("node {} has told no address yet", node.name())))
}

fn kubelet_port(node: &Value) -> u16 {
    let port = node["status"]["daemonEndpoints"]["kubeletEndpoint"]["Port"].as_u64();
    port.and_then(|port| u16::try_from(port).ok()).unwrap_or(KUBELET_PORT)
}

/// `NAME`, `NAME:PORT` or `SCHEME:NAME:PORT`.
#[derive(Debug, PartialEq, Eq)]
struct Name<'a> {
    scheme: &'a str,
    name: &'a str,
    port: &'a str,
}

impl<'a> Name<'a> {
    fn parse(kind: &str, text: &'a str) -> Result<Self> {
        let parsed = match *text.split(':').collect::<Vec<_>>().as_slice() {
            [scheme @ ("" | "http" | "https"), name, port] => Some(Name { scheme, name, port }),
            [name, port] => Some(Name { scheme: "", name, port }),
            [name] => Some(Name { scheme: "", name, port: "" }),
            _ => None,
        };
        let parsed = parsed.filter(|parsed| !parsed.name.is_empty());
        parsed.ok_or_else(|| ApiError::bad_request(format!("invalid {kind} request {text:?}")))
    }

    fn security(&self) -> Security {
        if self.scheme == "https" { Security::Unverified } else { Security::Plain }
    }
}

async fn pod(api: &Arc<Api>, call: &Call, rest: &str) -> Result<Target> {
    let wanted = Name::parse("pod", &call.name)?;
    let pod = api.registry.get(&call.served, &call.namespace, wanted.name).await?;
    pod_target(&pod, &wanted, rest)
}

fn pod_target(pod: &Value, wanted: &Name<'_>, rest: &str) -> Result<Target> {
    let name = wanted.name;
    let host = pod["status"]["podIP"].as_str().unwrap_or_default();
    if host.is_empty() {
        return Err(ApiError::unavailable(format!("pod {name} has no address yet")));
    }
    let containers = pod["spec"]["containers"].as_array().into_iter().flatten();
    let mut ports = containers.flat_map(|container| container["ports"].as_array()).flatten();
    let found = match wanted.port {
        "" => ports.next().and_then(|port| port["containerPort"].as_u64()).or(Some(80)),
        port => match port.parse() {
            Ok(number) => Some(number),
            Err(_) => ports.find(|p| p["name"] == port).and_then(|p| p["containerPort"].as_u64()),
        },
    };
    let port = found.and_then(|port| u16::try_from(port).ok());
    let port = port.ok_or_else(|| ApiError::bad_request(format!("pod {name} has no such port")))?;
    let address = SocketAddr::new(address::dialable(host)?, port);
    Ok(Target { address, security: wanted.security(), path: rest.to_owned() })
}

async fn service(api: &Arc<Api>, call: &Call, rest: &str) -> Result<Target> {
    let wanted = Name::parse("service", &call.name)?;
    let address = service_endpoint(&api.registry, &call.namespace, wanted.name, wanted.port).await?;
    Ok(Target { address, security: wanted.security(), path: rest.to_owned() })
}

/// One of the service's ready endpoints, at random; `port` is a name or number, or empty for the first.
pub async fn service_endpoint(
    registry: &Registry,
    namespace: &str,
    name: &str,
    port: &str,
) -> Result<SocketAddr> {
    let services = registry.built_in("", "v1", "services")?;
    let service = registry.get(&services, namespace, name).await?;
    let slices = registry.built_in("discovery.k8s.io", "v1", "endpointslices")?;
    let slices = registry.all(&slices, namespace).await?;
    endpoint_of(&service, &slices, name, port)
}

fn endpoint_of(service: &Value, slices: &[Value], name: &str, port: &str) -> Result<SocketAddr> {
    let ports = service["spec"]["ports"].as_array().cloned().unwrap_or_default();
    let found = ports.iter().find(|one| {
        port.is_empty() || one["name"] == port || one["port"].as_u64().is_some_and(|p| p.to_string() == port)
    });
    let missing = || ApiError::unavailable(format!("service {name} has no port {port:?}"));
    let port_name = found.ok_or_else(missing)?["name"].as_str().unwrap_or_default();
    let own = |slice: &&Value| slice["metadata"]["labels"]["kubernetes.io/service-name"] == name;
    let own: Vec<&Value> = slices.iter().filter(own).collect();
    let mut candidates = candidates(&own, &service["spec"]["ipFamilies"][0], port_name);
    if candidates.is_empty() {
        return Err(ApiError::unavailable(format!("no endpoints available for service \"{name}\"")));
    }
    let (host, port) = candidates.swap_remove(rand::random_range(0..candidates.len()));
    let port = u16::try_from(port).map_err(ApiError::internal)?;
    Ok(SocketAddr::new(address::dialable(host)?, port))
}

/// Those of the Service's primary family, by which servers and nodes reach each other; where there are none, all.
fn candidates<'a>(slices: &[&'a Value], primary: &Value, port_name: &str) -> Vec<(&'a str, u64)> {
    let of = |is_wanted: &dyn Fn(&Value) -> bool| -> Vec<(&'a str, u64)> {
        let wanted = slices.iter().filter(|slice| is_wanted(slice));
        wanted.flat_map(|slice| ready_endpoints(slice, port_name)).collect()
    };
    let found = of(&|slice| slice["addressType"] == *primary);
    if found.is_empty() { of(&|_| true) } else { found }
}

/// Addresses behind the port of this name.
fn ready_endpoints<'a>(slice: &'a Value, port_name: &str) -> Vec<(&'a str, u64)> {
    let mut ports = slice["ports"].as_array().into_iter().flatten();
    let port = ports.find(|port| port["name"].as_str().unwrap_or_default() == port_name);
    let Some(number) = port.and_then(|port| port["port"].as_u64()) else { return Vec::new() };
    let endpoints = slice["endpoints"].as_array().into_iter().flatten();
    let ready = endpoints.filter(|endpoint| endpoint["conditions"]["ready"] != false);
    ready.filter_map(|endpoint| Some((endpoint["addresses"][0].as_str()?, number))).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn candidates_are_of_the_primary_family() {
        let slice = |family: &str, address: &str, ready: bool| {
            json!({
                "addressType": family, "ports": [{"name": "web", "port": 80}],
                "endpoints": [{"addresses": [address], "conditions": {"ready": ready}}],
            })
        };
        let check = |slices: &[Value], primary: &str, expected: &[(&str, u64)]| {
            let slices: Vec<&Value> = slices.iter().collect();
            assert_eq!(candidates(&slices, &json!(primary), "web"), expected, "{primary}");
        };
        let both = [slice("IPv4", "10.0.0.1", true), slice("IPv6", "fd00::1", true)];
        check(&both, "IPv4", &[("10.0.0.1", 80)]);
        check(&both, "IPv6", &[("fd00::1", 80)]);
        let one = [slice("IPv4", "10.0.0.1", false), slice("IPv6", "fd00::1", true)];
        check(&one, "IPv4", &[("fd00::1", 80)]);
    }

    #[test]
    fn proxy_names_have_a_scheme_and_a_port() {
        let check = |text: &str, expected: Option<(&str, &str, &str)>| {
            let parsed = Name::parse("pod", text).ok();
            assert_eq!(parsed.map(|n| (n.scheme, n.name, n.port)), expected, "{text}");
        };
        check("web", Some(("", "web", "")));
        check("web:80", Some(("", "web", "80")));
        check("https:web:443", Some(("https", "web", "443")));
        check("https:web:", Some(("https", "web", "")));
        check(":web:http", Some(("", "web", "http")));
        check("ftp:web:21", None);
        check("", None);
        check("http::80", None);
        check("a:b:c:d", None);
    }

    #[test]
    fn pods_are_reached_at_their_own_address_only() {
        let pod = |ip: &str| json!({"status": {"podIP": ip}, "spec": {"containers": [{"ports": [{"name": "web", "containerPort": 8080}]}]}});
        let find = |ip: &str, name: &str| pod_target(&pod(ip), &Name::parse("pod", name).unwrap(), "/a%20b/");
        let target = find("10.244.0.7", "https:p:web").unwrap();
        assert_eq!(
            (target.address.to_string().as_str(), target.path.as_str()),
            ("10.244.0.7:8080", "/a%20b/")
        );
        assert_eq!(target.security, Security::Unverified);
        assert_eq!(find("10.244.0.7", "p").unwrap().security, Security::Plain);
        assert_eq!(find("10.244.0.7", "p:9").unwrap().address.port(), 9);
        for (ip, name, code) in [
            ("127.0.0.1", "p", 400),
            ("169.254.169.254", "p", 400),
            ("", "p", 503),
            ("10.0.0.1", "p:none", 400),
        ] {
            assert_eq!(find(ip, name).unwrap_err().code, code, "{ip} {name}");
        }
    }

    #[test]
    fn endpoint_of_a_service_that_is_the_server_itself_is_never_dialed() {
        let service = json!({"spec": {"ports": [{"port": 80}], "ipFamilies": ["IPv4"]}});
        let find = |address: &str| {
            let slice = json!({
                "metadata": {"labels": {"kubernetes.io/service-name": "s"}}, "addressType": "IPv4",
                "ports": [{"port": 8080}], "endpoints": [{"addresses": [address]}],
            });
            endpoint_of(&service, &[slice], "s", "80")
        };
        assert_eq!(find("10.244.0.7").unwrap().to_string(), "10.244.0.7:8080");
        for address in
            ["127.0.0.1", "::ffff:127.0.0.1", "169.254.169.254", "0.0.0.0", "224.0.0.1", "evil.example.com"]
        {
            let refused = find(address).unwrap_err();
            assert_eq!((refused.code, refused.message.as_str()), (400, "address not allowed"), "{address}");
        }
    }

    #[test]
    fn nodes_are_reached_at_their_kubelet_unless_another_port_is_asked_for() {
        let node = |ip: &str| {
            json!({
                "metadata": {"name": "n"},
                "status": {"addresses": [{"type": "InternalIP", "address": ip}],
                           "daemonEndpoints": {"kubeletEndpoint": {"Port": 10260}}},
            })
        };
        let own = IpAddr::from([10, 0, 0, 1]);
        let find = |ip: &str, name: &str| {
            node_port(&node(ip), &Name::parse("node", name).unwrap(), own, String::new())
        };
        for name in ["n", "n:10260", "https:n:10260"] {
            let target = find("10.0.0.2", name).unwrap();
            assert_eq!(
                (target.address.port(), target.security),
                (10260, Security::Kubelet("n".to_owned())),
                "{name}"
            );
        }
        assert_eq!(find("10.0.0.2", "http:n:9100").unwrap().security, Security::Plain);
        assert_eq!(find("10.0.0.2", "https:n:9100").unwrap().security, Security::Unverified);
        for (ip, name) in
            [("127.0.0.1", "n"), ("127.0.0.1", "n:22"), ("evil.example.com", "n"), ("10.0.0.2", "n:x")]
        {
            assert_eq!(find(ip, name).unwrap_err().code, 400, "{ip} {name}");
        }
    }
}
