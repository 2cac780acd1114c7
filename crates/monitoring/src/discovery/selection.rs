//! Which objects a page is asked for: `?namespace=a&namespace=b&labelSelector=app%3Dweb`.

use minik8s_meta::LabelSelector;
use serde_json::{Map, Value};

use super::objects::namespace_of;

/// All of them, unless something is said.
#[derive(Debug, Default)]
pub struct Selection {
    namespaces: Vec<String>,
    labels: LabelSelector,
}

impl Selection {
    /// A word that means nothing is refused: to pass over it would be to tell more than was asked for.
    pub fn parse(query: &str) -> Result<Self, String> {
        let mut selection = Selection::default();
        for (name, value) in form_urlencoded::parse(query.as_bytes()) {
            match &*name {
                "namespace" => selection.namespaces.push(value.into_owned()),
                "labelSelector" => {
                    selection.labels =
                        LabelSelector::parse(&value).map_err(|error| format!("labelSelector: {error}"))?;
                }
                other => return Err(format!("{other}: use namespace or labelSelector")),
            }
        }
        Ok(selection)
    }

    pub fn takes(&self, object: &Value) -> bool {
        self.takes_namespace(namespace_of(object))
            && self.takes_labels(object["metadata"]["labels"].as_object())
    }

    pub fn takes_namespace(&self, namespace: &str) -> bool {
        self.namespaces.is_empty() || self.namespaces.iter().any(|one| one == namespace)
    }

    pub fn takes_labels(&self, labels: Option<&Map<String, Value>>) -> bool {
        self.labels.is_everything() || self.labels.matches(labels)
    }
}
