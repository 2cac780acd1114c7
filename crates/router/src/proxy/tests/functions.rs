//! Functions whose instances end while they work, and what callers hear who get no place in one.

use std::sync::Arc;
use std::time::Duration;

use http::header::RETRY_AFTER;
use http::{Method, StatusCode};
use http_body_util::BodyExt;
use minik8s_meta::function::{
    FunctionEndpoints, FunctionEndpointsSpec, FunctionInstance, FunctionProblem, PORT,
};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use super::{Lab, request, send};
use crate::gate::Refused;
use crate::proxy::function::{problem, refusal};
use crate::table::{Objects, build};

/// Takes one request, and ends.
async fn dying(ip: &str) {
    let listener = TcpListener::bind((ip, PORT)).await.unwrap();
    tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        drop(listener);
        let _ = stream.read(&mut [0; 4096]).await;
    });
}

async fn living(ip: &str) {
    let listener = TcpListener::bind((ip, PORT)).await.unwrap();
    tokio::spawn(async move {
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut head = [0; 4096];
            let _ = stream.read(&mut head).await;
            let body = if head.starts_with(b"HEAD") { "" } else { "b" };
            let answer = format!("HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 1\r\n\r\n{body}");
            let _ = stream.write_all(answer.as_bytes()).await;
        }
    });
}

/// A function with these instances, of which the first gets the first request.
fn function(lab: &Lab, ips: [&str; 2]) {
    function_with(lab, &ips, true, 30);
}

fn function_with(lab: &Lab, ips: &[&str], ready: bool, queue_seconds: u32) {
    let instance = |ip: &&str| FunctionInstance {
        pod: (*ip).to_owned(),
        ip: (*ip).to_owned(),
        ready,
        ..FunctionInstance::default()
    };
    let mut endpoints = FunctionEndpoints::default();
    (endpoints.metadata.namespace, endpoints.metadata.name) = (Some("ns".to_owned()), Some("f".to_owned()));
    endpoints.spec = FunctionEndpointsSpec {
        concurrency: 1,
        queue_max: 10,
        queue_seconds,
        timeout_seconds: 30,
        instances: ips.iter().map(instance).collect(),
        ..FunctionEndpointsSpec::default()
    };
    lab.shared.gates.apply([&endpoints].into_iter(), "n");
    let objects = Objects { functions: vec![Arc::new(endpoints)], ..Objects::default() };
    lab.shared.table.send_replace(Arc::new(build(&objects, "cluster.local")));
}

#[tokio::test]
async fn lost_instance_is_replaced_for_what_is_safe_and_told_for_the_rest() {
    // Addresses of this test alone: the port is that of all instances.
    for (number, method, body, expected) in [
        (1, Method::GET, "", StatusCode::OK),
        (2, Method::HEAD, "", StatusCode::OK),
        (3, Method::GET, "x", StatusCode::BAD_GATEWAY),
        (4, Method::POST, "", StatusCode::BAD_GATEWAY),
    ] {
        let ips = [format!("127.66.{number}.1"), format!("127.66.{number}.2")];
        dying(&ips[0]).await;
        living(&ips[1]).await;
        let lab = Lab::start().await;
        function(&lab, [&ips[0], &ips[1]]);
        let (status, text) =
            send(&mut lab.connect().await, request(method.clone(), "h", "/fn/ns/f", body)).await;
        assert_eq!(status, expected, "{method} {body:?}: {text}");
        if status == StatusCode::BAD_GATEWAY {
            assert!(text.contains("InstanceLost"), "{text}");
        }
    }
}

#[tokio::test]
async fn safe_request_is_repeated_once() {
    let ips = ["127.66.5.1", "127.66.5.2"];
    dying(ips[0]).await;
    dying(ips[1]).await;
    let lab = Lab::start().await;
    function(&lab, ips);
    let (status, text) = lab.get("h", "/fn/ns/f").await;
    assert!(status == StatusCode::BAD_GATEWAY && text.contains("InstanceLost"), "{status} {text}");
}

/// A start that takes longer than a request may wait.
#[tokio::test]
async fn instance_that_listens_late_gets_the_requests_that_come_later() {
    let lab = Lab::start().await;
    function_with(&lab, &["127.66.6.1"], false, 1);
    let (status, text) = lab.get("h", "/fn/ns/f").await;
    assert!(status == StatusCode::SERVICE_UNAVAILABLE && text.contains("NoInstance"), "{status} {text}");
    living("127.66.6.1").await;
    let later = async { while lab.get("h", "/fn/ns/f").await.0 != StatusCode::OK {} };
    tokio::time::timeout(Duration::from_secs(60), later).await.expect("a request that comes later has it");
}

/// Whoever could not be reached for a moment is there afterwards.
#[tokio::test]
async fn request_waits_for_an_instance_that_cannot_be_reached() {
    let lab = Lab::start().await;
    function_with(&lab, &["127.66.7.1"], true, 30);
    let request = lab.get("h", "/fn/ns/f");
    let comes_back = async {
        tokio::time::sleep(Duration::from_millis(200)).await;
        living("127.66.7.1").await;
    };
    let ((status, text), ()) = tokio::join!(request, comes_back);
    assert_eq!(status, StatusCode::OK, "{text}");
}

#[tokio::test]
async fn refusal_names_its_reason_and_when_to_come_back() {
    let waited = Duration::from_secs(30);
    let started = |reason: &str, message: &str| {
        Refused::Problem(FunctionProblem { reason: reason.to_owned(), message: message.to_owned() })
    };
    for (refused, status, reason, told) in [
        (Refused::Full(9), 429, "QueueFull", "9 requests wait for function ns/f"),
        (Refused::Late(waited), 503, "NoInstance", "within 30 s"),
        (Refused::Unheard(waited), 503, "NoControlPlane", "the control plane does not answer"),
        (started("ErrImagePull", "no such image"), 503, "ErrImagePull", "cannot be started: no such image"),
        (started("Unschedulable", "0/3 nodes"), 503, "Unschedulable", "0/3 nodes"),
    ] {
        let answer = refusal(&("ns".to_owned(), "f".to_owned()), &refused);
        assert_eq!(
            (answer.status().as_u16(), &answer.headers()[RETRY_AFTER]),
            (status, &"1".parse().unwrap())
        );
        let body = answer.into_body().collect().await.unwrap().to_bytes();
        let body: serde_json::Value = serde_json::from_slice(&body).unwrap();
        assert_eq!((&body["reason"], &body["errorType"]), (&reason.into(), &reason.into()));
        assert!(body["message"].as_str().unwrap().contains(told), "{body}");
    }
    // To come back soon helps nobody here.
    for status in [StatusCode::BAD_GATEWAY, StatusCode::GATEWAY_TIMEOUT, StatusCode::PAYLOAD_TOO_LARGE] {
        assert!(!problem(status, "x", "x").headers().contains_key(RETRY_AFTER), "{status}");
    }
}
