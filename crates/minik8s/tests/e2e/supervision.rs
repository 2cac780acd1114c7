//! A server or an agent that has lost a part it cannot do without says so and ends, for its unit to start it again: it
//! never goes on as half of itself.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use nix::sys::resource::{Resource, getrlimit, setrlimit};

use crate::harness::Server;

/// Generous: the machine may be busy with other tests.
const TIMEOUT: Duration = Duration::from_secs(60);

/// Runs it in a network of its own, so that its rules and ports are nobody else's; what it said when it ended.
fn run_to_its_end(dir: &Path, arguments: &str) -> String {
    let log = std::fs::File::create(dir.join("log")).unwrap();
    let script = format!(
        "ip link set lo up && exec {} {arguments} --data-dir {dir}/data --hosts-file {dir}/hosts",
        env!("CARGO_BIN_EXE_minik8s"),
        dir = dir.display()
    );
    let mut process = Command::new("unshare")
        .args(["--net", "sh", "-c", &script])
        .stdin(Stdio::null())
        .stdout(log.try_clone().unwrap())
        .stderr(log)
        .spawn()
        .unwrap();
    let begun = Instant::now();
    let status = loop {
        if let Some(status) = process.try_wait().unwrap() {
            break status;
        }
        if begun.elapsed() > TIMEOUT {
            process.kill().unwrap();
            process.wait().unwrap();
            panic!("it goes on: {}", std::fs::read_to_string(dir.join("log")).unwrap());
        }
        std::thread::sleep(Duration::from_millis(50));
    };
    let said = std::fs::read_to_string(dir.join("log")).unwrap();
    assert_eq!(status.code(), Some(1), "{said}");
    said
}

#[test]
fn server_whose_node_fails_ends_with_an_error() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::create_dir(dir.path().join("data")).unwrap();
    // Where containerd's folder should be there is a file: the node can never start.
    std::fs::write(dir.path().join("data/containerd"), "").unwrap();
    let said = run_to_its_end(dir.path(), "server --bind 127.0.0.1");
    let last = said.lines().last().unwrap();
    assert!(last.starts_with("minik8s: the node beside the server has failed: "), "{said}");
    assert!(last.contains("data/containerd"), "{said}");
}

/// Shells allow few at first, and how many connections there may be is a share of it.
#[test]
fn server_started_with_few_files_takes_as_many_as_it_may() {
    let (_, hard) = getrlimit(Resource::RLIMIT_NOFILE).unwrap();
    assert!(hard > 512, "this test needs a hard limit above 512, not {hard}");
    // Of this process, whose child inherits it; nextest gives each test a process of its own.
    setrlimit(Resource::RLIMIT_NOFILE, 512, hard).unwrap();
    let server = Server::start();
    let limits = std::fs::read_to_string(format!("/proc/{}/limits", server.program.pid())).unwrap();
    let files = limits.lines().find_map(|line| line.strip_prefix("Max open files")).unwrap();
    let files: Vec<&str> = files.split_whitespace().take(2).collect();
    assert_eq!(files, [hard.to_string(), hard.to_string()]);
}

/// In hundredths of a second.
fn cpu_time(pid: u32) -> u64 {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    // The name of the program may hold blanks.
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap().split_whitespace().collect();
    fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap()
}

#[test]
fn idle_server_rests() {
    let server = Server::start();
    // What is done once, at the start, is over by then, or takes longer on a busy machine.
    std::thread::sleep(Duration::from_secs(5));
    let begun = Instant::now();
    let used_in = |seconds: u64| {
        let before = cpu_time(server.program.pid());
        std::thread::sleep(Duration::from_secs(seconds));
        cpu_time(server.program.pid()) - before
    };
    while used_in(1) > 10 && begun.elapsed() < TIMEOUT {}
    let used = used_in(5);
    assert!(used < 50, "{used} hundredths of a second of CPU in five seconds without anything to do");
}
