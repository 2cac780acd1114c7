//! What holds for every kind.

use std::collections::HashSet;

use schemars::SchemaGenerator;
use schemars::generate::SchemaSettings;
use serde_json::{Value, json};

use super::all;
use minik8s_api::{Definition, validate_metadata};

use crate::{Column, FieldErrors, Resource};

/// Objects to try a kind with: as little as possible, and a little of everything.
fn samples(resource: &Resource) -> Vec<Value> {
    let mut metadata = json!({ "name": "a" });
    if resource.namespaced {
        metadata["namespace"] = json!("b");
    }
    let base = json!({ "apiVersion": resource.api_version(), "kind": resource.kind, "metadata": metadata });
    let mut objects = vec![base.clone()];
    for more in [
        json!({ "spec": {} }),
        json!({ "spec": null, "status": {} }),
        json!({ "spec": { "ports": [{ "port": 1 }, {}], "type": "LoadBalancer", "behavior": {}, "metrics": [] } }),
        json!({ "webhooks": [{}], "subjects": [{ "kind": "User" }, { "kind": "ServiceAccount" }], "roleRef": {} }),
        json!({ "spec": workload(), "template": { "spec": pod_spec() } }),
        json!({ "spec": pod_spec() }),
        json!({ "data": {}, "type": "", "ports": [{}], "endpoints": [{}], "subsets": [{ "ports": [{}] }] }),
    ] {
        let mut object = base.clone();
        object.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        objects.push(object);
    }
    objects
}

/// A pod with something in every list that has defaults.
fn pod_spec() -> Value {
    json!({
        "hostNetwork": true,
        "serviceAccount": "s",
        "overhead": { "cpu": 0.25 },
        "containers": [{
            "name": "c",
            "image": "i",
            "ports": [{ "containerPort": 1 }],
            "env": [
                { "name": "A", "valueFrom": { "fieldRef": { "fieldPath": "metadata.name" } } },
                { "name": "B", "valueFrom": { "resourceFieldRef": { "resource": "limits.cpu" } } },
            ],
            "resources": { "limits": { "cpu": "0.5", "memory": "1024Mi" } },
            "livenessProbe": { "httpGet": { "port": 1 } },
            "readinessProbe": { "grpc": { "port": 1 } },
            "lifecycle": { "preStop": { "httpGet": { "port": 1 } } },
        }],
        "initContainers": [{ "name": "i", "restartPolicy": "Always" }],
        "ephemeralContainers": [{ "name": "e" }],
        "volumes": [
            { "name": "a" },
            { "name": "b", "secret": {} },
            { "name": "c", "hostPath": { "path": "/" } },
            { "name": "d", "projected": { "sources": [{ "serviceAccountToken": { "path": "t" } }] } },
            { "name": "e", "ephemeral": { "volumeClaimTemplate": { "spec": {} } } },
            { "name": "f", "downwardAPI": { "items": [{ "path": "p", "fieldRef": {} }] } },
        ],
    })
}

/// The spec of any workload.
fn workload() -> Value {
    let template = json!({
        "metadata": { "creationTimestamp": null, "labels": { "a": "b" } },
        "spec": pod_spec(),
    });
    let policy = json!({ "rules": [{ "action": "Count", "onPodConditions": [{ "type": "x" }] }] });
    json!({
        "template": template,
        "jobTemplate": { "spec": { "template": template, "podFailurePolicy": policy } },
        "podFailurePolicy": policy,
        "volumeClaimTemplates": [{ "metadata": { "name": "d" }, "spec": {} }],
    })
}

#[test]
fn names_are_unique() {
    let mut seen = HashSet::new();
    let mut short = HashSet::new();
    for resource in all() {
        assert!(seen.insert((resource.group.clone(), resource.version.clone(), resource.plural.clone())));
        for name in &resource.short_names {
            let first = short.insert((name.clone(), resource.version.clone()));
            assert!(first || resource.group == "events.k8s.io", "{name}");
        }
    }
}

#[test]
fn names_are_those_of_upstream() {
    let resources = all();
    for (name, singular, short) in [
        ("apiservices.apiregistration.k8s.io", "apiservice", &[][..]),
        ("customresourcedefinitions.apiextensions.k8s.io", "customresourcedefinition", &["crd", "crds"]),
        ("endpoints", "endpoints", &["ep"]),
        ("ingresses.networking.k8s.io", "ingress", &["ing"]),
        ("networkpolicies.networking.k8s.io", "networkpolicy", &["netpol"]),
        ("services", "service", &["svc"]),
        ("storageclasses.storage.k8s.io", "storageclass", &["sc"]),
    ] {
        let resource = resources.iter().find(|r| r.qualified() == name).unwrap();
        assert_eq!(resource.singular, singular);
        assert_eq!(resource.short_names, short);
    }
}

#[test]
fn defaults_are_idempotent() {
    for resource in all() {
        for mut object in samples(&resource) {
            resource.strategy.default(&mut object);
            let once = object.clone();
            resource.strategy.default(&mut object);
            assert_eq!(object, once, "{}", resource.qualified());
        }
    }
}

#[test]
fn defaults_set_only_fields_that_exist() {
    for resource in all() {
        let Definition::BuiltIn(define) = resource.definition else { panic!("{}", resource.kind) };
        let mut generator = SchemaGenerator::new(SchemaSettings::openapi3());
        let schema: Value = define(&mut generator).into();
        let definitions = Value::Object(generator.take_definitions(true));
        for before in samples(&resource).into_iter().take(3) {
            let mut object = before.clone();
            resource.strategy.default(&mut object);
            resource.strategy.prepare_create(&mut object);
            let mut unknown = Vec::new();
            unknown_fields(&definitions, &schema, &object, &before, "", &mut unknown);
            assert!(unknown.is_empty(), "{}: {unknown:?}", resource.qualified());
        }
    }
}

/// Paths of what is not in the schema, nor was in the object before.
fn unknown_fields(
    definitions: &Value,
    schema: &Value,
    value: &Value,
    before: &Value,
    path: &str,
    found: &mut Vec<String>,
) {
    let wrapped = schema["allOf"][0].as_object().or(schema["anyOf"][0].as_object());
    if let Some(inner) = wrapped {
        return unknown_fields(definitions, &Value::Object(inner.clone()), value, before, path, found);
    }
    if let Some(reference) = schema["$ref"].as_str() {
        let name = reference.rsplit('/').next().unwrap();
        return unknown_fields(definitions, &definitions[name], value, before, path, found);
    }
    match value {
        Value::Object(fields) => {
            let open = schema["properties"].is_null();
            for (name, value) in fields {
                let path = format!("{path}.{name}");
                match schema["properties"].get(name) {
                    Some(schema) => {
                        unknown_fields(definitions, schema, value, &before[name], &path, found);
                    }
                    None if open || before.get(name).is_some() => {}
                    None => found.push(path),
                }
            }
        }
        Value::Array(items) => {
            for (i, item) in items.iter().enumerate() {
                unknown_fields(
                    definitions,
                    &schema["items"],
                    item,
                    &before[i],
                    &format!("{path}[{i}]"),
                    found,
                );
            }
        }
        _ => {}
    }
}

#[test]
fn rows_are_as_long_as_the_columns() {
    let now = "2026-01-01T00:00:00Z".parse().unwrap();
    for resource in all() {
        let columns: Vec<Column> = resource.strategy.columns().unwrap_or_default();
        for mut object in samples(&resource) {
            assert_eq!(resource.strategy.row(&object, now).len(), columns.len(), "{}", resource.qualified());
            resource.strategy.default(&mut object);
            let row = resource.strategy.row(&object, now);
            assert_eq!(row.len(), columns.len(), "{}", resource.qualified());
            assert!(row.iter().all(|cell| !cell.is_object() && !cell.is_array()), "{}", resource.qualified());
        }
    }
}

#[test]
fn selectable_names_are_complete() {
    for resource in all() {
        for object in samples(&resource) {
            let given: Vec<&str> =
                resource.strategy.selectable(&object).iter().map(|(name, _)| *name).collect();
            assert_eq!(given, resource.strategy.selectable_names(), "{}", resource.qualified());
        }
    }
}

#[test]
fn selectable_parts_suffice() {
    for resource in all() {
        for mut object in samples(&resource) {
            resource.strategy.default(&mut object);
            let whole = resource.strategy.selectable(&object);
            for (i, (field, expected)) in whole.iter().enumerate() {
                let Some(parts) = resource.strategy.selectable_parts(field) else { continue };
                let mut some = json!({});
                for (outer, inner) in parts {
                    if let Some(value) = object.get(outer).and_then(|outer| outer.get(inner)) {
                        some[outer][inner] = value.clone();
                    }
                }
                let found = &resource.strategy.selectable(&some)[i].1;
                assert_eq!(found, expected, "{} {field}", resource.qualified());
            }
        }
    }
}

#[test]
fn stored_forms_lead_back() {
    for resource in all().into_iter().filter(|r| r.stored_as.is_some()) {
        for mut object in samples(&resource) {
            resource.strategy.default(&mut object);
            resource.strategy.to_stored(&mut object);
            let stored = object.clone();
            resource.strategy.from_stored(&mut object);
            resource.strategy.to_stored(&mut object);
            assert_eq!(object, stored, "{}", resource.qualified());
        }
    }
}

/// Whatever the fields hold, nothing panics.
#[test]
fn odd_objects_do_no_harm() {
    let odd =
        [json!(null), json!(-1), json!("x"), json!([]), json!([null, 1, "x", {}, [[]]]), json!({ "a": {} })];
    let now = "2026-01-01T00:00:00Z".parse().unwrap();
    for resource in all() {
        let Definition::BuiltIn(define) = resource.definition else { panic!("{}", resource.kind) };
        let mut generator = SchemaGenerator::new(SchemaSettings::openapi3());
        let schema: Value = define(&mut generator).into();
        let definitions = Value::Object(generator.take_definitions(true));
        let name = schema["$ref"].as_str().unwrap().rsplit('/').next().unwrap().to_owned();
        let fields = |schema: &Value| -> Vec<String> {
            schema["properties"].as_object().into_iter().flatten().map(|(name, _)| name.clone()).collect()
        };
        let spec = definitions[&name]["properties"]["spec"].to_string();
        let spec = spec.split("/schemas/").nth(1).and_then(|rest| rest.split('"').next()).unwrap_or_default();
        let mut tries = Vec::new();
        for value in &odd {
            for field in fields(&definitions[&name]) {
                tries.push(json!({ field: value }));
            }
            for field in fields(&definitions[spec]) {
                tries.push(json!({ "spec": { field: value } }));
            }
        }
        for mut object in tries {
            let strategy = &resource.strategy;
            let old = object.clone();
            strategy.default(&mut object);
            let mut created = object.clone();
            strategy.prepare_create(&mut created);
            strategy.prepare_update(&mut object, &old);
            let mut errors = FieldErrors::default();
            validate_metadata(&resource, &object, &mut errors);
            strategy.validate(&object, &mut errors);
            strategy.validate_update(&object, &old, &mut errors);
            strategy.warnings(&object);
            strategy.selectable(&object);
            strategy.row(&object, now);
            strategy.to_stored(&mut object);
            strategy.from_stored(&mut object);
        }
    }
}
