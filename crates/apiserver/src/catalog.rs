//! Everything the API serves at this moment: the built-in kinds and the custom ones.
//!
//! A snapshot is immutable and shared; adding or removing custom kinds makes a new one. Requests that
//! are under way keep the snapshot they began with.

use std::collections::HashMap;
use std::ops::Deref;
use std::sync::{Arc, OnceLock};

use minik8s_api::{Definition, Resource, Schema};
use minik8s_cel::rules::Rules;
use parking_lot::RwLock;
use serde_json::Value;

use crate::custom::Conversion;
use crate::looks::Looks;

/// A resource with what serving it needs, computed once.
pub struct Served {
    resource: Resource,
    pub api_version: String,
    /// `/registry/GROUP/PLURAL/`.
    pub prefix: String,
    /// How the stored JSON of every object begins.
    pub head: String,
    /// A custom kind whose schema has defaults: objects stored before those get them when they are read.
    pub defaulted_when_read: bool,
    schema: OnceLock<Arc<Schema>>,
    rules: OnceLock<Rules>,
    /// What watches have seen last.
    pub looks: Looks,
    /// Who converts objects between the versions of a custom kind.
    pub conversion: Option<Arc<Conversion>>,
}

impl Served {
    /// Whether clients that ask for protobuf get it.
    pub fn has_protobuf(&self) -> bool {
        minik8s_protobuf::knows(&self.api_version, &self.resource.kind)
    }

    pub fn new(resource: Resource) -> Self {
        let storage_group = resource.stored_as.as_ref().map_or(&resource.group, |(group, _)| group);
        let group = if storage_group.is_empty() { "core" } else { storage_group };
        Served {
            api_version: resource.api_version(),
            prefix: format!("/registry/{group}/{}/", resource.plural),
            head: format!(
                "{{\"kind\":\"{}\",\"apiVersion\":\"{}\",\"metadata\":{{",
                resource.kind,
                resource.api_version()
            ),
            defaulted_when_read: has_defaults(&resource.definition),
            schema: OnceLock::new(),
            rules: OnceLock::new(),
            looks: Looks::default(),
            conversion: None,
            resource,
        }
    }

    /// A custom kind, with who converts its objects.
    pub fn converted(resource: Resource, conversion: Option<Arc<Conversion>>) -> Self {
        Served { conversion, ..Served::new(resource) }
    }

    pub fn schema(&self) -> &Arc<Schema> {
        self.schema.get_or_init(|| minik8s_api::openapi::schema_of(&self.resource))
    }

    /// The validation rules in the schema of a custom kind.
    pub fn rules(&self) -> &Rules {
        self.rules.get_or_init(|| match &self.definition {
            Definition::Custom(schema) => Rules::compile(schema),
            _ => Rules::default(),
        })
    }

    pub fn key(&self, namespace: &str, name: &str) -> String {
        if self.namespaced {
            format!("{}{namespace}/{name}", self.prefix)
        } else {
            format!("{}{name}", self.prefix)
        }
    }

    /// The prefix of all keys of a namespace, or of all namespaces when it is empty.
    pub fn keys_in(&self, namespace: &str) -> String {
        if self.namespaced && !namespace.is_empty() {
            format!("{}{namespace}/", self.prefix)
        } else {
            self.prefix.clone()
        }
    }

    pub fn is_custom(&self) -> bool {
        matches!(self.definition, Definition::Custom(_))
    }

    pub fn resource(&self) -> &Resource {
        &self.resource
    }
}

impl Deref for Served {
    type Target = Resource;

    fn deref(&self) -> &Resource {
        &self.resource
    }
}

fn has_defaults(definition: &Definition) -> bool {
    fn anywhere(schema: &Value) -> bool {
        match schema {
            Value::Object(map) => map.contains_key("default") || map.values().any(anywhere),
            Value::Array(list) => list.iter().any(anywhere),
            _ => false,
        }
    }
    matches!(definition, Definition::Custom(schema) if anywhere(schema))
}

/// What is served, at one moment.
#[derive(Default)]
pub struct Snapshot {
    resources: Vec<Arc<Served>>,
    by_path: HashMap<String, Arc<Served>>,
}

impl Snapshot {
    fn new(resources: Vec<Arc<Served>>) -> Self {
        let by_path =
            resources.iter().map(|s| (path_of(&s.group, &s.version, &s.plural), s.clone())).collect();
        Snapshot { resources, by_path }
    }

    pub fn find(&self, group: &str, version: &str, plural: &str) -> Option<&Arc<Served>> {
        self.by_path.get(&path_of(group, version, plural))
    }

    /// Any version that serves this kind (for subresource bodies and owner references).
    pub fn find_kind(&self, group: &str, version: &str, kind: &str) -> Option<&Arc<Served>> {
        self.resources.iter().find(|s| s.group == group && s.version == version && s.kind == kind)
    }

    pub fn resources(&self) -> &[Arc<Served>] {
        &self.resources
    }

    /// Groups in discovery order, each with its versions, preferred first.
    pub fn groups(&self) -> Vec<(&str, Vec<&str>)> {
        let mut groups: Vec<(&str, Vec<&str>)> = Vec::new();
        for served in &self.resources {
            match groups.iter_mut().find(|(group, _)| *group == served.group) {
                Some((_, versions)) if versions.contains(&served.version.as_str()) => {}
                Some((_, versions)) => versions.push(&served.version),
                None => groups.push((&served.group, vec![&served.version])),
            }
        }
        for (_, versions) in &mut groups {
            versions.sort_by_key(|version| std::cmp::Reverse(version_priority(version)));
        }
        groups
    }

    pub fn of_version<'a>(
        &'a self,
        group: &'a str,
        version: &'a str,
    ) -> impl Iterator<Item = &'a Arc<Served>> {
        self.resources.iter().filter(move |s| s.group == group && s.version == version)
    }
}

/// v2 before v1 before v1beta2 before v1alpha1; anything else last.
pub fn version_priority(version: &str) -> (u8, u32, u32) {
    let Some(rest) = version.strip_prefix('v') else { return (0, 0, 0) };
    let digits = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
    let (major, stage) = rest.split_at(digits);
    let Ok(major) = major.parse() else { return (0, 0, 0) };
    let minor = |prefix: &str| stage.strip_prefix(prefix).and_then(|n| n.parse().ok());
    match stage {
        "" => (3, major, 0),
        _ => match (minor("beta"), minor("alpha")) {
            (Some(beta), _) => (2, major, beta),
            (_, Some(alpha)) => (1, major, alpha),
            _ => (0, 0, 0),
        },
    }
}

/// The current snapshot.
pub struct Catalog {
    built_in: Vec<Arc<Served>>,
    current: RwLock<Arc<Snapshot>>,
}

impl Catalog {
    pub fn new(resources: Vec<Resource>) -> Self {
        let built_in: Vec<_> = resources.into_iter().map(|r| Arc::new(Served::new(r))).collect();
        let current = RwLock::new(Arc::new(Snapshot::new(built_in.clone())));
        Catalog { built_in, current }
    }

    pub fn snapshot(&self) -> Arc<Snapshot> {
        self.current.read().clone()
    }

    /// Whether the program has this kind itself.
    pub fn is_built_in(&self, group: &str, plural: &str) -> bool {
        self.built_in.iter().any(|served| served.group == group && served.plural == plural)
    }

    /// Replaces all custom resources.
    pub fn set_custom(&self, custom: Vec<Served>) {
        let mut all = self.built_in.clone();
        all.extend(custom.into_iter().map(Arc::new));
        *self.current.write() = Arc::new(Snapshot::new(all));
    }
}

fn path_of(group: &str, version: &str, plural: &str) -> String {
    format!("{group}/{version}/{plural}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_sort_by_stability() {
        let mut versions = ["v1alpha1", "v1", "foo", "v2beta1", "v10", "v2"];
        versions.sort_by_key(|v| std::cmp::Reverse(version_priority(v)));
        assert_eq!(versions, ["v10", "v2", "v1", "v2beta1", "v1alpha1", "foo"]);
    }
}
