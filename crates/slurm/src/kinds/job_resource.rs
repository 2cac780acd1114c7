//! GPUJob as a kind: columns, defaults, and what may not change. A job that has begun is what it is: only `cancelled` and
//! the time it is kept may change.

use jiff::Timestamp;
use minik8s_api::{At, Cell, Column, FieldErrors, Resource, Strategy, fill, table};
use serde_json::Value;

use super::{GpuJob, job_validation};

pub fn gpu_jobs() -> Resource {
    Resource::of::<GpuJob>(Jobs).in_all().status().counted()
}

struct Jobs;

impl Strategy for Jobs {
    fn default(&self, object: &mut Value) {
        if let Some(spec) = fill::object(object, "spec") {
            fill::field(spec, "backoffLimit", 0);
        }
    }

    fn validate(&self, object: &Value, errors: &mut FieldErrors) {
        job_validation::gpu_job(object, errors);
    }

    fn validate_update(&self, object: &Value, old: &Value, errors: &mut FieldErrors) {
        let (spec, old) = (At::root(object).field("spec"), At::root(old).field("spec"));
        for field in ["cluster", "source", "build", "run", "slurm", "results"] {
            spec.field(field).unchanged(errors, &old.field(field));
        }
        if old.field("cancelled").is_true() && !spec.field("cancelled").is_true() {
            spec.field("cancelled")
                .forbidden(errors, "a cancelled job cannot be brought back: make a new one");
        }
    }

    fn columns(&self) -> Option<Vec<Column>> {
        Some(table::texts_and_wide(
            &["Name", "State", "Slurm-ID", "Partition", "Elapsed", "Age"],
            &["Cluster", "Reason", "Exit-Code", "Message"],
        ))
    }

    fn row(&self, object: &Value, now: Timestamp) -> Vec<Cell> {
        let status = &object["status"];
        vec![
            table::name(object),
            state(status).into(),
            table::text_or(&status["slurmID"], table::NONE).into(),
            table::text_or(&status["partition"], table::NONE).into(),
            elapsed(status, now).into(),
            table::age(object, now),
            table::text_or(&status["cluster"], table::NONE).into(),
            table::text_or(&status["reason"], "").into(),
            table::text_or(&status["exitCode"], table::NONE).into(),
            table::text_or(&status["message"], "").lines().next().unwrap_or_default().into(),
        ]
    }
}

/// `Queued (Resources)`, `Failed (exit code 3)`, `Running (unreachable)`.
fn state(status: &Value) -> String {
    let state = table::text_or(&status["state"], "Pending");
    let detail = match (&status["unreachableSince"], &status["exitCode"], &status["reason"]) {
        (since, _, _) if since.is_string() => Some("unreachable".to_owned()),
        (_, code, _) if state == "Failed" && code.as_i64().is_some_and(|code| code != 0) => {
            Some(format!("exit code {code}"))
        }
        (_, _, reason) if matches!(state.as_str(), "Queued" | "Failed" | "Pending") && reason.is_string() => {
            Some(table::text_or(reason, ""))
        }
        _ => None,
    };
    detail.map_or(state.clone(), |detail| format!("{state} ({detail})"))
}

fn elapsed(status: &Value, now: Timestamp) -> String {
    let time = |field: &str| status[field].as_str().and_then(|text| text.parse::<Timestamp>().ok());
    match (time("startTime"), time("completionTime")) {
        (Some(start), end) => minik8s_api::human_duration(end.unwrap_or(now).as_second() - start.as_second()),
        _ => table::NONE.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn errors(spec: Value) -> Vec<String> {
        let mut object = json!({"metadata": {"name": "j"}, "spec": spec});
        Jobs.default(&mut object);
        let mut errors = FieldErrors::default();
        Jobs.validate(&object, &mut errors);
        errors.iter().map(ToString::to_string).collect()
    }

    fn with(slurm: Value) -> Value {
        json!({"source": {"files": {"a.cu": "x"}}, "run": "./a", "slurm": slurm})
    }

    #[test]
    fn good_jobs_are_accepted() {
        let full = json!({
            "partition": "dgx2", "nodes": 1, "ntasksPerNode": 1, "cpusPerTask": 6, "gpus": 1, "time": "00:10:00",
            "mem": "8G", "account": "x", "qos": "y", "array": "0-3%2", "constraint": "v100&nvlink", "output": "out.txt",
            "error": "err.txt", "modules": ["gcc/8.3.0", "cuda/10.1"], "environment": {"A_B": "it's; $(x)"},
            "options": ["--nice=10", "--requeue"],
        });
        assert_eq!(errors(with(full)), Vec::<String>::new());
        let script =
            json!({"source": {"configMapRef": {"name": "c"}}, "slurm": {"script": "#!/bin/sh\nid\n"}});
        assert_eq!(errors(script), Vec::<String>::new());
    }

    #[test]
    fn bad_jobs_are_refused_at_their_field() {
        #[track_caller]
        fn check(spec: Value, expected: &[&str]) {
            let errors = errors(spec);
            assert_eq!(errors.len(), expected.len(), "{errors:#?}");
            for (error, expected) in errors.iter().zip(expected) {
                assert!(error.starts_with(expected), "{error}\nshould start with {expected}");
            }
        }
        check(json!({}), &["spec.source: Required value: give files", "spec.run: Required value"]);
        check(
            json!({"source": {"files": {"../x": ""}}, "run": "x"}),
            &["spec.source.files[../x]: Invalid value"],
        );
        check(
            json!({"source": {"files": {"a": ""}}, "run": "x", "slurm": {"script": "#!x"}}),
            &["spec.run: Forbidden"],
        );
        for hostile in ["a b", "x\n#SBATCH --uid=0", "'", "$(id)", "`id`", "-x", "a;b", "\"", "a\\b", "é"] {
            check(with(json!({"partition": hostile})), &["spec.slurm.partition: Invalid value"]);
            check(with(json!({"modules": [hostile]})), &["spec.slurm.modules[0]: Invalid value"]);
        }
        check(with(json!({"output": "/etc/x"})), &["spec.slurm.output: Invalid value"]);
        check(with(json!({"gpus": 0})), &["spec.slurm.gpus: Invalid value: 0: must be 1 or more"]);
        check(with(json!({"environment": {"a=b": ""}})), &["spec.slurm.environment[a=b]: Invalid value"]);
        check(with(json!({"options": ["--comment=x"]})), &["spec.slurm.options[0]: Forbidden"]);
        check(with(json!({"options": ["--job=x"]})), &["spec.slurm.options[0]: Forbidden"]);
        check(with(json!({"options": ["-J"]})), &["spec.slurm.options[0]: Invalid value"]);
    }

    #[test]
    fn states_are_told_with_their_reason() {
        let check = |status: Value, expected: &str| assert_eq!(state(&status), expected);
        check(json!({}), "Pending");
        check(json!({"state": "Queued", "reason": "Resources"}), "Queued (Resources)");
        check(json!({"state": "Failed", "exitCode": 3, "reason": "NonZeroExitCode"}), "Failed (exit code 3)");
        check(json!({"state": "Failed", "reason": "CompileError"}), "Failed (CompileError)");
        check(json!({"state": "Running", "reason": "x"}), "Running");
        check(
            json!({"state": "Running", "unreachableSince": "2026-01-01T00:00:00Z"}),
            "Running (unreachable)",
        );
    }
}
