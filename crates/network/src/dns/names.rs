//! The names of one Service, after the specification "Kubernetes DNS-Based Service Discovery". Pure.

use std::net::IpAddr;

use k8s_openapi::api::core::v1 as core;
use k8s_openapi::api::discovery::v1 as discovery;

use super::{Data, Record};

/// With the slices of that Service.
pub fn records<'a>(
    service: &core::Service,
    slices: impl IntoIterator<Item = &'a discovery::EndpointSlice>,
    domain: &str,
) -> Vec<Record> {
    let mut records = Records::default();
    let (Some(namespace), Some(name), Some(spec)) =
        (&service.metadata.namespace, &service.metadata.name, &service.spec)
    else {
        return Vec::new();
    };
    let full_name = format!("{name}.{namespace}.svc.{domain}");
    if spec.type_.as_deref() == Some("ExternalName") {
        let target = spec.external_name.as_deref().unwrap_or_default().trim_end_matches('.');
        records.add(&full_name, Data::Cname(target.to_ascii_lowercase()));
    } else if spec.cluster_ip.as_deref() == Some("None") {
        slices.into_iter().for_each(|slice| add_endpoints(&mut records, &full_name, slice));
    } else {
        add_service(&mut records, &full_name, spec);
    }
    records.0
}

#[derive(Default)]
struct Records(Vec<Record>);

impl Records {
    fn add(&mut self, name: &str, data: Data) {
        self.0.push(Record { name: name.to_owned(), data });
    }
}

fn add_service(records: &mut Records, name: &str, spec: &core::ServiceSpec) {
    let addresses = spec.cluster_ip.iter().chain(spec.cluster_ips.iter().flatten());
    for address in addresses.filter_map(|text| text.parse::<IpAddr>().ok()) {
        records.add(name, address.into());
        records.add(&reverse(address), Data::Ptr(name.to_owned()));
    }
    for port in spec.ports.iter().flatten() {
        let name_and_protocol = (port.name.as_deref(), port.protocol.as_deref());
        add_srv(records, name, name_and_protocol, Some(port.port), name);
    }
}

/// A headless Service is the names and addresses of its ready endpoints.
fn add_endpoints(records: &mut Records, name: &str, slice: &discovery::EndpointSlice) {
    for endpoint in slice.endpoints.iter().flatten() {
        if endpoint.conditions.as_ref().and_then(|conditions| conditions.ready) == Some(false) {
            continue;
        }
        for address in endpoint.addresses.iter().filter_map(|text| text.parse::<IpAddr>().ok()) {
            let host =
                endpoint.hostname.clone().unwrap_or_else(|| address.to_string().replace(['.', ':'], "-"));
            let host = format!("{host}.{name}");
            records.add(name, address.into());
            records.add(&host, address.into());
            if endpoint.hostname.is_some() {
                records.add(&reverse(address), Data::Ptr(host.clone()));
            }
            for port in slice.ports.iter().flatten() {
                add_srv(records, name, (port.name.as_deref(), port.protocol.as_deref()), port.port, &host);
            }
        }
    }
}

/// Ports without a name have no record.
fn add_srv(
    records: &mut Records,
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
    records.add(&format!("_{name}._{protocol}.{service}"), data);
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
