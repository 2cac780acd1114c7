//! Objects for those who only look at them: without `managedFields`, which are half of an object's JSON and matter
//! to nobody but those who write it.

use std::fmt;

use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, Visitor};
use serde_json::{Map, Value};

/// An object as stored, but for the bookkeeping.
pub struct Lean(pub Value);

impl<'de> Deserialize<'de> for Lean {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Level::Object.deserialize(deserializer).map(Lean)
    }
}

#[derive(Clone, Copy, PartialEq)]
enum Level {
    Object,
    Metadata,
}

impl<'de> DeserializeSeed<'de> for Level {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for Level {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<Value, A::Error> {
        let mut map = Map::new();
        while let Some(name) = fields.next_key::<String>()? {
            let value = match name.as_str() {
                "metadata" if self == Level::Object => fields.next_value_seed(Level::Metadata)?,
                "managedFields" if self == Level::Metadata => {
                    fields.next_value::<IgnoredAny>()?;
                    continue;
                }
                _ => fields.next_value()?,
            };
            map.insert(name, value);
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
        let lean = |object: Value| serde_json::from_str::<Lean>(&object.to_string()).map(|lean| lean.0);
        let managed = json!([{"manager": "a", "fieldsV1": {"f:spec": {}}}]);
        let object = json!({"kind": "Pod", "metadata": {"name": "a", "managedFields": managed, "labels": {"a": "b"}}, "spec": [1]});
        let expected = json!({"kind": "Pod", "metadata": {"name": "a", "labels": {"a": "b"}}, "spec": [1]});
        assert_eq!(lean(object).unwrap(), expected);
        // Elsewhere the name means something else.
        let elsewhere = json!({"managedFields": 1, "spec": {"metadata": {"managedFields": 2}}});
        assert_eq!(lean(elsewhere.clone()).unwrap(), elsewhere);
        assert!(lean(json!([1])).is_err());
        assert!(lean(json!({"metadata": 1})).is_err());
    }
}
