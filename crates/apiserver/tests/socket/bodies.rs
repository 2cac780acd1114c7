//! Bodies that are too large, too many, or never end.

use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use http::header::{CONTENT_LENGTH, RETRY_AFTER};
use http::{Method, StatusCode};
use http_body_util::BodyExt;
use minik8s_api::{Access, Body, Extension, Handler, HandlerRequest, Objects, Route, respond};
use minik8s_store::Options;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::client::{self, Client, request, request_as};
use crate::port::{self, NODE_TOKEN, Port};
use crate::{CONFIG_MAPS, CUT_OFF_WITHIN};

const TOO_LARGE: &str = "RequestEntityTooLarge";
const REVIEWS: &str = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";

/// What a node and an administrator are promised while others misbehave.
const PROMPTLY: Duration = Duration::from_secs(1);
/// Whoever finds no place waits for ten seconds.
const HELD_UP: Duration = Duration::from_secs(6);

/// How long those waited who are promised not to: a busy machine may take longer for some, not for most.
#[derive(Default)]
struct Waits(Vec<Duration>);

impl Waits {
    async fn answered(
        &mut self,
        answer: impl Future<Output = http::Response<hyper::body::Incoming>>,
        code: u16,
    ) -> Value {
        let begun = Instant::now();
        let answer = answer.await;
        let took = begun.elapsed();
        assert_eq!(answer.status(), code);
        assert!(took < HELD_UP, "it took {took:?}");
        self.0.push(took);
        json_of(answer).await
    }

    fn are_short(mut self) {
        self.0.sort_unstable();
        assert!(self.0[(self.0.len() - 1) / 2] < PROMPTLY, "{:?}", self.0);
    }
}

async fn json_of(answer: http::Response<hyper::body::Incoming>) -> Value {
    serde_json::from_slice(&answer.into_body().collect().await.unwrap().to_bytes()).unwrap()
}

/// A pod's token: all that it may do is to ask what it may do.
async fn token_of_a_pod(admin: &mut Client) -> String {
    let accounts = "/api/v1/namespaces/default/serviceaccounts";
    assert_eq!(admin.send("POST", accounts, r#"{"metadata":{"name":"pod"}}"#).await.status(), 201);
    let issued = admin.send("POST", &format!("{accounts}/pod/token"), "{}").await;
    assert_eq!(issued.status(), 201);
    json_of(issued).await["status"]["token"].as_str().unwrap().to_owned()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bodies_of_a_pod_that_never_end_hold_up_neither_nodes_nor_administrators() {
    let port = Port::open(Options::default()).await;
    let mut admin = Client::connect(&port).await;
    let token = token_of_a_pod(&mut admin).await;
    let mut open = Vec::new();
    for _ in 0..2 {
        let mut pod = Client::connect(&port).await;
        for _ in 0..200 {
            let (sender, body) = client::channel();
            // A little of it comes, so that nobody can take it for an empty one.
            sender.send(bytes::Bytes::from_static(b"{")).await.unwrap();
            open.push((sender, pod.begin(request_as(&token, "POST", REVIEWS), body).await));
        }
    }
    // Until all of them have arrived: then the pod has what it may have.
    let mut late = Client::connect(&port).await;
    let refused = async {
        while late.send_as(&token, "POST", REVIEWS, "{}").await.status() != 429 {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(CUT_OFF_WITHIN, refused).await.expect("the pod has more than it may have");
    let mut node = Client::connect(&port).await;
    let leases = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases";
    let mut lease = json!({"metadata": {"name": "n1"}, "spec": {"holderIdentity": "n1"}});
    let mut waits = Waits::default();
    for round in 0..5 {
        let made = json!({"metadata": {"name": format!("m{round}")}}).to_string();
        waits.answered(admin.send("POST", CONFIG_MAPS, &made), 201).await;
        waits.answered(admin.send("GET", CONFIG_MAPS, ""), 200).await;
        lease = match round {
            0 => waits.answered(node.send_as(NODE_TOKEN, "POST", leases, &lease.to_string()), 201).await,
            _ => {
                lease["spec"]["renewTime"] = json!(format!("2026-01-01T00:00:0{round}.000000Z"));
                let path = format!("{leases}/n1");
                waits.answered(node.send_as(NODE_TOKEN, "PUT", &path, &lease.to_string()), 200).await
            }
        };
    }
    // Who connects now finds the way, too.
    let anew = async {
        let mut client = Client::connect(&port).await;
        client.send("POST", CONFIG_MAPS, r#"{"metadata":{"name":"late"}}"#).await
    };
    waits.answered(anew, 201).await;
    waits.are_short();
    drop(open);
    let again = async {
        while late.send_as(&token, "POST", REVIEWS, "{}").await.status() == 429 {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(CUT_OFF_WITHIN, again).await.expect("its share is free again");
}

/// A large answer that is made anew for each who asks, and that every pod may ask for.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn answers_that_a_pod_never_reads_fill_no_memory_and_hold_up_nobody() {
    let port = Port::open(Options::default()).await;
    let mut admin = Client::connect(&port).await;
    let token = token_of_a_pod(&mut admin).await;
    let mut pod = Client::connect(&port).await;
    let mut unread = Vec::new();
    let bytes = loop {
        let answer = pod.send_as(&token, "GET", "/openapi/v2", "").await;
        let length =
            answer.headers().get(CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse().ok());
        let length: usize = length.expect("a length");
        match answer.status().as_u16() {
            200 => unread.push((length, answer)),
            code => {
                assert_eq!(code, 429);
                break unread.iter().map(|(length, _)| length).sum::<usize>();
            }
        }
        assert!(unread.len() < 1000, "all that it asks for is held");
    };
    assert!(bytes <= 80 << 20, "{bytes} bytes are held");
    let (mut other, mut waits) = (Client::connect(&port).await, Waits::default());
    waits.answered(admin.send("GET", CONFIG_MAPS, ""), 200).await;
    waits.answered(other.send_as(NODE_TOKEN, "GET", "/version", ""), 200).await;
    waits.are_short();
    drop(unread);
    let again = async {
        while pod.send_as(&token, "GET", "/version", "").await.status() == 429 {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(CUT_OFF_WITHIN, again).await.expect("its share is free again");
}

/// One that says so, and one that only turns out to be. A stream that is cut off while a client sends is all that curl
/// tells of it, so that the client must be listened to beyond the answer.
#[tokio::test]
async fn http2_body_over_the_limit_answers_413() {
    let port = Port::open(Options::default()).await;
    let mut client = Client::connect(&port).await;
    let piece = bytes::Bytes::from(vec![b' '; 256 << 10]);
    for length in [None, Some("40000000")] {
        let (sender, body) = client::channel();
        let head = length
            .into_iter()
            .fold(request("POST", CONFIG_MAPS), |head, length| head.header(CONTENT_LENGTH, length));
        let answer = client.begin(head, body).await;
        let sending = async {
            for _ in 0..16 {
                sender.send(piece.clone()).await.expect("cut off before the answer");
            }
        };
        tokio::time::timeout(CUT_OFF_WITHIN, sending).await.expect("nobody listens");
        let answer = tokio::time::timeout(CUT_OFF_WITHIN, answer).await.expect("no answer").unwrap().unwrap();
        assert_eq!(answer.status(), 413, "{length:?}");
        let body = answer.into_body().collect().await.unwrap().to_bytes();
        assert!(String::from_utf8_lossy(&body).contains(TOO_LARGE), "{body:?}");
        for _ in 0..8 {
            tokio::time::sleep(Duration::from_millis(20)).await;
            sender.send(piece.clone()).await.expect("cut off after the answer");
        }
    }
    assert_eq!(client.send("GET", CONFIG_MAPS, "").await.status(), 200, "the connection goes on");
}

#[tokio::test]
async fn http1_body_over_the_limit_answers_413() {
    let port = Port::open(Options::default()).await;
    // One that says so, and one that only turns out to be.
    for headers in ["content-length: 400000000\r\n", "transfer-encoding: chunked\r\n"] {
        let (mut reading, mut writing) = tokio::io::split(port.tls().await);
        let head = format!(
            "POST {CONFIG_MAPS} HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {}\r\ncontent-type: application/json\r\n{headers}\r\n",
            port::TOKEN
        );
        writing.write_all(head.as_bytes()).await.unwrap();
        let chunk = format!("10000\r\n{}\r\n", "x".repeat(0x10000));
        let mut answer = Vec::new();
        let sending = async {
            // 64 KiB at a time, far more than may be sent, until nobody takes it.
            for _ in 0..200 {
                if writing.write_all(chunk.as_bytes()).await.is_err() {
                    return;
                }
            }
        };
        let receiving = async {
            // Until the reason is there, or the connection has ended.
            while !String::from_utf8_lossy(&answer).contains(TOO_LARGE) {
                if matches!(reading.read_buf(&mut answer).await, Ok(0) | Err(_)) {
                    return;
                }
            }
        };
        let refused = async { tokio::join!(sending, receiving) };
        tokio::time::timeout(CUT_OFF_WITHIN, refused).await.expect("no answer");
        let answer = String::from_utf8_lossy(&answer);
        assert!(answer.starts_with("HTTP/1.1 413"), "{headers}{answer}");
        assert!(answer.contains(TOO_LARGE), "{answer}");
    }
    port.answers().await;
}

/// Takes anything for as long as it likes.
struct Swallow;

#[async_trait]
impl Handler for Swallow {
    fn is_long_running(&self) -> bool {
        true
    }

    fn largest_body(&self, _method: &Method, _path: &str) -> Option<usize> {
        Some(usize::MAX)
    }

    async fn handle(&self, request: HandlerRequest, _cluster: &dyn Objects) -> http::Response<Body> {
        respond(StatusCode::OK, "text/plain", request.body.len().to_string())
    }
}

/// A feature may take bodies without a limit of their own: what one user may have in memory limits them.
#[tokio::test]
async fn body_beyond_its_users_memory_is_told_to_come_back() {
    let route = Route { path: "/swallow", access: Access::Authenticated, handler: Arc::new(Swallow) };
    let port =
        Port::with(Options::default(), Extension { routes: vec![route], ..Extension::default() }).await;
    let mut client = Client::connect(&port).await;
    assert_eq!(client.send("PUT", "/swallow", "{}").await.status(), 200);
    let (sender, body) = client::channel();
    let answer = client.begin(request("PUT", "/swallow"), body).await;
    let piece = bytes::Bytes::from(vec![b' '; 1 << 20]);
    let sending = async {
        for _ in 0..33 {
            sender.send(piece.clone()).await.expect("cut off before the answer");
        }
    };
    tokio::time::timeout(CUT_OFF_WITHIN, sending).await.expect("nobody listens");
    drop(sender);
    let answer = tokio::time::timeout(CUT_OFF_WITHIN, answer).await.expect("no answer").unwrap().unwrap();
    assert_eq!(answer.status(), 429);
}

/// Uploads that do not end are bounded per connection; the next one is told when to come back, all else goes on.
#[tokio::test]
async fn bodies_beyond_a_connections_bound_are_told_to_come_back() {
    const BODIES: usize = 200;
    let port = Port::open(Options::default()).await;
    let mut client = Client::connect(&port).await;
    let mut open = Vec::new();
    for _ in 0..BODIES {
        let (sender, body) = client::channel();
        open.push((sender, client.begin(request("POST", CONFIG_MAPS), body).await));
    }
    let refused = async {
        loop {
            let response = client.send("POST", CONFIG_MAPS, "{}").await;
            if response.status() == 429 {
                return response;
            }
            // Those before have not all arrived yet.
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    let refused = tokio::time::timeout(CUT_OFF_WITHIN, refused).await.expect("never refused");
    assert_eq!(refused.headers()[RETRY_AFTER], "1");
    let status: serde_json::Value =
        serde_json::from_slice(&refused.into_body().collect().await.unwrap().to_bytes()).unwrap();
    assert_eq!((&status["kind"], &status["reason"]), (&json!("Status"), &json!("TooManyRequests")));
    assert_eq!(client.send("GET", CONFIG_MAPS, "").await.status(), 200, "reads go on");
    let mut other = Client::connect(&port).await;
    let made = other.send("POST", CONFIG_MAPS, r#"{"metadata":{"name":"meanwhile"}}"#).await;
    assert_eq!(made.status(), 201, "and so do writes of others");
    drop(open);
    let again = async {
        while client.send("POST", CONFIG_MAPS, r#"{"metadata":{"name":"later"}}"#).await.status() != 201 {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(CUT_OFF_WITHIN, again).await.expect("there is room again");
}
