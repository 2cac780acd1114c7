//! The cluster's domain as a value, after the specification "Kubernetes DNS-Based Service Discovery".

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use k8s_openapi::api::core::v1 as core;
use k8s_openapi::api::discovery::v1 as discovery;

const SERVICE_NAME: &str = "kubernetes.io/service-name";
/// Of the specification.
const VERSION: &str = "1.1.0";

/// Names in lower case, without the dot at their end. A name without records exists nevertheless.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Zone {
    domain: String,
    names: BTreeMap<String, BTreeSet<Data>>,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Data {
    A(Ipv4Addr),
    Aaaa(Ipv6Addr),
    Cname(String),
    Ptr(String),
    Srv { port: u16, target: String },
    Txt(String),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    pub name: String,
    pub data: Data,
}

impl Zone {
    /// All records of a name; `None` if there is no such name.
    pub fn records(&self, name: &str) -> Option<Vec<Record>> {
        if let Some(found) = self.names.get(name) {
            let record = |data: &Data| Record { name: name.to_owned(), data: data.clone() };
            return Some(found.iter().map(record).collect());
        }
        let data = Data::from(self.pod_address(name)?);
        Some(vec![Record { name: name.to_owned(), data }])
    }

    /// Whether nobody else knows the name better.
    pub fn owns(&self, name: &str) -> bool {
        let below = name.strip_suffix(&self.domain);
        below.is_some_and(|rest| rest.is_empty() || rest.ends_with('.')) || self.names.contains_key(name)
    }

    pub fn domain(&self) -> &str {
        &self.domain
    }

    /// `10-244-0-7.NAMESPACE.pod.DOMAIN` says itself what its address is.
    fn pod_address(&self, name: &str) -> Option<IpAddr> {
        let rest = name.strip_suffix(&self.domain)?.strip_suffix(".pod.")?;
        let (dashed, namespace) = rest.split_once('.')?;
        let plain = !namespace.is_empty() && !namespace.contains('.');
        let address = dashed.replace('-', ".").parse().map(IpAddr::V4);
        let address = address.or_else(|_| dashed.replace('-', ":").parse().map(IpAddr::V6));
        address.ok().filter(|_| plain)
    }

    fn add(&mut self, name: &str, data: Data) {
        self.names.entry(name.to_owned()).or_default().insert(data);
        // The names above it exist, too, down to the domain.
        let mut name = name;
        while let Some((_, above)) = name.split_once('.').filter(|(_, above)| above.ends_with(&self.domain)) {
            self.names.entry(above.to_owned()).or_default();
            name = above;
        }
    }
}

impl From<IpAddr> for Data {
    fn from(address: IpAddr) -> Data {
        match address {
            IpAddr::V4(address) => Data::A(address),
            IpAddr::V6(address) => Data::Aaaa(address),
        }
    }
}

pub fn zone<'a>(
    services: impl IntoIterator<Item = &'a core::Service>,
    slices: impl IntoIterator<Item = &'a discovery::EndpointSlice>,
    domain: &str,
) -> Zone {
    let domain = domain.trim_end_matches('.').to_ascii_lowercase();
    let mut zone = Zone { names: BTreeMap::from([(domain.clone(), BTreeSet::new())]), domain };
    zone.add(&format!("dns-version.{}", zone.domain), Data::Txt(VERSION.to_owned()));
    let mut headless = BTreeSet::new();
    for service in services {
        let (Some(namespace), Some(name)) = (&service.metadata.namespace, &service.metadata.name) else {
            continue;
        };
        let full_name = format!("{name}.{namespace}.svc.{}", zone.domain);
        let Some(spec) = &service.spec else { continue };
        if spec.type_.as_deref() == Some("ExternalName") {
            let target = spec.external_name.as_deref().unwrap_or_default().trim_end_matches('.');
            zone.add(&full_name, Data::Cname(target.to_ascii_lowercase()));
        } else if spec.cluster_ip.as_deref() == Some("None") {
            headless.insert((namespace.as_str(), name.as_str()));
        } else {
            add_service(&mut zone, &full_name, spec);
        }
    }
    for slice in slices {
        let service = slice.metadata.labels.as_ref().and_then(|labels| labels.get(SERVICE_NAME));
        let (Some(namespace), Some(service)) = (&slice.metadata.namespace, service) else { continue };
        if headless.contains(&(namespace.as_str(), service.as_str())) {
            let full_name = format!("{service}.{namespace}.svc.{}", zone.domain);
            add_endpoints(&mut zone, &full_name, slice);
        }
    }
    zone
}

fn add_service(zone: &mut Zone, name: &str, spec: &core::ServiceSpec) {
    let addresses = spec.cluster_ip.iter().chain(spec.cluster_ips.iter().flatten());
    for address in addresses.filter_map(|text| text.parse::<IpAddr>().ok()) {
        zone.add(name, address.into());
        zone.add(&reverse(address), Data::Ptr(name.to_owned()));
    }
    for port in spec.ports.iter().flatten() {
        let name_and_protocol = (port.name.as_deref(), port.protocol.as_deref());
        add_srv(zone, name, name_and_protocol, Some(port.port), name);
    }
}

/// A headless Service is the names and addresses of its ready endpoints.
fn add_endpoints(zone: &mut Zone, name: &str, slice: &discovery::EndpointSlice) {
    for endpoint in slice.endpoints.iter().flatten() {
        if endpoint.conditions.as_ref().and_then(|conditions| conditions.ready) == Some(false) {
            continue;
        }
        for address in endpoint.addresses.iter().filter_map(|text| text.parse::<IpAddr>().ok()) {
            let host =
                endpoint.hostname.clone().unwrap_or_else(|| address.to_string().replace(['.', ':'], "-"));
            let host = format!("{host}.{name}");
            zone.add(name, address.into());
            zone.add(&host, address.into());
            if endpoint.hostname.is_some() {
                zone.add(&reverse(address), Data::Ptr(host.clone()));
            }
            for port in slice.ports.iter().flatten() {
                add_srv(zone, name, (port.name.as_deref(), port.protocol.as_deref()), port.port, &host);
            }
        }
    }
}

/// Ports without a name have no record.
fn add_srv(
    zone: &mut Zone,
    service: &str,
    port: (Option<&str>, Option<&str>),
    number: Option<i32>,
    host: &str,
) {
    let (Some(name), protocol) = port else { return };
    let Some(number) = number.and_then(|number| u16::try_from(number).ok()).filter(|_| !name.is_empty())
    else {
        return;
    };
    let protocol = protocol.unwrap_or("tcp").to_ascii_lowercase();
    let data = Data::Srv { port: number, target: host.to_owned() };
    zone.add(&format!("_{name}._{protocol}.{service}"), data);
}

fn reverse(address: IpAddr) -> String {
    match address {
        IpAddr::V4(address) => {
            let [a, b, c, d] = address.octets();
            format!("{d}.{c}.{b}.{a}.in-addr.arpa")
        }
        IpAddr::V6(address) => {
            let nibbles = address.octets().into_iter().rev().flat_map(|byte| [byte & 15, byte >> 4]);
            nibbles.map(|nibble| format!("{nibble:x}.")).collect::<String>() + "ip6.arpa"
        }
    }
}
