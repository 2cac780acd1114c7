//! Virtual IPs and node ports of Services.
//!
//! An address is taken by writing its `IPAddress` object, a node port by writing a key of its own, in the
//! same commit as the Service: two Services can never hold the same one, and a crash can leak none.

mod addresses;
mod families;
mod ports;

use std::ops::RangeInclusive;

use async_trait::async_trait;
use minik8s_meta::Cidrs;
use minik8s_store::Op;

use self::addresses::addresses_of;
use self::ports::{node_ports, port_key};
use super::{Admission, Operation, Request};
use crate::error::Result;
use crate::registry::Registry;

/// Where addresses and ports come from.
#[derive(Debug, Clone)]
pub struct AddressRanges {
    pub services: Cidrs,
    pub node_ports: RangeInclusive<u16>,
}

/// At least so many of the lowest addresses and ports are left to those who ask for them by number.
const RESERVED: u128 = 16;
/// How often one is drawn before those that are taken are looked at.
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
        self.assign_addresses(registry, request).await?;
        self.assign_ports(registry, request).await
    }

    async fn release(&self, registry: &Registry, request: &mut Request<'_>) -> Result<()> {
        if !request.call.served.group.is_empty() || request.call.served.plural != "services" {
            return Ok(());
        }
        let Some(old) = request.old else { return Ok(()) };
        self.give_back(registry, request, &addresses_of(old))?;
        for port in node_ports(old) {
            request.also.ops.push(Op::Delete { key: port_key(port) });
        }
        Ok(())
    }
}

/// How many of the lowest are given only when nothing else is left: a share, as upstream leaves it.
fn reserved(size: u128, share: u128, most: u128) -> u128 {
    if size > 4 * RESERVED { (size / share).clamp(RESERVED, most) } else { 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reserved_share_follows_the_size() {
        let check = |size: u128, share: u128, most: u128, expected: u128| {
            assert_eq!(reserved(size, share, most), expected, "{size}");
        };
        // Addresses of a /12 (or a /108), a /24, a /28 and a /64; the default ports, and few.
        check(1 << 20, 16, 256, 256);
        check(256, 16, 256, 16);
        check(16, 16, 256, 0);
        check(1 << 64, 16, 256, 256);
        check(2768, 32, 128, 86);
        check(64, 32, 128, 0);
    }
}
