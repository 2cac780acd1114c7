//! The TLS port itself: clients that are slow, broken, too big or too many, and certificates that change.

#![allow(clippy::unwrap_used)]

mod bodies;
mod client;
mod flow_control;
mod port;
mod request_header;

use std::time::{Duration, Instant};

use bytes::Bytes;
use http_body_util::BodyExt;
use jiff::Timestamp;
use minik8s_store::Options;
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::client::Client;
use crate::port::Port;

const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";
/// What a silent client is given, and some time for a busy machine.
const CUT_OFF_WITHIN: Duration = Duration::from_secs(60);

/// Whoever keeps a connection open without ever getting to a request is disconnected.
#[tokio::test]
async fn slow_clients_are_cut_off() {
    let port = Port::open(Options::default()).await;
    let silent = async {
        let mut stream = port.tcp().await;
        stream.read_to_end(&mut Vec::new()).await.map(|_| ())
    };
    let half_a_handshake = async {
        let mut stream = port.tcp().await;
        // The first bytes of a ClientHello that never goes on.
        stream.write_all(&[22, 3, 1, 2, 0, 1]).await?;
        stream.read_to_end(&mut Vec::new()).await.map(|_| ())
    };
    let header_by_header = async {
        let mut stream = port.tls().await;
        stream.write_all(b"GET /version HTTP/1.1\r\nhost: x\r\n").await?;
        let mut answer = Vec::new();
        let mut drops = tokio::time::interval(Duration::from_millis(500));
        loop {
            tokio::select! {
                read = stream.read_buf(&mut answer) => if matches!(read, Ok(0) | Err(_)) { return Ok(()) },
                _ = drops.tick() => if stream.write_all(b"x-more: y\r\n").await.is_err() { return Ok(()) },
            }
        }
    };
    let begun = Instant::now();
    let all = async { tokio::join!(silent, half_a_handshake, header_by_header) };
    let ended: (std::io::Result<()>, std::io::Result<()>, std::io::Result<()>) =
        tokio::time::timeout(CUT_OFF_WITHIN, all).await.expect("somebody was not cut off");
    drop(ended);
    assert!(begun.elapsed() > Duration::from_secs(5), "and nobody was cut off at once");
    port.answers().await;
}

/// They go on, as many as one likes to open: each newcomer takes the place of the oldest.
#[tokio::test]
async fn silent_connections_keep_nobody_out() {
    let (_, hard) = getrlimit(Resource::RLIMIT_NOFILE).unwrap();
    // 16 places for those who have said nothing; nextest gives each test a process of its own.
    setrlimit(Resource::RLIMIT_NOFILE, 256, hard).unwrap();
    let port = Port::open(Options::default()).await;
    setrlimit(Resource::RLIMIT_NOFILE, hard.min(4096), hard).unwrap();
    let mut silent = Vec::new();
    for _ in 0..60 {
        silent.push(port.tcp().await);
    }
    let begun = Instant::now();
    port.answers().await;
    // The silent have ten seconds.
    assert!(begun.elapsed() < Duration::from_secs(7), "it waited for places: {:?}", begun.elapsed());
    // The first has made room; the last is as it was.
    let mut read = [0];
    let first = tokio::time::timeout(Duration::from_secs(7), silent[0].read(&mut read)).await;
    assert!(matches!(first, Ok(Ok(0) | Err(_))), "{first:?}");
    let last = tokio::time::timeout(Duration::from_millis(100), silent[59].read(&mut read)).await;
    assert!(last.is_err(), "{last:?}");
}

#[tokio::test]
async fn garbage_ends_the_connection_and_nothing_else() {
    let port = Port::open(Options::default()).await;
    let garbage: [&[u8]; 5] = [
        b"\0\0\0\0\0\0\0\0",
        b"\x16\x03\x01\xff\xff",
        b"hello\r\n\r\n",
        &[255; 4096],
        b"\x80\x2e\x01\x03\x01",
    ];
    for bytes in garbage {
        let mut stream = port.tcp().await;
        stream.write_all(bytes).await.unwrap();
        stream.shutdown().await.unwrap();
        let ended = tokio::time::timeout(CUT_OFF_WITHIN, stream.read_to_end(&mut Vec::new())).await;
        assert!(ended.is_ok(), "still open after {bytes:?}");
    }
    // The same inside of TLS.
    for text in [
        "\0\0\0\0\r\n\r\n",
        "GET\r\n\r\n",
        "GET / HTTP/9.9\r\n\r\n",
        "BREW /version HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n",
    ] {
        let mut stream = port.tls().await;
        stream.write_all(text.as_bytes()).await.unwrap();
        let mut answer = Vec::new();
        let ended = tokio::time::timeout(CUT_OFF_WITHIN, stream.read_to_end(&mut answer)).await;
        assert!(ended.is_ok(), "still open after {text:?}");
        let answer = String::from_utf8_lossy(&answer);
        assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 4"), "{text:?}: {answer}");
    }
    port.answers().await;
}

/// A watcher that does not read does not make the server remember for it: its watch ends.
#[tokio::test]
async fn a_watcher_that_does_not_read_is_cut_off() {
    let port = Port::open(Options { watch_queue: 16, ..Options::default() }).await;
    let mut writer = Client::connect(&port).await;
    // Enough that the buffers of sockets and streams on the way cannot take it all.
    let text = "x".repeat(512 * 1024);
    let body =
        |n: usize| json!({"metadata": {"name": format!("big-{n}")}, "data": {"text": text}}).to_string();
    let mut slow = Client::connect(&port).await;
    let path = format!("{CONFIG_MAPS}?watch=1&resourceVersion=0");
    let mut watch = slow.send("GET", &path, "").await.into_body();
    for n in 0..60 {
        assert_eq!(writer.send("POST", CONFIG_MAPS, &body(n)).await.status(), 201);
    }
    let mut received = 0;
    let rest = async {
        while let Some(Ok(frame)) = watch.frame().await {
            received += frame.into_data().map_or(0, |data: Bytes| data.len());
        }
    };
    tokio::time::timeout(CUT_OFF_WITHIN, rest).await.expect("the watch goes on");
    assert!(received < 60 * text.len(), "everything was kept for it");
    port.answers().await;
}

#[tokio::test]
async fn renewed_certificates_are_used_without_a_restart() {
    let port = Port::open(Options::default()).await;
    let mut before = Client::connect(&port).await;
    let old = port.certificate().await;
    assert_eq!(port.certificate().await, old);
    assert!(port.pki.renew_if_due(Timestamp::now()).unwrap());
    // Who is connected stays so; who comes now sees the new one, signed by the authority they know.
    assert_eq!(before.send("GET", "/version", "").await.status(), 200);
    assert_ne!(port.certificate().await, old);
}
