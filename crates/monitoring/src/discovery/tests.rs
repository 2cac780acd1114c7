//! Every role against the names of labels that Prometheus' documentation of `kubernetes_sd_config` gives.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::*;

/// What the documentation lists for each role; `*` stands for the name of a label or annotation. What is only there in
/// some cases is not in the list but checked on its own below.
const DOCUMENTED: &[(&str, &[&str])] = &[
    (
        "node",
        &[
            "instance",
            "__meta_kubernetes_node_name",
            "__meta_kubernetes_node_provider_id",
            "__meta_kubernetes_node_label_*",
            "__meta_kubernetes_node_labelpresent_*",
            "__meta_kubernetes_node_annotation_*",
            "__meta_kubernetes_node_annotationpresent_*",
            "__meta_kubernetes_node_address_*",
        ],
    ),
    (
        "service",
        &[
            "__meta_kubernetes_namespace",
            "__meta_kubernetes_service_annotation_*",
            "__meta_kubernetes_service_annotationpresent_*",
            "__meta_kubernetes_service_cluster_ip",
            "__meta_kubernetes_service_label_*",
            "__meta_kubernetes_service_labelpresent_*",
            "__meta_kubernetes_service_name",
            "__meta_kubernetes_service_port_name",
            "__meta_kubernetes_service_port_number",
            "__meta_kubernetes_service_port_protocol",
            "__meta_kubernetes_service_type",
        ],
    ),
    ("pod", POD),
    (
        "endpoints",
        &[
            "__meta_kubernetes_endpoints_name",
            "__meta_kubernetes_endpoints_label_*",
            "__meta_kubernetes_endpoints_labelpresent_*",
            "__meta_kubernetes_endpoints_annotation_*",
            "__meta_kubernetes_endpoints_annotationpresent_*",
            "__meta_kubernetes_endpoint_hostname",
            "__meta_kubernetes_endpoint_node_name",
            "__meta_kubernetes_endpoint_ready",
            "__meta_kubernetes_endpoint_port_name",
            "__meta_kubernetes_endpoint_port_protocol",
            "__meta_kubernetes_endpoint_address_target_kind",
            "__meta_kubernetes_endpoint_address_target_name",
            "__meta_kubernetes_service_name",
            "__meta_kubernetes_service_label_*",
            "__meta_kubernetes_service_labelpresent_*",
            "__meta_kubernetes_service_annotation_*",
            "__meta_kubernetes_service_annotationpresent_*",
        ],
    ),
    (
        "endpointslice",
        &[
            "__meta_kubernetes_endpointslice_name",
            "__meta_kubernetes_endpointslice_label_*",
            "__meta_kubernetes_endpointslice_labelpresent_*",
            "__meta_kubernetes_endpointslice_annotation_*",
            "__meta_kubernetes_endpointslice_annotationpresent_*",
            "__meta_kubernetes_endpointslice_address_target_kind",
            "__meta_kubernetes_endpointslice_address_target_name",
            "__meta_kubernetes_endpointslice_address_type",
            "__meta_kubernetes_endpointslice_endpoint_conditions_ready",
            "__meta_kubernetes_endpointslice_endpoint_conditions_serving",
            "__meta_kubernetes_endpointslice_endpoint_conditions_terminating",
            "__meta_kubernetes_endpointslice_endpoint_topology_*",
            "__meta_kubernetes_endpointslice_endpoint_topology_present_*",
            "__meta_kubernetes_endpointslice_endpoint_hostname",
            "__meta_kubernetes_endpointslice_endpoint_node_name",
            "__meta_kubernetes_endpointslice_endpoint_zone",
            "__meta_kubernetes_endpointslice_port",
            "__meta_kubernetes_endpointslice_port_app_protocol",
            "__meta_kubernetes_endpointslice_port_name",
            "__meta_kubernetes_endpointslice_port_protocol",
            "__meta_kubernetes_service_name",
            "__meta_kubernetes_service_label_*",
            "__meta_kubernetes_service_labelpresent_*",
            "__meta_kubernetes_service_annotation_*",
            "__meta_kubernetes_service_annotationpresent_*",
        ],
    ),
    (
        "ingress",
        &[
            "__meta_kubernetes_namespace",
            "__meta_kubernetes_ingress_name",
            "__meta_kubernetes_ingress_label_*",
            "__meta_kubernetes_ingress_labelpresent_*",
            "__meta_kubernetes_ingress_annotation_*",
            "__meta_kubernetes_ingress_annotationpresent_*",
            "__meta_kubernetes_ingress_class_name",
            "__meta_kubernetes_ingress_scheme",
            "__meta_kubernetes_ingress_host",
            "__meta_kubernetes_ingress_path",
        ],
    ),
];

/// Targets of endpoints have these too.
const POD: &[&str] = &[
    "__meta_kubernetes_namespace",
    "__meta_kubernetes_pod_name",
    "__meta_kubernetes_pod_ip",
    "__meta_kubernetes_pod_label_*",
    "__meta_kubernetes_pod_labelpresent_*",
    "__meta_kubernetes_pod_annotation_*",
    "__meta_kubernetes_pod_annotationpresent_*",
    "__meta_kubernetes_pod_container_init",
    "__meta_kubernetes_pod_container_name",
    "__meta_kubernetes_pod_container_id",
    "__meta_kubernetes_pod_container_image",
    "__meta_kubernetes_pod_container_port_name",
    "__meta_kubernetes_pod_container_port_number",
    "__meta_kubernetes_pod_container_port_protocol",
    "__meta_kubernetes_pod_ready",
    "__meta_kubernetes_pod_phase",
    "__meta_kubernetes_pod_node_name",
    "__meta_kubernetes_pod_host_ip",
    "__meta_kubernetes_pod_uid",
    "__meta_kubernetes_pod_controller_kind",
    "__meta_kubernetes_pod_controller_name",
];

fn metadata(name: &str) -> Value {
    json!({"name": name, "namespace": "shop", "uid": "u-1",
        "labels": {"app.kubernetes.io/name": "web", "kubernetes.io/service-name": "web"},
        "annotations": {"prometheus.io/scrape": "true"}})
}

fn cluster() -> Objects {
    let mut pod_metadata = metadata("web-0");
    pod_metadata["ownerReferences"] =
        json!([{"kind": "Nobody", "name": "x"}, {"kind": "ReplicaSet", "name": "web", "controller": true}]);
    let pod = json!({"metadata": pod_metadata,
        "spec": {"nodeName": "n1",
            "containers": [
                {"name": "main", "image": "web:1", "ports": [
                    {"name": "http", "containerPort": 80}, {"name": "metrics", "containerPort": 9100}]},
                {"name": "side", "image": "side:1"}],
            "initContainers": [{"name": "first", "image": "init:1"}]},
        "status": {"podIP": "10.0.0.5", "hostIP": "192.0.2.1", "phase": "Running",
            "conditions": [{"type": "Ready", "status": "True"}],
            "containerStatuses": [{"name": "main", "containerID": "containerd://c1"}]}});
    let waiting = json!({"metadata": {"name": "new", "namespace": "shop"}, "spec": {"containers": [{}]}});
    let node = json!({"metadata": metadata("n1"), "spec": {"providerID": "lab://n1"}, "status": {
        "addresses": [{"type": "Hostname", "address": "n1"}, {"type": "InternalIP", "address": "192.0.2.1"}],
        "daemonEndpoints": {"kubeletEndpoint": {"Port": 10260}}}});
    let service = json!({"metadata": metadata("web"),
        "spec": {"type": "ClusterIP", "clusterIP": "10.96.0.9", "ports": [{"name": "http", "port": 80}]}});
    let reference = json!({"kind": "Pod", "name": "web-0", "namespace": "shop"});
    let endpoints = json!({"metadata": metadata("web"), "subsets": [{
        "addresses": [{"ip": "10.0.0.5", "nodeName": "n1", "hostname": "h", "targetRef": reference}],
        "notReadyAddresses": [{"ip": "10.0.0.6"}],
        "ports": [{"name": "http", "port": 80, "protocol": "TCP"}]}]});
    let slice = json!({"metadata": metadata("web-abc"), "addressType": "IPv4",
        "endpoints": [{"addresses": ["10.0.0.5"], "nodeName": "n1", "hostname": "h", "zone": "z",
            "conditions": {"ready": true, "serving": true, "terminating": false}, "targetRef": reference,
            "deprecatedTopology": {"kubernetes.io/hostname": "n1"}}],
        "ports": [{"name": "http", "port": 80, "protocol": "TCP", "appProtocol": "http"}]});
    let ingress = json!({"metadata": metadata("front"), "spec": {"ingressClassName": "c",
        "tls": [{"hosts": ["*.example.com"]}],
        "rules": [{"host": "shop.example.com", "http": {"paths": [{"path": "/cart"}]}}, {"host": "plain.org"}]}});
    let mut objects = Objects::default();
    for (kind, list) in [
        (Kind::Pod, vec![pod, waiting]),
        (Kind::Node, vec![node]),
        (Kind::Service, vec![service]),
        (Kind::Endpoints, vec![endpoints]),
        (Kind::EndpointSlice, vec![slice]),
        (Kind::Ingress, vec![ingress]),
    ] {
        objects.put(kind, list);
    }
    objects
}

/// The page as Prometheus reads it: addresses and labels.
fn page(role: &str, query: &str) -> Vec<(String, Value)> {
    let role = Role::parse(role).unwrap();
    let page = role.page(&cluster(), &Selection::parse(query).unwrap());
    let groups: Vec<Value> = serde_json::from_slice(&page).unwrap();
    let group = |group: Value| {
        let targets = group["targets"].as_array().unwrap();
        assert_eq!(targets.len(), 1);
        assert!(group["labels"].as_object().unwrap().values().all(Value::is_string), "{group}");
        (targets[0].as_str().unwrap().to_owned(), group["labels"].clone())
    };
    groups.into_iter().map(group).collect()
}

fn addresses(role: &str) -> Vec<String> {
    page(role, "").into_iter().map(|(address, _)| address).collect()
}

/// The documented name that a label has.
fn documented(name: &str) -> String {
    let open =
        ["labelpresent_", "annotationpresent_", "topology_present_", "topology_", "label_", "annotation_"];
    let cut = open.iter().find_map(|part| name.find(part).map(|at| at + part.len()));
    match cut.or_else(|| name.find("node_address_").map(|at| at + "node_address_".len())) {
        Some(at) => format!("{}*", &name[..at]),
        None => name.to_owned(),
    }
}

#[test]
fn every_documented_label_is_there_and_no_other() {
    for (role, expected) in DOCUMENTED {
        let first = page(role, "").remove(0).1;
        let found: BTreeSet<String> =
            first.as_object().unwrap().keys().map(|name| documented(name)).collect();
        let mut expected: BTreeSet<String> = expected.iter().map(|name| (*name).to_owned()).collect();
        if role.starts_with("endpoint") {
            expected.extend(POD.iter().map(|name| (*name).to_owned()));
        }
        assert_eq!(found, expected, "{role}");
    }
}

#[test]
fn no_label_is_told_twice() {
    let (cluster, all) = (cluster(), Selection::default());
    for role in Role::names() {
        for target in Role::parse(role).unwrap().targets(&cluster, &all) {
            let names: Vec<&str> = target.labels.names().collect();
            let once: BTreeSet<&str> = names.iter().copied().collect();
            assert_eq!(names.len(), once.len(), "{role}: {names:?}");
        }
    }
}

#[test]
fn addresses_are_those_of_prometheus() {
    assert_eq!(addresses("node"), ["192.0.2.1:10260"]);
    // A port each, and containers without one by the bare address; a pod without an address is no target.
    assert_eq!(addresses("pod"), ["10.0.0.5:80", "10.0.0.5:9100", "10.0.0.5", "10.0.0.5"]);
    assert_eq!(addresses("service"), ["web.shop.svc:80"]);
    // The port that the Service does not name is there as well.
    assert_eq!(addresses("endpoints"), ["10.0.0.5:80", "10.0.0.6:80", "10.0.0.5:9100"]);
    assert_eq!(addresses("endpointslice"), ["10.0.0.5:80", "10.0.0.5:9100"]);
    assert_eq!(addresses("ingress"), ["shop.example.com", "plain.org"]);
}

#[test]
fn values_are_told_as_prometheus_tells_them() {
    let check = |role: &str, at: usize, name: &str, want: &str| {
        let labels = page(role, "").remove(at).1;
        assert_eq!(labels[format!("__meta_kubernetes_{name}")], want, "{role} {name}");
    };
    check("pod", 0, "pod_annotation_prometheus_io_scrape", "true");
    check("pod", 0, "pod_label_app_kubernetes_io_name", "web");
    check("pod", 0, "pod_ready", "true");
    check("pod", 0, "pod_controller_kind", "ReplicaSet");
    check("pod", 0, "pod_container_id", "containerd://c1");
    check("pod", 1, "pod_container_port_name", "metrics");
    check("pod", 1, "pod_container_port_protocol", "TCP");
    check("pod", 2, "pod_container_name", "side");
    check("pod", 3, "pod_container_init", "true");
    check("endpoints", 0, "endpoint_ready", "true");
    check("endpoints", 1, "endpoint_ready", "false");
    check("endpoints", 2, "pod_container_port_number", "9100");
    check("endpointslice", 0, "endpointslice_endpoint_conditions_terminating", "false");
    check("endpointslice", 0, "endpointslice_port", "80");
    check("ingress", 0, "ingress_scheme", "https");
    check("ingress", 1, "ingress_scheme", "http");
    check("ingress", 1, "ingress_path", "/");
}

#[test]
fn a_selection_takes_namespaces_and_labels() {
    let count = |query: &str| page("pod", query).len();
    assert_eq!(count("namespace=shop"), 4);
    assert_eq!(count("namespace=other"), 0);
    assert_eq!(count("namespace=other&namespace=shop&labelSelector=app.kubernetes.io/name%3Dweb"), 4);
    assert_eq!(count("labelSelector=app.kubernetes.io/name!%3Dweb"), 0);
}

#[test]
fn services_without_an_address_of_their_own_and_ipv6() {
    let mut objects = Objects::default();
    let named = json!({"metadata": {"name": "db", "namespace": "a"}, "spec": {
        "type": "ExternalName", "externalName": "db.example.com", "ports": [{"port": 5}]}});
    let balanced = json!({"metadata": {"name": "lb", "namespace": "a"}, "spec": {
        "type": "LoadBalancer", "clusterIP": "10.96.0.1", "loadBalancerIP": "192.0.2.9", "ports": [{"port": 5}]}});
    objects.put(Kind::Service, vec![named, balanced]);
    let targets = Role::Service.targets(&objects, &Selection::default());
    assert_eq!(targets[0].labels.get("__meta_kubernetes_service_external_name"), Some("db.example.com"));
    assert_eq!(targets[0].labels.get("__meta_kubernetes_service_cluster_ip"), None);
    assert_eq!(targets[1].labels.get("__meta_kubernetes_service_loadbalancer_ip"), Some("192.0.2.9"));
    assert_eq!(target::joined("fd00::1", 80), "[fd00::1]:80");
}

/// Whatever a pod's owner writes: the page stays JSON, and names stay names of Prometheus.
#[test]
fn hostile_metadata_makes_no_other_label() {
    let pod = json!({"metadata": {"name": "p", "namespace": "n", "uid": 5, "ownerReferences": "none",
            "labels": {"a.b/c\"d\n": "\"},{\"targets\":[\"evil:1\"]"}, "annotations": {"__address__": "evil:1", "é": 7}},
        "spec": {"containers": [{"name": null, "ports": [{"containerPort": "x"}, null, 5]}], "initContainers": 3},
        "status": {"podIP": "10.0.0.1", "conditions": {}, "containerStatuses": [null]}});
    let mut objects = Objects::default();
    objects.put(Kind::Pod, vec![pod, Value::Null, json!([])]);
    let groups: Vec<Value> =
        serde_json::from_slice(&Role::Pod.page(&objects, &Selection::default())).unwrap();
    for group in &groups {
        assert!(group["targets"][0].as_str().unwrap().starts_with("10.0.0.1"), "{group}");
        for name in group["labels"].as_object().unwrap().keys() {
            assert!(name.starts_with("__meta_kubernetes_"), "{name}");
            assert!(name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_'), "{name}");
        }
    }
}
