//! `make down` says that minik8s is down only when it is, and `make purge` removes only what is minik8s'.

use std::net::TcpListener;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

const BINARY: &str = env!("CARGO_BIN_EXE_minik8s");
/// Long enough for a busy machine.
const TIMEOUT: Duration = Duration::from_secs(60);

/// A server without a node, ended with the test.
struct Server(Child);

impl Server {
    fn start(dir: &Path) -> Server {
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port().to_string();
        let log = std::fs::File::create(dir.join("server.log")).unwrap();
        let mut command = Command::new(BINARY);
        command.args(["server", "--no-agent", "--bind", "127.0.0.1", "--port", &port, "--data-dir"]).arg(dir);
        command.env_remove("NO_COLOR").stdin(Stdio::null()).stderr(log);
        let server = Server(command.spawn().unwrap());
        let begun = Instant::now();
        while !std::fs::read_to_string(dir.join("server.log")).unwrap().contains("minik8s is ready") {
            assert!(begun.elapsed() < TIMEOUT, "the server does not start");
            std::thread::sleep(Duration::from_millis(20));
        }
        server
    }

    fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(self.0.id() as i32), signal).unwrap();
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn down(dir: &Path, flags: &[&str]) -> Output {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/down");
    Command::new(script)
        .args(flags)
        .envs([("MINIK8S", BINARY), ("DOWN_TIMEOUT", "5")])
        .env("DATA_DIR", dir)
        .output()
        .unwrap()
}

#[track_caller]
fn says(output: &Output, is_down: bool, words: &str) {
    let text = [&output.stdout[..], &output.stderr[..]].concat();
    let text = String::from_utf8_lossy(&text);
    assert_eq!(output.status.success(), is_down, "{text}");
    assert_eq!(text.contains("minik8s is down"), is_down, "{text}");
    assert!(text.contains(words), "{text}");
}

#[test]
fn down_is_said_only_when_no_server_runs() {
    assert!(nix::unistd::Uid::effective().is_root(), "this test needs root");
    let temporary = tempfile::tempdir().unwrap();
    let dir = temporary.path().join("data");
    says(&down(&dir, &[]), true, "there is no");
    std::fs::create_dir(&dir).unwrap();
    let mut server = Server::start(&dir);
    // Started by hand: no file names its process.
    says(&down(&dir, &["--purge"]), false, "another server runs");
    assert!(server.0.try_wait().unwrap().is_none() && dir.join("store.redb").exists());
    // One that does not listen.
    std::fs::write(dir.join("server.pid"), server.0.id().to_string()).unwrap();
    server.signal(Signal::SIGSTOP);
    says(&down(&dir, &[]), false, "does not stop");
    server.signal(Signal::SIGCONT);
    server.0.wait().unwrap();
    let log = std::fs::read_to_string(dir.join("server.log")).unwrap();
    assert!(!log.contains('\u{1b}'), "a file has no colours: {log}");
    std::fs::write(dir.join("thesis.tex"), "years").unwrap();
    says(&down(&dir, &["--purge"]), true, "keeps what is not of minik8s: thesis.tex");
    assert_eq!(std::fs::read_dir(&dir).unwrap().count(), 1);
    std::fs::remove_file(dir.join("thesis.tex")).unwrap();
    says(&down(&dir, &["--purge"]), true, "is gone");
    assert!(!dir.exists());
}
