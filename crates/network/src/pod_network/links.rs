//! What the kernel must have for pods to reach other nodes, as a value.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::{self, Display};
use std::net::IpAddr;
use std::str::FromStr;

use ipnet::IpNet;

/// All of it, wanted or found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Links {
    /// The tunnel device, if any node is reached through it.
    pub vxlan: Option<Vxlan>,
    /// By the pods that they lead to.
    pub routes: BTreeMap<IpNet, Route>,
    /// Behind which node's address a tunnel device is.
    pub forwarding: BTreeMap<Mac, IpAddr>,
    /// The tunnel devices' hardware addresses, so that nobody has to ask for them.
    pub neighbours: BTreeMap<IpAddr, Mac>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Vxlan {
    pub id: u32,
    pub port: u16,
    /// Its family is that of the packets between the nodes, whatever is in them.
    pub local: IpAddr,
    pub mac: Mac,
    pub mtu: u32,
    /// What this node itself calls from: one of each family that pods have.
    pub addresses: BTreeSet<IpAddr>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Route {
    pub via: IpAddr,
    pub device: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Mac(pub [u8; 6]);

impl Mac {
    /// A locally administered address that follows from the node's first pod range.
    pub fn of(pods: IpNet) -> Mac {
        let [a, b, c, d] = digest(pods).to_be_bytes();
        Mac([0x02, 0x4d, a, b, c, d])
    }
}

/// The network's number; of an IPv6 one, whose ranges differ in their middle, a sum of its parts (FNV-1a).
pub(super) fn digest(range: IpNet) -> u32 {
    match range.network() {
        IpAddr::V4(network) => network.to_bits(),
        IpAddr::V6(network) => network
            .octets()
            .into_iter()
            .fold(0x811c_9dc5, |hash: u32, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193)),
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
