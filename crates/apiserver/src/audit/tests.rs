//! Trails of requests, from their beginning to the log.

use std::path::PathBuf;

use serde_json::Value;

use super::*;
use crate::request::Query;

fn auditor(directory: &std::path::Path, rules: &str) -> Result<Auditor, String> {
    let policy = directory.join("policy.yaml");
    std::fs::write(&policy, format!("{{apiVersion: audit.k8s.io/v1, kind: Policy, rules: {rules}}}"))
        .unwrap();
    Auditor::new(&AuditSettings {
        policy,
        log: Some(directory.join("audit.log")),
        log_max_size: 1,
        log_max_backup: 1,
        ..AuditSettings::default()
    })
}

fn request(path: &str) -> (Request<()>, RequestInfo) {
    let mut request = Request::post(path).header(USER_AGENT, "kubectl").body(()).unwrap();
    request.extensions_mut().insert(Source("192.0.2.7".parse().unwrap()));
    let info =
        RequestInfo::parse(request.method(), request.uri().path(), &Query::parse(request.uri().query()));
    (request, info)
}

fn body(text: &'static str) -> Body {
    Full::new(Bytes::from_static(text.as_bytes())).boxed_unsync()
}

/// What waits for the log.
fn waiting(auditor: &Auditor) -> Vec<Value> {
    let mut backends = auditor.backends.lock();
    let receiver = &mut backends.log.as_mut().unwrap().1;
    let mut events = Vec::new();
    while let Ok(event) = receiver.try_recv() {
        events.push(serde_json::from_slice(&event).unwrap());
    }
    events
}

#[tokio::test]
async fn request_is_told_with_user_object_bodies_and_decision() {
    let directory = tempfile::tempdir().unwrap();
    let auditor = auditor(directory.path(), "[{level: RequestResponse}]").unwrap();
    let (mut request, info) = request("/api/v1/namespaces/shop/configmaps?dryRun=All");
    let trail = auditor.begin(&mut request, &info);
    auditor.identify(&trail, &User::authenticated("alice", &["people"]), None).await;
    trail.note_decision(&Decision::allow("because"));
    trail.note_body(&Bytes::from_static(b"{\"kind\": \"ConfigMap\"}"));
    let response = auditor.finish(trail, Response::new(body("{\"made\": true}")), false).await;
    assert_eq!(response.into_body().collect().await.unwrap().to_bytes(), "{\"made\": true}");
    let events = waiting(&auditor);
    assert_eq!(events.len(), 2);
    assert_eq!((&events[0]["stage"], &events[0]["requestObject"]), (&"RequestReceived".into(), &Value::Null));
    let last = &events[1];
    assert_eq!(last["stage"], "ResponseComplete");
    assert_eq!(last["auditID"], events[0]["auditID"]);
    assert_eq!(last["user"]["username"], "alice");
    assert_eq!(last["verb"], "create");
    assert_eq!(last["requestURI"], "/api/v1/namespaces/shop/configmaps?dryRun=All");
    assert_eq!(last["objectRef"]["resource"], "configmaps");
    assert_eq!(last["objectRef"]["namespace"], "shop");
    assert_eq!(last["sourceIPs"][0], "192.0.2.7");
    assert_eq!(last["responseStatus"]["code"], 200);
    assert_eq!(last["requestObject"]["kind"], "ConfigMap");
    assert_eq!(last["responseObject"]["made"], true);
    assert_eq!(last["annotations"]["authorization.k8s.io/decision"], "allow");
    assert_eq!(last["annotations"]["authorization.k8s.io/reason"], "because");
}

#[tokio::test]
async fn annotation_said_twice_stays_as_it_was_and_wrong_keys_are_left_out() {
    let directory = tempfile::tempdir().unwrap();
    let auditor = auditor(directory.path(), "[{level: Metadata, omitStages: [RequestReceived]}]").unwrap();
    let (mut request, info) = request("/api/v1/pods");
    let trail = auditor.begin(&mut request, &info);
    for (key, value) in [
        ("a.example.com/key", "first"),
        ("a.example.com/key", "second"),
        ("key", "x"),
        ("a.example.com/not a key", "x"),
        ("a.example.com/b/c", "x"),
    ] {
        trail.annotate(key, value);
    }
    auditor.finish(trail, Response::new(body("")), false).await;
    let events = waiting(&auditor);
    assert_eq!(events[0]["annotations"], serde_json::json!({"a.example.com/key": "first"}));
}

#[tokio::test]
async fn bodies_are_told_in_json_whatever_they_travel_in() {
    let object = r#"{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"m"},"data":{"a":"b"}}"#;
    let protobuf = Bytes::from(minik8s_protobuf::encode(object.as_bytes()).unwrap());
    let yaml = Bytes::from_static(b"kind: ConfigMap\napiVersion: v1\nmetadata:\n  name: m\ndata: {a: b}\n");
    let expected: Value = serde_json::from_str(object).unwrap();
    for (content_type, bytes, expected) in [
        ("", Bytes::from_static(object.as_bytes()), &expected),
        ("application/json; charset=utf-8", Bytes::from_static(object.as_bytes()), &expected),
        (minik8s_protobuf::MEDIA_TYPE, protobuf, &expected),
        ("application/yaml", yaml.clone(), &expected),
        ("application/apply-patch+yaml", yaml, &expected),
        ("text/plain", Bytes::from_static(b"neither"), &Value::Null),
    ] {
        let directory = tempfile::tempdir().unwrap();
        let auditor = auditor(directory.path(), "[{level: RequestResponse}]").unwrap();
        let (mut request, info) = request("/api/v1/namespaces/shop/configmaps");
        request.headers_mut().insert(CONTENT_TYPE, content_type.parse().unwrap());
        let trail = auditor.begin(&mut request, &info);
        auditor.identify(&trail, &User::authenticated("alice", &[]), None).await;
        trail.note_body(&bytes);
        let answer = crate::answer::bytes(200, content_type, bytes.clone());
        let response = auditor.finish(trail, answer, false).await;
        assert_eq!(response.into_body().collect().await.unwrap().to_bytes(), bytes);
        let last = waiting(&auditor).pop().unwrap();
        assert_eq!((&last["requestObject"], &last["responseObject"]), (expected, expected), "{content_type}");
    }
}

#[tokio::test]
async fn panic_is_a_stage_of_its_own() {
    for (rules, expected) in [
        ("[{level: Metadata, omitStages: [RequestReceived]}]", vec!["Panic"]),
        ("[{level: Metadata, omitStages: [RequestReceived, Panic]}]", vec![]),
    ] {
        let directory = tempfile::tempdir().unwrap();
        let auditor = auditor(directory.path(), rules).unwrap();
        let (mut request, info) = request("/api/v1/pods");
        let trail = auditor.begin(&mut request, &info);
        trail.panicked();
        auditor.finish(trail, crate::answer::text(500, "panicked"), true).await;
        let events = waiting(&auditor);
        let stages: Vec<&str> = events.iter().map(|event| event["stage"].as_str().unwrap()).collect();
        assert_eq!(stages, expected, "{rules}");
        assert!(events.iter().all(|event| event["responseStatus"]["code"] == 500));
    }
}

#[tokio::test]
async fn stream_is_complete_when_it_ends() {
    let directory = tempfile::tempdir().unwrap();
    let auditor = auditor(directory.path(), "[{level: Metadata, omitStages: [RequestReceived]}]").unwrap();
    let (mut request, info) = request("/api/v1/pods");
    let trail = auditor.begin(&mut request, &info);
    auditor.identify(&trail, &User::authenticated("alice", &[]), None).await;
    let response = auditor.finish(trail, Response::new(body("x")), true).await;
    let stages = |events: &[Value]| -> Vec<String> {
        events.iter().map(|event| event["stage"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(stages(&waiting(&auditor)), ["ResponseStarted"]);
    drop(response);
    assert_eq!(stages(&waiting(&auditor)), ["ResponseComplete"]);
}

#[tokio::test]
async fn request_that_nobody_is_known_of_is_told_as_anonymous() {
    let directory = tempfile::tempdir().unwrap();
    let auditor = auditor(directory.path(), "[{level: None, users: [alice]}, {level: Metadata}]").unwrap();
    let (mut incoming, info) = request("/api/v1/pods");
    let trail = auditor.begin(&mut incoming, &info);
    let mut response = Response::new(body(""));
    *response.status_mut() = http::StatusCode::UNAUTHORIZED;
    auditor.finish(trail, response, false).await;
    let events = waiting(&auditor);
    assert_eq!((events.len(), &events[0]["responseStatus"]["code"]), (1, &401.into()));
    let (mut incoming, info) = request("/api/v1/pods");
    let trail = auditor.begin(&mut incoming, &info);
    auditor.identify(&trail, &User::authenticated("alice", &[]), None).await;
    auditor.finish(trail, Response::new(body("")), false).await;
    assert!(waiting(&auditor).is_empty());
}

#[test]
fn files_that_cannot_be_read_are_named() {
    let directory = tempfile::tempdir().unwrap();
    let error = auditor(directory.path(), "[]").err().unwrap();
    assert!(error.contains("policy.yaml") && error.contains("0 rules"), "{error}");
    let missing = AuditSettings { policy: PathBuf::from("/nowhere/policy.yaml"), ..AuditSettings::default() };
    assert!(Auditor::new(&missing).err().unwrap().contains("/nowhere/policy.yaml"));
}
