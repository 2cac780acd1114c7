//! Which routes the proxies of this node have applied, and what the control plane is to be told of it. Pure.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use minik8s_meta::mesh::MeshAckSpec;

use super::followed::Name;

/// A proxy that has not applied a route after this is named.
pub const TIMEOUT: Duration = Duration::from_secs(2);

/// A route as it is now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wanted {
    pub uid: String,
    pub revision: String,
    /// The first version of the configuration that has this revision, and when it was.
    pub version: u64,
    pub since: Instant,
}

/// What to tell, and after how long to look again although nothing happens.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Due {
    pub tell: Vec<(Name, MeshAckSpec)>,
    pub again: Option<Duration>,
}

/// `proxies` are those that are connected, with the version that each has applied.
pub fn due(
    routes: &BTreeMap<Name, Wanted>,
    proxies: &BTreeMap<String, u64>,
    told: &BTreeMap<Name, MeshAckSpec>,
    now: Instant,
) -> Due {
    let mut due = Due::default();
    // Without proxies there is nothing to be told about.
    if proxies.is_empty() {
        return due;
    }
    for (name, route) in routes {
        let behind = proxies.iter().filter(|(_, applied)| **applied < route.version);
        let waiting: Vec<String> = behind.map(|(pod, _)| pod.clone()).collect();
        let waited = now.saturating_duration_since(route.since);
        if !waiting.is_empty() && waited < TIMEOUT {
            let left = TIMEOUT - waited;
            due.again = Some(due.again.map_or(left, |known: Duration| known.min(left)));
            continue;
        }
        let ack = MeshAckSpec { revision: route.revision.clone(), waiting };
        if told.get(name) != Some(&ack) {
            due.tell.push((name.clone(), ack));
        }
    }
    due
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn revision_is_acknowledged_when_all_proxies_have_it() {
        let begun = Instant::now();
        let name = ("ns".to_owned(), "x".to_owned());
        let wanted = Wanted { uid: String::new(), revision: "r".to_owned(), version: 3, since: begun };
        let routes = BTreeMap::from([(name.clone(), wanted)]);
        let proxies = |versions: &[u64]| -> BTreeMap<String, u64> {
            versions.iter().enumerate().map(|(number, version)| (format!("ns/{number}"), *version)).collect()
        };
        let check = |versions: &[u64], after: u64, expected: Option<&[&str]>| {
            let now = begun + Duration::from_secs(after);
            let due = due(&routes, &proxies(versions), &BTreeMap::new(), now);
            let waiting = due.tell.first().map(|(_, ack)| ack.waiting.clone());
            let expected = expected.map(|names| names.iter().map(|name| (*name).to_owned()).collect());
            assert_eq!(waiting, expected, "{versions:?} {after}");
            assert_eq!(due.again.is_some(), waiting.is_none() && !versions.is_empty());
        };
        check(&[3, 4], 0, Some(&[]));
        check(&[3, 2], 0, None);
        check(&[3, 2], 2, Some(&["ns/1"]));
        check(&[], 9, None);
        let ack = MeshAckSpec { revision: "r".to_owned(), waiting: Vec::new() };
        let told = BTreeMap::from([(name, ack)]);
        assert_eq!(due(&routes, &proxies(&[3]), &told, begun), Due::default(), "once");
    }
}
