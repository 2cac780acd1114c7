//! The patch that Helm 3 makes of three manifests: of the last revision, of the next one, and of what is there. What the next
//! one says and is not there is set, what only the last one said goes, and what neither says stays.

use serde_json::{Map, Value, json};

static ABSENT: Value = Value::Null;

/// Custom objects and definitions get a merge patch, in which lists are values; lists of other kinds merge by their keys.
pub(super) fn three_way(last: &Value, next: &Value, found: &Value, is_strategic: bool) -> Value {
    Value::Object(fields(last, next, found, is_strategic))
}

fn fields(last: &Value, next: &Value, found: &Value, is_strategic: bool) -> Map<String, Value> {
    let mut patch = Map::new();
    for (name, wanted) in next.as_object().into_iter().flatten() {
        let (before, now) = (&last[name], &found[name]);
        if let (Value::Array(items), Value::Array(_)) = (wanted, now)
            && let Some(key) = merge_key(name, items).filter(|_| is_strategic)
        {
            let changes = list(key, before, wanted, now);
            if !changes.is_empty() {
                let order = items.iter().map(|item| json!({key: item[key]})).collect();
                patch.insert(format!("$setElementOrder/{name}"), Value::Array(order));
                patch.insert(name.clone(), Value::Array(changes));
            }
        } else if wanted.is_object() && now.is_object() {
            let change = fields(before, wanted, now, is_strategic);
            if !change.is_empty() {
                patch.insert(name.clone(), Value::Object(change));
            }
        } else if wanted != now {
            patch.insert(name.clone(), wanted.clone());
        }
    }
    for name in last.as_object().into_iter().flatten().map(|(name, _)| name) {
        if next[name].is_null() {
            patch.insert(name.clone(), Value::Null);
        }
    }
    patch
}

/// What becomes of the elements of a list that merges by a key.
fn list(key: &str, last: &Value, next: &Value, found: &Value) -> Vec<Value> {
    let mut changes = Vec::new();
    for item in next.as_array().into_iter().flatten() {
        let now = element(found, key, item);
        if now.is_null() {
            changes.push(item.clone());
            continue;
        }
        let mut change = fields(element(last, key, item), item, now, true);
        if !change.is_empty() {
            change.insert(key.to_owned(), item[key].clone());
            changes.push(Value::Object(change));
        }
    }
    let gone = last.as_array().into_iter().flatten().filter(|item| element(next, key, item).is_null());
    changes.extend(gone.map(|item| json!({"$patch": "delete", key: item[key]})));
    changes
}

fn element<'a>(list: &'a Value, key: &str, like: &Value) -> &'a Value {
    list.as_array().into_iter().flatten().find(|item| item[key] == like[key]).unwrap_or(&ABSENT)
}

/// Of the lists in our charts, by the types of client-go.
fn merge_key(list: &str, items: &[Value]) -> Option<&'static str> {
    match list {
        "containers" | "env" | "volumes" | "webhooks" => Some("name"),
        "volumeMounts" => Some("mountPath"),
        "ports" if items.iter().any(|port| !port["containerPort"].is_null()) => Some("containerPort"),
        "ports" => Some("port"),
        _ => None,
    }
}

#[test]
fn three_way_patch_holds_what_client_go_makes() {
    let http = json!({"name": "http", "port": 80});
    let metrics = json!({"name": "metrics", "port": 9090});
    let old = json!({"spec": {"type": "ClusterIP", "a": 1, "ports": [http]}});
    let new = json!({"spec": {"type": "ClusterIP", "ports": [http, metrics]}});
    // With what the server and others added.
    let found = json!({"spec": {"type": "ClusterIP", "a": 1, "clusterIP": "10.0.0.1",
        "ports": [{"name": "http", "port": 80, "protocol": "TCP"}]}});
    let forward = json!({"spec": {"a": null, "ports": [metrics],
        "$setElementOrder/ports": [{"port": 80}, {"port": 9090}]}});
    assert_eq!(three_way(&old, &new, &found, true), forward);
    let merge = json!({"spec": {"a": null, "ports": [http, metrics]}});
    assert_eq!(three_way(&old, &new, &found, false), merge);
    let back = json!({"spec": {"a": 1, "ports": [{"$patch": "delete", "port": 9090}],
        "$setElementOrder/ports": [{"port": 80}]}});
    assert_eq!(three_way(&new, &old, &new, true), back);
    assert_eq!(three_way(&old, &old, &found, true), json!({}));
    // What somebody changed that the manifest says is set back, by the element's key.
    let drifted = json!({"spec": {"type": "ClusterIP", "a": 1, "ports": [{"name": "x", "port": 80}]}});
    let set_back = json!({"spec": {"ports": [{"name": "http", "port": 80}],
        "$setElementOrder/ports": [{"port": 80}]}});
    assert_eq!(three_way(&old, &old, &drifted, true), set_back);
}
