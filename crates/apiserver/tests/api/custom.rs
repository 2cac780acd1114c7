//! Custom kinds: served at once, checked by their schema, gone with their definition.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::sync::Notify;

use crate::cluster::*;

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const WIDGETS: &str = "/apis/example.com/v1/namespaces/default/widgets";

fn definition() -> Value {
    let schema = json!({
        "type": "object",
        "properties": {
            "spec": {
                "type": "object", "required": ["size"],
                "properties": {
                    "size": {"type": "integer", "minimum": 1},
                    "color": {"type": "string", "default": "red", "enum": ["red", "blue"]},
                    "replicas": {"type": "integer"},
                    "any": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
                },
            },
            "status": {"type": "object", "properties": {"replicas": {"type": "integer"}, "selector": {"type": "string"}}},
        },
    });
    let version = |name: &str, storage: bool| {
        json!({
            "name": name, "served": true, "storage": storage, "schema": {"openAPIV3Schema": schema},
            "subresources": {"status": {}, "scale": {
                "specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas", "labelSelectorPath": ".status.selector",
            }},
            "additionalPrinterColumns": [{"name": "Size", "type": "integer", "jsonPath": ".spec.size"}],
        })
    };
    let mut unserved = version("v1alpha1", false);
    unserved["served"] = json!(false);
    json!({
        "metadata": {"name": "widgets.example.com"},
        "spec": {
            "group": "example.com", "scope": "Namespaced",
            "names": {"plural": "widgets", "singular": "widget", "kind": "Widget", "shortNames": ["wd"]},
            "versions": [version("v1", true), version("v1beta1", false), unserved],
        },
    })
}

async fn until(client: &Client, path: &str, code: u16) {
    for _ in 0..3000 {
        if client.get(path).await.code == code {
            return;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!("{path} never answered {code}: {}", client.get(path).await.text());
}

async fn with_widgets() -> (Cluster, Client) {
    let cluster = Cluster::start().await;
    let admin = cluster.admin();
    admin.post(DEFINITIONS, definition()).await.ok();
    until(&admin, WIDGETS, 200).await;
    (cluster, admin)
}

#[tokio::test]
async fn a_custom_kind_lives_like_any_other() {
    let (_cluster, admin) = with_widgets().await;
    let made = admin
        .post(
            WIDGETS,
            json!({"metadata": {"name": "w"}, "spec": {"size": 3, "junk": 1, "any": {"deep": [1]}}}),
        )
        .await;
    assert!(made.warnings()[0].contains("spec.junk"), "{:?}", made.warnings());
    let made = made.ok();
    assert_eq!(
        made["spec"],
        json!({"size": 3, "any": {"deep": [1]}, "color": "red"}),
        "pruned and defaulted"
    );
    assert_eq!(
        (&made["kind"], &made["apiVersion"], &made["metadata"]["generation"]),
        (&json!("Widget"), &json!("example.com/v1"), &json!(1))
    );
    let other = admin.get("/apis/example.com/v1beta1/namespaces/default/widgets/w").await.ok();
    assert_eq!((&other["apiVersion"], &other["spec"]["size"]), (&json!("example.com/v1beta1"), &json!(3)));
    admin.get("/apis/example.com/v1alpha1/namespaces/default/widgets/w").await.refused(404, "NotFound");
    for (spec, path) in [
        (json!({"size": 0}), "spec.size"),
        (json!({}), "spec.size"),
        (json!({"size": "x"}), "spec.size"),
        (json!({"size": 1, "color": "green"}), "spec.color"),
    ] {
        let refused = admin
            .post(WIDGETS, json!({"metadata": {"name": "x"}, "spec": spec}))
            .await
            .refused(422, "Invalid");
        assert_eq!(refused["details"]["causes"][0]["field"], path, "{refused}");
    }
    let table = admin.accepting(TABLE).get(WIDGETS).await.ok();
    assert_eq!(table["columnDefinitions"][1]["name"], "Size");
    assert_eq!(table["rows"][0]["cells"][1], 3);
    let path = format!("{WIDGETS}/w");
    let raised =
        admin.patch(MERGE, &path, json!({"spec": {"size": 4}, "status": {"replicas": 1}})).await.ok();
    assert_eq!((&raised["metadata"]["generation"], raised.get("status")), (&json!(2), None));
    let status = admin
        .patch(
            MERGE,
            &format!("{path}/status"),
            json!({"spec": {"size": 9}, "status": {"replicas": 1, "selector": "a=b"}}),
        )
        .await
        .ok();
    assert_eq!(
        (&status["spec"]["size"], &status["status"]["replicas"], &status["metadata"]["generation"]),
        (&json!(4), &json!(1), &json!(2))
    );
    admin.patch(STRATEGIC, &path, json!({})).await.refused(415, "UnsupportedMediaType");
    let applied =
        json!({"apiVersion": "example.com/v1", "kind": "Widget", "spec": {"size": 4, "color": "blue"}});
    admin.patch(APPLY, &format!("{path}?fieldManager=f&force=true"), applied).await.ok();
    // No replicas yet: it cannot be scaled, but scaling sets them.
    let refused = admin.get(&format!("{path}/scale")).await;
    assert!((400..500).contains(&refused.code), "{}", refused.text());
    refused.assert_status();
    let scaled = admin.patch(MERGE, &format!("{path}/scale"), json!({"spec": {"replicas": 2}})).await.ok();
    assert_eq!((&scaled["spec"]["replicas"], &scaled["status"]["selector"]), (&json!(2), &json!("a=b")));
    assert_eq!(admin.get(&path).await.ok()["spec"]["replicas"], 2);
    let mut watch = admin.watch(&format!("{WIDGETS}?watch=1")).await;
    watch.expect("ADDED").await;
    let whole = admin.get(&path).await.ok();
    let mut without = whole.clone();
    without["metadata"].as_object_mut().unwrap().remove("resourceVersion");
    admin.put(&path, without).await.refused(422, "Invalid");
    admin.put(&path, whole).await.ok();
    admin.delete(&path).await.ok();
    watch.expect("DELETED").await;
}

#[tokio::test]
async fn discovery_knows_it_at_once() {
    let (_cluster, admin) = with_widgets().await;
    let resources = admin.get("/apis/example.com/v1").await.ok();
    let found: Vec<&Value> = resources["resources"].as_array().unwrap().iter().map(|r| &r["name"]).collect();
    assert_eq!(found, ["widgets", "widgets/status", "widgets/scale"]);
    assert!(admin.get("/apis").await.ok()["groups"].to_string().contains("example.com/v1beta1"));
    assert!(admin.get("/openapi/v3").await.text().contains("apis/example.com/v1"));
    let document = admin.get("/openapi/v3/apis/example.com/v1").await.ok();
    assert!(document["components"]["schemas"].to_string().contains("Widget"));
    // Served first, and then told so in the status.
    let path = format!("{DEFINITIONS}/widgets.example.com");
    let is_established = |made: &Value| {
        let mut conditions = made["status"]["conditions"].as_array().into_iter().flatten();
        conditions.any(|c| c["type"] == "Established" && c["status"] == "True")
    };
    let mut made = admin.get(&path).await.ok();
    for _ in 0..3000 {
        if is_established(&made) {
            break;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
        made = admin.get(&path).await.ok();
    }
    assert!(is_established(&made), "{made}");
    assert_eq!(made["status"]["storedVersions"], json!(["v1"]));
}

#[tokio::test]
async fn the_definition_takes_its_objects_along() {
    let (_cluster, admin) = with_widgets().await;
    for i in 0..5 {
        admin.post(WIDGETS, json!({"metadata": {"name": format!("w{i}")}, "spec": {"size": 1}})).await.ok();
    }
    let held = json!({"metadata": {"name": "held", "finalizers": ["example.com/a"]}, "spec": {"size": 1}});
    admin.post(WIDGETS, held).await.ok();
    let path = format!("{DEFINITIONS}/widgets.example.com");
    admin.delete(&path).await.ok();
    until(&admin, &format!("{WIDGETS}/w4"), 404).await;
    admin.get(&path).await.ok();
    let late = admin.post(WIDGETS, json!({"metadata": {"name": "late"}, "spec": {"size": 1}})).await;
    assert!((400..500).contains(&late.code), "{}", late.text());
    admin.patch(MERGE, &format!("{WIDGETS}/held"), json!({"metadata": {"finalizers": null}})).await.ok();
    until(&admin, &path, 404).await;
    until(&admin, WIDGETS, 404).await;
    // Made again, it starts empty.
    admin.post(DEFINITIONS, definition()).await.ok();
    until(&admin, WIDGETS, 200).await;
    assert_eq!(names(&admin.get(WIDGETS).await.ok()).len(), 0);
}

#[tokio::test]
async fn definitions_that_cannot_be() {
    let cluster = Cluster::start().await;
    let admin = cluster.admin();
    let change = |edit: &dyn Fn(&mut Value)| {
        let mut definition = definition();
        edit(&mut definition);
        definition
    };
    for (what, wrong) in [
        ("name", change(&|d| d["metadata"]["name"] = json!("other.example.com"))),
        (
            "group",
            change(&|d| {
                d["spec"]["group"] = json!("core");
                d["metadata"]["name"] = json!("widgets.core");
            }),
        ),
        ("two stored", change(&|d| d["spec"]["versions"][1]["storage"] = json!(true))),
        ("none stored", change(&|d| d["spec"]["versions"][0]["storage"] = json!(false))),
        ("version", change(&|d| d["spec"]["versions"][0]["name"] = json!("V 1"))),
        ("same version twice", change(&|d| d["spec"]["versions"][1]["name"] = json!("v1"))),
        ("no schema", change(&|d| d["spec"]["versions"][0]["schema"] = json!({}))),
        (
            "no type",
            change(&|d| d["spec"]["versions"][0]["schema"]["openAPIV3Schema"] = json!({"properties": {}})),
        ),
        (
            "pattern",
            change(&|d| {
                d["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]["color"]
                    ["pattern"] = json!("(")
            }),
        ),
        ("scope", change(&|d| d["spec"]["scope"] = json!("Somewhere"))),
        ("plural", change(&|d| d["spec"]["names"]["plural"] = json!("Wid gets"))),
        ("kind", change(&|d| d["spec"]["names"]["kind"] = json!(""))),
        ("versions", change(&|d| d["spec"]["versions"] = json!([]))),
        (
            "selectable field of another type",
            change(&|d| d["spec"]["versions"][0]["selectableFields"] = json!([{"jsonPath": ".spec.any"}])),
        ),
        (
            "selectable field in the metadata",
            change(&|d| {
                d["spec"]["versions"][0]["selectableFields"] = json!([{"jsonPath": ".metadata.labels"}])
            }),
        ),
        (
            "selectable field that is not there",
            change(&|d| d["spec"]["versions"][0]["selectableFields"] = json!([{"jsonPath": ".spec.none"}])),
        ),
        (
            "path",
            change(&|d| d["spec"]["versions"][0]["additionalPrinterColumns"][0]["jsonPath"] = json!("{{")),
        ),
    ] {
        let answer = admin.post(DEFINITIONS, wrong).await;
        assert_eq!(answer.code, 422, "{what}: {}", answer.text());
        answer.assert_status();
    }
}

#[tokio::test]
async fn selectable_fields() {
    let cluster = Cluster::start().await;
    let admin = cluster.admin();
    let mut definition = definition();
    let fields = [".spec.color", ".spec.size"].map(|path| json!({"jsonPath": path}));
    definition["spec"]["versions"][0]["selectableFields"] = json!(fields);
    admin.post(DEFINITIONS, definition).await.ok();
    until(&admin, WIDGETS, 200).await;
    for (name, color, size) in [("a", "red", 1), ("b", "blue", 1), ("c", "blue", 2)] {
        let spec = json!({"color": color, "size": size});
        admin.post(WIDGETS, json!({"metadata": {"name": name}, "spec": spec})).await.ok();
    }
    for (selector, expected) in [
        ("spec.color%3Dblue", &["b", "c"][..]),
        ("spec.color%3Dblue,spec.size%3D1", &["b"]),
        ("spec.color!%3Dblue", &["a"]),
        ("metadata.name%3Dc,spec.size%3D2", &["c"]),
    ] {
        let list = admin.get(&format!("{WIDGETS}?fieldSelector={selector}")).await.ok();
        assert_eq!(names(&list), expected, "{selector}");
    }
    let mut watch = admin.watch(&format!("{WIDGETS}?watch=1&fieldSelector=spec.color%3Dred")).await;
    assert_eq!(watch.expect_name("ADDED").await, "a");
    admin.patch(MERGE, &format!("{WIDGETS}/b"), json!({"spec": {"color": "red"}})).await.ok();
    assert_eq!(watch.expect_name("ADDED").await, "b");
    admin.patch(MERGE, &format!("{WIDGETS}/a"), json!({"spec": {"color": "blue"}})).await.ok();
    assert_eq!(watch.expect_name("DELETED").await, "a");
    admin.delete_with(&format!("{WIDGETS}?fieldSelector=spec.color%3Dblue"), json!({})).await.ok();
    assert_eq!(names(&admin.get(WIDGETS).await.ok()), ["b"]);
    // Not declared in this version, and not declared at all.
    let beta = "/apis/example.com/v1beta1/namespaces/default/widgets?fieldSelector=spec.color%3Dblue";
    admin.get(beta).await.refused(400, "BadRequest");
    admin.get(&format!("{WIDGETS}?fieldSelector=spec.replicas%3D1")).await.refused(400, "BadRequest");
}

/// Objects that are created while their definition goes either go with it or are refused: a definition of
/// the same name finds none of them.
#[tokio::test]
async fn nothing_outlives_its_definition() {
    let (_cluster, admin) = with_widgets().await;
    let path = format!("{DEFINITIONS}/widgets.example.com");
    for round in 0..3 {
        let first = Arc::new(Notify::new());
        let creating = (0..8).map(|writer| {
            let (admin, first) = (admin.clone(), first.clone());
            tokio::spawn(async move {
                let mut made = 0;
                for n in 0..1000 {
                    let name = format!("w-{round}-{writer}-{n}");
                    let object = json!({"metadata": {"name": name}, "spec": {"size": 1}});
                    match admin.post(WIDGETS, object).await.code {
                        201 => {
                            made += 1;
                            first.notify_one();
                        }
                        404 | 405 => break,
                        code => panic!("{code}"),
                    }
                }
                made
            })
        });
        let creating: Vec<_> = creating.collect();
        first.notified().await;
        tokio::time::sleep(Duration::from_millis(50)).await;
        admin.delete(&path).await.ok();
        let mut made = 0;
        for writer in creating {
            made += writer.await.unwrap();
        }
        assert!(made > 0, "the definition went too early to show anything");
        until(&admin, &path, 404).await;
        admin.post(DEFINITIONS, definition()).await.ok();
        until(&admin, WIDGETS, 200).await;
        assert_eq!(names(&admin.get(WIDGETS).await.ok()), [""; 0]);
    }
}
