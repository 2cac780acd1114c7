//! Which namespace may claim which host name.
//!
//! Operators say it with an annotation of the namespace, which only they can write. What it names is that
//! namespace's alone. A namespace without one may have any name in its Ingresses, since the world's DNS decides
//! whether requests for it come; in DNS objects, whose names all nodes and pods then resolve, only names that
//! nobody owns. Some names are nobody's: those of the cluster itself, of its nodes, and what reads as an address.

use crate::format;

/// `shop.example.org, *.shop.example.org`, or `*` for every name. Empty: none.
pub const ALLOWED_HOSTS: &str = "minik8s.io/allowed-hosts";

/// Kept free for examples and tests by RFC 2606: to take them is no harm.
const FREE: [&str; 5] = ["example", "test", "example.com", "example.net", "example.org"];

/// These, and all below them, mean something on every machine or in every cluster.
pub const RESERVED: [&str; 5] = ["localhost", "cluster.local", "svc", "in-addr.arpa", "ip6.arpa"];

/// How pods call the API server.
const API_SERVER: [&str; 2] = ["kubernetes", "kubernetes.default"];

/// A part of the annotation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HostPattern {
    Every,
    /// `*.NAME`: all names below it, at any depth.
    Below(String),
    Exact(String),
}

/// A namespace and the names that it was given; None if nothing is said.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostGrant {
    pub namespace: String,
    pub patterns: Option<Vec<HostPattern>>,
}

/// What a name is wanted for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HostUse {
    /// The router answers for it.
    Routed,
    /// Nodes and pods resolve it, too.
    Resolved,
}

/// The patterns of an annotation, or the part of it that is none.
pub fn host_patterns(annotation: &str) -> Result<Vec<HostPattern>, &str> {
    let parts = annotation.split(',').map(str::trim).filter(|part| !part.is_empty());
    parts.map(|part| HostPattern::parse(part).ok_or(part)).collect()
}

/// Why nobody may claim a host (a name, `*.name`, or nothing for all hosts); None if somebody may.
pub fn reserved_host(host: &str, cluster_domain: &str) -> Option<&'static str> {
    let domain = cluster_domain.trim_matches('.');
    let wildcard = host.strip_prefix("*.");
    let name = wildcard.unwrap_or(host);
    let is_within = |domain: &str| !domain.is_empty() && (name == domain || is_below(name, domain));
    let is_parent = |domain: &str| wildcard.is_some_and(|name| parent(domain) == Some(name));
    if RESERVED.into_iter().chain([domain]).any(|domain| is_within(domain) || is_parent(domain)) {
        return Some("the name belongs to the cluster or to every machine");
    }
    if API_SERVER.iter().any(|known| *known == name || is_parent(known)) {
        return Some("the name is the API server's");
    }
    reads_as_address(name).then_some("the name reads as an address")
}

/// Whether a namespace may claim a host that is not reserved, or why not.
pub fn check_host(host: &str, wanted: HostUse, namespace: &str, grants: &[HostGrant]) -> Result<(), String> {
    let own =
        grants.iter().find(|grant| grant.namespace == namespace).and_then(|grant| grant.patterns.as_ref());
    if let Some(patterns) = own {
        return match patterns.iter().any(|pattern| pattern.covers(host)) {
            true => Ok(()),
            false => {
                Err(format!("the annotation {ALLOWED_HOSTS} of namespace {namespace:?} does not allow it"))
            }
        };
    }
    let is_given = |grant: &&HostGrant| grant.patterns.iter().flatten().any(|pattern| pattern.takes(host));
    if let Some(owner) = grants.iter().find(is_given) {
        return Err(format!(
            "it belongs to namespace {:?}, by that one's annotation {ALLOWED_HOSTS}",
            owner.namespace
        ));
    }
    if wanted == HostUse::Routed || FREE.iter().any(|free| is_below(host, free)) {
        return Ok(());
    }
    Err(format!(
        "all nodes and pods would resolve it to the cluster; whoever may change namespaces can allow that with the \
         annotation {ALLOWED_HOSTS} of namespace {namespace:?}; free for all are names below {}",
        FREE.join(", ")
    ))
}

impl HostPattern {
    fn parse(text: &str) -> Option<Self> {
        let is_name = |name: &str| format::subdomain(name).is_empty();
        match text.strip_prefix("*.") {
            _ if text == "*" => Some(HostPattern::Every),
            Some(name) => is_name(name).then(|| HostPattern::Below(name.to_owned())),
            None => is_name(text).then(|| HostPattern::Exact(text.to_owned())),
        }
    }

    /// Whether all names that the host stands for are allowed.
    fn covers(&self, host: &str) -> bool {
        match (self, host.strip_prefix("*.")) {
            (HostPattern::Every, _) => true,
            (HostPattern::Exact(name), _) => host == name,
            (HostPattern::Below(domain), Some(above)) => above == domain || is_below(above, domain),
            (HostPattern::Below(domain), None) => is_below(host, domain),
        }
    }

    /// Whether a name that the host stands for was given away. To be allowed everything gives nothing away.
    fn takes(&self, host: &str) -> bool {
        let Some(above) = host.strip_prefix("*.") else {
            return *self != HostPattern::Every && self.covers(host);
        };
        match self {
            HostPattern::Every => false,
            HostPattern::Exact(name) => parent(name) == Some(above),
            HostPattern::Below(domain) => self.covers(host) || parent(domain) == Some(above),
        }
    }
}

fn is_below(name: &str, domain: &str) -> bool {
    name.strip_suffix(domain).is_some_and(|rest| rest.ends_with('.'))
}

fn parent(name: &str) -> Option<&str> {
    name.split_once('.').map(|(_, above)| above)
}

/// Programs take `127.1`, `0x7f.1` and `2130706433` for addresses: a name whose last label is a number.
fn reads_as_address(name: &str) -> bool {
    let last = name.rsplit('.').next().unwrap_or_default();
    let hex = last.strip_prefix("0x").is_some_and(|rest| rest.bytes().all(|byte| byte.is_ascii_hexdigit()));
    hex || (!last.is_empty() && last.bytes().all(|byte| byte.is_ascii_digit()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn host_patterns_are_names_and_wildcards() {
        let below = |name: &str| HostPattern::Below(name.to_owned());
        let exact = |name: &str| HostPattern::Exact(name.to_owned());
        assert_eq!(host_patterns(""), Ok(vec![]));
        assert_eq!(host_patterns(" a.b , *.c,*"), Ok(vec![exact("a.b"), below("c"), HostPattern::Every]));
        for bad in ["a.*", "*a", "A.b", "*.", "a b", "-a", "*.*.a"] {
            assert_eq!(host_patterns(&format!("ok,{bad}")), Err(bad));
        }
    }

    #[test]
    fn reserved_hosts_are_nobodys() {
        let reserved = [
            "localhost",
            "a.localhost",
            "cluster.local",
            "web.default.svc.cluster.local",
            "*.local",
            "*.cluster.local",
            "my.domain",
            "x.my.domain",
            "*.domain",
            "kubernetes",
            "kubernetes.default",
            "*.default",
            "kubernetes.default.svc",
            "web.default.svc",
            "1.0.0.127.in-addr.arpa",
            "127.1",
            "0x7f.1",
            "0x7f000001",
            "2130706433",
            "a.1",
        ];
        for host in reserved {
            assert!(reserved_host(host, "my.domain.").is_some(), "{host}");
        }
        for host in
            ["", "shop.example", "notmy.domain", "kubernetes.example", "a1", "1a.example", "*.example"]
        {
            assert_eq!(reserved_host(host, "my.domain."), None, "{host}");
        }
        assert_eq!(reserved_host("a.b", ""), None);
    }

    fn grant(namespace: &str, annotation: Option<&str>) -> HostGrant {
        let patterns = annotation.map(|text| host_patterns(text).unwrap_or_default());
        HostGrant { namespace: namespace.to_owned(), patterns }
    }

    #[test]
    fn host_is_allowed_by_the_annotation_and_else_by_default() {
        use HostUse::{Resolved, Routed};
        let grants = [
            grant("free", None),
            grant("shop", Some("shop.org, *.shop.org, mine.example")),
            grant("none", Some("")),
            grant("all", Some("*")),
        ];
        let check = |namespace: &str, wanted: HostUse, host: &str, expected: bool| {
            let answer = check_host(host, wanted, namespace, &grants);
            assert_eq!(answer.is_ok(), expected, "{namespace} {wanted:?} {host:?}: {answer:?}");
        };
        for wanted in [Resolved, Routed] {
            check("shop", wanted, "shop.org", true);
            check("shop", wanted, "a.b.shop.org", true);
            check("shop", wanted, "notshop.org", false);
            check("shop", wanted, "other.example", false);
            check("none", wanted, "other.example", false);
            check("all", wanted, "bank.com", true);
            check("all", wanted, "a.shop.org", true);
            check("free", wanted, "other.example", true);
            check("free", wanted, "a.test", true);
            check("free", wanted, "mine.example", false);
            check("free", wanted, "shop.org", false);
            check("unknown", wanted, "a.shop.org", false);
        }
        check("free", Resolved, "bank.com", false);
        check("free", Resolved, "example", false);
        check("free", Resolved, "node-1", false);
        check("free", Resolved, "metadata.google.internal", false);
        check("free", Routed, "bank.com", true);
        check("free", Routed, "", true);
        check("shop", Routed, "", false);
        check("all", Routed, "", true);
        check("shop", Routed, "*.shop.org", true);
        check("shop", Routed, "*.org", false);
        check("free", Routed, "*.org", false);
        check("free", Routed, "*.shop.org", false);
        check("free", Routed, "*.a.shop.org", false);
        check("free", Routed, "*.example", false);
        check("free", Routed, "*.com", true);
    }
}
