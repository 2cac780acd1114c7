//! Fields that a schema does not know, with the field the user probably meant.

use std::fmt;

use crate::trail::Trail;
use crate::{Path, Schema};

/// More than this is not listed: a hostile body must not make a long answer.
const MAX_REPORTED: usize = 100;
/// Longer names are not compared: nobody misspells them, and comparing is quadratic.
const MAX_COMPARED: usize = 64;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnknownField {
    pub path: Path,
    /// The path of the nearest known field, if one is close.
    pub meant: Option<Path>,
}

impl fmt::Display for UnknownField {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "unknown field \"{}\"", self.path)?;
        match &self.meant {
            Some(meant) => write!(f, ", did you mean \"{meant}\"?"),
            None => Ok(()),
        }
    }
}

/// Notes that `schema` has no field `name`.
pub(crate) fn report(found: &mut Vec<UnknownField>, schema: &Schema, parent: &Trail<'_>, name: &str) {
    if found.len() < MAX_REPORTED {
        let parent = parent.path();
        let meant = nearest(name, schema).map(|known| parent.field(known));
        found.push(UnknownField { path: parent.field(name), meant });
    }
}

impl Schema {
    /// Whether an object at this node may hold fields that `fields` does not list.
    pub(crate) fn is_open(&self) -> bool {
        self.preserve_unknown
            || self.ty == crate::Type::Any && self.fields.is_empty() && self.values.is_none()
    }

    /// The fields every embedded object has, whether or not its schema lists them.
    pub(crate) fn is_implied(&self, name: &str) -> bool {
        self.embedded_resource && matches!(name, "apiVersion" | "kind" | "metadata")
    }
}

fn nearest<'a>(name: &str, schema: &'a Schema) -> Option<&'a str> {
    if name.len() > MAX_COMPARED {
        return None;
    }
    let lower = name.to_lowercase();
    let allowed = (name.len() / 3).max(1);
    let distance = |known: &str| strsim::damerau_levenshtein(&lower, &known.to_lowercase());
    let best = schema.fields.keys().map(|known| (distance(known), known)).min_by_key(|(d, _)| *d);
    best.filter(|(distance, _)| *distance <= allowed).map(|(_, known)| known.as_ref())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_the_field_that_was_meant() {
        let fields = ["replicas", "selector", "template", "minReadySeconds", "ports"];
        let schema = Schema {
            fields: fields.iter().map(|&name| (name.into(), Default::default())).collect(),
            ..Schema::default()
        };
        let check = |name: &str, meant: Option<&str>| assert_eq!(nearest(name, &schema), meant, "{name}");
        check("replica", Some("replicas"));
        check("Replicas", Some("replicas"));
        check("port", Some("ports"));
        check("slector", Some("selector"));
        check("minreadyseconds", Some("minReadySeconds"));
        check("volumes", None);
        check("x", None);
        check(&"replicas".repeat(20), None);
    }
}
