//! From a CustomResourceDefinition to the resources it defines.

use std::sync::Arc;

use minik8s_api::{Backing, Definition, NameRule, Resource, Subresource};
use serde_json::{Value, json};

use super::kind::CustomKind;

const VERBS: [&str; 8] = ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"];

/// One resource per served version.
pub fn resources_of(definition: &Value) -> Vec<Resource> {
    let versions = definition["spec"]["versions"].as_array().cloned().unwrap_or_default();
    let storage = versions.iter().find(|version| version["storage"] == true);
    let storage = storage.and_then(|version| version["name"].as_str()).unwrap_or_default().to_owned();
    let served = versions.iter().filter(|version| version["served"] == true);
    served.map(|version| resource(definition, version, &storage)).collect()
}

fn resource(definition: &Value, version: &Value, storage: &str) -> Resource {
    let spec = &definition["spec"];
    let names = &spec["names"];
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let texts = |value: &Value| -> Vec<String> {
        value.as_array().into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect()
    };
    let kind = text(&names["kind"]);
    let group = text(&spec["group"]);
    let name = text(&version["name"]);
    let singular = match text(&names["singular"]) {
        empty if empty.is_empty() => kind.to_lowercase(),
        given => given,
    };
    let any = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    let schema = version["schema"].get("openAPIV3Schema").cloned().unwrap_or(any);
    Resource {
        backing: Backing::Stored,
        handlers: Vec::new(),
        state_metrics: None,
        stored_as: (name != storage).then(|| (group.clone(), storage.to_owned())),
        group,
        version: name,
        plural: text(&names["plural"]),
        singular,
        short_names: texts(&names["shortNames"]),
        categories: texts(&names["categories"]),
        namespaced: spec["scope"] == "Namespaced",
        names: NameRule::Subdomain,
        verbs: VERBS.to_vec(),
        subresources: subresources(&version["subresources"]),
        generation: true,
        created_by_put: false,
        versioned_puts: true,
        returns_deleted: false,
        is_namespace: false,
        definition: Definition::Custom(Arc::new(schema)),
        strategy: Arc::new(CustomKind::new(version)),
        kind,
    }
}

fn subresources(declared: &Value) -> Vec<Subresource> {
    let mut found = Vec::new();
    if declared.get("status").is_some_and(Value::is_object) {
        found.push(Subresource::Status);
    }
    if let Some(scale) = declared.get("scale").filter(|scale| scale.is_object()) {
        let text = |field: &str| scale[field].as_str().unwrap_or_default().to_owned();
        found.push(Subresource::Scale {
            spec_replicas: text("specReplicasPath"),
            status_replicas: text("statusReplicasPath"),
            selector: scale["labelSelectorPath"].as_str().map(str::to_owned),
        });
    }
    found
}
