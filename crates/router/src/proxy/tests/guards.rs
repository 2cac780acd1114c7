//! What clients and backends of ill will do, and what it gets them.

use std::net::SocketAddr;
use std::sync::atomic::Ordering;
use std::time::Duration;

use bytes::Bytes;
use http::{Method, Request};
use http_body_util::{BodyExt, Full};
use hyper::client::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio::time::timeout;

use super::{Backend, Lab, Shared, Timeouts, request, send};
use crate::proxy::RequestLimit;

const SOON: Duration = Duration::from_secs(60);

/// Answers a request with these bytes, again and again or once, and tells when its connection is closed.
struct Talker {
    address: SocketAddr,
    closed: mpsc::Receiver<()>,
}

impl Talker {
    async fn start(answer: &'static [u8], endless: bool) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (tell, closed) = mpsc::channel(8);
        tokio::spawn(async move {
            loop {
                let (mut stream, _) = listener.accept().await.unwrap();
                let tell = tell.clone();
                tokio::spawn(async move {
                    let mut buffer = vec![0; 4096];
                    let _ = stream.read(&mut buffer).await;
                    let _ = stream.write_all(answer).await;
                    while endless && stream.write_all(&[b'x'; 4096]).await.is_ok() {}
                    while stream.read(&mut buffer).await.is_ok_and(|length| length > 0) {}
                    let _ = tell.send(()).await;
                });
            }
        });
        Talker { address, closed }
    }

    async fn is_left(&mut self) {
        timeout(SOON, self.closed.recv()).await.expect("the backend's connection is closed").unwrap();
    }
}

fn short_timeouts(silence: u64, unread: u64) -> Timeouts {
    let (silence, unread) = (Duration::from_millis(silence), Duration::from_millis(unread));
    Timeouts { silence, unread, ..Timeouts::default() }
}

const BEGUN: &[u8] = b"HTTP/1.1 200 OK\r\ncontent-length: 1000000000\r\n\r\nhello";

/// The short way takes the first kind of request, hyper the other.
const ASKS: [&str; 2] = [
    "GET / HTTP/1.1\r\nhost: h\r\n\r\n",
    "GET / HTTP/1.1\r\nhost: h\r\nconnection: x-odd\r\nx-odd: 1\r\n\r\n",
];

#[tokio::test]
async fn router_upgrades_to_websocket_only() {
    let a = Backend::start("a").await;
    let lab = Lab::start().await;
    lab.route(&["h / a"], &[("a", &[a.address])]);
    for protocol in ["h2c", "websocket, h2c", "tcp"] {
        let request = Request::get("/")
            .header("host", "h")
            .header("connection", "Upgrade, HTTP2-Settings")
            .header("http2-settings", "AAMAAABkAARAAAAAAAIAAAAA")
            .header("upgrade", protocol);
        let answer = send(&mut lab.connect().await, request.body(Full::default()).unwrap()).await;
        assert_eq!((answer.0.as_u16(), answer.1.as_str()), (200, "a"), "{protocol}");
        let (_, _, headers, _) = a.last();
        for gone in ["connection", "upgrade", "http2-settings"] {
            assert!(!headers.contains_key(gone), "{protocol}: {headers:?}");
        }
    }
}

#[tokio::test]
async fn silent_answer_is_broken_off() {
    for ask in ASKS {
        let mut backend = Talker::start(BEGUN, false).await;
        let lab = Lab::with(short_timeouts(300, 60_000)).await;
        lab.route(&["h / a"], &[("a", &[backend.address])]);
        let mut client = TcpStream::connect(lab.address).await.unwrap();
        client.write_all(ask.as_bytes()).await.unwrap();
        let mut answer = Vec::new();
        let _ = timeout(SOON, client.read_to_end(&mut answer)).await.expect("it ends");
        assert!(String::from_utf8_lossy(&answer).ends_with("hello"), "{ask}");
        backend.is_left().await;
    }
}

#[tokio::test]
async fn silent_answer_to_an_http_2_client_is_an_error() {
    let backend = Talker::start(BEGUN, false).await;
    let lab = Lab::with(short_timeouts(300, 60_000)).await;
    lab.route(&["h / a"], &[("a", &[backend.address])]);
    let stream = TcpStream::connect(lab.address).await.unwrap();
    let (mut client, connection) =
        http2::handshake(TokioExecutor::new(), TokioIo::new(stream)).await.unwrap();
    tokio::spawn(connection);
    let request = Request::get("http://h/").body(Full::<Bytes>::default()).unwrap();
    let response = client.send_request(request).await.unwrap();
    let body = timeout(SOON, response.into_body().collect()).await.expect("it ends");
    assert!(body.is_err(), "an answer that is not whole must not look whole");
}

/// A client that leaves its answers unread, without a connection for each, holds a bounded number of them.
#[tokio::test]
async fn unread_answers_of_an_http_2_client_are_bounded() {
    let backend = Talker::start(BEGUN, true).await;
    let lab = Lab::sharing(Shared { requests: RequestLimit::new(2, 100), ..Shared::default() }).await;
    lab.route(&["h / a"], &[("a", &[backend.address])]);
    let stream = TcpStream::connect(lab.address).await.unwrap();
    let (mut client, connection) =
        http2::handshake(TokioExecutor::new(), TokioIo::new(stream)).await.unwrap();
    tokio::spawn(connection);
    let mut ask = async || {
        let request = Request::get("http://h/").body(Full::<Bytes>::default()).unwrap();
        client.send_request(request).await.unwrap()
    };
    let (first, second) = (ask().await, ask().await);
    assert_eq!((first.status().as_u16(), second.status().as_u16()), (200, 200));
    assert_eq!(ask().await.status(), 503);
    drop(first);
    let freed = async {
        while ask().await.status() != 200 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    timeout(SOON, freed).await.expect("an answer that nobody wants any more makes room");
    drop(second);
}

/// Nothing is fetched for nobody.
#[tokio::test]
async fn client_that_leaves_takes_its_backend_connection_along() {
    for ask in ASKS {
        let mut backend = Talker::start(BEGUN, false).await;
        let lab = Lab::with(short_timeouts(600_000, 600_000)).await;
        lab.route(&["h / a"], &[("a", &[backend.address])]);
        let mut client = TcpStream::connect(lab.address).await.unwrap();
        client.write_all(ask.as_bytes()).await.unwrap();
        let mut head = [0; 64];
        assert!(client.read(&mut head).await.unwrap() > 0);
        drop(client);
        backend.is_left().await;
    }
}

#[tokio::test]
async fn unread_answer_is_broken_off() {
    for ask in ASKS {
        let mut backend = Talker::start(BEGUN, true).await;
        let lab = Lab::with(short_timeouts(600_000, 300)).await;
        lab.route(&["h / a"], &[("a", &[backend.address])]);
        let mut client = TcpStream::connect(lab.address).await.unwrap();
        client.write_all(ask.as_bytes()).await.unwrap();
        backend.is_left().await;
        drop(client);
    }
}

/// What a backend leaves unread of a body that it did not expect would be the next client's request.
#[tokio::test]
async fn connection_after_get_with_body_is_not_kept() {
    let a = Backend::start("a").await;
    let lab = Lab::start().await;
    lab.route(&["h / a"], &[("a", &[a.address])]);
    let count = || a.connections.load(Ordering::Relaxed);
    let hidden = "GET /hidden HTTP/1.1\r\nhost: h\r\n\r\n";
    for (method, odd, kept) in [
        (Method::GET, false, false),
        (Method::GET, true, false),
        (Method::DELETE, false, false),
        (Method::DELETE, true, false),
        (Method::POST, false, true),
        (Method::POST, true, true),
    ] {
        // Without a body first, so that there is one to be had.
        let ask = |body: &str, method: &Method| {
            let mut request = request(method.clone(), "h", "/", body);
            if odd {
                request.headers_mut().insert("te", http::HeaderValue::from_static("trailers"));
            }
            request
        };
        let mut client = lab.connect().await;
        send(&mut client, ask("", &Method::GET)).await;
        send(&mut client, ask(hidden, &method)).await;
        let before = count();
        send(&mut client, ask("", &Method::GET)).await;
        assert_eq!(count() == before, kept, "{method}, odd: {odd}");
    }
}
