//! Some fields of an object, read from its stored bytes.
//!
//! A table of thousands of objects shows a few words of each. What no column looks at is passed over without
//! being made into values, and keys are compared without being copied. Lists on the way to a field are kept with
//! all their elements, so that they can be counted.

use std::fmt;
use std::marker::PhantomData;

use minik8s_api::FieldPath;
use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};

/// The fields at some paths, as a tree.
#[derive(Debug, Default)]
pub struct FieldTree {
    fields: Vec<(&'static str, FieldTree)>,
    /// A path ends here: all of it is wanted.
    is_whole: bool,
}

impl FieldTree {
    pub fn new(paths: &[FieldPath]) -> Self {
        let mut tree = FieldTree::default();
        paths.iter().for_each(|path| tree.add(path));
        tree
    }

    fn add(&mut self, path: FieldPath) {
        let Some((name, rest)) = path.split_first() else {
            self.is_whole = true;
            return;
        };
        match self.fields.iter_mut().find(|(field, _)| field == name) {
            Some((_, below)) => below.add(rest),
            None => {
                let mut below = FieldTree::default();
                below.add(rest);
                self.fields.push((name, below));
            }
        }
    }

    /// The object with no other fields than these.
    pub fn read(&self, object: &[u8]) -> serde_json::Result<Value> {
        let mut deserializer = serde_json::Deserializer::from_slice(object);
        let read = self.deserialize(&mut deserializer)?;
        deserializer.end()?;
        Ok(read)
    }

    /// As [`FieldTree::read`], with the bytes of the object's metadata beside it, which a second look would take as long
    /// to find. None if this is not the compact JSON of an object with metadata.
    pub fn read_beside_metadata<'a>(&self, object: &'a [u8]) -> Option<(Value, &'a [u8])> {
        let (mut map, mut metadata) = (Map::new(), None);
        let mut at = 0;
        loop {
            let divider = if at == 0 { b'{' } else { b',' };
            if *object.get(at)? != divider {
                break;
            }
            at += 1;
            let start = at;
            let field = next(object, &mut at, Key(self))?;
            let is_metadata = &object[start..at] == b"\"metadata\"";
            if *object.get(at)? != b':' {
                return None;
            }
            at += 1;
            let start = at;
            match field {
                None => drop(next(object, &mut at, PhantomData::<IgnoredAny>)?),
                Some((name, below)) => {
                    let value = match below.is_whole {
                        true => next(object, &mut at, PhantomData::<Value>)?,
                        false => next(object, &mut at, below)?,
                    };
                    map.insert((*name).to_owned(), value);
                }
            }
            if is_metadata {
                metadata = Some(&object[start..at]);
            }
        }
        (object[at..] == *b"}").then_some((Value::Object(map), metadata?))
    }
}

/// The value that stands there; `at` is moved behind it.
fn next<'a, S: DeserializeSeed<'a>>(text: &'a [u8], at: &mut usize, seed: S) -> Option<S::Value> {
    let mut deserializer = serde_json::Deserializer::from_slice(&text[*at..]);
    let value = seed.deserialize(&mut deserializer).ok()?;
    // Of nothing that follows: where it would begin.
    *at += deserializer.into_iter::<IgnoredAny>().byte_offset();
    Some(value)
}

impl<'de> DeserializeSeed<'de> for &FieldTree {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for &FieldTree {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any JSON value")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<Value, A::Error> {
        let mut map = Map::new();
        while let Some(field) = fields.next_key_seed(Key(self))? {
            match field {
                None => {
                    fields.next_value::<IgnoredAny>()?;
                }
                Some((name, below)) if below.is_whole => {
                    map.insert((*name).to_owned(), fields.next_value()?);
                }
                Some((name, below)) => {
                    map.insert((*name).to_owned(), fields.next_value_seed(below)?);
                }
            }
        }
        Ok(Value::Object(map))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut elements: A) -> Result<Value, A::Error> {
        let mut list = Vec::new();
        while let Some(element) = elements.next_element_seed(self)? {
            list.push(element);
        }
        Ok(Value::Array(list))
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }
}

/// A key, compared where it stands.
struct Key<'a>(&'a FieldTree);

impl<'de, 'a> DeserializeSeed<'de> for Key<'a> {
    type Value = Option<&'a (&'static str, FieldTree)>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl<'de, 'a> Visitor<'de> for Key<'a> {
    type Value = Option<&'a (&'static str, FieldTree)>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a key")
    }

    fn visit_str<E>(self, name: &str) -> Result<Self::Value, E> {
        Ok(self.0.fields.iter().find(|(field, _)| *field == name))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[track_caller]
    fn check(paths: &[FieldPath], object: Value, expected: Value) {
        let read = FieldTree::new(paths).read(object.to_string().as_bytes());
        assert_eq!(read.unwrap(), expected, "{paths:?}");
    }

    #[test]
    fn fields_at_the_paths_are_read_and_no_others() {
        let object = || {
            json!({
                "kind": "Pod", "metadata": {"name": "a", "managedFields": [{"manager": "m"}]},
                "spec": {"containers": [{"name": "c", "image": "i"}, {"image": "j"}, 5], "nodeName": "n"},
                "status": {"state": {"running": {"at": "now"}}, "n": [1, -2, 1.5, null, true]},
            })
        };
        check(&[], object(), json!({}));
        check(&[&["metadata", "name"]], object(), json!({"metadata": {"name": "a"}}));
        check(
            &[&["spec", "containers", "name"], &["none", "x"], &["spec", "none"]],
            object(),
            json!({"spec": {"containers": [{"name": "c"}, {}, 5]}}),
        );
        // A place that is there is seen, whatever it holds.
        let running = json!({"status": {"state": {"running": {}}}});
        check(&[&["status", "state", "running", "x"]], object(), running);
        let numbers = json!({"status": {"n": [1, -2, 1.5, null, true]}});
        check(&[&["status", "n"], &["status", "n", "x"]], object(), numbers);
        check(&[&["kind", "x"]], object(), json!({"kind": "Pod"}));
        check(&[&["a\"b"]], json!({"a\"b": "\u{e9}\n"}), json!({"a\"b": "\u{e9}\n"}));
    }

    #[test]
    fn metadata_is_found_on_the_way() {
        let tree = FieldTree::new(&[&["metadata", "name"], &["spec", "n"], &["data"]]);
        let check = |text: &str, expected: Option<(Value, &str)>| {
            let found = tree.read_beside_metadata(text.as_bytes());
            let expected = expected.map(|(value, metadata)| (value, metadata.as_bytes()));
            assert_eq!(found, expected, "{text}");
        };
        let metadata = r#"{"name":"a","labels":{"metadata":"}\""}}"#;
        let object =
            format!(r#"{{"kind":"A","metadata":{metadata},"spec":{{"m":[1],"n":2}},"data":{{"x":-1.5}}}}"#);
        let read = json!({"metadata": {"name": "a"}, "spec": {"n": 2}, "data": {"x": -1.5}});
        assert_eq!(tree.read(object.as_bytes()).unwrap(), read);
        check(&object, Some((read, metadata)));
        check(r#"{"\u0061":[],"metadata":{}}"#, Some((json!({"metadata": {}}), "{}")));
        check(r#"{"n":12,"metadata":{}}"#, Some((json!({"metadata": {}}), "{}")));
        for other in [
            "",
            "{",
            "{}",
            "[]",
            r#"{"a":1}"#,
            r#"{"metadata":{}"#,
            r#"{"metadata":{}} "#,
            r#"{"metadata":{},}"#,
        ] {
            check(other, None);
        }
        check(r#"{"metadata" :{}}"#, None);
    }

    #[test]
    fn broken_text_is_an_error() {
        for text in ["", "{", "{} x", "{\"a\":}", "[1,]"] {
            assert!(FieldTree::new(&[&["a"]]).read(text.as_bytes()).is_err(), "{text}");
        }
    }
}
