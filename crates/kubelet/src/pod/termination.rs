//! The message that a container left when it ended.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::Path;

use super::blueprint::{Blueprint, ContainerSpec};
use crate::cri::{ContainerState, PodRecord};

const LONGEST: u64 = 4096;
const LONGEST_FROM_LOG: u64 = 2048;
const MOST_LOG_LINES: usize = 80;

/// Fills in the messages of containers that ended.
pub fn read_messages(record: &mut PodRecord, blueprint: &Blueprint) {
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
            true => continue,
        };
        *message = text;
    }
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
    fn only_the_end_of_a_file_is_read() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), "abcdef").unwrap();
        assert_eq!(tail(file.path(), 3), "def");
        assert_eq!(tail(Path::new("/does/not/exist"), 3), "");
    }
}
