//! What slurmrestd's lists of jobs show, as a look at a login node would. Foreign words: whatever cannot be read is left out.
//!
//! How a job ended is the controller's word, which it keeps for some minutes: the accounts of v0.0.38 give every job's exit
//! code as 0 (Slurm 22.05.8; sacct has the right one). They tell what it used, and of jobs that the controller has
//! forgotten, whose code may stand in the comment.

use std::collections::BTreeSet;

use jiff::Timestamp;
use serde_json::Value;

use super::super::Place;
use super::script::{Told, told};
use crate::decide::is_terminal;
use crate::seen::{AccountRow, QueueRow, Seen, TaskId};

/// The jobs of the lowest number, and the numbers of others of the same name that have not ended: submitted twice.
pub fn first(jobs: Vec<Value>) -> (Vec<Value>, BTreeSet<i64>) {
    let lowest = jobs.iter().map(|job| id(job).job).min();
    let (ours, others): (Vec<_>, Vec<_>) = jobs.into_iter().partition(|job| Some(id(job).job) == lowest);
    let others = others.iter().filter(|job| !is_terminal(text(job, "job_state")));
    let again = others.map(|job| id(job).job).collect();
    (ours, again)
}

pub fn seen(place: &Place, jobs: &[Value], accounts: Result<Value, String>) -> Seen {
    let mut seen = Seen::nothing();
    // The files come with the job, and are compiled by it.
    (seen.uploaded, seen.built) = (Some(place.digest.clone()), Some(0));
    seen.job_id = jobs.first().map(|job| id(job).job);
    for job in jobs {
        match told(text(job, "comment")) {
            Some(Told::Build(code, words)) => (seen.built, seen.build_log) = (Some(code), words.to_owned()),
            Some(Told::Exit(_, words)) if !words.is_empty() => seen.output_tail += &format!("{words}\n"),
            _ => {}
        }
    }
    let accounts = accounts.map(|answer| answer["jobs"].as_array().cloned().unwrap_or_default());
    let mut rows: Vec<AccountRow> = accounts.iter().flatten().map(of_accounts).collect();
    for job in jobs.iter().filter(|job| is_terminal(text(job, "job_state"))) {
        let ended = of_controller(job);
        match rows.iter_mut().find(|row| row.id == ended.id) {
            Some(row) => {
                let used = (row.total_cpu.clone(), row.max_rss.clone());
                *row = ended;
                (row.total_cpu, row.max_rss) = used;
            }
            None => rows.push(ended),
        }
    }
    seen.queue = Ok(jobs.iter().map(waiting).collect());
    seen.accounts = if rows.is_empty() { accounts.map(|_| Vec::new()) } else { Ok(rows) };
    seen
}

fn id(job: &Value) -> TaskId {
    let number = |field: &str| job[field].as_i64().filter(|number| *number > 0);
    let job_id = number("array_job_id").or(number("job_id")).unwrap_or_default();
    TaskId { job: job_id, index: job["array_task_id"].as_i64().filter(|_| number("array_job_id").is_some()) }
}

fn waiting(job: &Value) -> QueueRow {
    let start = job["start_time"].as_i64().filter(|second| *second > 0);
    let start = start.and_then(|second| Timestamp::from_second(second).ok());
    QueueRow {
        id: id(job),
        number: job["job_id"].as_i64().unwrap_or_default(),
        state: text(job, "job_state").to_owned(),
        reason: text(job, "state_reason").to_owned(),
        start: start.map(|time| time.to_string()).unwrap_or_default(),
        partition: text(job, "partition").to_owned(),
        nodes: text(job, "nodes").to_owned(),
    }
}

fn of_controller(job: &Value) -> AccountRow {
    // As wait(2) gives it.
    let status = job["exit_code"].as_i64().unwrap_or_default();
    let time = |field: &str| job[field].as_i64().unwrap_or_default();
    AccountRow {
        id: id(job),
        state: text(job, "job_state").to_owned(),
        exit_code: i32::try_from((status >> 8) & 0xff).unwrap_or_default(),
        signal: i32::try_from(status & 0x7f).unwrap_or_default(),
        elapsed: clock(time("end_time") - time("start_time")),
        alloc_tres: text(job, "tres_alloc_str").to_owned(),
        nodes: text(job, "nodes").to_owned(),
        partition: text(job, "partition").to_owned(),
        ..AccountRow::default()
    }
}

fn of_accounts(job: &Value) -> AccountRow {
    let array = job["array"]["job_id"].as_i64().filter(|number| *number > 0);
    let steps = job["steps"].as_array().into_iter().flatten();
    let memory = steps.flat_map(|step| step["tres"]["requested"]["max"].as_array().into_iter().flatten());
    let memory = memory.filter(|tres| tres["type"] == "mem").filter_map(|tres| tres["count"].as_i64()).max();
    AccountRow {
        id: TaskId {
            job: array.or(job["job_id"].as_i64()).unwrap_or_default(),
            index: job["array"]["task_id"].as_i64().filter(|_| array.is_some()),
        },
        state: text(&job["state"], "current").to_owned(),
        exit_code: match told(text(&job["comment"], "job")) {
            Some(Told::Exit(code, _) | Told::Build(code, _)) => code,
            None => 0,
        },
        elapsed: clock(job["time"]["elapsed"].as_i64().unwrap_or_default()),
        total_cpu: clock(job["time"]["total"]["seconds"].as_i64().unwrap_or_default()),
        max_rss: memory
            .filter(|bytes| *bytes > 0)
            .map(|bytes| format!("{}K", bytes / 1024))
            .unwrap_or_default(),
        alloc_tres: allocated(&job["tres"]["allocated"]),
        nodes: text(job, "nodes").to_owned(),
        partition: text(job, "partition").to_owned(),
        ..AccountRow::default()
    }
}

/// `cpu=1,gres/gpu=1`.
fn allocated(tres: &Value) -> String {
    let each = tres.as_array().into_iter().flatten().filter_map(|tres| {
        let count = tres["count"].as_i64().filter(|count| *count > 0)?;
        let name = tres["name"].as_str().map(|name| format!("/{name}")).unwrap_or_default();
        Some(format!("{}{name}={count}", tres["type"].as_str()?))
    });
    each.collect::<Vec<_>>().join(",")
}

/// `[D-]HH:MM:SS`, as Slurm writes it.
fn clock(seconds: i64) -> String {
    let seconds = seconds.max(0);
    let (days, rest) = (seconds / 86_400, seconds % 86_400);
    let time = format!("{:02}:{:02}:{:02}", rest / 3600, rest / 60 % 60, rest % 60);
    if days > 0 { format!("{days}-{time}") } else { time }
}

fn text<'a>(value: &'a Value, field: &str) -> &'a str {
    value[field].as_str().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn place() -> Place {
        let text = String::new;
        Place {
            directory: text(),
            name: text(),
            comment: text(),
            attempt: text(),
            since: text(),
            id: None,
            digest: "abc".to_owned(),
        }
    }

    fn job(id: i64, state: &str, more: Value) -> Value {
        let mut job = json!({"job_id": id, "array_job_id": 0, "array_task_id": null, "job_state": state,
            "state_reason": "None", "exit_code": 0, "start_time": 100, "end_time": 165, "partition": "p", "nodes": "n1"});
        for (field, value) in more.as_object().unwrap() {
            job[field] = value.clone();
        }
        job
    }

    #[test]
    fn ends_are_the_controllers_word_and_what_was_used_the_accounts() {
        let comment = "minik8s ns/j u\nexit 3\nPASS";
        let more = json!({"exit_code": 768, "comment": comment, "tres_alloc_str": "cpu=1,gres/gpu=1"});
        let accounts = json!({"jobs": [
            {"job_id": 7, "state": {"current": "FAILED"}, "exit_code": {"return_code": 0},
             "time": {"elapsed": 65, "total": {"seconds": 61}},
             "steps": [{"tres": {"requested": {"max": [{"type": "mem", "count": 2048}]}}}]},
        ]});
        let seen = seen(&place(), &[job(7, "FAILED", more)], Ok(accounts));
        let rows = seen.accounts.unwrap();
        assert_eq!((rows[0].exit_code, rows[0].signal, rows[0].elapsed.as_str()), (3, 0, "00:01:05"));
        assert_eq!((rows[0].total_cpu.as_str(), rows[0].max_rss.as_str()), ("00:01:01", "2K"));
        assert_eq!((seen.output_tail.as_str(), seen.job_id, seen.built), ("PASS\n", Some(7), Some(0)));
    }

    #[test]
    fn jobs_that_the_controller_forgot_are_in_the_accounts() {
        let accounts = json!({"jobs": [{"job_id": 7, "state": {"current": "FAILED"},
            "comment": {"job": "minik8s ns/j u\nexit 3\n"}, "tres": {"allocated": [
            {"type": "cpu", "name": null, "count": 1}, {"type": "gres", "name": "gpu", "count": 2},
            {"type": "energy", "name": null, "count": null}]}}]});
        let found = seen(&place(), &[], Ok(accounts));
        let rows = found.accounts.unwrap();
        assert_eq!((rows[0].exit_code, rows[0].alloc_tres.as_str()), (3, "cpu=1,gres/gpu=2"));
        let none = seen(&place(), &[], Err("no accounts".to_owned()));
        assert_eq!((none.accounts, none.job_id), (Err("no accounts".to_owned()), None));
    }

    #[test]
    fn a_compile_error_and_arrays_are_read() {
        let broken = json!({"comment": "minik8s ns/j u\nbuild 2\na.cu:1: error", "exit_code": 512});
        let found = seen(&place(), &[job(7, "FAILED", broken)], Ok(Value::Null));
        assert_eq!((found.built, found.build_log.as_str()), (Some(2), "a.cu:1: error"));
        let task =
            |id: i64, index: i64| job(id, "RUNNING", json!({"array_job_id": 3, "array_task_id": index}));
        let found = seen(&place(), &[task(4, 0), task(3, 1)], Ok(Value::Null));
        let ids: Vec<TaskId> = found.queue.unwrap().iter().map(|row| row.id).collect();
        assert_eq!(ids, [TaskId { job: 3, index: Some(0) }, TaskId { job: 3, index: Some(1) }]);
    }

    #[test]
    fn the_first_of_two_is_the_job() {
        let jobs =
            vec![job(9, "PENDING", json!({})), job(7, "RUNNING", json!({})), job(8, "CANCELLED", json!({}))];
        let (ours, again) = first(jobs);
        assert_eq!((ours.len(), ours[0]["job_id"].as_i64(), again), (1, Some(7), BTreeSet::from([9])));
        assert!(first(Vec::new()).0.is_empty());
    }
}
