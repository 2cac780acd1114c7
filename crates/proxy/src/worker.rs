//! One thread's part of a proxy: its clients' connections and its connections to backends.

use std::convert::Infallible;
use std::future::poll_fn;
use std::net::{IpAddr, SocketAddr};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::task::Poll;
use std::time::Duration;

use http::header::{CONNECTION, HeaderValue};
use http::{Request, Response, StatusCode, Version};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use jiff::Timestamp;
use jiff::fmt::rfc2822::DateTimePrinter;
use minik8s_limits::Place;
use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::Notify;
use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::CancellationToken;
use tracing::debug;

use crate::exchange::{ConnectError, PooledConnection};
use crate::pool::Pool;
use crate::resilience::Copies;
use crate::stream::Secured;
use crate::tap::{Endpoint, TappedRequest, Telling};
use crate::trace::{TRACEPARENT, Traced};
use crate::turns::EndpointTurns;
use crate::write_timeout::WriteTimeout;
use crate::{Body, Front, Refusal, Shared, plain};

/// How often waiting connections to backends are looked through, while there are any.
const SWEEP: Duration = Duration::from_secs(10);
/// And how often for a while after a change: connections that were in use then are put back one by one.
const SWEEP_SOON: Duration = Duration::from_millis(500);
const SOON: Duration = Duration::from_secs(30);
/// Streams of one HTTP/2 connection at a time.
const MOST_STREAMS: u32 = 100;

pub struct Worker<F: Front> {
    pub shared: Arc<Shared<F>>,
    pub(super) pool: Arc<Pool<PooledConnection>>,
    pub(super) plain: Pool<plain::Backend>,
    pub(super) copies: Copies,
    /// Who connects to an endpoint.
    pub turns: EndpointTurns,
    /// Endpoints take turns.
    pub turn: AtomicUsize,
    /// What requests are counted under that no route matches.
    pub(super) no_label: Arc<str>,
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
    /// Its place among the connections; whoever goes on with this one holds it, too.
    pub place: Option<Arc<Place>>,
    /// Where it wanted to go, if this was found out.
    pub destination: Option<SocketAddr>,
    /// Who it has proved to be, if it has.
    pub identity: Option<Arc<str>>,
    /// The host that its TLS is for, if it has said one.
    pub server_name: Option<Box<str>>,
}

impl Client {
    pub fn new(address: SocketAddr, protocol: &'static str) -> Self {
        let ip = address.ip().to_canonical();
        let ip_header = HeaderValue::from_str(&ip.to_string()).unwrap_or(HeaderValue::from_static("unknown"));
        Client { ip, ip_header, protocol, place: None, destination: None, identity: None, server_name: None }
    }

    pub fn holding(self, place: Place) -> Self {
        Client { place: Some(Arc::new(place)), ..self }
    }

    /// `http` or `https`.
    pub fn protocol(&self) -> &'static str {
        self.protocol
    }

    pub fn named(self, server_name: Option<&str>) -> Self {
        Client { server_name: server_name.map(|name| name.to_ascii_lowercase().into()), ..self }
    }

    pub fn towards(self, destination: SocketAddr) -> Self {
        Client { destination: Some(destination), ..self }
    }

    pub fn known_as(self, identity: Option<Arc<str>>) -> Self {
        Client { identity, ..self }
    }
}

impl<F: Front> Worker<F> {
    /// Also starts the task that closes useless connections; it ends with `stop`.
    pub fn start(shared: Arc<Shared<F>>, stop: CancellationToken) -> Arc<Self> {
        let mut server = auto::Builder::new(TokioExecutor::new());
        server.http1().timer(TokioTimer::new()).header_read_timeout(shared.timeouts.client);
        server.http2().timer(TokioTimer::new()).max_concurrent_streams(MOST_STREAMS);
        server.http2().keep_alive_interval(shared.timeouts.client);
        let worker = Arc::new(Worker {
            shared,
            pool: Arc::default(),
            plain: Pool::default(),
            copies: Copies::default(),
            turns: EndpointTurns::default(),
            turn: AtomicUsize::new(0),
            no_label: "".into(),
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
        let stream = WriteTimeout::new(stream, self.shared.timeouts.unread);
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
        let is_http2 = Arc::<Notify>::default();
        let service = service_fn(|request: Request<Incoming>| {
            let (worker, client) = (self.clone(), client.clone());
            if request.version() == Version::HTTP_2 {
                is_http2.notify_one();
            }
            async move { Ok::<_, Infallible>(worker.answer(&client, request).await) }
        });
        let mut connection = pin!(self.server.serve_connection_with_upgrades(TokioIo::new(stream), service));
        // HTTP/2 has a word for it, and loses nothing; before, a connection ends with an answer that says so.
        let retires = async {
            self.shared.retiring.cancelled().await;
            is_http2.notified().await;
        };
        let ended = tokio::select! {
            ended = connection.as_mut() => ended,
            () = retires => {
                connection.as_mut().graceful_shutdown();
                connection.await
            }
            () = self.stop.cancelled() => {
                connection.as_mut().graceful_shutdown();
                match timeout(self.shared.timeouts.stop, connection).await {
                    Ok(ended) => ended,
                    Err(_) => return,
                }
            }
        };
        if let Err(error) = ended {
            debug!(client = %client.ip, error, "a client's connection ended early");
        }
    }

    async fn answer(&self, client: &Client, mut request: Request<Incoming>) -> Response<Body> {
        let started = Instant::now();
        let traced = self.shared.tracer.get().map(|tracer| {
            let parent = request.headers().get(TRACEPARENT).map(HeaderValue::as_bytes);
            let traced = Traced::begin(tracer, parent, request.method().as_str());
            if let Ok(value) = HeaderValue::try_from(traced.header()) {
                request.headers_mut().insert(TRACEPARENT, value);
            }
            (tracer, traced)
        });
        let log = tracing::enabled!(target: "access", tracing::Level::DEBUG).then(|| {
            (
                request.method().clone(),
                request.uri().clone(),
                request.headers().get(http::header::HOST).cloned(),
            )
        });
        let tapped = self.shared.tap.begin(client, request.method().as_str(), request.uri().path());
        let table = self.shared.table.borrow().clone();
        let is_http2 = request.version() == Version::HTTP_2;
        let (label, rule, answer) = self.forward(&table, client, request).await;
        let mut response = answer.unwrap_or_else(Refusal::into_response);
        let is_upgrade = response.status() == StatusCode::SWITCHING_PROTOCOLS;
        if self.shared.retiring.is_cancelled() && !is_http2 && !is_upgrade {
            response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
        }
        let (code, took) = (response.status().as_u16(), started.elapsed());
        self.shared.metrics.count(&label, code, took);
        if let Some((tracer, traced)) = traced {
            traced.end(tracer, F::METRICS.0, &label, code, took);
        }
        if let Some((method, uri, host)) = log {
            debug!(target: "access", client = %client.ip, %method, ?host, %uri, code, ?took);
        }
        let Some(tapped) = tapped else { return response };
        let endpoint = Endpoint::of(&response);
        let tapped = TappedRequest { label, rule, endpoint, code, took, ..*tapped };
        Telling::follow(&self.shared.tap, Box::new(tapped), response)
    }

    /// A connection to that address that waits for a request.
    pub async fn pooled(&self, address: SocketAddr) -> Option<PooledConnection> {
        poll_fn(|cx| Poll::Ready(self.pool.take(address, cx))).await
    }

    /// A new one; after its answer it waits for others.
    pub async fn connect(
        &self,
        address: SocketAddr,
        timeouts: Duration,
    ) -> Result<PooledConnection, ConnectError> {
        PooledConnection::connect(address, self.pool.clone(), self.secured(address), timeouts).await
    }

    /// One for a plain request, and whether it had waited for it. When many want one at once, they take turns, and whoever
    /// has waited finds in most cases one that another has used meanwhile.
    pub(super) async fn plain_backend(
        &self,
        address: SocketAddr,
        limit: Duration,
    ) -> Result<(plain::Backend, bool), ConnectError> {
        let pooled = || poll_fn(move |cx| Poll::Ready(self.plain.take(address, cx)));
        if let Some(backend) = pooled().await {
            return Ok((backend, true));
        }
        let turn = self.turns.of(address).take().await;
        if let Some(backend) = pooled().await {
            return Ok((backend, true));
        }
        // Few need it at a time, and it is large.
        let backend = Box::pin(plain::Backend::connect(address, self.secured(address), limit)).await?;
        turn.succeeded();
        Ok((backend, false))
    }

    pub(super) fn secured(&self, address: SocketAddr) -> Secured {
        F::secured(&self.shared.table.borrow(), address)
    }

    /// When the proxy stops.
    pub async fn stopped(&self) {
        self.stop.cancelled().await;
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
        let mut changed_at: Option<Instant> = None;
        loop {
            let is_new = changed_at.is_some_and(|then| then.elapsed() < SOON);
            let pause = if is_new { SWEEP_SOON } else { SWEEP };
            let later = async {
                tokio::select! {
                    () = self.pool.filled() => {}
                    () = self.plain.filled() => {}
                }
                sleep(pause).await;
            };
            tokio::select! {
                changed = table.changed() => {
                    if changed.is_err() {
                        return;
                    }
                    changed_at = Some(Instant::now());
                }
                () = later => {}
            }
            let endpoints = F::endpoints(&table.borrow_and_update());
            poll_fn(|cx| {
                self.pool.sweep(&endpoints, cx);
                self.plain.sweep(&endpoints, cx);
                Poll::Ready(())
            })
            .await;
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};

    use super::*;
    use crate::testing::Nowhere;

    /// An idle connection outlives the word, and its next answer is the last. `body` decides which way requests go.
    async fn check(body: &str) {
        let shared = Arc::<Shared<Nowhere>>::default();
        let worker = Worker::start(shared.clone(), CancellationToken::new());
        let (mut client, server) = duplex(4096);
        let peer = Client::new(SocketAddr::from(([127, 0, 0, 1], 1)), "http");
        let serving = tokio::spawn(async move { worker.serve(server, peer).await });
        let request = format!("POST / HTTP/1.1\r\nhost: a\r\n{body}");
        client.write_all(request.as_bytes()).await.unwrap();
        let mut first = [0; 512];
        let length = client.read(&mut first).await.unwrap();
        let first = String::from_utf8_lossy(&first[..length]).to_lowercase();
        assert!(first.starts_with("http/1.1 404") && !first.contains("connection: close"), "{first}");
        shared.retiring.cancel();
        tokio::task::yield_now().await;
        assert!(!serving.is_finished(), "idle, and not cut off");
        client.write_all(request.as_bytes()).await.unwrap();
        let mut last = String::new();
        client.read_to_string(&mut last).await.unwrap();
        assert!(last.to_lowercase().contains("connection: close"), "{last}");
        serving.await.unwrap();
    }

    #[tokio::test]
    async fn retiring_proxy_ends_connections_with_an_answer() {
        check("content-length: 0\r\n\r\n").await;
        check("transfer-encoding: chunked\r\n\r\n0\r\n\r\n").await;
    }
}
