//! `make up` shuts others out. `make down` says that minik8s is down only when it is, and `make purge` removes only what is minik8s'.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output};
use std::time::Duration;

use nix::sys::signal::Signal;

use crate::harness::program::{BINARY, Program, free_port};

fn down(dir: &Path, flags: &[&str]) -> Output {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/down");
    Command::new(script)
        .args(flags)
        .envs([("MINIK8S", BINARY), ("DOWN_TIMEOUT", "1")])
        .env("DATA_DIR", dir)
        .output()
        .unwrap()
}

/// A log of a server is for its administrator, also one that was there before and open.
#[test]
fn up_closes_its_files_to_others() {
    assert!(nix::unistd::Uid::effective().is_root(), "this test needs root");
    let temporary = tempfile::tempdir().unwrap();
    let program = temporary.path().join("minik8s");
    std::fs::write(&program, "#!/bin/sh\necho what the server says\n").unwrap();
    std::fs::set_permissions(&program, Permissions::from_mode(0o755)).unwrap();
    let up = |dir: &Path| {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/up");
        let shell = format!("umask 022; exec {} {}", script.display(), program.display());
        let mut up = Command::new("bash");
        let output = up.args(["-c", &shell]).env("PORT", "1").env("DATA_DIR", dir).output().unwrap();
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        // No server, and the script says so.
        assert!(!output.status.success() && text.contains("stopped at once"), "{text}");
        assert!(text.contains("what the server says"), "{text}");
    };
    let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    let new = temporary.path().join("new");
    up(&new);
    assert_eq!(
        (mode(&new), mode(&new.join("server.log")), mode(&new.join("server.pid"))),
        (0o700, 0o600, 0o600)
    );
    let old = temporary.path().join("old");
    std::fs::create_dir(&old).unwrap();
    std::fs::write(old.join("server.log"), "").unwrap();
    std::fs::set_permissions(old.join("server.log"), Permissions::from_mode(0o644)).unwrap();
    up(&old);
    assert_eq!(mode(&old.join("server.log")), 0o600);
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
    let server = Program::control_plane(&dir, &dir.join("server.log"), free_port(), &[]);
    server.start();
    server.until_said("minik8s is ready");
    // Started by hand: no file names its process.
    says(&down(&dir, &["--purge"]), false, "another server runs");
    assert!(!server.has_ended() && dir.join("store.redb").exists());
    // A pid that another cluster's server has got since.
    let other = temporary.path().join("other");
    std::fs::create_dir(&other).unwrap();
    std::fs::write(other.join("server.pid"), server.pid().to_string()).unwrap();
    says(&down(&other, &["--purge"]), true, "is gone");
    std::thread::sleep(Duration::from_millis(500));
    assert!(!server.has_ended(), "it was not its own server that it stopped");
    // One that does not listen.
    std::fs::write(dir.join("server.pid"), server.pid().to_string()).unwrap();
    server.signal(Signal::SIGSTOP);
    says(&down(&dir, &[]), false, "does not stop");
    server.signal(Signal::SIGCONT);
    while !server.has_ended() {
        std::thread::sleep(Duration::from_millis(20));
    }
    let log = server.log();
    assert!(!log.contains('\u{1b}'), "a file has no colours: {log}");
    std::fs::write(dir.join("thesis.tex"), "years").unwrap();
    says(&down(&dir, &["--purge"]), true, "keeps what is not of minik8s: thesis.tex");
    assert_eq!(std::fs::read_dir(&dir).unwrap().count(), 1);
    std::fs::remove_file(dir.join("thesis.tex")).unwrap();
    says(&down(&dir, &["--purge"]), true, "is gone");
    assert!(!dir.exists());
}
