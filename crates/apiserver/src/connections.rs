//! How many connections there may be, and whose: a pod that opens all it can must not keep nodes and administrators
//! from connecting.
//!
//! Who connects is unknown until the TLS handshake has ended; a share of the connections is for that moment. When it is
//! full, a newcomer takes the place of the oldest of the address that holds most: who connects and says nothing keeps
//! nobody out, not even at the address of a node, behind which its pods are. After the handshake those with a node's or
//! an administrator's certificate count apart from all others, which are bounded per address too. Nothing is said to
//! those who are one too many: their connection is closed.

use std::collections::{HashMap, VecDeque};
use std::net::IpAddr;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;

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
    by_address: HashMap<IpAddr, OfAddress>,
    /// How many have entered.
    entered: u64,
}

#[derive(Default)]
struct OfAddress {
    /// The oldest first.
    unknown: VecDeque<Unknown>,
    ordinary: usize,
}

struct Unknown {
    number: u64,
    displaced: CancellationToken,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Standing {
    /// With its number.
    Unknown(u64),
    Ordinary,
    Trusted,
}

/// One connection, counted until it is dropped.
pub struct Counted {
    connections: Arc<Connections>,
    address: IpAddr,
    standing: Standing,
    displaced: CancellationToken,
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
        let is_full = all >= self.bounds.all || counts.unknown >= self.bounds.unknown;
        if is_full && !counts.displace_one() {
            return None;
        }
        let (number, displaced) = (counts.entered, CancellationToken::new());
        counts.entered += 1;
        counts.unknown += 1;
        let unknown = Unknown { number, displaced: displaced.clone() };
        counts.by_address.entry(address).or_default().unknown.push_back(unknown);
        drop(counts);
        Some(Counted { connections: self.clone(), address, standing: Standing::Unknown(number), displaced })
    }
}

impl Counted {
    /// Cancelled when it must end, as another needs its place; never, once it is settled.
    pub fn displaced(&self) -> CancellationToken {
        self.displaced.clone()
    }

    /// Says who it is, as far as it matters here. False: there are too many of those.
    pub fn settle(&mut self, is_trusted: bool) -> bool {
        let (mut counts, bounds) = (self.connections.counts.lock(), &self.connections.bounds);
        let from_there = counts.by_address.get(&self.address).map_or(0, |of| of.ordinary);
        let is_full = counts.ordinary >= bounds.ordinary || from_there >= bounds.per_address;
        if self.displaced.is_cancelled() || (!is_trusted && is_full) {
            return false;
        }
        counts.leave(self.standing, self.address);
        self.standing = if is_trusted { Standing::Trusted } else { Standing::Ordinary };
        match self.standing {
            Standing::Trusted => counts.trusted += 1,
            _ => {
                counts.ordinary += 1;
                counts.by_address.entry(self.address).or_default().ordinary += 1;
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
    /// Ends the oldest of the address that has said nothing most often. False: all addresses have only one, and who came
    /// first goes on, or nobody would get through when many come at once.
    fn displace_one(&mut self) -> bool {
        let held = self.by_address.iter().filter(|(_, of)| of.unknown.len() > 1);
        let most = held.max_by_key(|(_, of)| (of.unknown.len(), std::cmp::Reverse(of.unknown[0].number)));
        let Some((&address, oldest)) = most.map(|(address, of)| (address, &of.unknown[0])) else {
            return false;
        };
        oldest.displaced.cancel();
        let number = oldest.number;
        self.leave(Standing::Unknown(number), address);
        true
    }

    fn leave(&mut self, standing: Standing, address: IpAddr) {
        let Some(of) = self.by_address.get_mut(&address).filter(|_| standing != Standing::Trusted) else {
            self.trusted -= usize::from(standing == Standing::Trusted);
            return;
        };
        match standing {
            Standing::Unknown(number) => {
                // One that was displaced has left before.
                if let Some(place) = of.unknown.iter().position(|unknown| unknown.number == number) {
                    of.unknown.remove(place);
                    self.unknown -= 1;
                }
            }
            _ => {
                of.ordinary -= 1;
                self.ordinary -= 1;
            }
        }
        if of.unknown.is_empty() && of.ordinary == 0 {
            self.by_address.remove(&address);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOUNDS: Bounds = Bounds { all: 16, ordinary: 10, unknown: 3, per_address: 4 };

    fn address(last: u8) -> IpAddr {
        IpAddr::from([10, 0, 0, last])
    }

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
        let connections = Arc::new(Connections::bounded(BOUNDS));
        let from = |last: u8| connections.enter(address(last));
        let mut held = Vec::new();
        for last in 0..4 {
            for _ in 0..4 {
                let mut one = from(last).unwrap();
                if one.settle(false) {
                    held.push(one);
                }
            }
            assert!(
                last > 1 || !from(last).unwrap().settle(false),
                "{last}: no more than four from one address"
            );
        }
        assert_eq!(held.len(), 10);
        // One address holds all places of those who say nothing, and goes on to.
        let silent: Vec<_> = (0..3).map(|_| from(0).unwrap()).collect();
        let mut nodes = Vec::new();
        for last in 20..25 {
            let mut node =
                from(last).unwrap_or_else(|| panic!("node {last} is kept out by who says nothing"));
            assert!(node.settle(true), "a node is let in");
            nodes.push(node);
        }
        assert!(silent[0].displaced().is_cancelled(), "the oldest has lost its place");
        assert!(from(30).is_none(), "all are all");
        drop((held, nodes, silent));
        let counts = connections.counts.lock();
        assert_eq!((counts.unknown, counts.ordinary, counts.trusted, counts.by_address.len()), (0, 0, 0, 0));
    }

    /// Pods are seen as their node's address.
    #[test]
    fn connections_of_a_node_find_room_beside_those_of_its_pods() {
        let connections = Arc::new(Connections::bounded(BOUNDS));
        let enter = || connections.enter(address(1));
        let mut pods = Vec::new();
        for _ in 0..4 {
            let mut pod = enter().unwrap();
            assert!(pod.settle(false), "as many as one address may have");
            pods.push(pod);
        }
        let mut silent: Vec<_> = std::iter::repeat_with(|| enter().unwrap()).take(9).collect();
        let mut node = enter().expect("its pods keep the node out");
        assert!(node.settle(true));
        assert!(!enter().unwrap().settle(false), "an ordinary one more");
        assert!(!silent[0].settle(true), "one that was displaced is not let in afterwards");
        drop((silent, pods));
        let counts = connections.counts.lock();
        assert_eq!((counts.unknown, counts.ordinary, counts.trusted), (0, 0, 1));
    }

    #[test]
    fn connection_is_displaced_only_at_an_address_with_several() {
        let connections = Arc::new(Connections::bounded(BOUNDS));
        let nodes: Vec<_> = (0..3).map(|last| connections.enter(address(last)).unwrap()).collect();
        assert!(connections.enter(address(9)).is_none(), "who came first goes on");
        assert!(nodes.iter().all(|node| !node.displaced().is_cancelled()));
    }
}
