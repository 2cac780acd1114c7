//! Which resources a patch or a replacement is about.

use minik8s_meta::LabelSelector;
use regex::Regex;

use super::file::Selector;
use super::resource::Resource;
use crate::error::{Error, Result};

/// A selector whose words are ready to be compared.
pub struct Chosen {
    group: Regex,
    version: Regex,
    kind: Regex,
    name: Regex,
    namespace: Regex,
    labels: Option<LabelSelector>,
    annotations: Option<LabelSelector>,
}

impl Chosen {
    /// Words are regular expressions that match the whole; empty ones match all.
    pub fn by(selector: &Selector) -> Result<Chosen> {
        let whole = |text: &str| {
            let text = if text.is_empty() { ".*" } else { text };
            Regex::new(&format!("^(?:{text})$"))
                .map_err(|error| Error::plain(format!("target: {text:?} is no regular expression: {error}")))
        };
        let labels = |text: &str| match text {
            "" => Ok(None),
            text => LabelSelector::parse(text).map(Some).map_err(|error| Error::plain(error.to_string())),
        };
        Ok(Chosen {
            group: whole(&selector.group)?,
            version: whole(&selector.version)?,
            kind: whole(&selector.kind)?,
            name: whole(&selector.name)?,
            namespace: whole(&selector.namespace)?,
            labels: labels(&selector.label_selector)?,
            annotations: labels(&selector.annotation_selector)?,
        })
    }

    pub fn fits(&self, resource: &Resource) -> bool {
        let named = |name: &String| self.name.is_match(name);
        let meta = &resource.object["metadata"];
        let fits = |selector: &Option<LabelSelector>, field: &str| {
            selector.as_ref().is_none_or(|selector| selector.matches(meta[field].as_object()))
        };
        self.group.is_match(resource.group())
            && self.version.is_match(resource.version())
            && self.kind.is_match(resource.kind())
            && (self.name.is_match(resource.name()) || resource.former.iter().any(named))
            && self.namespace.is_match(resource.namespace())
            && fits(&self.labels, "labels")
            && fits(&self.annotations, "annotations")
    }
}
