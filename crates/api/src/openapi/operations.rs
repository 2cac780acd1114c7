//! Paths and operations of a resource, as both OpenAPI versions describe them.

use serde_json::Value;

use super::definitions::{DELETE_OPTIONS, PATCH, STATUS, group_version_kind};
use super::parameters::{self, Parameter};
use crate::{Definition, Resource, Subresource};

/// One path template and what can be done there.
pub(super) struct Path {
    pub template: String,
    pub operations: Vec<Operation>,
}

pub(super) struct Operation {
    pub method: &'static str,
    /// `x-kubernetes-action`.
    pub action: &'static str,
    pub id: String,
    pub tag: String,
    /// `x-kubernetes-group-version-kind`.
    pub gvk: Value,
    pub parameters: &'static [Parameter],
    /// Media types and definition of the body.
    pub body: Option<(&'static [&'static str], String)>,
    /// Definition of the answer; none for streams.
    pub answer: Option<String>,
}

const JSON: &[&str] = &["application/json"];
const PATCHES: &[&str] = &[
    "application/json-patch+json",
    "application/merge-patch+json",
    "application/strategic-merge-patch+json",
    "application/apply-patch+yaml",
];
/// Custom kinds have no merge keys.
const CUSTOM_PATCHES: &[&str] =
    &["application/json-patch+json", "application/merge-patch+json", "application/apply-patch+yaml"];

impl Path {
    pub(super) fn has(&self, parameter: &str) -> bool {
        self.template.split('/').any(|part| part.strip_prefix('{') == Some(&format!("{parameter}}}")))
    }
}

/// `/api/v1`, `/apis/apps/v1`.
pub(super) fn prefix(group: &str, version: &str) -> String {
    if group.is_empty() { format!("/api/{version}") } else { format!("/apis/{group}/{version}") }
}

/// Every path of a resource whose definition is called `definition`.
pub(super) fn paths_of(resource: &Resource, definition: &str) -> Vec<Path> {
    let writer = Writer { resource, definition };
    let prefix = prefix(&resource.group, &resource.version);
    let plural = &resource.plural;
    let collection = match resource.namespaced {
        true => format!("{prefix}/namespaces/{{namespace}}/{plural}"),
        false => format!("{prefix}/{plural}"),
    };
    let item = format!("{collection}/{{name}}");
    let mut paths = Vec::new();
    if resource.namespaced {
        paths.push(Path { template: format!("{prefix}/{plural}"), operations: writer.across_namespaces() });
    }
    paths.push(Path { template: collection, operations: writer.on_collection() });
    for subresource in &resource.subresources {
        let (name, operations) = writer.on_subresource(subresource);
        paths.push(Path { template: format!("{item}/{name}"), operations });
    }
    paths.push(Path { template: item, operations: writer.on_item() });
    paths.retain(|path| !path.operations.is_empty());
    paths
}

struct Writer<'a> {
    resource: &'a Resource,
    definition: &'a str,
}

impl Writer<'_> {
    fn across_namespaces(&self) -> Vec<Operation> {
        if !self.resource.verbs.contains(&"list") {
            return Vec::new();
        }
        let group_version = group_version_id(self.resource);
        let id = format!("list{group_version}{}ForAllNamespaces", self.resource.kind);
        vec![Operation { id, ..self.operation("list", "", "").unwrap_or_else(|| self.blank()) }]
    }

    fn on_collection(&self) -> Vec<Operation> {
        self.operations(&["list", "create", "deletecollection"])
    }

    fn on_item(&self) -> Vec<Operation> {
        self.operations(&["get", "update", "patch", "delete"])
    }

    fn operations(&self, verbs: &[&'static str]) -> Vec<Operation> {
        let served = verbs.iter().filter(|verb| self.resource.verbs.contains(verb));
        served.filter_map(|verb| self.operation(verb, self.definition, "")).collect()
    }

    fn on_subresource(&self, subresource: &Subresource) -> (&'static str, Vec<Operation>) {
        let usual: &[&str] = &["get", "update", "patch"];
        let (name, kind, verbs) = match subresource {
            Subresource::Status => ("status", self.resource.kind.as_str(), usual),
            Subresource::Scale { .. } => ("scale", "Scale", usual),
            Subresource::Other { name, kind, verbs } => (*name, *kind, *verbs),
        };
        let (gvk, definition) = self.body_kind(kind);
        let mut operations: Vec<Operation> =
            verbs.iter().filter_map(|verb| self.operation(verb, &definition, name)).collect();
        for operation in &mut operations {
            operation.gvk = gvk.clone();
        }
        (name, operations)
    }

    /// What a subresource speaks of: its kind and the name of its definition, if it has one.
    fn body_kind(&self, kind: &str) -> (Value, String) {
        let (group, version, definition) = match kind {
            "Scale" => ("autoscaling", "v1", "io.k8s.api.autoscaling.v1.Scale"),
            "Eviction" => ("policy", "v1", "io.k8s.api.policy.v1.Eviction"),
            "TokenRequest" => ("authentication.k8s.io", "v1", "io.k8s.api.authentication.v1.TokenRequest"),
            "Binding" => ("", "v1", "io.k8s.api.core.v1.Binding"),
            _ if kind == self.resource.kind => {
                (self.resource.group.as_str(), self.resource.version.as_str(), self.definition)
            }
            _ => (self.resource.group.as_str(), self.resource.version.as_str(), ""),
        };
        (group_version_kind(group, version, kind), definition.to_owned())
    }

    /// The operation of a verb; `definition` is empty where no schema describes the body.
    fn operation(&self, verb: &str, definition: &str, subresource: &str) -> Option<Operation> {
        let kind = |definition: &str| (!definition.is_empty()).then(|| definition.to_owned());
        let body = |definition: &str| kind(definition).map(|definition| (JSON, definition));
        let patches = match self.resource.definition {
            Definition::BuiltIn(_) => PATCHES,
            Definition::Custom(_) => CUSTOM_PATCHES,
        };
        let (method, action, word, parameters, body, answer) = match verb {
            "list" => {
                let list = format!("{}List", self.definition);
                ("get", "list", "list", parameters::LIST, None, Some(list))
            }
            "create" => ("post", "post", "create", parameters::WRITE, body(definition), kind(definition)),
            "deletecollection" => {
                let options = Some((JSON, DELETE_OPTIONS.to_owned()));
                let parameters = parameters::DELETE_COLLECTION;
                ("delete", "deletecollection", "delete", parameters, options, kind(STATUS))
            }
            "get" => ("get", "get", "read", parameters::NONE, None, kind(definition)),
            "update" => ("put", "put", "replace", parameters::WRITE, body(definition), kind(definition)),
            "patch" => {
                let body = Some((patches, PATCH.to_owned()));
                ("patch", "patch", "patch", parameters::PATCH, body, kind(definition))
            }
            "delete" => {
                let options = Some((JSON, DELETE_OPTIONS.to_owned()));
                ("delete", "delete", "delete", parameters::DELETE, options, kind(STATUS))
            }
            "connect" => ("get", "connect", "connect", parameters::NONE, None, None),
            _ => return None,
        };
        let collection = if verb == "deletecollection" { "Collection" } else { "" };
        Some(Operation {
            method,
            action,
            id: self.id(word, collection, subresource),
            parameters,
            body,
            answer,
            ..self.blank()
        })
    }

    fn blank(&self) -> Operation {
        let resource = self.resource;
        let group = if resource.group.is_empty() { "core" } else { &resource.group };
        Operation {
            method: "get",
            action: "get",
            id: String::new(),
            tag: format!("{}_{}", group.split('.').next().unwrap_or(group), resource.version),
            gvk: group_version_kind(&resource.group, &resource.version, &resource.kind),
            parameters: parameters::NONE,
            body: None,
            answer: None,
        }
    }

    /// `readAppsV1NamespacedDeploymentStatus`: generated clients name their functions after it.
    fn id(&self, word: &str, collection: &str, subresource: &str) -> String {
        let scope = if self.resource.namespaced { "Namespaced" } else { "" };
        let group_version = group_version_id(self.resource);
        format!("{word}{group_version}{collection}{scope}{}{}", self.resource.kind, capital(subresource))
    }
}

fn group_version_id(resource: &Resource) -> String {
    let group = match resource.group.strip_suffix(".k8s.io").unwrap_or(&resource.group) {
        "" => "Core".to_owned(),
        group => group.split(['.', '-']).map(capital).collect(),
    };
    format!("{group}{}", capital(&resource.version))
}

fn capital(word: &str) -> String {
    let mut chars = word.chars();
    chars.next().map_or_else(String::new, |first| first.to_uppercase().chain(chars).collect())
}
