//! Bad input of every sort: always a `Status` with a 4xx code, never a 5xx, a hang or a panic; and
//! afterwards the server works and nothing half done is there.

mod bodies;
mod junk;
mod patches;
mod requests;
mod wrong_types;

use minik8s_api::Resource;
use serde_json::json;

use crate::cluster::*;
use crate::samples::collection;

/// What must hold of any answer to any request.
#[track_caller]
fn assert_sane(answer: &Answer, sent: &str) {
    let shown: String = sent.chars().take(1000).collect();
    match answer.code {
        200..300 => {}
        400..500 => answer.assert_status(),
        // What upstream answers to a field that an apply must not have.
        500 if answer.text().contains("failed to create typed patch object") => {}
        // A version from the future: clients know this answer.
        504 if answer.text().contains("ResourceVersionTooLarge") => answer.assert_status(),
        code => panic!("{} -> {code} {}\nsent: {shown}", answer.what, answer.text()),
    }
}

/// The server still does its work.
async fn assert_works(client: &Client) {
    client.post(CONFIG_MAPS, config_map("works")).await.ok();
    client.patch(MERGE, &format!("{CONFIG_MAPS}/works"), json!({"data": {"a": "2"}})).await.ok();
    assert_eq!(client.get(&format!("{CONFIG_MAPS}/works")).await.ok()["data"]["a"], "2");
    client.delete(&format!("{CONFIG_MAPS}/works")).await.ok();
}

/// Deletes an object whatever holds it.
async fn remove(client: &Client, resource: &Resource, name: &str) {
    let one = format!("{}/{name}", collection(resource));
    for _ in 0..500 {
        let deleted = client.delete_with(&one, json!({"gracePeriodSeconds": 0})).await;
        assert_sane(&deleted, "");
        if client.get(&one).await.code == 404 {
            return;
        }
        client.patch(MERGE, &one, json!({"metadata": {"finalizers": null}})).await;
        if resource.kind == "Namespace" {
            client.put(&format!("{one}/finalize"), json!({"metadata": {"name": name}})).await;
        }
        tokio::task::yield_now().await;
    }
    panic!("{one} cannot be deleted: {}", client.get(&one).await.text());
}
