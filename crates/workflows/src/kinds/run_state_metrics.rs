//! What runs of workflows say of themselves in `/metrics/kube-state`. It tells no step: histories do.

use minik8s_api::state_metrics::{Page, Subject, text};
use serde_json::Value;

const PHASES: [&str; 6] = ["Pending", "Running", "Succeeded", "Failed", "TimedOut", "Aborted"];

/// A run has the name of its workflow as a label: runs of one workflow can be added up.
pub fn write(objects: &[Value], page: &mut Page) {
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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn run_tells_its_phase_and_times() {
        let run = json!({"metadata": {"name": "x", "namespace": "ns"}, "spec": {"workflow": "order"}, "status":
            {"phase": "Succeeded", "startTime": "1970-01-01T00:00:10Z", "completionTime": "1970-01-01T00:00:12Z"}});
        let new = json!({"metadata": {"name": "y", "namespace": "ns"}, "spec": {"workflow": "order"}});
        let mut page = Page::default();
        write(&[run, new], &mut page);
        let page = page.finish();
        let phase = "minik8s_workflowrun_status_phase{namespace=\"ns\",workflowrun=";
        for line in [
            format!("{phase}\"x\",workflow=\"order\",phase=\"Succeeded\"}} 1"),
            format!("{phase}\"x\",workflow=\"order\",phase=\"Running\"}} 0"),
            format!("{phase}\"y\",workflow=\"order\",phase=\"Pending\"}} 1"),
            "minik8s_workflowrun_status_completion_time{namespace=\"ns\",workflowrun=\"x\"} 12".to_owned(),
        ] {
            assert!(page.lines().any(|found| found == line), "{line} is not in\n{page}");
        }
    }
}
