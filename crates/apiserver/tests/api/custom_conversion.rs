//! Conversion webhooks of custom kinds: the steps of upstream's conformance tests, and watches besides.

use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http::{Request, Response};
use minik8s_store::Store;
use serde_json::{Value, json};

use crate::cluster::*;
use crate::https::HttpsServer;
use crate::mutating_policies::bind;
use crate::policies::{BINDINGS, POLICIES, binding, in_force, policy};
use crate::webhooks::{MUTATING, Webhook, patch};

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

fn place(version: &str) -> String {
    format!("/apis/stable.example.com/{version}/namespaces/default/endpoints")
}

/// Between `hostPort` of v1 and `host`, `port` of v2, as upstream's example.
fn convert(request: Request<Bytes>) -> Response<String> {
    let review: Value = serde_json::from_slice(request.body()).unwrap();
    let wanted = review["request"]["desiredAPIVersion"].as_str().unwrap();
    let objects = review["request"]["objects"].as_array().unwrap().iter().map(|object| {
        let mut object = object.clone();
        let fields = object.as_object_mut().unwrap();
        assert_ne!(fields["apiVersion"], wanted);
        fields.insert("apiVersion".into(), wanted.into());
        if wanted.ends_with("/v2") {
            let joined = fields.shift_remove("hostPort").unwrap();
            let (host, port) = joined.as_str().unwrap().split_once(':').unwrap();
            fields.insert("host".into(), host.into());
            fields.insert("port".into(), port.into());
        } else {
            let (host, port) = (fields.shift_remove("host").unwrap(), fields.shift_remove("port").unwrap());
            let joined = format!("{}:{}", host.as_str().unwrap(), port.as_str().unwrap());
            fields.insert("hostPort".into(), joined.into());
        }
        object
    });
    let objects: Vec<Value> = objects.collect();
    let response = json!({"uid": review["request"]["uid"], "convertedObjects": objects, "result": {"status": "Success"}});
    let review =
        json!({"kind": "ConversionReview", "apiVersion": review["apiVersion"], "response": response});
    Response::new(review.to_string())
}

fn definition(webhook: &HttpsServer, stored: &str) -> Value {
    let text = json!({"type": "string"});
    let version = |name: &str, properties: Value| {
        json!({"name": name, "served": true, "storage": name == stored,
            "schema": {"openAPIV3Schema": {"type": "object", "properties": properties}}})
    };
    let config = json!({"url": format!("https://{}/crdconvert", webhook.address), "caBundle": STANDARD.encode(&webhook.ca)});
    json!({"metadata": {"name": "endpoints.stable.example.com"}, "spec": {
        "group": "stable.example.com", "scope": "Namespaced", "names": {"plural": "endpoints", "kind": "Endpoint"},
        "versions": [version("v1", json!({"hostPort": text})), version("v2", json!({"host": text, "port": text}))],
        "conversion": {"strategy": "Webhook",
            "webhook": {"clientConfig": config, "conversionReviewVersions": ["v1", "v1beta1"]}},
    }})
}

async fn start() -> (Cluster, Client, HttpsServer) {
    let webhook = HttpsServer::start(IpAddr::V4(Ipv4Addr::LOCALHOST), "webhook", convert).await;
    let cluster = Cluster::start().await;
    let admin = cluster.admin();
    admin.post(DEFINITIONS, definition(&webhook, "v1")).await.ok();
    for _ in 0..3000 {
        if admin.get(&place("v2")).await.code == 200 {
            return (cluster, admin, webhook);
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("the kind is never served");
}

#[track_caller]
fn is_v1(object: &Value) {
    assert_eq!(
        (&object["apiVersion"], &object["hostPort"]),
        (&json!("stable.example.com/v1"), &json!("localhost:8080")),
        "{object}"
    );
    assert!(object["host"].is_null() && object["port"].is_null(), "{object}");
}

#[track_caller]
fn is_v2(object: &Value) {
    assert_eq!(
        (&object["apiVersion"], &object["host"]),
        (&json!("stable.example.com/v2"), &json!("localhost")),
        "{object}"
    );
    assert!(object["port"] == "8080" && object["hostPort"].is_null(), "{object}");
}

/// Upstream: "should be able to convert from CR v1 to CR v2".
#[tokio::test]
async fn objects_are_read_and_written_in_every_version() {
    let (_cluster, admin, _webhook) = start().await;
    let first = json!({"metadata": {"name": "cr-instance-1"}, "hostPort": "localhost:8080"});
    let made = admin.post(&place("v1"), first).await.ok();
    is_v1(&made);
    let one = |version: &str| format!("{}/cr-instance-1", place(version));
    let read = admin.get(&one("v2")).await.ok();
    is_v2(&read);
    assert_eq!(read["metadata"]["uid"], made["metadata"]["uid"]);
    // Written in v2 and stored in v1: patches and selectors see the version of the request.
    let second = json!({"metadata": {"name": "cr-instance-2"}, "host": "localhost", "port": "8080"});
    is_v2(&admin.post(&place("v2"), second).await.ok());
    is_v1(&admin.get(&format!("{}/cr-instance-2", place("v1"))).await.ok());
    admin.patch(MERGE, &one("v2"), json!({"port": "9090", "metadata": {"labels": {"a": "b"}}})).await.ok();
    let changed = admin.get(&one("v1")).await.ok();
    assert_eq!(
        (&changed["hostPort"], &changed["metadata"]["labels"]["a"]),
        (&json!("localhost:9090"), &json!("b"))
    );
    admin.delete(&one("v2")).await.ok();
    admin.get(&one("v1")).await.refused(404, "NotFound");
}

/// Upstream: "should be able to convert a non homogeneous list of CRs".
#[tokio::test]
async fn lists_of_mixed_versions_are_of_one() {
    let (cluster, admin, webhook) = start().await;
    admin
        .post(&place("v1"), json!({"metadata": {"name": "cr-instance-1"}, "hostPort": "localhost:8080"}))
        .await
        .ok();
    let current = admin.get(&format!("{DEFINITIONS}/endpoints.stable.example.com")).await.ok();
    let mut next = definition(&webhook, "v2");
    next["metadata"]["resourceVersion"] = current["metadata"]["resourceVersion"].clone();
    for _ in 0..100 {
        let current = admin.get(&format!("{DEFINITIONS}/endpoints.stable.example.com")).await.ok();
        next["metadata"]["resourceVersion"] = current["metadata"]["resourceVersion"].clone();
        if admin.put(&format!("{DEFINITIONS}/endpoints.stable.example.com"), next.clone()).await.code == 200 {
            break;
        }
    }
    let second = json!({"metadata": {"name": "cr-instance-2"}, "host": "localhost", "port": "8080"});
    // The new storage version holds a moment after it is written.
    for attempt in 0.. {
        admin.post(&place("v2"), second.clone()).await.ok();
        let stored = cluster.store.get("/registry/stable.example.com/endpoints/default/cr-instance-2").await;
        let stored: Value = serde_json::from_slice(&stored.unwrap().unwrap().value).unwrap();
        if stored["apiVersion"] == "stable.example.com/v2" {
            break;
        }
        assert!(attempt < 3000, "objects are never stored in v2: {stored}");
        admin.delete(&format!("{}/cr-instance-2", place("v2"))).await.ok();
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let list = |version: &'static str| {
        let admin = admin.clone();
        async move { admin.get(&place(version)).await.ok()["items"].as_array().unwrap().clone() }
    };
    let (old, new) = (list("v1").await, list("v2").await);
    assert_eq!((old.len(), new.len()), (2, 2));
    old.iter().for_each(is_v1);
    new.iter().for_each(is_v2);
    let table = admin.accepting(TABLE).get(&place("v1")).await.ok();
    assert_eq!(table["rows"].as_array().unwrap().len(), 2, "{table}");
    storage_migration_writes_old_versions_again(&cluster, &admin).await;
    // Without its webhook the kind cannot be read, and says why; it can be removed all the same.
    drop(webhook);
    let refused = admin.get(&place("v1")).await.refused(500, "InternalError");
    let message = refused["message"].as_str().unwrap();
    assert!(
        message.contains("conversion webhook for stable.example.com/v2, Kind=Endpoint failed: "),
        "{message}"
    );
    admin.delete(&format!("{DEFINITIONS}/endpoints.stable.example.com")).await.ok();
    for _ in 0..3000 {
        if admin.get(&format!("{DEFINITIONS}/endpoints.stable.example.com")).await.code == 404 {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("a definition whose webhook is gone is never removed");
}

async fn storage_migration_writes_old_versions_again(cluster: &Cluster, admin: &Client) {
    let stored = async |name: &str| -> Value {
        let key = format!("/registry/stable.example.com/endpoints/default/{name}");
        serde_json::from_slice(&cluster.store.get(&key).await.unwrap().unwrap().value).unwrap()
    };
    assert_eq!(stored("cr-instance-1").await["apiVersion"], "stable.example.com/v1");
    let before = admin.get(&format!("{}/cr-instance-1", place("v1"))).await.ok();
    let newer = admin.get(&format!("{}/cr-instance-2", place("v1"))).await.ok();
    let done = migrate(admin, "endpoints", "stable.example.com", "endpoints").await;
    assert_eq!(done["type"], "Succeeded", "{done}");
    assert_eq!(done["message"], "1 objects were written again");
    let after = stored("cr-instance-1").await;
    assert_eq!(
        (&after["apiVersion"], &after["host"]),
        (&json!("stable.example.com/v2"), &json!("localhost"))
    );
    let mut now = admin.get(&format!("{}/cr-instance-1", place("v1"))).await.ok();
    assert_ne!(now["metadata"]["resourceVersion"], before["metadata"]["resourceVersion"]);
    now["metadata"]["resourceVersion"] = before["metadata"]["resourceVersion"].clone();
    assert_eq!(now, before, "nothing of it is another thing");
    assert_eq!(
        admin.get(&format!("{}/cr-instance-2", place("v1"))).await.ok(),
        newer,
        "it was of that version"
    );
    let failed = migrate(admin, "unknown", "", "endpointses").await;
    assert_eq!(failed["type"], "Failed", "{failed}");
}

/// The condition with which it ends.
async fn migrate(admin: &Client, name: &str, group: &str, resource: &str) -> Value {
    let migrations = "/apis/storagemigration.k8s.io/v1/storageversionmigrations";
    let spec = json!({"resource": {"group": group, "resource": resource}});
    admin.post(migrations, json!({"metadata": {"name": name}, "spec": spec})).await.ok();
    for _ in 0..3000 {
        let found = admin.get(&format!("{migrations}/{name}")).await.ok();
        let conditions = found["status"]["conditions"].as_array().cloned().unwrap_or_default();
        if let Some(last) = conditions.iter().find(|condition| condition["type"] != "Running") {
            assert!(found["status"]["resourceVersion"].is_string(), "{found}");
            return last.clone();
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("the migration of {resource} never ends");
}

#[tokio::test]
async fn watches_tell_of_changes_in_their_version() {
    let (_cluster, admin, _webhook) = start().await;
    let version =
        admin.get(&place("v2")).await.ok()["metadata"]["resourceVersion"].as_str().unwrap().to_owned();
    let mut watch = admin.watch(&format!("{}?watch=true&resourceVersion={version}", place("v2"))).await;
    admin.post(&place("v1"), json!({"metadata": {"name": "w"}, "hostPort": "localhost:8080"})).await.ok();
    is_v2(&watch.expect("ADDED").await);
    admin.delete(&format!("{}/w", place("v1"))).await.ok();
    is_v2(&watch.expect("DELETED").await);
}

/// About writes in v1, whatever version they came in.
fn about_v1() -> Value {
    json!({"operations": ["CREATE", "UPDATE"], "apiGroups": ["stable.example.com"], "apiVersions": ["v1"],
        "resources": ["endpoints"]})
}

fn v2(name: &str, host: &str) -> Value {
    json!({"metadata": {"name": name}, "host": host, "port": "8080"})
}

/// Whoever writes in another version does not get around a policy.
#[tokio::test]
async fn policies_see_the_version_they_name() {
    let (_cluster, admin, _webhook) = start().await;
    let is_local = "object.hostPort.startsWith('localhost:') && (oldObject == null || has(oldObject.hostPort)) \
        && request.kind.version == 'v1'";
    let local = json!({"validations": [{"expression": is_local, "message": "only here"}]});
    admin.post(POLICIES, policy("local.example.com", &about_v1(), local)).await.ok();
    admin.post(BINDINGS, binding("local", "local.example.com", json!({}))).await.ok();
    in_force(&admin, &place("v2"), v2("a", "elsewhere"), |answer| {
        answer.code == 422 && answer.text_whole().contains("only here")
    })
    .await;
    admin.post(&place("v2"), v2("a", "localhost")).await.ok();
    let one = format!("{}/a", place("v2"));
    admin.patch(MERGE, &one, json!({"port": "9090"})).await.ok();
    admin.patch(MERGE, &one, json!({"host": "elsewhere"})).await.refused(422, "Invalid");
    // One that changes objects changes them as they are stored, too.
    let moved = "[JSONPatch{op: 'replace', path: '/hostPort', value: 'localhost:7070'}]";
    let mutations = json!([{"patchType": "JSONPatch", "jsonPatch": {"expression": moved}}]);
    bind(&admin, "moved.example.com", &about_v1(), mutations, json!({})).await;
    in_force(&admin, &place("v2"), v2("b", "elsewhere"), |answer| answer.code == 201).await;
    let made = admin.post(&place("v2"), v2("b", "elsewhere")).await.ok();
    assert_eq!((&made["host"], &made["port"]), (&json!("localhost"), &json!("7070")), "{made}");
    assert_eq!(admin.get(&format!("{}/b", place("v1"))).await.ok()["hostPort"], "localhost:7070");
}

#[tokio::test]
async fn webhooks_see_the_version_they_name() {
    let (_cluster, admin, conversion) = start().await;
    let webhook =
        Webhook::start(|_| patch(json!([{"op": "replace", "path": "/hostPort", "value": "hooked:1"}]))).await;
    let rules = json!([about_v1()]);
    admin.post(MUTATING, webhook.configured("hooked", json!({"rules": rules}))).await.ok();
    in_force(&admin, &place("v2"), v2("a", "localhost"), |answer| answer.text_whole().contains("hooked"))
        .await;
    let made = admin.post(&place("v2"), v2("a", "localhost")).await.ok();
    assert_eq!((&made["host"], &made["port"]), (&json!("hooked"), &json!("1")), "{made}");
    let asked = webhook.asked().pop().unwrap();
    is_v1(&asked["object"]);
    let versions =
        ["kind", "resource", "requestKind", "requestResource"].map(|field| &asked[field]["version"]);
    assert_eq!(versions, ["v1", "v1", "v2", "v2"], "{asked}");
    // What cannot be converted cannot be judged: it is refused.
    drop(conversion);
    let refused = admin.post(&place("v2"), v2("b", "localhost")).await.refused(500, "InternalError");
    assert!(refused["message"].as_str().unwrap().contains("conversion webhook"), "{refused}");
}
