//! Which objects a monitor selects: its `selector`, in the namespaces of its `namespaceSelector`.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector as Object;
use minik8s_meta::LabelSelector;
use serde_json::Value;

use crate::discovery::namespace_of;

pub struct Scope<'a> {
    labels: LabelSelector,
    /// None for all.
    namespaces: Option<Vec<&'a str>>,
}

impl<'a> Scope<'a> {
    /// Of a spec (or of a probe's `targets.ingress`), in its own namespace unless it says otherwise. A selector that
    /// cannot be read selects nothing.
    pub fn new(spec: &'a Value, own: &'a str) -> Self {
        let chosen = &spec["namespaceSelector"];
        let names: Vec<&str> =
            chosen["matchNames"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
        let namespaces = match (chosen["any"].as_bool(), names.is_empty()) {
            (Some(true), _) => None,
            (_, false) => Some(names),
            (_, true) => Some(vec![own]),
        };
        Scope { labels: selector(&spec["selector"]), namespaces }
    }

    pub fn takes(&self, object: &Value) -> bool {
        let namespace = namespace_of(object);
        self.namespaces.as_ref().is_none_or(|all| all.contains(&namespace))
            && self.labels.matches(object["metadata"]["labels"].as_object())
    }
}

fn selector(object: &Value) -> LabelSelector {
    let read: Option<Object> = serde_json::from_value(object.clone()).ok();
    read.and_then(|read| LabelSelector::try_from(&read).ok()).unwrap_or_else(LabelSelector::nothing)
}
