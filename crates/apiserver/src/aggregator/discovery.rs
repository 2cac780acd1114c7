//! What extension API servers serve, beside what this one does: in discovery and in the index of schemas.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Value, json};

use super::Aggregator;
use super::backend::Backend;
use crate::catalog::Snapshot;

/// By group, the highest and its highest version first; without what this server serves itself.
pub(super) fn by_group(aggregator: &Aggregator, snapshot: &Snapshot) -> Vec<(String, Vec<Arc<Backend>>)> {
    let mut groups: BTreeMap<String, Vec<Arc<Backend>>> = BTreeMap::new();
    let is_own = |backend: &Backend| snapshot.of_version(&backend.group, &backend.version).next().is_some();
    for backend in aggregator.backends().iter().filter(|backend| !is_own(backend)) {
        groups.entry(backend.group.clone()).or_default().push(backend.clone());
    }
    let priority = |backend: &Arc<Backend>, field: &str| backend.spec[field].as_i64().unwrap_or_default();
    let mut groups: Vec<_> = groups.into_iter().collect();
    for (_, backends) in &mut groups {
        backends.sort_by_key(|backend| Reverse(priority(backend, "versionPriority")));
    }
    groups.sort_by_key(|(_, backends)| {
        Reverse(backends.iter().map(|backend| priority(backend, "groupPriorityMinimum")).max())
    });
    groups
}

/// Adds them to the groups of `/apis`. A group of both has the versions of both.
pub fn add_groups(aggregator: &Aggregator, snapshot: &Snapshot, groups: &mut Vec<Value>) {
    for (name, backends) in by_group(aggregator, snapshot) {
        let versions = backends
            .iter()
            .map(|backend| json!({"groupVersion": backend.api_version(), "version": backend.version}));
        let versions: Vec<Value> = versions.collect();
        match groups.iter_mut().find(|group| group["name"] == name.as_str()) {
            Some(group) => {
                if let Some(known) = group["versions"].as_array_mut() {
                    known.extend(versions);
                }
            }
            None => {
                groups.push(json!({"name": name, "preferredVersion": versions.first(), "versions": versions}))
            }
        }
    }
}

/// The same for the aggregated form, with their resources.
pub fn aggregated_groups(aggregator: &Aggregator, snapshot: &Snapshot, items: &mut Vec<Value>) {
    for (name, backends) in by_group(aggregator, snapshot) {
        let versions: Vec<Value> = backends.iter().map(|backend| aggregated_version(backend)).collect();
        match items.iter_mut().find(|item| item["metadata"]["name"] == name.as_str()) {
            Some(item) => {
                if let Some(known) = item["versions"].as_array_mut() {
                    known.extend(versions);
                }
            }
            None => items.push(json!({
                "metadata": {"name": name, "creationTimestamp": null}, "versions": versions,
            })),
        }
    }
}

/// A server that does not answer is told of as stale, with what it was known to serve.
fn aggregated_version(backend: &Backend) -> Value {
    let known = backend.known.read().clone();
    let resources = known.resources.map(|list| aggregated_resources(backend, &list)).unwrap_or_default();
    let freshness = if known.is_available { "Current" } else { "Stale" };
    json!({"version": backend.version, "resources": resources, "freshness": freshness})
}

/// From the older form of discovery: `flunders`, `flunders/status`.
fn aggregated_resources(backend: &Backend, list: &Value) -> Vec<Value> {
    let all = list["resources"].as_array().map(Vec::as_slice).unwrap_or_default();
    let kind = |entry: &Value| {
        let or = |field: &str, own: &str| match entry[field].as_str() {
            Some(text) if !text.is_empty() => text.to_owned(),
            _ => own.to_owned(),
        };
        let (group, version) = (or("group", &backend.group), or("version", &backend.version));
        json!({"group": group, "version": version, "kind": entry["kind"]})
    };
    let own = all.iter().filter_map(|entry| {
        let name = entry["name"].as_str().filter(|name| !name.contains('/'))?;
        let below = all.iter().filter_map(|other| {
            let subresource = other["name"].as_str()?.strip_prefix(name)?.strip_prefix('/')?;
            Some(json!({"subresource": subresource, "responseKind": kind(other), "verbs": other["verbs"]}))
        });
        let mut described = json!({
            "resource": name, "responseKind": kind(entry), "verbs": entry["verbs"],
            "scope": if entry["namespaced"] == true { "Namespaced" } else { "Cluster" },
            "singularResource": entry["singularName"].as_str().unwrap_or_default(),
        });
        let optional = [("subresources", Value::from(below.collect::<Vec<_>>()))]
            .into_iter()
            .chain(["shortNames", "categories"].map(|field| (field, entry[field].clone())));
        for (field, value) in optional {
            if value.as_array().is_some_and(|list| !list.is_empty()) {
                described[field] = value;
            }
        }
        Some(described)
    });
    own.collect()
}

/// Adds the schemas of available servers to the index of `/openapi/v3`; the documents are theirs.
pub fn add_to_index(aggregator: &Aggregator, snapshot: &Snapshot, index: &mut Value) {
    for backend in by_group(aggregator, snapshot).into_iter().flat_map(|(_, backends)| backends) {
        let known = backend.known.read();
        if let Some(resources) = known.resources.as_ref().filter(|_| known.is_available) {
            let path = format!("apis/{}", backend.api_version());
            let hash = match &known.schema_hash {
                Some(hash) => hash.clone(),
                None => crate::schemas::hash(resources.to_string().as_bytes()),
            };
            index["paths"][&path] = json!({"serverRelativeURL": format!("/openapi/v3/{path}?hash={hash}")});
        }
    }
}
