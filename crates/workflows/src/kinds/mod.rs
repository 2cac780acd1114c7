//! The kinds Workflow and WorkflowRun: their fields, rules and columns.

mod run_state_metrics;
mod workflow;
mod workflow_rules;
mod workflow_run;
mod workflow_run_rules;

pub use workflow::{History, Workflow, WorkflowSpec, WorkflowType};
pub use workflow_rules::{Located, parse_definition, resource as workflow};
pub use workflow_run::{Iteration, Phase, Stop, WorkflowRun, WorkflowRunSpec, WorkflowRunStatus};
pub use workflow_run_rules::{resource as workflow_run, run_name};

/// Any JSON value.
fn any(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
    schemars::json_schema!({"x-kubernetes-preserve-unknown-fields": true})
}
