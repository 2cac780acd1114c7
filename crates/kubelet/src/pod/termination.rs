//! The message that a container left when it ended.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::Path;

use super::blueprint::{Blueprint, ContainerSpec};
use crate::cri::{ContainerState, PodRecord};

const LONGEST: u64 = 4096;
const LONGEST_FROM_LOG: u64 = 2048;
const MOST_LOG_LINES: usize = 80;

/// Fills in the messages of containers that ended. Their files go with the pod's directory as soon as all have
/// ended; from then on the message is what was `known`, or told.
pub fn read_messages(record: &mut PodRecord, known: &PodRecord, blueprint: &Blueprint) {
    for container in &mut record.containers {
        let ContainerState::Exited { code, message, .. } = &mut container.state else { continue };
        if container.termination_message.is_empty() {
            continue;
        }
        let left = tail(Path::new(&container.termination_message), LONGEST);
        let falls_back = blueprint.container(&container.name).is_some_and(from_log);
        let text = match left.trim().is_empty() {
            false => left,
            true if falls_back && *code != 0 => log_lines(&tail(Path::new(&container.log_path), LONGEST * 2)),
            true => {
                match known_message(known, &container.id).or_else(|| told_message(blueprint, &container.id)) {
                    Some(text) => text,
                    None => continue,
                }
            }
        };
        *message = text;
    }
}

fn known_message(known: &PodRecord, id: &str) -> Option<String> {
    let container = known.containers.iter().find(|container| container.id == id)?;
    match &container.state {
        ContainerState::Exited { message, .. } if !message.is_empty() => Some(message.clone()),
        _ => None,
    }
}

/// What the API object says of that very container.
fn told_message(blueprint: &Blueprint, id: &str) -> Option<String> {
    let status = blueprint.pod.status.as_ref()?;
    let lists = [&status.container_statuses, &status.init_container_statuses];
    let states = lists.into_iter().flatten().flatten().filter_map(|container| container.state.as_ref());
    let mut ends = states.filter_map(|state| state.terminated.as_ref());
    let is_it = |told: &str| told.rsplit_once("://").is_some_and(|(_, told)| told == id);
    ends.find(|end| end.container_id.as_deref().is_some_and(is_it))?.message.clone()
}

fn from_log(spec: &ContainerSpec) -> bool {
    spec.spec.termination_message_policy.as_deref() == Some("FallbackToLogsOnError")
}

fn tail(path: &Path, most: u64) -> String {
    let read = || -> std::io::Result<Vec<u8>> {
        let mut file = File::open(path)?;
        let length = file.metadata()?.len();
        file.seek(SeekFrom::Start(length.saturating_sub(most)))?;
        let mut bytes = Vec::new();
        file.take(most).read_to_end(&mut bytes)?;
        Ok(bytes)
    };
    String::from_utf8_lossy(&read().unwrap_or_default()).into_owned()
}

/// What the container wrote, without the runtime's times and stream names.
fn log_lines(log: &str) -> String {
    let lines: Vec<_> = log.lines().filter_map(|line| line.splitn(4, ' ').nth(3)).collect();
    let last = lines[lines.len().saturating_sub(MOST_LOG_LINES)..].join("\n");
    let start = last.len().saturating_sub(LONGEST_FROM_LOG as usize);
    let start = (start..=last.len()).find(|&n| last.is_char_boundary(n)).unwrap_or(0);
    let newline = if last.is_empty() { "" } else { "\n" };
    format!("{}{newline}", &last[start..])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn log_lines_lose_their_prefix() {
        let log =
            "2026-11-15T18:57:51.1Z stdout F hello\n2026-11-15T18:57:51.2Z stderr F two words\nbroken\n";
        assert_eq!(log_lines(log), "hello\ntwo words\n");
        assert_eq!(log_lines(""), "");
        let long = format!("t stdout F {}é\n", "x".repeat(4000));
        assert!(log_lines(&long).len() <= LONGEST_FROM_LOG as usize + 1);
    }

    #[test]
    fn a_message_outlives_its_file() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("message");
        let record = || {
            let at = jiff::Timestamp::UNIX_EPOCH;
            let (reason, message) = (String::new(), String::new());
            let state = ContainerState::Exited { started: None, finished: at, code: 0, reason, message };
            let container = crate::cri::ContainerRecord {
                id: "c".into(),
                sandbox_id: "s".into(),
                name: "main".into(),
                attempt: 0,
                state,
                image: String::new(),
                image_id: String::new(),
                hash: String::new(),
                restart_delay: std::time::Duration::ZERO,
                resources: String::new(),
                log_path: String::new(),
                termination_message: file.to_str().unwrap().to_owned(),
            };
            PodRecord { containers: vec![container], ..PodRecord::default() }
        };
        let pod = |status: serde_json::Value| {
            let pod =
                serde_json::json!({"metadata": {"name": "p"}, "spec": {"containers": []}, "status": status});
            Blueprint::new(std::sync::Arc::new(serde_json::from_value(pod).unwrap()))
        };
        let read = |known: &PodRecord, status| {
            let mut seen = record();
            read_messages(&mut seen, known, &pod(status));
            let message = known_message(&seen, "c");
            (seen, message)
        };
        std::fs::write(&file, "DONE").unwrap();
        let (known, message) = read(&PodRecord::default(), serde_json::json!({}));
        assert_eq!(message.as_deref(), Some("DONE"));
        std::fs::remove_file(&file).unwrap();
        assert_eq!(read(&known, serde_json::json!({})).1.as_deref(), Some("DONE"));
        assert_eq!(read(&record(), serde_json::json!({})).1, None);
        let told = |id: &str| {
            let end = serde_json::json!({"exitCode": 0, "containerID": id, "message": "DONE"});
            let main = serde_json::json!({"name": "main", "image": "i", "imageID": "", "ready": false,
                "restartCount": 0, "state": {"terminated": end}});
            serde_json::json!({"containerStatuses": [main]})
        };
        assert_eq!(read(&record(), told("containerd://c")).1.as_deref(), Some("DONE"));
        assert_eq!(read(&record(), told("containerd://other")).1, None);
    }

    #[test]
    fn only_the_end_of_a_file_is_read() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), "abcdef").unwrap();
        assert_eq!(tail(file.path(), 3), "def");
        assert_eq!(tail(Path::new("/does/not/exist"), 3), "");
    }
}
