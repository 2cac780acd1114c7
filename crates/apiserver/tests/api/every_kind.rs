//! The whole life of an object of every kind.

use minik8s_api::Resource;
use serde_json::{Value, json};

use crate::cluster::*;
use crate::samples::{self, collection};

#[tokio::test]
async fn every_kind_lives() {
    let cluster = Cluster::start().await;
    let admin = cluster.admin();
    let mut problems = Vec::new();
    for (resource, object) in samples::stored() {
        let what = format!("{} {}", resource.version, resource.qualified());
        if let Err(problem) = live(&admin, &resource, object).await {
            problems.push(format!("{what}: {problem}"));
        }
    }
    assert!(problems.is_empty(), "{}", problems.join("\n"));
}

/// From create to delete; the first thing that goes wrong.
async fn live(admin: &Client, resource: &Resource, object: Value) -> Result<(), String> {
    let all = collection(resource);
    let name = object["metadata"]["name"].as_str().unwrap().to_owned();
    let one = format!("{all}/{name}");
    let expect = |answer: Answer, code: u16| match answer.code == code {
        true => Ok(answer.body),
        false => Err(format!("{} -> {} {}", answer.what, answer.code, answer.text())),
    };
    let strict = format!("{all}?fieldValidation=Strict");
    expect(admin.post(&format!("{strict}&dryRun=All"), object.clone()).await, 201)?;
    let made = expect(admin.post(&strict, object.clone()).await, 201)?;
    expect(admin.post(&all, object.clone()).await, 409)?;
    let mut read = expect(admin.get(&one).await, 200)?;
    // The server at once says in the status of some what it makes of them.
    while !is_settled(&resource.kind, &read) {
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        read = expect(admin.get(&one).await, 200)?;
    }
    if read != made && !SETTLED.contains(&resource.kind.as_str()) {
        return Err(format!("read back otherwise: {}", differences(&made, &read)));
    }
    let list = expect(admin.get(&all).await, 200)?;
    if list["kind"] != format!("{}List", resource.kind) || !names(&list).contains(&name.as_str()) {
        return Err(format!("not listed: {list}"));
    }
    for accept in [TABLE, METADATA_LIST, "application/yaml"] {
        expect(admin.accepting(accept).get(&all).await, 200)?;
    }
    let mut watch = admin
        .watch(&format!("{all}?watch=1&fieldSelector=metadata.name%3D{}", name.replace(':', "%3A")))
        .await;
    watch.expect("ADDED").await;
    listed_in_discovery(admin, resource).await?;
    let same = expect(admin.put(&one, read.clone()).await, 200)?;
    if version(&same) != version(&read) {
        return Err(format!("writing what was read changes it: {}", differences(&read, &same)));
    }
    let label = |value: &str| json!({"metadata": {"labels": {"l": value}}});
    let labelled = expect(admin.patch(MERGE, &one, label("1")).await, 200)?;
    while watch.expect("MODIFIED").await["metadata"]["labels"]["l"] != "1" {}
    expect(admin.patch(STRATEGIC, &one, label("2")).await, 200)?;
    expect(
        admin
            .patch(JSON_PATCH, &one, json!([{"op": "replace", "path": "/metadata/labels/l", "value": "3"}]))
            .await,
        200,
    )?;
    let mut applied = label("4");
    applied["apiVersion"] = resource.api_version().into();
    applied["kind"] = resource.kind.as_str().into();
    let relabelled =
        expect(admin.patch(APPLY, &format!("{one}?fieldManager=f&force=true"), applied).await, 200)?;
    if labelled["metadata"]["generation"] != relabelled["metadata"]["generation"] {
        return Err("a label counts as a generation".to_owned());
    }
    let without = |mut object: Value| {
        object["metadata"] = Value::Null;
        if SETTLED.contains(&resource.kind.as_str()) {
            object["status"] = Value::Null;
        }
        object
    };
    if without(relabelled.clone()) != without(read.clone()) {
        return Err(format!("a label changes more than itself: {}", differences(&read, &relabelled)));
    }
    let mut replaced = relabelled;
    replaced["metadata"]["labels"]["l"] = "put".into();
    expect(admin.put(&one, replaced).await, 200)?;
    let selected = expect(admin.get(&format!("{all}?labelSelector=l%3Dput")).await, 200)?;
    if names(&selected) != [name.as_str()] {
        return Err(format!("not found by its label: {selected}"));
    }
    if resource.has_status() {
        expect(admin.get(&format!("{one}/status")).await, 200)?;
        let patched = expect(admin.patch(MERGE, &format!("{one}/status"), json!({})).await, 200)?;
        expect(admin.put(&format!("{one}/status"), patched).await, 200)?;
    }
    expect(admin.delete_with(&one, json!({"gracePeriodSeconds": 0})).await, 200)?;
    if resource.kind == "Namespace" {
        expect(admin.put(&format!("{one}/finalize"), json!({"metadata": {"name": name}})).await, 200)?;
    }
    let held = ["PersistentVolume", "PersistentVolumeClaim", "CustomResourceDefinition", "ServiceCIDR"];
    let is_held = held.contains(&resource.kind.as_str());
    if is_held {
        admin.patch(MERGE, &one, json!({"metadata": {"finalizers": null}})).await;
    }
    expect(admin.get(&one).await, 404)?;
    while watch.next().await.0 != "DELETED" {}
    let has_controller = ["CustomResourceDefinition", "ServiceCIDR"].contains(&resource.kind.as_str());
    if has_controller || !resource.verbs.contains(&"deletecollection") {
        return Ok(());
    }
    let mut again = object;
    again["metadata"]["labels"] = json!({"l": "5"});
    expect(admin.post(&all, again).await, 201)?;
    for (selector, code) in [("l%3D6", 200), ("l%3D5", 404)] {
        let options = json!({"gracePeriodSeconds": 0});
        expect(admin.delete_with(&format!("{all}?labelSelector={selector}"), options).await, 200)?;
        if is_held && code == 404 {
            admin.patch(MERGE, &one, json!({"metadata": {"finalizers": null}})).await;
        }
        expect(admin.get(&one).await, code)?;
    }
    Ok(())
}

/// Kinds in whose status the server writes of its own accord.
const SETTLED: [&str; 5] = [
    "APIService",
    "CustomResourceDefinition",
    "FlowSchema",
    "StorageVersionMigration",
    "ValidatingAdmissionPolicy",
];

fn is_settled(kind: &str, object: &Value) -> bool {
    let status = &object["status"];
    let has = |ty: &str| status["conditions"].as_array().into_iter().flatten().any(|one| one["type"] == ty);
    match kind {
        "CustomResourceDefinition" => has("Established"),
        "APIService" => has("Available"),
        "FlowSchema" => has("Dangling"),
        "StorageVersionMigration" => has("Succeeded") || has("Failed"),
        "ValidatingAdmissionPolicy" => status["observedGeneration"] == object["metadata"]["generation"],
        _ => true,
    }
}

/// The resource and its subresources stand in the group's list.
async fn listed_in_discovery(admin: &Client, resource: &Resource) -> Result<(), String> {
    let prefix = if resource.group.is_empty() { "/api" } else { "/apis" };
    let list = admin.get(&format!("{prefix}/{}", resource.api_version())).await.ok();
    let entries = list["resources"].as_array().cloned().unwrap_or_default();
    let verbs = |name: &str| entries.iter().find(|entry| entry["name"] == name).map(|entry| &entry["verbs"]);
    let wanted = json!(resource.verbs);
    if verbs(&resource.plural) != Some(&wanted) {
        return Err(format!("{} is not in discovery with {wanted}", resource.plural));
    }
    match resource.has_status() && verbs(&format!("{}/status", resource.plural)).is_none() {
        true => Err(format!("{}/status is not in discovery", resource.plural)),
        false => Ok(()),
    }
}

#[tokio::test]
async fn every_question_is_answered() {
    let cluster = Cluster::start().await;
    let admin = cluster.admin();
    for (resource, object) in samples::reviews() {
        let answer = admin.post(&collection(&resource), object).await;
        assert_eq!(answer.code, 201, "{}", answer.text());
        assert!(answer.body["status"].is_object(), "{}", answer.text());
    }
}

/// The paths at which two objects differ, with what stands there.
fn differences(a: &Value, b: &Value) -> String {
    fn walk(a: Option<&Value>, b: Option<&Value>, path: &str, found: &mut Vec<String>) {
        match (a, b) {
            (Some(Value::Object(a)), Some(Value::Object(b))) => {
                for key in a.keys().chain(b.keys().filter(|key| !a.contains_key(*key))) {
                    walk(a.get(key), b.get(key), &format!("{path}.{key}"), found);
                }
            }
            (Some(Value::Array(a)), Some(Value::Array(b))) if a.len() == b.len() => {
                let pairs = a.iter().zip(b).enumerate();
                pairs.for_each(|(i, (a, b))| walk(Some(a), Some(b), &format!("{path}[{i}]"), found));
            }
            _ if a == b => {}
            _ => found.push(format!("{path}: {a:?} -> {b:?}")),
        }
    }
    let mut found = Vec::new();
    walk(Some(a), Some(b), "", &mut found);
    found.join("; ")
}
