//! Objects for those who only look at them: without `managedFields`, which are half of an object's JSON and matter
//! to nobody but those who write it; or no more than what a selector asks about.

use std::borrow::Cow;
use std::fmt;

use minik8s_api::Part;
use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, Visitor};
use serde_json::value::RawValue;
use serde_json::{Map, Value};

/// An object as stored, but for the managed_fields.
pub struct WithoutManagedFields(pub Value);

impl<'de> Deserialize<'de> for WithoutManagedFields {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut managed = None;
        Level::Object(Kept::No, &mut managed).deserialize(deserializer).map(WithoutManagedFields)
    }
}

/// An object as stored, and its managed_fields beside it, unread.
pub struct Split {
    pub object: Value,
    pub managed: Option<Box<RawValue>>,
}

impl<'de> Deserialize<'de> for Split {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut managed = None;
        let object = Level::Object(Kept::Beside, &mut managed).deserialize(deserializer)?;
        Ok(Split { object, managed })
    }
}

/// What becomes of `managedFields`.
#[derive(Clone, Copy, PartialEq)]
enum Kept {
    No,
    Beside,
}

enum Level<'a> {
    Object(Kept, &'a mut Option<Box<RawValue>>),
    Metadata(Kept, &'a mut Option<Box<RawValue>>),
}

impl<'de> DeserializeSeed<'de> for Level<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for Level<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut fields: A) -> Result<Value, A::Error> {
        let mut map = Map::new();
        while let Some(name) = fields.next_key::<String>()? {
            let value = match (&mut self, name.as_str()) {
                (Level::Object(kept, managed), "metadata") => {
                    fields.next_value_seed(Level::Metadata(*kept, managed))?
                }
                (Level::Metadata(Kept::No, _), "managedFields") => {
                    fields.next_value::<IgnoredAny>()?;
                    continue;
                }
                (Level::Metadata(Kept::Beside, managed), "managedFields") => {
                    **managed = Some(fields.next_value()?);
                    continue;
                }
                _ => fields.next_value()?,
            };
            map.insert(name, value);
        }
        Ok(Value::Object(map))
    }
}

/// What every selector may ask about.
const METADATA: [&str; 3] = ["name", "namespace", "labels"];

/// These parts of an object, and of its metadata what selectors ask about. The rest is passed over.
pub fn read_parts(object: &[u8], parts: &[Part]) -> serde_json::Result<Value> {
    let mut deserializer = serde_json::Deserializer::from_slice(object);
    let read = Outer(parts).deserialize(&mut deserializer)?;
    deserializer.end()?;
    Ok(read)
}

/// The object, of which parts are wanted.
struct Outer<'a>(&'a [Part]);

/// Its field of this name, of which parts are wanted.
struct Inner<'a>(&'a str, &'a [Part]);

impl<'de> DeserializeSeed<'de> for Outer<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for Outer<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<Value, A::Error> {
        let mut map = Map::new();
        while let Some(name) = fields.next_key::<Cow<'de, str>>()? {
            if name == "metadata" || self.0.iter().any(|(outer, _)| *outer == name) {
                let value = fields.next_value_seed(Inner(&name, self.0))?;
                map.insert(name.into_owned(), value);
            } else {
                fields.next_value::<IgnoredAny>()?;
            }
        }
        Ok(Value::Object(map))
    }
}

impl Inner<'_> {
    fn wants(&self, field: &str) -> bool {
        (self.0 == "metadata" && METADATA.contains(&field)) || self.1.contains(&(self.0, field))
    }
}

impl<'de> DeserializeSeed<'de> for Inner<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for Inner<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<Value, A::Error> {
        let mut map = Map::new();
        while let Some(name) = fields.next_key::<Cow<'de, str>>()? {
            if self.wants(&name) {
                map.insert(name.into_owned(), fields.next_value()?);
            } else {
                fields.next_value::<IgnoredAny>()?;
            }
        }
        Ok(Value::Object(map))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn all_but_managed_fields() {
        let without_managed_fields = |object: Value| {
            serde_json::from_str::<WithoutManagedFields>(&object.to_string())
                .map(|without_managed_fields| without_managed_fields.0)
        };
        let managed = json!([{"manager": "a", "fieldsV1": {"f:spec": {}}}]);
        let object = json!({"kind": "Pod", "metadata": {"name": "a", "managedFields": managed, "labels": {"a": "b"}}, "spec": [1]});
        let expected = json!({"kind": "Pod", "metadata": {"name": "a", "labels": {"a": "b"}}, "spec": [1]});
        assert_eq!(without_managed_fields(object.clone()).unwrap(), expected);
        let split: Split = serde_json::from_str(&object.to_string()).unwrap();
        assert_eq!((split.object, split.managed.unwrap().get()), (expected, &*managed.to_string()));
        // Elsewhere the name means something else.
        let elsewhere = json!({"managedFields": 1, "spec": {"metadata": {"managedFields": 2}}});
        assert_eq!(without_managed_fields(elsewhere.clone()).unwrap(), elsewhere);
        assert!(without_managed_fields(json!([1])).is_err());
        assert!(without_managed_fields(json!({"metadata": 1})).is_err());
    }

    #[test]
    fn only_the_parts() {
        let check = |parts: &[Part], expected: Value| {
            let object = json!({
                "kind": "Pod", "metadata": {"name": "a", "labels": {"a": "b"}, "managedFields": [], "uid": "u"},
                "spec": {"nodeName": "n", "containers": [{"name": "c"}]}, "status": {"phase": "Running"},
            });
            assert_eq!(read_parts(object.to_string().as_bytes(), parts).unwrap(), expected);
        };
        let metadata = json!({"name": "a", "labels": {"a": "b"}});
        check(&[], json!({"metadata": metadata}));
        check(&[("spec", "nodeName")], json!({"metadata": metadata, "spec": {"nodeName": "n"}}));
        check(
            &[("spec", "hostNetwork"), ("status", "phase")],
            json!({"metadata": metadata, "spec": {}, "status": {"phase": "Running"}}),
        );
        check(&[("none", "name")], json!({"metadata": metadata}));
        assert!(read_parts(b"{} x", &[]).is_err());
    }
}
