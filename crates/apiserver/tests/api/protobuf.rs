//! Bodies in Kubernetes' protobuf, as Go clients send them.

use http::Method;
use http::header::CONTENT_TYPE;
use serde_json::{Value, json};

use crate::cluster::*;

pub const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";

/// A field with short bytes.
fn part(number: u8, bytes: impl AsRef<[u8]>) -> Vec<u8> {
    let bytes = bytes.as_ref();
    assert!(number < 16 && bytes.len() < 128, "this encoder is small");
    [&[number << 3 | 2, bytes.len() as u8], bytes].concat()
}

fn body(api_version: &str, kind: &str, object: &[u8]) -> Vec<u8> {
    let type_meta = [part(1, api_version), part(2, kind)].concat();
    [b"k8s\0".to_vec(), part(1, type_meta), part(2, object)].concat()
}

pub fn config_map_body(extra: &[u8]) -> Vec<u8> {
    let metadata = part(1, [part(1, "m"), part(2, ""), part(8, "")].concat());
    let data = part(2, [part(1, "key"), part(2, "value")].concat());
    body("v1", "ConfigMap", &[metadata, data, extra.to_vec()].concat())
}

#[tokio::test]
async fn objects_and_options_in_protobuf() {
    let cluster = Cluster::start().await;
    let admin = cluster.admin();
    let made = admin.send(Method::POST, CONFIG_MAPS, PROTOBUF, config_map_body(&[])).await;
    assert_eq!(made.headers[CONTENT_TYPE], "application/json");
    assert_eq!(made.ok()["data"], json!({"key": "value"}));
    let path = format!("{CONFIG_MAPS}/m");
    let immutable = config_map_body(&[0x20, 1]);
    let changed = admin.send(Method::PUT, &path, PROTOBUF, immutable).await.ok();
    assert_eq!(changed["immutable"], true);
    let wrong_uid = part(2, part(1, "other"));
    let options = |content: &[u8]| body("v1", "DeleteOptions", content);
    admin.send(Method::DELETE, &path, PROTOBUF, options(&wrong_uid)).await.refused(409, "Conflict");
    admin.send(Method::DELETE, &path, PROTOBUF, options(&[0x08, 0])).await.ok();
    admin.get(&path).await.refused(404, "NotFound");
}

/// What was answered, which must be protobuf.
fn decoded(answer: &Answer) -> Value {
    assert_eq!(answer.headers[CONTENT_TYPE], PROTOBUF);
    let decoded = minik8s_protobuf::decode(&answer.bytes).unwrap();
    assert!(decoded.unknown.is_empty(), "{:?}", decoded.unknown);
    decoded.object
}

#[tokio::test]
async fn answers_in_protobuf_say_what_those_in_json_say() {
    let cluster = Cluster::start().await;
    let json = cluster.admin();
    let binary = json.accepting(&format!("{PROTOBUF},application/json"));
    let made = binary.send(Method::POST, CONFIG_MAPS, PROTOBUF, config_map_body(&[])).await;
    assert_eq!(made.code, 201);
    let path = format!("{CONFIG_MAPS}/m");
    assert_eq!(decoded(&made), json.get(&path).await.ok());
    assert_eq!(decoded(&binary.get(&path).await), json.get(&path).await.ok());
    for list in [CONFIG_MAPS, "/api/v1/namespaces", "/apis/rbac.authorization.k8s.io/v1/clusterroles"] {
        let (one, other) = (binary.get(list).await, json.get(list).await.ok());
        assert_eq!(one.headers[CONTENT_TYPE], PROTOBUF);
        // The same, made of the whole text; what that says is looked at in the crate's own tests.
        assert_eq!(one.bytes, minik8s_protobuf::encode(other.to_string().as_bytes()).unwrap(), "{list}");
    }
    let metadata = format!("{PROTOBUF};as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json");
    let partial = decoded(&json.accepting(&metadata).get(&path).await);
    assert_eq!(
        (&partial["kind"], &partial["metadata"]["name"]),
        (&json!("PartialObjectMetadata"), &json!("m"))
    );
    let review = json!({"kind": "SelfSubjectReview", "apiVersion": "authentication.k8s.io/v1"});
    let reviewed = binary.post("/apis/authentication.k8s.io/v1/selfsubjectreviews", review).await;
    assert!(decoded(&reviewed)["status"]["userInfo"]["username"].is_string());
    // Errors, and kinds that have no such form, are JSON, which the client accepts too.
    binary.get(&format!("{CONFIG_MAPS}/none")).await.refused(404, "NotFound");
    let own = binary.get("/apis/minik8s.io/v1/dns").await;
    assert_eq!(own.headers[CONTENT_TYPE], "application/json");
    own.ok();
    assert_eq!(decoded(&binary.delete(&path).await)["status"], "Success");
}

#[tokio::test]
async fn watch_in_protobuf_is_a_stream_of_frames() {
    let cluster = Cluster::start().await;
    let admin = cluster.admin();
    admin.post(CONFIG_MAPS, config_map("m")).await.ok();
    let events = "watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true&timeoutSeconds=1";
    let watch =
        admin.accepting(&format!("{PROTOBUF};stream=watch")).get(&format!("{CONFIG_MAPS}?{events}")).await;
    assert_eq!(watch.headers[CONTENT_TYPE], format!("{PROTOBUF};stream=watch"));
    let (mut rest, mut seen) = (&watch.bytes[..], Vec::new());
    while let Some((length, after)) = rest.split_first_chunk::<4>() {
        let (frame, after) = after.split_at(u32::from_be_bytes(*length) as usize);
        rest = after;
        let start = frame.windows(4).position(|bytes| bytes == b"k8s\0").unwrap();
        let ty = String::from_utf8(frame[2..2 + frame[1] as usize].to_vec()).unwrap();
        seen.push((ty, minik8s_protobuf::decode(&frame[start..]).unwrap().object));
    }
    let types: Vec<&str> = seen.iter().map(|(ty, _)| ty.as_str()).collect();
    assert_eq!(types[..2], ["ADDED", "BOOKMARK"]);
    assert_eq!(seen[0].1, admin.get(&format!("{CONFIG_MAPS}/m")).await.ok());
    assert_eq!(seen[1].1["metadata"]["annotations"]["k8s.io/initial-events-end"], "true");
    let expired = admin.accepting(&format!("{PROTOBUF};stream=watch"));
    let refused = expired.get(&format!("{CONFIG_MAPS}?watch=1&resourceVersion=999999999")).await;
    assert!(refused.bytes.windows(4).any(|bytes| bytes == b"k8s\0"));
}

#[tokio::test]
async fn unknown_fields_are_warned_about() {
    let cluster = Cluster::start().await;
    let answer =
        cluster.admin().send(Method::POST, CONFIG_MAPS, PROTOBUF, config_map_body(&part(15, "x"))).await;
    assert_eq!(answer.warnings().len(), 1, "{:?}", answer.warnings());
    assert!(answer.warnings()[0].contains("field 15 of core.v1.ConfigMap"), "{:?}", answer.warnings());
    answer.ok();
}

#[tokio::test]
async fn bodies_that_cannot_be_read() {
    let cluster = Cluster::start().await;
    let admin = cluster.admin();
    let send = |body: Vec<u8>| admin.send(Method::POST, CONFIG_MAPS, PROTOBUF, body);
    send(b"{}".to_vec()).await.refused(400, "BadRequest");
    send(body("v1", "ConfigMap", &[0x0a, 9])).await.refused(400, "BadRequest");
    send(body("v1", "Secret", &[])).await.refused(400, "BadRequest");
    send(body("example.com/v1", "Widget", &[])).await.refused(415, "UnsupportedMediaType");
}
