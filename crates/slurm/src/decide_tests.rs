use serde_json::{Value, json};

use super::*;

fn job(change: Value) -> GpuJob {
    let mut object = json!({
        "metadata": {"name": "j", "uid": "u"},
        "spec": {"source": {"files": {"a.cu": "x"}}, "build": "nvcc a.cu", "run": "./a.out"},
    });
    for (pointer, value) in change.as_object().unwrap() {
        let (parent, field) = pointer.rsplit_once('.').unwrap();
        let mut at = &mut object;
        for part in parent.split('.') {
            at = &mut at[part];
        }
        at[field] = value.clone();
    }
    serde_json::from_value(object).unwrap()
}

fn seen(text: &str) -> Seen {
    Seen::read(text)
}

const BUILT: &str = "@@directory\n /d\n@@uploaded\n abc\n@@built\n 0\n";
const JOB: &str = "@@directory\n /d\n@@uploaded\n abc\n@@built\n 0\n@@jobid\n 7\n";

#[track_caller]
fn check(change: Value, text: &str, looks: u32, step: Step, phase: Phase, reason: &str) -> Decision {
    let decision = decide(&job(change), "abc", &seen(text), looks);
    let said = decision.reason.clone().unwrap_or_default();
    assert_eq!((decision.step.clone(), decision.phase, said.as_str()), (step, phase, reason), "{text}");
    decision
}

#[test]
fn steps_follow_from_what_is_there() {
    use Phase::*;
    check(json!({}), "@@absent\n", 0, Step::Upload, Uploading, "");
    check(json!({}), "@@directory\n /d\n@@uploaded\n old\n", 0, Step::Upload, Uploading, "");
    check(json!({}), "@@directory\n /d\n@@uploaded\n abc\n", 0, Step::Build, Compiling, "");
    check(json!({}), BUILT, 0, Step::Submit, Compiling, "");
    check(
        json!({"spec.build": null}),
        "@@directory\n /d\n@@uploaded\n abc\n",
        0,
        Step::Submit,
        Compiling,
        "",
    );
    check(json!({}), JOB, 0, Step::Wait, Queued, "Submitted");
    let text = format!("{JOB}@@squeue 0\n 7|7|PENDING|Resources|2026-11-17T02:00:00|p|\n");
    let waiting = check(json!({}), &text, 0, Step::Wait, Queued, "Resources");
    assert_eq!(waiting.message.as_deref(), Some("expected to start at 2026-11-17T02:00:00"));
    let text = format!("{JOB}@@squeue 0\n 7|7|RUNNING|None|x|p|n1\n");
    check(json!({}), &text, 0, Step::Wait, Running, "");
}

#[test]
fn a_job_in_the_queue_is_ours_even_if_its_number_was_not_written_down() {
    let text = format!("{BUILT}@@squeue 0\n 7|7|RUNNING|None|x|p|n1\n");
    check(json!({}), &text, 0, Step::Wait, Phase::Running, "");
    // Also one that has ended before anybody looked again.
    let text = format!("{BUILT}@@sacct 0\n 7|COMPLETED|0:0|1|1|||n|p\n");
    check(json!({}), &text, 0, Step::Finish, Phase::Completed, "");
}

#[test]
fn errors_of_users_are_told_in_the_tools_words() {
    let text = "@@directory\n /d\n@@uploaded\n abc\n@@built\n 2\n@@buildlog\n a.cu(3): error: expected a ;\n";
    let failed = check(json!({}), text, 0, Step::Finish, Phase::Failed, "CompileError");
    assert_eq!(
        (failed.exit_code, failed.message.as_deref()),
        (Some(2), Some("a.cu(3): error: expected a ;"))
    );
    let text = format!("{BUILT}@@refused\n sbatch: error: invalid partition specified: nope\n");
    let failed = check(json!({}), &text, 0, Step::Finish, Phase::Failed, "SubmissionRefused");
    assert!(failed.message.unwrap().contains("invalid partition"));
    // Of some that it refused Slurm keeps a record.
    let text =
        format!("{text}@@squeue 0\n 7|7|FAILED|BadConstraints|N/A|p|\n@@sacct 0\n 7|FAILED|1:0|1|1||||p\n");
    check(json!({}), &text, 0, Step::Finish, Phase::Failed, "SubmissionRefused");
}

#[test]
fn a_job_that_slurm_would_never_start_fails() {
    for reason in ["PartitionTimeLimit", "BadConstraints", "DependencyNeverSatisfied"] {
        let text = format!("{JOB}@@squeue 0\n 7|7|PENDING|{reason}|N/A|p|\n");
        let failed = check(json!({"spec.backoffLimit": 1}), &text, 0, Step::Finish, Phase::Failed, reason);
        assert!(failed.message.unwrap().contains("never start"));
    }
}

#[test]
fn ends_are_told_with_their_codes() {
    use Phase::*;
    let ended = |state: &str, exit: &str| format!("{JOB}@@sacct 0\n 7|{state}|{exit}|00:01|00:01|||n1|p\n");
    check(json!({}), &ended("COMPLETED", "0:0"), 0, Step::Finish, Completed, "");
    let failed = check(json!({}), &ended("FAILED", "3:0"), 0, Step::Finish, Failed, "NonZeroExitCode");
    assert_eq!((failed.exit_code, failed.message.as_deref()), (Some(3), Some("ended with exit code 3")));
    let killed = check(json!({}), &ended("FAILED", "0:9"), 0, Step::Finish, Failed, "Signal");
    assert_eq!((killed.signal, killed.message.as_deref()), (Some(9), Some("ended by signal 9")));
    check(json!({}), &ended("TIMEOUT", "0:0"), 0, Step::Finish, TimedOut, "TimeLimit");
    check(json!({}), &ended("OUT_OF_MEMORY", "0:125"), 0, Step::Finish, Failed, "OutOfMemory");
    check(json!({}), &ended("CANCELLED by 0", "0:15"), 0, Step::Finish, Cancelled, "CancelledOnCluster");
    check(json!({}), &ended("NODE_FAIL", "0:0"), 0, Step::Finish, Failed, "NodeFail");
}

#[test]
fn a_failed_job_is_tried_again_as_often_as_allowed() {
    let text = format!("{JOB}@@sacct 0\n 7|FAILED|3:0|00:01|00:01|||n1|p\n");
    let allowed = json!({"spec.backoffLimit": 1});
    check(allowed, &text, 0, Step::Retry, Phase::Failed, "NonZeroExitCode");
    let used = json!({"spec.backoffLimit": 1, "metadata.x": 0});
    let mut job = job(used);
    job.status = Some(crate::kinds::GpuJobStatus { attempt: 1, ..Default::default() });
    assert_eq!(decide(&job, "abc", &seen(&text), 0).step, Step::Finish);
    let cancelled = format!("{JOB}@@sacct 0\n 7|CANCELLED|0:0|00:01|00:01|||n1|p\n");
    check(
        json!({"spec.backoffLimit": 1}),
        &cancelled,
        0,
        Step::Finish,
        Phase::Cancelled,
        "CancelledOnCluster",
    );
}

#[test]
fn arrays_tell_which_tasks_failed() {
    let text = format!(
        "{JOB}@@sacct 0\n 7_0|COMPLETED|0:0|1|1|||n|p\n 7_1|FAILED|3:0|1|1|||n|p\n 7_2|COMPLETED|0:0|1|1|||n|p\n"
    );
    let failed = check(
        json!({"spec.slurm": {"array": "0-2"}}),
        &text,
        0,
        Step::Finish,
        Phase::Failed,
        "NonZeroExitCode",
    );
    assert_eq!(failed.message.as_deref(), Some("1 of 3 tasks did not succeed: 1"));
    let tasks = failed.task_statuses();
    assert_eq!((tasks.len(), tasks[1].exit_code), (3, Some(3)));
    // As long as one runs, the array does.
    let text = format!("{text}@@squeue 0\n 7_3|9|RUNNING|None|x|p|n\n");
    check(json!({"spec.slurm": {"array": "0-3"}}), &text, 0, Step::Wait, Phase::Running, "");
}

#[test]
fn a_job_that_slurm_lost_is_not_submitted_again_by_itself() {
    check(json!({}), JOB, LOOKS_UNTIL_LOST, Step::Finish, Phase::Failed, "Lost");
    // sacct still says RUNNING after the controller lost it.
    let text = format!("{JOB}@@sacct 0\n 7|RUNNING|0:0|1|1|||n|p\n");
    check(json!({}), &text, 0, Step::Wait, Phase::Queued, "Submitted");
    let text = format!("{JOB}@@squeue 124\n");
    check(json!({}), &text, LOOKS_UNTIL_LOST, Step::Wait, Phase::Queued, "SlurmUnavailable");
}

#[test]
fn the_end_waits_a_little_for_accounts_and_does_without_where_there_are_none() {
    let text = format!("{JOB}@@squeue 0\n 7|7|FAILED|NonZeroExitCode|x|p|n1\n@@sacct 0\n");
    check(json!({}), &text, 0, Step::Wait, Phase::Running, "Completing");
    check(json!({}), &text, LOOKS_FOR_ACCOUNTS, Step::Finish, Phase::Failed, "NonZeroExitCode");
    let text =
        format!("{JOB}@@squeue 0\n 7|7|FAILED|NonZeroExitCode|x|p|n1\n@@sacct 1\n disabled\n@@exits\n 7 3\n");
    let failed = check(json!({}), &text, 0, Step::Finish, Phase::Failed, "NonZeroExitCode");
    assert_eq!(failed.exit_code, Some(3));
}

#[test]
fn an_unwanted_job_is_cancelled_before_it_is_forgotten() {
    let unwanted = json!({"spec.cancelled": true});
    let running = format!("{JOB}@@squeue 0\n 7|7|RUNNING|None|x|p|n1\n");
    check(unwanted.clone(), &running, 0, Step::Cancel, Phase::Running, "Cancelling");
    check(unwanted.clone(), &format!("{JOB}@@squeue 1\n x\n"), 0, Step::Wait, Phase::Running, "Cancelling");
    check(unwanted.clone(), "@@absent\n@@squeue 0\n", 0, Step::Finish, Phase::Cancelled, "Cancelled");
    let ended = format!("{JOB}@@sacct 0\n 7|CANCELLED by 0|0:0|1|1|||n1|p\n");
    check(unwanted, &ended, 0, Step::Finish, Phase::Cancelled, "Cancelled");
}
