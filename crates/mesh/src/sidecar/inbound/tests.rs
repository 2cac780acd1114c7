//! Connections that arrive as they do behind the rules of a pod, but for the rules: what each kind of client meets.

use minik8s_proxy::Shared;
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpListener;
use tokio_rustls::TlsConnector;
use tokio_util::sync::CancellationToken;

use super::*;
use crate::policy::verdict::Policies;
use crate::sidecar::counters::Counters;
use crate::sidecar::tls::tests::FakeAuthority;

struct Pod {
    /// Where clients connect.
    proxy: SocketAddr,
    counters: Arc<Counters>,
    authority: FakeAuthority,
    shared: Arc<Shared<Guard>>,
}

/// A pod whose process greets first, if it does, and then sends back what comes.
async fn pod(inbound: Value, greeting: &'static [u8], is_of_mesh: bool) -> Pod {
    let process = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let destination = process.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = process.accept().await {
            tokio::spawn(async move {
                let _ = stream.write_all(greeting).await;
                let (mut reader, mut writer) = stream.split();
                let _ = tokio::io::copy(&mut reader, &mut writer).await;
            });
        }
    });
    let authority = FakeAuthority::new();
    let counters = Arc::<Counters>::default();
    let shared: Arc<Shared<Guard>> = Arc::default();
    let inbound: crate::protocol::Inbound = serde_json::from_value(inbound).unwrap();
    shared.table.send_replace(Arc::new(Guarded {
        strict: inbound.strict,
        policies: Policies::new(&inbound),
        tls: Some(Arc::new(authority.account("shop/reviews"))),
        counters: counters.clone(),
        ..Guarded::default()
    }));
    let worker = Worker::start(shared.clone(), CancellationToken::new());
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let proxy = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((stream, peer)) = listener.accept().await {
            let stream = stream.into();
            let connection = Connection { stream, peer, destination, read: Vec::new(), process: None };
            let worker = worker.clone();
            tokio::spawn(async move { connection.serve(&worker, is_of_mesh).await });
        }
    });
    Pod { proxy, counters, authority, shared }
}

impl Pod {
    /// What a plain client reads, after it has sent something, if it does.
    async fn plain(&self, sent: &[u8], length: usize) -> Option<String> {
        let stream = TcpStream::connect(self.proxy).await.unwrap();
        exchange(stream, sent, length).await
    }

    /// The same for a proxy of that service account.
    async fn meshed(&self, account: &str, sent: &[u8], length: usize) -> Option<String> {
        let stream = TcpStream::connect(self.proxy).await.unwrap();
        let config = self.authority.account(account).client("shop/reviews").unwrap();
        let name = rustls::pki_types::ServerName::try_from("backend.invalid").unwrap();
        exchange(TlsConnector::from(config).connect(name, stream).await.ok()?, sent, length).await
    }

    fn counted(&self, what: &str) -> u64 {
        self.counters.all().iter().filter(|one| one.what == what).map(|one| one.count).sum()
    }
}

async fn exchange(
    mut stream: impl AsyncRead + AsyncWrite + Unpin,
    sent: &[u8],
    length: usize,
) -> Option<String> {
    stream.write_all(sent).await.ok()?;
    let mut answer = vec![0; length];
    stream.read_exact(&mut answer).await.ok()?;
    Some(String::from_utf8(answer).unwrap())
}

fn open() -> Value {
    json!({"strict": false})
}

#[tokio::test]
async fn permissive_pod_takes_both() {
    let pod = pod(open(), b"", false).await;
    assert_eq!(pod.plain(b"hello", 5).await.as_deref(), Some("hello"));
    assert_eq!(pod.meshed("shop/web", b"hello", 5).await.as_deref(), Some("hello"));
    assert_eq!((pod.counted(PLAINTEXT), pod.counted(MUTUAL_TLS)), (1, 1));
}

/// A server that speaks first is never waited for in vain, in the clear or with TLS, known to be of the mesh or not.
#[tokio::test]
async fn server_first_protocols_do_not_stall() {
    for is_of_mesh in [false, true] {
        let pod = pod(open(), b"220 ready\r\n", is_of_mesh).await;
        assert_eq!(pod.meshed("shop/web", b"", 11).await.as_deref(), Some("220 ready\r\n"));
        assert_eq!(pod.counted(MUTUAL_TLS), 1, "{is_of_mesh}");
        let plain = timeout(HANDSHAKE / 2, pod.plain(b"", 11)).await.expect("within a moment");
        assert_eq!(plain.as_deref(), Some("220 ready\r\n"));
        assert_eq!(pod.plain(b"EHLO", 15).await.as_deref(), Some("220 ready\r\nEHLO"));
    }
}

#[tokio::test]
async fn strict_pod_refuses_whoever_does_not_prove_who_they_are() {
    let pod = pod(json!({"strict": true}), b"secret", false).await;
    assert_eq!(pod.plain(b"GET / HTTP/1.1\r\n\r\n", 1).await, None);
    assert_eq!(pod.counted(REFUSED_PLAINTEXT), 1);
    assert_eq!(pod.meshed("shop/web", b"", 6).await.as_deref(), Some("secret"));
    // A certificate of another authority is none.
    let other = FakeAuthority::new().account("shop/web").client("shop/reviews").unwrap();
    let stream = TcpStream::connect(pod.proxy).await.unwrap();
    let name = rustls::pki_types::ServerName::try_from("backend.invalid").unwrap();
    let came = match TlsConnector::from(other).connect(name, stream).await {
        Ok(stream) => exchange(stream, b"", 6).await,
        Err(_) => None,
    };
    assert_eq!(came, None);
}

#[tokio::test]
async fn connections_are_let_in_by_service_account() {
    let rules = json!([{"name": "shop/p", "rules": [{"accounts": ["shop/web"]}]},
        {"name": "shop/dry", "dryRun": true, "rules": [{"accounts": ["shop/nobody"]}]}]);
    let pod = pod(json!({"strict": false, "policies": rules}), b"", false).await;
    assert_eq!(pod.meshed("shop/web", b"hello", 5).await.as_deref(), Some("hello"));
    assert_eq!(pod.meshed("shop/spy", b"hello", 5).await, None);
    assert_eq!(pod.meshed("bank/web", b"hello", 5).await, None, "of another namespace");
    assert_eq!(pod.plain(b"hello", 5).await, None);
    assert_eq!((pod.counted(DENIED), pod.counted(WOULD_DENY)), (3, 4));
}

/// The process sends requests back, which is no answer: 502 is from beyond the guard, 403 from the guard.
#[tokio::test]
async fn requests_are_let_in_by_method_and_path() {
    let rules = json!([{"name": "shop/p", "rules": [{"accounts": ["shop/web"], "methods": ["GET"], "paths": ["/reviews/.*"]}]}]);
    let pod = pod(json!({"strict": false, "policies": rules}), b"", false).await;
    let ask = async |account: &str, line: &str| {
        let request = format!("{line} HTTP/1.1\r\nhost: reviews\r\n\r\n");
        pod.meshed(account, request.as_bytes(), 12).await.unwrap()[9..].to_owned()
    };
    assert_eq!(ask("shop/web", "GET /reviews/1").await, "502");
    assert_eq!(ask("shop/web", "POST /reviews/1").await, "403");
    assert_eq!(ask("shop/web", "GET /admin").await, "403");
    assert_eq!(ask("shop/web", "GET /reviews/../admin").await, "400");
    assert_eq!(ask("shop/spy", "GET /reviews/1").await, "403");
    let plain = pod.plain(b"GET /reviews/1 HTTP/1.1\r\nhost: reviews\r\n\r\n", 12).await.unwrap();
    assert_eq!(&plain[9..], "403");
}

#[tokio::test]
async fn nobody_is_let_in_before_the_first_word() {
    let pod = pod(open(), b"secret", false).await;
    let counters = pod.counters.clone();
    pod.shared.table.send_replace(Arc::new(Guarded { is_untold: true, counters, ..Guarded::default() }));
    assert_eq!(pod.plain(b"", 6).await, None);
    let stream = TcpStream::connect(pod.proxy).await.unwrap();
    let config = pod.authority.account("shop/web").client("shop/reviews").unwrap();
    let name = rustls::pki_types::ServerName::try_from("backend.invalid").unwrap();
    assert!(TlsConnector::from(config).connect(name, stream).await.is_err());
    assert_eq!(pod.counted(REFUSED_UNTOLD), 2);
}

/// Whoever keeps a connection open does not keep a right that is gone.
#[tokio::test]
async fn policies_hold_for_open_connections() {
    let changes = [
        json!({"strict": true}),
        json!({"strict": false, "policies": [{"name": "shop/p", "rules": []}]}),
        json!({"strict": false, "policies": [{"name": "shop/p", "rules": [{"methods": ["GET"]}]}]}),
    ];
    for change in changes {
        let pod = pod(open(), b"", false).await;
        let mut stream = TcpStream::connect(pod.proxy).await.unwrap();
        stream.write_all(b"hello").await.unwrap();
        stream.read_exact(&mut [0; 5]).await.unwrap();
        let inbound: crate::protocol::Inbound = serde_json::from_value(change.clone()).unwrap();
        let (strict, policies) = (inbound.strict, Policies::new(&inbound));
        pod.shared.table.send_replace(Arc::new(Guarded { strict, policies, ..Guarded::default() }));
        let ended = timeout(Duration::from_secs(60), stream.read(&mut [0; 5])).await.unwrap();
        assert!(ended.map_or(true, |length| length == 0), "{change}");
    }
}
