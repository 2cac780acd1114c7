//! From a VirtualService and what it refers to, to what proxies do: `(VirtualService, Subsets, Service, slices, pods) →
//! MeshRoute`. Pure.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use k8s_openapi::api::core::v1::{Pod, Service, ServicePort};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use minik8s_meta::mesh::{
    MeshEndpoint, MeshMirror, MeshRouteSpec, MeshRule, Subset, SubsetRoute, SubsetStatus, VirtualService,
    takes_inbound,
};
use minik8s_runtime::Selector;
use sha2::{Digest, Sha256};

use crate::weights;

/// All that a route is made of: objects of one namespace.
pub struct Inputs {
    pub virtual_service: Arc<VirtualService>,
    pub subsets: Vec<Arc<Subset>>,
    pub service: Option<Arc<Service>>,
    pub slices: Vec<Arc<EndpointSlice>>,
    pub pods: Vec<Arc<Pod>>,
    /// Pods that get no new requests, for a RollingUpdate is about to replace them.
    pub drained: BTreeSet<String>,
}

/// Why there can be no route.
#[derive(Debug, PartialEq, Eq)]
pub struct Problem {
    pub reason: &'static str,
    pub message: String,
}

#[derive(Debug, PartialEq)]
pub struct Compiled {
    pub route: MeshRouteSpec,
    pub subsets: Vec<SubsetStatus>,
    /// What is missing although the rest works.
    pub missing: Option<Problem>,
}

/// A pod of the Service that gets requests.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Endpoint {
    pod: String,
    address: SocketAddr,
    /// Namespace and name of the service account that its proxy proves.
    account: Option<String>,
}

pub fn compile(inputs: &Inputs) -> Result<Compiled, Problem> {
    let spec = &inputs.virtual_service.spec;
    let problem = |reason, message| Problem { reason, message };
    let service = inputs
        .service
        .as_ref()
        .ok_or_else(|| problem("NoService", format!("there is no Service {}", spec.service_ref)))?;
    let port = port_of(service, spec.port).ok_or_else(|| {
        problem("NoPort", format!("Service {} has no TCP port {}", spec.service_ref, spec.port))
    })?;
    let addresses = addresses(service, spec.port);
    if addresses.is_empty() {
        let message = format!("Service {} has no virtual address that requests go to", spec.service_ref);
        return Err(problem("NoAddress", message));
    }
    let (opaque, grpc) = (is_opaque(port), says_grpc(port));
    let matches = |route: &SubsetRoute| route.url.is_some() || !route.headers.is_empty();
    if opaque && !grpc && spec.subsets.iter().any(matches) {
        let message = format!(
            "port {} of Service {} is not HTTP by its appProtocol or name, so url and headers cannot be looked at; use \
             weights",
            spec.port, spec.service_ref
        );
        return Err(problem("NotHTTP", message));
    }
    let port_name = port.name.as_deref().unwrap_or_default();
    let endpoints = endpoints(&inputs.slices, port_name, &inputs.pods, &inputs.drained);
    let found: Vec<(&SubsetRoute, Option<Vec<Endpoint>>)> =
        spec.subsets.iter().map(|route| (route, members(inputs, &route.name, &endpoints))).collect();
    let rules = match spec.subsets.iter().any(|route| route.weight.is_some()) {
        true => vec![weighted(&found, &endpoints)],
        false => matched(&found, &endpoints),
    };
    let namespace = inputs.virtual_service.metadata.namespace.as_deref().unwrap_or_default();
    let route = MeshRouteSpec {
        uid: inputs.virtual_service.metadata.uid.clone().unwrap_or_default(),
        revision: revision(inputs, &addresses, opaque),
        service: format!("{namespace}/{}", spec.service_ref),
        addresses,
        opaque,
        grpc,
        rules,
        timeout_seconds: spec.timeout_seconds.and_then(|seconds| u32::try_from(seconds).ok()),
        retries: spec.retries.clone(),
        mirror: mirror(inputs, &endpoints),
        abort: spec.fault.as_ref().and_then(|fault| fault.abort.clone()),
        delay: spec.fault.as_ref().and_then(|fault| fault.delay.clone()),
        outlier: spec.outlier.clone(),
        gateway: None,
    };
    let missing = no_pod(inputs).or_else(|| missing(&found)).or_else(|| no_mirror(inputs, &route));
    Ok(Compiled { route, subsets: statuses(&found), missing })
}

pub fn port_of(service: &Service, number: i32) -> Option<&ServicePort> {
    let ports = service.spec.as_ref()?.ports.as_ref()?;
    let is_tcp = |port: &&ServicePort| matches!(port.protocol.as_deref(), None | Some("" | "TCP"));
    ports.iter().filter(is_tcp).find(|port| port.port == number)
}

/// Virtual addresses with the port. A headless Service has none: its pods are called by their own.
pub fn addresses(service: &Service, port: i32) -> Vec<String> {
    let Some(spec) = &service.spec else { return Vec::new() };
    let Ok(port) = u16::try_from(port) else { return Vec::new() };
    let all = spec.cluster_ips.iter().flatten().chain(&spec.cluster_ip);
    let mut found: Vec<SocketAddr> =
        all.filter_map(|ip| ip.parse::<IpAddr>().ok()).map(|ip| SocketAddr::new(ip, port)).collect();
    found.sort();
    found.dedup();
    found.iter().map(ToString::to_string).collect()
}

/// Who gets copies of requests.
fn mirror(inputs: &Inputs, endpoints: &[Endpoint]) -> Option<MeshMirror> {
    let mirror = inputs.virtual_service.spec.mirror.as_ref()?;
    let members = members(inputs, &mirror.subset, endpoints).unwrap_or_default();
    let endpoints = members.iter().map(|member| mesh_endpoint(member, 1)).collect();
    Some(MeshMirror { percent: mirror.percent.unwrap_or(100), endpoints })
}

fn no_mirror(inputs: &Inputs, route: &MeshRouteSpec) -> Option<Problem> {
    let mirror = inputs.virtual_service.spec.mirror.as_ref()?;
    let is_empty = route.mirror.as_ref().is_some_and(|mirror| mirror.endpoints.is_empty());
    let message = format!("Subset {} of mirror has no ready pod: nobody gets copies", mirror.subset);
    is_empty.then_some(Problem { reason: "MirrorEmpty", message })
}

/// Ports of protocols that are not HTTP, in many of which the server speaks first: SMTP, POP3, IMAP, MQTT, SQL Server,
/// Oracle, MySQL, PostgreSQL, AMQP, Redis, NATS, Cassandra, Kafka, memcached and MongoDB.
const NOT_HTTP: [i32; 19] = [
    25, 110, 143, 465, 587, 993, 995, 1433, 1521, 1883, 3306, 4222, 5432, 5672, 6379, 9042, 9092, 11211,
    27017,
];

/// As Istio tells: by `appProtocol`, else by what the port's name begins with, else by a well-known number. What says
/// nothing is HTTP.
pub fn is_opaque(port: &ServicePort) -> bool {
    const HTTP: [&str; 4] = ["http", "http1", "kubernetes.io/ws", "http/1.1"];
    const OPAQUE: [&str; 12] = [
        "tcp", "tls", "https", "grpc", "http2", "mysql", "redis", "mongo", "postgres", "smtp", "amqp", "mqtt",
    ];
    match port.app_protocol.as_deref().filter(|said| !said.is_empty()) {
        Some(said) => !HTTP.contains(&said.to_ascii_lowercase().as_str()),
        None => {
            let name = port.name.as_deref().unwrap_or_default();
            let said = name.split('-').next().unwrap_or_default();
            OPAQUE.contains(&said) || NOT_HTTP.contains(&port.port) && !HTTP.contains(&said)
        }
    }
}

/// Whether a port says that it is HTTP, so that its requests may be looked at without a VirtualService.
pub fn says_http(port: &ServicePort) -> bool {
    let says = |text: &str| matches!(text.to_ascii_lowercase().as_str(), "http" | "http1" | "http/1.1");
    match port.app_protocol.as_deref().filter(|said| !said.is_empty()) {
        Some(said) => says(said),
        None => says(port.name.as_deref().unwrap_or_default().split('-').next().unwrap_or_default()),
    }
}

/// Whether a port says that it is gRPC: each of its requests may go to another pod.
pub fn says_grpc(port: &ServicePort) -> bool {
    match port.app_protocol.as_deref().filter(|said| !said.is_empty()) {
        Some(said) => said.eq_ignore_ascii_case("grpc"),
        None => port.name.as_deref().unwrap_or_default().split('-').next() == Some("grpc"),
    }
}

/// Namespace and name of the service account that the pod's proxy proves.
fn account(pod: &Pod) -> Option<String> {
    let spec = pod.spec.as_ref().filter(|spec| takes_inbound(spec) && spec.host_network != Some(true))?;
    let account = spec.service_account_name.as_deref().unwrap_or("default");
    Some(format!("{}/{account}", pod.metadata.namespace.as_deref().unwrap_or_default()))
}

/// Those that are ready; if nobody is, those that still serve while they end or are drained.
pub fn endpoints(
    slices: &[Arc<EndpointSlice>],
    port_name: &str,
    pods: &[Arc<Pod>],
    drained: &BTreeSet<String>,
) -> Vec<Endpoint> {
    let name = |pod: &Pod| pod.metadata.name.clone().unwrap_or_default();
    let accounts: HashMap<String, Option<String>> =
        pods.iter().map(|pod| (name(pod), account(pod))).collect();
    let (mut ready, mut serving) = (Vec::new(), Vec::new());
    // Proxies speak IPv4 to each other. A pod of two families is in slices of both.
    let has_v4 = slices.iter().any(|slice| slice.address_type == "IPv4");
    for slice in slices.iter().filter(|slice| !has_v4 || slice.address_type == "IPv4") {
        let mut ports = slice.ports.iter().flatten();
        let named = ports.find(|port| port.name.as_deref().unwrap_or_default() == port_name);
        let Some(number) = named.and_then(|port| u16::try_from(port.port?).ok()) else { continue };
        for endpoint in slice.endpoints.iter().flatten() {
            let Some(Ok(ip)) = endpoint.addresses.first().map(|text| text.parse::<IpAddr>()) else {
                continue;
            };
            let pod = endpoint.target_ref.as_ref().filter(|to| to.kind.as_deref() == Some("Pod"));
            let pod = pod.and_then(|pod| pod.name.clone()).unwrap_or_default();
            let account = accounts.get(&pod).cloned().flatten();
            let one = Endpoint { pod, address: SocketAddr::new(ip, number), account };
            let conditions = endpoint.conditions.as_ref();
            let is_ready = conditions.and_then(|c| c.ready).unwrap_or(true);
            if is_ready && drained.contains(&one.pod) {
                serving.push(one);
            } else if is_ready {
                ready.push(one);
            } else if conditions.and_then(|c| c.serving).unwrap_or(false) {
                serving.push(one);
            }
        }
    }
    let mut found = if ready.is_empty() { serving } else { ready };
    found.sort();
    found.dedup();
    found
}

/// `None` if there is no such Subset.
fn members(inputs: &Inputs, name: &str, endpoints: &[Endpoint]) -> Option<Vec<Endpoint>> {
    let subset = inputs.subsets.iter().find(|subset| subset.metadata.name.as_deref() == Some(name))?;
    let selector = subset.spec.selector.as_ref().map(|selector| Selector::new(Some(selector)));
    let is_member = |endpoint: &&Endpoint| match &selector {
        None => subset.spec.pods.contains(&endpoint.pod),
        Some(selector) => {
            let named = |pod: &&Arc<Pod>| pod.metadata.name.as_deref() == Some(&endpoint.pod);
            inputs.pods.iter().find(named).is_some_and(|pod| selector.matches_object(&pod.metadata))
        }
    };
    Some(endpoints.iter().filter(is_member).cloned().collect())
}

/// One rule for all requests. The share of a subset without pods goes to the others, also to those with a weight of 0 if
/// there are no more; and to all pods of the Service if no subset has any.
fn weighted(found: &[(&SubsetRoute, Option<Vec<Endpoint>>)], all: &[Endpoint]) -> MeshRule {
    let size = |members: &Option<Vec<Endpoint>>| members.as_ref().map_or(0, Vec::len) as u64;
    if found.iter().all(|(_, members)| size(members) == 0) {
        let endpoints = all.iter().map(|endpoint| mesh_endpoint(endpoint, 1)).collect();
        return MeshRule { endpoints, ..MeshRule::default() };
    }
    let wanted: Vec<(u64, u64)> =
        found.iter().zip(effective(found)).map(|((_, members), weight)| (weight, size(members))).collect();
    let mut sums: BTreeMap<&Endpoint, (u64, Vec<&str>)> = BTreeMap::new();
    for ((route, members), weight) in found.iter().zip(weights::of_endpoints(&wanted)) {
        for member in members.iter().flatten() {
            let (sum, subsets) = sums.entry(member).or_default();
            *sum += weight;
            subsets.extend((weight > 0).then_some(route.name.as_str()));
        }
    }
    let endpoint = |(endpoint, (weight, subsets)): (&Endpoint, (u64, Vec<&str>))| MeshEndpoint {
        subset: (!subsets.is_empty()).then(|| subsets.join("+")),
        ..mesh_endpoint(endpoint, weight)
    };
    let endpoints = sums.into_iter().map(endpoint).collect();
    MeshRule { endpoints, ..MeshRule::default() }
}

fn weight(route: &SubsetRoute) -> u64 {
    u64::try_from(route.weight.unwrap_or_default()).unwrap_or_default()
}

/// The weight of each subset as it counts: none without pods, and the same for all others if their own are all 0.
fn effective(found: &[(&SubsetRoute, Option<Vec<Endpoint>>)]) -> Vec<u64> {
    let has_pods = |members: &Option<Vec<Endpoint>>| members.as_ref().is_some_and(|all| !all.is_empty());
    let is_zero = found.iter().all(|(route, members)| !has_pods(members) || weight(route) == 0);
    let one = |(route, members): &(&SubsetRoute, Option<Vec<Endpoint>>)| match has_pods(members) {
        true if is_zero => 1,
        true => weight(route),
        false => 0,
    };
    found.iter().map(one).collect()
}

/// A rule per subset, in order; subsets without pods let their requests pass on. What nothing matches goes to all.
fn matched(found: &[(&SubsetRoute, Option<Vec<Endpoint>>)], all: &[Endpoint]) -> Vec<MeshRule> {
    let rule = |route: &SubsetRoute, members: &[Endpoint]| MeshRule {
        url: route.url.clone(),
        headers: route.headers.clone(),
        endpoints: members
            .iter()
            .map(|member| MeshEndpoint {
                subset: Some(route.name.clone()).filter(|name| !name.is_empty()),
                ..mesh_endpoint(member, 1)
            })
            .collect(),
    };
    let with_pods = found.iter().filter_map(|(route, members)| {
        let members = members.as_ref().filter(|members| !members.is_empty())?;
        Some(rule(route, members))
    });
    let mut rules: Vec<MeshRule> = with_pods.collect();
    if !rules.iter().any(|rule| rule.url.is_none() && rule.headers.is_empty()) {
        rules.push(rule(&SubsetRoute::default(), all));
    }
    rules
}

pub fn mesh_endpoint(endpoint: &Endpoint, weight: u64) -> MeshEndpoint {
    MeshEndpoint {
        address: endpoint.address.to_string(),
        pod: endpoint.pod.clone(),
        weight,
        service_account: endpoint.account.clone(),
        subset: None,
    }
}

fn statuses(found: &[(&SubsetRoute, Option<Vec<Endpoint>>)]) -> Vec<SubsetStatus> {
    let count = |members: &Option<Vec<Endpoint>>| members.as_ref().map_or(0, Vec::len);
    let weights = effective(found);
    let sum: u64 = weights.iter().sum();
    let all = found.iter().zip(&weights).map(|((route, members), weight)| SubsetStatus {
        name: route.name.clone(),
        ready: i32::try_from(count(members)).unwrap_or(i32::MAX),
        share: route.weight.map(|_| match sum {
            0 => "0%".to_owned(),
            sum => format!("{:.1}%", *weight as f64 * 100.0 / sum as f64),
        }),
    });
    all.collect()
}

/// A Subset of the rules that names a pod that is not there.
fn no_pod(inputs: &Inputs) -> Option<Problem> {
    let is_there = |name: &&String| inputs.pods.iter().any(|pod| pod.metadata.name.as_ref() == Some(*name));
    let routes = &inputs.virtual_service.spec.subsets;
    let named = |subset: &&Arc<Subset>| {
        routes.iter().any(|route| subset.metadata.name.as_deref() == Some(route.name.as_str()))
    };
    let found = inputs
        .subsets
        .iter()
        .filter(named)
        .filter(|subset| subset.spec.selector.is_none())
        .find_map(|subset| Some((subset, subset.spec.pods.iter().find(|name| !is_there(name))?)));
    let (subset, pod) = found?;
    let name = subset.metadata.name.as_deref().unwrap_or_default();
    Some(Problem {
        reason: "PodNotFound",
        message: format!("there is no pod {pod}, which Subset {name} names"),
    })
}

fn missing(found: &[(&SubsetRoute, Option<Vec<Endpoint>>)]) -> Option<Problem> {
    let names = |wanted: fn(&Option<Vec<Endpoint>>) -> bool| -> Vec<&str> {
        found.iter().filter(|(_, members)| wanted(members)).map(|(route, _)| route.name.as_str()).collect()
    };
    let unknown = names(Option::is_none);
    if !unknown.is_empty() {
        let message = format!("there is no Subset {}; its requests go to the others", unknown.join(", "));
        return Some(Problem { reason: "SubsetNotFound", message });
    }
    let empty = names(|members| members.as_ref().is_some_and(Vec::is_empty));
    if empty.is_empty() {
        return None;
    }
    let message = format!(
        "Subset {} has no ready pod that the Service selects; its requests go to the others",
        empty.join(", ")
    );
    Some(Problem { reason: "SubsetEmpty", message })
}

/// Of all that users wrote, and nothing that changes by itself.
fn revision(inputs: &Inputs, addresses: &[String], opaque: bool) -> String {
    let spec = &inputs.virtual_service.spec;
    let mirrored = spec.mirror.as_ref().map(|mirror| mirror.subset.as_str());
    let named = |subset: &&Arc<Subset>| {
        let name = subset.metadata.name.as_deref();
        name.is_some() && name == mirrored || spec.subsets.iter().any(|route| name == Some(&route.name))
    };
    let mut subsets: Vec<_> = inputs
        .subsets
        .iter()
        .filter(named)
        .map(|subset| (subset.metadata.name.as_deref().unwrap_or_default(), &subset.spec))
        .collect();
    subsets.sort_by_key(|(name, _)| *name);
    let text = serde_json::to_string(&(spec, subsets, addresses, opaque)).unwrap_or_default();
    Sha256::digest(text).iter().take(8).map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn from<T: serde::de::DeserializeOwned>(value: Value) -> T {
        serde_json::from_value(value).unwrap()
    }

    /// A Service of three pods: a1 and a2 of version v1, b1 of version v2, and c1, which is not ready.
    fn inputs(subsets: Value) -> Inputs {
        let endpoint = |pod: &str, last: u8, ready: bool| {
            json!({"addresses": [format!("10.0.0.{last}")], "conditions": {"ready": ready},
                "targetRef": {"kind": "Pod", "name": pod}})
        };
        let pod = |name: &str, version: &str| {
            Arc::new(from::<Pod>(json!({"metadata": {"name": name, "labels": {"version": version}}})))
        };
        let by_label = |name: &str| {
            Arc::new(from::<Subset>(json!({"metadata": {"name": name},
                "spec": {"selector": {"matchLabels": {"version": name}}}})))
        };
        let by_name =
            from::<Subset>(json!({"metadata": {"name": "named"}, "spec": {"pods": ["a2", "gone"]}}));
        Inputs {
            drained: BTreeSet::new(),
            virtual_service: Arc::new(from(json!({"metadata": {"name": "x", "namespace": "ns", "uid": "u"},
                "spec": {"serviceRef": "reviews", "port": 80, "subsets": subsets}}))),
            subsets: vec![by_label("v1"), by_label("v2"), by_label("v9"), Arc::new(by_name)],
            service: Some(Arc::new(from(json!({"metadata": {"name": "reviews"},
                "spec": {"clusterIP": "10.96.0.5", "clusterIPs": ["10.96.0.5"], "ports": [{"port": 80}]}})))),
            slices: vec![Arc::new(from(
                json!({"addressType": "IPv4", "metadata": {}, "ports": [{"port": 9080}],
                "endpoints": [endpoint("a1", 1, true), endpoint("a2", 2, true), endpoint("b1", 3, true),
                    endpoint("c1", 4, false)]}),
            ))],
            pods: vec![pod("a1", "v1"), pod("a2", "v1"), pod("b1", "v2"), pod("c1", "v2")],
        }
    }

    /// `condition: address=weight …` lines.
    fn shown(compiled: &Compiled) -> Vec<String> {
        let rule = |rule: &MeshRule| {
            let url = rule.url.iter().map(|url| format!("url {url}: "));
            let headers = rule.headers.iter().map(|(name, value)| format!("{name} {value}: "));
            let endpoints = rule.endpoints.iter().map(|one| format!("{}={}", one.pod, one.weight));
            let endpoints: Vec<String> = endpoints.collect();
            url.chain(headers).collect::<String>() + &endpoints.join(" ")
        };
        compiled.route.rules.iter().map(rule).collect()
    }

    #[test]
    fn rules_of_subsets() {
        let check = |subsets: Value, expected: &[&str]| {
            assert_eq!(shown(&compile(&inputs(subsets.clone())).unwrap()), expected, "{subsets}");
        };
        check(json!([{"name": "v1", "weight": 1}, {"name": "v2", "weight": 2}]), &["a1=1 a2=1 b1=4"]);
        check(json!([{"name": "v1", "weight": 0}, {"name": "v2", "weight": 5}]), &["a1=0 a2=0 b1=1"]);
        check(json!([{"name": "named", "weight": 1}, {"name": "v2", "weight": 1}]), &["a2=1 b1=1"]);
        check(json!([{"name": "v9", "weight": 9}, {"name": "v2", "weight": 1}]), &["b1=1"]);
        check(json!([{"name": "v9", "weight": 100}, {"name": "v2", "weight": 0}]), &["b1=1"]);
        check(json!([{"name": "v9", "weight": 100}]), &["a1=1 a2=1 b1=1"]);
        check(
            json!([{"name": "v2", "headers": {"end-user": "^jason$"}}, {"name": "v1"}]),
            &["end-user ^jason$: b1=1", "a1=1 a2=1"],
        );
        check(json!([{"name": "v2", "url": "^/x"}]), &["url ^/x: b1=1", "a1=1 a2=1 b1=1"]);
        check(json!([{"name": "v9", "url": "^/x"}, {"name": "v2"}]), &["b1=1"]);
        check(json!([{"name": "v2"}]), &["b1=1"]);
    }

    #[test]
    fn shares_and_what_is_missing_are_told() {
        let compiled = compile(&inputs(json!([
            {"name": "v1", "weight": 1}, {"name": "v2", "weight": 2}, {"name": "v9", "weight": 3},
        ])));
        let compiled = compiled.unwrap();
        let shares: Vec<_> = compiled.subsets.iter().map(|s| (s.ready, s.share.clone().unwrap())).collect();
        assert_eq!(shares, [(2, "33.3%".to_owned()), (1, "66.7%".to_owned()), (0, "0.0%".to_owned())]);
        assert_eq!(compiled.missing.unwrap().reason, "SubsetEmpty");
        let unknown = compile(&inputs(json!([{"name": "nobody", "weight": 1}]))).unwrap();
        assert_eq!(unknown.missing.unwrap().reason, "SubsetNotFound");
    }

    #[test]
    fn well_known_port_is_opaque_unless_it_says_http() {
        let check = |port: Value, expected: bool| {
            assert_eq!(is_opaque(&from(port.clone())), expected, "{port}");
        };
        check(json!({"port": 3306}), true);
        check(json!({"port": 5432, "name": "db"}), true);
        check(json!({"port": 6379, "name": "http-admin"}), false);
        check(json!({"port": 25, "appProtocol": "http"}), false);
        check(json!({"port": 80}), false);
        check(json!({"port": 80, "name": "mysql"}), true);
    }

    #[test]
    fn subset_with_an_unknown_pod_names_it() {
        let missing = |name: &str| compile(&inputs(json!([{"name": name, "weight": 1}]))).unwrap().missing;
        let problem = missing("named").unwrap();
        assert_eq!(problem.reason, "PodNotFound");
        assert!(problem.message.contains("pod gone") && problem.message.contains("Subset named"));
        assert_eq!(missing("v1"), None);
    }

    #[test]
    fn problems() {
        let reason = |change: fn(&mut Inputs)| {
            let mut inputs = inputs(json!([{"name": "v1", "url": "x"}]));
            change(&mut inputs);
            compile(&inputs).unwrap_err().reason
        };
        fn service(inputs: &mut Inputs, spec: Value) {
            inputs.service = Some(Arc::new(from(json!({"spec": spec}))));
        }
        assert_eq!(reason(|inputs| inputs.service = None), "NoService");
        assert_eq!(
            reason(|i| service(i, json!({"clusterIP": "10.0.0.1", "ports": [{"port": 1}]}))),
            "NoPort"
        );
        assert_eq!(
            reason(|i| service(i, json!({"clusterIP": "None", "ports": [{"port": 80}]}))),
            "NoAddress"
        );
        assert_eq!(
            reason(|i| service(
                i,
                json!({"clusterIP": "10.0.0.1", "ports": [{"port": 80, "appProtocol": "mongo"}]})
            )),
            "NotHTTP"
        );
        let mut grpc = inputs(json!([{"name": "v1", "url": "x"}]));
        service(&mut grpc, json!({"clusterIP": "10.0.0.1", "ports": [{"port": 80, "appProtocol": "grpc"}]}));
        let route = compile(&grpc).unwrap().route;
        assert!(route.grpc && route.opaque, "older proxies do not look into it");
    }

    #[test]
    fn revision_follows_users_not_endpoints() {
        let route = |weight: i32| compile(&inputs(json!([{"name": "v1", "weight": weight}]))).unwrap().route;
        let mut fewer = inputs(json!([{"name": "v1", "weight": 1}]));
        fewer.slices.clear();
        assert_eq!(route(1).revision, compile(&fewer).unwrap().route.revision);
        assert_ne!(route(1).revision, route(2).revision);
    }
}
