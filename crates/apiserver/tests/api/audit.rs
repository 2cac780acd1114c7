//! The audit log: events in a file and at a collector behind a webhook, of real requests.

use std::net::{IpAddr, Ipv4Addr};
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use jiff::Timestamp;
use minik8s_api::{AuditSettings, Extension};
use minik8s_auth::pki::{self, Pki, ServingNames};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

use crate::cluster::*;

const POLICY: &str = "
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
  - {level: None, users: [quiet]}
  - {level: Metadata, resources: [{group: '', resources: [secrets]}]}
  - {level: RequestResponse, verbs: [create], resources: [{group: '', resources: [configmaps]}]}
  - {level: Metadata, nonResourceURLs: ['/version']}
";

/// Takes events in; gives them as they come.
async fn collector(dir: &Path) -> (std::path::PathBuf, Arc<Mutex<Vec<Value>>>) {
    let names = ServingNames {
        host_name: "collector".to_owned(),
        addresses: vec![IpAddr::V4(Ipv4Addr::LOCALHOST)],
        extra_names: Vec::new(),
        cluster_domain: "cluster.local".to_owned(),
        service_address: None,
    };
    let pki = Pki::load_or_create(&dir.join("collector"), &names, Timestamp::now()).unwrap();
    let tls = TlsAcceptor::from(Arc::new(pki::server_config(&pki).unwrap()));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let events: Arc<Mutex<Vec<Value>>> = Arc::default();
    let taken = events.clone();
    tokio::spawn(async move {
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            let (tls, taken) = (tls.clone(), taken.clone());
            tokio::spawn(async move {
                let Ok(stream) = tls.accept(stream).await else { return };
                let service = service_fn(move |request: http::Request<Incoming>| {
                    let taken = taken.clone();
                    async move {
                        let body = request.into_body().collect().await?.to_bytes();
                        let list: Value = serde_json::from_slice(&body).unwrap();
                        assert_eq!(list["kind"], "EventList");
                        taken.lock().unwrap().extend(list["items"].as_array().unwrap().iter().cloned());
                        Ok::<_, hyper::Error>(http::Response::new(Full::new(bytes::Bytes::new())))
                    }
                });
                let connection = hyper::server::conn::http1::Builder::new();
                let _ = connection.serve_connection(TokioIo::new(stream), service).await;
            });
        }
    });
    let file = dir.join("collector.kubeconfig");
    let config = json!({"clusters": [{"name": "c", "cluster": {
        "server": format!("https://{address}/events"), "certificate-authority-data": STANDARD.encode(pki.ca_pem())}}]});
    std::fs::write(&file, config.to_string()).unwrap();
    (file, events)
}

#[tokio::test]
async fn requests_are_told_as_the_policy_says() {
    let dir = tempfile::tempdir().unwrap();
    let (webhook, collected) = collector(dir.path()).await;
    let (policy, log) = (dir.path().join("policy.yaml"), dir.path().join("audit.log"));
    std::fs::write(&policy, POLICY).unwrap();
    let audit = AuditSettings {
        policy,
        log: Some(log.clone()),
        log_max_size: 1,
        log_max_backup: 1,
        webhook: Some(webhook),
    };
    let extension = Extension { audit: Some(audit), ..Extension::default() };
    let cluster = Cluster::with(Setup { extension, ..Setup::default() }).await;
    let (admin, ann) = (cluster.admin(), cluster.user("ann", &[]));
    let secret = json!({"metadata": {"name": "s"}, "stringData": {"password": "hidden"}});
    admin.post("/api/v1/namespaces/default/secrets", secret).await.ok();
    ann.get("/api/v1/namespaces/default/secrets/s").await.refused(403, "Forbidden");
    let map = json!({"metadata": {"name": "m"}, "data": {"a": "b"}});
    admin.post("/api/v1/namespaces/default/configmaps", map).await.ok();
    admin.header("impersonate-user", "bob").get("/version").await.ok();
    cluster.user("quiet", &["system:masters"]).get("/api/v1/namespaces/default/secrets/s").await.ok();
    let read = || -> Vec<Value> {
        let text = std::fs::read_to_string(&log).unwrap();
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    };
    for _ in 0..500 {
        if read().len() >= 4 && collected.lock().unwrap().len() >= 4 {
            break;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let events = read();
    let told = |user: &str, resource: &str| -> Value {
        let found = events
            .iter()
            .find(|one| one["user"]["username"] == user && one["objectRef"]["resource"] == resource);
        found.unwrap_or_else(|| panic!("{user} {resource}: {events:#?}")).clone()
    };
    let made = told("admin", "secrets");
    assert_eq!((&made["level"], &made["responseStatus"]["code"]), (&json!("Metadata"), &json!(201)));
    assert!(!made.to_string().contains("hidden"), "{made}");
    let refused = told("ann", "secrets");
    assert_eq!(refused["responseStatus"]["code"], 403);
    assert_eq!(refused["annotations"]["authorization.k8s.io/decision"], "forbid");
    let map = told("admin", "configmaps");
    assert_eq!(
        (&map["requestObject"]["data"]["a"], &map["responseObject"]["data"]["a"]),
        (&json!("b"), &json!("b"))
    );
    let version = events.iter().find(|one| one["requestURI"] == "/version").unwrap();
    assert_eq!(
        (&version["user"]["username"], &version["impersonatedUser"]["username"]),
        (&json!("admin"), &json!("bob"))
    );
    assert!(events.iter().all(|one| one["user"]["username"] != "quiet"), "{events:#?}");
    let ids = |all: &[Value]| -> std::collections::BTreeSet<String> {
        all.iter().map(|one| one["auditID"].to_string()).collect()
    };
    assert_eq!(ids(&collected.lock().unwrap()), ids(&events));
}
