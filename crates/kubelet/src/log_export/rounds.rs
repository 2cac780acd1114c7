//! All logs of a node, round after round: files that have come, what they hold, files that have gone.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use minik8s_telemetry::LogSource;
use tracing::debug;

use super::log_reader::Looked;
use super::{LogReader, Positions, Records};

/// Positions are written every so many rounds.
const ROUNDS_PER_SAVE: u32 = 10;

pub struct LogExport {
    logs_dir: PathBuf,
    node: String,
    queue: Records,
    positions: Positions,
    /// By the path below the folder of logs.
    readers: HashMap<String, LogReader>,
    rounds: u32,
}

impl LogExport {
    pub fn new(logs_dir: PathBuf, node: String, queue: Records, positions: Positions) -> Self {
        LogExport { logs_dir, node, queue, positions, readers: HashMap::new(), rounds: 0 }
    }

    /// Reads what has come since the last round. Says whether there was something. Blocks.
    pub fn round(&mut self) -> bool {
        self.find_new();
        let mut grew = false;
        let queue = &self.queue;
        self.readers.retain(|path, reader| {
            while queue.has_room() {
                match reader.look(queue) {
                    Ok(Looked::More) => grew = true,
                    Ok(Looked::End) => return true,
                    Ok(Looked::Gone) => return false,
                    Err(error) => {
                        debug!(%error, path, "a log cannot be read");
                        return false;
                    }
                }
            }
            true
        });
        if !self.queue.has_room() {
            self.let_go();
        }
        if self.rounds.is_multiple_of(ROUNDS_PER_SAVE) {
            let now = self.readers.iter().map(|(path, reader)| (path.clone(), reader.position()));
            self.positions.save(now.collect());
        }
        self.rounds = self.rounds.wrapping_add(1);
        grew
    }

    /// While nothing can be told, files of pods that are gone must not hold the disk.
    fn let_go(&mut self) {
        let (logs_dir, queue) = (&self.logs_dir, &self.queue);
        self.readers.retain(|path, reader| {
            let is_there = logs_dir.join(path).exists();
            if !is_there {
                queue.count_dropped(reader.count_rest());
            }
            is_there
        });
    }

    fn find_new(&mut self) {
        let is_first_round = self.rounds == 0;
        for (pod_dir, pod) in folders(&self.logs_dir) {
            // A name is made of what cannot hold an underscore.
            let parts: Vec<&str> = pod.split('_').collect();
            let [namespace, name, uid] = parts[..] else { continue };
            for (container_dir, container) in folders(&pod_dir) {
                for log in logs(&container_dir) {
                    let path = format!("{pod}/{container}/{log}");
                    if self.readers.contains_key(&path) {
                        continue;
                    }
                    let source = LogSource::container(&self.node, (namespace, name, uid), &container);
                    let position = self.positions.of(&path);
                    let opened = LogReader::open(&container_dir.join(&log), Arc::new(source), position);
                    let Ok(mut reader) = opened else { continue };
                    if is_first_round && self.positions.is_first && reader.skip().is_err() {
                        continue;
                    }
                    self.readers.insert(path, reader);
                }
            }
        }
    }
}

/// Folders in a folder, with their names; never through a link.
fn folders(dir: &Path) -> Vec<(PathBuf, String)> {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    let is_folder = |entry: &fs::DirEntry| entry.file_type().is_ok_and(|kind| kind.is_dir());
    let named = entries
        .filter(is_folder)
        .filter_map(|entry| Some((entry.path(), entry.file_name().into_string().ok()?)));
    named.collect()
}

/// Logs that are written: `0.log`, not those that were put aside.
fn logs(dir: &Path) -> Vec<String> {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    let is_file = |entry: &fs::DirEntry| entry.file_type().is_ok_and(|kind| kind.is_file());
    let names = entries.filter(is_file).filter_map(|entry| entry.file_name().into_string().ok());
    names
        .filter(|name| name.strip_suffix(".log").is_some_and(|attempt| attempt.parse::<u32>().is_ok()))
        .collect()
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use minik8s_telemetry::Queue;

    use super::*;

    struct Site {
        dir: tempfile::TempDir,
        queue: Records,
    }

    impl Site {
        fn new(bytes: usize) -> Self {
            Site { dir: tempfile::tempdir().unwrap(), queue: Queue::new("logs", bytes) }
        }

        fn log(&self) -> PathBuf {
            self.dir.path().join("logs/shop_web-1_u1/main/0.log")
        }

        fn export(&self) -> LogExport {
            let positions = Positions::load(self.dir.path().join("positions"));
            LogExport::new(self.dir.path().join("logs"), "n1".to_owned(), self.queue.clone(), positions)
        }

        fn print(&self, lines: &[&str]) {
            fs::create_dir_all(self.log().parent().unwrap()).unwrap();
            let mut file = fs::OpenOptions::new().append(true).create(true).open(self.log()).unwrap();
            for line in lines {
                writeln!(file, "2026-01-01T00:00:01Z {line}").unwrap();
            }
        }

        fn rotate(&self, second: u32) {
            fs::rename(self.log(), self.log().with_extension(format!("log.20260101-0000{second:02}")))
                .unwrap();
        }

        fn told(&self) -> Vec<String> {
            self.queue.take().into_iter().map(|record| record.body).collect()
        }
    }

    #[test]
    fn lines_are_told_once_whole_and_with_their_source() {
        let site = Site::new(1 << 20);
        let mut export = site.export();
        export.round();
        site.print(&["stdout F one", "stderr P tw", "stderr F o", "rubbish"]);
        let mut half = fs::OpenOptions::new().append(true).open(site.log()).unwrap();
        write!(half, "2026-01-01T00:00:02.5Z stdout F thr").unwrap();
        assert!(export.round());
        let told = site.queue.take();
        let seen: Vec<_> = told.iter().map(|record| (record.stream, record.body.as_str())).collect();
        assert_eq!(seen, [(Some("stdout"), "one"), (Some("stderr"), "two")]);
        assert_eq!(told[0].time, 1_767_225_601_000_000_000);
        assert!(told[0].source.labels.contains(&("pod", "web-1".to_owned())));
        assert!(!export.round(), "half a line waits for its other half");
        writeln!(half, "ee").unwrap();
        export.round();
        assert_eq!(site.told(), ["three"]);
    }

    #[test]
    fn rotation_and_restart_lose_and_repeat_nothing() {
        let site = Site::new(1 << 20);
        let mut export = site.export();
        export.round();
        site.print(&["stdout F one"]);
        export.round();
        site.print(&["stdout F two"]);
        site.rotate(1);
        site.print(&["stdout F three"]);
        site.rotate(2);
        site.print(&["stdout F four"]);
        export.round();
        assert_eq!(site.told(), ["one", "two", "three", "four"]);
        export.rounds = 0;
        export.round();
        drop(export);
        site.print(&["stdout F five"]);
        site.rotate(3);
        site.print(&["stdout F six"]);
        let mut again = site.export();
        again.round();
        assert_eq!(site.told(), ["five", "six"]);
        // The runtime takes its time to begin the next file.
        site.print(&["stdout F seven"]);
        site.rotate(4);
        again.round();
        again.round();
        assert_eq!(site.told(), ["seven"]);
        site.print(&["stdout F eight"]);
        again.round();
        assert_eq!(site.told(), ["eight"]);
    }

    #[test]
    fn logs_of_before_are_not_told_when_the_export_is_switched_on() {
        let site = Site::new(1 << 20);
        site.print(&["stdout F old"]);
        let mut export = site.export();
        export.round();
        site.print(&["stdout F new"]);
        export.round();
        assert_eq!(site.told(), ["new"]);
    }

    #[test]
    fn logs_wait_in_their_files_and_what_goes_with_its_pod_is_counted() {
        let site = Site::new(1 << 20);
        let mut export = site.export();
        export.round();
        let lines: Vec<String> = (0..60_000).map(|number| format!("stdout F line {number}")).collect();
        site.print(&lines.iter().map(String::as_str).collect::<Vec<_>>());
        let mut told = 0;
        for _ in 0..3 {
            export.round();
            told += site.told().len();
        }
        let dropped = || {
            let page = site.queue.page();
            let found = page.lines().find_map(|line| line.strip_prefix("minik8s_export_logs_dropped_total "));
            found.unwrap().parse::<usize>().unwrap()
        };
        assert!(told > 100 && told < 60_000 && dropped() == 0, "{told}");
        // The queue is full now, and the pod goes.
        export.round();
        minik8s_datadir::remove_tree(&site.dir.path().join("logs"), "shop_web-1_u1").unwrap();
        export.round();
        assert!(export.readers.is_empty());
        while let more @ 1.. = site.told().len() {
            told += more;
        }
        assert!(dropped() > 0);
        assert_eq!(dropped() + told, 60_000);
    }
}
