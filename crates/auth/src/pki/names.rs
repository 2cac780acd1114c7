//! Under which names and addresses clients reach the API server.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use rcgen::SanType;

use super::PkiError;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServingNames {
    pub host_name: String,
    /// Addresses of this host, and any load balancer before it.
    pub addresses: Vec<IpAddr>,
    /// Further DNS names that the user wants to reach the server by.
    pub extra_names: Vec<String>,
    /// `cluster.local`.
    pub cluster_domain: String,
    /// The cluster IP of the Service `kubernetes`: the first of the service range.
    pub service_address: Option<IpAddr>,
}

/// DNS names and addresses of a certificate, in a fixed order so that two sets can be compared.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AltNames {
    pub dns: BTreeSet<String>,
    pub ips: BTreeSet<IpAddr>,
}

impl ServingNames {
    pub fn alt_names(&self) -> AltNames {
        let service = "kubernetes.default.svc";
        let mut dns: BTreeSet<String> =
            ["localhost", "kubernetes", "kubernetes.default", service].map(str::to_owned).into();
        dns.insert(format!("{service}.{}", self.cluster_domain));
        dns.insert(self.host_name.clone());
        dns.extend(self.extra_names.iter().cloned());
        dns.remove("");
        let mut ips: BTreeSet<IpAddr> = self.addresses.iter().copied().collect();
        ips.extend(self.service_address);
        ips.insert(Ipv4Addr::LOCALHOST.into());
        ips.insert(Ipv6Addr::LOCALHOST.into());
        AltNames { dns, ips }
    }
}

impl AltNames {
    pub(super) fn to_rcgen(&self) -> Result<Vec<SanType>, PkiError> {
        let dns = self.dns.iter().map(|name| {
            let usable = !name.is_empty() && name.bytes().all(|b| b.is_ascii_graphic());
            match name.as_str().try_into() {
                Ok(text) if usable => Ok(SanType::DnsName(text)),
                _ => Err(PkiError::HostName(name.clone())),
            }
        });
        dns.chain(self.ips.iter().map(|&ip| Ok(SanType::IpAddress(ip)))).collect()
    }
}
