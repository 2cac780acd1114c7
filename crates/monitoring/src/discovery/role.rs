//! The roles that Prometheus' users know from `kubernetes_sd_configs`.

use std::collections::HashMap;

use serde_json::Value;

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
        match self {
            Role::Node => chosen.flat_map(node::targets).collect(),
            Role::Pod => chosen.flat_map(pod::targets).collect(),
            Role::Service => chosen.flat_map(service::targets).collect(),
            Role::Ingress => chosen.flat_map(ingress::targets).collect(),
            Role::Endpoints => {
                let (services, pods) = (objects.by_name(Kind::Service), objects.by_name(Kind::Pod));
                chosen.flat_map(|object: &'a Value| endpoints::targets(object, &services, &pods)).collect()
            }
            Role::EndpointSlice => {
                let (services, pods) = (objects.by_name(Kind::Service), objects.by_name(Kind::Pod));
                chosen
                    .flat_map(|object: &'a Value| endpointslice::targets(object, &services, &pods))
                    .collect()
            }
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
