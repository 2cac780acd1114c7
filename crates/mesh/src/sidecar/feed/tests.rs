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
