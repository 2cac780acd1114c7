//! Virtual IPs and node ports of Services.
//!
//! An address is taken by writing its `IPAddress` object, a node port by writing a key of its own, in the
//! same commit as the Service: two Services can never hold the same one, and a crash can leak none.

use std::net::IpAddr;
use std::ops::RangeInclusive;

use async_trait::async_trait;
use bytes::Bytes;
use minik8s_api::{FieldErrors, Path};
use minik8s_meta::{Cidrs, IpFamily, nth_address};
use minik8s_store::{Condition, Op};
use serde_json::{Value, json};

use super::{Admission, Operation, Request};
use crate::codec;
use crate::error::{ApiError, Result};
use crate::object::{Object, object_at};
use crate::registry::{Registry, timestamp};

/// Where addresses and ports come from.
#[derive(Debug, Clone)]
pub struct AddressRanges {
    pub services: Cidrs,
    pub node_ports: RangeInclusive<u16>,
}

/// At least so many of the lowest addresses and ports are left to those who ask for them by number.
const RESERVED: u32 = 16;
const TRIES: usize = 32;

pub struct ServiceAddresses {
    pub ranges: AddressRanges,
}

#[async_trait]
impl Admission for ServiceAddresses {
    async fn admit(&self, registry: &Registry, request: &mut Request<'_>) -> Result<()> {
        if request.operation == Operation::Delete || !request.is_core("services") {
            return Ok(());
        }
        self.assign_address(registry, request).await?;
        self.assign_ports(registry, request).await
    }

    async fn release(&self, registry: &Registry, request: &mut Request<'_>) -> Result<()> {
        if !request.call.served.group.is_empty() || request.call.served.plural != "services" {
            return Ok(());
        }
        let Some(old) = request.old else { return Ok(()) };
        if let Some(address) = address_of(old) {
            let key = self.address_key(registry, &address)?;
            request.also.ops.push(Op::Delete { key });
        }
        for port in node_ports(old) {
            request.also.ops.push(Op::Delete { key: port_key(port) });
        }
        Ok(())
    }
}

impl ServiceAddresses {
    async fn assign_address(&self, registry: &Registry, request: &mut Request<'_>) -> Result<()> {
        let old = request.old.and_then(address_of);
        if request.object["spec"]["type"] == "ExternalName" {
            let spec = object_at(request.object, "spec");
            for field in ["clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy"] {
                spec.shift_remove(field);
            }
            return self.give_back_address(registry, request, old);
        }
        let wanted = request.object["spec"]["clusterIP"].as_str().unwrap_or_default().to_owned();
        let address = match (wanted.as_str(), &old) {
            ("None", _) => {
                request.object["spec"]["clusterIPs"] = json!(["None"]);
                return self.give_back_address(registry, request, old);
            }
            ("", Some(old)) => old.clone(),
            (wanted, Some(old)) if wanted == old => old.clone(),
            ("", None) => self.take_any_address(registry, request).await?,
            (wanted, None) => self.take_address(registry, request, wanted).await?,
            // Changing an address is refused by validation.
            (_, Some(_)) => return Ok(()),
        };
        request.object["spec"]["clusterIP"] = address.as_str().into();
        request.object["spec"]["clusterIPs"] = json!([address]);
        Ok(())
    }

    fn give_back_address(
        &self,
        registry: &Registry,
        request: &mut Request<'_>,
        old: Option<String>,
    ) -> Result<()> {
        if let Some(old) = old {
            request.also.ops.push(Op::Delete { key: self.address_key(registry, &old)? });
        }
        Ok(())
    }

    async fn take_any_address(&self, registry: &Registry, request: &mut Request<'_>) -> Result<String> {
        let range = self.ranges.services.primary();
        let size = 1u32 << (range.max_prefix_len() - range.prefix_len()).min(31);
        let first = reserved(size, 16, 256).max(1);
        let nth = |n: u32| nth_address(range, n.into()).unwrap_or(range.addr()).to_string();
        let taken = |address: String| async move {
            let key = self.address_key(registry, &address)?;
            Ok::<bool, ApiError>(registry.store.get(&key).await?.is_some())
        };
        for _ in 0..TRIES {
            let address = nth(rand::random_range(first..size - 1));
            if !taken(address.clone()).await? {
                return self.take_address(registry, request, &address).await;
            }
        }
        for n in (first..size - 1).chain(1..first) {
            let address = nth(n);
            if !taken(address.clone()).await? {
                return self.take_address(registry, request, &address).await;
            }
        }
        let text = format!("no free address is left in the service range {range}");
        Err(ApiError::internal(text))
    }

    async fn take_address(
        &self,
        registry: &Registry,
        request: &mut Request<'_>,
        address: &str,
    ) -> Result<String> {
        let path = || Path::new("spec").field("clusterIPs");
        let refuse = |request: &Request<'_>, why: String| {
            let mut errors = FieldErrors::default();
            errors.invalid(path(), json!([address]), why);
            Err(ApiError::invalid("", "Service", request.object.name(), errors))
        };
        let range = self.ranges.services.primary();
        let parsed: Option<IpAddr> = address.parse().ok();
        let Some(parsed) = parsed.filter(|ip| range.contains(ip)) else {
            let why =
                format!("failed to allocate IP {address}: the provided IP is not in the valid range {range}");
            return refuse(request, why);
        };
        if parsed == range.network() || parsed == range.broadcast() {
            return refuse(request, format!("failed to allocate IP {address}: it is reserved"));
        }
        let key = self.address_key(registry, address)?;
        if registry.store.get(&key).await?.is_some() {
            return refuse(
                request,
                format!("failed to allocate IP {address}: provided IP is already allocated"),
            );
        }
        let addresses = registry.built_in("networking.k8s.io", "v1", "ipaddresses")?;
        let object = json!({
            "kind": "IPAddress", "apiVersion": "networking.k8s.io/v1",
            "metadata": {
                "name": address, "uid": uuid::Uuid::new_v4().to_string(),
                "creationTimestamp": timestamp(request.call.now), "generation": 1,
                "labels": {
                    "ipaddress.kubernetes.io/ip-family": IpFamily::of(parsed).name(),
                    "ipaddress.kubernetes.io/managed-by": "ipallocator.k8s.io",
                },
            },
            "spec": {"parentRef": {
                "resource": "services", "namespace": request.object.namespace(), "name": request.object.name(),
            }},
        });
        request.also.conditions.push(Condition { key: key.clone(), revision: 0 });
        request.also.ops.push(Op::Put { key, value: codec::encode(&addresses, &object)? });
        Ok(address.to_owned())
    }

    fn address_key(&self, registry: &Registry, address: &str) -> Result<String> {
        Ok(registry.built_in("networking.k8s.io", "v1", "ipaddresses")?.key("", address))
    }

    async fn assign_ports(&self, registry: &Registry, request: &mut Request<'_>) -> Result<()> {
        let mut held: Vec<u16> = request.old.map(node_ports).unwrap_or_default();
        let spec = &request.object["spec"];
        let local_balancer = spec["type"] == "LoadBalancer" && spec["externalTrafficPolicy"] == "Local";
        let wants = match spec["type"].as_str() {
            Some("NodePort") => true,
            Some("LoadBalancer") => spec["allocateLoadBalancerNodePorts"] != false,
            _ => false,
        };
        let count = request.object["spec"]["ports"].as_array().map_or(0, Vec::len);
        let mut given = Vec::with_capacity(count);
        for i in 0..count {
            given.push(self.given_port(request, &request.object["spec"]["ports"][i]["nodePort"], Some(i))?);
        }
        // A port that is chosen must not be one that the Service asks for further down.
        let mut mine: Vec<u16> = given.iter().copied().flatten().collect();
        let mut taken_now: Vec<u16> = Vec::new();
        for (i, given) in given.into_iter().enumerate() {
            if !wants && given.is_none() {
                continue;
            }
            let port = match given {
                Some(port) if held.contains(&port) || taken_now.contains(&port) => port,
                Some(port) => self.take_port(registry, request, port, Some(i)).await?,
                None => self.take_any_port(registry, request, &mine).await?,
            };
            held.retain(|&old| old != port);
            taken_now.push(port);
            mine.push(port);
            request.object["spec"]["ports"][i]["nodePort"] = port.into();
        }
        if local_balancer {
            let port = match self.given_port(request, &request.object["spec"]["healthCheckNodePort"], None)? {
                Some(port) if held.contains(&port) => port,
                Some(port) => self.take_port(registry, request, port, None).await?,
                None => self.take_any_port(registry, request, &mine).await?,
            };
            held.retain(|&old| old != port);
            request.object["spec"]["healthCheckNodePort"] = port.into();
        }
        for port in held {
            request.also.ops.push(Op::Delete { key: port_key(port) });
        }
        Ok(())
    }

    async fn take_any_port(
        &self,
        registry: &Registry,
        request: &mut Request<'_>,
        mine: &[u16],
    ) -> Result<u16> {
        let range = self.ranges.node_ports.clone();
        let first = *range.start() + u16::try_from(reserved(range.len() as u32, 32, 128)).unwrap_or_default();
        let upper = first..=*range.end();
        let random = (0..TRIES).map(|_| rand::random_range(upper.clone())).collect::<Vec<_>>();
        for port in random.into_iter().chain(upper).chain(range) {
            if !mine.contains(&port) && registry.store.get(&port_key(port)).await?.is_none() {
                return Ok(note_port(request, port));
            }
        }
        Err(ApiError::internal(format_args!("no free node port is left in {:?}", self.ranges.node_ports)))
    }

    async fn take_port(
        &self,
        registry: &Registry,
        request: &mut Request<'_>,
        port: u16,
        i: Option<usize>,
    ) -> Result<u16> {
        if registry.store.get(&port_key(port)).await?.is_some() {
            return Err(refuse_port(request, i, &port.into(), "provided port is already allocated"));
        }
        Ok(note_port(request, port))
    }

    /// The port that the Service asks for; none and 0 leave the choice to us.
    fn given_port(&self, request: &Request<'_>, given: &Value, i: Option<usize>) -> Result<Option<u16>> {
        match given.as_i64() {
            None | Some(0) => Ok(None),
            Some(port) => match u16::try_from(port).ok().filter(|port| self.ranges.node_ports.contains(port))
            {
                Some(port) => Ok(Some(port)),
                None => {
                    let (first, last) = (self.ranges.node_ports.start(), self.ranges.node_ports.end());
                    let why = format!(
                        "provided port is not in the valid range. The range of valid ports is {first}-{last}"
                    );
                    Err(refuse_port(request, i, given, &why))
                }
            },
        }
    }
}

/// Without an index it is about the health check's port.
/// How many of the lowest are given only when nothing else is left: a share, as upstream leaves it.
fn reserved(size: u32, share: u32, most: u32) -> u32 {
    if size > 4 * RESERVED { (size / share).clamp(RESERVED, most) } else { 0 }
}

fn refuse_port(request: &Request<'_>, i: Option<usize>, port: &Value, why: &str) -> ApiError {
    let spec = Path::new("spec");
    let path = match i {
        None => spec.field("healthCheckNodePort"),
        Some(i) => spec.field("ports").index(i).field("nodePort"),
    };
    let mut errors = FieldErrors::default();
    errors.invalid(path, port.clone(), why);
    ApiError::invalid("", "Service", request.object.name(), errors)
}

/// Takes the port in the commit of the Service.
fn note_port(request: &mut Request<'_>, port: u16) -> u16 {
    let owner = format!("{}/{}", request.object.namespace(), request.object.name());
    request.also.conditions.push(Condition { key: port_key(port), revision: 0 });
    request.also.ops.push(Op::Put { key: port_key(port), value: Bytes::from(owner) });
    port
}

fn port_key(port: u16) -> String {
    format!("/allocations/node-ports/{port}")
}

fn address_of(service: &Value) -> Option<String> {
    let address = service["spec"]["clusterIP"].as_str()?;
    (!matches!(address, "" | "None")).then(|| address.to_owned())
}

fn node_ports(service: &Value) -> Vec<u16> {
    let of = |value: &Value| value.as_u64().and_then(|p| u16::try_from(p).ok()).filter(|&port| port != 0);
    let ports = service["spec"]["ports"].as_array().into_iter().flatten();
    let mut all: Vec<u16> = ports.filter_map(|port| of(&port["nodePort"])).collect();
    all.extend(of(&service["spec"]["healthCheckNodePort"]));
    all.sort_unstable();
    all.dedup();
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_to_those_who_ask() {
        let check = |size: u32, share: u32, most: u32, expected: u32| {
            assert_eq!(reserved(size, share, most), expected, "{size}");
        };
        // Addresses of a /12, a /24 and a /28; the default ports, and few.
        check(1 << 20, 16, 256, 256);
        check(256, 16, 256, 16);
        check(16, 16, 256, 0);
        check(2768, 32, 128, 86);
        check(64, 32, 128, 0);
    }
}
