//! What the kernel must have for pods to reach other nodes, as a value.

use std::collections::BTreeMap;
use std::fmt::{self, Display};
use std::net::Ipv4Addr;
use std::str::FromStr;

use ipnet::Ipv4Net;

/// All of it, wanted or found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Links {
    /// The tunnel device, if any node is reached through it.
    pub vxlan: Option<Vxlan>,
    /// By the pods that they lead to.
    pub routes: BTreeMap<Ipv4Net, Route>,
    /// Behind which node's address a tunnel device is.
    pub forwarding: BTreeMap<Mac, Ipv4Addr>,
    /// The tunnel devices' hardware addresses, so that nobody has to ask for them.
    pub neighbours: BTreeMap<Ipv4Addr, Mac>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Vxlan {
    pub id: u32,
    pub port: u16,
    pub local: Ipv4Addr,
    pub mac: Mac,
    pub mtu: u32,
    /// What this node itself calls from.
    pub address: Ipv4Addr,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Route {
    pub via: Ipv4Addr,
    pub device: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Mac(pub [u8; 6]);

impl Mac {
    /// A locally administered address that follows from the node's pod range.
    pub fn of(pods: Ipv4Net) -> Mac {
        let [a, b, c, d] = pods.network().octets();
        Mac([0x02, 0x4d, a, b, c, d])
    }
}

impl Display for Mac {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d, e, g] = self.0;
        write!(f, "{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{g:02x}")
    }
}

impl FromStr for Mac {
    type Err = ();

    fn from_str(text: &str) -> Result<Mac, ()> {
        let bytes: Result<Vec<u8>, _> = text.split(':').map(|part| u8::from_str_radix(part, 16)).collect();
        Ok(Mac(bytes.map_err(drop)?.try_into().map_err(drop)?))
    }
}
