//! The address ranges of a cluster, for pods or for Services: one, or one of each family. The first is the primary one, as in
//! Kubernetes: its family is what a Service gets that asks for none.
//!
//! It never knows which of a machine's addresses are taken.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

use ipnet::{IpNet, Ipv4Net, Ipv6Net};
use thiserror::Error;

/// An address family, by the name that Services and EndpointSlices give it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum IpFamily {
    #[default]
    V4,
    V6,
}

impl IpFamily {
    pub fn of(address: IpAddr) -> IpFamily {
        if address.is_ipv4() { IpFamily::V4 } else { IpFamily::V6 }
    }

    pub fn name(self) -> &'static str {
        match self {
            IpFamily::V4 => "IPv4",
            IpFamily::V6 => "IPv6",
        }
    }

    pub fn from_name(name: &str) -> Option<IpFamily> {
        match name {
            "IPv4" => Some(IpFamily::V4),
            "IPv6" => Some(IpFamily::V6),
            _ => None,
        }
    }

    pub fn other(self) -> IpFamily {
        match self {
            IpFamily::V4 => IpFamily::V6,
            IpFamily::V6 => IpFamily::V4,
        }
    }
}

impl fmt::Display for IpFamily {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// One range, or one of each family: `10.244.0.0/16`, `fd00:10:244::/56`, `10.244.0.0/16,fd00:10:244::/56`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cidrs {
    primary: IpNet,
    secondary: Option<IpNet>,
}

#[derive(Debug, Error, PartialEq, Eq)]
pub enum CidrsError {
    #[error("{0:?} is no address range; write one like 10.244.0.0/16 or fd00:10:244::/56")]
    NotACidr(String),
    #[error("{0} and {1} are of one family; two ranges are one of IPv4 and one of IPv6")]
    SameFamily(IpNet, IpNet),
    #[error("{0} ranges; give one, or one of IPv4 and one of IPv6")]
    TooMany(usize),
}

impl Cidrs {
    pub fn new(primary: IpNet, secondary: Option<IpNet>) -> Result<Cidrs, CidrsError> {
        match secondary {
            Some(second) if IpFamily::of(second.addr()) == IpFamily::of(primary.addr()) => {
                Err(CidrsError::SameFamily(primary, second))
            }
            _ => Ok(Cidrs { primary: primary.trunc(), secondary: secondary.map(|second| second.trunc()) }),
        }
    }

    pub fn primary(&self) -> IpNet {
        self.primary
    }

    pub fn iter(&self) -> impl Iterator<Item = IpNet> + use<> {
        std::iter::once(self.primary).chain(self.secondary)
    }

    /// The families in their order: the primary one first.
    pub fn families(&self) -> impl Iterator<Item = IpFamily> + use<> {
        self.iter().map(|range| IpFamily::of(range.addr()))
    }

    pub fn of_family(&self, family: IpFamily) -> Option<IpNet> {
        self.iter().find(|range| IpFamily::of(range.addr()) == family)
    }

    pub fn v4(&self) -> Option<Ipv4Net> {
        self.iter().find_map(|range| match range {
            IpNet::V4(range) => Some(range),
            IpNet::V6(_) => None,
        })
    }

    pub fn v6(&self) -> Option<Ipv6Net> {
        self.iter().find_map(|range| match range {
            IpNet::V4(_) => None,
            IpNet::V6(range) => Some(range),
        })
    }

    pub fn is_dual_stack(&self) -> bool {
        self.secondary.is_some()
    }

    pub fn contains(&self, address: IpAddr) -> bool {
        self.iter().any(|range| range.contains(&address))
    }

    /// The first two ranges, one of each set, that have an address in common.
    pub fn overlap(&self, other: &Cidrs) -> Option<(IpNet, IpNet)> {
        let pairs = self.iter().flat_map(|one| other.iter().map(move |two| (one, two)));
        pairs.into_iter().find(|(one, two)| one.contains(&two.addr()) || two.contains(&one.addr()))
    }
}

/// The n-th address of a range, counted from that of its network; `None` beyond its end.
pub fn nth_address(range: IpNet, n: u128) -> Option<IpAddr> {
    let address = match range.network() {
        IpAddr::V4(first) => {
            u32::from(first).checked_add(u32::try_from(n).ok()?).map(|ip| Ipv4Addr::from(ip).into())
        }
        IpAddr::V6(first) => u128::from(first).checked_add(n).map(|ip| Ipv6Addr::from(ip).into()),
    };
    address.filter(|address| range.contains(address))
}

impl From<IpNet> for Cidrs {
    fn from(range: IpNet) -> Cidrs {
        Cidrs { primary: range.trunc(), secondary: None }
    }
}

impl From<Ipv4Net> for Cidrs {
    fn from(range: Ipv4Net) -> Cidrs {
        IpNet::V4(range).into()
    }
}

impl FromStr for Cidrs {
    type Err = CidrsError;

    fn from_str(text: &str) -> Result<Cidrs, CidrsError> {
        let parse = |part: &str| part.trim().parse().map_err(|_| CidrsError::NotACidr(part.to_owned()));
        let ranges = text.split(',').map(parse).collect::<Result<Vec<IpNet>, _>>()?;
        match ranges[..] {
            [only] => Ok(only.into()),
            [first, second] => Cidrs::new(first, Some(second)),
            _ => Err(CidrsError::TooMany(ranges.len())),
        }
    }
}

impl fmt::Display for Cidrs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.primary)?;
        match self.secondary {
            Some(second) => write!(f, ",{second}"),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: Result<&str, &str>) {
        let read = text.parse::<Cidrs>().map(|cidrs| cidrs.to_string()).map_err(|error| error.to_string());
        assert_eq!(read.as_deref().map_err(String::as_str), expected, "{text}");
    }

    #[test]
    fn cidrs_are_read_and_written() {
        check("10.244.0.0/16", Ok("10.244.0.0/16"));
        check("10.244.9.9/16, fd00:10:244::/56", Ok("10.244.0.0/16,fd00:10:244::/56"));
        check("fd00::/56,10.0.0.0/8", Ok("fd00::/56,10.0.0.0/8"));
        check("x", Err("\"x\" is no address range; write one like 10.244.0.0/16 or fd00:10:244::/56"));
        check(
            "10.0.0.0/8,11.0.0.0/8",
            Err("10.0.0.0/8 and 11.0.0.0/8 are of one family; two ranges are one of IPv4 and one of IPv6"),
        );
        check("10.0.0.0/8,fd00::/8,fe00::/8", Err("3 ranges; give one, or one of IPv4 and one of IPv6"));
    }

    #[test]
    fn nth_address_stays_in_its_range() {
        let check = |range: &str, n: u128, expected: Option<&str>| {
            let found = nth_address(range.parse().unwrap(), n).map(|address| address.to_string());
            assert_eq!(found.as_deref(), expected, "{range} {n}");
        };
        check("10.96.0.0/12", 10, Some("10.96.0.10"));
        check("fd00:10:96::/108", 10, Some("fd00:10:96::a"));
        check("fd00:10:96::/64", 1 << 63, Some("fd00:10:96:0:8000::"));
        check("10.96.0.0/28", 16, None);
        check("255.255.255.0/24", 1 << 40, None);
        check("ffff:ffff:ffff:ffff:ffff:ffff:ffff:0/112", 1 << 16, None);
    }

    #[test]
    fn cidrs_know_families_and_overlaps() {
        let both: Cidrs = "fd00::/56,10.0.0.0/8".parse().unwrap();
        assert_eq!(both.families().collect::<Vec<_>>(), [IpFamily::V6, IpFamily::V4]);
        assert!(both.contains("10.1.1.1".parse().unwrap()) && !both.contains("fd01::1".parse().unwrap()));
        let inside: Cidrs = "10.96.0.0/12".parse().unwrap();
        assert_eq!(
            inside.overlap(&both).map(|(one, two)| (one.to_string(), two.to_string())),
            Some(("10.96.0.0/12".into(), "10.0.0.0/8".into()))
        );
        assert_eq!("11.0.0.0/8".parse::<Cidrs>().unwrap().overlap(&both), None);
    }
}
