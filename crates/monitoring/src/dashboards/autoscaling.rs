//! Autoscalers and what they go by.

use super::model::{Dashboard, NAMESPACE, Unit, panel};

pub const AUTOSCALING: Dashboard = Dashboard {
    uid: "minik8s-autoscaling",
    title: "minik8s / Autoscaling",
    variables: &[NAMESPACE],
    panels: &[
        panel(
            "Replicas: wanted and there",
            Unit::Count,
            &[
                (
                    "kube_horizontalpodautoscaler_status_desired_replicas{namespace=~\"$namespace\"}",
                    "{{horizontalpodautoscaler}} wanted",
                ),
                (
                    "kube_horizontalpodautoscaler_status_current_replicas{namespace=~\"$namespace\"}",
                    "{{horizontalpodautoscaler}} there",
                ),
            ],
        ),
        panel(
            "Part of the most replicas",
            Unit::Percent,
            &[(
                "kube_horizontalpodautoscaler_status_desired_replicas{namespace=~\"$namespace\"} / kube_horizontalpodautoscaler_spec_max_replicas{namespace=~\"$namespace\"}",
                "{{horizontalpodautoscaler}}",
            )],
        ),
        panel(
            "Targets",
            Unit::Count,
            &[(
                "kube_horizontalpodautoscaler_spec_target_metric{namespace=~\"$namespace\"}",
                "{{horizontalpodautoscaler}} {{metric_name}} {{metric_target_type}}",
            )],
        ),
        panel(
            "Conditions that hold",
            Unit::Count,
            &[(
                "kube_horizontalpodautoscaler_status_condition{namespace=~\"$namespace\",status=\"true\"}",
                "{{horizontalpodautoscaler}} {{condition}}",
            )],
        ),
    ],
};
