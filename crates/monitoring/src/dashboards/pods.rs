//! Pods and their containers.

use super::model::{Dashboard, NAMESPACE, Unit, panel};

pub const PODS: Dashboard = Dashboard {
    uid: "minik8s-pods",
    title: "minik8s / Pods",
    variables: &[NAMESPACE],
    panels: &[
        panel(
            "CPU",
            Unit::Cores,
            &[(
                "sum by (namespace, pod, container) (rate(container_cpu_usage_seconds_total{namespace=~\"$namespace\",container!=\"\"}[$__rate_interval]))",
                "{{pod}}/{{container}}",
            )],
        ),
        panel(
            "Memory",
            Unit::Bytes,
            &[(
                "sum by (namespace, pod, container) (container_memory_working_set_bytes{namespace=~\"$namespace\",container!=\"\"})",
                "{{pod}}/{{container}}",
            )],
        ),
        panel(
            "Received",
            Unit::BytesPerSecond,
            &[(
                "sum by (namespace, pod) (rate(container_network_receive_bytes_total{namespace=~\"$namespace\"}[$__rate_interval]))",
                "{{pod}}",
            )],
        ),
        panel(
            "Sent",
            Unit::BytesPerSecond,
            &[(
                "sum by (namespace, pod) (rate(container_network_transmit_bytes_total{namespace=~\"$namespace\"}[$__rate_interval]))",
                "{{pod}}",
            )],
        ),
        panel(
            "Restarts",
            Unit::Count,
            &[(
                "sum by (namespace, pod, container) (kube_pod_container_status_restarts_total{namespace=~\"$namespace\"})",
                "{{pod}}/{{container}}",
            )],
        ),
        panel(
            "Ready",
            Unit::Count,
            &[(
                "sum by (namespace) (kube_pod_status_ready{namespace=~\"$namespace\",condition=\"true\"})",
                "{{namespace}}",
            )],
        ),
        panel(
            "Probes",
            Unit::PerSecond,
            &[(
                "sum by (namespace, probe_type, result) (rate(prober_probe_total{namespace=~\"$namespace\"}[$__rate_interval]))",
                "{{namespace}} {{probe_type}} {{result}}",
            )],
        ),
        panel(
            "Processes",
            Unit::Count,
            &[("sum by (namespace, pod) (container_processes{namespace=~\"$namespace\"})", "{{pod}}")],
        ),
    ],
};
