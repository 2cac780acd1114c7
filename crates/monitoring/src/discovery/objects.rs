//! The objects that a page is made of.

use std::collections::HashMap;

use serde_json::Value;

use super::target::text;

/// A kind that some role reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    Node,
    Pod,
    Service,
    Endpoints,
    EndpointSlice,
    Ingress,
}

impl Kind {
    /// Group, version and plural.
    pub fn place(self) -> (&'static str, &'static str, &'static str) {
        match self {
            Kind::Node => ("", "v1", "nodes"),
            Kind::Pod => ("", "v1", "pods"),
            Kind::Service => ("", "v1", "services"),
            Kind::Endpoints => ("", "v1", "endpoints"),
            Kind::EndpointSlice => ("discovery.k8s.io", "v1", "endpointslices"),
            Kind::Ingress => ("networking.k8s.io", "v1", "ingresses"),
        }
    }
}

/// What was read, by kind. A kind that was not read has no objects.
#[derive(Debug, Default)]
pub struct Objects(Vec<(Kind, Vec<Value>)>);

impl Objects {
    pub fn put(&mut self, kind: Kind, objects: Vec<Value>) {
        self.0.push((kind, objects));
    }

    pub fn of(&self, kind: Kind) -> &[Value] {
        self.0.iter().find(|(known, _)| *known == kind).map_or(&[], |(_, objects)| objects)
    }

    /// The same by namespace and name.
    pub fn by_name(&self, kind: Kind) -> HashMap<(&str, &str), &Value> {
        self.of(kind).iter().map(Objects::named).collect()
    }

    /// One object by namespace and name.
    pub fn named(object: &Value) -> ((&str, &str), &Value) {
        ((namespace_of(object), name_of(object)), object)
    }
}

pub fn namespace_of(object: &Value) -> &str {
    text(&object["metadata"]["namespace"])
}

pub fn name_of(object: &Value) -> &str {
    text(&object["metadata"]["name"])
}
