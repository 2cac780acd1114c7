//! JSON and YAML text to a [`Value`], noting what the parsers alone would hide: keys given twice.
//!
//! The last value of a repeated key wins, as in upstream; whether that is worth a warning or an error is
//! for the caller to say. Nesting is bounded by the parsers (128 levels of JSON, 64 of YAML), and the
//! stack grows with it, so no body can exhaust it; what YAML's aliases multiply is bounded in bytes, so none can exhaust the memory.

mod yaml;

use std::cell::RefCell;
use std::fmt;
use std::marker::PhantomData;

use serde::de::{DeserializeOwned, DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::map::Entry;
use serde_json::{Map, Number, Value};

pub use yaml::{YamlError, parse_yaml};

use crate::Path;
use crate::trail::Trail;

/// More than this is not listed: a hostile body must not make a long answer.
const MAX_REPORTED: usize = 100;
/// What one level may take of the stack, with all that its parser calls: of YAML 22 KB each and 80 KB for the innermost
/// where nothing is optimised. Requests are read deep in futures, on the small stacks of a server's threads.
const ROOM: usize = 256 * 1024;
const MORE_ROOM: usize = 2 * 1024 * 1024;

/// A key that an object holds more than once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DuplicateField {
    pub path: Path,
    pub key: String,
    /// Of the later key; known of YAML only.
    pub line: Option<u64>,
}

/// Upstream's words, which differ between its parsers.
impl fmt::Display for DuplicateField {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            Some(line) => write!(f, "line {line}: key {:?} already set in map", self.key),
            None => write!(f, "duplicate field \"{}\"", self.path),
        }
    }
}

/// The value and every key that stands twice in its object.
pub fn parse_json(bytes: &[u8]) -> Result<(Value, Vec<DuplicateField>), serde_json::Error> {
    let notes = Notes::default();
    let mut input = serde_json::Deserializer::from_slice(bytes);
    let value = notes.read::<String, _>(&mut input)?;
    input.end()?;
    Ok((value, notes.duplicates.into_inner()))
}

/// A key as a parser gives it.
trait Key: DeserializeOwned {
    /// The key, and the line where it stands.
    fn placed(self) -> (String, Option<u64>);
}

impl Key for String {
    fn placed(self) -> (String, Option<u64>) {
        (self, None)
    }
}

/// What is noted about a text while it is read.
#[derive(Default)]
struct Notes {
    duplicates: RefCell<Vec<DuplicateField>>,
}

impl Notes {
    fn read<'de, K: Key, D: Deserializer<'de>>(&self, input: D) -> Result<Value, D::Error> {
        let root = Path::root();
        Node::<K> { trail: &Trail::Base(&root), notes: self, keys: PhantomData }.deserialize(input)
    }

    fn duplicate(&self, parent: &Trail<'_>, key: &str, line: Option<u64>) {
        let mut duplicates = self.duplicates.borrow_mut();
        if duplicates.len() < MAX_REPORTED {
            let path = Trail::Field(parent, key).path();
            duplicates.push(DuplicateField { path, key: key.to_owned(), line });
        }
    }
}

/// Reads the value at one place.
struct Node<'a, K> {
    trail: &'a Trail<'a>,
    notes: &'a Notes,
    keys: PhantomData<K>,
}

impl<'de, K: Key> DeserializeSeed<'de> for Node<'_, K> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, input: D) -> Result<Value, D::Error> {
        stacker::maybe_grow(ROOM, MORE_ROOM, || input.deserialize_any(self))
    }
}

impl<'de, K: Key> Visitor<'de> for Node<'_, K> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any JSON value")
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(Value::from(value))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(Value::from(value))
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<Value, E> {
        Number::from_f64(value).map(Value::Number).ok_or_else(|| E::custom("number out of range"))
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(Value::from(value))
    }

    fn visit_string<E>(self, value: String) -> Result<Value, E> {
        Ok(Value::String(value))
    }

    fn visit_none<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_some<D: Deserializer<'de>>(self, input: D) -> Result<Value, D::Error> {
        self.deserialize(input)
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut input: A) -> Result<Value, A::Error> {
        let mut list = Vec::new();
        loop {
            let trail = Trail::Index(self.trail, list.len());
            match input.next_element_seed(Node::<K> {
                trail: &trail,
                notes: self.notes,
                keys: PhantomData,
            })? {
                Some(element) => list.push(element),
                None => return Ok(Value::Array(list)),
            }
        }
    }

    fn visit_map<A: MapAccess<'de>>(self, mut input: A) -> Result<Value, A::Error> {
        let mut map = Map::new();
        while let Some(key) = input.next_key::<K>()? {
            let (key, line) = key.placed();
            let trail = Trail::Field(self.trail, &key);
            let value =
                input.next_value_seed(Node::<K> { trail: &trail, notes: self.notes, keys: PhantomData })?;
            match map.entry(key) {
                Entry::Vacant(place) => {
                    place.insert(value);
                }
                Entry::Occupied(mut place) => {
                    self.notes.duplicate(self.trail, place.key(), line);
                    place.insert(value);
                }
            }
        }
        Ok(Value::Object(map))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::testing::any_json;

    #[test]
    fn deepest_body_needs_no_large_stack() {
        let nested = |levels: usize| format!("{}1{}", r#"{"a":["#.repeat(levels), "]}".repeat(levels));
        let read = move || {
            assert!(parse_json(nested(63).as_bytes()).is_ok());
            assert!(parse_yaml(&nested(31)).is_ok());
            assert!(parse_json(nested(500).as_bytes()).is_err() && parse_yaml(&nested(500)).is_err());
        };
        let thread = std::thread::Builder::new().stack_size(512 * 1024).spawn(read).unwrap();
        assert!(thread.join().is_ok(), "the text above says which was not read");
    }

    #[test]
    fn duplicates_are_named_and_the_last_value_wins() {
        let check = |text: &str, value: &str, duplicates: &[&str]| {
            let (got, found) = parse_json(text.as_bytes()).unwrap();
            assert_eq!(got, value.parse::<Value>().unwrap(), "{text}");
            let found: Vec<String> = found.iter().map(|d| d.path.to_string()).collect();
            assert_eq!(found, duplicates, "{text}");
        };
        check("null", "null", &[]);
        check(r#"{"a":1,"b":[1.5,-2,true,"x",null]}"#, r#"{"a":1,"b":[1.5,-2,true,"x",null]}"#, &[]);
        check(r#"{"a":1,"a":2}"#, r#"{"a":2}"#, &["a"]);
        check(
            r#"{"s":{"l":[{},{"x":1,"x":1,"x":3}]}}"#,
            r#"{"s":{"l":[{},{"x":3}]}}"#,
            &["s.l[1].x", "s.l[1].x"],
        );
    }

    #[test]
    fn bad_text_is_an_error() {
        for text in ["", "{", "{} {}", "{\"a\":}", "nul", "[1,]", "\u{0}"] {
            assert!(parse_json(text.as_bytes()).is_err(), "{text}");
        }
    }

    #[test]
    fn nesting_is_bounded() {
        assert!(parse_json("[".repeat(1_000_000).as_bytes()).is_err());
        assert!(parse_json("{\"a\":".repeat(1_000_000).as_bytes()).is_err());
        let deep = format!("{}{}", "[".repeat(100), "]".repeat(100));
        assert!(parse_json(deep.as_bytes()).is_ok());
    }

    #[test]
    fn the_list_of_duplicates_is_bounded() {
        let body = format!("{{{}\"a\":1}}", "\"a\":1,".repeat(5000));
        assert_eq!(parse_json(body.as_bytes()).unwrap().1.len(), MAX_REPORTED);
    }

    proptest! {
        #[test]
        fn agrees_with_serde_json(value in any_json()) {
            let text = value.to_string();
            let (got, duplicates) = parse_json(text.as_bytes()).unwrap();
            prop_assert_eq!(got, text.parse::<Value>().unwrap());
            prop_assert!(duplicates.is_empty());
        }

        #[test]
        fn never_panics(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = parse_json(&bytes);
        }
    }
}
