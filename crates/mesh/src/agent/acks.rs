//! Which routes and policies the proxies of this node have applied, and what the control plane is to be told of it. Pure.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use minik8s_meta::mesh::{MeshAckSpec, NODE_PROXY};

use super::followed::Name;

/// A proxy that has not applied one after this is named.
pub const TIMEOUT: Duration = Duration::from_secs(2);

/// What the control plane waits for.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum AckedObject {
    /// A MeshRoute.
    Route(Name),
    /// A MeshPolicy.
    Policy(Name),
}

/// One of them as it is now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wanted {
    pub uid: String,
    pub revision: String,
    /// The first version of the configuration that has this revision, and when it was.
    pub version: u64,
    pub since: Instant,
}

/// How far a proxy is that runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reached {
    /// New requests go by this version.
    Version(u64),
    /// It is not connected, or has said nothing yet, since then: nobody knows by what it routes.
    Unknown(Instant),
}

impl Reached {
    /// Since when the object waits for it, if it does.
    fn lags_since(self, wanted: &Wanted) -> Option<Instant> {
        match self {
            Reached::Version(applied) => (applied < wanted.version).then_some(wanted.since),
            Reached::Unknown(since) => Some(since),
        }
    }
}

/// Pods with a proxy (namespace and name), by the policies that are about them.
pub type PodsByPolicy = BTreeMap<Name, BTreeSet<String>>;

/// Who routes on this node.
#[derive(Debug, Default)]
pub struct Applied {
    /// By their pods: namespace and name.
    pub proxies: BTreeMap<String, Reached>,
    pub about: Arc<PodsByPolicy>,
    /// Routes that the kernel does not lead to the node's own proxy as it should.
    pub unled: BTreeSet<Name>,
}

impl Applied {
    /// The proxies that an object waits for: all route by a route, and those of the pods that it is about enforce a policy.
    fn concerned(&self, object: &AckedObject) -> Vec<(&String, Reached)> {
        match object {
            AckedObject::Route(_) => self.proxies.iter().map(|(pod, reached)| (pod, *reached)).collect(),
            AckedObject::Policy(name) => {
                let pods = self.about.get(name).into_iter().flatten();
                pods.filter_map(|pod| Some((pod, *self.proxies.get(pod)?))).collect()
            }
        }
    }
}

/// What to tell, and after how long to look again although nothing happens.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Due {
    pub tell: Vec<(AckedObject, MeshAckSpec)>,
    pub again: Option<Duration>,
}

pub fn due(
    objects: &BTreeMap<AckedObject, Wanted>,
    node: &Applied,
    told: &BTreeMap<AckedObject, MeshAckSpec>,
    now: Instant,
) -> Due {
    let mut due = Due::default();
    for (object, wanted) in objects {
        let is_unled = matches!(object, AckedObject::Route(name) if node.unled.contains(name));
        // The node's own proxy may have to be taken back. Of a policy nothing has: where no pod is concerned, nobody asks.
        let is_told = matches!(object, AckedObject::Route(_)) && told.contains_key(object);
        let concerned = node.concerned(object);
        if concerned.is_empty() && !is_unled && !is_told {
            continue;
        }
        let lags = |(pod, reached): (&String, Reached)| Some((pod.clone(), reached.lags_since(wanted)?));
        let behind: Vec<(String, Instant)> = concerned.into_iter().filter_map(lags).collect();
        let newest = behind.iter().map(|(_, since)| now.saturating_duration_since(*since)).min();
        if let Some(waited) = newest.filter(|waited| *waited < TIMEOUT) {
            let left = TIMEOUT - waited;
            due.again = Some(due.again.map_or(left, |known: Duration| known.min(left)));
            continue;
        }
        let own = is_unled.then(|| NODE_PROXY.to_owned());
        let waiting: Vec<String> = behind.into_iter().map(|(pod, _)| pod).chain(own).collect();
        let ack = MeshAckSpec { revision: wanted.revision.clone(), waiting };
        if told.get(object) != Some(&ack) {
            due.tell.push((object.clone(), ack));
        }
    }
    due
}

#[cfg(test)]
mod tests {
    use super::*;

    const NEVER: Duration = Duration::ZERO;

    fn name() -> Name {
        ("ns".to_owned(), "x".to_owned())
    }

    fn route() -> AckedObject {
        AckedObject::Route(name())
    }

    /// A route that is version 3 from the beginning on.
    fn routes(begun: Instant) -> BTreeMap<AckedObject, Wanted> {
        BTreeMap::from([(route(), wanted(begun))])
    }

    fn wanted(begun: Instant) -> Wanted {
        Wanted { uid: String::new(), revision: "r".to_owned(), version: 3, since: begun }
    }

    fn routing(proxies: &[Reached]) -> Applied {
        let proxies = proxies.iter().enumerate().map(|(number, one)| (format!("ns/{number}"), *one));
        Applied { proxies: proxies.collect(), ..Applied::default() }
    }

    #[test]
    fn revision_is_acknowledged_when_all_proxies_have_it() {
        let begun = Instant::now();
        let check = |versions: &[u64], after: u64, expected: Option<&[&str]>| {
            let proxies: Vec<Reached> = versions.iter().map(|version| Reached::Version(*version)).collect();
            let now = begun + Duration::from_secs(after);
            let due = due(&routes(begun), &routing(&proxies), &BTreeMap::new(), now);
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
        let told = BTreeMap::from([(route(), ack)]);
        let again = due(&routes(begun), &routing(&[Reached::Version(3)]), &told, begun);
        assert_eq!(again, Due::default(), "once");
    }

    /// After the agent's start the first proxy that comes back does not speak for the others; one that is away for a moment
    /// changes nothing, and one that has been away for long does not keep the others' word back.
    #[test]
    fn proxies_that_nobody_hears_of_are_waited_for() {
        let begun = Instant::now();
        let check = |away_for: Duration, after: u64, expected: Option<&[&str]>| {
            let now = begun + Duration::from_secs(after);
            let routing = routing(&[Reached::Version(3), Reached::Unknown(now - away_for)]);
            let due = due(&routes(begun), &routing, &BTreeMap::new(), now);
            let waiting = due.tell.first().map(|(_, ack)| ack.waiting.clone());
            let expected = expected.map(|names| names.iter().map(|name| (*name).to_owned()).collect());
            assert_eq!(waiting, expected, "{away_for:?} {after}");
            assert_eq!(due.again.is_some(), waiting.is_none(), "{away_for:?} {after}");
        };
        check(NEVER, 0, None);
        check(NEVER, 60, None);
        check(TIMEOUT, 60, Some(&["ns/1"]));
        check(TIMEOUT, 2, Some(&["ns/1"]));
    }

    #[test]
    fn proxy_of_the_node_is_named_while_the_kernel_does_not_lead_to_it() {
        let begun = Instant::now();
        let waiting = |routing: &Applied, told: &BTreeMap<AckedObject, MeshAckSpec>| {
            let mut due = due(&routes(begun), routing, told, begun);
            due.tell.pop().map(|(_, ack)| ack.waiting)
        };
        let unled = Applied { unled: BTreeSet::from([name()]), ..Applied::default() };
        let named = waiting(&unled, &BTreeMap::new()).unwrap();
        assert_eq!(named, [NODE_PROXY]);
        let told = BTreeMap::from([(route(), MeshAckSpec { revision: "r".to_owned(), waiting: named })]);
        assert_eq!(waiting(&Applied::default(), &told), Some(Vec::new()), "and taken back");
        assert_eq!(waiting(&Applied::default(), &BTreeMap::new()), None);
        // A policy of the same name is not about what the node's own proxy leads.
        let unled = BTreeSet::from([name()]);
        let node = Applied { unled, about: about(&["ns/0"]), ..routing(&[Reached::Version(3)]) };
        let told = due(&policies(begun), &node, &BTreeMap::new(), begun).tell;
        assert_eq!(told.first().map(|(_, ack)| ack.waiting.as_slice()), Some([].as_slice()));
    }

    /// A policy that is version 3 from the beginning on.
    fn policies(begun: Instant) -> BTreeMap<AckedObject, Wanted> {
        BTreeMap::from([(AckedObject::Policy(name()), wanted(begun))])
    }

    /// The policy is about these pods.
    fn about(pods: &[&str]) -> Arc<PodsByPolicy> {
        let pods: BTreeSet<String> = pods.iter().map(|pod| (*pod).to_owned()).collect();
        Arc::new(BTreeMap::from([(name(), pods)]))
    }

    #[test]
    fn policy_is_acknowledged_for_the_pods_that_it_is_about() {
        let begun = Instant::now();
        let check = |pods: &[&str], after: u64, expected: Option<&[&str]>| {
            let proxies = [Reached::Version(3), Reached::Version(2)];
            let node = Applied { about: about(pods), ..routing(&proxies) };
            let now = begun + Duration::from_secs(after);
            let due = due(&policies(begun), &node, &BTreeMap::new(), now);
            let waiting = due.tell.first().map(|(_, ack)| ack.waiting.clone());
            let expected = expected.map(|names| names.iter().map(|name| (*name).to_owned()).collect());
            assert_eq!(waiting, expected, "{pods:?} {after}");
        };
        check(&["ns/0"], 0, Some(&[]));
        check(&["ns/0", "ns/1"], 0, None);
        check(&["ns/0", "ns/1"], 2, Some(&["ns/1"]));
        check(&["ns/gone"], 2, None);
        check(&[], 2, None);
        let told = BTreeMap::from([(AckedObject::Policy(name()), MeshAckSpec::default())]);
        let node = routing(&[Reached::Version(3)]);
        assert_eq!(due(&policies(begun), &node, &told, begun), Due::default(), "nobody asks any more");
    }
}
