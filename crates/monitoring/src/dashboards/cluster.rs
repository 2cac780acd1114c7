//! The cluster at a glance.

use super::model::{Dashboard, Unit, panel};

pub const CLUSTER: Dashboard = Dashboard {
    uid: "minik8s-cluster",
    title: "minik8s / Cluster",
    variables: &[],
    panels: &[
        panel(
            "Nodes",
            Unit::Count,
            &[
                ("count(kube_node_info)", "all"),
                ("sum(kube_node_status_condition{condition=\"Ready\",status=\"true\"})", "ready"),
            ],
        ),
        panel("Pods by phase", Unit::Count, &[("sum by (phase) (kube_pod_status_phase)", "{{phase}}")]),
        panel(
            "CPU: used, requested, there",
            Unit::Cores,
            &[
                (
                    "sum(node_namespace_pod_container:container_cpu_usage_seconds_total:sum_irate)",
                    "used by pods",
                ),
                ("sum(kube_pod_container_resource_requests{resource=\"cpu\"})", "requested"),
                ("sum(kube_node_status_allocatable{resource=\"cpu\"})", "allocatable"),
            ],
        ),
        panel(
            "Memory: used, requested, there",
            Unit::Bytes,
            &[
                ("sum(node_namespace_pod_container:container_memory_working_set_bytes)", "used by pods"),
                ("sum(kube_pod_container_resource_requests{resource=\"memory\"})", "requested"),
                ("sum(kube_node_status_allocatable{resource=\"memory\"})", "allocatable"),
            ],
        ),
        panel(
            "CPU by namespace",
            Unit::Cores,
            &[(
                "sum by (namespace) (node_namespace_pod_container:container_cpu_usage_seconds_total:sum_irate)",
                "{{namespace}}",
            )],
        ),
        panel(
            "Memory by namespace",
            Unit::Bytes,
            &[(
                "sum by (namespace) (node_namespace_pod_container:container_memory_working_set_bytes)",
                "{{namespace}}",
            )],
        ),
        panel(
            "Targets of Prometheus",
            Unit::Count,
            &[("sum by (job) (up)", "{{job}} up"), ("count by (job) (up)", "{{job}} all")],
        ),
        panel(
            "Restarts of containers in an hour",
            Unit::Count,
            &[(
                "sum by (namespace) (increase(kube_pod_container_status_restarts_total[1h]))",
                "{{namespace}}",
            )],
        ),
    ],
};
