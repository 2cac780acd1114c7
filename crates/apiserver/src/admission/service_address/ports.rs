//! Node ports of Services, and those of their health checks.

use bytes::Bytes;
use minik8s_api::{FieldErrors, Path};
use minik8s_store::{Condition, Op};
use serde_json::Value;

use super::{ServiceAddresses, TRIES, reserved};
use crate::admission::Request;
use crate::error::{ApiError, Result};
use crate::object::Object;
use crate::registry::Registry;

impl ServiceAddresses {
    pub(super) async fn assign_ports(&self, registry: &Registry, request: &mut Request<'_>) -> Result<()> {
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
        let first =
            *range.start() + u16::try_from(reserved(range.len() as u128, 32, 128)).unwrap_or_default();
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

pub(super) fn port_key(port: u16) -> String {
    format!("/allocations/node-ports/{port}")
}

pub(super) fn node_ports(service: &Value) -> Vec<u16> {
    let of = |value: &Value| value.as_u64().and_then(|p| u16::try_from(p).ok()).filter(|&port| port != 0);
    let ports = service["spec"]["ports"].as_array().into_iter().flatten();
    let mut all: Vec<u16> = ports.filter_map(|port| of(&port["nodePort"])).collect();
    all.extend(of(&service["spec"]["healthCheckNodePort"]));
    all.sort_unstable();
    all.dedup();
    all
}
