//! What a control is: a rule, at a level, that changed with some versions.

use crate::level::Level;
use crate::pod::Pod;

/// One control of the standard.
pub struct Check {
    pub id: &'static str,
    /// Baseline checks hold for restricted namespaces too, unless a restricted one stands in for them.
    pub level: Level,
    /// From the oldest to the newest.
    pub revisions: &'static [Revision],
}

/// A control as it reads from one minor version on.
pub struct Revision {
    pub since: u64,
    pub find: fn(&Pod<'_>) -> Option<Violation>,
    /// Baseline checks that this one makes needless.
    pub overrides: &'static [&'static str],
}

/// Why a pod is not allowed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    pub reason: &'static str,
    /// Which part of the pod it is about.
    pub detail: String,
}

impl Check {
    /// The rule as of that minor version; None before there was one.
    pub fn at(&self, minor: u64) -> Option<&'static Revision> {
        self.revisions.iter().rev().find(|revision| revision.since <= minor)
    }
}

impl Revision {
    pub const fn since(since: u64, find: fn(&Pod<'_>) -> Option<Violation>) -> Self {
        Revision { since, find, overrides: &[] }
    }
}

#[cfg(test)]
pub mod testing {
    use serde_json::Value;

    use super::*;

    /// What the check says as of `v1.minor` about a pod: `reason (detail)`, or nothing if it is allowed.
    pub fn verdict(check: &Check, minor: u64, pod: &Value) -> String {
        let found = check.at(minor).and_then(|revision| (revision.find)(&Pod::of(pod)));
        found.map(|violation| format!("{} ({})", violation.reason, violation.detail)).unwrap_or_default()
    }

    /// Compares a table of pods as of one version with what is said of them.
    pub fn expect(check: &Check, minor: u64, cases: &[(Value, &str)]) {
        for (pod, expected) in cases {
            assert_eq!(verdict(check, minor, pod), *expected, "v1.{minor} {pod}");
        }
    }
}
