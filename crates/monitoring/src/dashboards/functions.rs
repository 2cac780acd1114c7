//! Functions and their instances.

use super::model::{Dashboard, NAMESPACE, Unit, panel};

pub const FUNCTIONS: Dashboard = Dashboard {
    uid: "minik8s-functions",
    title: "minik8s / Functions",
    variables: &[NAMESPACE],
    panels: &[
        panel(
            "Instances: wanted and there",
            Unit::Count,
            &[
                ("minik8s_function_status_desired{namespace=~\"$namespace\"}", "{{function}} wanted"),
                ("minik8s_function_status_replicas{namespace=~\"$namespace\"}", "{{function}} there"),
            ],
        ),
        panel(
            "Instances that get requests",
            Unit::Count,
            &[("minik8s_function_status_ready_replicas{namespace=~\"$namespace\"}", "{{function}}")],
        ),
        panel(
            "Functions whose last start has failed",
            Unit::Count,
            &[("sum by (namespace) (minik8s_function_failed{namespace=~\"$namespace\"})", "{{namespace}}")],
        ),
        panel(
            "Functions",
            Unit::Count,
            &[(
                "count by (namespace) (minik8s_function_created{namespace=~\"$namespace\"})",
                "{{namespace}}",
            )],
        ),
    ],
};
