//! What this machine is called and how others reach it.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, ToSocketAddrs, UdpSocket};

use minik8s_meta::IpFamily;

/// The host name, as a node may be called: lower case, without what DNS does not allow.
pub fn name() -> String {
    let name = nix::unistd::gethostname().ok().and_then(|name| name.into_string().ok()).unwrap_or_default();
    let name: String = name
        .to_lowercase()
        .chars()
        .map(|c| if c.is_ascii_alphanumeric() || c == '-' || c == '.' { c } else { '-' })
        .collect();
    match name.trim_matches(['-', '.']) {
        "" => "node".to_owned(),
        name => name.to_owned(),
    }
}

/// The address of the interface that leads outside, of IPv4 where there is one; loopback on a machine without one.
pub fn address() -> IpAddr {
    let families = [IpFamily::V4, IpFamily::V6];
    families.into_iter().find_map(address_of).unwrap_or(loopback(IpFamily::V4))
}

/// The address of that family of the interface that leads outside.
pub fn address_of(family: IpFamily) -> Option<IpAddr> {
    // Nobody has these addresses, but the way to them is the way outside.
    let outside: IpAddr = match family {
        IpFamily::V4 => Ipv4Addr::new(192, 0, 2, 1).into(),
        IpFamily::V6 => Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1).into(),
    };
    let outward = source_towards(SocketAddr::new(outside, 9)).filter(is_known_to_others);
    outward.or_else(|| addresses().into_iter().find(|address| IpFamily::of(*address) == family))
}

pub fn loopback(family: IpFamily) -> IpAddr {
    match family {
        IpFamily::V4 => Ipv4Addr::LOCALHOST.into(),
        IpFamily::V6 => Ipv6Addr::LOCALHOST.into(),
    }
}

/// Connecting a UDP socket sends nothing: it only asks the kernel which source address it would use.
fn source_towards(target: SocketAddr) -> Option<IpAddr> {
    let from: IpAddr =
        if target.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
    let socket = UdpSocket::bind((from, 0)).ok()?;
    socket.connect(target).ok()?;
    socket.local_addr().ok().map(|address| address.ip())
}

/// An address of a link or of the machine itself means something else elsewhere.
fn is_known_to_others(address: &IpAddr) -> bool {
    let link_local = matches!(address, IpAddr::V6(ip) if ip.is_unicast_link_local());
    !address.is_unspecified() && !address.is_loopback() && !link_local
}

/// The address of the interface that leads to that host; `None` if nothing does.
pub fn address_towards(host: &str, port: u16) -> Option<IpAddr> {
    source_towards((host, port).to_socket_addrs().ok()?.next()?)
}

/// All addresses of this machine that others may know it by.
pub fn addresses() -> Vec<IpAddr> {
    let Ok(interfaces) = nix::ifaddrs::getifaddrs() else { return Vec::new() };
    let mut found: Vec<IpAddr> = Vec::new();
    for interface in interfaces {
        let Some(address) = interface.address else { continue };
        let ip = match (address.as_sockaddr_in(), address.as_sockaddr_in6()) {
            (Some(v4), _) => IpAddr::V4(v4.ip()),
            (_, Some(v6)) => IpAddr::V6(v6.ip()),
            _ => continue,
        };
        if is_known_to_others(&ip) && !found.contains(&ip) {
            found.push(ip);
        }
    }
    found
}
