//! Keeps container logs from filling the disk.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use tokio::task::spawn_blocking;
use tracing::warn;

use crate::context::NodeContext;
use crate::pod::DesiredPod;
use crate::sandbox::pod_log_dir;

pub async fn rotate_logs(context: &NodeContext) {
    let settings = &context.config.housekeeping.logs;
    let Ok(rows) = context.runtime.container_rows().await else { return };
    let pods: Vec<_> = context.pods.all().into_iter().map(DesiredPod::new).collect();
    for row in rows.iter().filter(|row| row.running) {
        let Some(pod) = pods.iter().find(|pod| pod.uid == row.pod_uid) else { continue };
        let dir = pod_log_dir(&context.config, pod).join(&row.name);
        let log = dir.join(format!("{}.log", row.attempt));
        let (largest, files, path) = (settings.largest, settings.files, log.clone());
        let rotated = spawn_blocking(move || rotate_if_larger(&path, largest, files)).await;
        match rotated.map_err(io::Error::other).flatten() {
            Ok(true) => {}
            Ok(false) => continue,
            Err(error) => {
                warn!(%error, ?log, "cannot rotate a log");
                continue;
            }
        }
        if let Err(error) = context.runtime.reopen_log(&row.id).await {
            warn!(%error, ?log, "the runtime writes on in the old log");
        }
    }
}

fn rotate_if_larger(log: &Path, largest: u64, files: usize) -> io::Result<bool> {
    if fs::metadata(log).map_or(0, |metadata| metadata.len()) <= largest {
        return Ok(false);
    }
    rotate(log, files, Timestamp::now()).map(|()| true)
}

/// Moves the log aside and removes the oldest ones.
fn rotate(log: &Path, files: usize, now: Timestamp) -> io::Result<()> {
    let time = now.strftime("%Y%m%d-%H%M%S");
    let mut name = log.as_os_str().to_owned();
    name.push(format!(".{time}"));
    fs::rename(log, PathBuf::from(name))?;
    let mut old = rotated(log)?;
    old.sort();
    let surplus = old.len().saturating_sub(files.saturating_sub(1));
    for path in old.into_iter().take(surplus) {
        fs::remove_file(path)?;
    }
    Ok(())
}

fn rotated(log: &Path) -> io::Result<Vec<PathBuf>> {
    let (Some(dir), Some(name)) = (log.parent(), log.file_name()) else { return Ok(Vec::new()) };
    let prefix = format!("{}.", name.to_string_lossy());
    let entries = fs::read_dir(dir)?.flatten();
    let old = entries.filter(|entry| entry.file_name().to_string_lossy().starts_with(&prefix));
    Ok(old.map(|entry| entry.path()).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_files_stay() {
        let dir = tempfile::tempdir().unwrap();
        let log = dir.path().join("0.log");
        for second in 0..7 {
            fs::write(&log, second.to_string()).unwrap();
            rotate(&log, 5, Timestamp::from_second(second).unwrap()).unwrap();
        }
        fs::write(dir.path().join("1.log"), "another").unwrap();
        let mut left: Vec<_> =
            rotated(&log).unwrap().iter().map(|p| fs::read_to_string(p).unwrap()).collect();
        left.sort();
        assert_eq!(left, ["3", "4", "5", "6"]);
    }
}
