//! The disk below the data dir: room, and how long it takes to be sure that something is written.

use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::time::{Duration, Instant};

use super::Finding;

const TRIES: usize = 15;
/// A server waits for the disk before every answer to a write.
const SLOW: Duration = Duration::from_millis(20);
/// Below this part of free room pods are evicted.
const LITTLE: f64 = 0.10;

pub fn check(data_dir: &Path) -> Vec<Finding> {
    // The data dir itself may be still to come.
    let there = data_dir.ancestors().find(|folder| folder.is_dir()).unwrap_or(Path::new("/"));
    let mut findings = Vec::new();
    if let Ok(disk) = nix::sys::statvfs::statvfs(there) {
        findings.push(room(there, disk.blocks_available() as f64 / (disk.blocks() as f64).max(1.0)));
    }
    findings.push(match measure(there) {
        Ok(took) => speed(there, took),
        Err(error) => Finding::broken(
            format!("cannot write below {}: {error}", there.display()),
            "choose another --data-dir, or mend the disk",
        ),
    });
    findings
}

fn room(folder: &Path, free: f64) -> Finding {
    let text = format!("{:.0} % of the disk of {} is free", free * 100.0, folder.display());
    match free < LITTLE {
        false => Finding::fine(text),
        true => Finding::warning(text, "make room: a node with less than 10 % evicts its pods"),
    }
}

fn speed(folder: &Path, took: Duration) -> Finding {
    let text =
        format!("a durable write below {} takes {:.1} ms", folder.display(), took.as_secs_f64() * 1000.0);
    match took > SLOW {
        false => Finding::fine(text),
        true => Finding::warning(text, "put the server's data dir on a faster disk"),
    }
}

/// The median of some small writes.
fn measure(folder: &Path) -> std::io::Result<Duration> {
    let path = folder.join(format!(".minik8s-doctor-{}", std::process::id()));
    let measured = (|| {
        let mut file = File::create_new(&path)?;
        let mut times = Vec::with_capacity(TRIES);
        for _ in 0..TRIES {
            let begun = Instant::now();
            file.write_all(&[0; 4096])?;
            file.sync_data()?;
            times.push(begun.elapsed());
        }
        times.sort_unstable();
        Ok(times[TRIES / 2])
    })();
    let _ = std::fs::remove_file(&path);
    measured
}

#[cfg(test)]
mod tests {
    use super::super::Severity;
    use super::*;

    #[test]
    fn room_and_speed() {
        let here = Path::new("/data");
        let is = |finding: Finding, expected| assert_eq!(finding.severity, expected, "{finding}");
        is(room(here, 0.5), Severity::Fine);
        is(room(here, 0.05), Severity::Warning);
        is(speed(here, Duration::from_millis(2)), Severity::Fine);
        is(speed(here, Duration::from_millis(200)), Severity::Warning);
    }

    #[test]
    fn nothing_is_left() {
        let scratch = tempfile::tempdir().unwrap();
        // The data dir itself need not be there.
        let findings = check(&scratch.path().join("data/dir"));
        assert!(
            findings.iter().any(|finding| finding.text.contains("a durable write below")),
            "{findings:?}"
        );
        assert_eq!(std::fs::read_dir(scratch.path()).unwrap().count(), 0);
        let missing = measure(&scratch.path().join("missing"));
        assert!(missing.is_err(), "{missing:?}");
    }
}
