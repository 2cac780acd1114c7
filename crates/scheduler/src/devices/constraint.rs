//! What devices of one claim must have in common, or must not.

use k8s_openapi::api::resource::v1::{DeviceAttribute, DeviceConstraint};

use super::pool::Device;

#[derive(Debug)]
pub struct Constraint {
    /// Of these requests; none: of all.
    requests: Vec<String>,
    /// With its domain.
    attribute: String,
    kind: Kind,
}

#[derive(Debug, PartialEq, Eq)]
enum Kind {
    Same,
    Distinct,
    /// Of a version to come: nothing fulfils it.
    Unknown,
}

impl Constraint {
    pub fn new(constraint: &DeviceConstraint) -> Self {
        let (attribute, kind) = match (&constraint.match_attribute, &constraint.distinct_attribute) {
            (Some(attribute), None) => (attribute.clone(), Kind::Same),
            (None, Some(attribute)) => (attribute.clone(), Kind::Distinct),
            _ => (String::new(), Kind::Unknown),
        };
        Constraint { requests: constraint.requests.clone().unwrap_or_default(), attribute, kind }
    }

    /// By `REQUEST` or `REQUEST/ALTERNATIVE`; a constraint on a request holds for its alternatives too.
    fn applies_to(&self, request: &str) -> bool {
        let main = request.split_once('/').map_or(request, |(main, _)| main);
        self.requests.is_empty() || self.requests.iter().any(|name| name == request || name == main)
    }

    /// Whether a device may join those that the claim has chosen.
    pub fn admits<'a>(
        &self,
        request: &str,
        device: &Device,
        chosen: impl Iterator<Item = (&'a str, &'a Device)>,
    ) -> bool {
        if !self.applies_to(request) {
            return true;
        }
        let Some(value) = attribute(device, &self.attribute) else { return false };
        let mut others = chosen
            .filter(|(name, _)| self.applies_to(name))
            .map(|(_, other)| attribute(other, &self.attribute));
        match self.kind {
            Kind::Same => others.all(|other| other == Some(value)),
            Kind::Distinct => others.all(|other| other.is_some_and(|other| other != value)),
            Kind::Unknown => false,
        }
    }
}

/// By its name with the domain, which a driver may leave out of its own.
fn attribute<'a>(device: &'a Device, name: &str) -> Option<&'a DeviceAttribute> {
    let attributes = device.api.attributes.as_ref()?;
    let short = || {
        let (domain, short) = name.split_once('/')?;
        attributes.get(short).filter(|_| domain == device.id.driver)
    };
    attributes.get(name).or_else(short)
}
