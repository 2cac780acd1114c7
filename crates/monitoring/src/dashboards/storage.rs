//! Claims, volumes, and how full they are.

use super::model::{Dashboard, NAMESPACE, Unit, panel};

pub const STORAGE: Dashboard = Dashboard {
    uid: "minik8s-storage",
    title: "minik8s / Storage",
    variables: &[NAMESPACE],
    panels: &[
        panel(
            "Part of volumes in use",
            Unit::Percent,
            &[(
                "kubelet_volume_stats_used_bytes{namespace=~\"$namespace\"} / kubelet_volume_stats_capacity_bytes{namespace=~\"$namespace\"}",
                "{{namespace}}/{{persistentvolumeclaim}}",
            )],
        ),
        panel(
            "Free",
            Unit::Bytes,
            &[(
                "kubelet_volume_stats_available_bytes{namespace=~\"$namespace\"}",
                "{{namespace}}/{{persistentvolumeclaim}}",
            )],
        ),
        panel(
            "Requested",
            Unit::Bytes,
            &[(
                "kube_persistentvolumeclaim_resource_requests_storage_bytes{namespace=~\"$namespace\"}",
                "{{namespace}}/{{persistentvolumeclaim}}",
            )],
        ),
        panel(
            "Claims by phase",
            Unit::Count,
            &[(
                "sum by (phase) (kube_persistentvolumeclaim_status_phase{namespace=~\"$namespace\"})",
                "{{phase}}",
            )],
        ),
        panel(
            "Volumes by phase",
            Unit::Count,
            &[("sum by (phase) (kube_persistentvolume_status_phase)", "{{phase}}")],
        ),
        panel(
            "Capacity of volumes by class",
            Unit::Bytes,
            &[(
                "sum by (storageclass) (kube_persistentvolume_capacity_bytes * on (persistentvolume) group_left (storageclass) kube_persistentvolume_info)",
                "{{storageclass}}",
            )],
        ),
    ],
};
