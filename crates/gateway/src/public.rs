//! Which hosts of Gateways are answered at the nodes' own ports, beside those of Ingresses and DNS objects.

use std::collections::BTreeMap;

use minik8s_meta::routing::{ALLOWED_HOSTS, HostGrant, HostUse, check_host, host_patterns};

use crate::kinds::Gateway;
use crate::listeners::Judged;
use crate::view::View;

/// The rules of one Gateway: the same that hold for Ingresses of its namespace.
pub struct PublicHosts<'a> {
    namespace: &'a str,
    grants: Vec<HostGrant>,
}

impl<'a> PublicHosts<'a> {
    pub fn new(gateway: &'a Gateway, view: &View) -> Self {
        let namespace = gateway.metadata.namespace.as_deref().unwrap_or_default();
        let none = BTreeMap::new();
        let grants = view.namespaces.iter().map(|(name, namespace)| {
            let annotations = namespace.metadata.annotations.as_ref().unwrap_or(&none);
            // What cannot be read allows nothing.
            let patterns = annotations.get(ALLOWED_HOSTS).map(|text| host_patterns(text).unwrap_or_default());
            HostGrant { namespace: name.clone(), patterns }
        });
        PublicHosts { namespace, grants: grants.collect() }
    }

    /// Ports 80 and 443 are those of the node, whatever their numbers are there.
    pub fn has(&self, judged: &Judged<'_>, host: &str) -> bool {
        let listener = judged.listener;
        let is_own = matches!((listener.port, listener.protocol.as_str()), (80, "HTTP") | (443, "HTTPS"));
        // Nobody asks for certificates of clients there.
        let is_open = judged.clients.is_none();
        is_own
            && is_open
            && (host.is_empty() || check_host(host, HostUse::Routed, self.namespace, &self.grants).is_ok())
    }
}
