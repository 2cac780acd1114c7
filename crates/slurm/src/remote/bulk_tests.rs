//! A look costs a cluster the same for one task as for a thousand: squeue once, and sacct once where tasks have ended. The
//! script is run as it is, with programs in the place of Slurm's that count how often they are called; slurmrestd likewise.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use super::*;
use crate::kinds::SlurmClusterSpec;
use crate::quote;

const TASKS: i64 = 1000;

/// Programs that note their name in `calls`, and print this.
fn programs(dir: &Path, squeue: &str, sacct: &str) {
    for (name, text) in [("squeue", squeue), ("sacct", sacct)] {
        std::fs::write(dir.join(format!("{name}.txt")), text).unwrap();
        let (place, program) = (dir.display(), dir.join(name));
        let script = format!("#!/bin/sh\necho {name} >>{place}/calls\ncat {place}/{name}.txt\n");
        std::fs::write(&program, script).unwrap();
        std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
    }
}

/// One look by [`LOOK`] at so many tasks, and which programs it called.
fn look(queue: &str, tasks: i64, exits: &[&str]) -> (Seen, Vec<String>) {
    let dir = tempfile::tempdir().unwrap();
    let account = |task: i64| format!("7_{task}|COMPLETED|0:0|00:00:01|00:01|1K|gres/gpu=1|n1|p\n");
    programs(dir.path(), queue, &(0..tasks).map(account).collect::<String>());
    let job = dir.path().join("job");
    std::fs::create_dir_all(job.join("meta")).unwrap();
    for (file, text) in [("jobid.0", "7\n")].into_iter().chain(exits.iter().map(|file| (*file, "0\n"))) {
        std::fs::write(job.join("meta").join(file), text).unwrap();
    }
    let arguments = [job.to_str().unwrap(), "minik8s-x-0", "0", "2026-01-01"];
    let path = format!("{}:{}", dir.path().display(), std::env::var("PATH").unwrap_or_default());
    let line = quote::script(&format!("{PRELUDE}{LOOK}"), &arguments);
    let output = Command::new("sh").args(["-c", &line]).env("PATH", path).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let calls = std::fs::read_to_string(dir.path().join("calls")).unwrap();
    (Seen::read(&String::from_utf8_lossy(&output.stdout)), calls.lines().map(str::to_owned).collect())
}

/// What squeue prints of an array.
fn array(state: impl Fn(i64) -> &'static str) -> String {
    (0..TASKS).map(|task| format!("7_{task}|{}|{}|None|N/A|p|n1\n", 7 + task, state(task))).collect()
}

#[test]
fn a_look_at_an_array_asks_squeue_once_and_sacct_only_for_ends() {
    let check = |queue: &str, exits: &[&str], expected: &[&str]| {
        let (seen, calls) = look(queue, TASKS, exits);
        assert_eq!(calls, expected);
        assert_eq!(seen.queue.unwrap().len(), queue.lines().count());
        let rows = if expected.len() == 2 { usize::try_from(TASKS).unwrap() } else { 0 };
        assert_eq!(seen.accounts.unwrap().len(), rows);
    };
    let both = &["squeue", "sacct"];
    check(&array(|_| "PENDING"), &[], &["squeue"]);
    check(&array(|task| if task < 9 { "RUNNING" } else { "PENDING" }), &[], &["squeue"]);
    check(&array(|task| if task < 9 { "COMPLETED" } else { "PENDING" }), &[], both);
    check(&array(|_| "COMPLETED"), &[], both);
    // One that ended long ago is no longer in the queue.
    check(&array(|_| "RUNNING"), &["exit.6"], both);
    check("", &[], both);
    check("7|7|RUNNING|None|N/A|p|n1\n", &[], &["squeue"]);
    check("7|7|COMPLETING|None|N/A|p|n1\n", &["exit.7"], &["squeue"]);
    check("7|7|COMPLETED|None|N/A|p|n1\n", &["exit.7"], both);
}

/// A slurmrestd with an array in this state; the paths that it was asked for.
async fn daemon(state: &'static str) -> (String, Arc<Mutex<Vec<String>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let asked: Arc<Mutex<Vec<String>>> = Arc::default();
    let paths = asked.clone();
    let task = move |task: i64| {
        json!({"job_id": 7 + task, "array_job_id": 7, "array_task_id": task, "job_state": state,
            "name": "minik8s-x-0", "user_name": "me"})
    };
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let (mut head, mut buffer) = (Vec::new(), [0; 4096]);
            while !head.ends_with(b"\r\n\r\n") {
                match stream.read(&mut buffer).await {
                    Ok(read) if read > 0 => head.extend_from_slice(&buffer[..read]),
                    _ => break,
                }
            }
            let head = String::from_utf8_lossy(&head).into_owned();
            let path = head.split(' ').nth(1).unwrap_or_default().to_owned();
            let jobs: Value = (0..TASKS).map(&task).collect();
            let body = if path.contains("slurmdb") { json!({"jobs": []}) } else { json!({"jobs": jobs}) };
            paths.lock().unwrap().push(path);
            let body = body.to_string();
            let head =
                format!("HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: {}\r\n\r\n", body.len());
            let _ = stream.write_all(format!("{head}{body}").as_bytes()).await;
        }
    });
    (url, asked)
}

#[tokio::test]
async fn a_look_at_an_array_asks_slurmrestd_once_and_accounts_only_for_ends() {
    for (state, id, expected) in [
        ("RUNNING", Some(7), &["/slurm/v0.0.38/job/7"][..]),
        ("RUNNING", None, &["/slurm/v0.0.38/jobs"]),
        ("COMPLETED", Some(7), &["/slurm/v0.0.38/job/7", "/slurmdb/v0.0.38/jobs?job_name=minik8s-x-0"]),
    ] {
        let (url, asked) = daemon(state).await;
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("token"), "t").unwrap();
        let slurmrestd = serde_json::from_value(json!({"url": url})).unwrap();
        let spec = SlurmClusterSpec { user: "me".to_owned(), slurmrestd, ..SlurmClusterSpec::default() };
        let rest = Remote::Rest(Rest::new(&spec, dir.path(), dir.path()).unwrap());
        let text = |text: &str| text.to_owned();
        let (directory, comment, attempt) = (text("/d"), text("c"), text("0"));
        let (since, digest, name) = (text("2026-01-01"), text("abc"), text("minik8s-x-0"));
        let seen = rest.look(&Place { directory, name, comment, attempt, since, id, digest }).await.unwrap();
        assert_eq!(seen.queue.unwrap().len(), usize::try_from(TASKS).unwrap());
        assert_eq!(*asked.lock().unwrap(), expected, "{state}");
    }
}
