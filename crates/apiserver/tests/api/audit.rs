//! The audit log: events in a file and at a collector behind a webhook, of real requests.

use std::net::{IpAddr, Ipv4Addr};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http::Method;
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
use crate::policies::{BINDINGS, POLICIES, binding, policy, rule};
use crate::webhooks::{self, MUTATING, VALIDATING, Webhook, in_force};

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
async fn collector(dir: &Path) -> (PathBuf, Arc<Mutex<Vec<Value>>>) {
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
        ..AuditSettings::default()
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
        text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
    };
    for _ in 0..3000 {
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

/// A cluster with an audit log of these rules, from the answer on.
async fn audited(dir: &Path, rules: &str) -> (Cluster, PathBuf) {
    let (policy, log) = (dir.join("policy.yaml"), dir.join("audit.log"));
    let text = format!(
        "{{apiVersion: audit.k8s.io/v1, kind: Policy, omitStages: [RequestReceived], rules: {rules}}}"
    );
    std::fs::write(&policy, text).unwrap();
    let settings =
        AuditSettings { policy, log: Some(log.clone()), log_max_size: 100, ..AuditSettings::default() };
    let extension = Extension { audit: Some(settings), ..Extension::default() };
    (Cluster::with(Setup { extension, ..Setup::default() }).await, log)
}

/// The event of the request with this address, once it is in the log.
async fn event(log: &Path, uri: &str) -> Value {
    for _ in 0..3000 {
        let text = std::fs::read_to_string(log).unwrap();
        let mut events = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        if let Some(event) = events.rfind(|event| event["requestURI"] == uri) {
            return event;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!("{uri} is never told of");
}

#[tokio::test]
async fn annotations_of_webhooks_and_policies_are_told() {
    let dir = tempfile::tempdir().unwrap();
    let (cluster, log) = audited(dir.path(), "[{level: Request}]").await;
    let admin = cluster.admin();
    let judge = Webhook::start(
        |_| json!({"allowed": true, "warnings": ["judged"], "auditAnnotations": {"seen": "yes"}}),
    )
    .await;
    let marker = Webhook::start(|_| {
        let mut answer = webhooks::patch(json!([{"op": "add", "path": "/data", "value": {"marked": "yes"}}]));
        answer["auditAnnotations"] = json!({"mark": "made"});
        answer
    })
    .await;
    let nobody = TcpListener::bind("127.66.252.1:0").await.unwrap().local_addr().unwrap();
    let dead = json!({"clientConfig": {"url": format!("https://{nobody}/"), "caBundle": judge.ca_bundle()},
        "failurePolicy": "Ignore"});
    admin.post(VALIDATING, judge.configured("a-dead", dead)).await.ok();
    admin.post(VALIDATING, judge.configured("judge", json!({}))).await.ok();
    admin.post(MUTATING, marker.configured("marker", json!({}))).await.ok();
    let fields = json!({"validations": [{"expression": "object.data.marked == 'no'", "message": "marked"}],
        "auditAnnotations": [{"key": "size", "valueExpression": "'size is ' + string(object.data.size())"}]});
    admin.post(POLICIES, policy("data.example.com", &rule("", "configmaps"), fields)).await.ok();
    let actions = json!({"validationActions": ["Warn", "Audit"]});
    admin.post(BINDINGS, binding("soft", "data.example.com", actions)).await.ok();
    in_force(&admin, |answer| {
        let warned = |text: &str| answer.warnings().iter().any(|warning| warning.contains(text));
        answer.body["data"]["marked"] == "yes" && warned("judged") && warned("with binding 'soft': marked")
    })
    .await;
    let uri = format!("{CONFIG_MAPS}?fieldManager=told");
    admin.post(&uri, config_map("told")).await.ok();
    let told = event(&log, &uri).await["annotations"].clone();
    for (key, value) in [
        ("judge.example.com/seen", "yes"),
        ("marker.example.com/mark", "made"),
        ("data.example.com/size", "size is 1"),
        ("failed-open.validating.webhook.admission.k8s.io/round_0_index_0", "a-dead.example.com"),
        (
            "mutation.webhook.admission.k8s.io/round_0_index_0",
            r#"{"configuration":"marker","webhook":"marker.example.com","mutated":true}"#,
        ),
        ("authorization.k8s.io/decision", "allow"),
        ("authorization.k8s.io/reason", ""),
    ] {
        assert_eq!(told[key], value, "{key}: {told:#}");
    }
    let read = |key: &str| -> Value { serde_json::from_str(told[key].as_str().unwrap()).unwrap() };
    let patched = read("patch.webhook.admission.k8s.io/round_0_index_0");
    assert_eq!((&patched["patch"][0]["path"], &patched["patchType"]), (&json!("/data"), &json!("JSONPatch")));
    let failures = read("validation.policy.admission.k8s.io/validation_failure");
    let expected = json!([{"message": "marked", "policy": "data.example.com", "binding": "soft",
        "expressionIndex": 0, "validationActions": ["Warn", "Audit"]}]);
    assert_eq!(failures, expected);
}

#[tokio::test]
async fn annotations_of_pod_security_and_authorization_are_told() {
    let dir = tempfile::tempdir().unwrap();
    let (cluster, log) = audited(dir.path(), "[{level: Metadata}]").await;
    let (admin, ann) = (cluster.admin(), cluster.user("ann", &[]));
    let labels = json!({"pod-security.kubernetes.io/enforce": "baseline", "pod-security.kubernetes.io/audit": "restricted"});
    admin.patch(MERGE, "/api/v1/namespaces/default", json!({"metadata": {"labels": labels}})).await.ok();
    let uri = "/api/v1/namespaces/default/pods?fieldManager=told";
    let pod = json!({"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
    admin.post(uri, pod).await.ok();
    let told = event(&log, uri).await["annotations"].clone();
    assert_eq!(told["pod-security.kubernetes.io/enforce-policy"], "baseline:latest", "{told}");
    let violations = told["pod-security.kubernetes.io/audit-violations"].as_str().unwrap();
    assert!(violations.starts_with("would violate PodSecurity \"restricted:latest\": "), "{violations}");
    ann.get("/version").await.ok();
    let told = event(&log, "/version").await["annotations"].clone();
    let reason = told["authorization.k8s.io/reason"].as_str().unwrap();
    assert!(reason.starts_with("RBAC: allowed by ClusterRoleBinding"), "{reason}");
}

/// client-go sends protobuf and asks for it, kubectl applies YAML and takes gzip.
#[tokio::test]
async fn bodies_are_told_in_json_whatever_clients_speak() {
    let dir = tempfile::tempdir().unwrap();
    let (cluster, log) = audited(dir.path(), "[{level: RequestResponse}]").await;
    let admin = cluster.admin();
    let binary = admin.accepting(minik8s_protobuf::MEDIA_TYPE);
    let map = json!({"kind": "ConfigMap", "apiVersion": "v1", "metadata": {"name": "m"}, "data": {"a": "b"}});
    let body = minik8s_protobuf::encode(map.to_string().as_bytes()).unwrap();
    let uri = format!("{CONFIG_MAPS}?fieldManager=binary");
    let made = binary.send(Method::POST, &uri, minik8s_protobuf::MEDIA_TYPE, body).await;
    assert_eq!(made.code, 201);
    assert_eq!(made.headers["content-type"], minik8s_protobuf::MEDIA_TYPE);
    let told = event(&log, &uri).await;
    assert_eq!(
        (&told["requestObject"]["data"]["a"], &told["responseObject"]["data"]["a"]),
        (&json!("b"), &json!("b"))
    );

    let uri = format!("{CONFIG_MAPS}?limit=5");
    assert_eq!(binary.get(&uri).await.code, 200);
    let told = event(&log, &uri).await;
    assert_eq!(told["responseObject"]["kind"], "ConfigMapList");
    assert_eq!(told["responseObject"]["items"][0]["metadata"]["name"], "m", "{told}");

    let text = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: applied}\ndata: {a: b}\n";
    let uri = format!("{CONFIG_MAPS}/applied?fieldManager=yaml");
    admin.send(Method::PATCH, &uri, APPLY, text).await.ok();
    assert_eq!(event(&log, &uri).await["requestObject"]["data"]["a"], "b");
    let uri = format!("{CONFIG_MAPS}/applied");
    admin.accepting("application/yaml").get(&uri).await.ok();
    assert_eq!(event(&log, &uri).await["responseObject"]["data"]["a"], "b");

    let mut large = config_map("large");
    large["data"] = json!({"a": "x".repeat(200 << 10)});
    admin.post(CONFIG_MAPS, large).await.ok();
    let uri = format!("{CONFIG_MAPS}/large");
    let answer = admin.header("accept-encoding", "gzip").get(&uri).await;
    assert_eq!(answer.headers["content-encoding"], "gzip");
    assert_eq!(event(&log, &uri).await["responseObject"]["metadata"]["name"], "large");
}
