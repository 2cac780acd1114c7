//! Numbers, and address ranges for a cluster, that no other test on this machine has at the same time, in whichever process.

use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener};

/// Free again when this is dropped.
pub struct Number {
    pub value: u32,
    /// The kernel gives a name to one process at a time, and takes it back when that ends.
    _claim: UnixListener,
}

impl Number {
    /// One below `all`, for whatever is called so.
    pub fn claim(what: &str, all: u32) -> Number {
        let first = std::process::id();
        let mut free = (0..all).map(|step| (first + step) % all).filter_map(|value| {
            let name = SocketAddr::from_abstract_name(format!("minik8s-test-{what}-{value}")).ok()?;
            Some(Number { value, _claim: UnixListener::bind_addr(&name).ok()? })
        });
        free.next().expect("a free number")
    }
}

/// A pair of ranges.
pub struct Ranges(Number);

impl Ranges {
    /// One of `10.150.0.0/24` to `10.199.255.0/24` for pods, fifty below for Services.
    pub fn claim() -> Ranges {
        Ranges(Number::claim("ranges", 50 * 256))
    }

    pub fn pods(&self) -> String {
        self.below(150)
    }

    pub fn services(&self) -> String {
        self.below(100)
    }

    fn below(&self, first: u32) -> String {
        format!("10.{}.{}.0/24", first + self.0.value / 256, self.0.value % 256)
    }
}
