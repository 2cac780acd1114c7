//! Ends what containerd runs for a container and CRI has lost sight of. It removes neither the container nor what it has
//! written.

use std::time::Duration;

use containerd_client::services::v1::tasks_client::TasksClient;
use containerd_client::services::v1::{DeleteTaskRequest, KillRequest};
use tonic::transport::Channel;
use tonic::{Code, Status};

use crate::image::in_namespace;

/// containerd's number of SIGKILL.
const KILL: u32 = 9;
/// A killed container needs a moment to end.
const END_ATTEMPTS: u32 = 50;
const END_PAUSE: Duration = Duration::from_millis(100);

/// Kills all processes of a container, and has containerd forget that they ran.
pub async fn end_task(channel: &Channel, container_id: &str) -> Result<(), Status> {
    let mut tasks = TasksClient::new(channel.clone());
    let container_id = container_id.to_owned();
    let kill =
        KillRequest { container_id: container_id.clone(), signal: KILL, all: true, ..KillRequest::default() };
    if_there(tasks.kill(in_namespace(kill)).await)?;
    for _ in 0..END_ATTEMPTS {
        let delete = DeleteTaskRequest { container_id: container_id.clone() };
        match if_there(tasks.delete(in_namespace(delete)).await) {
            Err(status) if status.code() == Code::FailedPrecondition => tokio::time::sleep(END_PAUSE).await,
            ended => return ended,
        }
    }
    Ok(())
}

pub fn if_there<T>(result: Result<T, Status>) -> Result<(), Status> {
    match result {
        Err(status) if status.code() != Code::NotFound => Err(status),
        _ => Ok(()),
    }
}
