//! Definitions of built-in types as JSON, each generated once and handed over one by one.
//!
//! All of them together are megabytes, most of it descriptions; handing them over singly keeps only the
//! types of one kind in memory at a time.

use std::collections::HashMap;

use schemars::SchemaGenerator;
use schemars::generate::SchemaSettings;
use serde_json::{Map, Value, json};

use super::{custom, facts, special};
use crate::{Definition, Resource};

pub(super) type TypeFn = fn(&mut SchemaGenerator) -> schemars::Schema;

pub(super) const OBJECT_META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta";
pub(super) const LIST_META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.ListMeta";
pub(super) const STATUS: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.Status";
pub(super) const PATCH: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.Patch";
pub(super) const DELETE_OPTIONS: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.DeleteOptions";

/// Where references point inside a generated definition.
pub(super) const REFERENCE: &str = "#/components/schemas/";

/// Remembers which types it has handed over.
pub(super) struct Generator {
    generator: SchemaGenerator,
}

impl Generator {
    pub(super) fn new() -> Self {
        Generator { generator: SchemaSettings::openapi3().into_generator() }
    }

    /// The type's name. Its definition and those it needs go to `emit`, unless they went there before.
    pub(super) fn add(&mut self, ty: TypeFn, emit: &mut dyn FnMut(String, Map<String, Value>)) -> String {
        let before = self.generator.definitions().len();
        let reference = ty(&mut self.generator);
        let name = reference.get("$ref").and_then(Value::as_str).and_then(|r| r.rsplit('/').next());
        let name = name.unwrap_or_default().to_owned();
        if self.generator.definitions().len() == before {
            return name;
        }
        // A null stays behind, so that the generator takes the type for generated.
        let fresh: Vec<(String, Value)> = self
            .generator
            .definitions_mut()
            .iter_mut()
            .filter(|(_, definition)| !definition.is_null())
            .map(|(name, definition)| (name.clone(), definition.take()))
            .collect();
        for (name, definition) in fresh {
            let Ok(mut schema) = schemars::Schema::try_from(definition) else { continue };
            self.generator.transforms_mut().for_each(|transform| transform.transform(&mut schema));
            if let Value::Object(mut definition) = schema.to_value() {
                special::correct(&name, &mut definition);
                facts::apply(&name, &mut definition);
                emit(name, definition);
            }
        }
        name
    }
}

/// Hands over the definitions that a document about these resources needs, kinds marked as such.
/// Returns the definition's name of each resource, in the same order.
pub(super) fn each_definition(
    resources: &[&Resource],
    emit: &mut dyn FnMut(&str, &Map<String, Value>),
) -> Vec<String> {
    let mut generator = Generator::new();
    // Which kind a definition is for is known only when its own resource is reached, and another kind may
    // need it before that. So whatever looks like a kind waits for the end.
    let mut kinds: HashMap<String, Map<String, Value>> = HashMap::new();
    let mut hold = |name: String, definition: Map<String, Value>| {
        let is_kind = definition.get("properties").is_some_and(|p| p.get("kind").is_some());
        if is_kind {
            kinds.insert(name, definition);
        } else {
            emit(&name, &definition);
        }
    };
    for ty in support_types() {
        generator.add(ty, &mut |name, definition| hold(name, built_in(definition)));
    }
    let mut names = Vec::with_capacity(resources.len());
    for resource in resources {
        names.push(match &resource.definition {
            Definition::BuiltIn(ty) => {
                generator.add(*ty, &mut |name, definition| hold(name, built_in(definition)))
            }
            Definition::Custom(schema) => {
                let name = custom::definition_name(resource);
                hold(name.clone(), custom::published(schema));
                name
            }
        });
    }
    for (resource, name) in resources.iter().zip(&names) {
        let gvk = group_version_kind(&resource.group, &resource.version, &resource.kind);
        if let Some(definition) = kinds.get_mut(name) {
            mark(definition, gvk);
        }
        if resource.verbs.contains(&"list") {
            kinds.insert(format!("{name}List"), list_definition(resource, name));
        }
    }
    for (name, definition) in &kinds {
        emit(name, definition);
    }
    names
}

/// Documents tell free-form built-in types by having no fields, as clients know them.
fn built_in(mut definition: Map<String, Value>) -> Map<String, Value> {
    definition.remove(special::PRESERVE_UNKNOWN);
    definition
}

/// What a definition or an operation is about.
pub(super) fn group_version_kind(group: &str, version: &str, kind: &str) -> Value {
    json!({"group": group, "kind": kind, "version": version})
}

/// One type may serve several kinds.
fn mark(definition: &mut Map<String, Value>, gvk: Value) {
    let kinds = definition.entry("x-kubernetes-group-version-kind").or_insert_with(|| json!([]));
    if let Value::Array(kinds) = kinds {
        kinds.push(gvk);
    }
}

fn list_definition(resource: &Resource, name: &str) -> Map<String, Value> {
    let kind = format!("{}List", resource.kind);
    let gvk = group_version_kind(&resource.group, &resource.version, &kind);
    let list = json!({
        "description": format!("{kind} is a list of {} objects.", resource.kind),
        "type": "object",
        "required": ["items"],
        "properties": {
            "apiVersion": {"type": "string"},
            "items": {"type": "array", "items": {"$ref": format!("{REFERENCE}{name}")}},
            "kind": {"type": "string"},
            "metadata": {"$ref": format!("{REFERENCE}{LIST_META}")},
        },
        "x-kubernetes-group-version-kind": [gvk],
    });
    match list {
        Value::Object(list) => list,
        _ => Map::new(),
    }
}

/// Types that operations name, whatever the kind.
fn support_types() -> [TypeFn; 9] {
    use k8s_openapi::api::{authentication, autoscaling, core, policy};
    use k8s_openapi::apimachinery::pkg::apis::meta::v1 as meta;
    [
        |g| g.subschema_for::<meta::ObjectMeta>(),
        |g| g.subschema_for::<meta::ListMeta>(),
        |g| g.subschema_for::<meta::Status>(),
        |g| g.subschema_for::<meta::Patch>(),
        |g| g.subschema_for::<meta::DeleteOptions>(),
        |g| g.subschema_for::<autoscaling::v1::Scale>(),
        |g| g.subschema_for::<policy::v1::Eviction>(),
        |g| g.subschema_for::<core::v1::Binding>(),
        |g| g.subschema_for::<authentication::v1::TokenRequest>(),
    ]
}
