//! What one look at the cluster shows: read from the text that [`crate::remote::LOOK`] prints. Foreign bytes: whatever
//! cannot be read is left out, nothing here panics.

use std::collections::BTreeMap;

/// All that decisions go by.
#[derive(Debug, Clone, PartialEq)]
pub struct Seen {
    /// The job's directory, where it exists.
    pub directory: Option<String>,
    /// The digest of what was brought there.
    pub uploaded: Option<String>,
    /// How the compiler ended.
    pub built: Option<i32>,
    /// Its last words, where it failed.
    pub build_log: String,
    /// Slurm's number of this attempt.
    pub job_id: Option<i64>,
    /// Slurm's words when it refused this attempt.
    pub refused: Option<String>,
    /// What squeue lists; an error if it could not say.
    pub queue: Result<Vec<QueueRow>, String>,
    /// What sacct lists; an error where there is no accounting.
    pub accounts: Result<Vec<AccountRow>, String>,
    /// Exit codes that the job's own script has left, by Slurm's number of the task.
    pub exits: BTreeMap<i64, i32>,
    /// The end of the job's output, where its files cannot be read.
    pub output_tail: String,
}

/// A line of squeue: one task.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct QueueRow {
    pub id: TaskId,
    /// Slurm's own number of this task.
    pub number: i64,
    pub state: String,
    pub reason: String,
    pub start: String,
    pub partition: String,
    pub nodes: String,
}

/// A line of sacct: one task, with what its steps used.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AccountRow {
    pub id: TaskId,
    pub state: String,
    pub exit_code: i32,
    pub signal: i32,
    pub elapsed: String,
    pub total_cpu: String,
    pub max_rss: String,
    pub alloc_tres: String,
    pub nodes: String,
    pub partition: String,
}

/// `7` or `7_3`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct TaskId {
    pub job: i64,
    pub index: Option<i64>,
}

impl TaskId {
    fn read(text: &str) -> Option<Self> {
        match text.split_once('_') {
            None => Some(TaskId { job: text.parse().ok()?, index: None }),
            Some((job, index)) => Some(TaskId { job: job.parse().ok()?, index: Some(index.parse().ok()?) }),
        }
    }
}

impl Seen {
    pub fn nothing() -> Seen {
        Seen {
            directory: None,
            uploaded: None,
            built: None,
            build_log: String::new(),
            job_id: None,
            refused: None,
            queue: Ok(Vec::new()),
            accounts: Ok(Vec::new()),
            exits: BTreeMap::new(),
            output_tail: String::new(),
        }
    }

    pub fn read(text: &str) -> Seen {
        let mut seen = Seen::nothing();
        for (name, code, body) in sections(text) {
            let first =
                || body.lines().next().map(|line| line.trim().to_owned()).filter(|line| !line.is_empty());
            match name {
                "directory" => seen.directory = first(),
                "uploaded" => seen.uploaded = first(),
                "built" => seen.built = first().and_then(|line| line.parse().ok()),
                "buildlog" => seen.build_log = body,
                "jobid" => seen.job_id = first().and_then(|line| job_id(&line)),
                "refused" => seen.refused = Some(body.trim().to_owned()),
                "squeue" if code == 0 => seen.queue = Ok(body.lines().filter_map(queue_row).collect()),
                "squeue" => seen.queue = Err(trouble("squeue", code, &body)),
                "sacct" if code == 0 => seen.accounts = Ok(account_rows(&body)),
                "sacct" => seen.accounts = Err(trouble("sacct", code, &body)),
                "exits" => seen.exits = body.lines().filter_map(exit).collect(),
                _ => {}
            }
        }
        seen
    }
}

/// Sections begin with `@@NAME [CODE]`; their lines with a space, so that no content can begin one.
fn sections(text: &str) -> Vec<(&str, i32, String)> {
    let mut found: Vec<(&str, i32, String)> = Vec::new();
    for line in text.lines() {
        if let Some(head) = line.strip_prefix("@@") {
            let (name, code) = head.split_once(' ').unwrap_or((head, "0"));
            found.push((name, code.trim().parse().unwrap_or(-1), String::new()));
        } else if let (Some(line), Some((_, _, body))) = (line.strip_prefix(' '), found.last_mut()) {
            body.push_str(line);
            body.push('\n');
        }
    }
    found
}

fn trouble(command: &str, code: i32, said: &str) -> String {
    match code {
        124 => format!("{command} got no answer from Slurm's controller in time"),
        127 => format!("{command} is not installed on the login node, or not in the user's PATH"),
        _ => format!("{command}: {}", said.trim()),
    }
}

/// `sbatch --parsable` prints `ID` or `ID;CLUSTER`.
pub fn job_id(line: &str) -> Option<i64> {
    line.split([';', '_']).next()?.trim().parse().ok()
}

/// `%i|%A|%T|%r|%S|%P|%N`.
fn queue_row(line: &str) -> Option<QueueRow> {
    let mut fields = line.split('|').map(str::trim);
    let mut next = || fields.next().map(str::to_owned);
    let id = TaskId::read(&next()?)?;
    let number = next()?.parse().ok()?;
    Some(QueueRow {
        id,
        number,
        state: next()?,
        reason: next()?,
        start: next()?,
        partition: next()?,
        nodes: next()?,
    })
}

/// Lines of jobs and of their steps (`7.batch`), which alone know how much memory was used.
fn account_rows(text: &str) -> Vec<AccountRow> {
    let mut rows: BTreeMap<TaskId, AccountRow> = BTreeMap::new();
    for line in text.lines() {
        let fields: Vec<&str> = line.split('|').map(str::trim).collect();
        let [id, state, exit, elapsed, cpu, rss, tres, nodes, partition, ..] = fields[..] else { continue };
        let (task, step) = id.split_once('.').map_or((id, None), |(task, step)| (task, Some(step)));
        // Tasks that have not begun are one line: 7_[2-3%2].
        let Some(task) = TaskId::read(task) else { continue };
        if step.is_some() {
            if let Some(row) = rows.get_mut(&task).filter(|row| bytes(rss) > bytes(&row.max_rss)) {
                row.max_rss = rss.to_owned();
            }
            continue;
        }
        let (code, signal) = exit.split_once(':').unwrap_or((exit, "0"));
        let row = AccountRow {
            id: task,
            // "CANCELLED by 0"
            state: state.split(' ').next().unwrap_or_default().to_owned(),
            exit_code: code.parse().unwrap_or(0),
            signal: signal.parse().unwrap_or(0),
            elapsed: elapsed.to_owned(),
            total_cpu: cpu.to_owned(),
            max_rss: rss.to_owned(),
            alloc_tres: tres.to_owned(),
            nodes: nodes.to_owned(),
            partition: partition.to_owned(),
        };
        rows.insert(task, row);
    }
    rows.into_values().collect()
}

/// `1234K`, as Slurm writes memory.
fn bytes(text: &str) -> f64 {
    let scale = match text.chars().last() {
        Some('K') => 1024.0,
        Some('M') => 1024.0 * 1024.0,
        Some('G') => 1024.0 * 1024.0 * 1024.0,
        _ => 1.0,
    };
    text.trim_end_matches(|c: char| c.is_ascii_alphabetic()).parse::<f64>().unwrap_or(0.0) * scale
}

/// `NUMBER CODE`.
fn exit(line: &str) -> Option<(i64, i32)> {
    let (number, code) = line.split_once(' ')?;
    Some((number.parse().ok()?, code.trim().parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_look_is_read() {
        let text = "\
noise of a login shell
@@directory
 /home/me/.minik8s/u-1
@@uploaded
 abc
@@built
 2
@@buildlog
 a.cu(3): error: x
 @@squeue 0
@@jobid
 12;main
@@squeue 0
 12_0|13|RUNNING|None|2026-11-17T01:00:00|dgx2|dgx01
 12_1|14|PENDING|Resources|N/A|dgx2|
 broken
@@sacct 1
 Slurm accounting storage is disabled
@@exits
 13 3
 x y
";
        let seen = Seen::read(text);
        assert_eq!(seen.directory.as_deref(), Some("/home/me/.minik8s/u-1"));
        assert_eq!((seen.uploaded.as_deref(), seen.built, seen.job_id), (Some("abc"), Some(2), Some(12)));
        assert_eq!(
            seen.build_log, "a.cu(3): error: x\n@@squeue 0\n",
            "what the compiler says is only content"
        );
        let queue = seen.queue.unwrap();
        assert_eq!(queue.len(), 2);
        assert_eq!((queue[1].id.index, queue[1].reason.as_str()), (Some(1), "Resources"));
        assert_eq!(seen.accounts, Err("sacct: Slurm accounting storage is disabled".to_owned()));
        assert_eq!(seen.exits, BTreeMap::from([(13, 3)]));
    }

    #[test]
    fn accounts_are_read_with_the_memory_of_steps() {
        let text = "@@sacct 0
 14|FAILED|3:0|00:00:01|00:00.010|||dgx01|dgx2
 14.batch|FAILED|3:0|00:00:01|00:00.010|1536K||dgx01|
 14.extern|COMPLETED|0:0|00:00:01|00:00|2M||dgx01|
 15|CANCELLED by 0|0:15|00:00:00|00:00|||None assigned|dgx2
 16_[2-3%2]|PENDING|0:0|00:00:00|00:00|||None assigned|dgx2
";
        let rows = Seen::read(text).accounts.unwrap();
        assert_eq!(rows.len(), 2);
        assert_eq!((rows[0].exit_code, rows[0].max_rss.as_str()), (3, "2M"));
        assert_eq!((rows[1].state.as_str(), rows[1].signal), ("CANCELLED", 15));
    }

    #[test]
    fn commands_that_fail_say_why() {
        let error = |text: &str| Seen::read(text).queue.unwrap_err();
        assert!(error("@@squeue 124\n").contains("no answer"));
        assert!(error("@@squeue 127\n").contains("not installed"));
        assert_eq!(error("@@squeue 1\n slurm_load_jobs error: x\n"), "squeue: slurm_load_jobs error: x");
    }
}
