//! Address ranges for a cluster that no other test on this machine has at the same time, in whichever process.

use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener};

/// How many there are: `10.150.0.0/24` to `10.199.255.0/24` for pods, fifty below for Services.
const ALL: u32 = 50 * 256;

/// A pair of ranges, which is free again when this is dropped.
pub struct Ranges {
    number: u32,
    /// The kernel gives a name to one process at a time, and takes it back when that ends.
    _claim: UnixListener,
}

impl Ranges {
    pub fn claim() -> Ranges {
        let first = std::process::id();
        let mut free = (0..ALL).map(|step| (first + step) % ALL).filter_map(|number| {
            let name = SocketAddr::from_abstract_name(format!("minik8s-test-ranges-{number}")).ok()?;
            Some(Ranges { number, _claim: UnixListener::bind_addr(&name).ok()? })
        });
        free.next().expect("a free range")
    }

    pub fn pods(&self) -> String {
        self.below(150)
    }

    pub fn services(&self) -> String {
        self.below(100)
    }

    fn below(&self, first: u32) -> String {
        format!("10.{}.{}.0/24", first + self.number / 256, self.number % 256)
    }
}
