//! The kinds of changes that can make an unschedulable pod schedulable.

use std::ops::BitOr;

/// A set of changes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Waking(u8);

impl Waking {
    pub const NONE: Waking = Waking(0);
    /// A node came, or its labels, taints, capacity or schedulability changed.
    pub const NODE: Waking = Waking(1);
    /// A pod went away or shrank.
    pub const POD_GONE: Waking = Waking(2);
    /// A pod was placed (what wants to be near it may follow).
    pub const POD_PLACED: Waking = Waking(4);
    /// A claim, volume or storage class came or changed.
    pub const VOLUME: Waking = Waking(8);
    /// Something about devices or claims to them came or changed.
    pub const DEVICE: Waking = Waking(16);
    pub const ALL: Waking = Waking(31);

    pub fn intersects(self, other: Waking) -> bool {
        self.0 & other.0 != 0
    }
}

impl BitOr for Waking {
    type Output = Waking;

    fn bitor(self, other: Waking) -> Waking {
        Waking(self.0 | other.0)
    }
}
