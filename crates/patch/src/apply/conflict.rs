//! Conflicts, in the words that kubectl's users know.

use std::fmt;

use crate::fieldset::{FieldPath, FieldSet};
use crate::managed::{Entries, Operation};
use crate::typed::Comparison;

/// Someone else owns a field that the configuration sets to another value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Conflict {
    pub manager: String,
    pub operation: Operation,
    pub api_version: String,
    pub subresource: Option<String>,
    pub path: FieldPath,
}

/// At least one conflict, grouped by manager.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub struct Conflicts(Vec<Conflict>);

impl Conflict {
    /// The message of the Status cause; its reason is `FieldManagerConflict`, its field [`Self::path`].
    pub fn message(&self) -> String {
        format!("conflict with {}", self.owner())
    }

    fn owner(&self) -> String {
        let mut text = format!("{:?}", self.manager);
        if let Some(subresource) = &self.subresource {
            text.push_str(&format!(" with subresource {subresource:?}"));
        }
        if self.operation == Operation::Update {
            text.push_str(&format!(" using {}", self.api_version));
        }
        text
    }
}

impl Conflicts {
    /// Who owns any of the changed or replaced fields.
    pub(super) fn find(others: &Entries, change: &Comparison) -> Option<Conflicts> {
        let overruled = change.changed.union(&change.replaced);
        let mut found: Vec<Conflict> = Vec::new();
        let mut entries: Vec<_> = others.0.iter().collect();
        entries
            .sort_by_key(|entry| (&entry.manager, entry.operation, &entry.api_version, &entry.subresource));
        for entry in entries {
            for path in entry.fields.intersection(&overruled).paths() {
                found.push(Conflict {
                    manager: entry.manager.clone(),
                    operation: entry.operation,
                    api_version: entry.api_version.clone(),
                    subresource: entry.subresource.clone(),
                    path,
                });
            }
        }
        (!found.is_empty()).then_some(Conflicts(found))
    }

    pub fn iter(&self) -> std::slice::Iter<'_, Conflict> {
        self.0.iter()
    }

    /// The conflicts about other fields, if any.
    pub(super) fn without(&self, allowed: &FieldSet) -> Option<Conflicts> {
        let rest: Vec<Conflict> =
            self.0.iter().filter(|conflict| !allowed.contains(&conflict.path)).cloned().collect();
        (!rest.is_empty()).then_some(Conflicts(rest))
    }
}

impl fmt::Display for Conflicts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let [only] = &self.0[..] {
            return write!(f, "Apply failed with 1 conflict: {}: {}", only.message(), only.path);
        }
        write!(f, "Apply failed with {} conflicts: ", self.0.len())?;
        for (index, group) in self.0.chunk_by(|a, b| a.owner() == b.owner()).enumerate() {
            let line = if index > 0 { "\n" } else { "" };
            write!(f, "{line}conflicts with {}:", group[0].owner())?;
            group.iter().try_for_each(|conflict| write!(f, "\n- {}", conflict.path))?;
        }
        Ok(())
    }
}
