//! The message that a container left when it ended.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::Path;

use k8s_openapi::api::core::v1 as core;

use super::desired_pod::{ContainerSpec, DesiredPod};
use crate::cri::{ContainerState, PodRecord};
use crate::log_file::{Line, tail_offset};

const LONGEST: u64 = 4096;
const LONGEST_FROM_LOG: usize = 2048;
const MOST_LOG_LINES: u64 = 80;
/// Of the log file: several of the longest lines that runtimes write.
const LONGEST_LOG_READ: u64 = 64 << 10;
const LONGEST_OF_POD: usize = 12 << 10;

/// Whether there is anything to read.
pub fn left_messages(record: &PodRecord, known: &PodRecord) -> bool {
    record.containers.iter().any(|container| {
        container.exit_code().is_some()
            && !container.termination_message.is_empty()
            && known_message(known, &container.id).is_none()
    })
}

/// Fills in the messages of containers that ended. Each is read once: its file goes with the pod's directory as soon
/// as all have ended. From then on the message is what was `known`, or told. Blocks.
pub fn read_messages(record: &mut PodRecord, known: &PodRecord, desired_pod: &DesiredPod) {
    for container in &mut record.containers {
        let ContainerState::Exited { code, message, .. } = &mut container.state else { continue };
        if container.termination_message.is_empty() {
            continue;
        }
        if let Some(known) = known_message(known, &container.id) {
            *message = known;
            continue;
        }
        let falls_back = *code != 0 && desired_pod.container(&container.name).is_some_and(from_log);
        let left = match tail(Path::new(&container.termination_message), LONGEST) {
            left if left.is_empty() && falls_back => log_tail(Path::new(&container.log_path)),
            left => String::from_utf8_lossy(&left).into_owned(),
        };
        match (left.is_empty(), message.is_empty()) {
            (true, _) => {
                if let Some(told) = told_message(desired_pod, &container.id) {
                    *message = told;
                }
            }
            (false, true) => *message = left,
            // What the runtime says of the end comes first.
            (false, false) => *message = format!("{message}: {left}"),
        }
    }
}

/// A pod's messages have a bound together, which its containers share.
pub fn shorten(status: &mut core::PodStatus, containers: usize) {
    let longest = LONGEST_OF_POD / containers.max(1);
    let lists = [
        &mut status.container_statuses,
        &mut status.init_container_statuses,
        &mut status.ephemeral_container_statuses,
    ];
    for container in lists.into_iter().flatten().flatten() {
        for state in [&mut container.state, &mut container.last_state].into_iter().flatten() {
            let message = state.terminated.as_mut().and_then(|terminated| terminated.message.as_mut());
            if let Some(message) = message {
                message.truncate(message.floor_char_boundary(longest));
            }
        }
    }
}

/// What was read before, be it nothing.
fn known_message(known: &PodRecord, id: &str) -> Option<String> {
    let container = known.containers.iter().find(|container| container.id == id)?;
    match &container.state {
        ContainerState::Exited { message, .. } => Some(message.clone()),
        _ => None,
    }
}

/// What the API object says of that very container.
fn told_message(desired_pod: &DesiredPod, id: &str) -> Option<String> {
    let status = desired_pod.pod.status.as_ref()?;
    let lists = [&status.container_statuses, &status.init_container_statuses];
    let states = lists.into_iter().flatten().flatten().filter_map(|container| container.state.as_ref());
    let mut ends = states.filter_map(|state| state.terminated.as_ref());
    let is_it = |told: &str| told.rsplit_once("://").is_some_and(|(_, told)| told == id);
    ends.find(|end| end.container_id.as_deref().is_some_and(is_it))?.message.clone()
}

fn from_log(spec: &ContainerSpec) -> bool {
    spec.spec.termination_message_policy.as_deref() == Some("FallbackToLogsOnError")
}

fn tail(path: &Path, most: u64) -> Vec<u8> {
    let read = || -> std::io::Result<Vec<u8>> {
        let mut file = File::open(path)?;
        let length = file.metadata()?.len();
        file.seek(SeekFrom::Start(length.saturating_sub(most)))?;
        let mut bytes = Vec::new();
        file.take(most).read_to_end(&mut bytes)?;
        Ok(bytes)
    };
    read().unwrap_or_default()
}

/// The end of what the container wrote. The runtime's lines are bounded, so that much of the file is enough.
fn log_tail(path: &Path) -> String {
    let read = || -> std::io::Result<Vec<u8>> {
        let start = tail_offset(&mut File::open(path)?, MOST_LOG_LINES)?;
        let length = std::fs::metadata(path)?.len();
        let mut bytes = tail(path, length.saturating_sub(start).min(LONGEST_LOG_READ));
        if length.saturating_sub(start) > LONGEST_LOG_READ {
            // It begins within a line, whose text cannot be told from its head.
            let first = bytes.iter().position(|byte| *byte == b'\n').map_or(bytes.len(), |n| n + 1);
            bytes.drain(..first);
        }
        Ok(bytes)
    };
    log_text(&read().unwrap_or_default())
}

/// What the container wrote, without the runtime's times and stream names. A partial line goes on in the next.
fn log_text(log: &[u8]) -> String {
    let mut text = Vec::new();
    for line in log.split_inclusive(|byte| *byte == b'\n').filter_map(Line::parse) {
        text.extend_from_slice(line.text);
        if !line.partial {
            text.push(b'\n');
        }
    }
    let start = text.len().saturating_sub(LONGEST_FROM_LOG);
    // Not within a character.
    let start = (start..text.len()).find(|&n| text[n] & 0xC0 != 0x80).unwrap_or(start);
    String::from_utf8_lossy(&text[start..]).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn log_message_is_what_the_container_wrote() {
        let check = |log: &str, want: &str| assert_eq!(log_text(log.as_bytes()), want, "{log}");
        check("", "");
        check("t stdout F hello\nt stderr F two words\nbroken\n", "hello\ntwo words\n");
        // `echo -n DONE`: the line never ended.
        check("t stdout P DONE\n", "DONE");
        check(
            "t stdout P one, \nt stdout P still one\nt stdout F .\nt stdout F two\n",
            "one, still one.\ntwo\n",
        );
        check("t stdout F \nt stdout F \n", "\n\n");
        let long = log_text(format!("t stdout F {}\n", "é".repeat(4000)).as_bytes());
        assert!(long.len() <= LONGEST_FROM_LOG && long.trim_end().chars().all(|c| c == 'é'), "{long}");
    }

    #[test]
    fn log_message_has_bounds() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let read = |log: &str| {
            std::fs::write(file.path(), log).unwrap();
            log_tail(file.path())
        };
        let lines: String = (0..100).map(|n| format!("t stdout F {n}\n")).collect();
        let want: String = (20..100).map(|n| format!("{n}\n")).collect();
        assert_eq!(read(&lines), want, "the last 80 lines");
        let wide: String = (0..100).map(|n| format!("t stdout F {n} {}\n", "x y z ".repeat(2000))).collect();
        let got = read(&wide);
        assert_eq!(got.len(), LONGEST_FROM_LOG);
        assert!(got.ends_with("x y z \n"), "{got}");
        assert_eq!(log_tail(Path::new("/does/not/exist")), "");
    }

    #[test]
    fn messages_of_a_pod_share_a_bound() {
        let end = |message: &str| serde_json::json!({"terminated": {"exitCode": 1, "message": message}});
        let text = "é".repeat(5000);
        let container = serde_json::json!({"name": "a", "image": "", "imageID": "", "ready": false,
            "restartCount": 1, "state": end(&text), "lastState": end("short")});
        let status = serde_json::json!({"containerStatuses": [container]});
        let check = |containers: usize, want: usize| {
            let mut status: core::PodStatus = serde_json::from_value(status.clone()).unwrap();
            shorten(&mut status, containers);
            let container = &status.container_statuses.unwrap()[0];
            let message = |state: &Option<core::ContainerState>| {
                state.clone().unwrap().terminated.unwrap().message.unwrap()
            };
            assert_eq!(message(&container.state).len(), want);
            assert_eq!(message(&container.last_state), "short");
        };
        check(1, 10_000);
        check(2, 6144);
        check(5, 2456);
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
            DesiredPod::new(std::sync::Arc::new(serde_json::from_value(pod).unwrap()))
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
        assert_eq!(read(&PodRecord::default(), serde_json::json!({})).1.as_deref(), Some(""));
        let told = |id: &str| {
            let end = serde_json::json!({"exitCode": 0, "containerID": id, "message": "DONE"});
            let main = serde_json::json!({"name": "main", "image": "i", "imageID": "", "ready": false,
                "restartCount": 0, "state": {"terminated": end}});
            serde_json::json!({"containerStatuses": [main]})
        };
        let nothing = PodRecord::default();
        assert_eq!(read(&nothing, told("containerd://c")).1.as_deref(), Some("DONE"));
        assert_eq!(read(&nothing, told("containerd://other")).1.as_deref(), Some(""));
    }

    #[test]
    fn only_the_end_of_a_file_is_read() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), "abcdef").unwrap();
        assert_eq!(tail(file.path(), 3), b"def");
        assert!(tail(Path::new("/does/not/exist"), 3).is_empty());
    }
}
