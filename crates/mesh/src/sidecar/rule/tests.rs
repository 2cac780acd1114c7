//! Failures on real connections: what is sent again, what never is, who gets copies.

use std::collections::BTreeMap;

use minik8s_proxy::{Front, Shared, Worker};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use super::*;
use crate::sidecar::table::{Outbound, Table};

const VIP: &str = "10.96.0.5:9080";

/// Pods that answer every request with their code, and keep what was asked of them.
#[derive(Clone, Default)]
struct Pods(Arc<Mutex<BTreeMap<SocketAddr, Vec<String>>>>);

impl Pods {
    async fn start(&self, code: u16) -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        self.0.lock().insert(address, Vec::new());
        let pods = self.clone();
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let pods = pods.clone();
                tokio::spawn(async move {
                    let mut read = Vec::new();
                    while stream.read_buf(&mut read).await.is_ok_and(|length| length > 0) {
                        let text = String::from_utf8_lossy(&read).into_owned();
                        if !text.contains("\r\n\r\n") {
                            continue;
                        }
                        pods.0.lock().entry(address).or_default().push(text);
                        read.clear();
                        let answer = format!("HTTP/1.1 {code} x\r\ncontent-length: 0\r\n\r\n");
                        stream.write_all(answer.as_bytes()).await.unwrap();
                    }
                });
            }
        });
        address
    }

    fn asked(&self, address: SocketAddr) -> usize {
        self.0.lock()[&address].len()
    }
}

/// A Service of these endpoints, in this order.
fn table(endpoints: &[SocketAddr], change: &Value, before: &Table) -> Arc<Table> {
    let list: Vec<Value> =
        endpoints.iter().map(|one| json!({"address": one.to_string(), "pod": "p", "weight": 1})).collect();
    let mut route = json!({"uid": "", "revision": "", "service": "ns/s", "addresses": [VIP], "rules": [{"endpoints": list}]});
    change.as_object().unwrap().iter().for_each(|(key, value)| route[key] = value.clone());
    Arc::new(Table::new(&[serde_json::from_value(route).unwrap()], &[], None, "", before))
}

/// Requests, each on a connection of its own, to a Service of these endpoints; the codes of the answers.
async fn ask(endpoints: &[SocketAddr], change: Value, method: &str, number: usize) -> Vec<u16> {
    ask_by(table(endpoints, &change, &Table::default()), method, number).await
}

async fn ask_by(table: Arc<Table>, method: &str, number: usize) -> Vec<u16> {
    let shared: Arc<Shared<Outbound>> = Arc::default();
    shared.table.send_replace(table);
    let worker = Worker::start(shared, CancellationToken::new());
    let mut codes = Vec::new();
    for _ in 0..number {
        let (mut near, far) = duplex(64 << 10);
        let client = Client::new("10.244.0.9:1".parse().unwrap(), "http").towards(VIP.parse().unwrap());
        let worker = worker.clone();
        let serving = tokio::spawn(async move { worker.serve(far, client).await });
        let request =
            format!("{method} /order HTTP/1.1\r\nhost: s\r\ncontent-length: 0\r\nconnection: close\r\n\r\n");
        near.write_all(request.as_bytes()).await.unwrap();
        let mut answer = String::new();
        near.read_to_string(&mut answer).await.unwrap();
        codes.push(answer[9..12].parse().unwrap());
        serving.await.unwrap();
    }
    codes
}

/// An order must not be placed twice: what may have had an effect is sent again only if its method allows it.
#[tokio::test]
async fn retries_never_double_an_order() {
    let pods = Pods::default();
    let (bad, good) = (pods.start(503).await, pods.start(200).await);
    let retries = || json!({"retries": {"attempts": 2, "on": ["5xx", "connect-failure", "reset"]}});
    assert_eq!(ask(&[bad, good], retries(), "GET", 4).await, [200; 4]);
    let before = pods.asked(bad) + pods.asked(good);
    let codes = ask(&[bad, good], retries(), "POST", 10).await;
    assert_eq!(codes.iter().filter(|code| **code == 503).count(), 5, "{codes:?}");
    assert_eq!(pods.asked(bad) + pods.asked(good) - before, 10, "each was sent once");
    assert_eq!(ask(&[bad, bad], retries(), "GET", 1).await, [503], "in the end it is told");
}

/// Nobody took the connection, so nothing can have happened, and any request may go elsewhere.
#[tokio::test]
async fn refused_connection_is_tried_elsewhere() {
    let pods = Pods::default();
    let good = pods.start(200).await;
    let gone = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let retries = json!({"retries": {"attempts": 1}});
    assert_eq!(ask(&[gone, good], retries, "POST", 4).await, [200; 4]);
    assert_eq!(pods.asked(good), 4);
}

#[tokio::test]
async fn copies_go_to_the_mirror_and_traces_begin() {
    let pods = Pods::default();
    let (good, mirror) = (pods.start(200).await, pods.start(500).await);
    let endpoints = json!([{"address": mirror.to_string(), "pod": "m", "weight": 1}]);
    let change = json!({"mirror": {"percent": 50, "endpoints": endpoints}});
    // Of a hundred in a row the share is exact, wherever it begins.
    let codes = ask(&[good], change, "GET", 100).await;
    assert!(codes.iter().all(|code| *code == 200), "whatever the mirror answers: {codes:?}");
    let copied = async {
        while pods.asked(mirror) < 50 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(30), copied).await.expect("half of them are copied");
    let asked = pods.0.lock()[&good].clone();
    assert!(asked.iter().all(|text| text.contains("traceparent: 00-")), "{asked:?}");
}

#[tokio::test]
async fn endpoint_that_fails_is_left_alone() {
    let pods = Pods::default();
    let (bad, good) = (pods.start(500).await, pods.start(200).await);
    let codes = ask(&[bad, good], json!({"outlier": {"failures": 2, "ejectSeconds": 600}}), "POST", 20).await;
    assert_eq!(pods.asked(bad), 2, "{codes:?}");
}

/// Who alone is there is tried a second time, for the same request.
#[tokio::test]
async fn request_that_nobody_takes_counts_once() {
    let pods = Pods::default();
    let good = pods.start(200).await;
    let gone = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let change = json!({"outlier": {"failures": 2, "ejectSeconds": 600}});
    let alone = table(&[gone], &change, &Table::default());
    // What is known of it stays known when another comes.
    let both = table(&[gone, good], &change, &alone);
    let remaining = || {
        let client = Client::new("10.244.0.9:1".parse().unwrap(), "http").towards(VIP.parse().unwrap());
        let headers = http::HeaderMap::new();
        let head = RequestHead { method: "GET", host: "s", target: "/", headers: &headers };
        Outbound::find(&both, &client, &head).unwrap().endpoints().unwrap().len()
    };
    for expected in [2, 1] {
        assert_eq!(ask_by(alone.clone(), "GET", 1).await, [502]);
        assert_eq!(remaining(), expected);
    }
}

#[tokio::test]
async fn delay_holds_requests_back() {
    let pods = Pods::default();
    let good = pods.start(200).await;
    let begun = std::time::Instant::now();
    let delay = json!({"delay": {"percent": 100, "milliseconds": 30}});
    assert_eq!(ask(&[good], delay, "GET", 2).await, [200; 2]);
    assert!(begun.elapsed() >= Duration::from_millis(60), "{:?}", begun.elapsed());
}
