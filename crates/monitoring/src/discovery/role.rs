//! The roles that Prometheus' users know from `kubernetes_sd_configs`.

use std::collections::HashMap;

use serde_json::Value;

use super::lists::Reference;
use super::objects::{Kind, Objects};
use super::selection::Selection;
use super::target::Target;
use super::{endpoints, endpointslice, ingress, node, pod, service};

type ByName<'a> = HashMap<(&'a str, &'a str), &'a Value>;

/// Of what kind targets are made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    Node,
    Pod,
    Service,
    Endpoints,
    EndpointSlice,
    Ingress,
}

const ROLES: [(&str, Role); 6] = [
    ("node", Role::Node),
    ("pod", Role::Pod),
    ("service", Role::Service),
    ("endpoints", Role::Endpoints),
    ("endpointslice", Role::EndpointSlice),
    ("ingress", Role::Ingress),
];

impl Role {
    pub const COUNT: usize = ROLES.len();

    /// Below [`Role::COUNT`].
    pub fn index(self) -> usize {
        self as usize
    }

    pub fn parse(name: &str) -> Option<Role> {
        ROLES.iter().find(|(known, _)| *known == name).map(|(_, role)| *role)
    }

    pub fn names() -> Vec<&'static str> {
        ROLES.iter().map(|(name, _)| *name).collect()
    }

    /// The kinds to read, the one that targets are made of first.
    pub fn needs(self) -> &'static [Kind] {
        match self {
            Role::Node => &[Kind::Node],
            Role::Pod => &[Kind::Pod],
            Role::Service => &[Kind::Service],
            Role::Endpoints => &[Kind::Endpoints, Kind::Service, Kind::Pod],
            Role::EndpointSlice => &[Kind::EndpointSlice, Kind::Service, Kind::Pod],
            Role::Ingress => &[Kind::Ingress],
        }
    }

    /// All targets, in the order of the objects.
    pub fn targets<'a>(self, objects: &'a Objects, selection: &Selection) -> Vec<Target<'a>> {
        let chosen = objects.of(self.needs()[0]).iter().filter(|object| selection.takes(object));
        let (services, pods) = match self.needs() {
            [_] => Default::default(),
            _ => (objects.by_name(Kind::Service), objects.by_name(Kind::Pod)),
        };
        chosen.flat_map(|object| self.of_object(object, &services, &pods)).collect()
    }

    /// The targets of one object, where `by_name` gives the objects of a kind that it names.
    pub fn targets_of<'a>(self, object: &'a Value, by_name: &dyn Fn(Kind) -> ByName<'a>) -> Vec<Target<'a>> {
        self.of_object(object, &by_name(Kind::Service), &by_name(Kind::Pod))
    }

    /// The objects that one of this role names, whether they exist or not.
    pub fn references(self, object: &Value) -> Vec<Reference> {
        match self {
            Role::Endpoints => endpoints::references(object),
            Role::EndpointSlice => endpointslice::references(object),
            Role::Node | Role::Pod | Role::Service | Role::Ingress => Vec::new(),
        }
    }

    fn of_object<'a>(self, object: &'a Value, services: &ByName<'a>, pods: &ByName<'a>) -> Vec<Target<'a>> {
        match self {
            Role::Node => node::targets(object).into_iter().collect(),
            Role::Pod => pod::targets(object),
            Role::Service => service::targets(object).collect(),
            Role::Ingress => ingress::targets(object),
            Role::Endpoints => endpoints::targets(object, services, pods),
            Role::EndpointSlice => endpointslice::targets(object, services, pods),
        }
    }

    /// Of one pod.
    pub fn of_pod(pod: &Value) -> Vec<Target<'_>> {
        pod::targets(pod)
    }

    /// Of one EndpointSlice.
    pub fn of_slice<'a>(slice: &'a Value, services: &ByName<'a>, pods: &ByName<'a>) -> Vec<Target<'a>> {
        endpointslice::targets(slice, services, pods)
    }

    /// The page: a JSON list of groups of one target each, since each has labels of its own.
    pub fn page(self, objects: &Objects, selection: &Selection) -> Vec<u8> {
        // Writing strings into memory cannot fail.
        serde_json::to_vec(&self.targets(objects, selection)).unwrap_or_else(|_| b"[]".to_vec())
    }
}
