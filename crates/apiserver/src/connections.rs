//! How many connections there may be, and whose: a pod that opens all it can must not keep nodes and administrators
//! from connecting.
//!
//! Who connects is unknown until the TLS handshake has ended; a share of the connections is for that moment. After it
//! those with a node's or an administrator's certificate count apart from all others, which are bounded per address
//! too. Nothing is said to those who are one too many: their connection is closed.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;

use parking_lot::Mutex;

/// Memory, not files, is the bound on machines that allow many of them.
const MOST: usize = 8192;
const FEWEST: usize = 64;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Bounds {
    all: usize,
    ordinary: usize,
    unknown: usize,
    per_address: usize,
}

impl Bounds {
    /// Half of the files that the process may open are for others: the store, the node, the way to kubelets.
    fn within(files: u64) -> Bounds {
        let all = usize::try_from(files / 2).unwrap_or(MOST).clamp(FEWEST, MOST);
        Bounds { all, ordinary: all / 4 * 3, unknown: all / 8, per_address: all / 4 }
    }
}

pub struct Connections {
    bounds: Bounds,
    counts: Mutex<Counts>,
}

#[derive(Default)]
struct Counts {
    unknown: usize,
    ordinary: usize,
    trusted: usize,
    /// Without trusted ones.
    by_address: HashMap<IpAddr, usize>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Standing {
    Unknown,
    Ordinary,
    Trusted,
}

/// One connection, counted until it is dropped.
pub struct Counted {
    connections: Arc<Connections>,
    address: IpAddr,
    standing: Standing,
}

impl Connections {
    pub fn new() -> Self {
        let limits = nix::sys::resource::getrlimit(nix::sys::resource::Resource::RLIMIT_NOFILE);
        Self::bounded(Bounds::within(limits.map_or(1024, |(soft, _)| soft)))
    }

    fn bounded(bounds: Bounds) -> Self {
        Connections { bounds, counts: Mutex::default() }
    }

    /// A connection of somebody who has not said anything yet. None: there are too many.
    pub fn enter(self: &Arc<Self>, address: IpAddr) -> Option<Counted> {
        let address = address.to_canonical();
        let mut counts = self.counts.lock();
        let all = counts.unknown + counts.ordinary + counts.trusted;
        let from_there = counts.by_address.get(&address).copied().unwrap_or(0);
        let bounds = &self.bounds;
        if all >= bounds.all || counts.unknown >= bounds.unknown || from_there >= bounds.per_address {
            return None;
        }
        counts.unknown += 1;
        counts.by_address.insert(address, from_there + 1);
        drop(counts);
        Some(Counted { connections: self.clone(), address, standing: Standing::Unknown })
    }
}

impl Counted {
    /// Says who it is, as far as it matters here. False: there are too many of those.
    pub fn settle(&mut self, is_trusted: bool) -> bool {
        let mut counts = self.connections.counts.lock();
        if !is_trusted && counts.ordinary >= self.connections.bounds.ordinary {
            return false;
        }
        counts.leave(self.standing, self.address);
        self.standing = if is_trusted { Standing::Trusted } else { Standing::Ordinary };
        match self.standing {
            Standing::Trusted => counts.trusted += 1,
            _ => {
                counts.ordinary += 1;
                *counts.by_address.entry(self.address).or_default() += 1;
            }
        }
        true
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.connections.counts.lock().leave(self.standing, self.address);
    }
}

impl Counts {
    fn leave(&mut self, standing: Standing, address: IpAddr) {
        match standing {
            Standing::Unknown => self.unknown -= 1,
            Standing::Ordinary => self.ordinary -= 1,
            Standing::Trusted => {
                self.trusted -= 1;
                return;
            }
        }
        if let Some(count) = self.by_address.get_mut(&address) {
            *count -= 1;
            if *count == 0 {
                self.by_address.remove(&address);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_are_a_share_of_the_files() {
        let check = |files, all, ordinary, unknown, per_address| {
            assert_eq!(Bounds::within(files), Bounds { all, ordinary, unknown, per_address });
        };
        check(1024, 512, 384, 64, 128);
        check(10, 64, 48, 8, 16);
        check(u64::MAX, 8192, 6144, 1024, 2048);
    }

    #[test]
    fn connections_of_nodes_find_room_when_others_take_all_they_can() {
        let bounds = Bounds { all: 16, ordinary: 10, unknown: 3, per_address: 4 };
        let connections = Arc::new(Connections::bounded(bounds));
        let from = |last: u8| connections.enter(IpAddr::from([10, 0, 0, last]));
        let mut held = Vec::new();
        for last in 0..4 {
            for _ in 0..4 {
                let mut one = from(last).unwrap();
                if one.settle(false) {
                    held.push(one);
                }
            }
            assert_eq!(from(last).is_none(), last < 2, "{last}: no more than four from one address");
        }
        assert_eq!(held.len(), 10);
        let silent: Vec<_> = (10..13).map(|last| from(last).unwrap()).collect();
        assert!(from(13).is_none(), "those who say nothing are few");
        drop(silent);
        let mut nodes = Vec::new();
        for last in 20..26 {
            let mut node = from(last).unwrap();
            assert!(node.settle(true), "a node is let in");
            nodes.push(node);
        }
        assert!(from(30).is_none(), "all are all");
        drop((held, nodes));
        let counts = connections.counts.lock();
        assert_eq!((counts.unknown, counts.ordinary, counts.trusted, counts.by_address.len()), (0, 0, 0, 0));
    }
}
