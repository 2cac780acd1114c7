//! Connections whose bytes nobody looks at.

use std::net::SocketAddr;
use std::time::Duration;

use minik8s_proxy::{EndpointTurns, Secured, Stream};
use tracing::debug;

use super::Accepted;

pub const CONNECT: Duration = Duration::from_secs(30);

/// To the first target that takes the connection. If none does, the pod's process is told as it would have been: its
/// connection is reset.
pub async fn pass(
    client: impl Into<Accepted>,
    targets: &[SocketAddr],
    turns: &EndpointTurns,
    secured: impl Fn(SocketAddr) -> Secured,
) {
    let mut client = client.into();
    for target in targets {
        match connect(*target, turns, secured(*target)).await {
            Some(mut backend) => {
                // However it ends, both sides know.
                let _ = minik8s_proxy::pass(&mut client, &mut backend).await;
                return;
            }
            None => debug!(%target, "nobody takes a connection"),
        }
    }
    let _ = client.set_zero_linger();
}

/// A handshake costs memory while it lasts, so only a few are made at a time.
pub(super) async fn connect(target: SocketAddr, turns: &EndpointTurns, secured: Secured) -> Option<Stream> {
    let turn = match &secured {
        Some(_) => Some(turns.of(target).take().await),
        None => None,
    };
    let connected = Box::pin(Stream::connect(target, secured, CONNECT)).await;
    let stream = connected.inspect_err(|error| debug!(%target, %error, "cannot connect")).ok()?;
    if let Some(turn) = turn {
        turn.succeeded();
    }
    Some(stream)
}
