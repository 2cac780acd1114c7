//! Where rules are for: a node, and the zone that it is in.

use k8s_openapi::api::discovery::v1::EndpointHints;

/// A node, as endpoints and their hints name it.
#[derive(Debug, Clone, Copy)]
pub struct Place<'a> {
    pub node: &'a str,
    pub zone: Option<&'a str>,
}

impl<'a> From<&'a str> for Place<'a> {
    fn from(node: &'a str) -> Self {
        Place { node, zone: None }
    }
}

/// Whom an endpoint is for, as far as this place is concerned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Hinted {
    /// For everybody: nothing is said.
    Not,
    Here,
    Elsewhere,
}

impl Place<'_> {
    pub fn by_node(&self, hints: Option<&EndpointHints>) -> Hinted {
        let nodes = hints.and_then(|hints| hints.for_nodes.as_deref()).unwrap_or_default();
        of(nodes.iter().map(|node| node.name.as_str()), Some(self.node))
    }

    pub fn by_zone(&self, hints: Option<&EndpointHints>) -> Hinted {
        let zones = hints.and_then(|hints| hints.for_zones.as_deref()).unwrap_or_default();
        of(zones.iter().map(|zone| zone.name.as_str()), self.zone)
    }
}

fn of<'a>(mut names: impl ExactSizeIterator<Item = &'a str>, own: Option<&str>) -> Hinted {
    match names.len() {
        0 => Hinted::Not,
        _ if names.any(|name| Some(name) == own) => Hinted::Here,
        _ => Hinted::Elsewhere,
    }
}
