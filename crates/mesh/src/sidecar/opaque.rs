//! Connections whose bytes nobody looks at.

use std::net::SocketAddr;
use std::time::Duration;

use minik8s_proxy::{Secured, Stream};
use tokio::io::copy_bidirectional;
use tokio::net::TcpStream;
use tracing::debug;

pub const CONNECT: Duration = Duration::from_secs(30);

/// To the first target that takes the connection. If none does, the pod's process is told as it would have been: its
/// connection is reset.
pub async fn pass(mut client: TcpStream, targets: &[SocketAddr], secured: impl Fn(SocketAddr) -> Secured) {
    for target in targets {
        match Stream::connect(*target, secured(*target), CONNECT).await {
            Ok(mut backend) => {
                // However it ends, both sides know.
                let _ = copy_bidirectional(&mut client, &mut backend).await;
                return;
            }
            Err(error) => debug!(%target, %error, "cannot connect"),
        }
    }
    let _ = client.set_zero_linger();
}
