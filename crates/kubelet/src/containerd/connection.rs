//! A gRPC channel over a unix socket that reconnects by itself.

use std::path::Path;
use std::time::Duration;

use hyper_util::rt::TokioIo;
use tokio::net::UnixStream;
use tonic::transport::{Channel, Endpoint};

/// Opens no connection yet: the first call does, and so does the first call after containerd's restart.
pub fn connect(socket: &Path) -> Channel {
    let socket = socket.to_owned();
    // The address is never used; the connector below is.
    let endpoint = Endpoint::from_static("http://containerd").connect_timeout(Duration::from_secs(10));
    endpoint.connect_with_connector_lazy(tower::service_fn(move |_| {
        let socket = socket.clone();
        async move { UnixStream::connect(socket).await.map(TokioIo::new) }
    }))
}
