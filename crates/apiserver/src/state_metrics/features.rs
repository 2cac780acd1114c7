//! Kinds of features: functions and runs of workflows. A server without the feature tells nothing of them.

use serde_json::Value;

use super::page::{Page, Subject, text};

const PHASES: [&str; 6] = ["Pending", "Running", "Succeeded", "Failed", "TimedOut", "Aborted"];

pub fn functions(objects: &[Value], page: &mut Page) {
    let of = Subject { objects, label: "function", namespaced: true };
    page.created(of, "minik8s_function_created");
    for (name, help, path) in [
        ("minik8s_function_status_desired", "Instances that demand asks for.", "/status/desired"),
        ("minik8s_function_status_replicas", "Instances there are.", "/status/replicas"),
        ("minik8s_function_status_ready_replicas", "Instances that get requests.", "/status/readyReplicas"),
    ] {
        page.count(of, name, help, path);
    }
    page.gauge(of, "minik8s_function_failed", "Whether its last start has failed.", |function, add| {
        add(&[], f64::from(u8::from(!function["status"]["failure"].is_null())));
    });
}

/// A run has the name of its workflow as a label: runs of one workflow can be added up.
pub fn workflow_runs(objects: &[Value], page: &mut Page) {
    let of = Subject { objects, label: "workflowrun", namespaced: true };
    page.gauge(of, "minik8s_workflowrun_status_phase", "The phase that the run is in.", |run, add| {
        let phase = run["status"]["phase"].as_str().unwrap_or("Pending");
        for known in PHASES {
            let labels = [("workflow", text(&run["spec"]["workflow"])), ("phase", known)];
            add(&labels, f64::from(u8::from(known == phase)));
        }
    });
    for (name, help, path) in [
        ("minik8s_workflowrun_status_start_time", "When it began.", "/status/startTime"),
        ("minik8s_workflowrun_status_completion_time", "When it ended.", "/status/completionTime"),
    ] {
        page.number(of, name, help, path);
    }
}
