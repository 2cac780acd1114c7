//! exec, attach and port-forward.
//!
//! The runtime serves these streams itself, over SPDY on a local port. A client that speaks SPDY is joined
//! to it byte by byte; a WebSocket client is translated.

mod backend;
mod outcome;
mod ports;
mod spdy;
mod subprotocol;
mod upgrade;
mod websocket;

use http::{Request, Response};
use hyper::body::Incoming;

use super::answer::{Body, Refusal};
use super::route::Query;
use crate::cri::{Runtime, RuntimeError, StreamFlags};
use crate::pod::DesiredPod;
use upgrade::Protocol;

pub use upgrade::{accept, offered, wants};
pub use websocket::close;

pub async fn exec(
    runtime: &dyn Runtime,
    pod: &DesiredPod,
    container: &str,
    query: &Query,
    request: Request<Incoming>,
) -> Result<Response<Body>, Refusal> {
    let command = query.all("command");
    if command.is_empty() {
        return Err(Refusal::bad_request("you must specify at least 1 command for the container"));
    }
    let flags = flags(query)?;
    let id = running(runtime, pod, container).await?;
    let url = runtime.exec_url(&id, &command, flags).await.map_err(refusal)?;
    upgrade::serve(request, &url, Protocol::Command(flags)).await
}

pub async fn attach(
    runtime: &dyn Runtime,
    pod: &DesiredPod,
    container: &str,
    query: &Query,
    request: Request<Incoming>,
) -> Result<Response<Body>, Refusal> {
    let mut flags = flags(query)?;
    // What the container has, not what the client believes, decides about the terminal.
    flags.tty = pod.container(container).is_some_and(|c| c.spec.tty == Some(true));
    if flags.tty {
        flags.stderr = false;
    }
    let id = running(runtime, pod, container).await?;
    let url = runtime.attach_url(&id, flags).await.map_err(refusal)?;
    upgrade::serve(request, &url, Protocol::Command(flags)).await
}

pub async fn port_forward(
    runtime: &dyn Runtime,
    pod: &DesiredPod,
    query: &Query,
    request: Request<Incoming>,
) -> Result<Response<Body>, Refusal> {
    let ports =
        query.all("ports").iter().flat_map(|list| list.split(',')).filter_map(|p| p.parse().ok()).collect();
    let record = runtime.pod(&pod.uid).await.map_err(refusal)?;
    let sandbox = record.sandbox();
    let sandbox = sandbox.ok_or_else(|| Refusal::bad_request(format!("pod {} is not running", pod.name)))?;
    let url = runtime.port_forward_url(&sandbox.id, ports).await.map_err(refusal)?;
    upgrade::serve(request, &url, Protocol::PortForward).await
}

/// `stdin` is what clients ask the API server for, `input` what API servers ask kubelets for.
fn flags(query: &Query) -> Result<StreamFlags, Refusal> {
    let either = |a: &str, b: &str| query.flag(a) || query.flag(b);
    let tty = query.flag("tty");
    let flags = StreamFlags {
        stdin: either("stdin", "input"),
        stdout: either("stdout", "output"),
        // A terminal has one output only.
        stderr: either("stderr", "error") && !tty,
        tty,
    };
    if !flags.stdin && !flags.stdout && !flags.stderr {
        return Err(Refusal::bad_request("you must specify at least 1 of stdin, stdout, stderr"));
    }
    Ok(flags)
}

async fn running(runtime: &dyn Runtime, pod: &DesiredPod, container: &str) -> Result<String, Refusal> {
    let record = runtime.pod(&pod.uid).await.map_err(refusal)?;
    let found = record.container(container).filter(|c| c.is_running());
    let found = found.ok_or_else(|| Refusal::not_found(format!("container not found (\"{container}\")")))?;
    Ok(found.id.clone())
}

fn refusal(error: RuntimeError) -> Refusal {
    match error {
        RuntimeError::NotFound(message) => Refusal::not_found(message),
        other => Refusal::internal(other),
    }
}

/// The readers of these protocols, for `crate::fuzz` alone.
#[cfg(test)]
pub mod fuzzing {
    pub use super::spdy::{Encoder, Frame, data as spdy_data, pong as spdy_pong, read as spdy_read};
    pub use super::subprotocol::Subprotocol;
    pub use super::websocket::translate;
    pub use crate::cri::StreamFlags;
}
