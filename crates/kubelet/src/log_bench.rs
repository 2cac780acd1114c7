//! What logs cost: searched, kept and exported. Not part of `make test`; to be run alone, in the temporary directory, which
//! needs 2 GiB: `cargo test --release -p minik8s-kubelet log_bench -- --ignored --nocapture --test-threads 1`.

use std::collections::{BTreeMap, HashMap};
use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use minik8s_telemetry::{Queue, otlp};
use nix::sys::resource::{UsageWho, getrusage};

use crate::ended_logs::{EndedPod, keep};
use crate::log_export::{LogExport, Positions};
use crate::log_search::{Matcher, Search, logs, run};

const MIB: usize = 1 << 20;
/// A minute of 10,000 lines a second.
const LINES: usize = 600_000;

/// Lines as programs print them: access logs and JSON, one in 20,000 an error.
fn text(lines: usize) -> String {
    let mut text = String::new();
    for number in 0..lines {
        let (second, nano) = (number / 10_000 % 60, number % 10_000 * 100_000);
        let _ = write!(text, "2026-01-01T00:00:{second:02}.{nano:09}Z stdout F ");
        let _ = match number % 20_000 {
            17 => writeln!(
                text,
                "{{\"level\":\"error\",\"message\":\"connection refused\",\"order\":{number}}}"
            ),
            n if n % 2 == 0 => {
                writeln!(text, "10.244.1.{} - - \"GET /cart/{number} HTTP/1.1\" 200 {n}", n % 250)
            }
            n => writeln!(
                text,
                "{{\"level\":\"info\",\"message\":\"order taken\",\"order\":{number},\"took\":{n}}}"
            ),
        };
    }
    text
}

/// Seconds of CPU that this process has used.
fn cpu() -> f64 {
    let used = getrusage(UsageWho::RUSAGE_SELF).unwrap();
    [used.user_time(), used.system_time()]
        .iter()
        .map(|time| time.tv_sec() as f64 + time.tv_usec() as f64 / 1e6)
        .sum()
}

fn measured<T>(what: &str, work: impl FnOnce() -> T) -> (T, Duration, f64) {
    let (begun, used) = (Instant::now(), cpu());
    let result = work();
    let (took, used) = (begun.elapsed(), cpu() - used);
    println!("{what}: {:.3} s, {used:.3} s of CPU", took.as_secs_f64());
    (result, took, used)
}

fn pod() -> EndedPod {
    let (labels, containers) = (BTreeMap::new(), Vec::new());
    EndedPod { namespace: "a".into(), name: "b".into(), uid: "c".into(), labels, containers }
}

fn find(dir: &Path, what: &str, grep: Option<&str>, fields: &[&str]) -> Duration {
    let fields: Vec<String> = fields.iter().map(|field| (*field).to_owned()).collect();
    let matcher = Matcher::new(grep, &fields).unwrap();
    let search = Search { matcher, ended: true, limit: 1000, ..Search::default() };
    let (found, took, _) = measured(what, || {
        run(&search, &logs(&search, &HashMap::new(), &dir.join("logs"), &dir.join("ended")))
    });
    println!("  {} lines of {} MiB", found.lines.len(), found.bytes >> 20);
    assert!(!found.lines.is_empty());
    took
}

#[test]
#[ignore = "a benchmark"]
fn search_through_a_gibibyte() {
    let dir = tempfile::tempdir().unwrap();
    let text = text(100_000);
    for number in 0..(1024 * MIB).div_ceil(text.len()) {
        let folder = dir.path().join(format!("logs/a_b{number}_c/main"));
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("0.log"), &text).unwrap();
    }
    let limit = Duration::from_secs(2);
    for (what, grep, fields) in [
        ("grep refused", Some("refused"), &[][..]),
        ("grep timeout|refused", Some("timeout|refused"), &[]),
        ("grep ^10.*404$|refused\"", Some("^10.*404$|refused\""), &[]),
        ("where level=error", None, &["level=error"]),
    ] {
        let took = find(dir.path(), what, grep, fields);
        println!("  {}", if took <= limit { "within 2 s" } else { "MORE than 2 s" });
    }
}

#[test]
#[ignore = "a benchmark"]
fn keeping_and_finding_compressed_logs() {
    let dir = tempfile::tempdir().unwrap();
    let (from, text) = (dir.path().join("ending"), text(LINES));
    fs::create_dir_all(from.join("main")).unwrap();
    fs::write(from.join("main/0.log"), &text).unwrap();
    let (kept, _, used) = measured("keeping a minute of 10,000 lines a second", || {
        keep(&from, &dir.path().join("ended"), pod())
    });
    assert!(kept.unwrap());
    println!("  {} MiB: {:.2} % of a core", text.len() >> 20, used / 60.0 * 100.0);
    find(dir.path(), "grep refused, compressed", Some("refused"), &[]);
}

#[test]
#[ignore = "a benchmark"]
fn exporting_logs() {
    let dir = tempfile::tempdir().unwrap();
    let queue = Queue::new("logs", 2 * MIB);
    let positions = Positions::load(dir.path().join("positions"));
    let mut export = LogExport::new(dir.path().join("logs"), "n1".to_owned(), queue.clone(), positions);
    export.round();
    let folder = dir.path().join("logs/a_b_c/main");
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join("0.log"), text(LINES)).unwrap();
    let (sent, _, used) = measured("exporting a minute of 10,000 lines a second", || {
        let mut sent = 0;
        while sent < LINES {
            export.round();
            loop {
                let batch = queue.take();
                if batch.is_empty() {
                    break;
                }
                sent += batch.len();
                assert!(!otlp::logs(&batch).is_empty());
            }
        }
        sent
    });
    println!("  {sent} lines: {:.2} % of a core", used / 60.0 * 100.0);
}
