//! Starts, finds and stops servers that outlive the agent. All of it blocks.
//!
//! A server is found by the file in which it writes its number, and by its command line, which names our configuration: no
//! process of anybody else is ever signalled.

use std::fs;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::Path;
use std::time::{Duration, Instant};

use minik8s_meta::shared_storage::DaemonStatus;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::SharedError;
use crate::engine::{Daemon, Engine};
use crate::part::Part;
use crate::program::{is_installed, run};

const STOP_TIMEOUT: Duration = Duration::from_secs(30);

/// Brings all of a node's servers up. What fails keeps the others not.
pub fn keep_running(engine: &dyn Engine, part: &Part) -> Result<(), SharedError> {
    for (program, package) in engine.programs(part) {
        if !is_installed(program) {
            return Err(SharedError::Missing { program: program.to_owned(), package });
        }
    }
    let mut failed = engine.set_old_aside(part);
    for daemon in engine.daemons(part) {
        if let Err(error) = keep(engine, part, &daemon) {
            failed = failed.and(Err(error));
        }
    }
    failed
}

fn keep(engine: &dyn Engine, part: &Part, daemon: &Daemon) -> Result<(), SharedError> {
    for directory in &daemon.directories {
        fs::create_dir_all(directory).map_err(at(directory))?;
        fs::set_permissions(directory, fs::Permissions::from_mode(0o700)).map_err(at(directory))?;
    }
    let mut is_changed = false;
    for (path, text) in &daemon.files {
        is_changed |= write_if_changed(path, text)?;
    }
    if let Some(pid) = pid(daemon) {
        if !is_changed {
            return Ok(());
        }
        tracing::info!(daemon = daemon.name, pid, "its configuration changed: restarting it");
        stop(daemon)?;
    }
    engine.prepare(part, daemon)?;
    let (program, arguments) = daemon.start.split_first().ok_or(SharedError::NotSetUp)?;
    run(program, daemon.package, arguments)?;
    tracing::info!(daemon = daemon.name, pid = pid(daemon), "started a server of shared storage");
    Ok(())
}

/// Ends a server in its own way, which writes out what it knows; by force if that takes too long.
pub fn stop(daemon: &Daemon) -> Result<(), SharedError> {
    let Some(running) = pid(daemon) else { return Ok(()) };
    let end = |signal| kill(Pid::from_raw(running), signal);
    if let Some((program, arguments)) = daemon.stop.split_first()
        && run(program, daemon.package, arguments).is_err()
    {
        let _ = end(Signal::SIGTERM);
    }
    let begun = Instant::now();
    while pid(daemon) == Some(running) {
        if begun.elapsed() > STOP_TIMEOUT {
            let _ = end(Signal::SIGKILL);
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    Ok(())
}

pub fn status(daemon: &Daemon) -> DaemonStatus {
    let pid = pid(daemon);
    let resident_kib = pid.and_then(|pid| {
        let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
        line.trim().trim_end_matches(" kB").trim().parse().ok()
    });
    DaemonStatus { name: daemon.name.to_owned(), pid, resident_kib }
}

/// The number of a server that runs.
pub fn pid(daemon: &Daemon) -> Option<i32> {
    let text = fs::read_to_string(&daemon.pid_file).ok()?;
    let pid: i32 = text.lines().next()?.trim().parse().ok()?;
    let command = fs::read(format!("/proc/{pid}/cmdline")).ok()?;
    let command = String::from_utf8_lossy(&command).into_owned();
    let is_ours = daemon
        .files
        .first()
        .is_some_and(|(path, _)| command.split('\0').any(|argument| Path::new(argument) == path.as_path()));
    is_ours.then_some(pid)
}

/// Passwords are in some of these files: nobody else reads them.
fn write_if_changed(path: &Path, text: &str) -> Result<bool, SharedError> {
    if fs::read_to_string(path).is_ok_and(|there| there == text) {
        return Ok(false);
    }
    write_closed(path, text)?;
    Ok(true)
}

pub fn at(path: &Path) -> impl FnOnce(std::io::Error) -> SharedError + use<> {
    let path = path.to_owned();
    move |source| SharedError::File { path, source }
}

/// A file that root alone reads. It has its name only when it is complete.
pub fn write_closed(path: &Path, text: &str) -> Result<(), SharedError> {
    let new = path.with_extension("new");
    let _ = fs::remove_file(&new);
    let mut options = fs::OpenOptions::new();
    let mut file = options.write(true).create_new(true).mode(0o600).open(&new).map_err(at(path))?;
    std::io::Write::write_all(&mut file, text.as_bytes()).map_err(at(path))?;
    file.sync_all().map_err(at(path))?;
    fs::rename(&new, path).map_err(at(path))
}
