//! One stream of one node, opened again whenever it ends. A node is believed of itself and of the pods that are bound to it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures::AsyncBufReadExt;
use futures::stream::StreamExt;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::jiff::{SignedDuration, Timestamp};
use kube::Client;
use minik8s_metrics::{Frames, History};
use minik8s_runtime::{Backoff, Cache, Key};

use crate::pods::node_name;

/// A node that takes longer to answer, or is silent for so long, is asked again.
const TIMEOUT: Duration = Duration::from_secs(10);
const RETRY: Backoff = Backoff { first: Duration::from_millis(250), most: Duration::from_secs(10) };
/// By more than this the node's steady clock and ours do not part unless one of them stood still.
const DRIFT: SignedDuration = SignedDuration::from_secs(2);

/// What a stream tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum What {
    /// What the node, its pods and their containers use.
    Everything,
    /// What pods tell of themselves.
    OwnMetrics,
}

/// Never returns.
pub async fn follow(
    client: Client,
    pods: Arc<Cache<Pod>>,
    history: Arc<History>,
    node: String,
    path: String,
    what: What,
) {
    let url = format!("/api/v1/nodes/{node}/proxy/{path}");
    let mut failures = 0;
    loop {
        let is_there = |namespace: &str, name: &str| {
            let pod = pods.get(&Key::new(namespace, name));
            pod.is_some_and(|pod| node_name(&pod) == Some(&node))
        };
        let mut reader = Reader {
            history: &history,
            node: &node,
            is_there: &is_there,
            frames: Frames::default(),
            anchor: None,
        };
        let mut heard = false;
        if let Err(error) = read(&client, &url, |line| heard |= reader.take(line, what)).await {
            tracing::debug!(node, path, %error, "no metrics");
        }
        failures = if heard { 1 } else { failures + 1 };
        tokio::time::sleep(RETRY.after(failures)).await;
    }
}

/// Hands over line after line until the stream ends or falls silent.
async fn read(client: &Client, url: &str, mut take: impl FnMut(&str)) -> Result<(), String> {
    let request = http::Request::get(url).body(Vec::new()).map_err(|error| error.to_string())?;
    let silent = |_| "no answer in time".to_owned();
    let opening = tokio::time::timeout(TIMEOUT, client.request_stream(request)).await.map_err(silent)?;
    let mut lines = opening.map_err(|error| error.to_string())?.lines();
    while let Some(line) = tokio::time::timeout(TIMEOUT, lines.next()).await.map_err(silent)? {
        take(&line.map_err(|error| error.to_string())?);
    }
    Ok(())
}

struct Reader<'a> {
    history: &'a History,
    node: &'a str,
    /// Whether a pod is bound to the node.
    is_there: &'a (dyn Fn(&str, &str) -> bool + Sync),
    frames: Frames,
    /// Our time at a moment of the node's clock.
    anchor: Option<(Timestamp, u64)>,
}

impl Reader<'_> {
    /// Whether the line told anything.
    fn take(&mut self, line: &str, what: What) -> bool {
        match what {
            What::Everything => self.take_reading(line),
            What::OwnMetrics => self.take_own(line),
        }
    }

    fn take_reading(&mut self, line: &str) -> bool {
        let Ok(Some((layout, reading))) = self.frames.take(line) else { return false };
        let now = Timestamp::now();
        let known = self.anchor.and_then(|anchor| moment(anchor, reading.at));
        let at = match known.filter(|at| now.duration_since(*at).abs() < DRIFT) {
            Some(at) => at,
            None => {
                self.anchor = Some((now, reading.at));
                now
            }
        };
        self.history.record(self.node, layout, &reading, at, self.is_there);
        true
    }

    fn take_own(&self, line: &str) -> bool {
        let told: Result<BTreeMap<String, BTreeMap<String, f64>>, _> = serde_json::from_str(line);
        for (pod, values) in told.unwrap_or_default() {
            if let Some((namespace, name)) = pod.split_once('/')
                && (self.is_there)(namespace, name)
            {
                self.history.record_own(namespace, name, values, Timestamp::now());
            }
        }
        true
    }
}

/// When the node measured, by our clock. How long a line was under way does not disturb the rates.
fn moment((then, anchor): (Timestamp, u64), at: u64) -> Option<Timestamp> {
    let since = i64::try_from(at.checked_sub(anchor)?).ok()?;
    then.checked_add(SignedDuration::from_millis(since)).ok()
}

#[cfg(test)]
mod tests {
    use minik8s_metrics::{ContainerLayout, Layout, Line, PodLayout, Reading};

    use super::*;

    fn is_there(namespace: &str, name: &str) -> bool {
        (namespace, name) == ("ns", "p")
    }

    fn reader(history: &History) -> Reader<'_> {
        Reader { history, node: "n", is_there: &is_there, frames: Frames::default(), anchor: None }
    }

    #[test]
    fn readings_are_placed_by_the_nodes_clock() {
        let history = History::default();
        let mut reader = reader(&history);
        let mut take = |line: Line| reader.take(&String::from_utf8(line.encode()).unwrap(), What::Everything);
        assert!(!take(Line::Layout(Layout::default())));
        assert!(take(Line::Reading(Reading { at: 5_000, ..Reading::default() })));
        assert!(take(Line::Reading(Reading { at: 6_000, ..Reading::default() })));
        let used = history.node("n", SignedDuration::from_secs(10), Timestamp::now()).unwrap();
        assert_eq!(used.window, SignedDuration::from_secs(1), "though both came at once");
        assert!(!reader.take("nonsense", What::Everything));
    }

    #[test]
    fn what_pods_tell_is_taken() {
        let history = History::default();
        let mut changes = history.changes();
        let mut reader = reader(&history);
        assert!(reader.take(r#"{"ns/p":{"hits":1.5},"odd":{}}"#, What::OwnMetrics));
        assert_eq!(*changes.borrow_and_update(), 1);
    }

    /// A stolen node makes nobody scale up, and fills no memory with pods that it invents.
    #[test]
    fn node_is_believed_of_its_own_pods_alone() {
        let history = History::default();
        let mut reader = reader(&history);
        let pod = |namespace: &str, name: &str| PodLayout {
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            uid: "u".to_owned(),
            containers: vec![ContainerLayout { name: "c".to_owned(), id: "1".to_owned() }],
        };
        let layout = Layout { pods: vec![pod("ns", "other"), pod("ns", "p"), pod("bank", "p")] };
        let mut take = |line: Line| reader.take(&String::from_utf8(line.encode()).unwrap(), What::Everything);
        take(Line::Layout(layout));
        for second in 1..3 {
            // Tenths of a core, and as many bytes.
            let uses =
                |tenths: u64| [None, None, Some(second * tenths * 100_000_000), Some(tenths), None, None];
            let values = [uses(7), uses(1), uses(9)].concat();
            assert!(take(Line::Reading(Reading { at: second * 1000, values, ..Reading::default() })));
        }
        assert!(reader.take(r#"{"ns/p":{"hits":1},"ns/other":{"hits":9},"bank/p":{}}"#, What::OwnMetrics));
        let known = |namespace: &str, name: &str| history.containers(namespace, name);
        assert_eq!(known("ns", "p"), ["c"]);
        assert_eq!((known("ns", "other").len(), known("bank", "p").len()), (0, 0));
        let used = history.pod("ns", "p", SignedDuration::from_secs(10), Timestamp::now()).unwrap();
        let of_container = (used.containers["c"].cpu_nanos, used.containers["c"].memory_bytes);
        assert_eq!(of_container, (100_000_000, 1), "its own values, not its neighbour's");
    }
}
