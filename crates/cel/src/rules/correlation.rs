//! Which old value belongs to a new one, and whether anything changed there.

use serde_json::Value as Json;

use crate::declaration::{Declaration, ListKind};
use crate::equality::same_json;

/// The old value of the same place, or of the nearest place around it that has one.
#[derive(Debug, Clone, Copy, Default)]
pub struct Correlation<'a> {
    here: Option<(&'a Json, &'a Json)>,
    around: Option<(&'a Json, &'a Json)>,
}

impl<'a> Correlation<'a> {
    pub fn of(new: &'a Json, old: Option<&'a Json>) -> Self {
        Correlation { here: old.map(|old| (new, old)), around: None }
    }

    /// Nothing changed here, so that old faults may stay.
    pub fn is_unchanged(&self) -> bool {
        self.here.or(self.around).is_some_and(|(new, old)| same_json(new, old))
    }

    /// Errors inside `allOf` are judged by what is around.
    pub fn around(&self) -> Self {
        Correlation { here: None, around: self.around }
    }

    pub fn field(&self, name: &str, new: &'a Json) -> Self {
        let Some((_, old)) = self.here else { return *self };
        // The stored object may have been of another version: these two always differ then.
        if self.around.is_none() && matches!(name, "apiVersion" | "kind") {
            return Correlation::default();
        }
        Correlation { here: old.get(name).map(|old| (new, old)), around: self.here }
    }

    pub fn element(&self, new: &'a Json, list: &Declaration) -> Self {
        let Some((_, old)) = self.here else { return *self };
        let matching = old.as_array().and_then(|old| old_element(old, new, list));
        Correlation { here: matching.map(|old| (new, old)), around: self.here }
    }
}

/// The element with the same keys; lists that are not keyed have none.
pub fn old_element<'a>(old: &'a [Json], new: &Json, list: &Declaration) -> Option<&'a Json> {
    let ListKind::Map(keys) = &list.list else { return None };
    old.iter().find(|old| keys.iter().all(|key| old.get(key) == new.get(key)))
}
