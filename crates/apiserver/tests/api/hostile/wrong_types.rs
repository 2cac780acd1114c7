//! Valid objects of every kind with something wrong at a random place.

use std::cell::Cell;

use minik8s_api::Resource;
use proptest::prelude::*;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};
use serde_json::Value;
use tokio::runtime::Runtime;

use super::{assert_sane, assert_works, junk, remove};
use crate::cluster::*;
use crate::samples::{self, collection};

#[derive(Debug, Clone)]
enum Change {
    Replace(Value),
    Remove,
    AddField(String, Value),
    /// The elements of a list, again.
    Repeat,
}

type Edit = (proptest::sample::Index, Change);

fn edits() -> impl Strategy<Value = Vec<Edit>> {
    let change = prop_oneof![
        6 => junk::values().prop_map(Change::Replace),
        1 => Just(Change::Remove),
        1 => (proptest::sample::select(junk::texts()), junk::values()).prop_map(|(name, value)| Change::AddField(name, value)),
        1 => Just(Change::Repeat),
    ];
    proptest::collection::vec((any::<proptest::sample::Index>(), change), 1..4)
}

/// Every place in the value, as a JSON pointer.
fn places(value: &Value, path: String, found: &mut Vec<String>) {
    match value {
        Value::Array(items) => {
            items.iter().enumerate().for_each(|(i, item)| places(item, format!("{path}/{i}"), found));
        }
        Value::Object(map) => {
            for (key, item) in map {
                let key = key.replace('~', "~0").replace('/', "~1");
                places(item, format!("{path}/{key}"), found);
            }
        }
        _ => {}
    }
    found.push(path);
}

fn edited(object: &Value, edits: &[Edit]) -> Value {
    let mut object = object.clone();
    for (index, change) in edits {
        let mut all = Vec::new();
        places(&object, String::new(), &mut all);
        let path = index.get(&all).clone();
        let Some(place) = object.pointer_mut(&path) else { continue };
        match change {
            Change::Replace(value) => *place = value.clone(),
            Change::AddField(name, value) => match place {
                Value::Object(map) => drop(map.insert(name.clone(), value.clone())),
                Value::Array(list) => list.push(value.clone()),
                _ => {}
            },
            Change::Repeat => {
                if let Value::Array(list) = place {
                    list.extend(list.clone());
                }
            }
            Change::Remove => {
                let (parent, key) = path.rsplit_once('/').unwrap_or(("", ""));
                match object.pointer_mut(parent) {
                    Some(Value::Object(map)) => drop(map.remove(&key.replace("~1", "/").replace("~0", "~"))),
                    Some(Value::Array(list)) if !list.is_empty() => drop(list.pop()),
                    _ => {}
                }
            }
        }
    }
    object
}

/// The same cases in every run: a failure must not depend on luck.
fn run(cases: u32, seed: u8, check: impl Fn(Vec<Edit>)) {
    let config = Config { cases, failure_persistence: None, max_shrink_iters: 0, ..Config::default() };
    let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &[seed; 32]);
    let mut runner = TestRunner::new_with_rng(config, rng);
    let checked = runner.run(&edits(), |edits| {
        check(edits);
        Ok(())
    });
    if let Err(failure) = checked {
        panic!("{failure}");
    }
}

fn start() -> (Runtime, Cluster, Client) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let cluster = runtime.block_on(Cluster::start());
    let admin = cluster.admin();
    (runtime, cluster, admin)
}

async fn create(admin: &Client, resource: &Resource, body: Value) {
    let (sent, all) = (body.to_string(), collection(resource));
    let before = names(&admin.get(&all).await.ok()).len();
    let answer = admin.post(&all, body).await;
    assert_sane(&answer, &sent);
    if answer.code != 201 {
        assert_eq!(names(&admin.get(&all).await.ok()).len(), before, "something is left of {sent}");
        return;
    }
    let name = answer.body["metadata"]["name"].as_str().expect("a name").to_owned();
    let read = admin.get(&format!("{all}/{name}")).await;
    assert_eq!(read.code, 200, "what was made can be read: {sent}");
    for accept in [TABLE, "application/yaml"] {
        assert_eq!(admin.accepting(accept).get(&all).await.code, 200, "and shown: {sent}");
    }
    remove(admin, resource, &name).await;
}

#[test]
fn created() {
    let (runtime, _cluster, admin) = start();
    for (i, (resource, object)) in samples::stored().into_iter().enumerate() {
        let cases = if matches!(resource.kind.as_str(), "Pod" | "Deployment" | "Service") { 150 } else { 30 };
        run(cases, u8::try_from(i).unwrap(), |edits| {
            runtime.block_on(create(&admin, &resource, edited(&object, &edits)));
        });
    }
    runtime.block_on(assert_works(&admin));
}

#[test]
fn asked() {
    let (runtime, _cluster, admin) = start();
    for (i, (resource, object)) in samples::reviews().into_iter().enumerate() {
        run(40, u8::try_from(i).unwrap(), |edits| {
            let body = edited(&object, &edits);
            let sent = body.to_string();
            assert_sane(&runtime.block_on(admin.post(&collection(&resource), body)), &sent);
        });
    }
    runtime.block_on(assert_works(&admin));
}

/// Whole and partial writes of an object that exists: each leaves it as it was or as it should be.
async fn overwrite(admin: &Client, resource: &Resource, name: &str, body: Value, turn: usize) {
    let sent = body.to_string();
    let mut one = format!("{}/{name}", collection(resource));
    if turn % 7 == 6 && resource.has_status() {
        one.push_str("/status");
    }
    let before = admin.get(&one).await.ok();
    let answer = match turn % 5 {
        0 => admin.put(&one, body).await,
        1 => admin.patch(MERGE, &one, body).await,
        2 => admin.patch(STRATEGIC, &one, body).await,
        3 => admin.patch(APPLY, &format!("{one}?fieldManager=f&force=true"), body).await,
        _ => {
            let patch = serde_json::json!([{"op": "replace", "path": "", "value": body}]);
            admin.patch(JSON_PATCH, &one, patch).await
        }
    };
    assert_sane(&answer, &sent);
    let after = admin.get(&one).await;
    if answer.code >= 400 {
        assert_eq!(after.ok(), before, "a refused write changes nothing: {sent}");
    } else if after.code != 404 {
        assert_eq!(after.code, 200, "what was written can be read: {sent}");
        assert_eq!(after.body, answer.body, "and is what was answered: {sent}");
    }
}

#[test]
fn changed() {
    let (runtime, _cluster, admin) = start();
    for (i, (resource, object)) in samples::stored().into_iter().enumerate() {
        // Its own controller writes to it in between.
        if resource.kind == "CustomResourceDefinition" {
            continue;
        }
        let name = object["metadata"]["name"].as_str().unwrap().to_owned();
        let turn = Cell::new(i);
        runtime.block_on(admin.post(&collection(&resource), object.clone())).ok();
        let cases = if matches!(resource.kind.as_str(), "Pod" | "Deployment" | "Service") { 120 } else { 25 };
        run(cases, u8::try_from(100 + i).unwrap(), |edits| {
            turn.set(turn.get() + 1);
            runtime.block_on(async {
                overwrite(&admin, &resource, &name, edited(&object, &edits), turn.get()).await;
                if admin.get(&format!("{}/{name}", collection(&resource))).await.code == 404 {
                    admin.post(&collection(&resource), object.clone()).await.ok();
                }
            });
        });
        runtime.block_on(remove(&admin, &resource, &name));
    }
    runtime.block_on(assert_works(&admin));
}
