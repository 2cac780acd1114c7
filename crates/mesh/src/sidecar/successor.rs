//! Another program in the place of a proxy's, while its pod runs: the successor is started beside it, in the same
//! container, takes the same listening sockets, and says when it routes. From then on the former process takes no new
//! connection, and serves those that it has to their end.
//!
//! A container lives as long as its first process. So that one never ends before its successors: when its last connection
//! is over it becomes a process of the new program that does nothing but [`wait`]. A successor that does not come to route
//! is ended, and everything stays as it was.

use std::fs::File;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command};
use std::time::Duration;

use minik8s_meta::mesh::{LISTENERS_SOCKET, SOCKET_DIR};
use nix::errno::Errno;
use nix::sys::prctl::set_child_subreaper;
use nix::sys::signal::{Signal, kill, killpg};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::{Pid, getpgrp};
use tokio::io::AsyncReadExt;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;
use tokio::time::{sleep, timeout};
use tracing::{info, warn};

use super::Role;
use crate::{handover, program};

/// For a successor to route.
const START: Duration = Duration::from_secs(30);
/// Not all proxies of a node are replaced in the same moment.
const SPREAD_MILLISECONDS: u64 = 3000;
/// By this a successor says that it routes.
const ROUTES: &[u8] = b"+";

/// One that routes.
pub struct Successor {
    child: Child,
    program: File,
}

/// Returns when another program routes, once the agent has one. What could not be started is not tried again.
pub async fn succeed(wanted: &mut watch::Receiver<Option<String>>) -> Successor {
    let Ok(own) = program::identity() else { return std::future::pending().await };
    let mut tried = own;
    loop {
        let Ok(found) =
            wanted.wait_for(|one| one.as_ref().is_some_and(|id| *id != tried)).await.map(|one| one.clone())
        else {
            return std::future::pending().await;
        };
        tried = found.unwrap_or_default();
        sleep(Duration::from_millis(RandomState::new().build_hasher().finish() % SPREAD_MILLISECONDS)).await;
        match Successor::start().await {
            Ok(successor) => return successor,
            Err(error) => {
                warn!(%error, "the agent's program cannot take the place of this one, which goes on")
            }
        }
    }
}

impl Successor {
    async fn start() -> io::Result<Self> {
        let fetched = tokio::task::spawn_blocking(|| {
            let stream = UnixStream::connect(Path::new(SOCKET_DIR).join(LISTENERS_SOCKET))?;
            handover::program(&stream)
        });
        let program = fetched.await.map_err(io::Error::other)??;
        // Successors of a successor are this process' to wait for, whoever else is in the pod.
        set_child_subreaper(true)?;
        let (ours, theirs) = UnixStream::pair()?;
        let child = command(&program, Role::Successor).stdin(OwnedFd::from(theirs)).spawn()?;
        let mut successor = Successor { child, program };
        ours.set_nonblocking(true)?;
        let mut ours = tokio::net::UnixStream::from_std(ours)?;
        match timeout(START, ours.read_u8()).await {
            Ok(Ok(_)) => {
                info!(pid = successor.child.id(), "another program takes the connections of this pod");
                Ok(successor)
            }
            Ok(Err(_)) => Err(io::Error::other(format!("it has ended: {}", successor.child.wait()?))),
            Err(_) => {
                successor.child.kill()?;
                successor.child.wait()?;
                Err(io::Error::other(format!("it has not routed within {} s", START.as_secs())))
            }
        }
    }

    pub fn terminate(&self) {
        if let Ok(id) = i32::try_from(self.child.id()) {
            let _ = kill(Pid::from_raw(id), Signal::SIGTERM);
        }
    }

    /// Its program takes the place of this one, to wait. Returns only if that failed.
    pub fn replace(self) -> io::Error {
        command(&self.program, Role::Waiting).exec()
    }
}

/// What it is run from need not be a file of the container, nor of any folder.
fn command(program: &File, role: Role) -> Command {
    let mut command = Command::new(format!("/proc/self/fd/{}", program.as_raw_fd()));
    command.arg0("minik8s").args(["sidecar", "--role", role.as_str()]);
    command
}

/// Of a successor: from now on it takes connections.
pub fn say_ready() {
    if let Err(error) = nix::unistd::write(io::stdin(), ROUTES) {
        warn!(%error, "nobody hears that this proxy routes");
    }
}

/// Does nothing but wait for the processes that do the work, and tell them when it is to end.
pub async fn wait() -> io::Result<()> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut told = false;
    let mut ended = std::pin::pin!(children());
    loop {
        tokio::select! {
            ended = ended.as_mut() => return ended,
            _ = terminate.recv() => {
                // This process is of the group, too.
                if !std::mem::replace(&mut told, true) {
                    killpg(getpgrp(), Signal::SIGTERM)?;
                }
            }
        }
    }
}

/// Returns when the last child has ended; an error if it failed.
pub async fn children() -> io::Result<()> {
    let mut signals = signal(SignalKind::child())?;
    let mut last = None;
    loop {
        match waitpid(None, Some(WaitPidFlag::WNOHANG)) {
            Ok(WaitStatus::StillAlive) => {
                signals.recv().await;
            }
            Ok(status) => last = Some(status),
            Err(Errno::EINTR) => {}
            Err(Errno::ECHILD) => {
                return match last {
                    None | Some(WaitStatus::Exited(_, 0)) => Ok(()),
                    Some(status) => Err(io::Error::other(format!("the proxy has ended: {status:?}"))),
                };
            }
            Err(error) => return Err(error.into()),
        }
    }
}
