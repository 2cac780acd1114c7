//! An object's JSON, looked at before it is read as a whole.
//!
//! Half of an object is `managedFields`, which no cache keeps, and much of what a watch shows is an answer that was
//! already seen. So a look at the metadata comes first: what is known is not read again, and what is read is read
//! without its bookkeeping. It never changes what the object says.

use std::borrow::Cow;

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;

use crate::{Decoded, Key, decode};

pub(crate) struct ObjectHeader<'a> {
    text: &'a [u8],
    metadata: Metadata<'a>,
}

#[derive(Deserialize)]
struct Whole<'a> {
    #[serde(borrow, default)]
    metadata: Metadata<'a>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Metadata<'a> {
    #[serde(borrow, default)]
    name: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    namespace: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    resource_version: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    managed_fields: Option<&'a RawValue>,
}

impl<'a> ObjectHeader<'a> {
    pub fn at(text: &'a [u8]) -> serde_json::Result<Self> {
        let Whole { metadata } = serde_json::from_slice(text)?;
        Ok(ObjectHeader { text, metadata })
    }

    pub fn key(&self) -> Key {
        Key::new(self.metadata.namespace.as_deref().unwrap_or(""), self.name())
    }

    pub fn name(&self) -> &str {
        self.metadata.name.as_deref().unwrap_or("")
    }

    pub fn version(&self) -> &str {
        self.metadata.resource_version.as_deref().unwrap_or("")
    }

    /// The version as the ordered number that it is, 0 if it is none.
    pub fn revision(&self) -> u64 {
        self.version().parse().unwrap_or(0)
    }

    /// The object without its `managedFields` and without what cannot be read.
    pub fn read<K: DeserializeOwned>(&self) -> serde_json::Result<Decoded<K>> {
        let Some(fields) = self.metadata.managed_fields else { return decode(self.text) };
        // The raw value is a part of the text.
        let start = fields.get().as_ptr() as usize - self.text.as_ptr() as usize;
        let end = start + fields.get().len();
        let mut rest = Vec::with_capacity(self.text.len() - fields.get().len() + 4);
        rest.extend_from_slice(&self.text[..start]);
        rest.extend_from_slice(b"null");
        rest.extend_from_slice(&self.text[end..]);
        decode(&rest)
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::Pod;
    use serde_json::json;

    use super::*;

    #[test]
    fn reads_all_but_managed_fields() {
        let entry = json!({"manager": "a", "operation": "Update", "fieldsType": "FieldsV1", "fieldsV1": {"f:spec": {}}});
        let managed = json!({
            "metadata": {
                "name": "a\"b", "namespace": "n", "resourceVersion": "7", "managedFields": [entry, entry],
                "labels": {"managedFields": "no"},
            },
            "spec": {"containers": [{"name": "c", "env": [{"name": "managedFields", "value": "[]"}]}]},
        });
        let mut plain = managed.clone();
        plain["metadata"].as_object_mut().unwrap().remove("managedFields");
        for text in [managed.to_string(), format!("{managed:#}"), plain.to_string()] {
            let header = ObjectHeader::at(text.as_bytes()).unwrap();
            assert_eq!(header.key(), Key::new("n", "a\"b"));
            assert_eq!((header.version(), header.revision()), ("7", 7));
            let read: Pod = header.read().unwrap().object;
            assert_eq!(read, serde_json::from_value(plain.clone()).unwrap());
        }
    }

    #[test]
    fn takes_what_there_is() {
        let check = |object: serde_json::Value, key: Key, revision: u64| {
            let text = object.to_string();
            let header = ObjectHeader::at(text.as_bytes()).unwrap();
            assert_eq!((header.key(), header.revision()), (key, revision));
        };
        check(json!({}), Key::default(), 0);
        check(json!({"metadata": {"name": "a", "managedFields": null}}), Key::new("", "a"), 0);
        check(json!({"metadata": {"name": "a", "resourceVersion": "x"}}), Key::new("", "a"), 0);
        assert!(ObjectHeader::at(b"7").is_err());
        assert!(ObjectHeader::at(b"{").is_err());
    }
}
