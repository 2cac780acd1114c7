//! Addresses and networks: `ip('10.0.0.1')`, `cidr('10.0.0.0/8').containsIP('10.1.2.3')`

use std::net::IpAddr;

use ipnet::IpNet;

use super::{Evaluated, Row, Site, mismatch};
use crate::error::EvalError;
use crate::value::Value;

pub const TABLE: &[Row] = &[
    ("string_to_ip", "ip(string) -> ip", |_, args| match &args[0] {
        Value::String(text) => parse_ip(text).map(Value::Ip).map_err(EvalError::Failed),
        _ => mismatch(),
    }),
    ("cidr_ip", "cidr::ip() -> ip", |_, args| match &args[0] {
        Value::Cidr(network) => Ok(Value::Ip(network.addr())),
        _ => mismatch(),
    }),
    ("ip_to_string", "string(ip) -> string", |_, args| Ok(args[0].to_string().into())),
    ("cidr_to_string", "string(cidr) -> string", |_, args| Ok(args[0].to_string().into())),
    ("is_ip", "isIP(string) -> bool", |_, args| match &args[0] {
        Value::String(text) => Ok(Value::Bool(parse_ip(text).is_ok())),
        _ => mismatch(),
    }),
    ("ip_is_canonical", "ip.isCanonical(string) -> bool", |_, args| match &args[0] {
        Value::String(text) => {
            let address = parse_ip(text).map_err(EvalError::Failed)?;
            Ok(Value::Bool(address.to_string() == **text))
        }
        _ => mismatch(),
    }),
    ("ip_family", "ip::family() -> int", |_, args| match &args[0] {
        Value::Ip(address) => Ok(Value::Int(if address.is_ipv4() { 4 } else { 6 })),
        _ => mismatch(),
    }),
    ("ip_is_unspecified", "ip::isUnspecified() -> bool", |_, args| test(args, IpAddr::is_unspecified)),
    ("ip_is_loopback", "ip::isLoopback() -> bool", |_, args| test(args, IpAddr::is_loopback)),
    ("ip_is_link_local_multicast", "ip::isLinkLocalMulticast() -> bool", |_, args| {
        test(args, local_multicast)
    }),
    ("ip_is_link_local_unicast", "ip::isLinkLocalUnicast() -> bool", |_, args| test(args, local_unicast)),
    ("ip_is_global_unicast", "ip::isGlobalUnicast() -> bool", |_, args| {
        test(args, |address| {
            let broadcast = matches!(address, IpAddr::V4(v4) if v4.is_broadcast());
            let special = address.is_unspecified() || address.is_loopback() || address.is_multicast();
            !(broadcast || special || local_unicast(address))
        })
    }),
    ("string_to_cidr", "cidr(string) -> cidr", |_, args| match &args[0] {
        Value::String(text) => parse_cidr(text).map(Value::Cidr).map_err(EvalError::Failed),
        _ => mismatch(),
    }),
    ("is_cidr", "isCIDR(string) -> bool", |_, args| match &args[0] {
        Value::String(text) => Ok(Value::Bool(parse_cidr(text).is_ok())),
        _ => mismatch(),
    }),
    ("cidr_contains_ip_string", "cidr::containsIP(string) -> bool", contains_ip),
    ("cidr_contains_ip_ip", "cidr::containsIP(ip) -> bool", contains_ip),
    ("cidr_contains_cidr_string", "cidr::containsCIDR(string) -> bool", contains_cidr),
    ("cidr_contains_cidr", "cidr::containsCIDR(cidr) -> bool", contains_cidr),
    ("cidr_prefix_length", "cidr::prefixLength() -> int", |_, args| match &args[0] {
        Value::Cidr(network) => Ok(Value::Int(network.prefix_len().into())),
        _ => mismatch(),
    }),
    ("cidr_masked", "cidr::masked() -> cidr", |_, args| match &args[0] {
        Value::Cidr(network) => Ok(Value::Cidr(network.trunc())),
        _ => mismatch(),
    }),
];

fn test<'a>(args: &[Value<'a>], holds: fn(&IpAddr) -> bool) -> Evaluated<'a> {
    match &args[0] {
        Value::Ip(address) => Ok(Value::Bool(holds(address))),
        _ => mismatch(),
    }
}

fn parse_ip(text: &str) -> Result<IpAddr, String> {
    if text.contains('%') {
        return Err(format!("IP address {text:?} with zone value is not allowed"));
    }
    match text.parse() {
        Ok(IpAddr::V6(address)) if address.to_ipv4_mapped().is_some() => {
            Err(format!("IPv4-mapped IPv6 address {text:?} is not allowed"))
        }
        Ok(address) => Ok(address),
        Err(_) => Err(format!(
            "IP Address {text:?} parse error during conversion from string: ParseAddr({text:?}): unable to parse IP"
        )),
    }
}

fn parse_cidr(text: &str) -> Result<IpNet, String> {
    let wrong = |why: String| format!("network address parse error during conversion from string: {why}");
    // A prefix length has no leading zeros.
    let length = text.rsplit_once('/').map_or("", |(_, length)| length);
    let zeros = length.len() > 1 && length.starts_with('0');
    match text.parse::<IpNet>() {
        Ok(IpNet::V6(network)) if network.addr().to_ipv4_mapped().is_some() => {
            Err(wrong(format!("IPv4-mapped IPv6 address {text:?} is not allowed")))
        }
        Ok(network) if !zeros => Ok(network),
        _ => Err(wrong(format!("netip.ParsePrefix({text:?}): unable to parse"))),
    }
}

fn contains_ip<'a>(_: &Site, args: &[Value<'a>]) -> Evaluated<'a> {
    match args {
        [Value::Cidr(network), Value::Ip(address)] => Ok(Value::Bool(network.contains(address))),
        [Value::Cidr(network), Value::String(text)] => {
            Ok(Value::Bool(network.contains(&parse_ip(text).map_err(EvalError::Failed)?)))
        }
        _ => mismatch(),
    }
}

fn contains_cidr<'a>(_: &Site, args: &[Value<'a>]) -> Evaluated<'a> {
    match args {
        [Value::Cidr(network), Value::Cidr(other)] => {
            Ok(Value::Bool(network.trunc().contains(&other.trunc())))
        }
        [Value::Cidr(network), Value::String(text)] => {
            let other = parse_cidr(text).map_err(EvalError::Failed)?;
            Ok(Value::Bool(network.trunc().contains(&other.trunc())))
        }
        _ => mismatch(),
    }
}

fn local_multicast(address: &IpAddr) -> bool {
    match address {
        IpAddr::V4(v4) => v4.octets()[..3] == [224, 0, 0],
        IpAddr::V6(v6) => v6.segments()[0] & 0xff0f == 0xff02,
    }
}

fn local_unicast(address: &IpAddr) -> bool {
    match address {
        IpAddr::V4(v4) => v4.is_link_local(),
        IpAddr::V6(v6) => v6.segments()[0] & 0xffc0 == 0xfe80,
    }
}
