//! Which pods' own metrics are wanted, and by which autoscaler.

use std::collections::{BTreeMap, BTreeSet};

use minik8s_runtime::Key;
use parking_lot::Mutex;
use tokio::sync::Notify;

#[derive(Default)]
pub struct Wants {
    by_autoscaler: Mutex<BTreeMap<Key, Want>>,
    changed: Notify,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Want {
    /// Node and pod.
    pods: BTreeSet<(String, Key)>,
    metrics: BTreeSet<String>,
}

impl Wants {
    /// An autoscaler wants these metrics of these pods from now on; nothing if there are none.
    pub fn set(&self, autoscaler: &Key, pods: BTreeSet<(String, Key)>, metrics: BTreeSet<String>) {
        let want = Want { pods, metrics };
        let mut all = self.by_autoscaler.lock();
        if want.pods.is_empty() || want.metrics.is_empty() {
            if all.remove(autoscaler).is_none() {
                return;
            }
        } else if all.insert(autoscaler.clone(), want.clone()) == Some(want) {
            return;
        }
        self.changed.notify_one();
    }

    pub async fn changed(&self) {
        self.changed.notified().await;
    }

    /// What a node's pods are to be asked, as a query; None if nothing.
    pub fn of_node(&self, node: &str) -> Option<String> {
        let all = self.by_autoscaler.lock();
        let (mut pods, mut metrics) = (BTreeSet::new(), BTreeSet::new());
        for want in all.values() {
            let here: Vec<&Key> = want.pods.iter().filter(|(on, _)| on == node).map(|(_, pod)| pod).collect();
            if !here.is_empty() {
                pods.extend(here);
                metrics.extend(&want.metrics);
            }
        }
        let pods = pods.iter().map(|pod| format!("pod={}/{}", pod.namespace, pod.name));
        let metrics = metrics.iter().map(|metric| format!("metric={}", encoded(metric)));
        let query: Vec<String> = pods.chain(metrics).collect();
        (!query.is_empty()).then(|| query.join("&"))
    }
}

fn encoded(text: &str) -> String {
    let mut encoded = String::new();
    for byte in text.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b':' => encoded.push(byte.into()),
            other => encoded.push_str(&format!("%{other:02X}")),
        }
    }
    encoded
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queries() {
        let wants = Wants::default();
        let pods = |pods: &[(&str, &str)]| {
            pods.iter().map(|(node, pod)| ((*node).to_owned(), Key::new("ns", *pod))).collect()
        };
        let metrics = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        assert_eq!(wants.of_node("n1"), None);
        wants.set(&Key::new("ns", "a"), pods(&[("n1", "p"), ("n2", "q")]), metrics(&["hits"]));
        wants.set(&Key::new("ns", "b"), pods(&[("n1", "p")]), metrics(&["x{a=\"b\"}"]));
        assert_eq!(wants.of_node("n1").unwrap(), "pod=ns/p&metric=hits&metric=x%7Ba%3D%22b%22%7D");
        assert_eq!(wants.of_node("n2").unwrap(), "pod=ns/q&metric=hits");
        wants.set(&Key::new("ns", "a"), pods(&[]), metrics(&["hits"]));
        assert_eq!(wants.of_node("n2"), None);
    }
}
