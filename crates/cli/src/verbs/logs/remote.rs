//! Searches where the logs lie: the server asks its nodes, and only lines that match come here. Any other cluster, and a
//! search that finds more lines than one answer holds, is read log by log instead.

use std::collections::HashMap;

use jiff::Timestamp;
use serde_json::Value;

use super::filter::Line;
use super::{Logs, ended};
use crate::client::Call;
use crate::error::{Error, Result};
use crate::session::Session;

/// Lines of one answer.
const MOST: &str = "10000";

/// A line, with the namespace, pod and container that have printed it, and whether that pod is gone.
pub type Found = ((String, String, String), bool, Line);

/// Whether the server can answer it: what has no end, and what is about a container's last life, it cannot.
pub fn can_answer(verb: &Logs) -> bool {
    let has_condition = verb.grep.is_some() || !verb.fields.is_empty();
    let is_plain =
        verb.selectors.field_selector.is_none() && verb.tail.is_none() && verb.limit_bytes.is_none();
    has_condition && is_plain && !verb.follow && !verb.previous
}

/// `None` where the logs have to be read one by one.
pub async fn search(session: &Session, verb: &Logs, until: Option<Timestamp>) -> Result<Option<Vec<Found>>> {
    let path = match verb.all_namespaces {
        true => "/apis/logs.minik8s.io/v1/logs".to_owned(),
        false => format!("/apis/logs.minik8s.io/v1/namespaces/{}/logs", session.namespace().await?),
    };
    let since = verb.since.map(|since| format!("{}s", since.as_secs_f64().ceil()));
    let pod = verb.words.first().filter(|word| !word.contains('/') || word.starts_with("pod"));
    if pod.is_none() && !verb.words.is_empty() {
        // Of a workload: which pods it has is not for nodes to know.
        return Ok(None);
    }
    let mut call = Call::get(path)
        .query("limit", MOST)
        .maybe("pod", pod.map(|pod| ended::plain_name(pod).to_owned()))
        .maybe("labelSelector", verb.selectors.selector.clone())
        .maybe("since", verb.since_time.clone().or(since))
        .maybe("until", until.map(|until| until.to_string()))
        .maybe("grep", verb.grep.clone())
        .maybe("ended", verb.ended.then_some("true"));
    for field in &verb.fields {
        call = call.query("where", field.clone());
    }
    match session.client().await?.send(call).await {
        Ok(answer) => Ok(lines(&answer)),
        // Another server, or rights for single pods only.
        Err(Error::Server(error)) if matches!(error.code, 403..=405) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Pure. `None` unless the answer is whole.
fn lines(answer: &Value) -> Option<Vec<Found>> {
    let unanswered = answer["unanswered"].as_array().is_none_or(|nodes| !nodes.is_empty());
    if unanswered || answer["truncated"] != false {
        return None;
    }
    let line = |line: &Value| {
        let text = |field: &str| Some(line[field].as_str()?.to_owned());
        let place = (text("namespace")?, text("pod")?, text("container")?);
        let found = Line { time: text("time")?.parse().ok()?, text: text("text")?.into_bytes() };
        Some((place, line["ended"] == true, found))
    };
    answer["lines"].as_array()?.iter().map(line).collect()
}

/// What each container's lines begin with, by the order in which it is first seen.
#[derive(Default)]
pub struct Prefixes(HashMap<(String, bool), String>);

impl Prefixes {
    pub fn of(&mut self, place: String, is_ended: bool, make: impl FnOnce(&str, usize) -> String) -> &str {
        let number = self.0.len();
        let key = (place, is_ended);
        self.0.entry(key).or_insert_with_key(|(place, _)| make(place, number))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_a_whole_answer_counts() {
        let line = json!({"time": "2026-01-01T00:00:01Z", "namespace": "a", "pod": "b", "container": "c",
            "ended": true, "text": "x", "node": "n1", "stream": "stdout"});
        let check = |answer: Value, want: Option<usize>| {
            assert_eq!(lines(&answer).map(|lines| lines.len()), want, "{answer}");
        };
        check(json!({"lines": [line], "truncated": false, "unanswered": []}), Some(1));
        check(json!({"lines": [], "truncated": false, "unanswered": []}), Some(0));
        check(json!({"lines": [line], "truncated": true, "unanswered": []}), None);
        check(json!({"lines": [line], "truncated": false, "unanswered": [{"node": "n2"}]}), None);
        check(json!({"lines": [{"time": "soon"}], "truncated": false, "unanswered": []}), None);
        check(json!({"kind": "Status"}), None);
    }
}
