//! The containerd process: started in a session of its own so that it outlives the agent, found again
//! by its pid file, replaced when it died or when its configuration changed. Whoever answers on the socket is the one: an
//! agent that was killed before it wrote the file leaves a containerd beside which no other can work.

use std::fs::OpenOptions;
use std::io;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use k8s_cri::v1::VersionRequest;
use k8s_cri::v1::runtime_service_client::RuntimeServiceClient;
use minik8s_meta::Backoff;
use nix::sys::signal::{Signal, kill};
use nix::sys::socket::getsockopt;
use nix::sys::socket::sockopt::PeerCredentials;
use nix::unistd::Pid;
use thiserror::Error;
use tokio::process::{Child, Command};
use tracing::{info, warn};

use super::{Settings, connect};

const START_TIMEOUT: Duration = Duration::from_secs(60);
const STOP_TIMEOUT: Duration = Duration::from_secs(10);
const ALIVE_CHECK: Duration = Duration::from_secs(1);
const RESTART: Backoff = Backoff::millis(100, 30_000);
/// How often it is asked for a sign of life in the time that it may be silent.
const QUESTIONS: u32 = 4;

#[derive(Debug, Error)]
pub enum ContainerdError {
    #[error("no OCI runtime works here: install crun or runc (crun refuses hybrid cgroups)")]
    NoRuntime,
    #[error("cannot write {path}")]
    Write { path: PathBuf, source: io::Error },
    #[error("cannot start containerd; is it installed and in PATH?")]
    Spawn(#[source] io::Error),
    #[error("containerd does not answer; see {log}")]
    NotReady { log: PathBuf },
}

/// A containerd that was started or found running.
pub struct Containerd {
    settings: Settings,
    process: Process,
}

enum Process {
    /// Started by us: its end is seen at once, and we must reap it.
    Child(Child),
    /// Started by an earlier agent.
    Adopted(ProcessId),
}

/// A process that cannot be mistaken for a later one with the same number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct ProcessId {
    pid: i32,
    start_time: u64,
}

impl Containerd {
    /// Adopts the containerd of this data dir or starts one, and waits until it answers CRI calls.
    pub async fn start(settings: Settings) -> Result<Self, ContainerdError> {
        if settings.host.runtimes.is_empty() {
            return Err(ContainerdError::NoRuntime);
        }
        let changed = write_config(&settings)?;
        let running = read_pid_file(&settings.dir).filter(ProcessId::is_alive);
        let process = match running {
            Some(id) if !changed => {
                info!(pid = id.pid, "containerd is running already");
                Process::Adopted(id)
            }
            Some(id) => {
                info!(pid = id.pid, "containerd's configuration changed: restarting it");
                id.stop().await;
                spawn(&settings)?
            }
            None => spawn(&settings)?,
        };
        let mut containerd = Containerd { settings, process };
        containerd.wait_until_ready().await?;
        containerd.follow_socket().await?;
        Ok(containerd)
    }

    /// Takes the containerd that answers instead of one that waits until that is gone.
    async fn follow_socket(&mut self) -> Result<(), ContainerdError> {
        let Some(id) = listener(&self.settings.socket) else { return Ok(()) };
        let own = match &self.process {
            Process::Child(child) => child.id().map(|pid| pid as i32),
            Process::Adopted(known) => Some(known.pid),
        };
        if own == Some(id.pid) {
            return Ok(());
        }
        warn!(pid = id.pid, "another containerd of this directory answers: it is taken");
        self.kill();
        self.wait_for_end().await;
        self.process = Process::Adopted(id);
        write_pid_file(&self.settings.dir, id)
    }

    /// Replaces containerd whenever it dies, or does not answer for longer than `timeout`. Never returns.
    pub async fn supervise(&mut self, timeout: Duration) {
        let mut restarts = RESTART.retries();
        loop {
            let started = Instant::now();
            let socket = self.settings.socket.clone();
            tokio::select! {
                () = self.wait_for_end() => warn!("containerd died: starting it again"),
                () = silence(&socket, timeout) => {
                    warn!(?timeout, "containerd does not answer: replacing it; containers go on");
                    self.kill();
                    self.wait_for_end().await;
                }
            }
            if started.elapsed() > RESTART.most {
                restarts.succeeded();
            }
            tokio::time::sleep(restarts.failed()).await;
            match spawn(&self.settings) {
                Ok(process) => self.process = process,
                Err(error) => warn!(%error, "cannot start containerd"),
            }
        }
    }

    /// Ends the containerd of this directory, whoever started it. Running containers go on.
    pub async fn stop_running(dir: &Path) {
        if let Some(id) = read_pid_file(dir) {
            id.stop().await;
        }
    }

    fn kill(&self) {
        let pid = match &self.process {
            Process::Child(child) => child.id().map(|pid| pid as i32),
            Process::Adopted(id) => Some(id.pid).filter(|_| id.is_alive()),
        };
        if let Some(pid) = pid {
            let _ = kill(Pid::from_raw(pid), Signal::SIGKILL);
        }
    }

    async fn wait_for_end(&mut self) {
        match &mut self.process {
            Process::Child(child) => {
                let _ = child.wait().await;
            }
            Process::Adopted(id) => {
                while id.is_alive() {
                    tokio::time::sleep(ALIVE_CHECK).await;
                }
            }
        }
    }

    async fn wait_until_ready(&mut self) -> Result<(), ContainerdError> {
        let not_ready = || ContainerdError::NotReady { log: self.settings.dir.join("containerd.log") };
        let deadline = Instant::now() + START_TIMEOUT;
        let mut client = RuntimeServiceClient::new(connect(&self.settings.socket));
        while Instant::now() < deadline {
            if client.version(VersionRequest::default()).await.is_ok() {
                return Ok(());
            }
            if let Process::Child(child) = &mut self.process
                && matches!(child.try_wait(), Ok(Some(_)))
            {
                return Err(not_ready());
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        Err(not_ready())
    }
}

/// Returns when nobody has answered on the socket for that long.
async fn silence(socket: &Path, timeout: Duration) {
    let mut client = RuntimeServiceClient::new(connect(socket));
    let mut answered = Instant::now();
    while answered.elapsed() < timeout {
        let asked = client.version(VersionRequest::default());
        // An error is a process that is not there, whose end is seen at once by others.
        if let Ok(Ok(_)) = tokio::time::timeout(timeout, asked).await {
            answered = Instant::now();
        }
        tokio::time::sleep(timeout / QUESTIONS).await;
    }
}

/// Writes the configuration file; true if a different one was there.
fn write_config(settings: &Settings) -> Result<bool, ContainerdError> {
    let path = settings.dir.join("config.toml");
    let failed = |source| ContainerdError::Write { path: path.clone(), source };
    let toml = settings.toml();
    let old = std::fs::read_to_string(&path).ok();
    if old.as_deref() == Some(&toml) {
        return Ok(false);
    }
    std::fs::create_dir_all(settings.dir.join("registries")).map_err(failed)?;
    std::fs::create_dir_all(&settings.cni_conf_dir).map_err(failed)?;
    std::fs::write(&path, toml).map_err(failed)?;
    Ok(old.is_some())
}

fn spawn(settings: &Settings) -> Result<Process, ContainerdError> {
    let log_path = settings.dir.join("containerd.log");
    let log = OpenOptions::new()
        .create(true)
        .append(true)
        .open(&log_path)
        .map_err(|source| ContainerdError::Write { path: log_path, source })?;
    let errors = log.try_clone().map_err(ContainerdError::Spawn)?;
    // setsid(1) execs containerd, so the child's pid is containerd's.
    let child = Command::new("setsid")
        .args(["containerd", "--log-level", "warn", "--config"])
        .arg(settings.dir.join("config.toml"))
        .stdin(Stdio::null())
        .stdout(log)
        .stderr(errors)
        .kill_on_drop(false)
        .spawn()
        .map_err(ContainerdError::Spawn)?;
    if let Some(id) = child.id().and_then(|pid| ProcessId::of(pid as i32)) {
        write_pid_file(&settings.dir, id)?;
    }
    Ok(Process::Child(child))
}

/// Who listens on a socket, if this can be seen from here.
fn listener(socket: &Path) -> Option<ProcessId> {
    let stream = UnixStream::connect(socket).ok()?;
    let peer = getsockopt(&stream, PeerCredentials).ok()?;
    ProcessId::of(peer.pid())
}

fn write_pid_file(dir: &Path, id: ProcessId) -> Result<(), ContainerdError> {
    let path = dir.join("pid");
    std::fs::write(&path, format!("{} {}\n", id.pid, id.start_time))
        .map_err(|source| ContainerdError::Write { path, source })
}

fn read_pid_file(dir: &Path) -> Option<ProcessId> {
    let text = std::fs::read_to_string(dir.join("pid")).ok()?;
    let (pid, start_time) = text.trim().split_once(' ')?;
    Some(ProcessId { pid: pid.parse().ok()?, start_time: start_time.parse().ok()? })
}

impl ProcessId {
    fn of(pid: i32) -> Option<Self> {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        let (state, start_time) = parse_stat(&stat)?;
        (state != 'Z').then_some(ProcessId { pid, start_time })
    }

    fn is_alive(&self) -> bool {
        ProcessId::of(self.pid) == Some(*self)
    }

    /// Asks it to end, then makes it.
    async fn stop(&self) {
        let deadline = Instant::now() + STOP_TIMEOUT;
        let pid = Pid::from_raw(self.pid);
        if self.is_alive() {
            let _ = kill(pid, Signal::SIGTERM);
        }
        while self.is_alive() && Instant::now() < deadline {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        if self.is_alive() {
            let _ = kill(pid, Signal::SIGKILL);
        }
    }
}

/// State and start time from `/proc/PID/stat`. The command in parentheses may hold anything.
fn parse_stat(stat: &str) -> Option<(char, u64)> {
    let (_, rest) = stat.rsplit_once(") ")?;
    let mut fields = rest.split(' ');
    let state = fields.next()?.chars().next()?;
    // starttime is field 22; the state was field 3.
    Some((state, fields.nth(18)?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stat_lines() {
        let check = |stat: &str, want| assert_eq!(parse_stat(stat), want, "{stat}");
        check("7 (a b) c) S 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 4711 20", Some(('S', 4711)));
        check("7 (x) Z 1", None);
        check("", None);
    }

    #[test]
    fn this_process_is_alive_and_no_other_is_taken_for_it() {
        let own = ProcessId::of(std::process::id() as i32).unwrap();
        assert!(own.is_alive());
        assert!(!ProcessId { start_time: own.start_time + 1, ..own }.is_alive());
    }
}
