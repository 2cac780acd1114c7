//! Services, names and host names.

use super::model::{Dashboard, NODE, Unit, panel};

pub const NETWORK: Dashboard = Dashboard {
    uid: "minik8s-network",
    title: "minik8s / Network, DNS and router",
    variables: &[NODE],
    panels: &[
        panel(
            "DNS queries",
            Unit::PerSecond,
            &[(
                "sum by (node, type) (rate(coredns_dns_requests_total{node=~\"$node\"}[$__rate_interval]))",
                "{{node}} {{type}}",
            )],
        ),
        panel(
            "DNS answers",
            Unit::PerSecond,
            &[(
                "sum by (node, rcode) (rate(coredns_dns_responses_total{node=~\"$node\"}[$__rate_interval]))",
                "{{node}} {{rcode}}",
            )],
        ),
        panel(
            "DNS: time of 99 in 100",
            Unit::Seconds,
            &[(
                "histogram_quantile(0.99, sum by (le, node) (rate(coredns_dns_request_duration_seconds_bucket{node=~\"$node\"}[5m])))",
                "{{node}}",
            )],
        ),
        panel(
            "Services and endpoints in the rules",
            Unit::Count,
            &[
                ("minik8s_proxy_services{node=~\"$node\"}", "{{node}} Services"),
                ("minik8s_proxy_endpoints{node=~\"$node\"}", "{{node}} endpoints"),
            ],
        ),
        panel(
            "Changes of rules",
            Unit::PerSecond,
            &[(
                "sum by (node) (rate(kubeproxy_sync_proxy_rules_duration_seconds_count{node=~\"$node\"}[5m]))",
                "{{node}}",
            )],
        ),
        panel(
            "Changes of rules: time of 99 in 100",
            Unit::Seconds,
            &[(
                "histogram_quantile(0.99, sum by (le, node) (kubeproxy_sync_proxy_rules_duration_seconds_bucket{node=~\"$node\"}))",
                "{{node}}",
            )],
        ),
        panel(
            "Router: requests by host and code",
            Unit::PerSecond,
            &[(
                "sum by (host, code) (rate(minik8s_router_requests_total{node=~\"$node\"}[5m]))",
                "{{host}} {{code}}",
            )],
        ),
        panel(
            "Router: time of 99 in 100",
            Unit::Seconds,
            &[(
                "histogram_quantile(0.99, sum by (le, host) (rate(minik8s_router_request_duration_seconds_bucket{node=~\"$node\"}[5m])))",
                "{{host}}",
            )],
        ),
        panel(
            "Pods: received",
            Unit::BytesPerSecond,
            &[(
                "sum by (node) (rate(container_network_receive_bytes_total{node=~\"$node\"}[$__rate_interval]))",
                "{{node}}",
            )],
        ),
        panel(
            "Pods: errors",
            Unit::PerSecond,
            &[(
                "sum by (node) (rate(container_network_receive_errors_total{node=~\"$node\"}[$__rate_interval])) + sum by (node) (rate(container_network_transmit_errors_total{node=~\"$node\"}[$__rate_interval]))",
                "{{node}}",
            )],
        ),
    ],
};
