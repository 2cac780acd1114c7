//! What an object may be called.

use crate::format;

/// The rule that `metadata.name` of a kind follows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum NameRule {
    /// RFC 1123 subdomain: most kinds.
    #[default]
    Subdomain,
    /// RFC 1123 label: namespaces, services.
    Label,
    /// RFC 1035 label: starts with a letter.
    Label1035,
    /// Anything that fits into one path segment: RBAC kinds.
    PathSegment,
    /// An IP address in its one canonical form: IPAddress.
    IpAddress,
}

impl NameRule {
    /// What is wrong with a name, in upstream's words; empty where nothing is.
    pub fn problems(self, name: &str) -> Vec<String> {
        match self {
            NameRule::Subdomain => format::subdomain(name),
            NameRule::Label => format::label(name),
            NameRule::Label1035 => format::label_1035(name),
            NameRule::PathSegment => format::path_segment(name),
            NameRule::IpAddress => format::canonical_ip(name),
        }
    }

    /// The same for `generateName`: what follows it makes a dash at the end harmless.
    pub fn prefix_problems(self, prefix: &str) -> Vec<String> {
        match self {
            NameRule::PathSegment => format::path_segment_prefix(prefix),
            _ => match prefix.strip_suffix('-') {
                Some(stem) if !stem.is_empty() => self.problems(&format!("{stem}a")),
                _ => self.problems(prefix),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::NameRule::{self, *};

    #[test]
    fn names() {
        #[track_caller]
        fn check(rule: NameRule, name: &str, good: bool) {
            assert_eq!(rule.problems(name).is_empty(), good, "{rule:?} {name:?}: {:?}", rule.problems(name));
        }
        check(Subdomain, "a", true);
        check(Subdomain, "a.b-c.1", true);
        check(Subdomain, "a..b", false);
        check(Subdomain, "A", false);
        check(Subdomain, "-a", false);
        check(Subdomain, "a-", false);
        check(Subdomain, "", false);
        check(Subdomain, &"a".repeat(253), true);
        check(Subdomain, &"a".repeat(254), false);
        check(Label, "a-1", true);
        check(Label, "1a", true);
        check(Label, "a.b", false);
        check(Label, &"a".repeat(63), true);
        check(Label, &"a".repeat(64), false);
        check(Label1035, "a1", true);
        check(Label1035, "1a", false);
        check(PathSegment, "system:node:a b", true);
        check(PathSegment, "..", false);
        check(PathSegment, ".", false);
        check(PathSegment, "a/b", false);
        check(PathSegment, "a%b", false);
        check(IpAddress, "10.0.0.1", true);
        check(IpAddress, "2001:db8::1", true);
        check(IpAddress, "2001:DB8::1", false);
        check(IpAddress, "10.0.0.01", false);
    }

    #[test]
    fn prefixes() {
        #[track_caller]
        fn check(rule: NameRule, prefix: &str, good: bool) {
            assert_eq!(rule.prefix_problems(prefix).is_empty(), good, "{rule:?} {prefix:?}");
        }
        check(Subdomain, "web-", true);
        check(Subdomain, "web", true);
        check(Subdomain, "web.", false);
        check(Subdomain, "-", false);
        check(Label, "web-", true);
        check(PathSegment, "..", true);
        check(PathSegment, "a/", false);
    }
}
