//! What happens in the runtime, as the manager of pods hears it.
//!
//! Events may be lost while nobody listens: each new subscription is told, so that everything is looked at anew.

use std::time::Duration;

use futures::StreamExt;
use tokio::sync::mpsc;

use crate::Config;
use crate::containerd::{RuntimeEvent, connect, release_exec, watch_events};

/// How often a runtime that tells of no events is looked at.
const LOOK: Duration = Duration::from_secs(1);
const RESUBSCRIBE: Duration = Duration::from_millis(500);

/// containerd's events; `None` after each new subscription.
pub fn runtime_events(config: &Config) -> mpsc::Receiver<Option<RuntimeEvent>> {
    let (sender, receiver) = mpsc::channel(256);
    let socket = config.cri_socket();
    let channel = connect(&socket);
    tokio::spawn(async move {
        loop {
            let pause = match watch_events(&socket).await {
                Ok(events) => {
                    let mut events = std::pin::pin!(events);
                    if sender.send(None).await.is_err() {
                        return;
                    }
                    while let Some(event) = events.next().await {
                        if let RuntimeEvent::ExecExited { id, exec } = event {
                            tokio::spawn(release_exec(channel.clone(), id, exec));
                            continue;
                        }
                        if sender.send(Some(event)).await.is_err() {
                            return;
                        }
                    }
                    RESUBSCRIBE
                }
                // Another runtime than containerd: nobody tells, so somebody must look.
                Err(status) if status.code() == tonic::Code::Unimplemented => {
                    if sender.send(None).await.is_err() {
                        return;
                    }
                    LOOK
                }
                Err(_) => RESUBSCRIBE,
            };
            tokio::time::sleep(pause).await;
        }
    });
    receiver
}
