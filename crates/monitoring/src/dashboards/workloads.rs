//! Deployments and what else runs pods.

use super::model::{Dashboard, NAMESPACE, Unit, panel};

pub const WORKLOADS: Dashboard = Dashboard {
    uid: "minik8s-workloads",
    title: "minik8s / Workloads",
    variables: &[NAMESPACE],
    panels: &[
        panel(
            "Deployments: wanted and available",
            Unit::Count,
            &[
                (
                    "kube_deployment_spec_replicas{namespace=~\"$namespace\"}",
                    "{{namespace}}/{{deployment}} wanted",
                ),
                (
                    "kube_deployment_status_replicas_available{namespace=~\"$namespace\"}",
                    "{{namespace}}/{{deployment}} available",
                ),
            ],
        ),
        panel(
            "Pods by workload",
            Unit::Count,
            &[(
                "count by (namespace, workload, workload_type) (namespace_workload_pod:kube_pod_owner:relabel{namespace=~\"$namespace\"})",
                "{{namespace}}/{{workload}} ({{workload_type}})",
            )],
        ),
        panel(
            "CPU by workload",
            Unit::Cores,
            &[(
                "sum by (namespace, workload) (node_namespace_pod_container:container_cpu_usage_seconds_total:sum_irate{namespace=~\"$namespace\"} * on (namespace, pod) group_left (workload) namespace_workload_pod:kube_pod_owner:relabel)",
                "{{namespace}}/{{workload}}",
            )],
        ),
        panel(
            "Memory by workload",
            Unit::Bytes,
            &[(
                "sum by (namespace, workload) (node_namespace_pod_container:container_memory_working_set_bytes{namespace=~\"$namespace\"} * on (namespace, pod) group_left (workload) namespace_workload_pod:kube_pod_owner:relabel)",
                "{{namespace}}/{{workload}}",
            )],
        ),
        panel(
            "Endpoints by Service",
            Unit::Count,
            &[(
                "sum by (namespace, endpoint, ready) (kube_endpoint_address{namespace=~\"$namespace\"})",
                "{{namespace}}/{{endpoint}} ready={{ready}}",
            )],
        ),
        panel(
            "Objects by kind",
            Unit::Count,
            &[("topk(15, max by (resource) (apiserver_storage_objects))", "{{resource}}")],
        ),
    ],
};
