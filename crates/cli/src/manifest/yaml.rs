//! YAML (and so JSON) as people write it: every document as a value, with the place of every field, so that a
//! mistake can be shown where it stands. Scalars mean what they mean to kubectl, which follows YAML 1.1:
//! `yes` is true and `0644` is octal.

use std::collections::{BTreeMap, HashMap};

use granit_parser::{Event, Parser, ScalarStyle, Span, StrInput};
use serde_json::{Map, Number, Value};

/// Aliases to aliases grow without bound; no honest manifest comes near this.
const MOST_NODES: usize = 1_000_000;

#[derive(Debug, Clone, PartialEq)]
pub struct Document {
    pub value: Value,
    /// Where each field stands, by its path as the server writes it: `spec.containers[0].image`.
    pub places: BTreeMap<String, Place>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    pub line: usize,
    pub column: usize,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct YamlError {
    pub line: usize,
    pub column: usize,
    pub message: String,
}

/// All documents of a text. Empty ones are left out.
pub fn parse(text: &str) -> Result<Vec<Document>, YamlError> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut reader = Reader {
        parser: Parser::new_from_str(text),
        anchors: HashMap::new(),
        places: BTreeMap::new(),
        nodes: 0,
    };
    let mut documents = Vec::new();
    while let Some((event, _)) = reader.next()? {
        if let Event::DocumentStart(..) = event {
            reader.anchors.clear();
            reader.places.clear();
            let value = reader.node("")?;
            if !value.is_null() {
                documents.push(Document { value, places: std::mem::take(&mut reader.places) });
            }
        }
    }
    Ok(documents)
}

struct Reader<'a> {
    parser: Parser<'a, StrInput<'a>>,
    anchors: HashMap<usize, Value>,
    places: BTreeMap<String, Place>,
    nodes: usize,
}

impl<'a> Reader<'a> {
    fn next(&mut self) -> Result<Option<(Event<'a>, Span)>, YamlError> {
        match self.parser.next_event() {
            None => Ok(None),
            Some(Ok(event)) => Ok(Some(event)),
            Some(Err(error)) => Err(YamlError {
                line: error.marker().line(),
                column: error.marker().col() + 1,
                message: error.info(),
            }),
        }
    }

    /// The next node; the place of what `path` names is noted by whoever knows it better.
    fn node(&mut self, path: &str) -> Result<Value, YamlError> {
        loop {
            let Some((event, span)) = self.next()? else { return Ok(Value::Null) };
            if event.is_node() {
                return self.node_from(event, span, path);
            }
            if matches!(event, Event::DocumentEnd | Event::StreamEnd) {
                return Ok(Value::Null);
            }
        }
    }

    fn node_from(&mut self, event: Event<'a>, span: Span, path: &str) -> Result<Value, YamlError> {
        self.count(1, span)?;
        let (value, anchor) = match event {
            Event::Alias(id) => {
                let value = self.anchors.get(&id).cloned().unwrap_or_default();
                self.count(size(&value), span)?;
                (value, 0)
            }
            Event::Scalar(text, style, anchor, tag) => {
                let is_text = tag.as_ref().is_some_and(|tag| tag.is_yaml_core_schema_tag("str"));
                let plain = style == ScalarStyle::Plain && !is_text;
                (if plain { scalar(&text) } else { Value::String(text.into_owned()) }, anchor)
            }
            Event::SequenceStart(_, anchor, _) => (self.sequence(path)?, anchor),
            Event::MappingStart(_, anchor, _) => (self.mapping(path)?, anchor),
            _ => (Value::Null, 0),
        };
        if anchor != 0 {
            self.anchors.insert(anchor, value.clone());
        }
        Ok(value)
    }

    fn sequence(&mut self, path: &str) -> Result<Value, YamlError> {
        let mut items = Vec::new();
        while let Some((event, span)) = self.next()? {
            if event == Event::SequenceEnd {
                break;
            }
            if event.is_node() {
                let path = format!("{path}[{}]", items.len());
                self.note(&path, span);
                items.push(self.node_from(event, span, &path)?);
            }
        }
        Ok(Value::Array(items))
    }

    fn mapping(&mut self, path: &str) -> Result<Value, YamlError> {
        let (mut map, mut merged) = (Map::new(), Vec::new());
        while let Some((event, span)) = self.next()? {
            if event == Event::MappingEnd {
                break;
            }
            let Event::Scalar(key, style, ..) = &event else {
                if event.is_node() {
                    return Err(error(span, "a key must be a plain word, not a list or a map"));
                }
                continue;
            };
            let (key, plain) = (key.clone().into_owned(), *style == ScalarStyle::Plain);
            if key == "<<" && plain {
                merged.push(self.node(path)?);
                continue;
            }
            let below = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
            self.note(&below, span);
            let value = self.node(&below)?;
            if map.insert(key.clone(), value).is_some() {
                return Err(error(span, &format!("key {key:?} already set in map")));
            }
        }
        for source in merged {
            let sources = if let Value::Array(sources) = source { sources } else { vec![source] };
            for (key, value) in sources.into_iter().filter_map(|source| source.as_object().cloned()).flatten()
            {
                map.entry(key).or_insert(value);
            }
        }
        Ok(Value::Object(map))
    }

    fn note(&mut self, path: &str, span: Span) {
        self.places.insert(path.to_owned(), Place { line: span.start.line(), column: span.start.col() + 1 });
    }

    fn count(&mut self, nodes: usize, span: Span) -> Result<(), YamlError> {
        self.nodes += nodes;
        if self.nodes > MOST_NODES {
            return Err(error(span, "the aliases of this document make it too large"));
        }
        Ok(())
    }
}

fn error(span: Span, message: &str) -> YamlError {
    YamlError { line: span.start.line(), column: span.start.col() + 1, message: message.to_owned() }
}

fn size(value: &Value) -> usize {
    match value {
        Value::Array(items) => 1 + items.iter().map(size).sum::<usize>(),
        Value::Object(map) => 1 + map.values().map(size).sum::<usize>(),
        _ => 1,
    }
}

/// What a word without quotes means.
pub fn scalar(text: &str) -> Value {
    match text {
        "" | "~" | "null" | "Null" | "NULL" => return Value::Null,
        "y" | "Y" | "yes" | "Yes" | "YES" | "true" | "True" | "TRUE" | "on" | "On" | "ON" => {
            return true.into();
        }
        "n" | "N" | "no" | "No" | "NO" | "false" | "False" | "FALSE" | "off" | "Off" | "OFF" => {
            return false.into();
        }
        _ => {}
    }
    integer(text).or_else(|| float(text)).unwrap_or_else(|| Value::String(text.to_owned()))
}

fn integer(text: &str) -> Option<Value> {
    let plain = text.replace('_', "");
    let (negative, digits) = match plain.as_bytes().first()? {
        b'-' => (true, &plain[1..]),
        b'+' => (false, &plain[1..]),
        _ => (false, plain.as_str()),
    };
    if !digits.starts_with(|c: char| c.is_ascii_digit()) {
        return None;
    }
    let (radix, digits) = match digits.as_bytes() {
        [b'0', b'x' | b'X', ..] => (16, &digits[2..]),
        [b'0', b'b' | b'B', ..] => (2, &digits[2..]),
        [b'0', b'o' | b'O', ..] => (8, &digits[2..]),
        [b'0', _, ..] => (8, &digits[1..]),
        _ => (10, digits),
    };
    let value = u64::from_str_radix(digits, radix).ok()?;
    if !negative {
        return Some(value.into());
    }
    i64::try_from(-i128::from(value)).ok().map(Value::from)
}

fn float(text: &str) -> Option<Value> {
    let digits = text.trim_start_matches(['-', '+']);
    let starts_well = digits.starts_with(|c: char| c.is_ascii_digit() || c == '.');
    let only_number = digits.chars().all(|c| c.is_ascii_digit() || ".eE+-".contains(c));
    if !starts_well || !only_number {
        return None;
    }
    let value: f64 = text.parse().ok()?;
    // JSON clients write 1.0 as 1.
    if value.fract() == 0.0 && value.abs() < 9e15 {
        return Some((value as i64).into());
    }
    Number::from_f64(value).map(Value::Number)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn scalars() {
        for (text, expected) in [
            ("", json!(null)),
            ("~", json!(null)),
            ("yes", json!(true)),
            ("NO", json!(false)),
            ("12", json!(12)),
            ("-7", json!(-7)),
            ("0644", json!(420)),
            ("0x1F", json!(31)),
            ("1_000", json!(1000)),
            ("1.5", json!(1.5)),
            ("1e3", json!(1000)),
            ("089", json!(89)),
            ("1.2.3", json!("1.2.3")),
            ("1Gi", json!("1Gi")),
            ("-", json!("-")),
            ("2026-01-01", json!("2026-01-01")),
            ("192.168.0.1", json!("192.168.0.1")),
        ] {
            assert_eq!(scalar(text), expected, "{text}");
        }
    }

    #[test]
    fn documents_and_places() {
        let text = "# only words\n---\na: 1\nlist:\n- name: x\n  image: \"7\"\n---\n---\n{\"b\": [1, 2]}\n";
        let documents = parse(text).unwrap();
        assert_eq!(documents.len(), 2);
        assert_eq!(documents[0].value, json!({"a": 1, "list": [{"name": "x", "image": "7"}]}));
        assert_eq!(documents[0].places["list[0].image"], Place { line: 6, column: 3 });
        assert_eq!(documents[1].value, json!({"b": [1, 2]}));
    }

    #[test]
    fn anchors_and_merges() {
        let text = "base: &b {x: 1, y: 2}\nmore:\n  <<: *b\n  y: 3\nsame: *b\n";
        let value = parse(text).unwrap().remove(0).value;
        assert_eq!(value["more"], json!({"y": 3, "x": 1}));
        assert_eq!(value["same"], json!({"x": 1, "y": 2}));
    }

    #[test]
    fn mistakes() {
        for (text, line) in [("a: [", 1), ("a: 1\nb: {\n", 2), ("a: 1\na: 2\n", 2), ("a: b: c\n", 1)] {
            let error = parse(text).unwrap_err();
            assert!(error.line >= line && !error.message.is_empty(), "{text:?}: {error:?}");
        }
    }

    proptest::proptest! {
        #[test]
        fn json_is_yaml(text in "[ -~]{0,20}", number in proptest::num::i64::ANY) {
            let value = json!({"text": text, "list": [number, text], "nested": {"a": null}});
            proptest::prop_assert_eq!(parse(&value.to_string()).unwrap().remove(0).value, value);
        }
    }
}
