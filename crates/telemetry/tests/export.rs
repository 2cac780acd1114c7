//! Exporters against collectors of the test's own, over real sockets.

#![allow(clippy::unwrap_used)]

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use minik8s_telemetry::{Endpoint, Exporter, LogProtocol, LogRecord, LogSource, Queue, Severity, loki, otlp};
use parking_lot::Mutex;
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use serde_json::Value;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;

/// Every request that came: path, the header `x-scope-orgid`, body.
#[derive(Clone, Default)]
struct Collector {
    came: Arc<Mutex<Vec<(String, String, Value)>>>,
    /// What is answered next; 200 when there are no more.
    answers: Arc<Mutex<Vec<u16>>>,
}

impl Collector {
    async fn serve<S: AsyncRead + AsyncWrite + Unpin + Send + 'static>(self, stream: S) {
        let service = service_fn(move |request: Request<Incoming>| {
            let collector = self.clone();
            async move {
                let (parts, body) = request.into_parts();
                let body = body.collect().await?.to_bytes();
                let answer = collector.answers.lock().pop().unwrap_or(200);
                if answer == 200 {
                    let header =
                        parts.headers.get("x-scope-orgid").map(|value| value.to_str().unwrap().to_owned());
                    let body = serde_json::from_slice(&body).unwrap();
                    collector.came.lock().push((parts.uri.to_string(), header.unwrap_or_default(), body));
                }
                let text = Full::new(Bytes::from_static(b"no room"));
                Ok::<_, hyper::Error>(Response::builder().status(answer).body(text).unwrap())
            }
        });
        let _ =
            hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
    }

    async fn listen(&self, at: SocketAddr) -> SocketAddr {
        let listener = TcpListener::bind(at).await.unwrap();
        let (address, collector) = (listener.local_addr().unwrap(), self.clone());
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(collector.clone().serve(stream));
            }
        });
        address
    }

    async fn until(&self, what: &str, holds: impl Fn(&[(String, String, Value)]) -> bool) {
        let start = Instant::now();
        while !holds(&self.came.lock()) {
            assert!(start.elapsed() < Duration::from_secs(60), "{what}: {:?}", self.came.lock());
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
}

fn record(body: &str) -> LogRecord {
    LogRecord {
        source: Arc::new(LogSource::container("n1", ("shop", "web-1", "u1"), "main")),
        time: 1_767_225_600_000_000_000,
        stream: Some("stdout"),
        severity: Severity::Unspecified,
        body: body.to_owned(),
        attributes: Vec::new(),
    }
}

fn start(endpoint: Endpoint, protocol: LogProtocol, queue: &Queue<LogRecord>) -> CancellationToken {
    let encode = match protocol {
        LogProtocol::Otlp => otlp::logs,
        LogProtocol::Loki => loki::push,
    };
    let stop = CancellationToken::new();
    tokio::spawn(Exporter { queue: queue.clone(), endpoint, encode }.run(stop.clone()));
    stop
}

fn any() -> SocketAddr {
    "127.0.0.1:0".parse().unwrap()
}

fn counted(queue: &Queue<LogRecord>, what: &str) -> u64 {
    let page = queue.page();
    let line = page.lines().find_map(|line| line.strip_prefix(&format!("minik8s_export_logs_{what}_total ")));
    line.unwrap().parse().unwrap()
}

#[tokio::test]
async fn records_arrive_in_both_protocols_with_headers() {
    for (protocol, path) in [(LogProtocol::Otlp, "/v1/logs"), (LogProtocol::Loki, "/loki/api/v1/push")] {
        let collector = Collector::default();
        let address = collector.listen(any()).await;
        let url = format!("http://{address}");
        let endpoint = Endpoint::new(&url, protocol.path(), "X-Scope-OrgID: tenant", None).unwrap();
        let queue = Queue::new("logs", 1 << 20);
        let stop = start(endpoint, protocol, &queue);
        for number in 0..100 {
            assert!(queue.push(record(&format!("line {number}"))));
        }
        collector
            .until("all lines", |came| {
                came.iter().map(|one| one.2.to_string().matches("line ").count()).sum::<usize>() == 100
            })
            .await;
        assert!(collector.came.lock().iter().all(|one| one.0 == path && one.1 == "tenant"));
        assert!(collector.came.lock().len() < 10, "they come in batches");
        stop.cancel();
    }
}

#[tokio::test]
async fn collector_that_is_away_costs_no_more_than_the_queue_and_gets_what_waited() {
    let collector = Collector::default();
    // Nobody listens there until later, on an address that nobody else asks for a port of.
    let address = TcpListener::bind("127.66.253.1:0").await.unwrap().local_addr().unwrap();
    let endpoint = Endpoint::new(&format!("http://{address}"), "/v1/logs", "", None).unwrap();
    let queue = Queue::new("logs", 64 << 10);
    let stop = start(endpoint, LogProtocol::Otlp, &queue);
    let begun = Instant::now();
    let kept = (0..10_000).filter(|_| queue.push(record("waits"))).count() as u64;
    assert!(begun.elapsed() < Duration::from_secs(2), "nobody waits for a collector");
    assert!(kept < 1000 && counted(&queue, "dropped") == 10_000 - kept, "{kept}");
    let start = Instant::now();
    while counted(&queue, "failed_requests") == 0 {
        assert!(start.elapsed() < Duration::from_secs(60));
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    collector.listen(address).await;
    collector.until("what waited", |came| !came.is_empty()).await;
    let start = Instant::now();
    while counted(&queue, "sent") < kept {
        assert!(start.elapsed() < Duration::from_secs(60));
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    stop.cancel();
}

#[tokio::test]
async fn refused_batch_is_counted_and_a_busy_collector_is_asked_again() {
    let collector = Collector::default();
    let address = collector.listen(any()).await;
    let endpoint = Endpoint::new(&format!("http://{address}"), "/v1/logs", "", None).unwrap();
    let queue = Queue::new("logs", 1 << 20);
    // The last is answered first.
    *collector.answers.lock() = vec![503, 429, 400];
    let stop = start(endpoint, LogProtocol::Otlp, &queue);
    assert!(queue.push(record("bad")));
    let start = Instant::now();
    while counted(&queue, "rejected") == 0 {
        assert!(start.elapsed() < Duration::from_secs(60));
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert!(queue.push(record("good")));
    collector.until("the good one", |came| came.len() == 1).await;
    assert!(collector.came.lock()[0].2.to_string().contains("good"));
    assert_eq!(counted(&queue, "failed_requests"), 2);
    stop.cancel();
}

#[tokio::test]
async fn collector_is_known_by_its_certificate() {
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(made.signing_key.serialize_der()));
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![made.cert.der().clone()], key)
        .unwrap();
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let listener = TcpListener::bind(any()).await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let collector = Collector::default();
    let serving = collector.clone();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let (acceptor, collector) = (acceptor.clone(), serving.clone());
            tokio::spawn(async move {
                if let Ok(stream) = acceptor.accept(stream).await {
                    collector.serve(stream).await;
                }
            });
        }
    });
    let other = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap().cert.pem();
    for (pem, is_known) in [(other, false), (made.cert.pem(), true)] {
        let url = format!("https://localhost:{port}");
        let endpoint = Endpoint::new(&url, "/v1/logs", "", Some(pem.as_bytes())).unwrap();
        let queue = Queue::new("logs", 1 << 20);
        let stop = start(endpoint, LogProtocol::Otlp, &queue);
        assert!(queue.push(record("secret")));
        match is_known {
            true => collector.until("the line", |came| came.len() == 1).await,
            false => {
                let start = Instant::now();
                while counted(&queue, "failed_requests") == 0 {
                    assert!(start.elapsed() < Duration::from_secs(60));
                    tokio::time::sleep(Duration::from_millis(20)).await;
                }
                assert!(collector.came.lock().is_empty(), "nothing is told to a stranger");
            }
        }
        stop.cancel();
    }
}

#[tokio::test]
async fn what_waits_is_sent_when_the_process_ends() {
    let collector = Collector::default();
    let address = collector.listen(any()).await;
    let endpoint = Endpoint::new(&format!("http://{address}"), "/v1/logs", "", None).unwrap();
    let queue = Queue::new("logs", 1 << 20);
    let stop = CancellationToken::new();
    assert!(queue.push(record("last words")));
    let running =
        tokio::spawn(Exporter { queue: queue.clone(), endpoint, encode: otlp::logs }.run(stop.clone()));
    stop.cancel();
    running.await.unwrap();
    assert!(collector.came.lock().iter().any(|one| one.2.to_string().contains("last words")));
}
