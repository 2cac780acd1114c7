//! What a listener's host name and a route's have in common.

use minik8s_meta::gateway::host_matches;

/// The hosts of a route at a listener, where an empty name is any; none if they share nothing.
pub fn intersection(listener: &str, route: &[String]) -> Vec<String> {
    if route.is_empty() {
        return vec![listener.to_owned()];
    }
    let mut found: Vec<String> = route.iter().filter_map(|host| common(listener, host)).collect();
    found.dedup();
    found
}

/// The narrower of two patterns, if one is within the other.
fn common(one: &str, other: &str) -> Option<String> {
    let covers = |wide: &str, narrow: &str| match narrow.strip_prefix("*.") {
        _ if wide.is_empty() || wide == narrow => true,
        // `*.a.b` is within `*.b`, as is everything below it.
        Some(above) => wide.starts_with("*.") && host_matches(wide, above),
        None => host_matches(wide, narrow),
    };
    match (covers(one, other), covers(other, one)) {
        (true, _) => Some(other.to_owned()),
        (false, true) => Some(one.to_owned()),
        (false, false) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intersections() {
        let check = |listener: &str, route: &[&str], expected: &[&str]| {
            let route: Vec<String> = route.iter().map(|&host| host.to_owned()).collect();
            assert_eq!(intersection(listener, &route), expected, "{listener} {route:?}");
        };
        check("", &[], &[""]);
        check("a.b", &[], &["a.b"]);
        check("", &["a.b"], &["a.b"]);
        check("a.b", &["a.b", "c.b"], &["a.b"]);
        check("*.b", &["a.b", "x.a.b", "b"], &["a.b", "x.a.b"]);
        check("a.b", &["*.b"], &["a.b"]);
        check("*.b", &["*.a.b"], &["*.a.b"]);
        check("*.a.b", &["*.b"], &["*.a.b"]);
        check("*.b", &["*.b"], &["*.b"]);
        check("*.b", &["*.c"], &[]);
        check("a.b", &["x.a.b"], &[]);
        check("b", &["*.b"], &[]);
    }
}
