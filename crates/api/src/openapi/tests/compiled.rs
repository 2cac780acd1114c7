use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::PodSpec;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::DeleteOptions;
use minik8s_schema::{FieldErrors, ListType, Path, Schema, StrategicMerge, Type, structural_errors};
use schemars::JsonSchema;
use serde_json::{Value, json};

use super::super::definitions::Generator;
use super::super::{facts, schema_for, schema_of};
use super::{all, cron_tab, pod};
use crate::{Plain, Resource};

fn at(schema: &Arc<Schema>, path: &str) -> Arc<Schema> {
    path.split('.').fold(schema.clone(), |schema, name| match name {
        "[]" => schema.items.clone().unwrap(),
        "{}" => schema.values.clone().unwrap(),
        name => schema.fields.get(name).unwrap_or_else(|| panic!("no {name} in {path}")).clone(),
    })
}

#[test]
fn every_kind_has_a_schema() {
    for resource in all() {
        let schema = schema_of(&resource);
        assert_eq!(schema.ty, Type::Object, "{}", resource.kind);
        assert!(!schema.preserve_unknown, "{}", resource.kind);
        assert!(schema.fields.contains_key("metadata"), "{}", resource.kind);
        assert!(!schema.required.contains(&"metadata".into()), "{}", resource.kind);
        assert!(Arc::ptr_eq(&schema, &schema_of(&resource)), "{} is cached", resource.kind);
    }
}

#[test]
fn types_are_shared() {
    let pod = schema_of(&pod());
    let deployment = schema_of(&Resource::of::<Deployment>(Plain));
    assert!(Arc::ptr_eq(&at(&pod, "spec"), &at(&deployment, "spec.template.spec")));
    assert!(Arc::ptr_eq(&at(&pod, "metadata"), &at(&deployment, "metadata")));
}

#[test]
fn merge_keys_are_known() {
    let pod = schema_of(&pod());
    let keys = |keys: &[&str]| ListType::Map(keys.iter().map(|&key| key.into()).collect());
    let merge =
        |key: &str| StrategicMerge { merge: true, key: Some(key.into()), ..StrategicMerge::default() };
    let containers = at(&pod, "spec.containers");
    assert_eq!((&containers.list, &containers.merge), (&keys(&["name"]), &merge("name")));
    let ports = at(&containers, "[].ports");
    assert_eq!((&ports.list, &ports.merge), (&keys(&["containerPort", "protocol"]), &merge("containerPort")));
    assert_eq!(at(&ports, "[].protocol").default, Some(json!("TCP")));
    assert_eq!(at(&pod, "metadata.finalizers").list, ListType::Set);
    assert!(at(&pod, "spec.nodeSelector").atomic);
    assert!(at(&pod, "metadata.ownerReferences.[]").atomic);
    assert!(!at(&pod, "spec").atomic);
    let deployment = schema_of(&Resource::of::<Deployment>(Plain));
    let strategy = &at(&deployment, "spec.strategy").merge;
    assert_eq!(*strategy, StrategicMerge { retain_keys: true, ..StrategicMerge::default() });
}

#[test]
fn every_fact_is_about_a_field_that_exists() {
    let mut generator = Generator::new();
    let mut known = HashSet::new();
    for resource in all() {
        let crate::Definition::BuiltIn(ty) = resource.definition else { continue };
        generator.add(ty, &mut |name, definition| {
            for field in definition.get("properties").and_then(Value::as_object).into_iter().flatten() {
                known.insert((name.clone(), field.0.clone()));
            }
            known.insert((name, ".".to_owned()));
        });
    }
    for (name, field) in facts::all() {
        let reached = known.contains(&(name.to_owned(), ".".to_owned()));
        assert!(!reached || known.contains(&(name.to_owned(), field.to_owned())), "{name} has no {field}");
    }
}

#[test]
fn special_types() {
    let pod = schema_of(&pod());
    let limits = at(&pod, "spec.containers.[].resources.limits.{}");
    assert_eq!((limits.ty, limits.format.as_deref()), (Type::IntOrString, Some("quantity")));
    assert_eq!(at(&pod, "spec.containers.[].livenessProbe.httpGet.port").ty, Type::IntOrString);
    assert_eq!(at(&pod, "metadata.creationTimestamp").format.as_deref(), Some("date-time"));
    assert!(at(&pod, "metadata.managedFields.[].fieldsV1").preserve_unknown);
}

#[test]
fn a_recursive_type_is_open_below_itself() {
    let definition = schema_of(&Resource::of::<CustomResourceDefinition>(Plain));
    let root = at(&definition, "spec.versions.[].schema.openAPIV3Schema");
    assert_eq!(at(&root, "pattern").ty, Type::String);
    let mut schema = json!({"spec": {"versions": [{"schema": {"openAPIV3Schema": {
        "properties": {"a": {"any": "thing"}}, "items": [{}], "default": 5, "additionalProperties": true,
        "x-kubernetes-list-type": "map"}}}]}});
    let before = schema.clone();
    let findings = definition.check(&mut schema);
    assert_eq!(findings, Default::default());
    assert_eq!(schema, before);
}

#[test]
fn a_body_is_checked() {
    let deployment = schema_of(&Resource::of::<Deployment>(Plain));
    let mut body = json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": "web", "creationTimestamp": null, "labels": {"app": "web"}},
        "spec": {"replicas": "3", "replica": 3, "template": {"spec": {"containers": [{
            "name": "web", "imagePullpolicy": "Always",
            "resources": {"limits": {"cpu": 0.5, "memory": "1Gi"}},
            "ports": [{"containerPort": 80.5}],
        }]}}},
    });
    let findings = deployment.check(&mut body);
    let mismatches: Vec<String> = findings.mismatches.iter().map(ToString::to_string).collect();
    let unknown: Vec<String> = findings.unknown.iter().map(ToString::to_string).collect();
    assert_eq!(
        mismatches,
        [
            r#"json: cannot unmarshal string "3" into field spec.replicas of type int32"#,
            "json: cannot unmarshal number 80.5 into field spec.template.spec.containers[0].ports[0].containerPort of type int32",
        ]
    );
    assert_eq!(
        unknown,
        [
            r#"unknown field "spec.replica", did you mean "spec.replicas"?"#,
            r#"unknown field "spec.template.spec.containers[0].imagePullpolicy", did you mean "spec.template.spec.containers[0].imagePullPolicy"?"#,
        ]
    );
    assert_eq!(body["metadata"], json!({"name": "web", "labels": {"app": "web"}}));
}

#[test]
fn other_bodies() {
    let options = schema_for::<DeleteOptions>();
    assert_eq!(at(&options, "gracePeriodSeconds").ty, Type::Integer);
}

#[test]
fn custom_kinds() {
    let resource = cron_tab();
    let schema = schema_of(&resource);
    assert!(Arc::ptr_eq(&schema, &schema_of(&resource)), "cached");
    let mut object = json!({"apiVersion": "stable.example.com/v1", "kind": "CronTab",
        "metadata": {"name": "much-too-long", "labels": {"a": "b"}, "nome": 1},
        "spec": {"times": "x", "port": true, "raw": {"b": 1}, "tims": ""}});
    let unknown: Vec<String> = schema.prune(&mut object).iter().map(ToString::to_string).collect();
    assert_eq!(
        unknown,
        [
            r#"unknown field "metadata.nome", did you mean "metadata.name"?"#,
            r#"unknown field "spec.tims", did you mean "spec.times"?"#,
        ]
    );
    schema.drop_nulls(&mut object);
    schema.apply_defaults(&mut object);
    assert_eq!(object["spec"]["replicas"], json!(1));
    let mut errors = FieldErrors::default();
    schema.validate(&object, &Path::root(), &mut errors);
    let errors: Vec<String> = errors.iter().map(ToString::to_string).collect();
    assert_eq!(
        errors,
        [
            "metadata.name: Too long: may not be more than 8 bytes",
            r#"spec.times: Invalid value: "x": spec.times in body should match '^[0-9 *]+$'"#,
            r#"spec.port: Invalid value: "boolean": spec.port in body must be of type integer,string: "boolean""#,
        ]
    );
}

#[test]
fn embedded_metadata_is_that_of_all_objects() {
    let template = json!({"type": "object", "x-kubernetes-embedded-resource": true, "properties": {
        "metadata": {"type": "object", "properties": {"name": {"type": "string", "maxLength": 4}}},
        "spec": {"type": "object", "properties": {"a": {"type": "string"}}}}});
    let schema = json!({"type": "object", "properties": {
        "one": template.clone(), "many": {"type": "array", "items": template.clone()},
        "named": {"type": "object", "additionalProperties": template}}});
    let resource = Resource { definition: crate::Definition::Custom(Arc::new(schema)), ..cron_tab() };
    let schema = schema_of(&resource);
    let inner = json!({"apiVersion": "v1", "kind": "A", "spec": {"a": ""},
        "metadata": {"name": "long-one", "namespace": "default", "labels": {"a": "b"}, "unknownMeta": 1}});
    let mut object = json!({"one": inner.clone(), "many": [inner.clone()], "named": {"k": inner.clone()}});
    let unknown: Vec<String> = schema.prune(&mut object).iter().map(|u| u.path.to_string()).collect();
    assert_eq!(
        unknown,
        ["one.metadata.unknownMeta", "many[0].metadata.unknownMeta", "named[k].metadata.unknownMeta"]
    );
    assert_eq!(object["one"]["metadata"]["namespace"], "default");
    let mut errors = FieldErrors::default();
    schema.validate(&object, &Path::root(), &mut errors);
    let errors: Vec<String> = errors.iter().map(|e| e.path.to_string()).collect();
    assert_eq!(errors, ["one.metadata.name", "many[0].metadata.name", "named[k].metadata.name"]);
}

#[test]
fn a_custom_schema_that_cannot_be_compiled_takes_everything() {
    let resource = Resource {
        definition: crate::Definition::Custom(Arc::new(json!({"properties": {"a": 5}}))),
        ..cron_tab()
    };
    assert!(schema_of(&resource).preserve_unknown);
}

/// Operators put whole pod templates into their definitions; the schema of one must pass as structural.
#[test]
fn a_pod_template_is_structural() {
    fn inline(schema: &mut Value, definitions: &HashMap<String, Value>) {
        let reference = schema.get("$ref").or_else(|| schema.pointer("/allOf/0/$ref"));
        if let Some(name) = reference.and_then(Value::as_str).and_then(|r| r.rsplit('/').next()) {
            *schema = definitions[name].clone();
        }
        match schema {
            Value::Object(map) => map.values_mut().for_each(|value| inline(value, definitions)),
            Value::Array(list) => list.iter_mut().for_each(|value| inline(value, definitions)),
            _ => {}
        }
    }
    let mut definitions = HashMap::new();
    Generator::new().add(|g| g.subschema_for::<PodSpec>(), &mut |name, definition| {
        definitions.insert(name, Value::Object(definition));
    });
    let mut schema = definitions["io.k8s.api.core.v1.PodSpec"].clone();
    inline(&mut schema, &definitions);
    let schema = json!({"type": "object", "properties": {"spec": schema}});
    let mut errors = FieldErrors::default();
    structural_errors(&schema, &Path::new("schema"), &mut errors);
    assert_eq!(errors.iter().map(ToString::to_string).collect::<Vec<_>>(), Vec::<String>::new());
    assert!(Schema::compile(&schema, &mut |_| None).is_ok());
}

/// A kind of our own: optional fields may be left out or null, and null counts as left out.
#[test]
fn derived_types() {
    #[derive(JsonSchema)]
    #[schemars(rename = "io.minik8s.v1.Sample")]
    #[allow(dead_code)]
    struct Sample {
        name: Option<String>,
        count: u32,
        inner: Option<Inner>,
        mode: Mode,
    }

    #[derive(JsonSchema)]
    #[schemars(rename = "io.minik8s.v1.Inner")]
    #[allow(dead_code)]
    struct Inner {
        list: Vec<i32>,
    }

    #[derive(JsonSchema)]
    #[schemars(rename = "io.minik8s.v1.Mode")]
    #[allow(dead_code)]
    enum Mode {
        Fast,
        Slow,
    }

    let schema = schema_for::<Sample>();
    assert_eq!(at(&schema, "name").ty, Type::String);
    assert!(!at(&schema, "name").nullable);
    assert_eq!(at(&schema, "inner.list.[]").ty, Type::Integer);
    assert_eq!(at(&schema, "mode").rules.as_ref().unwrap().allowed, [json!("Fast"), json!("Slow")]);
    let mut value = json!({"name": null, "inner": null, "count": 1});
    assert_eq!(schema.check(&mut value), Default::default());
    assert_eq!(value, json!({"count": 1}));
}
