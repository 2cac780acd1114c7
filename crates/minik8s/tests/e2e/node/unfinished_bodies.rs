//! A pod that begins as many requests as it can and ends none of them, beside a real node: whoever types `kubectl` and the
//! node itself notice nothing.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures::StreamExt;
use http::{Method, Request};
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, StreamBody};
use hyper::body::Frame;
use hyper::client::conn::http2::{SendRequest, handshake};
use hyper_util::rt::{TokioExecutor, TokioIo};
use serde_json::{Value, json};

use super::space::{Space, idle, is_ready};
use crate::harness::cluster::{Cluster, NODE, TIMEOUT};
use crate::harness::control_plane::Credentials;

const STREAMS: usize = 200;
/// Whoever has a token may ask it.
const REVIEWS: &str = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";
const TOKEN: &str = "/var/run/secrets/kubernetes.io/serviceaccount/token";
const LEASE: &str = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases";
const PROMPT: Duration = Duration::from_secs(1);
/// Of one that other tests on the machine hold up.
const LONGEST: Duration = Duration::from_secs(5);
/// How often as long it may take as without them, where that is more: the machine runs other tests, too.
const TIMES: u32 = 3;

type Body = BoxBody<Bytes, Infallible>;

pub async fn unfinished_bodies(cluster: Arc<Cluster>) {
    let space = Space::new(cluster.clone(), "unfinished").await;
    space.pod("noisy", idle()).await;
    space.ready("noisy").await;
    let token = space.kubectl(&["exec", "noisy", "--", "cat", TOKEN]).await;
    let before = kubectl_times(&space, "before").await;
    let server = Credentials::read(&cluster.dir, cluster.server_address()).unwrap().without_certificate();
    let (mut held, mut connections) = (Vec::new(), Vec::new());
    for _ in 0..2 {
        let mut pod = connect(&server).await;
        for _ in 0..STREAMS {
            pod.ready().await.unwrap();
            held.push(tokio::spawn(pod.send_request(review(token.trim(), endless()))));
        }
        connections.push(pod);
    }
    // Until all that the pod may have has arrived.
    let begun = Instant::now();
    while ask(&server, token.trim()).await != 429 {
        assert!(begun.elapsed() < TIMEOUT, "the pod has more than it may have");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let renewed = renew_time(&space).await;
    let took = kubectl_times(&space, "beside").await;
    println!("kubectl beside {} unfinished bodies: {took:?}, and before: {before:?}", held.len());
    let (usual, longest) = (PROMPT.max(before[2] * TIMES), LONGEST.max(before[4] * TIMES));
    // Other tests may hold up two of them.
    assert!(took[2] < usual && took[4] < longest, "kubectl is held up: {took:?}, before: {before:?}");
    space.eventually("the node renews its lease", async || renew_time(&space).await != renewed).await;
    let node = space.get(&format!("/api/v1/nodes/{NODE}")).await.unwrap();
    assert!(is_ready(&node), "{node:#}");
    assert_eq!(ask(&server, token.trim()).await, 429, "the bodies were not there all the time");
    held.iter().for_each(tokio::task::JoinHandle::abort);
    drop(connections);
}

/// How long kubectl takes, the shortest first.
async fn kubectl_times(space: &Space, when: &str) -> [Duration; 5] {
    let mut took = [Duration::ZERO; 5];
    for (round, took) in took.iter_mut().enumerate() {
        let begun = Instant::now();
        space.kubectl(&["create", "configmap", &format!("made-{when}-{round}")]).await;
        space.kubectl(&["get", "pods"]).await;
        *took = begun.elapsed() / 2;
    }
    took.sort_unstable();
    took
}

async fn connect(server: &Credentials) -> SendRequest<Body> {
    let stream = TokioIo::new(server.tls_stream().await.unwrap());
    let (sender, connection) = handshake(TokioExecutor::new(), stream).await.unwrap();
    tokio::spawn(connection);
    sender
}

/// The code of the answer to a whole request.
async fn ask(server: &Credentials, token: &str) -> u16 {
    let body = http_body_util::Full::new(Bytes::from_static(b"{\"spec\":{}}")).boxed();
    connect(server).await.send_request(review(token, body)).await.unwrap().status().as_u16()
}

fn review(token: &str, body: Body) -> Request<Body> {
    Request::builder()
        .method(Method::POST)
        .uri(format!("https://localhost{REVIEWS}"))
        .header("authorization", format!("Bearer {token}"))
        .header("content-type", "application/json")
        .body(body)
        .unwrap()
}

/// A little of it comes, so that nobody can take it for an empty one.
fn endless() -> Body {
    let begun = futures::stream::iter([Ok(Frame::data(Bytes::from_static(b"{")))]);
    BodyExt::boxed(StreamBody::new(
        begun.chain(futures::stream::pending::<Result<Frame<Bytes>, Infallible>>()),
    ))
}

async fn renew_time(space: &Space) -> Value {
    let lease = space.get(&format!("{LEASE}/{NODE}")).await.unwrap_or(json!({}));
    lease["spec"]["renewTime"].clone()
}
