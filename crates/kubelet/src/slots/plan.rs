//! How many slots there are to be, of which runtimes. Pure.
//!
//! One per runtime that some function uses, more while instances are being started, four at most; never more than fit into a
//! fiftieth of the node's memory, and none while the node is short of it. They are made one at a time.

use std::collections::{BTreeMap, BTreeSet};

/// Of each runtime.
const MOST: usize = 4;
/// Of the node's memory, one in so many parts.
const SHARE: u64 = 50;
/// What a slot is taken for until one of its runtime has been measured.
const USUAL_SIZE: u64 = 40 << 20;

/// What a plan is made of.
#[derive(Debug, Default)]
pub struct Seen<'a> {
    /// Images of runtimes that functions use and that this node has.
    pub wanted: BTreeSet<&'a str>,
    pub free: Vec<Free<'a>>,
    /// Starts of instances a short while ago, by image.
    pub starts: BTreeMap<&'a str, usize>,
    pub node_memory: u64,
    pub is_short: bool,
}

/// A slot that nobody has.
#[derive(Debug, Clone, Copy)]
pub struct Free<'a> {
    pub uid: &'a str,
    pub image: &'a str,
    pub size: u64,
    /// It lives, and is what would be made today.
    pub is_good: bool,
}

#[derive(Debug, Default, PartialEq, Eq)]
pub struct Plan<'a> {
    pub destroy: Vec<&'a str>,
    /// The image of one to be made.
    pub make: Option<&'a str>,
}

pub fn plan<'a>(seen: &Seen<'a>) -> Plan<'a> {
    let mut plan = Plan::default();
    let mut kept: Vec<Free<'a>> = Vec::new();
    let budget = seen.node_memory / SHARE;
    for free in &seen.free {
        let count = kept.iter().filter(|other| other.image == free.image).count();
        let used: u64 = kept.iter().map(|other| other.size).sum();
        let is_kept = free.is_good
            && !seen.is_short
            && seen.wanted.contains(free.image)
            && count < MOST
            && used + free.size <= budget;
        match is_kept {
            true => kept.push(*free),
            false => plan.destroy.push(free.uid),
        }
    }
    if seen.is_short {
        return plan;
    }
    let count = |image: &str| kept.iter().filter(|free| free.image == image).count();
    let wanted = |image: &str| (2 * seen.starts.get(image).copied().unwrap_or(0)).clamp(1, MOST);
    let used: u64 = kept.iter().map(|free| free.size).sum();
    let size =
        |image: &str| kept.iter().filter(|f| f.image == image).map(|f| f.size).max().unwrap_or(USUAL_SIZE);
    let missing = seen.wanted.iter().filter(|image| count(image) < wanted(image));
    // The runtime that has the fewest first.
    plan.make =
        missing.min_by_key(|image| count(image)).copied().filter(|image| used + size(image) <= budget);
    plan
}

#[cfg(test)]
mod tests {
    use super::*;

    const MB: u64 = 1 << 20;

    fn seen<'a>(wanted: &[&'a str], free: &[(&'a str, &'a str, bool)]) -> Seen<'a> {
        let slot = |(uid, image, is_good): &(&'a str, &'a str, bool)| Free {
            uid,
            image,
            size: 20 * MB,
            is_good: *is_good,
        };
        Seen {
            wanted: wanted.iter().copied().collect(),
            free: free.iter().map(slot).collect(),
            node_memory: 50 * 200 * MB,
            ..Seen::default()
        }
    }

    fn check(seen: &Seen<'_>, destroy: &[&str], make: Option<&str>) {
        assert_eq!(plan(seen), Plan { destroy: destroy.to_vec(), make }, "{seen:?}");
    }

    #[test]
    fn slots_follow_the_functions() {
        check(&seen(&[], &[]), &[], None);
        check(&seen(&["py"], &[]), &[], Some("py"));
        check(&seen(&["py"], &[("a", "py", true)]), &[], None);
        check(&seen(&["js", "py"], &[("a", "js", true)]), &[], Some("py"));
        check(&seen(&[], &[("a", "py", true)]), &["a"], None);
        check(&seen(&["py"], &[("a", "py", false)]), &["a"], Some("py"));
    }

    #[test]
    fn more_slots_while_instances_start_and_never_more_than_four() {
        let mut starting = seen(&["py"], &[("a", "py", true), ("b", "py", true)]);
        starting.starts = [("py", 1)].into();
        check(&starting, &[], None);
        starting.starts = [("py", 9)].into();
        check(&starting, &[], Some("py"));
        let four: Vec<_> = ["a", "b", "c", "d"].map(|uid| (uid, "py", true)).to_vec();
        let mut many = seen(&["py"], &four);
        many.starts = [("py", 9)].into();
        check(&many, &[], None);
    }

    #[test]
    fn slots_stay_within_a_fiftieth_of_the_memory() {
        let mut small = seen(&["py"], &[]);
        small.node_memory = 50 * 30 * MB;
        check(&small, &[], None);
        let mut full = seen(&["py"], &[("a", "py", true), ("b", "py", true)]);
        full.node_memory = 50 * 30 * MB;
        check(&full, &["b"], None);
        let mut short = seen(&["py"], &[("a", "py", true)]);
        short.is_short = true;
        check(&short, &["a"], None);
    }
}
