use std::collections::HashSet;

use serde_json::{Value, json};

use super::super::{Published, v2_json, v2_protobuf, v3_document, v3_index};
use super::reader::{all as every, get, named, text};
use super::{all, cron_tab, pod, references};
use crate::Resource;

fn v3(group: &str, version: &str) -> Value {
    let resources = all();
    let resources: Vec<&Resource> = resources.iter().collect();
    v3_document(group, version, &resources).unwrap().parse().unwrap()
}

fn v2() -> Value {
    let resources = all();
    let resources: Vec<&Resource> = resources.iter().collect();
    v2_json(&resources, &Published::default()).parse().unwrap()
}

#[test]
fn the_index_has_every_group_and_version() {
    let resources = all();
    let resources: Vec<&Resource> = resources.iter().collect();
    let index = v3_index(&resources);
    assert_eq!(index, v3_index(&resources), "stable");
    let paths = index["paths"].as_object().unwrap();
    for name in ["api/v1", "apis/apps/v1", "apis/autoscaling/v2", "apis/stable.example.com/v1"] {
        let url = paths[name]["serverRelativeURL"].as_str().unwrap();
        assert!(url.starts_with(&format!("/openapi/v3/{name}?hash=")), "{url}");
    }
    let mut changed = cron_tab();
    changed.definition = crate::Definition::Custom(json!({"type": "object"}).into());
    assert_ne!(v3_index(&[&changed]), v3_index(&[&cron_tab()]), "follows the definition");
}

#[test]
fn references_lead_somewhere() {
    let v2 = v2();
    let documents = [
        (v3("", "v1"), "/components/schemas", "#/components/schemas/"),
        (v3("apps", "v1"), "/components/schemas", "#/components/schemas/"),
        (v3("apiextensions.k8s.io", "v1"), "/components/schemas", "#/components/schemas/"),
        (v3("stable.example.com", "v1"), "/components/schemas", "#/components/schemas/"),
        (v2, "/definitions", "#/definitions/"),
    ];
    for (document, place, prefix) in documents {
        let known = document.pointer(place).unwrap().as_object().unwrap();
        let mut found = Vec::new();
        references(&document, &mut found);
        assert!(found.len() > 20);
        for reference in found {
            let name = reference.strip_prefix(prefix).unwrap_or_else(|| panic!("{reference}"));
            assert!(known.contains_key(name), "{reference}");
        }
    }
}

#[test]
fn an_unknown_group_has_no_document() {
    assert!(v3_document("nope", "v1", &[&pod()]).is_none());
    assert!(v3_document("", "v2", &[&pod()]).is_none());
}

#[test]
fn v3_definitions() {
    let document = v3("apps", "v1");
    let schemas = &document["components"]["schemas"];
    let deployment = &schemas["io.k8s.api.apps.v1.Deployment"];
    assert_eq!(
        deployment["x-kubernetes-group-version-kind"],
        json!([{"group": "apps", "kind": "Deployment", "version": "v1"}])
    );
    let spec = &deployment["properties"]["spec"];
    assert_eq!(spec["allOf"], json!([{"$ref": "#/components/schemas/io.k8s.api.apps.v1.DeploymentSpec"}]));
    assert!(spec["description"].is_string() && spec.get("$ref").is_none());
    let containers = &schemas["io.k8s.api.core.v1.PodSpec"]["properties"]["containers"];
    assert_eq!(containers["x-kubernetes-patch-merge-key"], "name");
    assert_eq!(containers["x-kubernetes-patch-strategy"], "merge");
    assert_eq!(containers["x-kubernetes-list-map-keys"], json!(["name"]));
    let quantity = &schemas["io.k8s.apimachinery.pkg.api.resource.Quantity"];
    assert_eq!(quantity["oneOf"], json!([{"type": "string"}, {"type": "number"}]));
    let list = &schemas["io.k8s.api.apps.v1.DeploymentList"];
    assert_eq!(list["x-kubernetes-group-version-kind"][0]["kind"], "DeploymentList");
    // StatefulSets hold claims, whose group is another.
    assert!(schemas.get("io.k8s.api.core.v1.PersistentVolumeClaim").is_some());
}

#[test]
fn v3_paths() {
    let document = v3("apps", "v1");
    let item = &document["paths"]["/apis/apps/v1/namespaces/{namespace}/deployments/{name}"];
    let patch = &item["patch"];
    assert_eq!(patch["operationId"], "patchAppsV1NamespacedDeployment");
    assert_eq!(patch["x-kubernetes-action"], "patch");
    let gvk = json!({"group": "apps", "kind": "Deployment", "version": "v1"});
    assert_eq!(patch["x-kubernetes-group-version-kind"], gvk);
    let names: HashSet<&str> =
        patch["parameters"].as_array().unwrap().iter().map(|p| p["name"].as_str().unwrap()).collect();
    assert!(names.contains("fieldValidation") && names.contains("dryRun"), "{names:?}");
    assert!(patch["requestBody"]["content"].get("application/strategic-merge-patch+json").is_some());
    let path_parameters: Vec<&Value> =
        item["parameters"].as_array().unwrap().iter().map(|p| &p["name"]).collect();
    assert_eq!(path_parameters, ["name", "namespace"]);
    let scale = &document["paths"]["/apis/apps/v1/namespaces/{namespace}/deployments/{name}/scale"];
    assert_eq!(scale["get"]["x-kubernetes-group-version-kind"]["group"], "autoscaling");
    let everywhere = &document["paths"]["/apis/apps/v1/deployments"];
    assert_eq!(everywhere["get"]["operationId"], "listAppsV1DeploymentForAllNamespaces");
    assert!(everywhere.get("post").is_none() && everywhere.get("parameters").is_none());

    let core = v3("", "v1");
    let exec = &core["paths"]["/api/v1/namespaces/{namespace}/pods/{name}/exec"];
    assert_eq!(exec["get"]["x-kubernetes-action"], "connect");
    let eviction = &core["paths"]["/api/v1/namespaces/{namespace}/pods/{name}/eviction"];
    assert_eq!(eviction["post"]["x-kubernetes-group-version-kind"]["kind"], "Eviction");
    assert!(core["paths"].get("/api/v1/nodes/{name}").is_some());

    let custom = v3("stable.example.com", "v1");
    let patch =
        &custom["paths"]["/apis/stable.example.com/v1/namespaces/{namespace}/crontabs/{name}"]["patch"];
    assert!(patch["requestBody"]["content"].get("application/strategic-merge-patch+json").is_none());
}

#[test]
fn operation_ids_are_unique() {
    let mut seen = HashSet::new();
    for (_, path) in v2()["paths"].as_object().unwrap() {
        for operation in path.as_object().unwrap().values().filter(|value| value.is_object()) {
            let id = operation["operationId"].as_str().unwrap().to_owned();
            assert!(seen.insert(id.clone()), "{id}");
        }
    }
}

#[test]
fn v2_has_no_words_of_v3() {
    fn look(value: &Value, path: &str) {
        let Value::Object(schema) = value else { return };
        for word in ["oneOf", "anyOf", "allOf", "not", "nullable"] {
            assert!(!schema.contains_key(word), "{word} in {path}");
        }
        if schema.get("type").is_some_and(|ty| ty == "array") {
            assert!(schema.contains_key("items"), "{path} has no items");
        }
        for (name, property) in schema.get("properties").and_then(Value::as_object).into_iter().flatten() {
            look(property, &format!("{path}.{name}"));
        }
        for name in ["items", "additionalProperties"] {
            if let Some(below) = schema.get(name) {
                look(below, &format!("{path}.{name}"));
            }
        }
    }
    let document = v2();
    let definitions = document["definitions"].as_object().unwrap();
    definitions.iter().for_each(|(name, definition)| look(definition, name));
    let custom = &definitions["com.example.stable.v1.CronTab"]["properties"]["spec"]["properties"];
    assert_eq!(custom["raw"], json!({"x-kubernetes-preserve-unknown-fields": true}));
    assert_eq!(custom["port"], json!({"x-kubernetes-int-or-string": true}));
    assert_eq!(custom["replicas"], json!({"default": 1}));
}

/// What upstream's conformance tests compare.
#[test]
fn v2_custom_kinds() {
    let published = |schema: Value| {
        let resource = Resource { definition: crate::Definition::Custom(schema.into()), ..cron_tab() };
        let document: Value = v2_json(&[&resource], &Published::default()).parse().unwrap();
        let mut definition = document["definitions"]["com.example.stable.v1.CronTab"].clone();
        let kind = definition.as_object_mut().unwrap().shift_remove("x-kubernetes-group-version-kind");
        assert_eq!(kind, Some(json!([{"group": "stable.example.com", "kind": "CronTab", "version": "v1"}])));
        for name in ["apiVersion", "kind", "metadata"] {
            if let Some(Value::Object(properties)) = definition.get_mut("properties") {
                assert!(properties.shift_remove(name).is_some(), "{name}");
            }
        }
        definition
    };
    let closed = json!({"type": "object", "description": "d", "properties": {"spec": {"type": "object", "properties": {
        "list": {"type": "array", "items": {"type": "object", "required": ["a"], "properties": {
            "a": {"type": "string", "enum": ["x", "y"], "pattern": "x|y"}}}}}}}});
    assert_eq!(published(closed.clone()), closed, "a plain schema is published as it is");
    let open = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true, "properties": {"a": {"type": "string"}}});
    assert_eq!(published(open.clone()), json!({"type": "object"}));
    let nested = json!({"type": "object", "properties": {"spec": open}});
    let kept = json!({"x-kubernetes-preserve-unknown-fields": true});
    assert_eq!(published(nested), json!({"type": "object", "properties": {"spec": kept}}));
    let nullable = json!({"type": "object", "required": ["a", "b"], "properties": {
        "a": {"type": "string", "nullable": true}, "b": {"type": "string"}}});
    let expected =
        json!({"type": "object", "required": ["b"], "properties": {"a": {}, "b": {"type": "string"}}});
    assert_eq!(published(nullable), expected);
}

#[test]
fn free_form_built_in_types_have_no_fields() {
    let document = v2();
    let raw = &document["definitions"]["io.k8s.apimachinery.pkg.runtime.RawExtension"];
    assert_eq!(raw["type"], "object");
    let json = &document["definitions"]["io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSON"];
    assert!(json.get("type").is_none() && json["description"].is_string());
}

#[test]
fn protobuf_says_what_json_says() {
    let resources = all();
    let resources: Vec<&Resource> = resources.iter().collect();
    let bytes = v2_protobuf(&resources, &Published::default());
    let json = v2();
    assert_eq!(text(get(&bytes, &[1])), "2.0");
    let definitions = get(&bytes, &[9]);
    let names: HashSet<&str> = every(definitions, 1).map(|entry| text(get(entry, &[1]))).collect();
    let expected: HashSet<&str> =
        json["definitions"].as_object().unwrap().keys().map(String::as_str).collect();
    assert_eq!(names, expected);
    let paths: HashSet<&str> = every(get(&bytes, &[8]), 2).map(|entry| text(get(entry, &[1]))).collect();
    let expected: HashSet<&str> = json["paths"].as_object().unwrap().keys().map(String::as_str).collect();
    assert_eq!(paths, expected);

    let property =
        |definition: &str, name: &str| named(get(named(definitions, 1, definition), &[25]), 1, name).to_vec();
    let containers = property("io.k8s.api.core.v1.PodSpec", "containers");
    assert_eq!(text(get(&containers, &[22, 1])), "array");
    assert_eq!(text(get(&containers, &[23, 1, 1])), "#/definitions/io.k8s.api.core.v1.Container");
    assert_eq!(text(get(named(&containers, 31, "x-kubernetes-patch-merge-key"), &[2])), "\"name\"");
    assert!(!get(&containers, &[4]).is_empty(), "described");
    let labels = property("io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta", "labels");
    assert_eq!(text(get(&labels, &[21, 1, 22, 1])), "string");
    let pod = named(definitions, 1, "io.k8s.api.core.v1.Pod");
    let gvk: Value = text(get(named(pod, 31, "x-kubernetes-group-version-kind"), &[2])).parse().unwrap();
    assert_eq!(gvk, json!([{"group": "", "kind": "Pod", "version": "v1"}]));
}

#[test]
fn parts_of_others_stand_beside_our_own() {
    let object = |value: Value| value.as_object().unwrap().clone();
    let others = Published {
        definitions: object(json!({"a.Thing": {"type": "string"}, "io.k8s.api.core.v1.Pod": {}})),
        paths: object(json!({"/apis/a/v1/things": {"get": {"operationId": "listThings"}}})),
    };
    let document: Value = v2_json(&[&pod()], &others).parse().unwrap();
    assert_eq!(document["definitions"]["a.Thing"], json!({"type": "string"}));
    assert!(document["definitions"]["io.k8s.api.core.v1.Pod"]["properties"].is_object(), "ours stays ours");
    assert_eq!(document["paths"]["/apis/a/v1/things"]["get"]["operationId"], "listThings");
    let bytes = v2_protobuf(&[&pod()], &others);
    assert_eq!(text(get(named(get(&bytes, &[9]), 1, "a.Thing"), &[22, 1])), "string");
    assert_eq!(text(get(named(get(&bytes, &[8]), 2, "/apis/a/v1/things"), &[2, 5])), "listThings");
    assert_eq!(
        every(get(&bytes, &[9]), 1).filter(|entry| text(get(entry, &[1])).ends_with(".Pod")).count(),
        1
    );
}

#[test]
fn protobuf_patch_operations_name_what_clients_look_for() {
    let bytes = v2_protobuf(&[&pod()], &Published::default());
    let item = named(get(&bytes, &[8]), 2, "/api/v1/namespaces/{namespace}/pods/{name}");
    let patch = get(item, &[8]);
    let gvk: Value = text(get(named(patch, 13, "x-kubernetes-group-version-kind"), &[2])).parse().unwrap();
    assert_eq!(gvk, json!({"group": "", "kind": "Pod", "version": "v1"}));
    let query: Vec<&str> = every(patch, 8).map(|p| text(get(p, &[1, 2, 3, 4]))).collect();
    assert!(query.contains(&"fieldValidation") && query.contains(&"dryRun"), "{query:?}");
    let consumes: Vec<&str> = every(patch, 7).map(text).collect();
    assert!(consumes.contains(&"application/strategic-merge-patch+json"), "{consumes:?}");
    let place: Vec<&str> = every(item, 9).map(|p| text(get(p, &[1, 2, 4, 4]))).collect();
    assert_eq!(place, ["name", "namespace"]);
}
