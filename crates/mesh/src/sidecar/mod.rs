//! `minik8s sidecar`: the proxy of one pod. Every connection that the pod makes, and every one that comes to it, arrives
//! here, led by rules in the pod's network namespace that the agent has set.
//!
//! What leaves: a connection to an address that a VirtualService is about is looked into, request by request. All others
//! are passed on to where they wanted to go, without a look, so that no protocol is in its way; with TLS, if there is a
//! proxy at the other end. What comes: see [`inbound`]. It runs as a user of its own without any capability, on one thread,
//! and knows the API server only through the agent's socket. When the node's program is another, a [`successor`] takes its
//! place, and no connection notices.

mod accepted;
mod counters;
mod feed;
mod gamma;
mod guard;
mod hello;
mod inbound;
pub mod opaque;
mod outlier;
mod places;
mod rule;
pub mod server_first;
mod successor;
mod table;
mod tls;

use std::io;
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};
use std::path::Path;
use std::pin::pin;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use minik8s_meta::mesh::{CONFIG_FILE, INBOUND_PORT, LISTENERS_SOCKET, OUTBOUND_PORT, SOCKET_DIR};
use minik8s_proxy::{Client, RequestLimit, Shared, Timeouts, Worker};
use nix::sys::socket::{Backlog, getsockopt, listen, sockopt};
use tokio::net::{TcpListener, TcpStream};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;
use tokio::task::AbortHandle;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::{debug, info, warn};

pub use self::accepted::Accepted;
use self::counters::Counters;
use self::feed::Parts;
pub use self::guard::{Guard, Guarded};
pub use self::inbound::serve_towards as serve_inbound;
use self::places::Place;
pub use self::places::Places;
pub use self::table::{Outbound, Table, Way};
pub use self::tls::Tls;
use crate::handover::{self, Listeners};
pub use crate::protocol::{Config, Credentials};

/// For open requests to end after the signal. The pod's own containers have ended before.
const LAST: Duration = Duration::from_secs(5);
/// Out of file descriptors, most likely: that passes.
const PAUSE: Duration = Duration::from_millis(50);
/// Whose answers are not over, of those that need more than a connection's own memory.
const REQUESTS: usize = 4096;
/// Pods keep connections open, and silent, for as long as they like: nothing of that is the proxy's to end.
const LONG: Duration = Duration::from_secs(24 * 3600);

/// For the agent to say what it wants, which may take it a while without a certificate. Before, connections wait.
const FIRST_WORD: Duration = Duration::from_secs(8);

/// What a process does for its pod.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Role {
    /// The first of its container.
    #[default]
    First,
    /// Takes the place of another.
    Successor,
    /// The first, whose place was taken.
    Waiting,
}

impl Role {
    /// As flags have it: programs of other versions are started by it.
    fn as_str(self) -> &'static str {
        match self {
            Role::First => "first",
            Role::Successor => "successor",
            Role::Waiting => "waiting",
        }
    }
}

/// Runs until it is told to end.
pub async fn run(role: Role) -> io::Result<()> {
    if role == Role::Waiting {
        return successor::wait().await;
    }
    let listeners = tokio::task::spawn_blocking(listeners).await.map_err(io::Error::other)??;
    let stop = CancellationToken::new();
    let usual = Timeouts::default();
    let outbound = Worker::start(shared::<Outbound>(usual), stop.clone());
    // The pod's own process is there, and may be busy.
    let guard = Worker::start(shared::<Guard>(Timeouts { connect: opaque::CONNECT, ..usual }), stop.clone());
    let both = listeners.try_clone()?;
    let (outgoing, incoming) =
        (TcpListener::from_std(listeners.outbound)?, TcpListener::from_std(listeners.inbound)?);
    let parts = Parts {
        outbound: outbound.shared.clone(),
        guard: guard.shared.clone(),
        counters: Arc::<Counters>::default(),
        listeners: both,
        program: watch::Sender::default(),
        spans: OnceLock::new(),
    };
    let counters = parts.counters.clone();
    let connections = TaskTracker::new();
    let mut terminate = signal(SignalKind::terminate())?;
    let mut feeding = pin!(feed::follow(&parts));
    parts.close();
    let mut program = parts.program.subscribe();
    tokio::select! {
        () = feeding.as_mut() => {}
        () = first_word(&parts, role, parts.outbound.table.subscribe()) => {}
        _ = terminate.recv() => return Ok(()),
    }
    if role == Role::Successor {
        successor::say_ready();
    }
    info!("connections of this pod are taken on {}", outgoing.local_addr()?);
    let [for_leaving, for_coming] = Places::both(places::room());
    let leaving = accept(&outgoing, &for_leaving, |stream, peer| {
        connections.spawn(serve(stream, peer, outbound.clone())).abort_handle()
    });
    let coming = accept(&incoming, &for_coming, |stream, peer| {
        let is_of_mesh = outbound.shared.table.borrow().is_of_mesh(peer.ip());
        let (open, guard) = (counters.opened(), guard.clone());
        let serving = async move {
            inbound::serve(stream, peer, guard, is_of_mesh).await;
            drop(open);
        };
        connections.spawn(serving).abort_handle()
    });
    let successor = tokio::select! {
        () = feeding.as_mut() => None,
        () = leaving => None,
        () = coming => None,
        _ = terminate.recv() => None,
        successor = successor::succeed(&mut program) => Some(successor),
    };
    drop((outgoing, incoming));
    connections.close();
    if let Some(successor) = successor {
        parts.outbound.retiring.cancel();
        parts.guard.retiring.cancel();
        // Policies and routes hold for what is open, so the agent is heard to the end.
        tokio::select! {
            () = feeding.as_mut() => {}
            () = connections.wait() => {
                info!("the last connection of the former program is over");
                return if role == Role::First { Err(successor.replace()) } else { Ok(()) };
            }
            ended = successor::children() => return ended,
            _ = terminate.recv() => {}
        }
        successor.terminate();
        stop.cancel();
        let _ = timeout(LAST, connections.wait()).await;
        return successor::children().await;
    }
    stop.cancel();
    let _ = timeout(LAST, connections.wait()).await;
    Ok(())
}

/// Returns when it is known where to go and who may come in, or when it will not be known soon: what an agent has written
/// down holds until then. A successor waits on: whoever is before it knows better.
async fn first_word(parts: &Parts, role: Role, mut table: watch::Receiver<Arc<Table>>) {
    if role == Role::Successor {
        let _ = table.changed().await;
        return;
    }
    if timeout(FIRST_WORD, table.changed()).await.is_ok() {
        return;
    }
    match parts.begin(&Path::new(SOCKET_DIR).join(CONFIG_FILE)) {
        Ok(()) => info!("the agent says nothing: what it has written down holds"),
        Err(error) => warn!(%error, "the agent says nothing and has written nothing down: nobody is let in"),
    }
}

/// Those that the agent has kept of a proxy before this one, or new ones.
fn listeners() -> io::Result<Listeners> {
    let path = Path::new(SOCKET_DIR).join(LISTENERS_SOCKET);
    let kept = std::os::unix::net::UnixStream::connect(path).and_then(|stream| handover::want(&stream));
    let listeners = match kept {
        Ok(Some(listeners)) => listeners,
        Ok(None) | Err(_) => Listeners {
            outbound: std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, OUTBOUND_PORT))?,
            inbound: std::net::TcpListener::bind((Ipv4Addr::UNSPECIFIED, INBOUND_PORT))?,
        },
    };
    for listener in [&listeners.outbound, &listeners.inbound] {
        listener.set_nonblocking(true)?;
        listen(listener, Backlog::MAXALLOWABLE)?;
    }
    Ok(listeners)
}

fn shared<F: minik8s_proxy::Front>(usual: Timeouts) -> Arc<Shared<F>> {
    let timeouts = Timeouts { silence: LONG, unread: LONG, client: LONG, ..usual };
    // One pod's requests: nobody else is kept from anything by them.
    let requests = RequestLimit::new(REQUESTS, REQUESTS);
    Arc::new(Shared { timeouts, requests, ..Shared::<F>::default() })
}

/// Takes connections as long as there are places; the others wait. Never returns.
pub async fn accept(
    listener: &TcpListener,
    places: &Arc<Places>,
    take: impl Fn(Accepted, SocketAddr) -> AbortHandle,
) {
    loop {
        let place: Place = places.wait().await;
        match listener.accept().await {
            Ok((stream, peer)) => {
                let can_end = place.of_task();
                can_end(take(Accepted::new(stream, place), peer));
            }
            Err(error) => {
                warn!(%error, "cannot accept a connection");
                sleep(PAUSE).await;
            }
        }
    }
}

async fn serve(mut stream: Accepted, peer: SocketAddr, worker: Arc<Worker<Outbound>>) {
    let destination = match original_destination(&stream) {
        Ok(destination) if !is_own(destination) => destination,
        Ok(destination) => return debug!(%destination, "a connection to the proxy itself"),
        Err(error) => return debug!(%error, "nobody knows where a connection wanted to go"),
    };
    let _ = stream.set_nodelay(true);
    let table = worker.shared.table.borrow().clone();
    let targets = match table.way(destination) {
        Way::Requests => None,
        Way::UnsaidRequests(targets) => {
            let secured = |target| table.secured(target);
            let racing = server_first::unless_server_first(stream, &targets, &worker.turns, secured);
            let Some(client) = Box::pin(racing).await else { return };
            stream = client;
            None
        }
        Way::PlainRequests(targets) => is_http2(&stream).await.then_some(targets),
        Way::GrpcRequests(targets) => (!is_http2(&stream).await).then_some(targets),
        Way::Opaque(targets) => Some(targets),
    };
    match targets {
        Some(targets) => {
            opaque::pass(stream, &targets, &worker.turns, |target| table.secured(target)).await;
        }
        None => {
            drop(table);
            let _open = worker.shared.front.opened();
            worker.serve(stream, Client::new(peer, "http").towards(destination)).await;
        }
    }
}

/// Whether a client begins as HTTP/2 does.
pub async fn is_http2(stream: &TcpStream) -> bool {
    let mut first = [0; 3];
    stream.peek(&mut first).await.is_ok_and(|length| &first[..length] == b"PRI")
}

/// Where the connection would have gone.
pub fn original_destination(stream: &TcpStream) -> io::Result<SocketAddr> {
    let found = getsockopt(stream, sockopt::OriginalDst)?;
    let ip = Ipv4Addr::from(u32::from_be(found.sin_addr.s_addr));
    Ok(SocketAddr::V4(SocketAddrV4::new(ip, u16::from_be(found.sin_port))))
}

/// A process of the pod that calls these ports itself would be led in circles.
fn is_own(destination: SocketAddr) -> bool {
    matches!(destination.port(), OUTBOUND_PORT | INBOUND_PORT) || destination.ip().is_loopback()
}

#[cfg(test)]
mod tests;
