//! Execs that have ended and yet do not end.
//!
//! A shim holds both ends of an exec's input. When the process ends before it has read all of it, containerd (seen in
//! 1.6) goes on writing into a pipe that nobody empties, and its client waits for the exit code for ever. Deleting the
//! ended process closes the pipe. It is done only once containerd has read all output, so none is lost.

use std::fs::OpenOptions;
use std::os::unix::fs::OpenOptionsExt;

use containerd_client::services::v1::tasks_client::TasksClient;
use containerd_client::services::v1::{DeleteProcessRequest, GetRequest};
use containerd_client::types::v1::{Process, Status};
use minik8s_meta::Backoff;
use nix::errno::Errno;
use nix::fcntl::OFlag;
use tonic::transport::Channel;
use tracing::{debug, info};

use crate::image::in_namespace;

/// containerd deletes an exec itself, milliseconds after its end. Output that is read slowly is looked at ever more seldom.
const LOOKS: Backoff = Backoff::millis(1_000, 30_000);

/// Watches over an exec whose process has ended until containerd has let go of it.
pub async fn release_exec(channel: Channel, container_id: String, exec_id: String) {
    let mut tasks = TasksClient::new(channel);
    let mut looks = LOOKS.retries();
    loop {
        tokio::time::sleep(looks.failed()).await;
        let get = GetRequest { container_id: container_id.clone(), exec_id: exec_id.clone() };
        // It is gone, as it should be.
        let Ok(found) = tasks.get(in_namespace(get)).await else { return };
        let Some(process) = found.into_inner().process else { return };
        if is_stuck(&process) {
            info!(
                container = container_id,
                exec = exec_id,
                "closing the unread input of an exec that has ended"
            );
            let delete = DeleteProcessRequest { container_id, exec_id };
            if let Err(status) = tasks.delete_process(in_namespace(delete)).await {
                debug!(%status, "the exec is gone by itself");
            }
            return;
        }
    }
}

/// Ended, and all that it wrote is read.
fn is_stuck(process: &Process) -> bool {
    let outputs = [&process.stdout, &process.stderr];
    process.status() == Status::Stopped
        && !process.stdin.is_empty()
        && outputs.into_iter().filter(|path| !path.is_empty()).all(|path| !has_reader(path))
}

/// Whether anybody has this FIFO open for reading.
fn has_reader(path: &str) -> bool {
    let opened = OpenOptions::new().write(true).custom_flags(OFlag::O_NONBLOCK.bits()).open(path);
    // One that is removed is read by nobody.
    opened.map_or_else(
        |error| ![Some(Errno::ENXIO as i32), Some(Errno::ENOENT as i32)].contains(&error.raw_os_error()),
        |_| true,
    )
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may panic")]
mod tests {
    use super::*;

    #[test]
    fn exec_is_stuck_once_its_output_is_read() {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
        nix::unistd::mkfifo(&dir.path().join("out"), nix::sys::stat::Mode::S_IRWXU).unwrap();
        let process = |status: Status, stdin: String| Process {
            status: status.into(),
            stdin,
            stdout: path("out"),
            stderr: path("removed"),
            ..Process::default()
        };
        let ended = process(Status::Stopped, path("in"));
        assert!(is_stuck(&ended));
        assert!(!is_stuck(&process(Status::Running, path("in"))));
        assert!(!is_stuck(&process(Status::Stopped, String::new())), "it has no input");
        let flags = OFlag::O_NONBLOCK.bits();
        let reader = OpenOptions::new().read(true).custom_flags(flags).open(path("out")).unwrap();
        assert!(!is_stuck(&ended), "its output is still being read");
        drop(reader);
        assert!(is_stuck(&ended));
    }
}
