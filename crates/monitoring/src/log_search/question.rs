//! What a search asks for, read from its query. Pure.

use form_urlencoded::Serializer;
use jiff::{SignedDuration, Timestamp};

/// Lines that are answered at most, and without a word about it.
const MOST: usize = 10_000;
const USUAL: usize = 1000;

/// Conditions that nodes read themselves.
const PASSED_ON: [&str; 6] = ["labelSelector", "pod", "container", "grep", "where", "ended"];

#[derive(Debug, Default)]
pub struct Question {
    pub namespace: String,
    pub limit: usize,
    since: Option<Timestamp>,
    until: Option<Timestamp>,
    conditions: Vec<(String, String)>,
}

impl Question {
    /// A word that means nothing is refused: to pass over it would be to answer more than was asked for.
    pub fn parse(query: &str, now: Timestamp) -> Result<Self, String> {
        let mut question = Question { limit: USUAL, ..Question::default() };
        for (name, value) in form_urlencoded::parse(query.as_bytes()) {
            match &*name {
                "since" => question.since = Some(moment("since", &value, now)?),
                "until" => question.until = Some(moment("until", &value, now)?),
                "limit" => {
                    let limit: usize =
                        value.parse().map_err(|_| format!("limit: {value:?} is not a number"))?;
                    question.limit = limit.clamp(1, MOST);
                }
                known if PASSED_ON.contains(&known) => {
                    question.conditions.push((name.into_owned(), value.into_owned()));
                }
                other => {
                    return Err(format!("{other}: use since, until, limit, {}", PASSED_ON.join(", ")));
                }
            }
        }
        Ok(question)
    }

    /// Nothing that is older, whatever was asked for.
    pub fn not_before(&mut self, began: Option<Timestamp>) {
        self.since = self.since.max(began);
    }

    /// For a node.
    pub fn encoded(&self) -> String {
        let mut query = Serializer::new(String::new());
        query.append_pair("namespace", &self.namespace).append_pair("limit", &self.limit.to_string());
        for (name, time) in [("since", self.since), ("until", self.until)] {
            if let Some(time) = time {
                query.append_pair(name, &time.to_string());
            }
        }
        query.extend_pairs(&self.conditions);
        query.finish()
    }
}

/// A moment, or how long ago.
fn moment(name: &str, text: &str, now: Timestamp) -> Result<Timestamp, String> {
    if let Ok(moment) = text.parse() {
        return Ok(moment);
    }
    let wrong = || format!("{name}: {text:?}: give a time as 10m, or a moment as 2026-01-31T12:00:00Z");
    let ago: SignedDuration = text.parse().map_err(|_| wrong())?;
    now.checked_sub(ago).map_err(|_| wrong())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queries_become_those_of_nodes() {
        let now: Timestamp = "2026-01-01T12:00:00Z".parse().unwrap();
        let check = |query: &str, want: &str| {
            let made = Question::parse(query, now).map(|mut question| {
                question.namespace = "shop".to_owned();
                question.encoded()
            });
            assert_eq!(
                made.unwrap_or_else(|error| error.split(':').next().unwrap().to_owned()),
                want,
                "{query}"
            );
        };
        check("", "namespace=shop&limit=1000");
        check(
            "grep=a%7Cb&where=level%3Derror&limit=5",
            "namespace=shop&limit=5&grep=a%7Cb&where=level%3Derror",
        );
        check("since=1h&limit=99999999", "namespace=shop&limit=10000&since=2026-01-01T11%3A00%3A00Z");
        check("until=2026-01-01T00:00:00Z", "namespace=shop&limit=1000&until=2026-01-01T00%3A00%3A00Z");
        check("since=yesterday", "since");
        check("limit=all", "limit");
        // The namespace is that of the path, which was authorized.
        check("namespace=bank", "namespace");
    }

    #[test]
    fn nothing_from_before_the_namespace_is_told() {
        let now: Timestamp = "2026-01-01T12:00:00Z".parse().unwrap();
        let since = |query: &str, began: Option<&str>| {
            let mut question = Question::parse(query, now).unwrap();
            question.not_before(began.map(|began| began.parse().unwrap()));
            question.since.map(|since| since.to_string())
        };
        assert_eq!(since("since=3h", Some("2026-01-01T10:00:00Z")).unwrap(), "2026-01-01T10:00:00Z");
        assert_eq!(since("since=1h", Some("2026-01-01T10:00:00Z")).unwrap(), "2026-01-01T11:00:00Z");
        assert_eq!(since("", Some("2026-01-01T10:00:00Z")).unwrap(), "2026-01-01T10:00:00Z");
        assert_eq!(since("", None), None);
    }
}
