//! What nodes have found, as one answer: by time, the newest of all. Pure.

use http::StatusCode;
use jiff::Timestamp;
use serde_json::{Value, json};

use crate::node_api::Refusal;

pub struct Answers {
    limit: usize,
    lines: Vec<(Timestamp, Value)>,
    truncated: bool,
    bytes: u64,
    unanswered: Vec<Value>,
}

impl Answers {
    pub fn new(limit: usize) -> Self {
        Answers { limit, lines: Vec::new(), truncated: false, bytes: 0, unanswered: Vec::new() }
    }

    /// A question that a node cannot read is the asker's fault; a node that does not answer is told of.
    pub fn add(&mut self, node: String, answer: Result<Value, Refusal>) -> Result<(), Refusal> {
        let mut found = match answer {
            Ok(found) => found,
            Err((StatusCode::BAD_REQUEST, problem)) => return Err((StatusCode::BAD_REQUEST, problem)),
            Err((_, problem)) => {
                self.unanswered.push(json!({"node": node, "message": problem}));
                return Ok(());
            }
        };
        self.truncated |= found["truncated"] == true;
        self.bytes += found["bytes"].as_u64().unwrap_or(0);
        let Value::Array(lines) = found["lines"].take() else { return Ok(()) };
        for mut line in lines {
            let Some(time) = line["time"].as_str().and_then(|time| time.parse().ok()) else { continue };
            line["node"] = json!(node);
            self.lines.push((time, line));
        }
        Ok(())
    }

    pub fn finish(mut self) -> Value {
        // Lines of one node and time stay in their order.
        self.lines.sort_by_key(|(time, _)| *time);
        let surplus = self.lines.len().saturating_sub(self.limit);
        let lines: Vec<Value> = self.lines.into_iter().skip(surplus).map(|(_, line)| line).collect();
        json!({"kind": "LogLines", "apiVersion": "logs.minik8s.io/v1", "lines": lines,
            "truncated": self.truncated || surplus > 0, "searchedBytes": self.bytes, "unanswered": self.unanswered})
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_nodes_are_merged_by_time() {
        let line =
            |second: u32, text: &str| json!({"time": format!("2026-01-01T00:00:{second:02}Z"), "text": text});
        let found = |lines: &[Value]| Ok(json!({"lines": lines, "truncated": false, "bytes": 7}));
        let mut answers = Answers::new(3);
        answers.add("n1".into(), found(&[line(1, "a"), line(4, "d")])).unwrap();
        answers.add("n2".into(), found(&[line(2, "b"), line(3, "c"), json!({"nonsense": true})])).unwrap();
        answers.add("n3".into(), Err((StatusCode::BAD_GATEWAY, "it is away".into()))).unwrap();
        let said = answers.add("n4".into(), Err((StatusCode::BAD_REQUEST, "grep".into())));
        assert_eq!(said, Err((StatusCode::BAD_REQUEST, "grep".to_owned())));
        let all = answers.finish();
        let texts: Vec<&str> =
            all["lines"].as_array().unwrap().iter().map(|line| line["text"].as_str().unwrap()).collect();
        assert_eq!(texts, ["b", "c", "d"]);
        assert_eq!((&all["truncated"], &all["searchedBytes"]), (&json!(true), &json!(14)));
        assert_eq!(all["lines"][2]["node"], "n1");
        assert_eq!(all["unanswered"], json!([{"node": "n3", "message": "it is away"}]));
    }
}
