//! Requests to functions whose instances turn them away, over real sockets.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use futures::{SinkExt, StreamExt};
use http::StatusCode;
use minik8s_meta::function::{FunctionEndpoints, FunctionEndpointsSpec};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio::time::timeout;

use super::Lab;
use crate::table::{Objects, build};

const SOON: Duration = Duration::from_secs(60);

/// The gate of the function ns/f is the lab's, with instances at these addresses.
fn with_instances(lab: &Lab, addresses: &[SocketAddr]) -> Arc<crate::gate::Gate> {
    let mut endpoints = FunctionEndpoints::default();
    (endpoints.metadata.namespace, endpoints.metadata.name) = (Some("ns".to_owned()), Some("f".to_owned()));
    endpoints.spec = FunctionEndpointsSpec {
        concurrency: 1,
        timeout_seconds: 60,
        queue_max: 10,
        queue_seconds: 60,
        ..FunctionEndpointsSpec::default()
    };
    lab.shared.gates.apply([&endpoints].into_iter(), "n");
    let objects = Objects { functions: vec![Arc::new(endpoints)], ..Objects::default() };
    lab.shared.table.send_replace(Arc::new(build(&objects, "cluster.local")));
    let gate = lab.shared.gates.get(&("ns".to_owned(), "f".to_owned())).unwrap();
    gate.place(addresses);
    gate
}

/// Says to each request why it takes none, the last reason for ever; tells of each.
fn turn_away(
    listener: TcpListener,
    reasons: &'static [&'static str],
) -> mpsc::UnboundedReceiver<&'static str> {
    let (tell, told) = mpsc::unbounded_channel();
    tokio::spawn(async move {
        let mut number = 0;
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            // Whether it listens is tried by a connection without a request.
            if stream.read(&mut [0; 4096]).await.unwrap_or_default() == 0 {
                continue;
            }
            let reason = reasons[number.min(reasons.len() - 1)];
            number += 1;
            let head = "HTTP/1.1 503 Service Unavailable\r\ncontent-length: 0\r\nconnection: close";
            let answer = format!("{head}\r\nminik8s-not-executed: {reason}\r\n\r\n");
            let _ = stream.write_all(answer.as_bytes()).await;
            let _ = tell.send(reason);
        }
    });
    told
}

#[tokio::test]
async fn web_socket_goes_to_an_instance_that_takes_it_past_one_that_is_dead_busy_or_draining() {
    let mut listeners = Vec::new();
    for _ in 0..3 {
        listeners.push(TcpListener::bind("127.0.0.1:0").await.unwrap());
    }
    // In this order they are chosen.
    listeners.sort_by_key(|listener| listener.local_addr().unwrap());
    let addresses: Vec<SocketAddr> = listeners.iter().map(|one| one.local_addr().unwrap()).collect();
    let [dead, refusing, taking] = <[TcpListener; 3]>::try_from(listeners).unwrap();
    drop(dead);
    let mut refused = turn_away(refusing, &["busy", "draining"]);
    tokio::spawn(async move {
        loop {
            let (stream, _) = taking.accept().await.unwrap();
            let Ok(mut socket) = tokio_tungstenite::accept_async(stream).await else { continue };
            while let Some(Ok(message)) = socket.next().await {
                if socket.send(message).await.is_err() {
                    break;
                }
            }
        }
    });
    let lab = Lab::start().await;
    let gate = with_instances(&lab, &addresses);
    let stream = TcpStream::connect(lab.address).await.unwrap();
    let opening = tokio_tungstenite::client_async("ws://h/fn/ns/f/chat", stream);
    let (mut socket, response) = timeout(SOON, opening).await.unwrap().unwrap();
    assert_eq!(response.status(), StatusCode::SWITCHING_PROTOCOLS);
    assert_eq!((refused.recv().await, refused.recv().await), (Some("busy"), Some("draining")));
    socket.send("hello".into()).await.unwrap();
    assert_eq!(socket.next().await.unwrap().unwrap().into_text().unwrap(), "hello");
    assert_eq!(gate.counts(), (1, 0), "it holds the place of one instance");
    assert_eq!(gate.calls()[0].status, 101);
}
