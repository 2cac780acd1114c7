//! What `metadata` of any object must look like, and what of it may never change.
//!
//! Runs on objects whose name is settled (`generateName` applied) and beside the kind's own validation,
//! for built-in and custom kinds alike. It never looks outside `metadata`.

use serde_json::Value;

use crate::{Backing, Definition, FieldErrors, Path, Resource, format};

const MAX_ANNOTATIONS: usize = 256 * 1024;

/// Names, labels, annotations, finalizers and owners. Reviews, which are answered and never kept, need none.
pub fn validate_metadata(resource: &Resource, object: &Value, errors: &mut FieldErrors) {
    if matches!(resource.backing, Backing::Review) {
        return;
    }
    let path = Path::new("metadata");
    let metadata = &object["metadata"];
    validate_name(resource, metadata, &path, errors);
    validate_namespace(resource, metadata, &path, errors);
    if let Some(generation) = metadata["generation"].as_i64()
        && generation < 0
    {
        errors.invalid(path.field("generation"), generation, "must be greater than or equal to 0");
    }
    validate_labels(&metadata["labels"], &path.field("labels"), errors);
    validate_annotations(&metadata["annotations"], &path.field("annotations"), errors);
    validate_finalizers(resource, &metadata["finalizers"], &path.field("finalizers"), errors);
    validate_owners(&metadata["ownerReferences"], &path.field("ownerReferences"), errors);
}

/// What may not change. A field that the new object leaves out counts as unchanged: the registry copies it.
pub fn validate_metadata_update(_resource: &Resource, object: &Value, old: &Value, errors: &mut FieldErrors) {
    let path = Path::new("metadata");
    let (new, old) = (&object["metadata"], &old["metadata"]);
    if !old["deletionTimestamp"].is_null() {
        validate_no_new_finalizers(&new["finalizers"], &old["finalizers"], &path, errors);
    }
    if let (Some(new), Some(old)) = (new["generation"].as_i64(), old["generation"].as_i64())
        && new < old
    {
        errors.invalid(path.field("generation"), new, "must not be decremented");
    }
    for field in
        ["name", "namespace", "uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds"]
    {
        if !new[field].is_null() {
            errors.immutable(path.field(field), new.get(field), old.get(field));
        }
    }
}

/// Keys and values of labels, wherever an object has some.
pub fn validate_labels(labels: &Value, path: &Path, errors: &mut FieldErrors) {
    for (key, value) in labels.as_object().into_iter().flatten() {
        for problem in format::qualified_name(key) {
            errors.invalid(path.clone(), key.as_str(), problem);
        }
        for problem in format::label_value(value.as_str().unwrap_or_default()) {
            errors.invalid(path.clone(), value.clone(), problem);
        }
    }
}

/// Keys and size of annotations, wherever an object has some.
pub fn validate_annotations(annotations: &Value, path: &Path, errors: &mut FieldErrors) {
    let mut size = 0;
    for (key, value) in annotations.as_object().into_iter().flatten() {
        size += key.len() + value.as_str().map_or(0, str::len);
        for problem in format::qualified_name(&key.to_ascii_lowercase()) {
            errors.invalid(path.clone(), key.as_str(), problem);
        }
    }
    if size > MAX_ANNOTATIONS {
        errors.too_long(path.clone(), MAX_ANNOTATIONS);
    }
}

/// A finalizer of a built-in kind is one of Kubernetes' own or has the domain of its owner in front.
pub fn validate_finalizer(name: &Value, path: &Path, errors: &mut FieldErrors) {
    const STANDARD: &[&str] = &["kubernetes", "orphan", "foregroundDeletion"];
    let text = name.as_str().unwrap_or_default();
    if validate_finalizer_form(text, path, errors) && !text.contains('/') && !STANDARD.contains(&text) {
        errors.invalid(
            path.clone(),
            text,
            "name is neither a standard finalizer name nor is it fully qualified",
        );
    }
}

/// Says whether it is well formed.
fn validate_finalizer_form(name: &str, path: &Path, errors: &mut FieldErrors) -> bool {
    let problems = format::qualified_name(name);
    let well_formed = problems.is_empty();
    for problem in problems {
        errors.invalid(path.clone(), name, problem);
    }
    well_formed
}

fn validate_name(resource: &Resource, metadata: &Value, path: &Path, errors: &mut FieldErrors) {
    let name = metadata["name"].as_str().unwrap_or_default();
    let prefix = metadata["generateName"].as_str().unwrap_or_default();
    for problem in if prefix.is_empty() { Vec::new() } else { resource.names.prefix_problems(prefix) } {
        errors.invalid(path.field("generateName"), prefix, problem);
    }
    if name.is_empty() {
        errors.required(path.field("name"), "name or generateName is required");
        return;
    }
    for problem in resource.names.problems(name) {
        errors.invalid(path.field("name"), name, problem);
    }
}

fn validate_namespace(resource: &Resource, metadata: &Value, path: &Path, errors: &mut FieldErrors) {
    let path = path.field("namespace");
    let namespace = metadata["namespace"].as_str().unwrap_or_default();
    match (resource.namespaced, namespace.is_empty()) {
        (true, true) => errors.required(path, ""),
        (true, false) => {
            for problem in format::label(namespace) {
                errors.invalid(path.clone(), namespace, problem);
            }
        }
        (false, true) => {}
        (false, false) => errors.forbidden(path, "not allowed on this type"),
    }
}

fn validate_finalizers(resource: &Resource, finalizers: &Value, path: &Path, errors: &mut FieldErrors) {
    let list = finalizers.as_array().map_or(&[][..], Vec::as_slice);
    // Custom kinds and their definitions came later and are freer.
    let free =
        matches!(resource.definition, Definition::Custom(_)) || resource.group == "apiextensions.k8s.io";
    for name in list {
        if free {
            validate_finalizer_form(name.as_str().unwrap_or_default(), path, errors);
        } else {
            validate_finalizer(name, path, errors);
        }
    }
    let has = |name: &str| list.iter().any(|f| f == name);
    if has("orphan") && has("foregroundDeletion") {
        errors.invalid(
            path.clone(),
            finalizers.clone(),
            "finalizer orphan and foregroundDeletion cannot be both set",
        );
    }
}

fn validate_no_new_finalizers(new: &Value, old: &Value, path: &Path, errors: &mut FieldErrors) {
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let old = list(old);
    let added: Vec<Value> = list(new).into_iter().filter(|f| !old.contains(f)).collect();
    if !added.is_empty() {
        let added: Vec<String> = added.iter().map(Value::to_string).collect();
        errors.forbidden(
            path.field("finalizers"),
            format!(
                "no new finalizers can be added if the object is being deleted, found new finalizers []string{{{}}}",
                added.join(", ")
            ),
        );
    }
}

fn validate_owners(owners: &Value, path: &Path, errors: &mut FieldErrors) {
    let mut controller: Option<&str> = None;
    for owner in owners.as_array().into_iter().flatten() {
        let text = |field: &str| owner[field].as_str().unwrap_or_default();
        let version = text("apiVersion").rsplit('/').next().unwrap_or_default();
        if version.is_empty() {
            errors.invalid(path.field("apiVersion"), text("apiVersion"), "version must not be empty");
        }
        for field in ["kind", "name", "uid"] {
            if text(field).is_empty() {
                errors.invalid(path.field(field), "", "must not be empty");
            }
        }
        if text("apiVersion") == "v1" && text("kind") == "Event" {
            errors.invalid(path.clone(), owner.clone(), "/v1, Kind=Event is disallowed from being an owner");
        }
        if owner["controller"] == true {
            match controller {
                None => controller = Some(text("name")),
                Some(first) => errors.invalid(
                    path.clone(),
                    owners.clone(),
                    format!(
                        "Only one reference can have Controller set to true. Found \"true\" in references for {first} and {}",
                        text("name")
                    ),
                ),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::authentication::v1::TokenReview;
    use k8s_openapi::api::core::v1 as core;
    use k8s_openapi::api::rbac::v1::ClusterRole;
    use serde_json::json;

    use super::*;
    use crate::{NameRule, Plain};

    fn resource(plural: &str) -> Resource {
        match plural {
            "configmaps" => Resource::of::<core::ConfigMap>(Plain),
            "nodes" => Resource::of::<core::Node>(Plain),
            "clusterroles" => Resource::of::<ClusterRole>(Plain).named(NameRule::PathSegment),
            "tokenreviews" => Resource::of::<TokenReview>(Plain).review(),
            other => panic!("no resource {other}"),
        }
    }

    #[track_caller]
    fn check(plural: &str, metadata: Value, expected: &[&str]) {
        let mut errors = FieldErrors::default();
        validate_metadata(&resource(plural), &json!({ "metadata": metadata }), &mut errors);
        let shown: Vec<String> = errors.iter().map(ToString::to_string).collect();
        assert_eq!(shown.len(), expected.len(), "{shown:#?}");
        for (shown, expected) in shown.iter().zip(expected) {
            assert!(shown.starts_with(expected), "{shown}\nshould start with\n{expected}");
        }
    }

    #[test]
    fn metadata() {
        let cm = |more: Value| {
            let mut metadata = json!({"name": "a", "namespace": "b"});
            metadata.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            metadata
        };
        check("configmaps", cm(json!({})), &[]);
        check(
            "configmaps",
            json!({"namespace": "b"}),
            &["metadata.name: Required value: name or generateName"],
        );
        check("configmaps", json!({"name": "a"}), &["metadata.namespace: Required value"]);
        check(
            "configmaps",
            cm(json!({"name": "A", "generateName": "B"})),
            &[
                "metadata.generateName: Invalid value: \"B\": a lowercase RFC 1123 subdomain",
                "metadata.name: Invalid value: \"A\": a lowercase RFC 1123 subdomain",
            ],
        );
        check(
            "nodes",
            json!({"name": "a", "namespace": "b"}),
            &["metadata.namespace: Forbidden: not allowed"],
        );
        check("clusterroles", json!({"name": "system:a"}), &[]);
        check("tokenreviews", json!({}), &[]);
        check(
            "clusterroles",
            json!({"name": "a/b"}),
            &["metadata.name: Invalid value: \"a/b\": may not contain '/'"],
        );
        check(
            "configmaps",
            cm(json!({"labels": {"a/b/c": "x", "ok": "not ok"}})),
            &[
                "metadata.labels: Invalid value: \"a/b/c\": a qualified name",
                "metadata.labels: Invalid value: \"not ok\": a valid label",
            ],
        );
        check("configmaps", cm(json!({"annotations": {"Example.com/a": "x"}})), &[]);
        check(
            "configmaps",
            cm(json!({"annotations": {"a": "x".repeat(MAX_ANNOTATIONS)}})),
            &["metadata.annotations: Too long: may not be more than 262144 bytes"],
        );
        check(
            "configmaps",
            cm(json!({"finalizers": ["kubernetes", "a.b/c", "own"]})),
            &["metadata.finalizers: Invalid value: \"own\": name is neither a standard finalizer name"],
        );
        check(
            "configmaps",
            cm(json!({"ownerReferences": [
                {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "x", "uid": "1", "controller": true},
                {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "y", "uid": "", "controller": true},
            ]})),
            &[
                "metadata.ownerReferences.uid: Invalid value: \"\": must not be empty",
                "metadata.ownerReferences: Invalid value: [",
            ],
        );
    }

    #[test]
    fn updates() {
        #[track_caller]
        fn check(new: Value, old: Value, expected: &[&str]) {
            let mut errors = FieldErrors::default();
            let (new, old) = (json!({ "metadata": new }), json!({ "metadata": old }));
            validate_metadata_update(&resource("configmaps"), &new, &old, &mut errors);
            let shown: Vec<String> = errors.iter().map(ToString::to_string).collect();
            assert_eq!(shown, expected);
        }
        check(json!({"name": "a"}), json!({"name": "a", "uid": "1"}), &[]);
        check(
            json!({"name": "a", "uid": "2"}),
            json!({"name": "a", "uid": "1"}),
            &["metadata.uid: Invalid value: \"2\": field is immutable"],
        );
        check(
            json!({"finalizers": ["a/b", "a/c"]}),
            json!({"finalizers": ["a/b"], "deletionTimestamp": "2026-01-01T00:00:00Z"}),
            &[
                "metadata.finalizers: Forbidden: no new finalizers can be added if the object is being deleted, found new finalizers []string{\"a/c\"}",
            ],
        );
        check(json!({"finalizers": ["a/b"]}), json!({}), &[]);
        check(
            json!({"generation": 1}),
            json!({"generation": 2}),
            &["metadata.generation: Invalid value: 1: must not be decremented"],
        );
    }
}
