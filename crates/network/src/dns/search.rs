//! Knows the search path of our pods, so that one question is enough.
//!
//! A pod that looks up `example.org` asks for `example.org.NAMESPACE.svc.DOMAIN` first, then for four or more
//! other names, each twice, before it asks for the name itself. The first question tells which names will
//! follow: the answer to the first of them that exists is given at once, as an alias.

use super::Zone;

/// The names that a pod would ask for after this one failed, in order. None if the question does not look like
/// the first of such a row.
pub fn further_names(name: &str, zone: &Zone, node_searches: &[String]) -> Vec<String> {
    let domain = zone.domain();
    let first = name.strip_suffix(domain).and_then(|rest| rest.strip_suffix(".svc."));
    let Some((short, _namespace)) = first.and_then(|rest| rest.rsplit_once('.')) else { return Vec::new() };
    // A name without a dot, or below a Service that exists, is meant to be of the cluster.
    let above = name.split_once('.').map(|(_, above)| above);
    let of_service = above.and_then(|above| zone.records(above)).is_some_and(|records| !records.is_empty());
    if !short.contains('.') || of_service {
        return Vec::new();
    }
    let suffixes =
        [format!("svc.{domain}"), domain.to_owned()].into_iter().chain(node_searches.iter().cloned());
    suffixes.map(|suffix| format!("{short}.{suffix}")).chain([short.to_owned()]).collect()
}
