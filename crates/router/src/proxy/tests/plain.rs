//! Plain requests byte by byte: what a client and a backend see of each other, and how the short way gives up.

use std::net::SocketAddr;
use std::time::Duration;

use http::Method;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;

use super::{Backend, Lab};

/// Answers every head that comes with the same bytes and closes the connection if it is told to. Tells what came.
struct Script {
    address: SocketAddr,
    heads: mpsc::UnboundedReceiver<String>,
}

impl Script {
    async fn start(answer: &'static [&'static str], closes: bool) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (sender, heads) = mpsc::unbounded_channel();
        tokio::spawn(async move {
            loop {
                let (mut stream, _) = listener.accept().await.unwrap();
                let sender = sender.clone();
                tokio::spawn(async move {
                    while let Some(head) = read_until(&mut stream, "\r\n\r\n").await {
                        sender.send(head).unwrap();
                        for piece in answer {
                            stream.write_all(piece.as_bytes()).await.unwrap();
                            stream.flush().await.unwrap();
                            tokio::task::yield_now().await;
                        }
                        if closes {
                            return;
                        }
                    }
                });
            }
        });
        Script { address, heads }
    }
}

/// `None` if it ends before.
async fn read_until(stream: &mut TcpStream, end: &str) -> Option<String> {
    let mut text = String::new();
    let mut buffer = [0; 4096];
    while !text.ends_with(end) {
        match stream.read(&mut buffer).await {
            Ok(length) if length > 0 => text += std::str::from_utf8(&buffer[..length]).unwrap(),
            _ => return None,
        }
    }
    Some(text)
}

/// Without the date, which is another one every time.
fn undated(text: &str) -> String {
    text.split_inclusive("\r\n").filter(|line| !line.to_ascii_lowercase().starts_with("date:")).collect()
}

#[tokio::test]
async fn heads_byte_by_byte() {
    let mut backend = Script::start(
        &[
            "HTTP/1.1 103 Early Hints\r\nlink: x\r\n\r\nHTTP/1.1 20",
            "0 Fine\r\nX-A: 1\r\ncontent-length: 5\r\n\r\nhel",
            "lo",
        ],
        false,
    )
    .await;
    let lab = Lab::start().await;
    lab.route(&["h /a a"], &[("a", &[backend.address])]);
    let mut client = TcpStream::connect(lab.address).await.unwrap();
    for _ in 0..2 {
        let request = "GET /a/b?c=d HTTP/1.1\r\nHost: H:80\r\nx-Other: 2\r\nX-Forwarded-For: 192.0.2.7\r\n\
                       x-forwarded-proto: https\r\nX_Forwarded_For: 192.0.2.7\r\nx-real-ip: 192.0.2.7\r\nForwarded: for=192.0.2.7\r\nkeep-alive: 1\r\n\r\n";
        client.write_all(request.as_bytes()).await.unwrap();
        let answer = read_until(&mut client, "hello").await.unwrap();
        assert!(answer.contains("date: "), "{answer}");
        assert_eq!(undated(&answer), "HTTP/1.1 200 Fine\r\nX-A: 1\r\ncontent-length: 5\r\n\r\nhello");
        assert_eq!(
            backend.heads.recv().await.unwrap(),
            "GET /b?c=d HTTP/1.1\r\nHost: H:80\r\nx-Other: 2\r\nx-forwarded-for: 127.0.0.1\r\n\
             x-forwarded-proto: http\r\nx-forwarded-prefix: /a\r\nx-forwarded-host: H:80\r\n\r\n"
        );
    }
}

#[tokio::test]
async fn bodies_end_where_they_say() {
    let lab = Lab::start().await;
    let long: &'static str = Box::leak("x".repeat(200_000).into_boxed_str());
    let long_answer =
        Box::leak(format!("HTTP/1.1 200 OK\r\ncontent-length: 200000\r\n\r\n{long}").into_boxed_str());
    let cases: [(&'static [&'static str], bool, &str); 4] = [
        (
            &["HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n3\r\n", "abc\r\n0", "\r\nx: y\r\n\r\n"],
            false,
            "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\nx: y\r\n\r\n",
        ),
        // A body that ends with its connection: the client's goes on.
        (
            &["HTTP/1.0 200 OK\r\ncontent-type: t\r\n\r\nabc"],
            true,
            "HTTP/1.1 200 OK\r\ncontent-type: t\r\ntransfer-encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
        ),
        (
            &["HTTP/1.1 304 Not Modified\r\ncontent-length: 9\r\n\r\n"],
            false,
            "HTTP/1.1 304 Not Modified\r\ncontent-length: 9\r\n\r\n",
        ),
        (Box::leak(Box::new([&*long_answer])), false, long_answer),
    ];
    for (pieces, closes, expected) in cases {
        let backend = Script::start(pieces, closes).await;
        lab.route(&["h / a"], &[("a", &[backend.address])]);
        let mut client = TcpStream::connect(lab.address).await.unwrap();
        for _ in 0..3 {
            client.write_all(b"GET / HTTP/1.1\r\nhost: h\r\n\r\n").await.unwrap();
            let mut answer = String::new();
            let mut buffer = [0; 4096];
            while undated(&answer).len() < expected.len() {
                let length = client.read(&mut buffer).await.unwrap();
                assert!(length > 0, "{answer}");
                answer += std::str::from_utf8(&buffer[..length]).unwrap();
            }
            assert!(undated(&answer) == expected, "{answer}");
        }
    }
}

#[tokio::test]
async fn answers_that_make_no_sense() {
    let lab = Lab::start().await;
    let cases: [(&'static [&'static str], &str); 5] = [
        (&["nonsense\r\n\r\n"], "it is not HTTP"),
        (&["HTTP/1.1 200 OK\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\n"], "it is not HTTP"),
        (&["HTTP/1.1 101 Switching Protocols\r\n\r\n"], "it is not HTTP"),
        (&["HTTP/1.1 200 OK\r\nx"], "it ends within its head"),
        (&[""], "closed before anything came"),
    ];
    for (pieces, why) in cases {
        let backend = Script::start(pieces, true).await;
        lab.route(&["h / a"], &[("a", &[backend.address])]);
        let (status, body) = lab.get("h", "/").await;
        assert_eq!(status.as_u16(), 502, "{body}");
        assert!(body.contains(why), "{why}: {body}");
    }
}

/// A broken body is not made whole: the client's connection ends.
#[tokio::test]
async fn a_body_that_breaks_off_ends_the_connection() {
    for pieces in [
        &["HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nabc"][..],
        &["HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n9\r\nabc"],
        &["HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nnonsense\r\n"],
    ] {
        let backend = Script::start(Box::leak(pieces.to_vec().into_boxed_slice()), true).await;
        let lab = Lab::start().await;
        lab.route(&["h / a"], &[("a", &[backend.address])]);
        let mut client = TcpStream::connect(lab.address).await.unwrap();
        client.write_all(b"GET / HTTP/1.1\r\nhost: h\r\n\r\n").await.unwrap();
        let mut answer = Vec::new();
        client.read_to_end(&mut answer).await.unwrap_or_default();
        assert!(!answer.ends_with(b"0\r\n\r\n"), "{}", String::from_utf8_lossy(&answer));
    }
}

/// Requests that come before the last was answered, and others than plain ones among them.
#[tokio::test]
async fn one_connection_many_kinds() {
    let backend = Backend::start("a").await;
    let lab = Lab::start().await;
    lab.route(&["h / a"], &[("a", &[backend.address])]);
    let mut client = TcpStream::connect(lab.address).await.unwrap();
    let plain = "GET / HTTP/1.1\r\nhost: h\r\n\r\n";
    let posted = "POST / HTTP/1.1\r\nhost: h\r\ncontent-length: 5\r\n\r\nhello";
    let streamed = "POST / HTTP/1.1\r\nhost: h\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n";
    let last = "GET / HTTP/1.1\r\nhost: h\r\nconnection: close\r\n\r\n";
    client.write_all([plain, plain, posted, plain, streamed, plain, last].concat().as_bytes()).await.unwrap();
    let mut answers = String::new();
    client.read_to_string(&mut answers).await.unwrap();
    assert_eq!(answers.matches("HTTP/1.1 200 OK").count(), 7, "{answers}");
    assert!(answers.to_ascii_lowercase().contains("connection: close"), "{answers}");
    let seen = backend.seen.lock().unwrap().clone();
    let methods: Vec<_> = seen.iter().map(|(method, _, _, body)| (method.clone(), body.len())).collect();
    let (get, post) = ((Method::GET, 0), (Method::POST, 5));
    assert_eq!(methods, [&get, &get, &post, &get, &post, &get, &get].map(Clone::clone));
}

/// A client that goes away takes its request along.
#[tokio::test]
async fn a_client_that_is_gone_is_not_waited_for() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let lab = Lab::start().await;
    lab.route(&["h / a"], &[("a", &[listener.local_addr().unwrap()])]);
    let mut client = TcpStream::connect(lab.address).await.unwrap();
    client.write_all(b"GET / HTTP/1.1\r\nhost: h\r\n\r\n").await.unwrap();
    let (mut backend, _) = listener.accept().await.unwrap();
    read_until(&mut backend, "\r\n\r\n").await.unwrap();
    drop(client);
    let mut rest = Vec::new();
    let closed = tokio::time::timeout(Duration::from_secs(60), backend.read_to_end(&mut rest)).await;
    assert_eq!((closed.unwrap().unwrap(), rest.len()), (0, 0));
}
