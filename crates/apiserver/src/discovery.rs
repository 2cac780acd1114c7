//! What is served: legacy and aggregated discovery.

use http::Response;
use http::header::ACCEPT;
use minik8s_api::Subresource;
use serde_json::{Value, json};

use crate::aggregator;
use crate::answer::{self, Body};
use crate::api::Api;
use crate::catalog::{Served, Snapshot};
use crate::dispatch::Incoming;
use crate::error::{ApiError, Result};

/// Answers `/api`, `/apis` and below; None for other paths.
pub fn answer<B>(api: &Api, incoming: &Incoming<B>) -> Result<Option<Response<Body>>> {
    let snapshot = api.registry.catalog.snapshot();
    let accept = incoming.header(ACCEPT);
    let parts: Vec<&str> = incoming.info.path.trim_matches('/').split('/').collect();
    let found = match parts.as_slice() {
        ["api" | "apis"] if wants_aggregated(accept).is_some() => {
            return Ok(wants_aggregated(accept)
                .map(|version| aggregated(api, &snapshot, parts[0] == "api", version)));
        }
        ["api"] => json!({
            "kind": "APIVersions", "versions": ["v1"],
            "serverAddressByClientCIDRs": [],
        }),
        ["api", version] => resource_list(&snapshot, "", version)?,
        ["apis"] => {
            let groups = all_groups(api, &snapshot);
            json!({"kind": "APIGroupList", "apiVersion": "v1", "groups": groups})
        }
        ["apis", name] => {
            let groups = all_groups(api, &snapshot);
            let found = groups.into_iter().find(|group| group["name"] == *name);
            let mut found = found.ok_or_else(ApiError::no_such_resource)?;
            found["kind"] = "APIGroup".into();
            found["apiVersion"] = "v1".into();
            found
        }
        ["apis", name, version] => resource_list(&snapshot, name, version)?,
        _ => return Ok(None),
    };
    if incoming.request.method() != http::Method::GET {
        return Err(ApiError::method_not_allowed(incoming.request.method()));
    }
    Ok(Some(answer::json(200, &found)))
}

/// Of this server and of those behind it.
fn all_groups(api: &Api, snapshot: &Snapshot) -> Vec<Value> {
    let own = snapshot.groups().into_iter().filter(|(group, _)| !group.is_empty());
    let mut groups: Vec<Value> = own.map(|(name, versions)| group(name, &versions)).collect();
    aggregator::add_groups(&api.aggregator, snapshot, &mut groups);
    groups
}

fn group(name: &str, versions: &[&str]) -> Value {
    let versions: Vec<Value> =
        versions.iter().map(|v| json!({"groupVersion": format!("{name}/{v}"), "version": v})).collect();
    json!({"name": name, "versions": versions, "preferredVersion": versions.first()})
}

fn resource_list(snapshot: &Snapshot, group: &str, version: &str) -> Result<Value> {
    let mut resources = Vec::new();
    for served in snapshot.of_version(group, version) {
        resources.push(legacy_entry(served));
        for sub in &served.subresources {
            let (name, group, version, kind, verbs) = described(served, sub);
            let mut entry = json!({
                "name": format!("{}/{name}", served.plural), "singularName": "",
                "namespaced": served.namespaced, "kind": kind, "verbs": verbs,
            });
            if !version.is_empty() {
                entry["group"] = group.into();
                entry["version"] = version.into();
            }
            resources.push(entry);
        }
    }
    if resources.is_empty() {
        return Err(ApiError::no_such_resource());
    }
    let group_version = if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") };
    Ok(
        json!({"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": group_version, "resources": resources}),
    )
}

fn legacy_entry(served: &Served) -> Value {
    let mut entry = json!({
        "name": served.plural, "singularName": served.singular, "namespaced": served.namespaced,
        "kind": served.kind, "verbs": served.verbs,
    });
    if !served.short_names.is_empty() {
        entry["shortNames"] = json!(served.short_names);
    }
    if !served.categories.is_empty() {
        entry["categories"] = json!(served.categories);
    }
    entry
}

/// Name, response group, version and kind, and verbs. The group is empty where it is the resource's own.
fn described<'a>(
    served: &'a Served,
    sub: &'a Subresource,
) -> (&'a str, &'a str, &'a str, &'a str, Vec<&'a str>) {
    match sub {
        Subresource::Status => ("status", "", "", &served.kind, vec!["get", "patch", "update"]),
        Subresource::Scale { .. } => ("scale", "autoscaling", "v1", "Scale", vec!["get", "patch", "update"]),
        Subresource::Other { name, kind, verbs } => {
            let (group, version) = match *kind {
                "Eviction" => ("policy", "v1"),
                "TokenRequest" => ("authentication.k8s.io", "v1"),
                _ => ("", ""),
            };
            (name, group, version, kind, verbs.to_vec())
        }
    }
}

/// The version of the aggregated form that the client asks for first, if it asks for it.
fn wants_aggregated(accept: &str) -> Option<&'static str> {
    accept.split(',').find_map(|clause| {
        let compact: String = clause.chars().filter(|c| !c.is_whitespace()).collect();
        let aggregated =
            compact.contains("g=apidiscovery.k8s.io") && compact.contains("as=APIGroupDiscoveryList");
        match aggregated {
            true if compact.contains("v=v2beta1") => Some("v2beta1"),
            true if compact.contains("v=v2") => Some("v2"),
            _ => None,
        }
    })
}

fn aggregated(api: &Api, snapshot: &Snapshot, core: bool, version: &str) -> Response<Body> {
    let groups = snapshot.groups();
    let chosen = groups.iter().filter(|(group, _)| group.is_empty() == core);
    let mut items: Vec<Value> =
        chosen.map(|(group, versions)| aggregated_group(snapshot, group, versions)).collect();
    if !core {
        aggregator::aggregated_groups(&api.aggregator, snapshot, &mut items);
    }
    let list = json!({
        "kind": "APIGroupDiscoveryList", "apiVersion": format!("apidiscovery.k8s.io/{version}"),
        "metadata": {}, "items": items,
    });
    let content_type = format!("application/json;g=apidiscovery.k8s.io;v={version};as=APIGroupDiscoveryList");
    answer::bytes(200, &content_type, list.to_string())
}

fn aggregated_group(snapshot: &Snapshot, group: &str, versions: &[&str]) -> Value {
    let versions: Vec<Value> = versions
        .iter()
        .map(|version| {
            let resources: Vec<Value> =
                snapshot.of_version(group, version).map(|s| aggregated_entry(s)).collect();
            json!({"version": version, "resources": resources, "freshness": "Current"})
        })
        .collect();
    let metadata = if group.is_empty() {
        json!({"creationTimestamp": null})
    } else {
        json!({"name": group, "creationTimestamp": null})
    };
    json!({"metadata": metadata, "versions": versions})
}

fn aggregated_entry(served: &Served) -> Value {
    let kind =
        |group: &str, version: &str, kind: &str| json!({"group": group, "version": version, "kind": kind});
    let own = |name: &str| kind(&served.group, &served.version, name);
    let subresources: Vec<Value> = served
        .subresources
        .iter()
        .map(|sub| {
            let (name, group, version, sub_kind, verbs) = described(served, sub);
            let response = if version.is_empty() { own(sub_kind) } else { kind(group, version, sub_kind) };
            json!({"subresource": name, "responseKind": response, "verbs": verbs})
        })
        .collect();
    let mut entry = json!({
        "resource": served.plural, "responseKind": own(&served.kind),
        "scope": if served.namespaced { "Namespaced" } else { "Cluster" },
        "singularResource": served.singular, "verbs": served.verbs,
    });
    if !served.short_names.is_empty() {
        entry["shortNames"] = json!(served.short_names);
    }
    if !served.categories.is_empty() {
        entry["categories"] = json!(served.categories);
    }
    if !subresources.is_empty() {
        entry["subresources"] = Value::Array(subresources);
    }
    entry
}
