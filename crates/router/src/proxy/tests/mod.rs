//! How requests go through, over real sockets: a client, a router of one worker, backends.

mod function_upgrades;
mod functions;
mod gateway;
mod guards;
mod plain;
mod traces;

use std::collections::HashMap;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use futures::{SinkExt, StreamExt};
use http::{Method, Request, Response, StatusCode};
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper::client::conn::{http1, http2};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::{Client, Shared, Timeouts, Worker};
use crate::Table;
use crate::table::{Objects, build};

type Seen = Arc<Mutex<Vec<(Method, String, HashMap<String, String>, Bytes)>>>;

/// Answers with its name and remembers what it got.
struct Backend {
    address: SocketAddr,
    seen: Seen,
    connections: Arc<AtomicUsize>,
    task: tokio::task::JoinHandle<()>,
}

impl Backend {
    async fn start(name: &'static str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (address, seen, connections) =
            (listener.local_addr().unwrap(), Seen::default(), Arc::<AtomicUsize>::default());
        let (all_seen, count) = (seen.clone(), connections.clone());
        let task = tokio::spawn(async move {
            let mut open = tokio::task::JoinSet::new();
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                count.fetch_add(1, Ordering::Relaxed);
                let seen = all_seen.clone();
                let service = service_fn(move |request: Request<Incoming>| {
                    let seen = seen.clone();
                    async move {
                        let (parts, body) = request.into_parts();
                        let body = body.collect().await.unwrap().to_bytes();
                        let headers = parts
                            .headers
                            .iter()
                            .map(|(k, v)| (k.to_string(), v.to_str().unwrap().to_owned()));
                        seen.lock().unwrap().push((
                            parts.method,
                            parts.uri.to_string(),
                            headers.collect(),
                            body,
                        ));
                        let response = Response::builder().header("connection", "x-hop").header("x-hop", "1");
                        let response = response.header("keep-alive", "timeout=5").header("x-kept", "1");
                        if parts.uri.path() == "/slow" {
                            tokio::time::sleep(Duration::from_secs(3600)).await;
                        }
                        if parts.uri.path() == "/empty" {
                            return Ok(Response::builder()
                                .status(204)
                                .body(Full::<Bytes>::default())
                                .unwrap());
                        }
                        Ok::<_, Infallible>(response.body(Full::<Bytes>::from(name)).unwrap())
                    }
                });
                let io = TokioIo::new(stream);
                open.spawn(hyper::server::conn::http1::Builder::new().serve_connection(io, service));
            }
        });
        Backend { address, seen, connections, task }
    }

    fn last(&self) -> (Method, String, HashMap<String, String>, Bytes) {
        self.seen.lock().unwrap().last().unwrap().clone()
    }
}

struct Lab {
    address: SocketAddr,
    shared: Arc<Shared>,
    stop: CancellationToken,
}

impl Lab {
    async fn start() -> Self {
        Lab::with(Timeouts::default()).await
    }

    /// Backends have a second for their answers.
    async fn in_a_hurry() -> Self {
        Lab::with(Timeouts { answer: Duration::from_secs(1), ..Timeouts::default() }).await
    }

    async fn with(timeouts: Timeouts) -> Self {
        Lab::sharing(Shared { timeouts, ..Shared::default() }).await
    }

    async fn sharing(shared: Shared) -> Self {
        let shared = Arc::new(shared);
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (address, stop) = (listener.local_addr().unwrap(), CancellationToken::new());
        let worker = Worker::start(shared.clone(), stop.clone());
        tokio::spawn(async move {
            loop {
                let (stream, peer) = listener.accept().await.unwrap();
                let worker = worker.clone();
                tokio::spawn(async move { worker.serve(stream, Client::new(peer, "http")).await });
            }
        });
        Lab { address, shared, stop }
    }

    /// `host path service` lines of a DNS object, and the endpoints of each service.
    fn route(&self, lines: &[&str], services: &[(&str, &[SocketAddr])]) {
        self.shared.table.send_replace(Arc::new(table(lines, services)));
    }

    async fn connect(&self) -> http1::SendRequest<Full<Bytes>> {
        let stream = TcpStream::connect(self.address).await.unwrap();
        let (sender, connection) = http1::handshake(TokioIo::new(stream)).await.unwrap();
        tokio::spawn(connection);
        sender
    }

    async fn get(&self, host: &str, path: &str) -> (StatusCode, String) {
        send(&mut self.connect().await, request(Method::GET, host, path, "")).await
    }
}

fn table(lines: &[&str], services: &[(&str, &[SocketAddr])]) -> Table {
    let mut objects = Objects::default();
    for line in lines {
        let [host, path, service] = line.split(' ').collect::<Vec<_>>().try_into().unwrap();
        let dns = json!({"metadata": {"name": line, "namespace": "ns"}, "spec": {"rules": [{"host": host, "paths": [
            {"path": path, "backend": {"service": {"name": service, "port": 80}}},
        ]}]}});
        objects.dns.push(Arc::new(serde_json::from_value(dns).unwrap()));
    }
    for (name, endpoints) in services {
        let meta = json!({"name": name, "namespace": "ns", "labels": {"kubernetes.io/service-name": name}});
        let service = json!({"metadata": meta, "spec": {"ports": [{"port": 80}]}});
        objects.services.push(Arc::new(serde_json::from_value(service).unwrap()));
        for endpoint in *endpoints {
            let slice = json!({"metadata": meta, "addressType": "IPv4", "ports": [{"port": endpoint.port()}],
                "endpoints": [{"addresses": [endpoint.ip()]}]});
            objects.slices.push(Arc::new(serde_json::from_value(slice).unwrap()));
        }
    }
    build(&objects, "cluster.local")
}

fn request(method: Method, host: &str, path: &str, body: &str) -> Request<Full<Bytes>> {
    Request::builder()
        .method(method)
        .uri(path)
        .header("host", host)
        .body(Full::from(body.to_owned()))
        .unwrap()
}

/// Bound and closed again, on an address that nobody else asks for a port of.
async fn nobody() -> SocketAddr {
    TcpListener::bind("127.66.250.1:0").await.unwrap().local_addr().unwrap()
}

async fn send(
    sender: &mut http1::SendRequest<Full<Bytes>>,
    request: Request<Full<Bytes>>,
) -> (StatusCode, String) {
    sender.ready().await.unwrap();
    let response = sender.send_request(request).await.unwrap();
    let status = response.status();
    let body = response.into_body().collect().await.unwrap().to_bytes();
    (status, String::from_utf8(body.to_vec()).unwrap())
}

#[tokio::test]
async fn paths_of_one_host_reach_two_services() {
    let (a, b) = (Backend::start("a").await, Backend::start("b").await);
    let lab = Lab::start().await;
    lab.route(&["h.example /a a", "h.example /b b"], &[("a", &[a.address]), ("b", &[b.address])]);
    let mut client = lab.connect().await;
    for (path, name, target) in
        [("/a/rest?q=1", "a", "/rest?q=1"), ("/b", "b", "/"), ("/a/", "a", "/"), ("/b/x/y", "b", "/x/y")]
    {
        let answer = send(&mut client, request(Method::GET, "H.example:80", path, "")).await;
        assert_eq!(answer, (StatusCode::OK, name.to_owned()), "{path}");
        let backend = if name == "a" { &a } else { &b };
        assert_eq!(backend.last().1, target);
    }
    assert_eq!(a.connections.load(Ordering::Relaxed), 1, "connections to backends are kept");
    assert_eq!(b.connections.load(Ordering::Relaxed), 1);
    let page = lab.shared.metrics.page();
    assert!(page.contains("requests_total{host=\"h.example\",code=\"200\"} 4"), "{page}");
}

#[tokio::test]
async fn heads_are_made_for_the_next_hop() {
    let a = Backend::start("a").await;
    let lab = Lab::start().await;
    lab.route(&["h /a a"], &[("a", &[a.address])]);
    let request = Request::post("/a/x")
        .header("host", "h")
        .header("connection", "keep-alive, x-secret, content-length")
        .header("x-secret", "1")
        .header("keep-alive", "1")
        .header("te", "gzip")
        .header("x-forwarded-for", "192.0.2.7")
        .header("x-forwarded-proto", "https")
        .header("x-forwarded-port", "1")
        .header("x_forwarded_for", "192.0.2.7")
        .header("forwarded", "for=192.0.2.7")
        .header("x-real-ip", "192.0.2.7")
        .header("x-other", "2")
        .body(Full::from("hello"))
        .unwrap();
    let mut client = lab.connect().await;
    client.ready().await.unwrap();
    let response = client.send_request(request).await.unwrap();
    assert_eq!(response.headers().get("x-kept").unwrap(), "1");
    for gone in ["x-hop", "keep-alive"] {
        assert!(!response.headers().contains_key(gone), "{gone}");
    }
    let (method, _, headers, body) = a.last();
    assert_eq!((method, &body[..]), (Method::POST, &b"hello"[..]));
    let expected = [
        ("host", "h"),
        ("content-length", "5"),
        ("x-other", "2"),
        ("x-forwarded-for", "127.0.0.1"),
        ("x-forwarded-proto", "http"),
        ("x-forwarded-host", "h"),
        ("x-forwarded-prefix", "/a"),
    ];
    assert_eq!(headers, expected.map(|(k, v)| (k.to_owned(), v.to_owned())).into());
}

#[tokio::test]
async fn what_goes_wrong_is_said() {
    let a = Backend::start("a").await;
    let lab = Lab::in_a_hurry().await;
    let nobody = nobody().await;
    lab.route(
        &["h /a a", "h /gone gone", "h /empty empty", "h /dead dead"],
        &[("a", &[a.address]), ("empty", &[]), ("dead", &[nobody])],
    );
    for (host, path, code, text) in [
        ("x", "/a", 404, "nothing is routed at host x, path /a"),
        ("h", "/nothing", 404, "nothing is routed at host h, path /nothing"),
        ("h", "/gone", 503, "Service ns/gone does not exist"),
        ("h", "/empty", 503, "Service ns/empty selects no pod"),
        ("h", "/dead", 502, &*format!("endpoint {nobody} of Service ns/dead cannot be reached")),
        ("h", "/a/slow", 504, "of Service ns/a did not answer in time"),
        ("h", "/a/../dead", 400, "the path has the elements"),
        ("h", "/a/..;/dead", 400, "the path has the elements"),
        ("h", "/a/..%2fdead", 400, "the path has the elements"),
        ("h", "/a%2F%2e%2e%5cdead", 400, "the path has the elements"),
    ] {
        let (status, body) = lab.get(host, path).await;
        assert_eq!(status.as_u16(), code, "{path}: {body}");
        assert!(body.contains(text), "{path}: {body}");
    }
}

#[tokio::test]
async fn a_dead_endpoint_costs_no_request() {
    let a = Backend::start("a").await;
    let lab = Lab::start().await;
    lab.route(&["h / a"], &[("a", &[a.address, nobody().await])]);
    for method in [Method::GET, Method::POST, Method::GET, Method::POST] {
        let answer = send(&mut lab.connect().await, request(method, "h", "/", "x")).await;
        assert_eq!(answer, (StatusCode::OK, "a".to_owned()));
    }
}

/// Answers one request, then closes; what comes on the connection later meets silence.
#[tokio::test]
async fn a_kept_connection_that_the_backend_closed_is_not_used() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut buffer = [0; 4096];
            let _ = stream.read(&mut buffer).await.unwrap();
            stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok").await.unwrap();
            // The router believes that the connection stays open.
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    });
    let lab = Lab::start().await;
    lab.route(&["h / a"], &[("a", &[address])]);
    let mut client = lab.connect().await;
    for pause in [0, 0, 1, 5, 10, 0, 4, 5, 6, 0] {
        let answer = send(&mut client, request(Method::GET, "h", "/", "")).await;
        assert_eq!(answer, (StatusCode::OK, "ok".to_owned()));
        tokio::time::sleep(Duration::from_millis(pause)).await;
    }
}

#[tokio::test]
async fn changes_apply_on_an_open_connection() {
    let (a, b) = (Backend::start("a").await, Backend::start("b").await);
    let lab = Lab::start().await;
    let mut client = lab.connect().await;
    for (backend, name) in [(&a, "a"), (&b, "b"), (&a, "a")] {
        lab.route(&["h / s"], &[("s", &[backend.address])]);
        let answer = send(&mut client, request(Method::GET, "h", "/", "")).await;
        assert_eq!(answer, (StatusCode::OK, name.to_owned()));
    }
    lab.route(&[], &[]);
    assert_eq!(send(&mut client, request(Method::GET, "h", "/", "")).await.0, StatusCode::NOT_FOUND);
    // An endpoint that leaves takes its waiting connections along; the thread's sweep may need a moment.
    let before = a.connections.load(Ordering::Relaxed);
    tokio::time::sleep(Duration::from_millis(50)).await;
    lab.route(&["h / s"], &[("s", &[a.address])]);
    assert_eq!(send(&mut client, request(Method::GET, "h", "/", "")).await.1, "a");
    assert_eq!(a.connections.load(Ordering::Relaxed), before + 1);
}

#[tokio::test]
async fn answers_without_a_body_keep_the_connection() {
    let a = Backend::start("a").await;
    let lab = Lab::start().await;
    lab.route(&["h / a"], &[("a", &[a.address])]);
    let mut client = lab.connect().await;
    for (method, path, code) in
        [(Method::GET, "/empty", 204), (Method::HEAD, "/", 200), (Method::GET, "/empty", 204)]
    {
        let (status, body) = send(&mut client, request(method, "h", path, "")).await;
        assert_eq!((status.as_u16(), body.as_str()), (code, ""));
    }
    assert_eq!(a.connections.load(Ordering::Relaxed), 1);
}

/// Each piece arrives before the next is sent, up and down.
#[tokio::test]
async fn bodies_stream_both_ways() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        let (stream, _) = listener.accept().await.unwrap();
        let echo = service_fn(|request: Request<Incoming>| async move {
            Ok::<_, Infallible>(Response::new(request.into_body()))
        });
        let _ = hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), echo).await;
    });
    let lab = Lab::start().await;
    lab.route(&["h / a"], &[("a", &[address])]);
    let stream = TcpStream::connect(lab.address).await.unwrap();
    let (mut client, connection) = http1::handshake(TokioIo::new(stream)).await.unwrap();
    tokio::spawn(connection);
    let (pieces, body) = mpsc::channel::<Result<Frame<Bytes>, Infallible>>(1);
    let body = StreamBody::new(tokio_stream_of(body));
    let request = Request::post("/").header("host", "h").body(body).unwrap();
    let mut answer = client.send_request(request).await.unwrap().into_body();
    for text in ["one", "two", "three"] {
        pieces.send(Ok(Frame::data(Bytes::from(text)))).await.unwrap();
        let frame = answer.frame().await.unwrap().unwrap();
        assert_eq!(frame.into_data().unwrap(), text);
    }
    drop(pieces);
    assert!(answer.frame().await.is_none());
}

fn tokio_stream_of<T>(mut receiver: mpsc::Receiver<T>) -> impl futures::Stream<Item = T> {
    futures::stream::poll_fn(move |cx| receiver.poll_recv(cx))
}

#[tokio::test]
async fn a_slow_upload_is_not_a_slow_answer() {
    let a = Backend::start("a").await;
    let lab = Lab::in_a_hurry().await;
    lab.route(&["h / a"], &[("a", &[a.address])]);
    let stream = TcpStream::connect(lab.address).await.unwrap();
    let (mut client, connection) = http1::handshake(TokioIo::new(stream)).await.unwrap();
    tokio::spawn(connection);
    let (pieces, body) = mpsc::channel::<Result<Frame<Bytes>, Infallible>>(1);
    tokio::spawn(async move {
        for _ in 0..6 {
            pieces.send(Ok(Frame::data(Bytes::from("x")))).await.unwrap();
            tokio::time::sleep(Duration::from_millis(400)).await;
        }
    });
    let request =
        Request::post("/").header("host", "h").body(StreamBody::new(tokio_stream_of(body))).unwrap();
    assert_eq!(client.send_request(request).await.unwrap().status(), StatusCode::OK);
    assert_eq!(a.last().3, "xxxxxx");
}

#[tokio::test]
async fn http_2_clients() {
    let a = Backend::start("a").await;
    let lab = Lab::start().await;
    lab.route(&["h /a a"], &[("a", &[a.address])]);
    let stream = TcpStream::connect(lab.address).await.unwrap();
    let (mut client, connection) =
        http2::handshake(TokioExecutor::new(), TokioIo::new(stream)).await.unwrap();
    tokio::spawn(connection);
    for body in ["", "hello"] {
        let request = Request::post("http://h/a/x").header("cookie", "a=1").header("cookie", "b=2");
        let response = client.send_request(request.body(Full::<Bytes>::from(body)).unwrap()).await.unwrap();
        assert_eq!(response.status(), StatusCode::OK);
        assert_eq!(response.into_body().collect().await.unwrap().to_bytes(), "a");
        let (_, target, headers, seen) = a.last();
        assert_eq!((target.as_str(), &seen[..]), ("/x", body.as_bytes()));
        assert_eq!((headers["host"].as_str(), headers["cookie"].as_str()), ("h", "a=1; b=2"));
    }
}

#[tokio::test]
async fn web_sockets() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        let (stream, _) = listener.accept().await.unwrap();
        let mut socket = tokio_tungstenite::accept_async(stream).await.unwrap();
        while let Some(Ok(message)) = socket.next().await {
            if socket.send(message).await.is_err() {
                return;
            }
        }
    });
    let lab = Lab::start().await;
    lab.route(&["h /ws a"], &[("a", &[address])]);
    let stream = TcpStream::connect(lab.address).await.unwrap();
    let (mut socket, response) = tokio_tungstenite::client_async("ws://h/ws/chat", stream).await.unwrap();
    assert_eq!(response.status(), StatusCode::SWITCHING_PROTOCOLS);
    // A new table does not cut what was begun under the old one.
    lab.route(&[], &[]);
    for text in ["one", "two"] {
        socket.send(text.into()).await.unwrap();
        assert_eq!(socket.next().await.unwrap().unwrap().into_text().unwrap(), text);
    }
}

#[tokio::test]
async fn a_backend_may_decline_an_upgrade() {
    let a = Backend::start("a").await;
    let lab = Lab::start().await;
    lab.route(&["h / a"], &[("a", &[a.address])]);
    let request =
        Request::get("/").header("host", "h").header("connection", "Upgrade").header("upgrade", "WebSocket");
    let answer = send(&mut lab.connect().await, request.body(Full::default()).unwrap()).await;
    assert_eq!(answer, (StatusCode::OK, "a".to_owned()));
    let (_, _, headers, _) = a.last();
    assert_eq!((headers["connection"].as_str(), headers["upgrade"].as_str()), ("upgrade", "websocket"));
}

#[tokio::test]
async fn clients_of_a_sticky_service_stay() {
    let (a, b) = (Backend::start("a").await, Backend::start("b").await);
    let lab = Lab::start().await;
    lab.route(&["h / s"], &[("s", &[a.address, b.address])]);
    let mut answers = std::collections::HashSet::new();
    for _ in 0..4 {
        answers.insert(lab.get("h", "/").await.1);
    }
    assert_eq!(answers.len(), 2, "endpoints take turns");
    let mut table = Table::clone(&lab.shared.table.borrow());
    table.make_sticky();
    lab.shared.table.send_replace(Arc::new(table));
    let first = lab.get("h", "/").await.1;
    for _ in 0..4 {
        assert_eq!(lab.get("h", "/").await.1, first);
    }
}

#[tokio::test]
async fn stopping_lets_requests_finish() {
    let a = Backend::start("a").await;
    let lab = Lab::start().await;
    lab.route(&["h / a"], &[("a", &[a.address])]);
    let mut client = lab.connect().await;
    assert_eq!(send(&mut client, request(Method::GET, "h", "/", "")).await.1, "a");
    lab.stop.cancel();
    // An idle connection is closed.
    tokio::time::timeout(Duration::from_secs(60), async {
        while client.ready().await.is_ok() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await
    .unwrap();
    a.task.abort();
}
