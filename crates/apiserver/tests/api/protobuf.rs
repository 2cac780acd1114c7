//! Bodies in Kubernetes' protobuf, as Go clients send them.

use http::Method;
use http::header::CONTENT_TYPE;
use serde_json::json;

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
    let admin = cluster.admin().accepting(&format!("{PROTOBUF},application/json"));
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

#[tokio::test]
async fn a_watch_that_asks_for_protobuf_alone_gets_json() {
    let cluster = Cluster::start().await;
    let admin = cluster.admin();
    let path = format!("{CONFIG_MAPS}?watch=1");
    let mut watch = admin.accepting(&format!("{PROTOBUF};stream=watch")).watch(&path).await;
    admin.post(CONFIG_MAPS, config_map("m")).await.ok();
    watch.expect("ADDED").await;
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
