//! JSONPath as kubectl and CustomResourceDefinitions use it: `.status.conditions[?(@.type=="Ready")].status`.
//!
//! Fields, quoted fields, indices (negative ones count from the end), wildcards, and filters that compare
//! with a literal. It never fails on data: a path that leads nowhere yields nothing.

use serde_json::Value;

#[derive(Debug, Clone, PartialEq)]
pub struct JsonPath(Vec<Step>);

#[derive(Debug, Clone, PartialEq)]
enum Step {
    Field(String),
    Index(i64),
    All,
    Filter { path: JsonPath, test: Option<(Comparison, Value)> },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Comparison {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("JSONPath {path:?}: {why} at character {at}")]
pub struct JsonPathError {
    path: String,
    why: &'static str,
    at: usize,
}

impl JsonPath {
    /// Accepts `.a.b`, `a.b`, `$.a.b` and `{.a.b}`.
    pub fn parse(text: &str) -> Result<Self, JsonPathError> {
        let inner = text.trim();
        let inner = inner.strip_prefix('{').and_then(|t| t.strip_suffix('}')).unwrap_or(inner);
        let inner = inner.strip_prefix('$').unwrap_or(inner);
        let mut parser = Parser { text: inner, at: 0 };
        match parser.steps() {
            Ok(steps) => Ok(JsonPath(steps)),
            Err(why) => Err(JsonPathError { path: text.to_owned(), why, at: parser.at }),
        }
    }

    /// Every value that the path leads to.
    pub fn find<'a>(&self, root: &'a Value) -> Vec<&'a Value> {
        let mut found = vec![root];
        for step in &self.0 {
            found = found.into_iter().flat_map(|value| step.apply(value)).collect();
        }
        found
    }

    pub fn first<'a>(&self, root: &'a Value) -> Option<&'a Value> {
        self.find(root).into_iter().next()
    }
}

impl Step {
    fn apply<'a>(&self, value: &'a Value) -> Vec<&'a Value> {
        match (self, value) {
            (Step::Field(name), _) => value.get(name).into_iter().collect(),
            (Step::Index(index), Value::Array(items)) => {
                let length = i64::try_from(items.len()).unwrap_or(i64::MAX);
                let index = if *index < 0 { length + index } else { *index };
                usize::try_from(index).ok().and_then(|index| items.get(index)).into_iter().collect()
            }
            (Step::All, Value::Array(items)) => items.iter().collect(),
            (Step::All, Value::Object(map)) => map.values().collect(),
            (Step::Filter { path, test }, Value::Array(items)) => {
                items.iter().filter(|item| passes(path, test.as_ref(), item)).collect()
            }
            _ => Vec::new(),
        }
    }
}

fn passes(path: &JsonPath, test: Option<&(Comparison, Value)>, item: &Value) -> bool {
    let found = path.find(item);
    match test {
        None => !found.is_empty(),
        Some((comparison, wanted)) => found.iter().any(|value| comparison.holds(value, wanted)),
    }
}

impl Comparison {
    fn holds(self, left: &Value, right: &Value) -> bool {
        use std::cmp::Ordering::{Greater, Less};
        let order = match (left, right) {
            (Value::Number(a), Value::Number(b)) => a.as_f64().partial_cmp(&b.as_f64()),
            (Value::String(a), Value::String(b)) => Some(a.cmp(b)),
            _ => None,
        };
        match self {
            Comparison::Equal => left == right,
            Comparison::NotEqual => left != right,
            Comparison::Less => order == Some(Less),
            Comparison::LessOrEqual => order.is_some_and(|order| order != Greater),
            Comparison::Greater => order == Some(Greater),
            Comparison::GreaterOrEqual => order.is_some_and(|order| order != Less),
        }
    }
}

struct Parser<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Parser<'a> {
    fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    fn take(&mut self, token: &str) -> bool {
        let found = self.rest().starts_with(token);
        if found {
            self.at += token.len();
        }
        found
    }

    fn skip_spaces(&mut self) {
        self.at += self.rest().len() - self.rest().trim_start().len();
    }

    /// Steps up to the end, or up to what cannot be part of a path (inside a filter).
    fn steps(&mut self) -> Result<Vec<Step>, &'static str> {
        let steps = self.steps_until_other()?;
        if self.rest().is_empty() { Ok(steps) } else { Err("unexpected character") }
    }

    fn steps_until_other(&mut self) -> Result<Vec<Step>, &'static str> {
        let mut steps = Vec::new();
        loop {
            if self.take("[") {
                steps.push(self.bracket()?);
            } else if self.take(".") {
                if self.take("[") {
                    steps.push(self.bracket()?);
                } else if self.take("*") {
                    steps.push(Step::All);
                } else {
                    steps.extend(self.field()?);
                }
            } else if steps.is_empty() && self.rest().starts_with(|c: char| c.is_alphanumeric() || c == '_') {
                steps.extend(self.field()?);
            } else {
                return Ok(steps);
            }
        }
    }

    /// A plain name; a dot may be part of it as `\.`.
    fn field(&mut self) -> Result<Option<Step>, &'static str> {
        let mut name = String::new();
        let mut escaped = false;
        for c in self.rest().chars() {
            match c {
                _ if escaped => escaped = false,
                '\\' => {
                    escaped = true;
                    self.at += 1;
                    continue;
                }
                c if c.is_alphanumeric() || matches!(c, '_' | '-' | '/') => {}
                _ => break,
            }
            name.push(c);
            self.at += c.len_utf8();
        }
        match name.is_empty() {
            false => Ok(Some(Step::Field(name))),
            // `.` alone is the whole object.
            true if self.rest().is_empty() => Ok(None),
            true => Err("a field name is expected"),
        }
    }

    fn bracket(&mut self) -> Result<Step, &'static str> {
        self.skip_spaces();
        let step = if self.take("?(") {
            let step = self.filter()?;
            if !self.take(")") {
                return Err("\")\" is expected");
            }
            step
        } else if self.take("*") {
            Step::All
        } else if self.rest().starts_with(['\'', '"']) {
            match self.literal()? {
                Value::String(name) => Step::Field(name),
                _ => return Err("a name is expected"),
            }
        } else {
            match self.literal()?.as_i64() {
                Some(index) => Step::Index(index),
                None => return Err("an index is expected"),
            }
        };
        self.skip_spaces();
        if self.take("]") { Ok(step) } else { Err("\"]\" is expected") }
    }

    fn filter(&mut self) -> Result<Step, &'static str> {
        self.skip_spaces();
        if !self.take("@") {
            return Err("\"@\" is expected");
        }
        let path = JsonPath(self.steps_until_other()?);
        self.skip_spaces();
        let comparisons = [
            ("==", Comparison::Equal),
            ("!=", Comparison::NotEqual),
            ("<=", Comparison::LessOrEqual),
            (">=", Comparison::GreaterOrEqual),
            ("<", Comparison::Less),
            (">", Comparison::Greater),
        ];
        let Some((_, comparison)) = comparisons.into_iter().find(|(token, _)| self.take(token)) else {
            return Ok(Step::Filter { path, test: None });
        };
        self.skip_spaces();
        let wanted = self.literal()?;
        self.skip_spaces();
        Ok(Step::Filter { path, test: Some((comparison, wanted)) })
    }

    fn literal(&mut self) -> Result<Value, &'static str> {
        let rest = self.rest();
        if let Some(quote) = rest.chars().next().filter(|c| matches!(c, '\'' | '"')) {
            let end = rest[1..].find(quote).ok_or("the quote is not closed")?;
            self.at += end + 2;
            return Ok(Value::String(rest[1..=end].to_owned()));
        }
        let end = rest.find(|c: char| matches!(c, ']' | ')') || c.is_whitespace()).unwrap_or(rest.len());
        self.at += end;
        match &rest[..end] {
            "true" => Ok(Value::Bool(true)),
            "false" => Ok(Value::Bool(false)),
            number => serde_json::from_str::<serde_json::Number>(number)
                .map(Value::Number)
                .map_err(|_| "a value is expected"),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn check(path: &str, expected: Value) {
        let object = json!({
            "spec": {"replicas": 3, "a.b": "dotted"},
            "items": [{"t": "A", "n": 1}, {"t": "B", "n": 2}],
        });
        let path = JsonPath::parse(path).unwrap();
        assert_eq!(json!(path.find(&object)), expected, "{path:?}");
    }

    #[test]
    fn finds() {
        check(".spec.replicas", json!([3]));
        check("{.spec.replicas}", json!([3]));
        check("$.spec['a.b']", json!(["dotted"]));
        check(".spec.a\\.b", json!(["dotted"]));
        check(".items[0].t", json!(["A"]));
        check(".items[-1].t", json!(["B"]));
        check(".items[9].t", json!([]));
        check(".items[*].n", json!([1, 2]));
        check(".items[?(@.t==\"B\")].n", json!([2]));
        check(".items[?(@.n>1)].t", json!(["B"]));
        check(".items[?(@.n)].t", json!(["A", "B"]));
        check(".spec.nothing.there", json!([]));
    }

    #[test]
    fn nonsense_is_refused() {
        for path in [".a[", ".a[?(x)]", "..", ".a]", ".a['b]", ".a[1", ".a[?(@.b==)]", "[é"] {
            assert!(JsonPath::parse(path).is_err(), "{path}");
        }
    }
}
