//! What this machine is called and how others reach it.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, ToSocketAddrs, UdpSocket};

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

/// The address of the interface that leads outside; loopback on a machine without one.
pub fn address() -> IpAddr {
    // Connecting a UDP socket sends nothing: it only asks the kernel which source address it would use.
    let outward = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).and_then(|socket| {
        socket.connect((Ipv4Addr::new(192, 0, 2, 1), 9))?;
        socket.local_addr()
    });
    match outward {
        Ok(address) if !address.ip().is_unspecified() => address.ip(),
        _ => first_interface().unwrap_or(IpAddr::V4(Ipv4Addr::LOCALHOST)),
    }
}

/// The address of the interface that leads to that host; `None` if nothing does.
pub fn address_towards(host: &str, port: u16) -> Option<IpAddr> {
    let target = (host, port).to_socket_addrs().ok()?.next()?;
    let from: IpAddr =
        if target.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
    let socket = UdpSocket::bind((from, 0)).ok()?;
    socket.connect(target).ok()?;
    socket.local_addr().ok().map(|address| address.ip())
}

/// Without a default route: the first address that is not loopback.
fn first_interface() -> Option<IpAddr> {
    addresses().into_iter().find(|address| address.is_ipv4())
}

/// All addresses of this machine but loopback.
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
        let link_local = matches!(ip, IpAddr::V6(ip) if (ip.segments()[0] & 0xffc0) == 0xfe80);
        if !ip.is_loopback() && !link_local && !found.contains(&ip) {
            found.push(ip);
        }
    }
    found
}
