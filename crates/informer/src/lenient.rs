//! An object inside `kube`'s own readers of lists and watches: the reader sees a type that can always be read.
//!
//! It works where JSON text is read directly, as `kube` reads answers; it never refuses a JSON object.

use std::borrow::Cow;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Resource;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

use crate::{Decoded, Ignored, decode};

#[derive(Debug, Clone, PartialEq)]
pub struct Lenient<K>(pub Decoded<K>);

impl<K> Lenient<K> {
    pub fn into_inner(self) -> K {
        self.0.object
    }
}

impl<'de, K: DeserializeOwned + Default + Resource> Deserialize<'de> for Lenient<K> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = Box::<RawValue>::deserialize(deserializer)?;
        Ok(Lenient(decode(text.get().as_bytes()).unwrap_or_else(|error| nameplate(&text, &error))))
    }
}

/// What identifies an object of which nothing else can be read.
fn nameplate<K: Default + Resource>(text: &RawValue, error: &serde_json::Error) -> Decoded<K> {
    let value: serde_json::Value = serde_json::from_str(text.get()).unwrap_or_default();
    let field = |name: &str| value["metadata"][name].as_str().map(str::to_owned);
    let mut object = K::default();
    *object.meta_mut() = ObjectMeta {
        name: field("name"),
        namespace: field("namespace"),
        uid: field("uid"),
        resource_version: field("resourceVersion"),
        ..ObjectMeta::default()
    };
    Decoded { object, ignored: vec![Ignored { path: "*".to_owned(), error: error.to_string() }] }
}

impl<K: Resource> Resource for Lenient<K> {
    type DynamicType = K::DynamicType;
    type Scope = K::Scope;

    fn kind(dynamic: &K::DynamicType) -> Cow<'_, str> {
        K::kind(dynamic)
    }

    fn group(dynamic: &K::DynamicType) -> Cow<'_, str> {
        K::group(dynamic)
    }

    fn version(dynamic: &K::DynamicType) -> Cow<'_, str> {
        K::version(dynamic)
    }

    fn plural(dynamic: &K::DynamicType) -> Cow<'_, str> {
        K::plural(dynamic)
    }

    fn meta(&self) -> &ObjectMeta {
        self.0.object.meta()
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        self.0.object.meta_mut()
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::Service;
    use kube::api::{ObjectList, WatchEvent};
    use serde_json::json;

    use super::*;

    #[test]
    fn list_with_an_unreadable_object_is_complete() {
        let text = json!({"apiVersion": "v1", "kind": "ServiceList", "metadata": {"resourceVersion": "7"}, "items": [
            {"metadata": {"name": "a"}, "status": {"conditions": [{"type": "A", "status": "True"}]}},
            {"metadata": {"name": "b", "uid": 5}},
            {"metadata": {"name": "c"}},
        ]});
        let list: ObjectList<Lenient<Service>> = serde_json::from_str(&text.to_string()).unwrap();
        let seen: Vec<_> =
            list.items.iter().map(|item| (item.meta().name.as_deref(), item.0.ignored.len())).collect();
        assert_eq!(seen, [(Some("a"), 1), (Some("b"), 1), (Some("c"), 0)]);
    }

    #[test]
    fn watch_event_with_an_unreadable_object_is_an_event() {
        let line = r#"{"type":"MODIFIED","object":{"metadata":{"name":"a"},"status":{"conditions":[{}]}}}"#;
        let event: WatchEvent<Lenient<Service>> = serde_json::from_str(line).unwrap();
        let WatchEvent::Modified(service) = event else { panic!("{event:?}") };
        assert!(service.0.ignores("status"));
        assert_eq!(service.meta().name.as_deref(), Some("a"));
    }
}
