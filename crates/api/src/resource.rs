//! The descriptor of one resource in one API version.

use std::sync::Arc;

use schemars::{JsonSchema, SchemaGenerator};
use serde_json::Value;

use crate::state_metrics::StateMetrics;
use crate::{Backing, Computed, Handler, NameRule, Strategy};

/// The finalizer under which the API server deletes the objects of a custom kind before its definition goes.
pub const CUSTOM_RESOURCE_CLEANUP: &str = "customresourcecleanup.apiextensions.k8s.io";

/// Everything the server must know of a resource.
#[derive(Clone)]
pub struct Resource {
    /// Empty for the core group.
    pub group: String,
    pub version: String,
    pub kind: String,
    pub plural: String,
    pub singular: String,
    pub short_names: Vec<String>,
    pub categories: Vec<String>,
    pub namespaced: bool,
    pub names: NameRule,
    pub verbs: Vec<&'static str>,
    pub subresources: Vec<Subresource>,
    /// `metadata.generation` counts changes of everything but metadata and status.
    pub generation: bool,
    /// A PUT of an object that is not there creates it.
    pub created_by_put: bool,
    /// A PUT must say which `resourceVersion` it changes.
    pub versioned_puts: bool,
    /// A DELETE answers with the object that is gone, not with a Status.
    pub returns_deleted: bool,
    /// Its objects are what others live in: a path to one of them names a namespace.
    pub is_namespace: bool,
    /// Group and version in which objects are stored, where that is not this resource's own
    /// (autoscaling/v1 is stored as v2, events.k8s.io as core).
    pub stored_as: Option<(String, String)>,
    pub backing: Backing,
    /// Who answers the subresources that the feature of this kind answers itself, by name.
    pub handlers: Vec<(&'static str, Arc<dyn Handler>)>,
    /// What its objects add to `/metrics/kube-state`.
    pub state_metrics: Option<StateMetrics>,
    pub definition: Definition,
    pub strategy: Arc<dyn Strategy>,
}

/// Where the schema comes from.
#[derive(Clone)]
pub enum Definition {
    /// Adds the type and what it refers to, and returns a `$ref` to it.
    BuiltIn(fn(&mut SchemaGenerator) -> schemars::Schema),
    /// `openAPIV3Schema` of a CustomResourceDefinition.
    Custom(Arc<Value>),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Subresource {
    Status,
    /// JSON paths as in a CustomResourceDefinition: `.spec.replicas`.
    Scale {
        spec_replicas: String,
        status_replicas: String,
        selector: Option<String>,
    },
    /// Handled by name in the API server, with the kind of its body and its verbs.
    Other {
        name: &'static str,
        kind: &'static str,
        verbs: &'static [&'static str],
    },
}

const ALL_VERBS: &[&str] =
    &["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"];

impl Resource {
    /// A resource of a `k8s-openapi` type: names, scope and schema come from the type.
    pub fn of<T>(strategy: impl Strategy) -> Self
    where
        T: k8s_openapi::Resource + JsonSchema,
        T::Scope: ScopeName,
    {
        Resource {
            group: T::GROUP.to_owned(),
            version: T::VERSION.to_owned(),
            kind: T::KIND.to_owned(),
            plural: T::URL_PATH_SEGMENT.to_owned(),
            singular: T::KIND.to_lowercase(),
            short_names: Vec::new(),
            categories: Vec::new(),
            namespaced: T::Scope::NAMESPACED,
            names: NameRule::default(),
            verbs: ALL_VERBS.to_vec(),
            subresources: Vec::new(),
            generation: false,
            created_by_put: false,
            versioned_puts: false,
            returns_deleted: false,
            is_namespace: false,
            stored_as: None,
            backing: Backing::Stored,
            handlers: Vec::new(),
            state_metrics: None,
            definition: Definition::BuiltIn(|generator| generator.subschema_for::<T>()),
            strategy: Arc::new(strategy),
        }
    }

    pub fn short(mut self, names: &[&str]) -> Self {
        self.short_names = names.iter().map(|&n| n.to_owned()).collect();
        self
    }

    /// Part of `kubectl get all`.
    pub fn in_all(self) -> Self {
        self.category("all")
    }

    pub fn category(mut self, name: &str) -> Self {
        self.categories.push(name.to_owned());
        self
    }

    pub fn named(mut self, rule: NameRule) -> Self {
        self.names = rule;
        self
    }

    /// Counts `metadata.generation`.
    pub fn counted(mut self) -> Self {
        self.generation = true;
        self
    }

    /// A PUT of an object that is not there creates it.
    pub fn created_by_put(mut self) -> Self {
        self.created_by_put = true;
        self
    }

    /// A PUT must say which `resourceVersion` it changes.
    pub fn versioned_puts(mut self) -> Self {
        self.versioned_puts = true;
        self
    }

    /// A DELETE answers with the object that is gone.
    pub fn returns_deleted(mut self) -> Self {
        self.returns_deleted = true;
        self
    }

    pub fn status(mut self) -> Self {
        self.subresources.push(Subresource::Status);
        self
    }

    /// The scale subresource with the paths that workloads use.
    pub fn scale(mut self) -> Self {
        self.subresources.push(Subresource::Scale {
            spec_replicas: ".spec.replicas".to_owned(),
            status_replicas: ".status.replicas".to_owned(),
            selector: Some(".status.selector".to_owned()),
        });
        self
    }

    pub fn with(mut self, name: &'static str, kind: &'static str, verbs: &'static [&'static str]) -> Self {
        self.subresources.push(Subresource::Other { name, kind, verbs });
        self
    }

    /// A subresource that the feature of this kind answers itself; `kind` is what discovery says of its body.
    pub fn handled(
        self,
        name: &'static str,
        kind: &'static str,
        verbs: &'static [&'static str],
        handler: impl Handler + 'static,
    ) -> Self {
        let mut resource = self.with(name, kind, verbs);
        resource.handlers.push((name, Arc::new(handler)));
        resource
    }

    pub fn handler(&self, subresource: &str) -> Option<&Arc<dyn Handler>> {
        self.handlers.iter().find(|(name, _)| *name == subresource).map(|(_, handler)| handler)
    }

    /// What its objects add to `/metrics/kube-state`.
    pub fn state_metrics(mut self, write: StateMetrics) -> Self {
        self.state_metrics = Some(write);
        self
    }

    pub fn only(mut self, verbs: &[&'static str]) -> Self {
        self.verbs = verbs.to_vec();
        self
    }

    /// A question: created, answered and forgotten.
    pub fn review(self) -> Self {
        Resource { backing: Backing::Review, ..self.only(&["create"]) }
    }

    /// Its objects are made when they are read.
    pub fn computed(self, computed: impl Computed + 'static) -> Self {
        Resource { backing: Backing::Computed(Arc::new(computed)), ..self.only(&["get", "list"]) }
    }

    pub fn stored_as(mut self, group: &str, version: &str) -> Self {
        self.stored_as = Some((group.to_owned(), version.to_owned()));
        self
    }

    /// `v1` or `apps/v1`.
    pub fn api_version(&self) -> String {
        join_group_version(&self.group, &self.version)
    }

    /// The `apiVersion` of stored objects.
    pub fn stored_api_version(&self) -> String {
        match &self.stored_as {
            Some((group, version)) => join_group_version(group, version),
            None => self.api_version(),
        }
    }

    /// `pods`, `deployments.apps`: as error messages name a resource.
    pub fn qualified(&self) -> String {
        if self.group.is_empty() { self.plural.clone() } else { format!("{}.{}", self.plural, self.group) }
    }

    pub fn has_status(&self) -> bool {
        self.subresources.contains(&Subresource::Status)
    }
}

fn join_group_version(group: &str, version: &str) -> String {
    if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") }
}

/// Whether objects of a scope live in namespaces.
pub trait ScopeName {
    const NAMESPACED: bool;
}

impl ScopeName for k8s_openapi::NamespaceResourceScope {
    const NAMESPACED: bool = true;
}

impl ScopeName for k8s_openapi::ClusterResourceScope {
    const NAMESPACED: bool = false;
}

impl ScopeName for k8s_openapi::SubResourceScope {
    const NAMESPACED: bool = true;
}
