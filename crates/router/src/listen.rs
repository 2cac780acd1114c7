//! Ports, and the threads that serve what comes in on them.
//!
//! A port that somebody else has is no reason to fail: it is said once, and tried again until it is free. The
//! threads have an event loop each, so that a request never moves between threads, and requests do not wait for
//! the agent's other work.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::time::{sleep, timeout};
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::{debug, error, info};

use crate::proxy::{Client, Shared, Worker};
use crate::tls;

/// Until the next try after a port was taken.
const RETRY: Duration = Duration::from_secs(3);
/// Out of file descriptors, most likely: that passes.
const PAUSE: Duration = Duration::from_millis(100);
/// More threads serve no more: the rest of the machine is for pods.
const MOST_WORKERS: usize = 8;
const HANDSHAKE: Duration = Duration::from_secs(10);

struct Accepted {
    stream: std::net::TcpStream,
    peer: SocketAddr,
    tls: bool,
}

/// The threads; they end when this is dropped and their connections are over.
pub struct Workers {
    senders: Vec<UnboundedSender<Accepted>>,
    next: AtomicUsize,
}

impl Workers {
    pub fn start(shared: &Arc<Shared>, stop: &CancellationToken) -> io::Result<Self> {
        let count = std::thread::available_parallelism().map_or(1, |n| n.get().min(MOST_WORKERS));
        let start = |number: usize| -> io::Result<_> {
            let (sender, receiver) = unbounded_channel();
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
            let (shared, stop) = (shared.clone(), stop.clone());
            let name = format!("router-{number}");
            std::thread::Builder::new()
                .name(name)
                .spawn(move || runtime.block_on(work(shared, stop, receiver)))?;
            Ok(sender)
        };
        let senders = (0..count).map(start).collect::<io::Result<_>>()?;
        Ok(Workers { senders, next: AtomicUsize::new(0) })
    }

    fn hand_over(&self, stream: TcpStream, peer: SocketAddr, tls: bool) -> io::Result<()> {
        stream.set_nodelay(true)?;
        let accepted = Accepted { stream: stream.into_std()?, peer, tls };
        let number = self.next.fetch_add(1, Ordering::Relaxed) % self.senders.len();
        // A thread that is gone means that the router stops.
        let _ = self.senders[number].send(accepted);
        Ok(())
    }
}

async fn work(shared: Arc<Shared>, stop: CancellationToken, mut accepted: UnboundedReceiver<Accepted>) {
    let acceptor = TlsAcceptor::from(tls::server_config(&shared));
    let worker = Worker::start(shared, stop);
    let connections = TaskTracker::new();
    while let Some(Accepted { stream, peer, tls }) = accepted.recv().await {
        let Ok(stream) = TcpStream::from_std(stream) else { continue };
        let worker = worker.clone();
        if !tls {
            connections.spawn(async move { worker.serve(stream, Client::new(peer, "http")).await });
            continue;
        }
        let acceptor = acceptor.clone();
        connections.spawn(async move {
            match timeout(HANDSHAKE, acceptor.accept(stream)).await {
                Ok(Ok(stream)) => worker.serve(stream, Client::new(peer, "https")).await,
                Ok(Err(error)) => debug!(client = %peer, %error, "a TLS handshake failed"),
                Err(_) => debug!(client = %peer, "a TLS handshake took too long"),
            }
        });
    }
    connections.close();
    connections.wait().await;
}

/// Accepts connections until it is dropped. `on_problem` hears once per problem why the port cannot be had.
pub async fn listen(
    address: SocketAddr,
    tls: bool,
    workers: Arc<Workers>,
    mut on_problem: impl FnMut(&io::Error),
) {
    let mut told = None;
    let listener = loop {
        match TcpListener::bind(address).await {
            Ok(listener) => break listener,
            Err(error) => {
                if told != Some(error.kind()) {
                    told = Some(error.kind());
                    on_problem(&error);
                }
                sleep(RETRY).await;
            }
        }
    };
    info!("host names and paths are answered on {address}");
    loop {
        let handed_over = match listener.accept().await {
            Ok((stream, peer)) => workers.hand_over(stream, peer, tls),
            Err(error) => Err(error),
        };
        if let Err(error) = handed_over {
            error!(%error, "cannot accept a connection on {address}");
            sleep(PAUSE).await;
        }
    }
}
