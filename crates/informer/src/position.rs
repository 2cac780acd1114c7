//! Which value of a JSON text a reader stood at when it failed.
//!
//! The reader tells how many bytes it had taken. That is the end of the value that did not fit, the end of an object that
//! lacks a field, or the start of a list or an object where something else was wanted.

/// One step from a value to a value in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    Key(String),
    Index(usize),
}

/// The way to the innermost value around `offset` of a valid text without white space; empty for the whole of it.
pub fn locate(text: &[u8], offset: usize) -> Vec<Step> {
    let mut scan = Scan { text, at: 0, offset, path: Vec::new() };
    scan.value();
    scan.path
}

struct Scan<'a> {
    text: &'a [u8],
    at: usize,
    offset: usize,
    path: Vec<Step>,
}

impl Scan<'_> {
    /// Whether it was found: then the path stays as it is.
    fn value(&mut self) -> bool {
        let start = self.at;
        let found = match self.peek() {
            Some(b'{' | b'[') if start == self.offset => return true,
            Some(b'{') => self.members(b'}', |scan, _| {
                let key = scan.string();
                scan.at += 1;
                Step::Key(key)
            }),
            Some(b'[') => self.members(b']', |_, index| Step::Index(index)),
            Some(b'"') => {
                self.string();
                false
            }
            _ => {
                while self.peek().is_some_and(|byte| !matches!(byte, b',' | b'}' | b']')) {
                    self.at += 1;
                }
                false
            }
        };
        found || (start < self.offset && self.offset <= self.at)
    }

    fn members(&mut self, end: u8, step: impl Fn(&mut Self, usize) -> Step) -> bool {
        self.at += 1;
        let mut index = 0;
        while self.peek().is_some_and(|byte| byte != end) {
            let step = step(self, index);
            self.path.push(step);
            if self.value() {
                return true;
            }
            self.path.pop();
            index += 1;
            if self.peek() == Some(b',') {
                self.at += 1;
            }
        }
        self.at += 1;
        false
    }

    /// Passes over a string.
    fn string(&mut self) -> String {
        let start = self.at;
        self.at += 1;
        while let Some(byte) = self.peek() {
            self.at += if byte == b'\\' { 2 } else { 1 };
            if byte == b'"' {
                break;
            }
        }
        self.text.get(start..self.at).and_then(|text| serde_json::from_slice(text).ok()).unwrap_or_default()
    }

    fn peek(&self) -> Option<u8> {
        self.text.get(self.at).copied()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn shown(text: &str, offset: usize) -> String {
        let step = |step: &Step| match step {
            Step::Key(key) => format!("/{key}"),
            Step::Index(index) => format!("/{index}"),
        };
        locate(text.as_bytes(), offset).iter().map(step).collect()
    }

    #[test]
    fn ends_of_values_and_starts_of_lists_are_found() {
        let text = r#"{"a":[1,{"b\"":"x,}"}],"c":{},"d":[[]]}"#;
        let after = |part: &str| text.find(part).unwrap() + part.len();
        for (offset, path) in [
            (after("[1"), "/a/0"),
            (after("x,}\""), "/a/1/b\""),
            (after("x,}\"}"), "/a/1"),
            (after("x,}\"}]"), "/a"),
            (after("\"a\":"), "/a"),
            (after("\"c\":"), "/c"),
            (after("\"c\":{}"), "/c"),
            (after("\"d\":["), "/d/0"),
            (text.len(), ""),
            (0, ""),
            (text.len() + 9, ""),
        ] {
            assert_eq!(shown(text, offset), path, "{offset}");
        }
    }

    #[test]
    fn every_value_is_found_at_its_end() {
        fn walk(value: &Value, path: String, paths: &mut Vec<String>) {
            match value {
                Value::Object(fields) => {
                    fields.iter().for_each(|(key, value)| walk(value, format!("{path}/{key}"), paths));
                }
                Value::Array(items) => {
                    items.iter().enumerate().for_each(|(at, item)| walk(item, format!("{path}/{at}"), paths));
                }
                _ => {}
            }
            paths.push(path);
        }
        let value = json!({"a": [true, null, -1.5e9, "\u{e9}\\\"{["], "": {"x": {"y": []}}, "z": 0});
        let (text, mut paths) = (value.to_string(), Vec::new());
        walk(&value, String::new(), &mut paths);
        let mut seen: Vec<String> = (1..=text.len()).map(|offset| shown(&text, offset)).collect();
        seen.sort();
        seen.dedup();
        paths.sort();
        assert_eq!(seen, paths);
    }
}
