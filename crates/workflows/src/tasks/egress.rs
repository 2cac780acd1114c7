//! Which addresses `http:invoke` may reach. Pure.
//!
//! The request leaves from a server of the control plane, on behalf of whoever may create Workflows. So it may go to
//! public addresses, and to nothing that this machine sees and its user does not: its loopback interface and other
//! addresses of its own, a cloud's metadata, other machines' private addresses, and pods and Services past any policy.
//! Services of the run's own namespace are reached by name, through the API server's own proxy. An administrator can
//! allow more: `minik8s cluster set workflows.allowed-addresses=10.1.0.0/16,192.168.0.7:8080`.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::str::FromStr;

use ipnet::IpNet;

/// The setting in which an administrator allows more: namespace, ConfigMap and key.
pub const SETTINGS: (&str, &str, &str) = ("kube-system", "minik8s-cluster", "workflows.allowed-addresses");

/// Addresses that an administrator allows.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Allowed(Vec<(IpNet, Option<u16>)>);

#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error(
    "{0:?} is no address: write ranges or addresses, each perhaps with a port, as in 10.1.0.0/16,192.168.0.7:8080"
)]
pub struct AllowedError(String);

impl FromStr for Allowed {
    type Err = AllowedError;

    fn from_str(text: &str) -> Result<Self, AllowedError> {
        let parts = text.split(',').map(str::trim).filter(|part| !part.is_empty());
        let one = |part: &str| {
            if let Ok(socket) = part.parse::<SocketAddr>() {
                return Some((IpNet::from(socket.ip()), Some(socket.port())));
            }
            part.parse().or_else(|_| part.parse::<IpAddr>().map(IpNet::from)).ok().map(|range| (range, None))
        };
        parts
            .map(|part| one(part).ok_or_else(|| AllowedError(part.to_owned())))
            .collect::<Result<_, _>>()
            .map(Allowed)
    }
}

impl fmt::Display for Allowed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, (range, port)) in self.0.iter().enumerate() {
            let comma = if at > 0 { "," } else { "" };
            match port {
                Some(port) => write!(f, "{comma}{}", SocketAddr::new(range.addr(), *port))?,
                None => write!(f, "{comma}{range}")?,
            }
        }
        Ok(())
    }
}

/// What is known of the machine and the cluster when a request is made.
#[derive(Debug, Clone, Default)]
pub struct Egress {
    pub allowed: Allowed,
    /// Of this machine and of the nodes.
    pub own: Vec<IpAddr>,
    /// Of pods and Services.
    pub cluster: Vec<IpNet>,
}

impl Egress {
    /// Why an address is out of reach; None if it may be reached.
    pub fn refusal(&self, address: SocketAddr) -> Option<&'static str> {
        let ip = embedded(address.ip());
        let listed = |(range, port): &(IpNet, Option<u16>)| {
            range.contains(&ip) && port.is_none_or(|port| port == address.port())
        };
        // What one address hides in another is never what an administrator meant.
        if self.allowed.0.iter().any(listed) && ip == address.ip().to_canonical() {
            return None;
        }
        if self.own.contains(&ip) {
            return Some("it is an address of the cluster's own machines");
        }
        if self.cluster.iter().any(|range| range.contains(&ip)) {
            return Some(
                "it is a pod or a Service: name a Service of the run's own namespace, as in http://NAME.NAMESPACE.svc/",
            );
        }
        let public = match ip {
            IpAddr::V4(v4) => is_public_v4(v4),
            IpAddr::V6(v6) => is_public_v6(v6),
        };
        (!public).then_some(
            "it is not public: an administrator can allow it (minik8s cluster set workflows.allowed-addresses=…)",
        )
    }
}

/// The IPv4 address that an IPv6 one leads to (mapped, NAT64, 6to4), or itself.
fn embedded(address: IpAddr) -> IpAddr {
    let IpAddr::V6(v6) = address else { return address };
    let parts = v6.segments();
    let v4 = |high: u16, low: u16| IpAddr::V4(Ipv4Addr::from((u32::from(high) << 16) | u32::from(low)));
    match parts {
        [0, 0, 0, 0, 0, 0xffff, high, low] | [0x64, 0xff9b, 0, 0, 0, 0, high, low] => v4(high, low),
        [0, 0, 0, 0, 0, 0, high, low] if high > 0 => v4(high, low),
        [0x2002, high, low, ..] => v4(high, low),
        _ => address,
    }
}

fn is_public_v4(address: Ipv4Addr) -> bool {
    let [a, b, c, _] = address.octets();
    !(address.is_private()
        || address.is_loopback()
        || address.is_link_local()
        || address.is_broadcast()
        || address.is_documentation()
        || a == 0
        || a >= 224
        // Shared by carriers, and by some clouds' metadata.
        || (a == 100 && (64..128).contains(&b))
        || (a == 192 && b == 0 && c == 0)
        || (a == 198 && (b == 18 || b == 19)))
}

fn is_public_v6(address: Ipv6Addr) -> bool {
    // Global unicast is 2000::/3; without what stands for other networks and for documents.
    let [first, second, ..] = address.segments();
    (0x2000..0x4000).contains(&first) && !(first == 0x2001 && (second < 0x200 || second == 0xdb8))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn egress(allowed: &str) -> Egress {
        Egress {
            allowed: allowed.parse().unwrap_or_default(),
            own: vec!["203.0.114.9".parse().unwrap_or(IpAddr::V4(Ipv4Addr::LOCALHOST))],
            cluster: vec!["100.200.0.0/16".parse().unwrap_or_default()],
        }
    }

    #[test]
    fn only_public_addresses_are_reached() {
        let egress = egress("");
        for public in ["8.8.8.8:443", "1.1.1.1:80", "[2606:4700::1111]:443"] {
            assert_eq!(egress.refusal(public.parse().unwrap()), None, "{public}");
        }
        for refused in [
            "127.0.0.1:6443",
            "127.1.2.3:80",
            "0.0.0.0:80",
            "0.1.2.3:80",
            "10.0.0.1:2379",
            "172.16.0.1:80",
            "192.168.1.1:80",
            "169.254.169.254:80",
            "100.100.100.200:80",
            "192.0.0.192:80",
            "198.18.0.1:80",
            "224.0.0.1:80",
            "255.255.255.255:80",
            "203.0.114.9:443",
            "100.200.3.4:80",
            "[::1]:6443",
            "[::]:80",
            "[fe80::1]:80",
            "[fd00:ec2::254]:80",
            "[ff02::1]:80",
            "[::ffff:127.0.0.1]:80",
            "[::ffff:169.254.169.254]:80",
            "[::127.0.0.1]:80",
            "[64:ff9b::a9fe:a9fe]:80",
            "[64:ff9b::7f00:1]:80",
            "[2002:7f00:1::]:80",
            "[2001:db8::1]:80",
        ] {
            assert!(egress.refusal(refused.parse().unwrap()).is_some(), "{refused}");
        }
    }

    #[test]
    fn administrator_allows_ranges_and_single_ports() {
        let egress = egress("10.1.0.0/16, 127.0.0.1:8080");
        for (address, allowed) in [
            ("10.1.2.3:80", true),
            ("10.2.0.1:80", false),
            ("127.0.0.1:8080", true),
            ("127.0.0.1:6443", false),
            ("[64:ff9b::7f00:1]:8080", false),
        ] {
            assert_eq!(egress.refusal(address.parse().unwrap()).is_none(), allowed, "{address}");
        }
        for bad in ["everything", "10.0.0.0/33", "1.2.3.4:http"] {
            assert!(bad.parse::<Allowed>().is_err(), "{bad}");
        }
        let text = "10.1.0.0/16,127.0.0.1:8080";
        assert_eq!(text.parse::<Allowed>().unwrap().to_string(), text);
    }
}
