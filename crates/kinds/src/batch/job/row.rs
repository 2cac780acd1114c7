//! How `kubectl get jobs` sums a Job up.

use jiff::Timestamp;
use serde_json::Value;

use crate::human_duration;

pub(super) fn status(job: &Value) -> &'static str {
    let holds = |name: &str| {
        let conditions = job["status"]["conditions"].as_array();
        conditions.into_iter().flatten().any(|c| c["type"] == name && c["status"] == "True")
    };
    match () {
        () if holds("Complete") => "Complete",
        () if holds("Failed") => "Failed",
        () if !job["metadata"]["deletionTimestamp"].is_null() => "Terminating",
        () if holds("Suspended") => "Suspended",
        () if holds("FailureTarget") => "FailureTarget",
        () if holds("SuccessCriteriaMet") => "SuccessCriteriaMet",
        () => "Running",
    }
}

/// `2/5`, or `0/1 of 3` where three pods work on one result.
pub(super) fn completions(job: &Value) -> String {
    let spec = &job["spec"];
    let succeeded = job["status"]["succeeded"].as_i64().unwrap_or(0);
    match (spec["completions"].as_i64(), spec["parallelism"].as_i64().unwrap_or(0)) {
        (Some(completions), _) => format!("{succeeded}/{completions}"),
        (None, parallelism) if parallelism > 1 => format!("{succeeded}/1 of {parallelism}"),
        (None, _) => format!("{succeeded}/1"),
    }
}

/// From the start to the end or to now; empty before the start.
pub(super) fn duration(job: &Value, now: Timestamp) -> String {
    let time = |field: &str| job["status"][field].as_str().and_then(|text| text.parse::<Timestamp>().ok());
    match time("startTime") {
        Some(start) => {
            let end = time("completionTime").unwrap_or(now);
            human_duration(end.as_second() - start.as_second())
        }
        None => String::new(),
    }
}
