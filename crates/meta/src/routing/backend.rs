//! The endpoints behind one port of a Service, or why there are none.

use std::collections::BTreeSet;
use std::fmt;
use std::net::{IpAddr, SocketAddr};

use k8s_openapi::api::core::v1::Service;
use k8s_openapi::api::discovery::v1::EndpointSlice;

/// The label of a slice that names its Service.
pub const SERVICE_NAME: &str = "kubernetes.io/service-name";

/// A port of a Service as users write it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Port<'a> {
    Number(i32),
    Name(&'a str),
}

impl fmt::Display for Port<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Port::Number(number) => number.fmt(f),
            Port::Name(name) => name.fmt(f),
        }
    }
}

/// Why a path leads nowhere.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Problem {
    NotAService,
    NoService,
    ExternalName,
    NoPort,
    NotTcp,
    /// How many endpoints there are that are not ready.
    NoEndpoints(usize),
}

impl Problem {
    /// One word, as conditions want it.
    pub fn reason(self) -> &'static str {
        match self {
            Problem::NotAService => "BackendNotSupported",
            Problem::NoService => "ServiceNotFound",
            Problem::ExternalName => "ExternalNameNotSupported",
            Problem::NoPort => "PortNotFound",
            Problem::NotTcp => "PortNotTCP",
            Problem::NoEndpoints(_) => "NoReadyEndpoints",
        }
    }

    /// A sentence about the Service `namespace/name` and its port.
    pub fn message(self, service: &str, port: &str) -> String {
        match self {
            Problem::NotAService => "the backend is not a Service".to_owned(),
            Problem::NoService => format!("Service {service} does not exist"),
            Problem::ExternalName => {
                format!("Service {service} is an ExternalName; requests go to Services with endpoints only")
            }
            Problem::NoPort => format!("Service {service} has no port {port}"),
            Problem::NotTcp => format!("port {port} of Service {service} is not TCP"),
            Problem::NoEndpoints(0) => format!("Service {service} selects no pod"),
            Problem::NoEndpoints(1) => format!("the only endpoint of Service {service} is not ready"),
            Problem::NoEndpoints(n) => format!("none of {n} endpoints of Service {service} is ready"),
        }
    }
}

/// Who gets the requests: the ready endpoints; if there are none, those that still serve while they terminate.
/// The slices must be the Service's own.
pub fn endpoints<'a>(
    service: Option<&Service>,
    slices: impl IntoIterator<Item = &'a EndpointSlice>,
    port: Port<'_>,
) -> Result<Vec<SocketAddr>, Problem> {
    endpoints_of(service, slices, port, false)
}

/// The same, of UDP if that is wanted: a Service may have one number twice.
pub fn endpoints_of<'a>(
    service: Option<&Service>,
    slices: impl IntoIterator<Item = &'a EndpointSlice>,
    port: Port<'_>,
    udp: bool,
) -> Result<Vec<SocketAddr>, Problem> {
    let is_fit = |protocol: Option<&str>| if udp { protocol == Some("UDP") } else { is_tcp(protocol) };
    let spec = service.and_then(|service| service.spec.as_ref()).ok_or(Problem::NoService)?;
    if spec.type_.as_deref() == Some("ExternalName") {
        return Err(Problem::ExternalName);
    }
    let named = spec.ports.iter().flatten().filter(|candidate| match port {
        Port::Number(number) => candidate.port == number,
        Port::Name(name) => candidate.name.as_deref() == Some(name),
    });
    let mut named = named.peekable();
    named.peek().ok_or(Problem::NoPort)?;
    let found = named.find(|port| is_fit(port.protocol.as_deref())).ok_or(Problem::NotTcp)?;
    let port_name = found.name.as_deref().unwrap_or_default();
    let (mut ready, mut serving, mut others) = (BTreeSet::new(), BTreeSet::new(), 0);
    for slice in slices {
        let Some(number) = number_in(slice, port_name, is_fit) else { continue };
        for endpoint in slice.endpoints.iter().flatten() {
            let Some(Ok(ip)) = endpoint.addresses.first().map(|text| text.parse::<IpAddr>()) else {
                continue;
            };
            let address = SocketAddr::new(ip, number);
            let conditions = endpoint.conditions.as_ref();
            let is_ready = conditions.and_then(|c| c.ready).unwrap_or(true);
            if is_ready {
                ready.insert(address);
            } else if conditions.and_then(|c| c.serving).unwrap_or(false) {
                serving.insert(address);
            } else {
                others += 1;
            }
        }
    }
    match (ready.is_empty(), serving.is_empty()) {
        (false, _) => Ok(ready.into_iter().collect()),
        (true, false) => Ok(serving.into_iter().collect()),
        (true, true) => Err(Problem::NoEndpoints(others)),
    }
}

/// Namespace and name of the Service that a slice belongs to.
pub fn service_of(slice: &EndpointSlice) -> Option<(&str, &str)> {
    let name = slice.metadata.labels.as_ref()?.get(SERVICE_NAME)?;
    Some((slice.metadata.namespace.as_deref().unwrap_or_default(), name))
}

/// Slices carry target ports already resolved to numbers; names only pair them with the Service's ports.
fn number_in(slice: &EndpointSlice, name: &str, is_fit: impl Fn(Option<&str>) -> bool) -> Option<u16> {
    let mut ports = slice.ports.iter().flatten();
    let port = ports
        .find(|port| port.name.as_deref().unwrap_or_default() == name && is_fit(port.protocol.as_deref()))?;
    u16::try_from(port.port?).ok().filter(|&number| number != 0)
}

fn is_tcp(protocol: Option<&str>) -> bool {
    matches!(protocol, None | Some("" | "TCP"))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn who_gets_the_requests() {
        let spec = json!({"ports": [
            {"name": "http", "port": 80}, {"name": "admin", "port": 81}, {"name": "dns", "port": 53, "protocol": "UDP"},
        ]});
        let endpoint = |ip: &str, ready: bool, serving: bool| json!({"addresses": [ip], "conditions": {"ready": ready, "serving": serving}});
        let check =
            |spec: Value, endpoints_: &[Value], port: Port<'_>, expected: Result<&[&str], Problem>| {
                let service = serde_json::from_value(json!({"metadata": {}, "spec": spec})).unwrap();
                let slice = serde_json::from_value(
                    json!({"metadata": {}, "addressType": "IPv4", "endpoints": endpoints_,
                "ports": [{"name": "http", "port": 8080, "protocol": "TCP"}]}),
                )
                .unwrap();
                let found = endpoints(Some(&service), [&slice], port);
                let found = found.map(|list| list.iter().map(ToString::to_string).collect::<Vec<_>>());
                let expected =
                    expected.map(|list| list.iter().map(|&text| text.to_owned()).collect::<Vec<_>>());
                assert_eq!(found, expected, "{port}");
            };
        let (up, going, down) = (
            endpoint("10.0.0.1", true, true),
            endpoint("10.0.0.2", false, true),
            endpoint("10.0.0.3", false, false),
        );
        let all = [up, going, down];
        check(spec.clone(), &all, Port::Number(80), Ok(&["10.0.0.1:8080"]));
        check(spec.clone(), &all, Port::Name("http"), Ok(&["10.0.0.1:8080"]));
        check(spec.clone(), &all[1..], Port::Name("http"), Ok(&["10.0.0.2:8080"]));
        check(spec.clone(), &all[2..], Port::Name("http"), Err(Problem::NoEndpoints(1)));
        check(spec.clone(), &[], Port::Number(80), Err(Problem::NoEndpoints(0)));
        check(spec.clone(), &all, Port::Number(81), Err(Problem::NoEndpoints(0)));
        check(spec.clone(), &all, Port::Number(82), Err(Problem::NoPort));
        check(spec.clone(), &all, Port::Name("x"), Err(Problem::NoPort));
        check(spec, &all, Port::Name("dns"), Err(Problem::NotTcp));
        check(json!({"type": "ExternalName"}), &[], Port::Number(80), Err(Problem::ExternalName));
        assert_eq!(endpoints(None, [], Port::Number(80)), Err(Problem::NoService));
    }
}
