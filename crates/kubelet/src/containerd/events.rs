//! containerd's event stream, reduced to what the agent acts upon.

use std::path::Path;

use containerd_client::events::{TaskExit, TaskOom, TaskStart};
use containerd_client::services::v1::SubscribeRequest;
use containerd_client::services::v1::events_client::EventsClient;
use futures::stream::{Stream, StreamExt};
use prost::Message;

use super::connect;

/// Something happened to the container (or sandbox) of this id.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RuntimeEvent {
    Started {
        id: String,
    },
    Exited {
        id: String,
    },
    /// A process that was started in it besides its own.
    ExecExited {
        id: String,
        exec: String,
    },
    OutOfMemory {
        id: String,
    },
}

impl RuntimeEvent {
    pub fn container_id(&self) -> &str {
        match self {
            RuntimeEvent::Started { id }
            | RuntimeEvent::Exited { id }
            | RuntimeEvent::ExecExited { id, .. }
            | RuntimeEvent::OutOfMemory { id } => id,
        }
    }
}

/// Subscribes. The stream ends when containerd does; events in between are lost, so the caller relists
/// after every subscription.
pub async fn watch_events(socket: &Path) -> Result<impl Stream<Item = RuntimeEvent>, tonic::Status> {
    let filters = ["start", "exit", "oom"]
        .map(|kind| format!(r#"namespace=="{}",topic=="/tasks/{kind}""#, crate::image::NAMESPACE));
    let mut client = EventsClient::new(connect(socket));
    let stream = client.subscribe(SubscribeRequest { filters: filters.to_vec() }).await?.into_inner();
    let events = stream.take_while(|envelope| std::future::ready(envelope.is_ok())).filter_map(|envelope| {
        std::future::ready(envelope.ok().and_then(|e| decode(&e.topic, &e.event?.value)))
    });
    Ok(events)
}

fn decode(topic: &str, body: &[u8]) -> Option<RuntimeEvent> {
    match topic {
        "/tasks/start" => TaskStart::decode(body).ok().map(|e| RuntimeEvent::Started { id: e.container_id }),
        // An exec that ends has an id of its own.
        "/tasks/exit" => TaskExit::decode(body).ok().map(|e| match e.id == e.container_id {
            true => RuntimeEvent::Exited { id: e.container_id },
            false => RuntimeEvent::ExecExited { id: e.container_id, exec: e.id },
        }),
        "/tasks/oom" => TaskOom::decode(body).ok().map(|e| RuntimeEvent::OutOfMemory { id: e.container_id }),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exits_of_containers_and_execs_differ() {
        let exit = |id: &str| {
            TaskExit { container_id: "c".into(), id: id.into(), ..TaskExit::default() }.encode_to_vec()
        };
        assert_eq!(decode("/tasks/exit", &exit("c")), Some(RuntimeEvent::Exited { id: "c".into() }));
        let exec = RuntimeEvent::ExecExited { id: "c".into(), exec: "e".into() };
        assert_eq!(decode("/tasks/exit", &exit("e")), Some(exec));
        assert_eq!(decode("/tasks/exit", &[0xff]), None);
        assert_eq!(decode("/images/create", &[]), None);
    }
}
