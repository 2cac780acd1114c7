//! Patches of all four kinds that try to break what they patch.

use http::Method;
use serde_json::{Value, json};

use super::{assert_sane, assert_works, junk};
use crate::cluster::*;

async fn custom_kind(admin: &Client) -> String {
    let any = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    let definition = json!({
        "metadata": {"name": "things.example.com"},
        "spec": {
            "group": "example.com", "scope": "Namespaced", "names": {"plural": "things", "kind": "Thing"},
            "versions": [{
                "name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": any},
                "subresources": {"scale": {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"}},
            }],
        },
    });
    admin.post("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", definition).await.ok();
    let all = "/apis/example.com/v1/namespaces/default/things";
    while admin.get(all).await.code != 200 {
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
    admin.post(all, fresh("t")).await.ok();
    format!("{all}/t")
}

/// The objects to be patched, by name.
fn fresh(name: &str) -> Value {
    match name {
        "t" => json!({"metadata": {"name": "t"}, "spec": {"a": [1, 2, {"b": "c"}]}}),
        "m" => json!({"metadata": {"name": "m", "labels": {"a": "b"}}, "data": {"a": "1"}}),
        _ => pod(name),
    }
}

fn json_patches() -> Vec<Value> {
    let op = |op: &str, path: &str, more: Value| {
        let mut operation = json!({"op": op, "path": path});
        operation.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        json!([operation])
    };
    let value = || json!({"value": 1});
    let mut patches: Vec<Value> = junk::texts().iter().map(|path| op("add", path, value())).collect();
    patches.extend(
        junk::texts().iter().map(|path| op("remove", &format!("/metadata/labels/{path}"), json!({}))),
    );
    patches.extend([
        json!({}),
        json!(5),
        json!(null),
        json!("x"),
        json!([5]),
        json!([null]),
        json!([[]]),
        json!([{}]),
        json!([{"op": "add"}]),
        json!([{"op": 5, "path": 5}]),
        json!([{"op": "add", "path": "/a"}]),
        op("explode", "/data", value()),
        op("add", "/spec/containers/4294967296", value()),
        op("add", "/spec/containers/99999999999999999999", value()),
        op("add", "/spec/a/-", value()),
        op("add", "/spec/a/1e3", value()),
        op("add", "/spec/a/01", value()),
        op("add", "/spec/a/-1", value()),
        op("remove", "", json!({})),
        op("replace", "", value()),
        op("replace", "", json!({"value": {}})),
        op("replace", "", json!({"value": null})),
        op("add", "", json!({"value": []})),
        op("copy", "/spec/b", json!({"from": "/none"})),
        op("copy", "/spec/b", json!({"from": 5})),
        op("copy", "/spec/b", json!({})),
        op("move", "/metadata/labels/a/b", json!({"from": "/metadata"})),
        op("move", "/spec/x", json!({"from": ""})),
        op("test", "/metadata/name", json!({"value": "other"})),
        op("add", &"/a".repeat(20_000), value()),
        op("add", "/~2", value()),
        op("replace", "/metadata", value()),
        op("replace", "/metadata", json!({"value": {}})),
        op("remove", "/metadata", json!({})),
        op("replace", "/metadata/name", value()),
        op("replace", "/metadata/uid", value()),
        op("remove", "/metadata/uid", json!({})),
        op("replace", "/kind", json!({"value": "Other"})),
        op("remove", "/kind", json!({})),
        op("replace", "/apiVersion", value()),
        op("replace", "/metadata/managedFields", value()),
        op("add", "/metadata/managedFields/0/fieldsV1", json!({"value": {"x": {"y": 1}}})),
        op("add", "/metadata/managedFields/0/time", json!({"value": "x"})),
        op("replace", "/metadata/resourceVersion", value()),
        op("add", "/metadata/finalizers", json!({"value": ["", null, 5]})),
        op("add", "/metadata/ownerReferences", json!({"value": [{}]})),
        op("replace", "/spec", json!({"value": junk::deep(100)})),
        Value::Array(vec![json!({"op": "add", "path": "/data/x", "value": "y"}); 10_001]),
    ]);
    // Copies of copies: doubling in size or in depth with each.
    let doubling = (0..40).map(|i| json!({"op": "copy", "from": "/spec", "path": format!("/spec/c{i}")}));
    patches.push(doubling.collect());
    let nesting = (0..2000).map(|_| json!({"op": "copy", "from": "/spec", "path": "/spec/n"}));
    patches.push(nesting.collect());
    let deeper = (0..500).map(|_| json!({"op": "move", "from": "/spec/n", "path": "/spec/m/n"}));
    patches.push(deeper.collect());
    patches
}

fn merge_patches() -> Vec<Value> {
    let places = ["data", "spec", "status", "metadata", "kind", "apiVersion"];
    let mut patches: Vec<Value> = vec![
        json!(5),
        json!(null),
        json!("x"),
        json!([]),
        json!([{}]),
        json!({"": null}),
        junk::deep(100),
        junk::deep(120),
    ];
    for value in [
        json!(null),
        json!(5),
        json!("x"),
        json!([]),
        json!([1]),
        json!({"a": {"b": null}}),
        junk::deep(60),
        junk::deep(90),
    ] {
        patches.extend(places.iter().map(|place| json!({*place: value})));
        for field in [
            "name",
            "namespace",
            "uid",
            "labels",
            "annotations",
            "finalizers",
            "ownerReferences",
            "managedFields",
            "resourceVersion",
            "generation",
            "creationTimestamp",
            "deletionTimestamp",
            "deletionGracePeriodSeconds",
            "generateName",
            "selfLink",
        ] {
            patches.push(json!({"metadata": {field: value}}));
        }
    }
    let entry = |fields: Value| {
        json!({"metadata": {"managedFields": [{
            "manager": "a", "operation": "Apply", "apiVersion": "v1", "fieldsType": "FieldsV1", "time": "2026-01-01T00:00:00Z", "fieldsV1": fields,
        }]}})
    };
    patches.extend([
        entry(json!({"x": {}})), entry(json!({"f:": {}})), entry(json!({"k:{": {}})), entry(json!({"i:-1": {}})), entry(json!({"v:": {}})),
        entry(json!({"f:data": 5})), entry(junk::deep(50)), json!({"metadata": {"managedFields": [{"operation": "Explode"}]}}),
        json!({"metadata": {"managedFields": [{"manager": "x".repeat(10_000), "operation": "Update", "apiVersion": "v1"}]}}),
        json!({"metadata": {"labels": {"x".repeat(10_000): "y"}}}), json!({"metadata": {"labels": {"a": "x".repeat(64)}}}),
        json!({"metadata": {"annotations": {"a": "x".repeat(300_000)}}}), json!({"data": {"a": "x".repeat(2_000_000)}}),
        json!({"metadata": {"finalizers": vec!["example.com/a"; 5000]}}),
    ]);
    patches
}

fn strategic_patches() -> Vec<Value> {
    let mut patches = vec![
        json!({"$patch": "replace"}),
        json!({"$patch": "delete"}),
        json!({"$patch": 5}),
        json!({"$patch": "explode"}),
        json!({"$retainKeys": 5}),
        json!({"$unknown": 1}),
        json!({"$setElementOrder/containers": ["x"]}),
        json!({"metadata": {"$patch": "delete"}}),
        json!({"metadata": {"$deleteFromPrimitiveList/finalizers": 5}}),
        json!({"metadata": {"$deleteFromPrimitiveList/finalizers": [{}]}}),
        json!({"metadata": {"$setElementOrder/finalizers": {"a": 1}}}),
        json!({"data": {"$patch": "replace", "a": "b"}}),
    ];
    let containers = [
        json!("x"),
        json!(5),
        json!({}),
        json!([5]),
        json!([null]),
        json!([[]]),
        json!([{}]),
        json!([{"image": "x"}]),
        json!([{"name": 5}]),
        json!([{"name": null}]),
        json!([{"$patch": "delete"}]),
        json!([{"$patch": "replace"}]),
        json!([{"name": "c", "$patch": "delete"}]),
        json!([{"$patch": 5, "name": "c"}]),
        json!([{"name": "c"}, {"name": "c"}]),
        json!([{"name": "c", "ports": [{"$patch": "delete"}]}]),
        json!([{"name": "c", "env": [{"name": {"a": "b"}}]}]),
    ];
    patches.extend(containers.into_iter().map(|list| json!({"spec": {"containers": list}})));
    for order in [
        json!(5),
        json!([5]),
        json!([{"x": 1}]),
        json!([{"name": 5}]),
        json!([{"name": "none"}]),
        json!(["c", "c"]),
    ] {
        patches.push(json!({"spec": {"$setElementOrder/containers": order, "containers": [{"name": "c"}]}}));
    }
    for keys in [json!(5), json!("x"), json!([5]), json!([]), json!(["none"])] {
        patches.push(json!({"spec": {"$retainKeys": keys, "dnsPolicy": "Default"}}));
    }
    patches
}

#[tokio::test]
async fn hostile_patches() {
    let cluster = Cluster::start().await;
    let admin = cluster.admin();
    let thing = custom_kind(&admin).await;
    admin.post(CONFIG_MAPS, fresh("m")).await.ok();
    admin.post(PODS, fresh("p")).await.ok();
    let targets = [
        format!("{CONFIG_MAPS}/m"),
        format!("{PODS}/p"),
        format!("{PODS}/p/status"),
        thing.clone(),
        format!("{thing}/scale"),
    ];
    let kinds = [
        (JSON_PATCH, json_patches()),
        (MERGE, merge_patches()),
        (STRATEGIC, strategic_patches()),
        (APPLY, merge_patches()),
    ];
    for (kind, patches) in kinds {
        for patch in patches {
            let sent = format!("{kind} {patch}");
            for target in &targets {
                let whole = target.trim_end_matches("/status").trim_end_matches("/scale");
                let before = admin.get(whole).await;
                assert_eq!(before.code, 200, "{whole} after {sent}: {}", before.text());
                let mut body = patch.clone();
                if kind == APPLY && body.is_object() {
                    body["apiVersion"] = before.body["apiVersion"].clone();
                    body["kind"] = before.body["kind"].clone();
                }
                let answer = admin
                    .send(
                        Method::PATCH,
                        &format!("{target}?fieldManager=f&force=true"),
                        kind,
                        body.to_string(),
                    )
                    .await;
                assert_sane(&answer, &sent);
                if answer.code >= 400 {
                    assert_eq!(admin.get(whole).await.ok(), before.body, "changed by a refused {sent}");
                } else if answer.bytes.len() > 20_000 {
                    // Large objects make slow tests.
                    admin.patch(MERGE, whole, json!({"metadata": {"finalizers": null}})).await.ok();
                    admin.delete_with(whole, json!({"gracePeriodSeconds": 0})).await.ok();
                    let (all, name) = whole.rsplit_once('/').unwrap();
                    admin.post(all, fresh(name)).await.ok();
                }
            }
        }
    }
    assert_works(&admin).await;
}

/// Patch upon patch cannot make an object that is too deep to be read or too large for the store.
#[tokio::test]
async fn objects_cannot_be_grown_without_bound() {
    let cluster = Cluster::start().await;
    let admin = cluster.admin();
    let thing = custom_kind(&admin).await;
    let mut refused = 0;
    for _ in 0..30 {
        let deeper = json!([{"op": "copy", "from": "/spec", "path": "/spec/n"}, {"op": "copy", "from": "/spec", "path": "/spec/n"}, {"op": "copy", "from": "/spec", "path": "/spec/n"}]);
        let answer = admin.patch(JSON_PATCH, &thing, deeper).await;
        assert_sane(&answer, "deeper");
        refused += u32::from(answer.code >= 400);
        admin.get(&thing).await.ok();
    }
    assert!(refused > 0, "it is too deep at some time");
    admin.patch(MERGE, &thing, json!({"spec": null})).await.ok();
    let mut refused = 0;
    for i in 0..6 {
        let larger = json!({"spec": {format!("k{i}"): "x".repeat(1_000_000)}});
        let answer = admin.patch(MERGE, &thing, larger).await;
        assert_sane(&answer, "larger");
        refused += u32::from(answer.code == 413);
        admin.get(&thing).await.ok();
    }
    assert!(refused > 0, "it is too large at some time");
    admin.delete(&thing).await.ok();
    assert_works(&admin).await;
}
