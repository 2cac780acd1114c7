//! Fields that nobody owns: identity and what the server writes by itself.

use std::borrow::Cow;

use serde_json::Value;

use super::{Manager, Resets};
use crate::fieldset::{FieldSet, PathElement};

const UNTRACKED_METADATA: [&str; 11] = [
    "clusterName",
    "creationTimestamp",
    "deletionGracePeriodSeconds",
    "deletionTimestamp",
    "generation",
    "managedFields",
    "name",
    "namespace",
    "resourceVersion",
    "selfLink",
    "uid",
];

/// Takes the untracked fields out of a set.
pub(crate) fn strip_untracked(set: &mut FieldSet) {
    set.retain(|node| match &node.element {
        PathElement::Field(name) if matches!(&**name, "apiVersion" | "kind") => false,
        PathElement::Field(name) if &**name == "metadata" => {
            node.member = false;
            node.children.retain(|child| match &child.element {
                PathElement::Field(name) => !UNTRACKED_METADATA.contains(&&**name),
                _ => true,
            });
            true
        }
        _ => true,
    });
}

impl Manager {
    /// Takes out of a set what this manager's door does not write.
    pub(crate) fn strip_resets(&self, set: &mut FieldSet) {
        if self.resets != Resets::Nothing {
            set.retain(|node| match &node.element {
                PathElement::Field(name) => !self.resets.covers(name),
                _ => true,
            });
        }
    }

    /// A configuration without what this manager's door does not write.
    pub(crate) fn writable<'a>(&self, applied: &'a Value) -> Cow<'a, Value> {
        match applied {
            Value::Object(fields) if fields.keys().any(|name| self.resets.covers(name)) => {
                let kept = fields.iter().filter(|(name, _)| !self.resets.covers(name));
                Cow::Owned(kept.map(|(name, value)| (name.clone(), value.clone())).collect())
            }
            _ => Cow::Borrowed(applied),
        }
    }
}

impl Resets {
    fn covers(self, name: &str) -> bool {
        match self {
            Resets::Nothing => false,
            Resets::Status => name == "status",
            Resets::AllButStatus => !matches!(name, "status" | "metadata" | "apiVersion" | "kind"),
        }
    }
}
