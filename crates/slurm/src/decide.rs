//! What to do next for a job, and what to tell of it: a pure function of the job and of what was seen on the cluster.
//! Every round looks anew, so a program that was killed at any moment goes on where the cluster says it is.

use crate::kinds::{Accounting, GpuJob, Phase, TaskStatus};
use crate::seen::{AccountRow, QueueRow, Seen, TaskId};

/// Ended jobs leave squeue's and enter sacct's list a little apart; after so many looks one that is in neither is lost.
pub const LOOKS_UNTIL_LOST: u32 = 20;
/// After so many looks a job that has ended is told without its accounts.
const LOOKS_FOR_ACCOUNTS: u32 = 6;

/// What to do next.
#[derive(Debug, Clone, PartialEq)]
pub enum Step {
    Upload,
    Build,
    Submit,
    /// Look again in a while.
    Wait,
    /// `scancel`, then look again.
    Cancel,
    /// It has failed and may be tried again.
    Retry,
    /// It is over: bring back what there is, and leave nothing.
    Finish,
}

/// What to do, and what the status says.
#[derive(Debug, Clone, PartialEq)]
pub struct Decision {
    pub step: Step,
    pub phase: Phase,
    pub reason: Option<String>,
    pub message: Option<String>,
    pub exit_code: Option<i32>,
    pub signal: Option<i32>,
    pub tasks: Vec<Task>,
}

/// One task of a job, of all that Slurm says of it.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Task {
    pub id: TaskId,
    pub state: String,
    pub reason: String,
    pub start: String,
    pub partition: String,
    pub nodes: String,
    pub exit_code: Option<i32>,
    pub signal: Option<i32>,
    pub accounting: Option<Accounting>,
}

impl Decision {
    fn new(step: Step, phase: Phase) -> Self {
        Decision {
            step,
            phase,
            reason: None,
            message: None,
            exit_code: None,
            signal: None,
            tasks: Vec::new(),
        }
    }

    fn because(mut self, reason: &str, message: impl Into<String>) -> Self {
        self.reason = Some(reason.to_owned()).filter(|reason| !reason.is_empty());
        self.message = Some(message.into()).filter(|message| !message.is_empty());
        self
    }

    /// The tasks of an array, for the status.
    pub fn task_statuses(&self) -> Vec<TaskStatus> {
        let tasks = self.tasks.iter().filter_map(|task| {
            Some(TaskStatus { index: task.id.index?, state: task.state.clone(), exit_code: task.exit_code })
        });
        tasks.collect()
    }
}

/// `digest` is that of the files to bring; `looks` counts the looks in a row that Slurm answered and that led here.
pub fn decide(job: &GpuJob, digest: &str, seen: &Seen, looks: u32) -> Decision {
    let tasks = tasks(seen);
    let mut decision =
        if job.is_unwanted() { unwanted(seen, &tasks) } else { wanted(job, digest, seen, &tasks, looks) };
    decision.tasks = tasks;
    decision
}

fn unwanted(seen: &Seen, tasks: &[Task]) -> Decision {
    match &seen.queue {
        // Without squeue nobody knows what still runs there.
        Err(trouble) => Decision::new(Step::Wait, Phase::Running).because("Cancelling", trouble.as_str()),
        Ok(_) if tasks.iter().any(|task| !is_terminal(&task.state)) => {
            Decision::new(Step::Cancel, Phase::Running).because("Cancelling", "scancel was sent")
        }
        Ok(_) => Decision::new(Step::Finish, Phase::Cancelled).because("Cancelled", "cancelled on request"),
    }
}

fn wanted(job: &GpuJob, digest: &str, seen: &Seen, tasks: &[Task], looks: u32) -> Decision {
    // Slurm keeps a failed record of some jobs that it refused: those words say more than the record.
    if let Some(words) = seen.refused.as_ref().filter(|_| seen.job_id.is_none()) {
        return Decision::new(Step::Finish, Phase::Failed).because("SubmissionRefused", words.as_str());
    }
    if seen.job_id.is_some() || !tasks.is_empty() {
        return submitted(job, seen, tasks, looks);
    }
    if seen.uploaded.as_deref() != Some(digest) {
        return Decision::new(Step::Upload, Phase::Uploading);
    }
    if job.spec.build.is_some() && seen.built.is_none() {
        return Decision::new(Step::Build, Phase::Compiling);
    }
    compile_error(seen).unwrap_or_else(|| Decision::new(Step::Submit, Phase::Compiling))
}

/// In the compiler's words.
fn compile_error(seen: &Seen) -> Option<Decision> {
    let failed = Decision::new(Step::Finish, Phase::Failed);
    match seen.built? {
        0 => None,
        124 => {
            let message = format!("the build did not end in time\n{}", seen.build_log);
            Some(failed.because("CompileError", message))
        }
        code => Some(Decision {
            exit_code: Some(code),
            ..failed.because("CompileError", seen.build_log.trim_end())
        }),
    }
}

fn submitted(job: &GpuJob, seen: &Seen, tasks: &[Task], looks: u32) -> Decision {
    if let Err(trouble) = &seen.queue {
        return Decision::new(Step::Wait, Phase::Queued).because("SlurmUnavailable", trouble.as_str());
    }
    if tasks.is_empty() {
        return match looks < LOOKS_UNTIL_LOST {
            true => Decision::new(Step::Wait, Phase::Queued).because("Submitted", ""),
            false => retry_or_fail(
                job,
                Decision::new(Step::Finish, Phase::Failed)
                    .because("Lost", "Slurm knows nothing of this job any more: its controller has lost it"),
            ),
        };
    }
    if tasks.iter().any(|task| is_running(&task.state)) {
        return Decision::new(Step::Wait, Phase::Running);
    }
    if let Some(waiting) = tasks.iter().find(|task| !is_terminal(&task.state)) {
        if let Some(why) = never_starts(&waiting.reason) {
            // What cleans up behind it takes it from the queue.
            let message = format!("Slurm would never start it: {why}");
            return Decision::new(Step::Finish, Phase::Failed).because(&waiting.reason, message);
        }
        let known = !matches!(waiting.start.as_str(), "" | "N/A" | "Unknown");
        let message = if known { format!("expected to start at {}", waiting.start) } else { String::new() };
        let reason = if waiting.reason.is_empty() { &waiting.state } else { &waiting.reason };
        return Decision::new(Step::Wait, Phase::Queued).because(reason, message);
    }
    let is_settled = tasks.iter().all(|task| task.exit_code.is_some());
    if seen.accounts.is_ok() && !is_settled && looks < LOOKS_FOR_ACCOUNTS {
        return Decision::new(Step::Wait, Phase::Running)
            .because("Completing", "waiting for Slurm's accounts");
    }
    compile_error(seen).unwrap_or_else(|| ended(job, tasks))
}

/// Reasons to wait that no waiting ends.
fn never_starts(reason: &str) -> Option<&'static str> {
    match reason {
        "PartitionTimeLimit" => Some("its time limit is longer than the partition's"),
        "AssocMaxWallDurationPerJobLimit" | "QOSMaxWallDurationPerJobLimit" => {
            Some("its time limit is longer than its account or QOS allows")
        }
        "BadConstraints" => Some("no nodes of the cluster satisfy its constraints"),
        "DependencyNeverSatisfied" => Some("what it depends on has failed"),
        "InvalidAccount" => Some("its account is not valid"),
        "InvalidQOS" => Some("its QOS is not valid"),
        _ => None,
    }
}

fn ended(job: &GpuJob, tasks: &[Task]) -> Decision {
    let failed = || tasks.iter().filter(|task| task.state != "COMPLETED");
    let Some(worst) = failed().max_by_key(|task| severity(&task.state)) else {
        return Decision { exit_code: Some(0), ..Decision::new(Step::Finish, Phase::Completed) };
    };
    let phase = match worst.state.as_str() {
        "TIMEOUT" | "DEADLINE" => Phase::TimedOut,
        "CANCELLED" => Phase::Cancelled,
        _ => Phase::Failed,
    };
    let reason = match worst.state.as_str() {
        "FAILED" if worst.signal.is_some_and(|signal| signal > 0) => "Signal",
        "FAILED" => "NonZeroExitCode",
        "TIMEOUT" => "TimeLimit",
        "OUT_OF_MEMORY" => "OutOfMemory",
        "NODE_FAIL" | "BOOT_FAIL" => "NodeFail",
        "PREEMPTED" => "Preempted",
        "CANCELLED" => "CancelledOnCluster",
        other => other,
    };
    let message = match job.spec.slurm.array.is_some() {
        true => {
            let indexes: Vec<String> = failed().filter_map(|task| Some(task.id.index?.to_string())).collect();
            format!("{} of {} tasks did not succeed: {}", indexes.len(), tasks.len(), indexes.join(","))
        }
        false => match (worst.signal.filter(|signal| *signal > 0), worst.exit_code) {
            (Some(signal), _) => format!("ended by signal {signal}"),
            (None, Some(code)) => format!("ended with exit code {code}"),
            (None, None) => format!("Slurm says {}", worst.state),
        },
    };
    let ended = Decision {
        exit_code: worst.exit_code,
        signal: worst.signal.filter(|signal| *signal > 0),
        ..Decision::new(Step::Finish, phase).because(reason, message)
    };
    // Whoever cancels on the cluster means it.
    if phase == Phase::Cancelled { ended } else { retry_or_fail(job, ended) }
}

fn retry_or_fail(job: &GpuJob, failed: Decision) -> Decision {
    let is_allowed = job.attempt() < job.spec.backoff_limit.unwrap_or(0);
    if is_allowed { Decision { step: Step::Retry, ..failed } } else { failed }
}

/// squeue and sacct together: what has ended is best known by sacct, what has not by squeue.
fn tasks(seen: &Seen) -> Vec<Task> {
    let queue = seen.queue.as_deref().unwrap_or_default();
    let accounts = seen.accounts.as_deref().unwrap_or_default();
    let mut tasks: Vec<Task> = queue.iter().map(|row| of_queue(row, seen)).collect();
    for row in accounts {
        let account = of_account(row);
        match tasks.iter_mut().find(|task| task.id == row.id) {
            // Requeued jobs have an end in sacct and a life in squeue.
            Some(task) if is_terminal(&task.state) && is_terminal(&row.state) => *task = account,
            Some(_) => {}
            // A row that has no end although squeue knows nothing is of a controller that lost the job.
            None if is_terminal(&row.state) => tasks.push(account),
            None => {}
        }
    }
    tasks.sort_by_key(|task| task.id);
    tasks
}

fn of_queue(row: &QueueRow, seen: &Seen) -> Task {
    // Without accounts, the script's own word.
    let left = seen.exits.get(&row.number).filter(|_| seen.accounts.is_err() && is_terminal(&row.state));
    Task {
        id: row.id,
        state: row.state.clone(),
        reason: row.reason.clone(),
        start: row.start.clone(),
        partition: row.partition.clone(),
        nodes: row.nodes.clone(),
        exit_code: left.copied(),
        ..Task::default()
    }
}

fn of_account(row: &AccountRow) -> Task {
    Task {
        id: row.id,
        state: row.state.clone(),
        partition: row.partition.clone(),
        nodes: row.nodes.clone(),
        exit_code: Some(row.exit_code),
        signal: Some(row.signal),
        accounting: Some(Accounting {
            elapsed: row.elapsed.clone(),
            total_cpu: row.total_cpu.clone(),
            max_rss: row.max_rss.clone(),
            alloc_tres: row.alloc_tres.clone(),
        }),
        ..Task::default()
    }
}

/// Slurm's states after which nothing comes.
pub fn is_terminal(state: &str) -> bool {
    severity(state) > 0
}

fn is_running(state: &str) -> bool {
    matches!(state, "RUNNING" | "COMPLETING" | "SUSPENDED" | "STOPPED" | "STAGE_OUT" | "SIGNALING")
}

/// Which of several ends is told: the highest.
fn severity(state: &str) -> u8 {
    match state {
        "COMPLETED" => 1,
        "CANCELLED" | "REVOKED" => 2,
        "PREEMPTED" => 3,
        "TIMEOUT" | "DEADLINE" => 4,
        "FAILED" => 5,
        "OUT_OF_MEMORY" => 6,
        "NODE_FAIL" | "BOOT_FAIL" | "LAUNCH_FAILED" => 7,
        _ => 0,
    }
}

#[cfg(test)]
#[path = "decide_tests.rs"]
mod tests;
