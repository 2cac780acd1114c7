//! All containers of a containerd, in every namespace of it, whoever made them: agents, `ctr`, nerdctl, Docker.
//!
//! For people who look at a machine. It reads and changes nothing, and it leaves out what containers were started with:
//! arguments and environment hold secrets.

use std::collections::HashMap;
use std::path::Path;
use std::time::Duration;

use containerd_client::services::v1::containers_client::ContainersClient;
use containerd_client::services::v1::namespaces_client::NamespacesClient;
use containerd_client::services::v1::tasks_client::TasksClient;
use containerd_client::services::v1::{
    Container, ListContainersRequest, ListNamespacesRequest, ListTasksRequest,
};
use containerd_client::types::v1::Process;
use jiff::Timestamp;
use tonic::transport::Channel;
use tonic::{Request, Status};

use super::connect;

/// Every shim is asked for its state.
const CALL_TIMEOUT: Duration = Duration::from_secs(10);

/// A container as containerd knows it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FoundContainer {
    pub id: String,
    /// containerd's, not Kubernetes'.
    pub namespace: String,
    pub image: String,
    pub labels: HashMap<String, String>,
    pub created: Option<Timestamp>,
    /// created, running, paused, or stopped: it runs no more, or not yet.
    pub state: &'static str,
    /// 0 if it does not run.
    pub pid: u32,
}

pub async fn all_containers(socket: &Path) -> Result<Vec<FoundContainer>, Status> {
    let channel = connect(socket);
    let mut list = Request::new(ListNamespacesRequest::default());
    list.set_timeout(CALL_TIMEOUT);
    let namespaces = NamespacesClient::new(channel.clone()).list(list).await?.into_inner().namespaces;
    let mut found = Vec::new();
    for namespace in namespaces {
        found.extend(in_one(&channel, &namespace.name).await?);
    }
    Ok(found)
}

async fn in_one(channel: &Channel, namespace: &str) -> Result<Vec<FoundContainer>, Status> {
    let list = of_namespace(ListTasksRequest::default(), namespace)?;
    let tasks = TasksClient::new(channel.clone()).list(list).await?.into_inner().tasks;
    let tasks: HashMap<String, Process> = tasks.into_iter().map(|task| (task.id.clone(), task)).collect();
    let list = of_namespace(ListContainersRequest::default(), namespace)?;
    // One by one: each comes with all of its configuration, and together they are too large for a message.
    let mut each = ContainersClient::new(channel.clone()).list_stream(list).await?.into_inner();
    let mut found = Vec::new();
    while let Some(message) = each.message().await? {
        found.extend(message.container.map(|container| described(container, namespace, &tasks)));
    }
    Ok(found)
}

fn described(container: Container, namespace: &str, tasks: &HashMap<String, Process>) -> FoundContainer {
    let task = tasks.get(&container.id);
    let state = task.map_or("stopped", state_of);
    FoundContainer {
        namespace: namespace.to_owned(),
        image: container.image,
        labels: container.labels,
        created: container.created_at.and_then(|at| Timestamp::new(at.seconds, at.nanos).ok()),
        state,
        pid: task.filter(|_| state != "stopped").map_or(0, |task| task.pid),
        id: container.id,
    }
}

fn state_of(task: &Process) -> &'static str {
    use containerd_client::types::v1::Status as State;
    match task.status() {
        State::Created => "created",
        State::Running => "running",
        State::Paused | State::Pausing => "paused",
        State::Stopped => "stopped",
        State::Unknown => "unknown",
    }
}

fn of_namespace<T>(message: T, namespace: &str) -> Result<Request<T>, Status> {
    let mut request = Request::new(message);
    let named = namespace.parse().map_err(|_| Status::internal(format!("odd namespace {namespace:?}")))?;
    request.metadata_mut().insert("containerd-namespace", named);
    request.set_timeout(CALL_TIMEOUT);
    Ok(request)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn container_is_in_the_state_of_its_task() {
        let check = |task: Option<(i32, u32)>, want: (&str, u32)| {
            let task =
                task.map(|(status, pid)| Process { id: "c".into(), status, pid, ..Process::default() });
            let tasks = task.into_iter().map(|task| (task.id.clone(), task)).collect();
            let container = Container { id: "c".into(), ..Container::default() };
            let found = described(container, "moby", &tasks);
            assert_eq!((found.state, found.pid, found.namespace.as_str()), (want.0, want.1, "moby"));
        };
        check(None, ("stopped", 0));
        check(Some((1, 7)), ("created", 7));
        check(Some((2, 7)), ("running", 7));
        check(Some((3, 7)), ("stopped", 0));
        check(Some((4, 7)), ("paused", 7));
        assert!(of_namespace((), "a\nb").is_err());
    }
}
