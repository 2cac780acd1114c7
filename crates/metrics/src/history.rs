//! The last hour of all nodes, pods and containers.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use parking_lot::RwLock;
use tokio::sync::watch;

use crate::frame::{Layout, PER_CONTAINER, PER_POD, PodLayout, Reading, known};
use crate::series::{Point, Series, per_second};

/// What is gone is remembered this long.
const RETENTION: SignedDuration = SignedDuration::from_hours(1);
/// Beyond so many pods those not heard of for longest go first: memory is bounded (to some eight kilobytes a
/// container).
const MOST_PODS: usize = 10_000;
/// Of one pod: a stolen node may tell of as many as it likes, and by whatever names.
const MOST_CONTAINERS: usize = 100;
const MOST_OWN: usize = 1000;
const LONGEST_NAME: usize = 1024;
/// Figures older than this are not of now.
const STALE: SignedDuration = SignedDuration::from_secs(15);
/// How often what is too old is looked for.
const SWEEP: SignedDuration = SignedDuration::from_secs(60);

const CPU: usize = 0;
const MEMORY: usize = 1;
const READ: usize = 2;
const WRITTEN: usize = 3;
const RECEIVED: usize = 0;
const SENT: usize = 1;

/// What a container uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ContainerUse {
    /// Billionths of a core.
    pub cpu_nanos: u64,
    /// The working set.
    pub memory_bytes: u64,
    /// Bytes per second.
    pub disk_read: u64,
    pub disk_written: u64,
}

/// What a pod uses.
#[derive(Debug, Clone, PartialEq)]
pub struct PodUse {
    /// The end of the window.
    pub at: Timestamp,
    /// Over how long rates were averaged.
    pub window: SignedDuration,
    pub containers: BTreeMap<String, ContainerUse>,
    /// Bytes per second received and sent; None if the pod has the node's network.
    pub traffic: Option<(u64, u64)>,
    /// What the pod tells of itself, where somebody asked for it.
    pub own: BTreeMap<String, f64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NodeUse {
    pub at: Timestamp,
    pub window: SignedDuration,
    pub cpu_nanos: u64,
    pub memory_bytes: u64,
}

/// Whether a pod, by namespace and name, is bound to the node.
type There<'a> = &'a dyn Fn(&str, &str) -> bool;

/// Shared by the collector, who writes, and all who read.
pub struct History {
    kept: RwLock<Kept>,
    version: watch::Sender<u64>,
}

#[derive(Default)]
struct Kept {
    nodes: BTreeMap<String, Series<2>>,
    pods: BTreeMap<(String, String), Pod>,
    swept: Option<Timestamp>,
}

#[derive(Default)]
struct Pod {
    uid: String,
    /// When anything was heard of it, and when it was in a reading.
    heard: Timestamp,
    measured: Timestamp,
    traffic: Series<PER_POD>,
    containers: BTreeMap<String, Container>,
    own: Option<(Timestamp, BTreeMap<String, f64>)>,
}

#[derive(Default)]
struct Container {
    id: String,
    series: Series<PER_CONTAINER>,
}

impl Default for History {
    fn default() -> Self {
        History { kept: RwLock::default(), version: watch::channel(0).0 }
    }
}

impl History {
    /// Takes a reading of a node that was made at `at` by the server's clock. Pods that are not `there` are for others to tell.
    pub fn record(&self, node: &str, layout: &Layout, reading: &Reading, at: Timestamp, there: There<'_>) {
        let mut kept = self.kept.write();
        let values = [reading.node.cpu, reading.node.working_set];
        kept.node(node).push(Point { at, values });
        let mut values = reading.values.as_slice();
        for layout in &layout.pods {
            let width = PER_POD + PER_CONTAINER * layout.containers.len();
            let Some((own, rest)) = values.split_at_checked(width) else { break };
            values = rest;
            if there(&layout.namespace, &layout.name) {
                kept.pod(&layout.namespace, &layout.name).take(layout, own, at);
            }
        }
        kept.sweep(at);
        drop(kept);
        self.version.send_modify(|version| *version += 1);
    }

    /// Takes what a pod tells of itself.
    pub fn record_own(&self, namespace: &str, name: &str, values: BTreeMap<String, f64>, at: Timestamp) {
        let values = values.into_iter().filter(|(name, _)| name.len() <= LONGEST_NAME);
        let values: BTreeMap<String, f64> = values.take(MOST_OWN).collect();
        let mut kept = self.kept.write();
        let pod = kept.pod(namespace, name);
        pod.heard = pod.heard.max(at);
        pod.own = Some((at, values));
        drop(kept);
        self.version.send_modify(|version| *version += 1);
    }

    /// Tells of every change.
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.version.subscribe()
    }

    /// None if the node is not measured now.
    pub fn node(&self, name: &str, window: SignedDuration, now: Timestamp) -> Option<NodeUse> {
        let kept = self.kept.read();
        let span = kept.nodes.get(name)?.span(window)?;
        let (first, last) = span;
        is_fresh(last.at, now).then_some(NodeUse {
            at: last.at,
            window: last.at.duration_since(first.at),
            cpu_nanos: per_second(span, CPU)?,
            memory_bytes: last.values[MEMORY],
        })
    }

    /// None if no container of the pod is measured now.
    pub fn pod(&self, namespace: &str, name: &str, window: SignedDuration, now: Timestamp) -> Option<PodUse> {
        let kept = self.kept.read();
        kept.pods.get(&(namespace.to_owned(), name.to_owned()))?.usage(window, now)
    }

    /// CPU in billionths of a core and memory in bytes of a container, in the steps that are kept, oldest first.
    pub fn points(&self, namespace: &str, pod: &str, container: &str) -> Vec<(Timestamp, Option<u64>, u64)> {
        let kept = self.kept.read();
        let pod = kept.pods.get(&(namespace.to_owned(), pod.to_owned()));
        let Some(found) = pod.and_then(|pod| pod.containers.get(container)) else { return Vec::new() };
        rates(&found.series)
    }

    /// The same of a node.
    pub fn node_points(&self, name: &str) -> Vec<(Timestamp, Option<u64>, u64)> {
        self.kept.read().nodes.get(name).map(rates).unwrap_or_default()
    }

    /// Those of a pod that were measured.
    pub fn containers(&self, namespace: &str, pod: &str) -> Vec<String> {
        let kept = self.kept.read();
        let pod = kept.pods.get(&(namespace.to_owned(), pod.to_owned()));
        pod.map(|pod| pod.containers.keys().cloned().collect()).unwrap_or_default()
    }
}

impl Kept {
    fn node(&mut self, name: &str) -> &mut Series<2> {
        if !self.nodes.contains_key(name) {
            self.nodes.insert(name.to_owned(), Series::default());
        }
        self.nodes.get_mut(name).expect("it was just put there")
    }

    fn pod(&mut self, namespace: &str, name: &str) -> &mut Pod {
        self.pods.entry((namespace.to_owned(), name.to_owned())).or_default()
    }

    fn sweep(&mut self, now: Timestamp) {
        if self.swept.is_some_and(|at| now.duration_since(at) < SWEEP) && self.pods.len() <= MOST_PODS {
            return;
        }
        self.swept = Some(now);
        let recent = |at: Timestamp| now.duration_since(at) < RETENTION;
        self.nodes.retain(|_, series| series.last().is_some_and(|point| recent(point.at)));
        self.pods.retain(|_, pod| recent(pod.heard));
        if self.pods.len() > MOST_PODS {
            let mut heard: Vec<Timestamp> = self.pods.values().map(|pod| pod.heard).collect();
            heard.sort_unstable();
            let oldest_kept = heard[heard.len() - MOST_PODS];
            self.pods.retain(|_, pod| pod.heard >= oldest_kept);
            // Many may have been heard of at the same moment.
            while self.pods.len() > MOST_PODS {
                self.pods.pop_last();
            }
        }
    }
}

impl Pod {
    fn take(&mut self, layout: &PodLayout, values: &[Option<u64>], at: Timestamp) {
        if layout.uid.len() > LONGEST_NAME {
            return;
        }
        if self.uid != layout.uid {
            // Another pod of the same name.
            *self = Pod { uid: layout.uid.clone(), own: self.own.take(), ..Pod::default() };
        }
        (self.heard, self.measured) = (at, at);
        let (own, mut rest) = values.split_at(PER_POD);
        if let Some(values) = known(own) {
            push(&mut self.traffic, at, values, &[RECEIVED, SENT]);
        }
        for container in &layout.containers {
            let (own, after) = rest.split_at(PER_CONTAINER);
            rest = after;
            // A disk that nobody measures is an idle one; without CPU and memory there is nothing to tell.
            let disk = |value: Option<u64>| value.or(Some(0));
            let filled = [own[CPU], own[MEMORY], disk(own[READ]), disk(own[WRITTEN])];
            let Some(values) = known(&filled) else { continue };
            if container.name.len().max(container.id.len()) > LONGEST_NAME {
                continue;
            }
            if !self.containers.contains_key(&container.name) {
                if self.containers.len() >= MOST_CONTAINERS {
                    continue;
                }
                self.containers.insert(container.name.clone(), Container::default());
            }
            let Some(found) = self.containers.get_mut(&container.name) else { continue };
            if found.id != container.id {
                *found = Container { id: container.id.clone(), series: Series::default() };
            }
            push(&mut found.series, at, values, &[CPU]);
        }
    }

    fn usage(&self, window: SignedDuration, now: Timestamp) -> Option<PodUse> {
        let mut measured = BTreeMap::new();
        let mut newest: Option<(Timestamp, SignedDuration)> = None;
        for (name, container) in &self.containers {
            let Some(span) = container.series.span(window) else { continue };
            let (first, last) = span;
            let Some(cpu_nanos) = per_second(span, CPU).filter(|_| is_fresh(last.at, now)) else { continue };
            // Containers that ended are no longer in the readings that their siblings are in.
            if last.at < self.measured {
                continue;
            }
            let usage = ContainerUse {
                cpu_nanos,
                memory_bytes: last.values[MEMORY],
                disk_read: per_second(span, READ).unwrap_or(0),
                disk_written: per_second(span, WRITTEN).unwrap_or(0),
            };
            measured.insert(name.clone(), usage);
            newest = newest.max(Some((last.at, last.at.duration_since(first.at))));
        }
        let (at, window_seen) = newest?;
        let span = self.traffic.span(window).filter(|(_, last)| is_fresh(last.at, now));
        let traffic = span.and_then(|span| Some((per_second(span, RECEIVED)?, per_second(span, SENT)?)));
        let own = self.own.as_ref().filter(|(at, _)| is_fresh(*at, now));
        let own = own.map(|(_, values)| values.clone()).unwrap_or_default();
        Some(PodUse { at, window: window_seen, containers: measured, traffic, own })
    }
}

/// CPU between each two points, and memory at the later one.
fn rates<const N: usize>(series: &Series<N>) -> Vec<(Timestamp, Option<u64>, u64)> {
    let points: Vec<_> = series.points().collect();
    let pairs = points.windows(2);
    pairs.map(|pair| (pair[1].at, per_second((pair[0], pair[1]), CPU), pair[1].values[MEMORY])).collect()
}

/// A counter that fell belongs to a new life: rates across it would be nonsense.
fn push<const N: usize>(series: &mut Series<N>, at: Timestamp, values: [u64; N], counters: &[usize]) {
    let fell = |last: &Point<N>| counters.iter().any(|&i| values[i] < last.values[i]);
    if series.last().is_some_and(fell) {
        series.clear();
    }
    series.push(Point { at, values });
}

fn is_fresh(at: Timestamp, now: Timestamp) -> bool {
    now.duration_since(at) < STALE
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::{ContainerLayout, NodeUsage};

    const WINDOW: SignedDuration = SignedDuration::from_secs(10);

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(1_000 + second).unwrap()
    }

    fn layout(uid: &str, containers: &[(&str, &str)]) -> Layout {
        let containers = containers
            .iter()
            .map(|(name, id)| ContainerLayout { name: (*name).to_owned(), id: (*id).to_owned() });
        let pod = PodLayout {
            namespace: "ns".into(),
            name: "p".into(),
            uid: uid.into(),
            containers: containers.collect(),
        };
        Layout { pods: vec![pod] }
    }

    /// CPU grows by a tenth of a core, traffic by 10 and 20 bytes a second.
    fn record(history: &History, layout: &Layout, second: i64) {
        let n = second.unsigned_abs();
        let mut values = vec![Some(n * 10), Some(n * 20)];
        for _ in &layout.pods[0].containers {
            values.extend([Some(n * 100_000_000), Some(9), Some(n * 5), None]);
        }
        let node = NodeUsage { cpu: n * 1_000_000_000, working_set: 70 };
        history.record("n1", layout, &Reading { at: 0, node, values }, at(second), &|_, _| true);
    }

    fn names(history: &History, now: i64) -> Vec<String> {
        let found = history.pod("ns", "p", WINDOW, at(now));
        found.map(|used| used.containers.into_keys().collect()).unwrap_or_default()
    }

    #[test]
    fn what_is_measured_now() {
        let history = History::default();
        let mut changes = history.changes();
        let both = layout("u", &[("x", "1"), ("y", "1")]);
        for second in 0..5 {
            record(&history, &both, second);
        }
        assert_eq!(*changes.borrow_and_update(), 5);
        let used = history.pod("ns", "p", WINDOW, at(5)).unwrap();
        let expected =
            ContainerUse { cpu_nanos: 100_000_000, memory_bytes: 9, disk_read: 5, disk_written: 0 };
        assert_eq!(used.containers["x"], expected);
        assert_eq!((used.traffic, used.window), (Some((10, 20)), SignedDuration::from_secs(4)));
        let node = history.node("n1", WINDOW, at(5)).unwrap();
        assert_eq!((node.cpu_nanos, node.memory_bytes), (1_000_000_000, 70));
        assert_eq!(history.node("n1", WINDOW, at(30)), None, "an old figure is none");
        assert_eq!(names(&history, 30), [""; 0]);
        assert_eq!(history.points("ns", "p", "x").len(), 4);
        assert_eq!(history.node_points("n1")[3], (at(4), Some(1_000_000_000), 70));
        assert_eq!(history.containers("ns", "p"), ["x", "y"]);
    }

    #[test]
    fn lives_do_not_mix() {
        let history = History::default();
        for second in 0..3 {
            record(&history, &layout("u", &[("x", "1"), ("y", "1")]), second);
        }
        assert_eq!(names(&history, 3), ["x", "y"]);
        record(&history, &layout("u", &[("x", "1"), ("y", "2")]), 3);
        assert_eq!(names(&history, 3), ["x"], "a restarted container is measured from its second figure on");
        record(&history, &layout("u", &[("x", "1"), ("y", "2")]), 4);
        assert_eq!(names(&history, 4), ["x", "y"]);
        record(&history, &layout("u", &[("x", "1")]), 5);
        assert_eq!(names(&history, 5), ["x"], "one that ended is not measured");
        record(&history, &layout("v", &[("x", "1")]), 6);
        assert_eq!(names(&history, 6), [""; 0], "another pod of this name");
    }

    #[test]
    fn what_pods_tell() {
        let history = History::default();
        history.record_own("ns", "p", BTreeMap::from([("r".to_owned(), 1.5)]), at(0));
        assert_eq!(history.pod("ns", "p", WINDOW, at(0)), None, "not without a container");
        for second in 0..3 {
            record(&history, &layout("u", &[("x", "1")]), second);
        }
        assert_eq!(history.pod("ns", "p", WINDOW, at(2)).unwrap().own["r"], 1.5);
        history.record_own("ns", "p", BTreeMap::from([("r".to_owned(), 2.0)]), at(3));
        assert_eq!(history.pod("ns", "p", WINDOW, at(3)).unwrap().own["r"], 2.0, "though measured before");
        record(&history, &layout("u", &[("x", "1")]), 20);
        assert!(history.pod("ns", "p", WINDOW, at(20)).unwrap().own.is_empty(), "too old");
    }

    #[test]
    fn memory_is_bounded() {
        let history = History::default();
        let pod = |n: usize| PodLayout {
            namespace: "ns".into(),
            name: format!("p{n}"),
            uid: "u".into(),
            containers: Vec::new(),
        };
        let layout = Layout { pods: (0..MOST_PODS + 500).map(pod).collect() };
        let values = vec![Some(0); layout.width()];
        let reading = Reading { values, ..Reading::default() };
        history.record("n", &layout, &reading, at(0), &|_, _| true);
        assert_eq!(history.kept.read().pods.len(), MOST_PODS);
        record(&history, &self::layout("u", &[("x", "1")]), 4000);
        assert_eq!(history.kept.read().pods.len(), 1, "forgotten after an hour");
    }

    #[test]
    fn what_is_kept_of_one_pod_is_bounded() {
        let history = History::default();
        let long = "x".repeat(LONGEST_NAME + 1);
        let names: Vec<String> = (0..2 * MOST_CONTAINERS).map(|n| format!("c{n}")).collect();
        let mut containers = vec![(long.as_str(), "1"), ("id", long.as_str())];
        containers.extend(names.iter().map(|name| (name.as_str(), "1")));
        record(&history, &layout("u", &containers), 1);
        record(&history, &layout(&long, &[("other", "1")]), 2);
        let kept = history.containers("ns", "p");
        assert_eq!(kept.len(), MOST_CONTAINERS);
        assert!(kept.iter().all(|name| names.contains(name)));
        let mut own: BTreeMap<String, f64> = (0..2 * MOST_OWN).map(|n| (format!("m{n}"), 1.0)).collect();
        own.insert(long, 1.0);
        history.record_own("ns", "p", own, at(2));
        let kept = history.kept.read();
        let (_, own) = kept.pods[&("ns".to_owned(), "p".to_owned())].own.as_ref().unwrap();
        assert_eq!((own.len(), own.contains_key("m0")), (MOST_OWN, true));
    }
}
