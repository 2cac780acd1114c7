//! A `minik8s server` with a data dir and a port of its own, ended when dropped.

use std::fs::File;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use tempfile::TempDir;

const READY: &str = "minik8s is ready at ";
/// Generous: the machine may be busy with other tests.
const TIMEOUT: Duration = Duration::from_secs(60);

pub struct Server {
    process: Child,
    dir: TempDir,
    pub url: String,
}

impl Server {
    /// A control plane without a node, ready for requests.
    pub fn start() -> Server {
        Server::start_with(&[])
    }

    pub fn start_with(flags: &[&str]) -> Server {
        let dir = TempDir::with_prefix("minik8s-test-").expect("a temporary directory");
        let mut server = Server { process: spawn(&dir, flags), dir, url: String::new() };
        server.url = server.wait_until_ready();
        server
    }

    /// Ends the server by SIGKILL and starts another one on the same data.
    pub fn crash_and_restart(&mut self) {
        self.process.kill().expect("the server is killed");
        self.process.wait().expect("the state of the server");
        self.process = spawn(&self.dir, &[]);
        self.url = self.wait_until_ready();
    }

    pub fn kubeconfig(&self) -> PathBuf {
        self.dir.path().join("data/admin.kubeconfig")
    }

    /// A directory that lives as long as the server.
    pub fn scratch(&self) -> PathBuf {
        self.dir.path().to_owned()
    }

    pub fn log(&self) -> String {
        std::fs::read_to_string(self.dir.path().join("log")).unwrap_or_default()
    }

    fn wait_until_ready(&mut self) -> String {
        let start = Instant::now();
        loop {
            let log = self.log();
            if let Some(line) = log.lines().find_map(|line| line.strip_prefix(READY)) {
                return line.trim().to_owned();
            }
            if let Some(status) = self.process.try_wait().expect("the state of the server") {
                panic!("the server ended with {status}:\n{log}");
            }
            assert!(start.elapsed() < TIMEOUT, "the server is not ready after {TIMEOUT:?}:\n{log}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

/// A server on this directory's data. Its log is a new one.
fn spawn(dir: &TempDir, flags: &[&str]) -> Child {
    let log = File::create(dir.path().join("log")).expect("a log file");
    Command::new(env!("CARGO_BIN_EXE_minik8s"))
        .args(["server", "--no-agent", "--bind", "127.0.0.1", "--port", "0", "--data-dir"])
        .arg(dir.path().join("data"))
        .args(flags)
        .stdin(Stdio::null())
        .stdout(log.try_clone().expect("a log file"))
        .stderr(log)
        .spawn()
        .expect("the server starts")
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
        if std::thread::panicking() {
            eprintln!("--- log of the server at {}\n{}", self.url, self.log());
        }
    }
}
