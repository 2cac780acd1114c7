//! Requests between pods, as their proxies count them. Empty on clusters without a mesh.

use super::model::{Dashboard, Unit, Variable, panel};

const SOURCE: Variable =
    Variable { name: "namespace", query: "label_values(minik8s_mesh_requests_total, source_namespace)" };

pub const MESH: Dashboard = Dashboard {
    uid: "minik8s-mesh",
    title: "minik8s / Mesh",
    variables: &[SOURCE],
    panels: &[
        panel(
            "Requests by Service and code",
            Unit::PerSecond,
            &[(
                "sum by (destination_service, code) (rate(minik8s_mesh_requests_total{source_namespace=~\"$namespace\"}[$__rate_interval]))",
                "{{destination_service}} {{code}}",
            )],
        ),
        panel(
            "Part that failed",
            Unit::Percent,
            &[(
                "sum by (destination_service) (rate(minik8s_mesh_requests_total{source_namespace=~\"$namespace\",code=~\"5..\"}[5m])) / sum by (destination_service) (rate(minik8s_mesh_requests_total{source_namespace=~\"$namespace\"}[5m]))",
                "{{destination_service}}",
            )],
        ),
        panel(
            "Time of 99 in 100",
            Unit::Seconds,
            &[(
                "histogram_quantile(0.99, sum by (le, destination_service) (rate(minik8s_mesh_request_duration_seconds_bucket{source_namespace=~\"$namespace\"}[5m])))",
                "{{destination_service}}",
            )],
        ),
        panel(
            "Who asks whom",
            Unit::PerSecond,
            &[(
                "sum by (source_workload, destination_service) (rate(minik8s_mesh_requests_total{source_namespace=~\"$namespace\"}[5m]))",
                "{{source_workload}} to {{destination_service}}",
            )],
        ),
        panel(
            "Connections to pods by outcome",
            Unit::PerSecond,
            &[(
                "sum by (what, policy) (rate(minik8s_mesh_inbound_total{destination_namespace=~\"$namespace\"}[5m]))",
                "{{what}} {{policy}}",
            )],
        ),
    ],
};
