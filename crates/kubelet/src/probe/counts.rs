//! `/metrics/probes`: how often each probe of each container had which outcome, under the kubelet's names.
//!
//! A pod's counts are its worker's: they go with it, whether somebody reads them or not.

use std::collections::BTreeMap;
use std::sync::{Arc, Weak};

use minik8s_metrics::Text;
use parking_lot::Mutex;

use super::ProbeKind;

const NAME: &str = "prober_probe_total";
const HELP: &str = "Cumulative number of a liveness, readiness or startup probe for a container by result.";

/// The counts of all pods that have been probed and still run.
#[derive(Default)]
pub struct ProbeCounts(Mutex<Vec<Weak<Counted>>>);

/// The counts of one pod.
#[derive(Debug, Default)]
pub struct Counted {
    namespace: String,
    pod: String,
    uid: String,
    outcomes: Mutex<BTreeMap<(String, ProbeKind, bool), u64>>,
}

impl ProbeCounts {
    pub fn pod(&self, namespace: &str, pod: &str, uid: &str) -> Arc<Counted> {
        let counted = Arc::new(Counted {
            namespace: namespace.to_owned(),
            pod: pod.to_owned(),
            uid: uid.to_owned(),
            outcomes: Mutex::default(),
        });
        let mut pods = self.0.lock();
        pods.retain(|known| known.strong_count() > 0);
        pods.push(Arc::downgrade(&counted));
        counted
    }

    pub fn page(&self) -> String {
        let mut text = Text::default();
        text.metric(NAME, "counter", HELP);
        let pods: Vec<Arc<Counted>> = self.0.lock().iter().filter_map(Weak::upgrade).collect();
        for pod in pods {
            for ((container, kind, success), count) in pod.outcomes.lock().iter() {
                let labels = [
                    ("container", container.as_str()),
                    ("namespace", &pod.namespace),
                    ("pod", &pod.pod),
                    ("pod_uid", &pod.uid),
                    ("probe_type", kind.title()),
                    ("result", if *success { "successful" } else { "failed" }),
                ];
                text.sample(NAME, &labels, *count as f64, None);
            }
        }
        text.finish()
    }
}

impl Counted {
    pub fn note(&self, container: &str, kind: ProbeKind, success: bool) {
        *self.outcomes.lock().entry((container.to_owned(), kind, success)).or_default() += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_live_as_long_as_their_pod() {
        let counts = ProbeCounts::default();
        let (web, gone) = (counts.pod("shop", "web", "u1"), counts.pod("shop", "gone", "u2"));
        gone.note("main", ProbeKind::Liveness, true);
        web.note("main", ProbeKind::Readiness, false);
        web.note("main", ProbeKind::Readiness, false);
        drop(gone);
        let line = "prober_probe_total{container=\"main\",namespace=\"shop\",pod=\"web\",pod_uid=\"u1\",\
                    probe_type=\"Readiness\",result=\"failed\"} 2";
        let page = counts.page();
        assert!(page.lines().any(|found| found == line) && !page.contains("gone"), "{page}");
        drop(web);
        assert_eq!(counts.page().lines().count(), 2, "its name and its help");
        counts.pod("a", "b", "c");
        assert_eq!(counts.0.lock().len(), 1, "what has ended is forgotten");
    }
}
