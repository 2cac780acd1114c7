//! Reading the metadata that every object has.

use serde_json::{Map, Value};

/// Short ways to the fields all objects share. Missing text is empty.
pub trait Object {
    fn name(&self) -> &str;
    fn namespace(&self) -> &str;
    fn uid(&self) -> &str;
    fn resource_version(&self) -> &str;
    fn is_terminating(&self) -> bool;
    fn finalizers(&self) -> Vec<&str>;
    fn labels(&self) -> Option<&Map<String, Value>>;
    /// `metadata`, made when missing.
    fn metadata_mut(&mut self) -> &mut Map<String, Value>;
}

impl Object for Value {
    fn name(&self) -> &str {
        text(self, "name")
    }

    fn namespace(&self) -> &str {
        text(self, "namespace")
    }

    fn uid(&self) -> &str {
        text(self, "uid")
    }

    fn resource_version(&self) -> &str {
        text(self, "resourceVersion")
    }

    fn is_terminating(&self) -> bool {
        self["metadata"]["deletionTimestamp"].is_string()
    }

    fn finalizers(&self) -> Vec<&str> {
        let list = self["metadata"]["finalizers"].as_array();
        list.into_iter().flatten().filter_map(Value::as_str).collect()
    }

    fn labels(&self) -> Option<&Map<String, Value>> {
        self["metadata"]["labels"].as_object()
    }

    fn metadata_mut(&mut self) -> &mut Map<String, Value> {
        object_at(self, "metadata")
    }
}

/// The object at `field`, made (or put in place of a null) when it is not there.
pub fn object_at<'a>(parent: &'a mut Value, field: &str) -> &'a mut Map<String, Value> {
    if !parent.is_object() {
        *parent = Value::Object(Map::new());
    }
    if !parent[field].is_object() {
        parent[field] = Value::Object(Map::new());
    }
    match &mut parent[field] {
        Value::Object(map) => map,
        _ => unreachable!("the field was just made an object"),
    }
}

fn text<'a>(object: &'a Value, field: &str) -> &'a str {
    object["metadata"][field].as_str().unwrap_or_default()
}
