//! What is done to all resources of a level: namespace, names, labels, annotations; images and numbers of replicas.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::file::Kustomization;
use super::image;
use super::resource::{Resource, entry};
use crate::error::{Error, Result};

/// Kinds whose names mean something to others.
const UNNAMEABLE: [&str; 3] = ["APIService", "CustomResourceDefinition", "Namespace"];
/// With a template of pods at `spec.template`.
const WORKLOADS: [&str; 6] =
    ["DaemonSet", "Deployment", "Job", "ReplicaSet", "ReplicationController", "StatefulSet"];
/// Whose selector is to hold the labels even where it is not written.
const SELECTING: [&str; 4] = ["DaemonSet", "Deployment", "ReplicaSet", "StatefulSet"];
const SCALABLE: [&str; 4] = ["Deployment", "ReplicaSet", "ReplicationController", "StatefulSet"];

type Pairs = BTreeMap<String, String>;

pub fn run(file: &Kustomization, resources: &mut [Resource]) {
    if !file.namespace.is_empty() {
        resources.iter_mut().for_each(|resource| set_namespace(resource, &file.namespace));
    }
    for resource in resources.iter_mut().filter(|resource| !UNNAMEABLE.contains(&resource.kind())) {
        let name = format!("{}{}{}", file.name_prefix, resource.name(), file.name_suffix);
        resource.rename(name);
    }
    for resource in resources.iter_mut() {
        for labels in &file.labels {
            add(&mut resource.object, "labels", &labels.pairs);
            if labels.include_selectors {
                select(resource, &labels.pairs);
            }
            if labels.include_selectors || labels.include_templates {
                templates(resource, "labels", &labels.pairs);
            }
        }
        add(&mut resource.object, "labels", &file.common_labels);
        select(resource, &file.common_labels);
        templates(resource, "labels", &file.common_labels);
        add(&mut resource.object, "annotations", &file.common_annotations);
        templates(resource, "annotations", &file.common_annotations);
    }
}

/// `replicas` and `images`.
pub fn run_counts(file: &Kustomization, resources: &mut [Resource]) -> Result<()> {
    for replicas in &file.replicas {
        let mut found = false;
        let fits = |one: &&mut Resource| SCALABLE.contains(&one.kind()) && one.is_called(&replicas.name);
        for resource in resources.iter_mut().filter(fits) {
            entry(&mut resource.object, "spec").insert("replicas".to_owned(), replicas.count.into());
            found = true;
        }
        if !found {
            let told = format!(
                "resource with name {} does not match a config with the following GVK {SCALABLE:?}",
                replicas.name
            );
            return Err(Error::plain(told));
        }
    }
    resources.iter_mut().for_each(|resource| image::change(&mut resource.object, &file.images));
    Ok(())
}

fn set_namespace(resource: &mut Resource, namespace: &str) {
    if resource.kind() == "Namespace" {
        return resource.rename(namespace.to_owned());
    }
    if resource.is_namespaced() {
        entry(&mut resource.object, "metadata").insert("namespace".to_owned(), namespace.into());
    }
    // Other accounts follow the objects that they name.
    if let Some(Value::Array(subjects)) = resource.object.get_mut("subjects") {
        let defaults =
            subjects.iter_mut().filter(|one| one["kind"] == "ServiceAccount" && one["name"] == "default");
        defaults.for_each(|subject| subject["namespace"] = namespace.into());
    }
}

/// Pairs for `metadata.FIELD`.
fn add(object: &mut Value, field: &str, pairs: &Pairs) {
    if !pairs.is_empty() {
        insert(&mut object["metadata"], field, pairs);
    }
}

fn insert(object: &mut Value, field: &str, pairs: &Pairs) {
    let map = entry(object, field);
    for (key, value) in pairs {
        map.insert(key.clone(), value.clone().into());
    }
}

/// Pairs for what the templates of a resource make.
fn templates(resource: &mut Resource, field: &str, pairs: &Pairs) {
    if pairs.is_empty() {
        return;
    }
    let kind = resource.kind().to_owned();
    let below: &[&str] = match kind.as_str() {
        "CronJob" => &["/spec/jobTemplate", "/spec/jobTemplate/spec/template"],
        kind if WORKLOADS.contains(&kind) => &["/spec/template"],
        _ => &[],
    };
    for path in below {
        if let Some(template) = resource.object.pointer_mut(path).filter(|template| template.is_object()) {
            add(template, field, pairs);
        }
    }
    if kind == "StatefulSet"
        && field == "labels"
        && let Some(Value::Array(claims)) = resource.object.pointer_mut("/spec/volumeClaimTemplates")
    {
        claims.iter_mut().for_each(|claim| add(claim, field, pairs));
    }
}

/// Labels for what selects pods of the same level.
fn select(resource: &mut Resource, pairs: &Pairs) {
    if pairs.is_empty() || !resource.is_native() {
        return;
    }
    let kind = resource.kind().to_owned();
    let Some(spec) = resource.object.get_mut("spec") else { return };
    match kind.as_str() {
        "Service" | "ReplicationController" => insert(spec, "selector", pairs),
        kind if SELECTING.contains(&kind) => insert(&mut spec["selector"], "matchLabels", pairs),
        "CronJob" | "Job" | "PodDisruptionBudget" | "NetworkPolicy" => where_written(spec, pairs),
        _ => {}
    }
    let pods = match kind.as_str() {
        "CronJob" => "/spec/jobTemplate/spec/template/spec",
        _ => "/spec/template/spec",
    };
    if let Some(pods) = resource.object.pointer_mut(pods) {
        for field in ["affinity", "topologySpreadConstraints"] {
            if let Some(below) = pods.get_mut(field) {
                where_written(below, pairs);
            }
        }
    }
}

/// In selectors that are there.
fn where_written(value: &mut Value, pairs: &Pairs) {
    match value {
        Value::Array(items) => items.iter_mut().for_each(|item| where_written(item, pairs)),
        Value::Object(map) => {
            for (field, below) in map.iter_mut() {
                // Pods make none, and namespaces are not of the level.
                if field == "template" || field == "namespaceSelector" {
                    continue;
                }
                if field == "matchLabels" && below.is_object() {
                    let mut holder = json!({"matchLabels": below.take()});
                    insert(&mut holder, "matchLabels", pairs);
                    *below = holder["matchLabels"].take();
                } else {
                    where_written(below, pairs);
                }
            }
        }
        _ => {}
    }
}
