//! The clock: certificates and Leases are judged by it, so machines must agree about the time.

use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use super::Finding;

/// Programs that keep a clock right, as the kernel names them (15 letters).
const KEEPERS: [&str; 6] = ["chronyd", "ntpd", "ntpd-rs-daemon", "openntpd", "phc2sys", "systemd-timesyn"];
/// Two clocks of one cluster may differ by this.
const SLACK: Duration = Duration::from_secs(60);

pub fn check(data_dir: &Path) -> Vec<Finding> {
    let mut written: Vec<PathBuf> = std::env::current_exe().into_iter().collect();
    for folder in ["", "pki", "credentials"] {
        let entries = std::fs::read_dir(data_dir.join(folder)).into_iter().flatten().flatten();
        written.extend(entries.map(|entry| entry.path()));
    }
    vec![passed(&written, SystemTime::now()), kept(&running())]
}

/// What was written cannot have been written in the future.
fn passed(written: &[PathBuf], now: SystemTime) -> Finding {
    let modified = |path: &PathBuf| path.metadata().and_then(|found| found.modified()).ok();
    let newest = written.iter().filter_map(|path| Some((modified(path)?, path))).max();
    match newest.and_then(|(at, path)| Some((at.duration_since(now).ok()?, path))) {
        Some((ahead, path)) if ahead > SLACK => Finding::broken(
            format!("the clock is behind: {} was written {} s from now", path.display(), ahead.as_secs()),
            "set the clock; certificates are not valid before they were made",
        ),
        _ => Finding::fine("the clock is not behind what was written here"),
    }
}

fn kept(programs: &[String]) -> Finding {
    match KEEPERS.iter().find(|keeper| programs.iter().any(|program| program == *keeper)) {
        Some(keeper) => Finding::fine(format!("{keeper} keeps the clock")),
        None => Finding::warning(
            "no program keeps the clock of this machine right",
            "apt-get install chrony; fine on a virtual machine whose host does it",
        ),
    }
}

fn running() -> Vec<String> {
    let processes = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let names = processes.filter_map(|entry| std::fs::read_to_string(entry.path().join("comm")).ok());
    names.map(|name| name.trim().to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::super::Severity;
    use super::*;

    #[test]
    fn a_clock_that_is_behind() {
        let scratch = tempfile::tempdir().unwrap();
        let file = scratch.path().join("file");
        std::fs::write(&file, "").unwrap();
        let written = [file.clone(), scratch.path().join("missing")];
        let at = file.metadata().unwrap().modified().unwrap();
        let check = |now: SystemTime, expected| assert_eq!(passed(&written, now).severity, expected);
        check(at, Severity::Fine);
        check(at + Duration::from_secs(1_000_000), Severity::Fine);
        check(at - Duration::from_secs(30), Severity::Fine);
        check(at - Duration::from_secs(3600), Severity::Broken);
        assert_eq!(passed(&[], at).severity, Severity::Fine);
    }

    #[test]
    fn somebody_must_keep_it() {
        let check = |programs: &[&str], expected| {
            let programs: Vec<String> = programs.iter().map(|&name| name.to_owned()).collect();
            assert_eq!(kept(&programs).severity, expected, "{programs:?}");
        };
        check(&["bash", "chronyd"], Severity::Fine);
        check(&["systemd-timesyn"], Severity::Fine);
        check(&["bash", "ntpdate"], Severity::Warning);
    }
}
