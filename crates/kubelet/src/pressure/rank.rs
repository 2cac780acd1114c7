//! Which pod goes first. Pure.

use super::Resource;

/// A pod as a candidate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Candidate {
    pub uid: String,
    pub priority: i32,
    pub usage: u64,
    pub request: u64,
    /// Never evicted: static pods and those that keep the cluster alive.
    pub protected: bool,
}

/// Those that use more than they asked for come first, then low priority, then the largest excess.
pub fn victim(candidates: &[Candidate], resource: Resource) -> Option<&Candidate> {
    let evictable = candidates.iter().filter(|candidate| !candidate.protected);
    evictable.min_by_key(|c| {
        let excess = c.usage.saturating_sub(c.request);
        let modest = resource != Resource::Pids && excess == 0;
        (modest, c.priority, std::cmp::Reverse(excess), c.uid.clone())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn order() {
        let pod = |uid: &str, priority, usage, request| Candidate {
            uid: uid.into(),
            priority,
            usage,
            request,
            protected: uid == "static",
        };
        let check = |candidates: &[Candidate], want: Option<&str>| {
            assert_eq!(victim(candidates, Resource::Memory).map(|c| c.uid.as_str()), want, "{candidates:?}");
        };
        check(&[], None);
        check(&[pod("static", 0, 100, 0)], None);
        check(&[pod("modest", 0, 5, 10), pod("greedy", 100, 20, 10)], Some("greedy"));
        check(&[pod("low", 0, 20, 10), pod("high", 100, 90, 10)], Some("low"));
        check(&[pod("small", 0, 20, 10), pod("large", 0, 90, 10)], Some("large"));
    }
}
