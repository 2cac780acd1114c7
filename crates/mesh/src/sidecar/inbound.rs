//! What comes to the pod: TLS of other proxies is taken off, policies are asked, and the rest goes on to the pod's own
//! process, at the address and port that the client wanted.
//!
//! Nobody is kept waiting for a look at their first bytes. Where the policy is strict, TLS is waited for. Else the pod's
//! process is called at once, and whoever speaks first decides: a server that greets its clients does so after a moment
//! that only a proxy's first message could need, and a longer one if the client is known to have a proxy. Before anything is
//! known of who may come in, nobody does.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use minik8s_meta::mesh::Identity;
use minik8s_proxy::{Client, Rewound, Worker};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite};
use tokio::net::TcpStream;
use tokio::time::{sleep, timeout};
use tokio_rustls::TlsAcceptor;
use tracing::debug;

use super::counters::{
    DENIED, MUTUAL_TLS, PLAINTEXT, REFUSED_HANDSHAKE, REFUSED_PLAINTEXT, REFUSED_UNTOLD, WOULD_DENY,
};
use super::guard::{Guard, Guarded};
use super::opaque::CONNECT;
use super::{Accepted, hello, is_own, original_destination};
use crate::policy::verdict::Asked;

/// For the first bytes of somebody who is to speak TLS, and for the handshake.
const HANDSHAKE: Duration = Duration::from_secs(10);
/// A greeting of the pod's process waits so long, in case that the client is a proxy whose first message is on its way.
const GREETING: Duration = Duration::from_millis(50);
/// The same for a client that is known to have a proxy, which may be slow but should speak TLS.
const GREETING_TO_MESH: Duration = Duration::from_secs(1);

/// What a connection begins with.
enum Begins {
    Tls,
    Plain,
}

pub async fn serve(stream: Accepted, peer: SocketAddr, worker: Arc<Worker<Guard>>, is_of_mesh: bool) {
    let destination = match original_destination(&stream) {
        Ok(destination) if !is_own(destination) => destination,
        Ok(destination) => return debug!(%destination, "a connection to the proxy itself"),
        Err(error) => return debug!(%error, "nobody knows where a connection wanted to go"),
    };
    serve_towards(stream, (peer, destination), worker, is_of_mesh).await;
}

/// The same for a connection of which this is known.
pub async fn serve_towards(
    stream: impl Into<Accepted>,
    (peer, destination): (SocketAddr, SocketAddr),
    worker: Arc<Worker<Guard>>,
    is_of_mesh: bool,
) {
    let stream = stream.into();
    let _ = stream.set_nodelay(true);
    let connection = Connection { stream, peer, destination, read: Vec::new(), process: None };
    if let Err(error) = connection.serve(&worker, is_of_mesh).await {
        debug!(%peer, %destination, %error, "a connection to the pod ended early");
    }
}

struct Connection {
    stream: Accepted,
    peer: SocketAddr,
    destination: SocketAddr,
    /// What the client has sent and nobody has taken.
    read: Vec<u8>,
    /// The pod's process, where it was called early.
    process: Option<TcpStream>,
}

impl Connection {
    async fn serve(mut self, worker: &Arc<Worker<Guard>>, is_of_mesh: bool) -> io::Result<()> {
        let guarded = worker.shared.table.borrow().clone();
        let counters = &guarded.counters;
        if guarded.is_untold {
            counters.count(REFUSED_UNTOLD, "");
            return self.stream.set_zero_linger();
        }
        let begins = match guarded.strict {
            true => timeout(HANDSHAKE, self.first_bytes()).await.unwrap_or(Ok(Begins::Plain))?,
            false if is_of_mesh => self.whoever_speaks_first(GREETING_TO_MESH).await?,
            false => self.whoever_speaks_first(GREETING).await?,
        };
        match (begins, &guarded.tls) {
            (Begins::Tls, Some(tls)) => {
                let Connection { stream, peer, destination, read, process } = self;
                // A handshake costs memory while it lasts, so only some are made at a time.
                let turn = worker.shared.front.handshakes.take().await;
                let accepting = TlsAcceptor::from(tls.server.clone()).accept(Rewound::new(read, stream));
                let accepted = timeout(HANDSHAKE, Box::pin(accepting)).await;
                let accepted = accepted.map_err(io::Error::from).flatten();
                let stream = accepted.inspect_err(|_| counters.count(REFUSED_HANDSHAKE, ""))?;
                turn.succeeded();
                let Some(identity) = tls.peer(stream.get_ref().1.peer_certificates()) else {
                    counters.count(REFUSED_HANDSHAKE, "");
                    return Ok(());
                };
                counters.count(MUTUAL_TLS, "");
                let caller = Caller { peer, destination, identity: Some(identity) };
                // The TLS of a connection is large, and is moved around no more.
                caller.lead(worker, &guarded, Box::new(stream), process).await
            }
            // Its own certificate has not come yet.
            (Begins::Tls, None) => {
                counters.count(REFUSED_HANDSHAKE, "");
                self.stream.set_zero_linger()
            }
            (Begins::Plain, _) if guarded.strict => {
                counters.count(REFUSED_PLAINTEXT, "");
                self.stream.set_zero_linger()
            }
            (Begins::Plain, _) => {
                counters.count(PLAINTEXT, "");
                let Connection { stream, peer, destination, read, process } = self;
                let caller = Caller { peer, destination, identity: None };
                caller.lead(worker, &guarded, Rewound::new(read, stream), process).await
            }
        }
    }

    /// Reads until it is clear what this is.
    async fn first_bytes(&mut self) -> io::Result<Begins> {
        loop {
            match hello::is_mesh(&self.read) {
                Some(true) => return Ok(Begins::Tls),
                Some(false) => return Ok(Begins::Plain),
                // The client has said all it will.
                None if self.stream.read_buf(&mut self.read).await? == 0 => return Ok(Begins::Plain),
                None => {}
            }
        }
    }

    /// A greeting of the process counts after this pause.
    async fn whoever_speaks_first(&mut self, pause: Duration) -> io::Result<Begins> {
        let process = match call(self.destination).await {
            Ok(process) => process,
            Err(error) => {
                let _ = self.stream.set_zero_linger();
                return Err(error);
            }
        };
        let greets = async {
            let _ = process.readable().await;
            sleep(pause).await;
        };
        let begins = tokio::select! {
            biased;
            begins = self.first_bytes() => begins,
            () = greets => Ok(Begins::Plain),
        };
        self.process = Some(process);
        begins
    }
}

async fn call(destination: SocketAddr) -> io::Result<TcpStream> {
    let process = timeout(CONNECT, TcpStream::connect(destination)).await??;
    process.set_nodelay(true)?;
    Ok(process)
}

/// Who calls, and whom.
struct Caller {
    peer: SocketAddr,
    destination: SocketAddr,
    identity: Option<Identity>,
}

impl Caller {
    async fn lead<S>(
        self,
        worker: &Arc<Worker<Guard>>,
        guarded: &Guarded,
        mut stream: S,
        process: Option<TcpStream>,
    ) -> io::Result<()>
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let port = self.destination.port();
        if guarded.policies.need_requests(port) {
            drop(process);
            let identity = self.identity.as_ref().map(|identity| identity.to_string().into());
            let client = Client::new(self.peer, "http").towards(self.destination).known_as(identity);
            tokio::select! {
                () = Box::pin(worker.serve(stream, client)) => {}
                () = self.until_unwanted(worker, true) => {}
            }
            return Ok(());
        }
        let verdict = guarded.policies.verdict(Asked { identity: self.identity.as_ref(), port, http: None });
        verdict.would_deny.iter().for_each(|policy| guarded.counters.count(WOULD_DENY, policy));
        if let Some(policy) = verdict.denied_by {
            guarded.counters.count(DENIED, policy);
            return Ok(());
        }
        let mut process = match process {
            Some(process) => process,
            None => call(self.destination).await?,
        };
        // However it ends, both sides know.
        tokio::select! {
            _ = minik8s_proxy::pass(&mut stream, &mut process) => {}
            () = self.until_unwanted(worker, false) => {}
        }
        Ok(())
    }

    /// Policies hold for connections that are open, too: clients keep them for days. Returns when one may not go on as it
    /// is; `is_looked_into` where each of its requests is judged anyway.
    async fn until_unwanted(&self, worker: &Arc<Worker<Guard>>, is_looked_into: bool) {
        let mut table = worker.shared.table.subscribe();
        let port = self.destination.port();
        loop {
            let guarded = table.borrow_and_update().clone();
            let asked = Asked { identity: self.identity.as_ref(), port, http: None };
            let is_refused = || guarded.policies.verdict(asked).denied_by.is_some();
            let is_unwanted = guarded.strict && self.identity.is_none()
                || !is_looked_into && (guarded.policies.need_requests(port) || is_refused());
            if is_unwanted {
                return;
            }
            if table.changed().await.is_err() {
                return std::future::pending().await;
            }
        }
    }
}

#[cfg(test)]
mod tests;
