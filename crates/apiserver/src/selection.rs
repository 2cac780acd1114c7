//! Which objects a list or watch is about: label and field selectors, applied to stored objects.

use bytes::Bytes;
use minik8s_api::{FieldSelector, LabelSelector, Part};
use serde_json::Value;

use crate::catalog::Served;
use crate::codec;
use crate::error::{ApiError, Result};
use crate::object::Object;
use crate::request::ListOptions;

#[derive(Clone)]
pub struct Selection {
    labels: LabelSelector,
    fields: FieldSelector,
    /// Set when the field selector demands one name.
    name: Option<String>,
    namespace: Option<String>,
    /// What the field selector looks at beside metadata; None if that may be anything.
    parts: Option<Vec<Part>>,
}

impl Selection {
    pub fn new(served: &Served, options: &ListOptions) -> Result<Self> {
        let beside_metadata = |field: &&str| !matches!(*field, "metadata.name" | "metadata.namespace");
        for field in options.fields.fields().filter(beside_metadata) {
            if !served.strategy.is_selectable(field) {
                return Err(ApiError::bad_request(format!("field label not supported: {field}")));
            }
        }
        let parts: Option<Vec<&[Part]>> = options
            .fields
            .fields()
            .filter(beside_metadata)
            .map(|field| served.strategy.selectable_parts(field))
            .collect();
        Ok(Selection {
            parts: parts.map(|parts| parts.concat()),
            name: options.fields.exact("metadata.name").map(str::to_owned),
            namespace: options.fields.exact("metadata.namespace").map(str::to_owned),
            labels: options.labels.clone(),
            fields: options.fields.clone(),
        })
    }

    pub fn is_everything(&self) -> bool {
        self.labels.is_everything() && self.fields.is_everything()
    }

    /// The narrowest key prefix that holds all selected objects.
    pub fn prefix(&self, served: &Served, namespace: &str) -> String {
        let namespace = match (&self.namespace, namespace) {
            (Some(selected), "") if !selected.contains('/') => selected,
            (_, given) => given,
        };
        let known_place = !served.namespaced || !namespace.is_empty();
        match &self.name {
            Some(name) if known_place && !name.contains('/') => served.key(namespace, name),
            _ => served.keys_in(namespace),
        }
    }

    pub fn matches_entry(&self, served: &Served, value: &[u8]) -> Result<bool> {
        if self.is_everything() {
            return Ok(true);
        }
        Ok(self.matches(served, &codec::look(served, value, self.parts.as_deref())?))
    }

    /// As [`Selection::matches_entry`], for a change that many watches are told of.
    pub fn matches_change(&self, served: &Served, value: &Bytes) -> Result<bool> {
        if self.is_everything() {
            return Ok(true);
        }
        Ok(self.matches(served, &*served.looks.look(served, value, self.parts.as_deref())?))
    }

    pub fn matches(&self, served: &Served, object: &Value) -> bool {
        self.labels.matches(object.labels())
            && (self.fields.is_everything() || self.matches_fields(served, object))
    }

    fn matches_fields(&self, served: &Served, object: &Value) -> bool {
        let selectable = served.strategy.selectable(object);
        self.fields.matches(|field| match field {
            "metadata.name" => Some(object.name()),
            "metadata.namespace" => Some(object.namespace()),
            _ => selectable.iter().find(|(name, _)| *name == field).map(|(_, value)| value.as_str()),
        })
    }
}
