//! The endpoints behind one port of a Service, and which of them get connections.

use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};

use k8s_openapi::api::discovery::v1 as discovery;
use minik8s_meta::IpFamily;

use super::Protocol;
use super::place::{Hinted, Place};

#[derive(Debug, Clone, Copy)]
struct Candidate {
    address: SocketAddr,
    /// Runs on this node.
    local: bool,
    /// Runs on this node for all we know: the endpoint names no other.
    maybe_local: bool,
    ready: bool,
    serving: bool,
    by_node: Hinted,
    by_zone: Hinted,
}

#[derive(Debug, Default)]
pub(super) struct Candidates(Vec<Candidate>);

impl Candidates {
    /// The endpoints of a family in these slices, for the Service's port of that name.
    pub(super) fn collect<'a>(
        slices: impl IntoIterator<Item = &'a discovery::EndpointSlice>,
        port_name: &str,
        protocol: Protocol,
        (place, family): (Place<'_>, IpFamily),
    ) -> Self {
        let mut found = Vec::new();
        for slice in slices.into_iter().filter(|slice| slice.address_type == family.name()) {
            let Some(port) = port_number(slice, port_name, protocol) else { continue };
            for endpoint in slice.endpoints.iter().flatten() {
                // More than one address of an endpoint has no meaning; upstream uses the first, too.
                let Some(Ok(ip)) = endpoint.addresses.first().map(|text| text.parse::<IpAddr>()) else {
                    continue;
                };
                if IpFamily::of(ip) != family {
                    continue;
                }
                let (conditions, hints) = (endpoint.conditions.as_ref(), endpoint.hints.as_ref());
                let ready = conditions.and_then(|c| c.ready).unwrap_or(true);
                found.push(Candidate {
                    address: SocketAddr::new(ip, port),
                    local: endpoint.node_name.as_deref() == Some(place.node),
                    maybe_local: endpoint.node_name.as_deref().is_none_or(|name| name == place.node),
                    ready,
                    serving: conditions.and_then(|c| c.serving).unwrap_or(ready),
                    by_node: place.by_node(hints),
                    by_zone: place.by_zone(hints),
                });
            }
        }
        Candidates(found)
    }

    /// All ready endpoints, but for those that are meant for others; if there are none, those that still serve while they
    /// terminate.
    pub(super) fn usable(&self, only_local: bool) -> BTreeSet<SocketAddr> {
        if !only_local && let Some(near) = self.hinted(|c| c.by_node).or_else(|| self.hinted(|c| c.by_zone)) {
            return near;
        }
        let here = || self.0.iter().filter(|candidate| candidate.local || !only_local);
        let ready: BTreeSet<_> = here().filter(|c| c.ready).map(|c| c.address).collect();
        if !ready.is_empty() {
            return ready;
        }
        here().filter(|c| c.serving).map(|c| c.address).collect()
    }

    /// Those whose hints name this place. None where nobody's do, or somebody says nothing: hints may be half written.
    fn hinted(&self, by: impl Fn(&Candidate) -> Hinted) -> Option<BTreeSet<SocketAddr>> {
        let ready = || self.0.iter().filter(|candidate| candidate.ready);
        if ready().any(|candidate| by(candidate) == Hinted::Not) {
            return None;
        }
        let here: BTreeSet<_> = ready().filter(|c| by(c) == Hinted::Here).map(|c| c.address).collect();
        (!here.is_empty()).then_some(here)
    }

    pub(super) fn own_addresses(&self) -> impl Iterator<Item = IpAddr> {
        self.0.iter().filter(|candidate| candidate.maybe_local).map(|candidate| candidate.address.ip())
    }
}

/// Slices carry target ports already resolved to numbers; names only pair them with the Service's ports.
fn port_number(slice: &discovery::EndpointSlice, name: &str, protocol: Protocol) -> Option<u16> {
    let ports = slice.ports.as_deref().unwrap_or_default();
    let port = ports.iter().find(|port| {
        port.name.as_deref().unwrap_or_default() == name
            && super::plan::protocol(port.protocol.as_deref()) == Some(protocol)
    })?;
    u16::try_from(port.port?).ok().filter(|&number| number != 0)
}
