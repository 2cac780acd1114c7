//! What a proxy makes of the agent's words.

use std::net::TcpListener;

use serde_json::json;

use super::*;
use crate::sidecar::tls::tests::FakeAuthority;

fn parts() -> Parts {
    let bind = || TcpListener::bind("127.0.0.1:0").unwrap();
    Parts {
        outbound: Arc::default(),
        guard: Arc::default(),
        counters: Arc::default(),
        listeners: Listeners { outbound: bind(), inbound: bind() },
        program: watch::Sender::default(),
        spans: OnceLock::new(),
    }
}

/// Of a Service with one pod of the mesh.
fn config(credentials: Option<Credentials>) -> Config {
    let endpoint =
        json!({"address": "10.0.0.1:9080", "pod": "p", "weight": 1, "serviceAccount": "shop/reviews"});
    let port = json!({"addresses": ["10.96.0.5:9080"], "http": true, "endpoints": [endpoint]});
    let services = vec![serde_json::from_value(json!({"service": "shop/reviews", "ports": [port]})).unwrap()];
    Config { services, own: Own { credentials, ..Own::default() }, ..Config::default() }
}

/// Connections of other proxies are taken, and others are called with TLS.
fn has_certificate(parts: &Parts) -> bool {
    let calls = parts.outbound.table.borrow().secured("10.0.0.1:9080".parse().unwrap()).is_some();
    let takes = parts.guard.table.borrow().tls.is_some();
    assert_eq!(calls, takes);
    calls
}

/// As after the agent's start, while no server answers it.
#[tokio::test]
async fn word_without_a_certificate_leaves_the_former_one() {
    let parts = parts();
    Feed::new(&parts).apply(&config(None));
    assert!(!has_certificate(&parts));
    let credentials = FakeAuthority::new().issue("spiffe://cluster.local/ns/shop/sa/web");
    Feed::new(&parts).apply(&config(Some(credentials)));
    assert!(has_certificate(&parts));
    Feed::new(&parts).apply(&config(None));
    assert!(has_certificate(&parts), "of another agent, which has none");
    let unusable = Credentials { certificates: String::new(), key: String::new() };
    Feed::new(&parts).apply(&config(Some(unusable)));
    assert!(has_certificate(&parts), "of another agent, with one that cannot be used");
}

/// A proxy that is started while no agent is there goes by the former word, and by a newer one from then on.
#[tokio::test]
async fn proxy_begins_with_what_was_written_down() {
    let parts = parts();
    parts.close();
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("config");
    let state = |parts: &Parts| {
        let guarded = parts.guard.table.borrow();
        (guarded.is_untold, guarded.strict)
    };
    assert!(parts.begin(&file).is_err());
    std::fs::write(&file, "{\"version\":1").unwrap();
    assert!(parts.begin(&file).is_err());
    assert_eq!(state(&parts), (true, false), "nobody is let in");
    let mut written = config(None);
    written.own.inbound.strict = true;
    std::fs::write(&file, serde_json::to_vec(&written).unwrap()).unwrap();
    parts.begin(&file).unwrap();
    assert_eq!(state(&parts), (false, true));
    assert!(parts.outbound.table.borrow().knows("10.96.0.5:9080".parse().unwrap()));
    Feed::new(&parts).apply(&config(None));
    parts.begin(&file).unwrap();
    assert_eq!(state(&parts), (false, false), "the newer word holds");
}
