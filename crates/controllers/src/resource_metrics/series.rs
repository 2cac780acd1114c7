//! `…/metrics.k8s.io/…/pods/NAME/series` and `…/nodes/NAME/series`: the last hour as it is remembered, a minute of it by the
//! second. With `since` what is newer; with `watch=true` that, and then a line whenever there is more.
//!
//! Read from memory when the client has taken what was told before, so nothing is gathered for one that is slow, and nothing
//! done for one that has gone. A stream ends after a while, so that rights are asked for again.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures::{Stream, stream};
use http::{Response, StatusCode};
use jiff::Timestamp;
use minik8s_api::{Body, Handler, HandlerRequest, Objects, respond, respond_lines};
use minik8s_metrics::History;
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::time::{Instant, sleep, timeout_at};

/// Nodes tell what they measure once a second, each at a moment of its own: between two looks.
const PACE: Duration = Duration::from_millis(250);
/// A line without anything new tells that the stream is alive, and finds out whether its client is.
const HEARTBEAT: Duration = Duration::from_secs(15);
/// Who wants more asks again.
const LONGEST: Duration = Duration::from_secs(600);

/// Of a pod's containers, or of a node where there is no namespace.
pub struct SeriesHandler(pub Arc<History>);

type Points = Vec<(Timestamp, Option<u64>, u64)>;

#[async_trait]
impl Handler for SeriesHandler {
    fn streams(&self, query: &str) -> bool {
        query.split('&').any(|pair| matches!(pair, "watch=true" | "watch=1"))
    }

    async fn handle(&self, request: HandlerRequest, _cluster: &dyn Objects) -> Response<Body> {
        let since = match since(&request.query) {
            Ok(since) => since,
            Err(why) => {
                let status = json!({
                    "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "code": 400,
                    "reason": "BadRequest", "message": why,
                });
                return respond(StatusCode::BAD_REQUEST, "application/json", status.to_string());
            }
        };
        let is_stream = self.streams(&request.query);
        let subject = Subject { history: self.0.clone(), namespace: request.namespace, name: request.name };
        if is_stream {
            return respond_lines(lines(subject, since, LONGEST));
        }
        let (items, _) = subject.items(since);
        respond(StatusCode::OK, "application/json", json!({"items": items}).to_string())
    }
}

/// Whose series it is.
struct Subject {
    history: Arc<History>,
    namespace: String,
    name: String,
}

impl Subject {
    /// What is newer than `since`, and up to when that is.
    fn items(&self, since: i64) -> (Vec<Value>, i64) {
        let series: Vec<(String, Points)> = if self.namespace.is_empty() {
            vec![(String::new(), self.history.node_points(&self.name))]
        } else {
            let containers = self.history.containers(&self.namespace, &self.name).into_iter();
            containers
                .map(|name| {
                    let points = self.history.points(&self.namespace, &self.name, &name);
                    (name, points)
                })
                .collect()
        };
        let newest =
            series.iter().filter_map(|(_, points)| points.last()).map(|last| last.0.as_millisecond());
        let newest = newest.max().unwrap_or(since).max(since);
        (series.into_iter().map(|(name, points)| item(&name, points, since)).collect(), newest)
    }
}

/// A stream, between two of its lines.
struct Following {
    subject: Subject,
    changes: watch::Receiver<u64>,
    /// What was told.
    since: i64,
    is_begun: bool,
    until: Instant,
}

/// All that is newer than `since` at first, then what comes, for as long as it may take.
fn lines(subject: Subject, since: i64, longest: Duration) -> impl Stream<Item = String> + Send {
    let (changes, until) = (subject.history.changes(), Instant::now() + longest);
    stream::unfold(Following { subject, changes, since, is_begun: false, until }, Following::next)
}

impl Following {
    async fn next(mut self) -> Option<(String, Self)> {
        let beat = Instant::now() + HEARTBEAT;
        loop {
            if self.is_begun {
                if Instant::now() >= self.until {
                    return None;
                }
                sleep(PACE).await;
                // Whichever comes first: there is something to tell, or to find out.
                let _ = timeout_at(beat.min(self.until), self.changes.changed()).await;
            }
            self.changes.borrow_and_update();
            let (items, newest) = self.subject.items(self.since);
            if !self.is_begun || newest > self.since || Instant::now() >= beat {
                (self.since, self.is_begun) = (newest, true);
                return Some((json!({"items": items}).to_string(), self));
            }
        }
    }
}

/// Milliseconds since 1970, as `since=…` says.
fn since(query: &str) -> Result<i64, String> {
    let value = query.split('&').find_map(|pair| pair.strip_prefix("since="));
    match value {
        None | Some("") => Ok(0),
        Some(text) => {
            text.parse().map_err(|_| format!("since: {text:?} is not a number of milliseconds since 1970"))
        }
    }
}

/// A name, and points of time (milliseconds), CPU (billionths of a core) and memory (bytes).
fn item(name: &str, points: Points, since: i64) -> Value {
    let new = points.into_iter().filter(|(at, _, _)| at.as_millisecond() > since);
    let points: Vec<Value> = new.map(|(at, cpu, memory)| json!([at.as_millisecond(), cpu, memory])).collect();
    json!({"name": name, "points": points})
}

#[cfg(test)]
mod tests {
    use futures::StreamExt;
    use minik8s_metrics::{ContainerLayout, Layout, NodeUsage, PodLayout, Reading};

    use super::*;

    fn record(history: &History, second: i64) {
        let containers = vec![ContainerLayout { name: "x".to_owned(), id: "1".to_owned() }];
        let (namespace, name, uid) = ("ns".to_owned(), "p".to_owned(), "u".to_owned());
        let layout = Layout { pods: vec![PodLayout { namespace, name, uid, containers }] };
        let spent = second.unsigned_abs() * 100_000_000;
        let values = vec![None, None, Some(spent), Some(9), None, None];
        let node = NodeUsage { cpu: 10 * spent, working_set: 70 };
        let at = Timestamp::from_second(1_000 + second).unwrap();
        history.record("n1", &layout, &Reading { at: 0, node, values }, at, &|_, _| true);
    }

    fn subject(history: &Arc<History>, namespace: &str, name: &str) -> Subject {
        Subject { history: history.clone(), namespace: namespace.to_owned(), name: name.to_owned() }
    }

    /// The name of the only series of a line, and its times in seconds.
    fn times(line: Option<String>) -> (String, Vec<i64>) {
        let line: Value = serde_json::from_str(&line.unwrap()).unwrap();
        let [item] = line["items"].as_array().unwrap().as_slice() else { panic!("{line}") };
        let points = item["points"].as_array().unwrap().iter();
        let seconds = points.map(|point| point[0].as_i64().unwrap() / 1000 - 1000).collect();
        (item["name"].as_str().unwrap().to_owned(), seconds)
    }

    #[tokio::test]
    async fn stream_begins_with_what_is_known_and_goes_on_with_what_is_new() {
        let history = Arc::new(History::default());
        (0..4).for_each(|second| record(&history, second));
        let mut of_pod = Box::pin(lines(subject(&history, "ns", "p"), 0, LONGEST));
        let mut of_node = Box::pin(lines(subject(&history, "", "n1"), 1_002_000, LONGEST));
        assert_eq!(times(of_pod.next().await), ("x".to_owned(), vec![1, 2, 3]));
        assert_eq!(times(of_node.next().await), (String::new(), vec![3]), "since when it was asked for");
        (4..6).for_each(|second| record(&history, second));
        assert_eq!(times(of_pod.next().await).1, [4, 5], "each once, all that came meanwhile together");
        record(&history, 6);
        assert_eq!(times(of_pod.next().await).1, [6]);
        assert_eq!(times(of_node.next().await).1, [4, 5, 6], "who is slow misses nothing");
    }

    #[tokio::test]
    async fn stream_ends_so_that_rights_are_asked_for_again() {
        let history = Arc::new(History::default());
        (0..2).for_each(|second| record(&history, second));
        let stream = lines(subject(&history, "ns", "p"), 0, Duration::from_millis(1));
        let told: Vec<String> = stream.collect().await;
        assert_eq!(told.len(), 1, "{told:?}");
        let unknown = lines(subject(&history, "ns", "nobody"), 0, Duration::from_millis(1));
        assert_eq!(unknown.collect::<Vec<_>>().await, [r#"{"items":[]}"#]);
    }

    #[tokio::test]
    async fn only_who_asks_for_a_stream_gets_one() {
        let handler = SeriesHandler(Arc::default());
        for (query, expected) in [
            ("", false),
            ("since=5", false),
            ("watch=true&since=5", true),
            ("a=b&watch=1", true),
            ("watch=0", false),
        ] {
            assert_eq!(handler.streams(query), expected, "{query}");
        }
    }
}
