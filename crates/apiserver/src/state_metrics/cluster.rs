//! Nodes, namespaces, Services and what belongs to namespaces.

use serde_json::Value;

use minik8s_api::state_metrics::{
    Page, Subject, amount, conditions, list, map, one_of, resource_name, text, unit,
};

pub fn nodes(objects: &[Value], page: &mut Page) {
    let of = Subject { objects, label: "node", namespaced: false };
    page.created(of, "kube_node_created");
    page.gauge(of, "kube_node_info", "Information about a cluster node.", |node, add| {
        let info = &node["status"]["nodeInfo"];
        let mut addresses = list(&node["status"]["addresses"]);
        let address = addresses.find(|address| address["type"] == "InternalIP").unwrap_or(&Value::Null);
        let labels = [
            ("kernel_version", text(&info["kernelVersion"])),
            ("os_image", text(&info["osImage"])),
            ("container_runtime_version", text(&info["containerRuntimeVersion"])),
            ("kubelet_version", text(&info["kubeletVersion"])),
            ("kubeproxy_version", text(&info["kubeProxyVersion"])),
            ("provider_id", text(&node["spec"]["providerID"])),
            ("pod_cidr", text(&node["spec"]["podCIDR"])),
            ("system_uuid", text(&info["systemUUID"])),
            ("internal_ip", text(&address["address"])),
        ];
        add(&labels, 1.0);
    });
    page.gauge(of, "kube_node_role", "The role of a cluster node.", |node, add| {
        for (label, _) in map(&node["metadata"]["labels"]) {
            if let Some(role) = label.strip_prefix("node-role.kubernetes.io/") {
                add(&[("role", role)], 1.0);
            }
        }
    });
    page.gauge(of, "kube_node_spec_taint", "The taint of a cluster node.", |node, add| {
        for taint in list(&node["spec"]["taints"]) {
            let labels = [
                ("key", text(&taint["key"])),
                ("value", text(&taint["value"])),
                ("effect", text(&taint["effect"])),
            ];
            add(&labels, 1.0);
        }
    });
    let help = "Whether a node can schedule new pods.";
    page.count(of, "kube_node_spec_unschedulable", help, "/spec/unschedulable");
    page.gauge(of, "kube_node_status_condition", "The condition of a cluster node.", conditions);
    for (what, help) in [
        (
            "allocatable",
            "The allocatable for different resources of a node that are available for scheduling.",
        ),
        ("capacity", "The capacity for different resources of a node."),
    ] {
        page.gauge(of, &format!("kube_node_status_{what}"), help, |node, add| {
            for (resource, value) in map(&node["status"][what]) {
                if let Some(value) = amount(value) {
                    add(&[("resource", &resource_name(resource)), ("unit", unit(resource))], value);
                }
            }
        });
    }
}

pub fn namespaces(objects: &[Value], page: &mut Page) {
    let of = Subject { objects, label: "namespace", namespaced: false };
    page.created(of, "kube_namespace_created");
    page.gauge(of, "kube_namespace_status_phase", "kubernetes namespace status phase.", |namespace, add| {
        one_of("phase", text(&namespace["status"]["phase"]), &["Active", "Terminating"], &[], add);
    });
}

pub fn services(objects: &[Value], page: &mut Page) {
    let of = Subject { objects, label: "service", namespaced: true };
    page.created(of, "kube_service_created");
    page.gauge(of, "kube_service_info", "Information about service.", |service, add| {
        let labels = [
            ("uid", text(&service["metadata"]["uid"])),
            ("cluster_ip", text(&service["spec"]["clusterIP"])),
            ("external_name", text(&service["spec"]["externalName"])),
            ("load_balancer_ip", text(&service["spec"]["loadBalancerIP"])),
        ];
        add(&labels, 1.0);
    });
    page.gauge(of, "kube_service_spec_type", "Type about service.", |service, add| {
        add(&[("type", text(&service["spec"]["type"]))], 1.0);
    });
}

pub fn endpoints(objects: &[Value], page: &mut Page) {
    let of = Subject { objects, label: "endpoint", namespaced: true };
    page.created(of, "kube_endpoint_created");
    page.gauge(of, "kube_endpoint_info", "Information about endpoint.", |_, add| add(&[], 1.0));
    let help = "Information about Endpoint available and non available addresses.";
    page.gauge(of, "kube_endpoint_address", help, |endpoints, add| {
        for subset in list(&endpoints["subsets"]) {
            for (field, ready) in [("addresses", "true"), ("notReadyAddresses", "false")] {
                for (address, port) in list(&subset[field])
                    .flat_map(|address| list(&subset["ports"]).map(move |port| (address, port)))
                {
                    let labels = [
                        ("ip", text(&address["ip"])),
                        ("port_name", text(&port["name"])),
                        ("port_number", &*port["port"].to_string()),
                        ("port_protocol", port["protocol"].as_str().unwrap_or("TCP")),
                        ("ready", ready),
                    ];
                    add(&labels, 1.0);
                }
            }
        }
    });
}

pub fn ingresses(objects: &[Value], page: &mut Page) {
    let of = Subject { objects, label: "ingress", namespaced: true };
    page.created(of, "kube_ingress_created");
    page.gauge(of, "kube_ingress_info", "Information about ingress.", |ingress, add| {
        add(&[("ingressclass", text(&ingress["spec"]["ingressClassName"]))], 1.0);
    });
}

pub fn config_maps(objects: &[Value], page: &mut Page) {
    let of = Subject { objects, label: "configmap", namespaced: true };
    page.created(of, "kube_configmap_created");
    page.gauge(of, "kube_configmap_info", "Information about configmap.", |_, add| add(&[], 1.0));
}

/// Their names and types; never what is in them.
pub fn secrets(objects: &[Value], page: &mut Page) {
    let of = Subject { objects, label: "secret", namespaced: true };
    page.created(of, "kube_secret_created");
    page.gauge(of, "kube_secret_info", "Information about secret.", |_, add| add(&[], 1.0));
    page.gauge(of, "kube_secret_type", "Type about secret.", |secret, add| {
        add(&[("type", text(&secret["type"]))], 1.0);
    });
}

pub fn quotas(objects: &[Value], page: &mut Page) {
    let of = Subject { objects, label: "resourcequota", namespaced: true };
    page.created(of, "kube_resourcequota_created");
    page.gauge(of, "kube_resourcequota", "Information about resource quota.", |quota, add| {
        for kind in ["hard", "used"] {
            for (resource, value) in map(&quota["status"][kind]) {
                if let Some(value) = amount(value) {
                    add(&[("resource", resource), ("type", kind)], value);
                }
            }
        }
    });
}
