//! Runs of workflows.

use super::model::{Dashboard, NAMESPACE, Unit, panel};

pub const WORKFLOWS: Dashboard = Dashboard {
    uid: "minik8s-workflows",
    title: "minik8s / Workflows",
    variables: &[NAMESPACE],
    panels: &[
        panel(
            "Runs by phase",
            Unit::Count,
            &[("sum by (phase) (minik8s_workflowrun_status_phase{namespace=~\"$namespace\"})", "{{phase}}")],
        ),
        panel(
            "Runs under way",
            Unit::Count,
            &[(
                "sum by (workflow) (minik8s_workflowrun_status_phase{namespace=~\"$namespace\",phase=\"Running\"})",
                "{{workflow}}",
            )],
        ),
        panel(
            "Runs that failed",
            Unit::Count,
            &[(
                "sum by (workflow) (minik8s_workflowrun_status_phase{namespace=~\"$namespace\",phase=~\"Failed|TimedOut|Aborted\"})",
                "{{workflow}}",
            )],
        ),
        panel(
            "How long runs took",
            Unit::Seconds,
            &[(
                "minik8s_workflowrun_status_completion_time{namespace=~\"$namespace\"} - minik8s_workflowrun_status_start_time{namespace=~\"$namespace\"}",
                "{{workflowrun}}",
            )],
        ),
    ],
};
