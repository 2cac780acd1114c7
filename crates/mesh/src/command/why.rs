//! `minik8s mesh why POD URL`: where a request of a pod would go, and why, by the same rules that its proxy has. Pure:
//! nothing is sent.

use std::fmt::Write;
use std::net::SocketAddr;

use http::{HeaderMap, Uri};
use k8s_openapi::api::core::v1::{Pod, Service};
use minik8s_meta::mesh::{
    Identity, MeshEndpoint, MeshRoute, MeshRule, MeshService, MeshTarget, takes_inbound,
};
use minik8s_proxy::RequestHead;
use minik8s_proxy::gateway::Match;

use crate::pattern;
use crate::policy::verdict::{Asked, Policies};
use crate::policy::{MeshPolicy, PodView, compile};

/// All that decides.
pub struct World {
    pub services: Vec<Service>,
    pub routes: Vec<MeshRoute>,
    pub mesh_services: Vec<MeshService>,
    pub policies: Vec<MeshPolicy>,
    /// Of all namespaces.
    pub pods: Vec<Pod>,
}

/// The request.
pub struct Question<'a> {
    pub pod: &'a Pod,
    pub uri: &'a Uri,
    pub method: &'a str,
    pub headers: &'a HeaderMap,
}

pub fn explain(world: &World, question: &Question<'_>) -> Result<String, String> {
    let host = question.uri.host().ok_or("the URL has no host: write http://SERVICE:PORT/PATH")?;
    let port = question.uri.port_u16().unwrap_or(80);
    let namespace = question.pod.metadata.namespace.as_deref().unwrap_or_default();
    let service = find_service(world, host, namespace)
        .ok_or_else(|| format!("{host} is no Service that a pod of namespace {namespace} would find"))?;
    let name = full_name(&service.metadata);
    let spec = service.spec.as_ref();
    let ip = spec.and_then(|spec| spec.cluster_ip.as_deref()).unwrap_or("None");
    let address = format!("{ip}:{port}");
    let mut text = format!("{host}:{port} is Service {name} at {address}\n");
    let is_meshed = question.pod.spec.as_ref().is_some_and(takes_inbound);
    let is_it = |route: &&MeshRoute| route.spec.gateway.is_none() && route.spec.addresses.contains(&address);
    let route = world.routes.iter().find(is_it);
    if !is_meshed {
        text += &without_proxy(route);
        return Ok(text);
    }
    if let Some(found) = by_gateway(world, question, &address, namespace, &mut text) {
        match found {
            Some(endpoints) => describe(world, question, &endpoints, &mut text),
            None => text += "no rule of theirs matches: 404\n",
        }
        return Ok(text);
    }
    let endpoints = match route {
        Some(route) => {
            let _ = writeln!(text, "VirtualService {} has rules for it", full_name(&route.metadata));
            match by_rules(&route.spec.rules, question, &mut text) {
                Some(rule) => &rule.endpoints,
                None => {
                    text += "no rule matches: 503\n";
                    return Ok(text);
                }
            }
        }
        None => {
            let ports = world.mesh_services.iter().flat_map(|service| &service.spec.ports);
            let Some(port) = ports.into_iter().find(|port| port.addresses.contains(&address)) else {
                text +=
                    "no VirtualService, and no pod of the mesh behind it: the node's rules choose a pod\n";
                return Ok(text);
            };
            text += "no VirtualService: its pods take turns\n";
            &port.endpoints
        }
    };
    describe(world, question, endpoints, &mut text);
    Ok(text)
}

/// Who leads a request of a pod without a proxy.
fn without_proxy(route: Option<&MeshRoute>) -> String {
    match route {
        Some(route) => format!(
            "the pod has no proxy: the engine of its node leads by VirtualService {}, unless NetworkPolicies of the \
             namespace are in the way\n",
            full_name(&route.metadata)
        ),
        None => "the pod has no proxy: the node's rules choose one of the Service's pods\n".to_owned(),
    }
}

/// Who gets the request by routes of the Gateway API; the outer `None` if there are none for the pod.
fn by_gateway(
    world: &World,
    question: &Question<'_>,
    address: &String,
    namespace: &str,
    text: &mut String,
) -> Option<Option<Vec<MeshEndpoint>>> {
    let mut routes = world.routes.iter().filter(|route| route.spec.addresses.contains(address));
    let gateway = routes.find_map(|route| route.spec.gateway.as_ref())?;
    let of = |wanted: &str| gateway.clients.iter().find(|one| one.namespace == wanted);
    let clients = of(namespace).or_else(|| of(""))?;
    let head = RequestHead {
        method: question.method,
        host: question.uri.host().unwrap_or_default(),
        target: question.uri.path_and_query().map_or("/", |target| target.as_str()),
        headers: question.headers,
    };
    let whose = if clients.namespace.is_empty() { "its own namespace" } else { "the pod's namespace" };
    let _ = writeln!(text, "routes of the Gateway API have rules for it, of {whose}");
    let met = clients.matches.iter().find(|wanted| Match::new(wanted, ()).is_met(&head));
    let Some(rule) = met.and_then(|wanted| gateway.rules.get(wanted.rule)) else { return Some(None) };
    let _ = writeln!(text, "{} matches", rule.route);
    let mut endpoints = Vec::new();
    let all: u64 = rule.backends.iter().map(|backend| u64::from(backend.weight)).sum();
    for backend in rule.backends.iter().filter(|backend| backend.weight > 0) {
        let target = &backend.target;
        let is_it = |one: &&MeshTarget| {
            (&one.namespace, &one.service, one.port) == (&target.namespace, &target.service, target.port)
        };
        let found =
            gateway.targets.iter().find(is_it).map(|one| one.endpoints.as_slice()).unwrap_or_default();
        if let Some(problem) = &target.problem {
            let _ = writeln!(text, "  {} of {all} requests are answered with 500: {problem}", backend.weight);
        }
        let weight = u64::from(backend.weight) * 1000 / found.len().max(1) as u64;
        endpoints.extend(found.iter().map(|one| MeshEndpoint { weight, ..one.clone() }));
    }
    Some(Some(endpoints))
}

fn find_service<'a>(world: &'a World, host: &str, namespace: &str) -> Option<&'a Service> {
    let is_at = |service: &&Service| {
        service.spec.as_ref().and_then(|spec| spec.cluster_ip.as_deref()).is_some_and(|ip| ip == host)
    };
    let mut parts = host.split('.');
    let (name, of) = (parts.next()?, parts.next().unwrap_or(namespace));
    let is_named = |service: &&Service| {
        let meta = &service.metadata;
        meta.name.as_deref() == Some(name) && meta.namespace.as_deref() == Some(of)
    };
    world.services.iter().find(is_at).or_else(|| world.services.iter().find(is_named))
}

fn full_name(meta: &k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta) -> String {
    format!("{}/{}", meta.namespace.as_deref().unwrap_or_default(), meta.name.as_deref().unwrap_or_default())
}

/// The first that matches, with a word on each before it.
fn by_rules<'a>(rules: &'a [MeshRule], question: &Question<'_>, text: &mut String) -> Option<&'a MeshRule> {
    let target = question.uri.path_and_query().map_or("/", |target| target.as_str());
    let is_match = |expression: &str, value: &str| {
        pattern::compile(expression).is_ok_and(|expression| expression.is_match(value))
    };
    for (number, rule) in rules.iter().enumerate() {
        let mut against = Vec::new();
        if let Some(url) = rule.url.as_ref().filter(|url| !is_match(url, target)) {
            against.push(format!("url {url} does not match {target}"));
        }
        for (name, expression) in &rule.headers {
            match question.headers.get(name).and_then(|value| value.to_str().ok()) {
                None => against.push(format!("there is no header {name}")),
                Some(value) if !is_match(expression, value) => {
                    against.push(format!("{name}: {value} does not match {expression}"));
                }
                Some(_) => {}
            }
        }
        let number = number + 1;
        if against.is_empty() {
            let _ = writeln!(text, "rule {number} matches");
            return Some(rule);
        }
        let _ = writeln!(text, "rule {number} does not: {}", against.join("; "));
    }
    None
}

/// Who gets it, how often, and whether they would let it in.
fn describe(world: &World, question: &Question<'_>, endpoints: &[MeshEndpoint], text: &mut String) {
    let sum: u64 = endpoints.iter().map(|endpoint| endpoint.weight).sum();
    if sum == 0 {
        *text += "and no pod is ready: 503\n";
    }
    let namespace = question.pod.metadata.namespace.as_deref().unwrap_or_default();
    let account = question.pod.spec.as_ref().and_then(|spec| spec.service_account_name.as_deref());
    let identity = Identity::new("cluster.local", namespace, account.unwrap_or("default"));
    for endpoint in endpoints.iter().filter(|endpoint| endpoint.weight > 0) {
        let share = endpoint.weight as f64 * 100.0 / sum.max(1) as f64;
        let secured = match &endpoint.service_account {
            Some(account) => format!("mTLS with {account}"),
            None => "in the clear: it has no proxy".to_owned(),
        };
        let _ = write!(text, "  {share:5.1}% {} ({}) {secured}", endpoint.pod, endpoint.address);
        let verdict = verdict(world, question, &identity, endpoint);
        let _ = match verdict {
            Some(policy) => writeln!(text, "; MeshPolicy {policy} refuses it"),
            None => writeln!(text),
        };
    }
}

fn verdict(
    world: &World,
    question: &Question<'_>,
    identity: &Identity,
    endpoint: &MeshEndpoint,
) -> Option<String> {
    let address: SocketAddr = endpoint.address.parse().ok()?;
    let ip = address.ip().to_string();
    let is_it = |pod: &&Pod| {
        let status = pod.status.as_ref();
        let is_there = status.and_then(|status| status.pod_ip.as_deref()) == Some(&ip);
        is_there && pod.metadata.name.as_deref() == Some(&endpoint.pod)
    };
    let pod = world.pods.iter().find(is_it)?;
    let view = PodView {
        namespace: pod.metadata.namespace.clone().unwrap_or_default(),
        labels: pod.metadata.labels.clone().unwrap_or_default(),
    };
    let inbound = compile(world.policies.iter(), &view);
    let known = endpoint.service_account.as_ref().map(|_| identity);
    let http = Some((question.method, question.uri.path()));
    let policies = Policies::new(&inbound);
    let verdict = policies.verdict(Asked { identity: known, port: address.port(), http });
    verdict.denied_by.map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use minik8s_meta::mesh::{INBOUND_ENV, SIDECAR, SIDECAR_IMAGE};
    use serde_json::{Value, json};

    use super::*;

    fn from<T: serde::de::DeserializeOwned>(value: Value) -> T {
        serde_json::from_value(value).unwrap()
    }

    fn pod(name: &str, ip: &str) -> Pod {
        let proxy =
            json!({"name": SIDECAR, "image": SIDECAR_IMAGE, "env": [{"name": INBOUND_ENV, "value": "1"}]});
        from(json!({"metadata": {"name": name, "namespace": "shop", "labels": {"app": name}},
            "spec": {"serviceAccountName": name, "containers": [], "initContainers": [proxy]},
            "status": {"podIP": ip}}))
    }

    fn world(rules: Value, policies: Value) -> World {
        let route = json!({"metadata": {"name": "reviews", "namespace": "shop"}, "spec": {"uid": "", "revision": "",
            "service": "shop/reviews", "addresses": ["10.96.0.5:9080"], "rules": rules}});
        World {
            services: vec![from(json!({"metadata": {"name": "reviews", "namespace": "shop"},
                "spec": {"clusterIP": "10.96.0.5"}}))],
            routes: vec![from(route)],
            mesh_services: Vec::new(),
            policies: policies.as_array().unwrap().iter().cloned().map(from).collect(),
            pods: vec![pod("v1", "10.0.0.1"), pod("v2", "10.0.0.2")],
        }
    }

    fn ask(world: &World, url: &str, header: Option<(&'static str, &str)>) -> Result<String, String> {
        let headers: HeaderMap =
            header.iter().map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap())).collect();
        let (pod, uri) = (pod("web", "10.0.0.9"), url.parse().unwrap());
        explain(world, &Question { pod: &pod, uri: &uri, method: "GET", headers: &headers })
    }

    #[test]
    fn way_of_a_request_is_told() {
        let endpoint = |name: &str, ip: &str, weight: u64| {
            json!({"address": format!("{ip}:9080"), "pod": name,
            "weight": weight, "serviceAccount": format!("shop/{name}")})
        };
        let rules = json!([
            {"headers": {"end-user": "^jason$"}, "endpoints": [endpoint("v2", "10.0.0.2", 1)]},
            {"endpoints": [endpoint("v1", "10.0.0.1", 3), endpoint("v2", "10.0.0.2", 1)]},
        ]);
        let policy = json!([{"metadata": {"name": "p", "namespace": "shop"}, "spec": {
            "selector": {"matchLabels": {"app": "v2"}}, "rules": [{"from": {"serviceAccounts": ["bank/teller"]}}]}}]);
        let world = world(rules, policy);
        let check = |url: &str, header: Option<(&'static str, &str)>, expected: &[&str]| {
            let text = ask(&world, url, header).unwrap_or_else(|problem| problem);
            for part in expected {
                assert!(text.contains(part), "{part} in {text}");
            }
        };
        check(
            "http://reviews:9080/reviews/1",
            None,
            &[
                "is Service shop/reviews",
                "rule 1 does not: there is no header end-user",
                "rule 2 matches",
                "75.0% v1 (10.0.0.1:9080) mTLS with shop/v1\n",
                "25.0% v2 (10.0.0.2:9080) mTLS with shop/v2; MeshPolicy shop/p refuses it",
            ],
        );
        check("http://reviews.shop.svc:9080/", Some(("end-user", "jason")), &["rule 1 matches", "100.0% v2"]);
        check(
            "http://10.96.0.5:9080/",
            Some(("end-user", "mary")),
            &["end-user: mary does not match ^jason$"],
        );
        check("http://reviews:80/", None, &["the node's rules choose a pod"]);
        check("http://nobody/", None, &["is no Service"]);
    }
}
