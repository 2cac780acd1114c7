//! Which addresses the API server connects to on behalf of others: the one place that decides.
//!
//! Pods' and nodes' addresses are what nodes say. A stolen one could name the server's own loopback interface or a
//! cloud's metadata service and have users' requests, or its own, sent there.

use std::net::IpAddr;

use crate::error::{ApiError, Result};

/// An address that leads to a pod or to another machine.
pub fn dialable(text: &str) -> Result<IpAddr> {
    let address = text.parse().map(|address: IpAddr| address.to_canonical());
    address.ok().filter(is_global_unicast).ok_or_else(refused)
}

/// A kubelet's address. On a cluster whose API server listens on loopback alone all nodes are this machine; a kubelet
/// must prove its name besides.
pub fn kubelet(text: &str, own: IpAddr) -> Result<IpAddr> {
    match text.parse::<IpAddr>() {
        Ok(address) if own.is_loopback() && address == own => Ok(address),
        _ => dialable(text),
    }
}

/// In upstream's words.
fn refused() -> ApiError {
    ApiError::bad_request("address not allowed")
}

/// As Go's `net.IP.IsGlobalUnicast`, which upstream goes by: private networks are allowed.
fn is_global_unicast(address: &IpAddr) -> bool {
    if address.is_unspecified() || address.is_loopback() || address.is_multicast() {
        return false;
    }
    match address {
        IpAddr::V4(v4) => !v4.is_link_local() && !v4.is_broadcast(),
        IpAddr::V6(v6) => !v6.is_unicast_link_local(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_the_server_itself_or_of_nobody_are_never_dialed() {
        for allowed in [
            "10.244.1.7",
            "192.168.0.1",
            "172.16.0.1",
            "8.8.8.8",
            "fd00::1",
            "2001:db8::1",
            "::ffff:10.0.0.1",
        ] {
            assert!(dialable(allowed).is_ok(), "{allowed}");
        }
        for refused in [
            "127.0.0.1",
            "127.8.8.8",
            "::1",
            "::ffff:127.0.0.1",
            "0.0.0.0",
            "::",
            "169.254.169.254",
            "::ffff:169.254.169.254",
            "fe80::1",
            "224.0.0.1",
            "239.1.1.1",
            "ff02::1",
            "255.255.255.255",
            "",
            "localhost",
            "metadata.internal",
            "10.0.0.1:80",
            "010.0.0.1",
            "2130706433",
            "fe80::1%eth0",
        ] {
            assert_eq!(dialable(refused).err().map(|e| e.code), Some(400), "{refused}");
        }
    }

    #[test]
    fn kubelets_on_loopback_are_dialed_only_where_the_server_is_on_loopback() {
        let check = |text: &str, own: &str, expected: bool| {
            assert_eq!(kubelet(text, own.parse().unwrap()).is_ok(), expected, "{text} from {own}");
        };
        check("10.0.0.2", "10.0.0.1", true);
        check("127.0.0.1", "10.0.0.1", false);
        check("127.0.0.1", "127.0.0.1", true);
        check("127.0.0.2", "127.0.0.1", false);
        check("10.0.0.1", "127.0.0.1", true);
        check("169.254.169.254", "169.254.169.254", false);
    }
}
