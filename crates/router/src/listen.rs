//! Ports, and the threads that serve what comes in on them.
//!
//! A port that somebody else has is no reason to fail: it is said once, and tried again until it is free. The
//! threads have an event loop each, so that a request never moves between threads, and requests do not wait for
//! the agent's other work.

use std::collections::HashMap;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use minik8s_informer::Backoff;
use minik8s_limits::{ClientLimit, Place};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::mpsc::{Receiver, Sender, channel};
use tokio::time::{sleep, timeout};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::{debug, error, info};

use crate::gateway::{Mode, Port, Protocol, stream};
use crate::proxy::{Client, Shared, Worker};
use crate::table::Route;
use crate::tls::{self, CheckedAcceptors};

/// Until the next try after a port was taken.
const RETRY: Backoff = Backoff::millis(500, 4_000);
/// Out of file descriptors, most likely: that passes.
const PAUSE: Duration = Duration::from_millis(100);
/// More threads serve no more: the rest of the machine is for pods.
const MOST_WORKERS: usize = 8;
const HANDSHAKE: Duration = Duration::from_secs(10);
/// Connections that wait for a thread.
const WAITING: usize = 256;
/// Connections of one client address and of all. More are closed.
const CONNECTIONS: (usize, usize) = (1024, 16_384);

/// Where a connection came in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Entrance {
    /// One of the node's own ports.
    Http,
    Https,
    /// A Gateway's, by the routers' number.
    Gateway(SocketAddr),
}

struct Accepted {
    stream: std::net::TcpStream,
    peer: SocketAddr,
    entrance: Entrance,
    place: Place,
}

/// The threads; they end when this is dropped and their connections are over.
pub struct Workers {
    senders: Vec<Sender<Accepted>>,
    limit: Arc<ClientLimit>,
    next: AtomicUsize,
    /// One of the threads is gone.
    ended: CancellationToken,
}

impl Workers {
    pub fn start(shared: &Arc<Shared>, stop: &CancellationToken) -> io::Result<Self> {
        Workers::bounded(shared, stop, CONNECTIONS)
    }

    fn bounded(
        shared: &Arc<Shared>,
        stop: &CancellationToken,
        (each, total): (usize, usize),
    ) -> io::Result<Self> {
        let count = std::thread::available_parallelism().map_or(1, |n| n.get().min(MOST_WORKERS));
        let ended = CancellationToken::new();
        let start = |number: usize| -> io::Result<_> {
            let (sender, receiver) = channel(WAITING);
            let (shared, stop) = (shared.clone(), stop.clone());
            start_thread(number, &ended, work(shared, stop, receiver))?;
            Ok(sender)
        };
        let senders = (0..count).map(start).collect::<io::Result<_>>()?;
        let limit = ClientLimit::new(each, total);
        Ok(Workers { senders, limit, next: AtomicUsize::new(0), ended })
    }

    /// Is cancelled when a thread has ended before this was dropped: connections that are handed to it are lost.
    pub fn ended(&self) -> CancellationToken {
        self.ended.clone()
    }

    /// Closes the connection if its client has too many, or if no thread has time for one more.
    fn hand_over(&self, stream: TcpStream, peer: SocketAddr, entrance: Entrance) -> io::Result<()> {
        // On [::] an IPv4 client comes by an address of IPv6 that means its own.
        let peer = SocketAddr::new(peer.ip().to_canonical(), peer.port());
        let Some(place) = self.limit.admit(peer.ip()) else {
            debug!(client = %peer, "too many connections");
            return Ok(());
        };
        stream.set_nodelay(true)?;
        let mut accepted = Accepted { stream: stream.into_std()?, peer, entrance, place };
        let first = self.next.fetch_add(1, Ordering::Relaxed);
        for number in 0..self.senders.len() {
            match self.senders[(first + number) % self.senders.len()].try_send(accepted) {
                Err(TrySendError::Full(back)) => accepted = back,
                // A thread that is gone means that the router stops, or is about to be started anew.
                Ok(()) | Err(TrySendError::Closed(_)) => return Ok(()),
            }
        }
        debug!(client = %peer, "no thread has time for a connection");
        Ok(())
    }
}

/// A thread with an event loop of its own. `ended` is cancelled when it ends, also by a panic.
fn start_thread(
    number: usize,
    ended: &CancellationToken,
    work: impl Future<Output = ()> + Send + 'static,
) -> io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let ends = ended.clone().drop_guard();
    std::thread::Builder::new().name(format!("router-{number}")).spawn(move || {
        let _ends = ends;
        runtime.block_on(work);
    })?;
    Ok(())
}

async fn work(shared: Arc<Shared>, stop: CancellationToken, mut accepted: Receiver<Accepted>) {
    let acceptor = TlsAcceptor::from(tls::server_config(&shared, None));
    let mut of_gateways: HashMap<u16, TlsAcceptor> = HashMap::new();
    let checked = Arc::<CheckedAcceptors>::default();
    let worker = Worker::start(shared.clone(), stop);
    let connections = TaskTracker::new();
    while let Some(Accepted { stream, peer, entrance, place }) = accepted.recv().await {
        let Ok(stream) = TcpStream::from_std(stream) else { continue };
        let worker = worker.clone();
        let address = match entrance {
            Entrance::Gateway(address) => address,
            Entrance::Http => {
                let client = Client::new(peer, "http").holding(place);
                connections.spawn(async move { worker.serve(stream, client).await });
                continue;
            }
            Entrance::Https => {
                let (client, acceptor) = (Client::new(peer, "https").holding(place), acceptor.clone());
                connections.spawn(async move {
                    if let Some(stream) = accept_tls(&acceptor, stream, peer).await {
                        worker.serve(stream, client).await;
                    }
                });
                continue;
            }
        };
        let acceptor = of_gateways
            .entry(address.port())
            .or_insert_with(|| TlsAcceptor::from(tls::server_config(&shared, Some(address.port()))));
        let (acceptor, checked) = (acceptor.clone(), checked.clone());
        let gateway = AtGateway { worker, acceptor, checked, address, peer, place };
        connections.spawn(async move {
            if let Err(error) = gateway.serve(stream).await {
                debug!(client = %peer, %error, "a connection to {address} ended early");
            }
        });
    }
    connections.close();
    connections.wait().await;
}

async fn accept_tls(
    acceptor: &TlsAcceptor,
    stream: TcpStream,
    peer: SocketAddr,
) -> Option<TlsStream<TcpStream>> {
    match timeout(HANDSHAKE, acceptor.accept(stream)).await {
        Ok(Ok(stream)) => return Some(stream),
        Ok(Err(error)) => debug!(client = %peer, %error, "a TLS handshake failed"),
        Err(_) => debug!(client = %peer, "a TLS handshake took too long"),
    }
    None
}

/// A connection at a Gateway's port.
struct AtGateway {
    worker: Arc<Worker>,
    acceptor: TlsAcceptor,
    /// For listeners that ask for certificates of clients.
    checked: Arc<CheckedAcceptors>,
    address: SocketAddr,
    peer: SocketAddr,
    place: Place,
}

impl AtGateway {
    /// As the port is now; what it becomes is for later connections, and for later requests. The table is not held as
    /// long as a connection lasts.
    async fn serve(self, stream: TcpStream) -> io::Result<()> {
        let client = |protocol: &'static str| Client::new(self.peer, protocol).towards(self.address);
        if self.port()?.protocol == Protocol::Http {
            let client = client("http").holding(self.place);
            self.worker.serve(stream, client).await;
            return Ok(());
        }
        if self.port()?.protocol == Protocol::Tcp {
            let (route, client) = (self.stream_route("")?, client("http"));
            return stream::pass(&self.worker, &route, stream, &client).await;
        }
        let name = stream::server_name(&stream, HANDSHAKE).await?;
        let listener = self.port()?.listener(&name).map(|listener| (listener.mode, listener.clients.clone()));
        let (mode, clients) = listener.ok_or_else(|| io::Error::other("no listener has this host"))?;
        if mode == Mode::Passthrough {
            let (route, client) = (self.stream_route(&name)?, client("https"));
            return stream::pass(&self.worker, &route, stream, &client).await;
        }
        let acceptor = match &clients {
            Some(clients) => self.checked.get(&self.worker.shared, self.address.port(), clients)?,
            None => self.acceptor.clone(),
        };
        let Some(stream) = accept_tls(&acceptor, stream, self.peer).await else { return Ok(()) };
        if mode == Mode::Stream {
            let (route, client) = (self.stream_route(&name)?, client("https"));
            return stream::pass(&self.worker, &route, stream, &client).await;
        }
        let client = client("https").named(Some(&name)).holding(self.place);
        self.worker.serve(stream, client).await;
        Ok(())
    }

    fn port(&self) -> io::Result<Arc<Port>> {
        let table = self.worker.shared.table.borrow();
        let port = table.gateways.port(self.address.port()).cloned();
        port.ok_or_else(|| io::Error::other("the Gateway has no such port any more"))
    }

    /// Where a connection for a host goes.
    fn stream_route(&self, host: &str) -> io::Result<Route> {
        let route = self.port()?.stream(host).cloned();
        route.ok_or_else(|| io::Error::other("no route is attached"))
    }
}

/// Accepts connections until it is dropped. `on_state` hears once per problem why the port cannot be had, and without one
/// when it is.
pub async fn listen(
    address: SocketAddr,
    entrance: Entrance,
    workers: Arc<Workers>,
    mut on_state: impl FnMut(Option<&io::Error>),
) {
    let mut told = None;
    let mut retries = RETRY.retries();
    let listener = loop {
        match TcpListener::bind(address).await {
            Ok(listener) => break listener,
            Err(error) => {
                if told != Some(error.kind()) {
                    told = Some(error.kind());
                    on_state(Some(&error));
                }
                sleep(retries.failed()).await;
            }
        }
    };
    on_state(None);
    info!("host names and paths are answered on {address}");
    loop {
        let handed_over = match listener.accept().await {
            Ok((stream, peer)) => workers.hand_over(stream, peer, entrance),
            Err(error) => Err(error),
        };
        if let Err(error) = handed_over {
            error!(%error, "cannot accept a connection on {address}");
            sleep(PAUSE).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    #[tokio::test]
    async fn thread_that_panics_ends_the_router() {
        let ended = CancellationToken::new();
        let (fail, failing) = tokio::sync::oneshot::channel::<()>();
        start_thread(0, &ended, async { failing.await.expect("somebody who says when") }).unwrap();
        assert!(timeout(Duration::from_millis(50), ended.cancelled()).await.is_err());
        drop(fail);
        timeout(Duration::from_secs(60), ended.cancelled()).await.expect("its end is told");
    }

    /// A client with too many connections has the new ones closed; others are served, and so is it after it closed some.
    #[tokio::test]
    async fn connections_are_bounded_per_client() {
        let stop = CancellationToken::new();
        let workers = Arc::new(Workers::bounded(&Arc::default(), &stop, (3, 100)).unwrap());
        // Of an address that nobody else asks for a port of.
        let free = std::net::TcpListener::bind("127.66.251.1:0").unwrap().local_addr().unwrap();
        tokio::spawn(listen(free, Entrance::Http, workers, |_| ()));
        let connect = async |from: &str| loop {
            let socket = tokio::net::TcpSocket::new_v4().unwrap();
            socket.bind(SocketAddr::new(from.parse().unwrap(), 0)).unwrap();
            match socket.connect(free).await {
                Ok(stream) => return stream,
                Err(_) => sleep(Duration::from_millis(5)).await,
            }
        };
        let is_served = async |stream: &mut TcpStream| {
            if stream.write_all(b"GET / HTTP/1.1\r\nhost: h\r\n\r\n").await.is_err() {
                return false;
            }
            let mut answer = [0; 512];
            let read = timeout(Duration::from_secs(60), stream.read(&mut answer)).await.unwrap();
            read.is_ok_and(|length| answer[..length].starts_with(b"HTTP/1.1 404"))
        };
        let mut held = Vec::new();
        for _ in 0..3 {
            let mut stream = connect("127.0.0.1").await;
            assert!(is_served(&mut stream).await);
            held.push(stream);
        }
        assert!(!is_served(&mut connect("127.0.0.1").await).await, "the fourth");
        assert!(is_served(&mut connect("127.0.0.2").await).await, "another client");
        held.pop();
        let again = async {
            while !is_served(&mut connect("127.0.0.1").await).await {
                sleep(Duration::from_millis(5)).await;
            }
        };
        timeout(Duration::from_secs(60), again).await.expect("a place that was given back is used again");
        stop.cancel();
    }
}
