//! Proxies as they are in pods, but for the rules that lead connections to them: many connections in one moment, gRPC, and
//! endpoints that fail.

use std::convert::Infallible;
use std::sync::atomic::{AtomicUsize, Ordering};

use http::{Request, Response};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use hyper::client::conn::http2 as client;
use hyper::server::conn::{http1, http2 as server};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::tls::tests::FakeAuthority;
use super::*;

const VIP: &str = "10.96.0.5:9080";
/// At once. Each is answered, whatever there is room for.
const STORM: usize = 2000;
/// Three of four are for one direction.
const ROOM: usize = 128;
const ANSWER: &[u8] = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";

/// Connections that are open, and the most that were.
#[derive(Default)]
struct OpenConnections {
    now: AtomicUsize,
    most: AtomicUsize,
}

/// The pod's process: answers requests without a body.
async fn process(open: Arc<OpenConnections>) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let open = open.clone();
            tokio::spawn(async move {
                open.most.fetch_max(open.now.fetch_add(1, Ordering::Relaxed) + 1, Ordering::Relaxed);
                let (mut buffer, mut length) = ([0; 4096], 0);
                while let Ok(read @ 1..) = stream.read(&mut buffer[length..]).await {
                    length += read;
                    if buffer[..length].ends_with(b"\r\n\r\n") {
                        length = 0;
                        let _ = stream.write_all(ANSWER).await;
                    }
                }
                open.now.fetch_sub(1, Ordering::Relaxed);
            });
        }
    });
    address
}

/// With room for all that wait, as the sockets have that agents hand to proxies: the kernel would let the others try again
/// after seconds.
fn listen(address: &str) -> TcpListener {
    let socket = tokio::net::TcpSocket::new_v4().unwrap();
    socket.bind(address.parse().unwrap()).unwrap();
    socket.listen(2 * STORM as u32).unwrap()
}

/// The proxy of the pod that answers.
async fn inbound_proxy(authority: &FakeAuthority, process: SocketAddr) -> SocketAddr {
    // Not the address that calls come from: a pod that calls itself needs no TLS.
    let listener = listen("127.0.0.2:0");
    let address = listener.local_addr().unwrap();
    let shared = shared::<Guard>(Timeouts::default());
    let tls = Some(Arc::new(authority.account("shop/reviews")));
    shared.table.send_replace(Arc::new(Guarded { strict: true, tls, ..Guarded::default() }));
    let worker = Worker::start(shared, CancellationToken::new());
    let [_, places] = Places::both(ROOM);
    tokio::spawn(async move {
        accept(&listener, &places, |stream, peer| {
            let serving = serve_inbound(stream, (peer, process), worker.clone(), true);
            tokio::spawn(serving).abort_handle()
        })
        .await;
    });
    address
}

/// The proxy of the pod that asks, with this table.
async fn outbound_proxy(table: Table) -> SocketAddr {
    let listener = listen("127.0.0.1:0");
    let address = listener.local_addr().unwrap();
    let shared = shared::<Outbound>(Timeouts::default());
    shared.table.send_replace(Arc::new(table));
    let worker = Worker::start(shared, CancellationToken::new());
    let [places, _] = Places::both(ROOM);
    tokio::spawn(async move {
        accept(&listener, &places, |stream, peer| {
            let (worker, vip) = (worker.clone(), VIP.parse().unwrap());
            let table = worker.shared.table.borrow().clone();
            let serving = async move {
                match table.way(vip) {
                    Way::Opaque(targets) => {
                        opaque::pass(stream, &targets, &worker.turns, |target| table.secured(target)).await;
                    }
                    _ => worker.serve(stream, Client::new(peer, "http").towards(vip)).await,
                }
            };
            tokio::spawn(serving).abort_handle()
        })
        .await;
    });
    address
}

/// How many of a storm are answered. Their connections end with the answer.
async fn storm(proxy: SocketAddr) -> usize {
    let mut clients = tokio::task::JoinSet::new();
    for _ in 0..STORM {
        clients.spawn(async move {
            let mut stream = TcpStream::connect(proxy).await?;
            stream.write_all(b"GET /reviews/1 HTTP/1.1\r\nhost: reviews\r\n\r\n").await?;
            let mut answer = [0; ANSWER.len() + 200];
            let mut length = 0;
            while !answer[..length].ends_with(b"ok") {
                match stream.read(&mut answer[length..]).await? {
                    0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                    read => length += read,
                }
            }
            io::Result::Ok(answer.starts_with(b"HTTP/1.1 200"))
        });
    }
    let ended = timeout(Duration::from_secs(120), clients.join_all()).await.expect("all end");
    ended.into_iter().filter(|answered| matches!(answered, Ok(true))).count()
}

/// Through both proxies, with TLS between them: all are answered, and no more are worked on at a time than there is room.
#[tokio::test]
async fn storm_is_answered_within_bounds() {
    // Sockets of both ends are this process' own here.
    places::room();
    let authority = FakeAuthority::new();
    for http in [true, false] {
        let open = Arc::<OpenConnections>::default();
        let inbound = inbound_proxy(&authority, process(open.clone()).await).await;
        let endpoint = json!({"address": inbound.to_string(), "pod": "p", "weight": 1, "serviceAccount": "shop/reviews"});
        let port = json!({"addresses": [VIP], "http": http, "endpoints": [endpoint]});
        let service = serde_json::from_value(json!({"service": "shop/reviews", "ports": [port]})).unwrap();
        let tls = Some(Arc::new(authority.account("shop/web")));
        let table = Table::new(&[], &[service], tls, "", &Table::default());
        assert_eq!(storm(outbound_proxy(table).await).await, STORM, "http: {http}");
        let most = open.most.load(Ordering::Relaxed);
        // The process hears of the end of one later than the next is let in.
        assert!(most <= ROOM * 2, "{most} at a time, http: {http}");
    }
}

/// What a connection that waits for its next request costs beside its sockets.
#[test]
fn connection_is_small_while_it_waits() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let stream = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let (accepted, peer) = listener.accept().await.unwrap();
        let outbound = Worker::start(shared::<Outbound>(Timeouts::default()), CancellationToken::new());
        let guard = Worker::start(shared::<Guard>(Timeouts::default()), CancellationToken::new());
        let sizes = [
            size_of_val(&serve(stream.into(), peer, outbound)),
            size_of_val(&inbound::serve(accepted.into(), peer, guard, true)),
        ];
        println!("{sizes:?}");
        assert!(sizes.iter().all(|size| *size < 4096), "{sizes:?}");
    });
}

/// A server of gRPC's protocol that counts what it is asked, and answers with that status of gRPC.
async fn grpc_server(asked: Arc<AtomicUsize>, status: &'static str) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let asked = asked.clone();
            let answering = service_fn(move |_: Request<Incoming>| {
                asked.fetch_add(1, Ordering::Relaxed);
                let response = Response::builder().header("grpc-status", status).body(String::new());
                std::future::ready(Ok::<_, Infallible>(response.unwrap()))
            });
            let serving = server::Builder::new(TokioExecutor::new());
            tokio::spawn(serving.serve_connection(TokioIo::new(stream), answering));
        }
    });
    address
}

/// Requests of one connection go to all pods by turns.
#[tokio::test]
async fn grpc_is_balanced_by_request() {
    let asked: [Arc<AtomicUsize>; 2] = Default::default();
    let servers = [grpc_server(asked[0].clone(), "0").await, grpc_server(asked[1].clone(), "0").await];
    let endpoints = servers.map(|one| json!({"address": one.to_string(), "pod": "p", "weight": 1}));
    let port = json!({"addresses": [VIP], "grpc": true, "endpoints": endpoints});
    let service = serde_json::from_value(json!({"service": "shop/grpc", "ports": [port]})).unwrap();
    let table = Table::new(&[], &[service], None, "", &Table::default());
    assert!(matches!(table.way(VIP.parse().unwrap()), Way::GrpcRequests(_)));
    ask_grpc(outbound_proxy(table).await, 10).await;
    assert_eq!(asked.map(|count| count.load(Ordering::Relaxed)), [5, 5]);
}

/// So many requests, one after the other, of one connection.
async fn ask_grpc(proxy: SocketAddr, number: usize) {
    let stream = TcpStream::connect(proxy).await.unwrap();
    let (mut sender, connection) =
        client::handshake(TokioExecutor::new(), TokioIo::new(stream)).await.unwrap();
    tokio::spawn(connection);
    for _ in 0..number {
        let request = Request::post("http://grpc/a.B/C").body(String::new()).unwrap();
        assert_eq!(sender.send_request(request).await.unwrap().status(), 200);
    }
}

/// What a VirtualService says that lets endpoints rest after two failures, and delays all requests by this.
fn resting(endpoints: [SocketAddr; 2], grpc: bool, milliseconds: u64) -> Table {
    let endpoints = endpoints.map(|one| json!({"address": one.to_string(), "pod": "p", "weight": 1}));
    let route = json!({"uid": "u", "revision": "r", "service": "shop/reviews", "addresses": [VIP], "grpc": grpc,
        "rules": [{"endpoints": endpoints}], "outlier": {"failures": 2, "ejectSeconds": 3600},
        "delay": {"percent": 100, "milliseconds": milliseconds}});
    Table::new(&[serde_json::from_value(route).unwrap()], &[], None, "", &Table::default())
}

#[tokio::test]
async fn grpc_endpoint_that_fails_rests() {
    const PAUSE: u64 = 20;
    let asked: [Arc<AtomicUsize>; 2] = Default::default();
    let servers = [grpc_server(asked[0].clone(), "0").await, grpc_server(asked[1].clone(), "14").await];
    let begun = std::time::Instant::now();
    ask_grpc(outbound_proxy(resting(servers, true, PAUSE)).await, 20).await;
    assert_eq!(asked.map(|count| count.load(Ordering::Relaxed)), [18, 2]);
    assert!(begun.elapsed() >= Duration::from_millis(20 * PAUSE), "each was held back");
}

/// Also where the body is still on its way when the request begins.
#[tokio::test]
async fn endpoint_that_fails_requests_with_bodies_rests() {
    const REQUEST: &[u8] = b"POST / HTTP/1.1\r\nhost: reviews\r\nconnection: close\r\ntransfer-encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\n\r\n";
    let asked: [Arc<AtomicUsize>; 2] = Default::default();
    let servers = [http_server(asked[0].clone(), 200).await, http_server(asked[1].clone(), 503).await];
    let proxy = outbound_proxy(resting(servers, false, 0)).await;
    for _ in 0..20 {
        let mut stream = TcpStream::connect(proxy).await.unwrap();
        stream.write_all(REQUEST).await.unwrap();
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).await.unwrap();
        assert!(answer.starts_with(b"HTTP/1.1 "));
    }
    assert_eq!(asked.map(|count| count.load(Ordering::Relaxed)), [18, 2]);
}

/// A server that counts what it is asked, reads it, and answers with that code.
async fn http_server(asked: Arc<AtomicUsize>, code: u16) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let asked = asked.clone();
            let answering = service_fn(move |request: Request<Incoming>| {
                asked.fetch_add(1, Ordering::Relaxed);
                async move {
                    let _ = request.into_body().collect().await;
                    Ok::<_, Infallible>(Response::builder().status(code).body(String::new()).unwrap())
                }
            });
            tokio::spawn(http1::Builder::new().serve_connection(TokioIo::new(stream), answering));
        }
    });
    address
}
