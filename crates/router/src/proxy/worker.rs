//! One thread's part of the router: its clients' connections and its connections to backends.

use std::convert::Infallible;
use std::future::poll_fn;
use std::net::{IpAddr, SocketAddr};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::task::Poll;
use std::time::Duration;

use http::header::HeaderValue;
use http::{Request, Response};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use k8s_openapi::jiff::Timestamp;
use k8s_openapi::jiff::fmt::rfc2822::DateTimePrinter;
use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::CancellationToken;
use tracing::debug;

use super::exchange::Lease;
use super::pool::Pool;
use super::{Body, Shared, plain};

/// How often waiting connections to backends are looked through, while there are any.
const SWEEP: Duration = Duration::from_secs(10);
/// Streams of one HTTP/2 connection at a time.
const MOST_STREAMS: u32 = 256;

pub struct Worker {
    pub(super) shared: Arc<Shared>,
    pub(super) pool: Arc<Pool<Lease>>,
    pub(super) plain: Pool<plain::Backend>,
    /// Endpoints take turns.
    pub(super) turn: AtomicUsize,
    /// What requests are counted under that no route matches.
    pub(super) no_host: Arc<str>,
    server: auto::Builder<TokioExecutor>,
    pub(super) stop: CancellationToken,
    /// The last second for which a date was written, and the date.
    date: Mutex<(i64, String)>,
}

/// Who is at the other end of a connection.
#[derive(Debug)]
pub struct Client {
    pub ip: IpAddr,
    pub(super) ip_header: HeaderValue,
    /// `http` or `https`.
    pub(super) protocol: &'static str,
}

impl Client {
    pub fn new(address: SocketAddr, protocol: &'static str) -> Self {
        let ip = address.ip().to_canonical();
        let ip_header = HeaderValue::from_str(&ip.to_string()).unwrap_or(HeaderValue::from_static("unknown"));
        Client { ip, ip_header, protocol }
    }
}

impl Worker {
    /// Also starts the task that closes useless connections; it ends with `stop`.
    pub fn start(shared: Arc<Shared>, stop: CancellationToken) -> Arc<Self> {
        let mut server = auto::Builder::new(TokioExecutor::new());
        server.http1().timer(TokioTimer::new()).header_read_timeout(shared.patience.client);
        server.http2().timer(TokioTimer::new()).max_concurrent_streams(MOST_STREAMS);
        server.http2().keep_alive_interval(shared.patience.client);
        let worker = Arc::new(Worker {
            shared,
            pool: Arc::default(),
            plain: Pool::default(),
            turn: AtomicUsize::new(0),
            no_host: "".into(),
            server,
            stop: stop.clone(),
            date: Mutex::default(),
        });
        let sweeping = worker.clone();
        tokio::spawn(async move {
            tokio::select! {
                () = sweeping.sweep() => {}
                () = stop.cancelled() => {}
            }
        });
        worker
    }

    /// Serves one connection to its end.
    pub async fn serve<I>(self: &Arc<Self>, stream: I, client: Client)
    where
        I: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        if let Some(stream) = plain::serve(self, stream, &client).await {
            // Few need it, and it is large.
            Box::pin(self.serve_any(stream, client)).await;
        }
    }

    /// Whatever HTTP can be.
    async fn serve_any<I>(self: &Arc<Self>, stream: I, client: Client)
    where
        I: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let client = Arc::new(client);
        let service = service_fn(|request| {
            let (worker, client) = (self.clone(), client.clone());
            async move { Ok::<_, Infallible>(worker.answer(&client, request).await) }
        });
        let mut connection = pin!(self.server.serve_connection_with_upgrades(TokioIo::new(stream), service));
        let ended = tokio::select! {
            ended = connection.as_mut() => ended,
            () = self.stop.cancelled() => {
                connection.as_mut().graceful_shutdown();
                match timeout(self.shared.patience.stop, connection).await {
                    Ok(ended) => ended,
                    Err(_) => return,
                }
            }
        };
        if let Err(error) = ended {
            debug!(client = %client.ip, error, "a client's connection ended early");
        }
    }

    async fn answer(&self, client: &Client, request: Request<Incoming>) -> Response<Body> {
        let started = Instant::now();
        let log = tracing::enabled!(target: "access", tracing::Level::DEBUG).then(|| {
            (
                request.method().clone(),
                request.uri().clone(),
                request.headers().get(http::header::HOST).cloned(),
            )
        });
        let table = self.shared.table.borrow().clone();
        let (host, answer) = self.forward(&table, client, request).await;
        let response = answer.unwrap_or_else(super::answer::Refusal::into_response);
        let (code, took) = (response.status().as_u16(), started.elapsed());
        self.shared.metrics.count(&host, code, took);
        if let Some((method, uri, host)) = log {
            debug!(target: "access", client = %client.ip, %method, ?host, %uri, code, ?took);
        }
        response
    }

    /// The time as heads have it.
    pub(super) fn date(&self) -> String {
        let now = Timestamp::now();
        let mut known = self.date.lock();
        if known.0 != now.as_second() {
            let text = DateTimePrinter::new().timestamp_to_rfc9110_string(&now);
            *known = (now.as_second(), text.unwrap_or_default());
        }
        known.1.clone()
    }

    async fn sweep(&self) {
        let mut table = self.shared.table.subscribe();
        loop {
            let later = async {
                tokio::select! {
                    () = self.pool.filled() => {}
                    () = self.plain.filled() => {}
                }
                sleep(SWEEP).await;
            };
            tokio::select! {
                changed = table.changed() => {
                    if changed.is_err() {
                        return;
                    }
                }
                () = later => {}
            }
            let endpoints = table.borrow_and_update().endpoints();
            poll_fn(|cx| {
                self.pool.sweep(&endpoints, cx);
                self.plain.sweep(&endpoints, cx);
                Poll::Ready(())
            })
            .await;
        }
    }
}
