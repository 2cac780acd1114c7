//! What changed between two objects.

use minik8s_schema::Schema;
use serde_json::{Map, Value};

use super::fields::is_field;
use super::keys::{Item, sorted_items};
use super::{Containers, Shape, child, fields_of, items, shape};
use crate::fieldset::{FieldSet, PathElement};
use crate::number::same;

/// The fields that differ.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Comparison {
    /// Fields that are new or have another value.
    pub changed: FieldSet,
    /// Fields that are gone.
    pub removed: FieldSet,
    /// Fields that are gone because something of another type stands where they were. To write that
    /// is to overrule their owners; to remove a field is not.
    pub replaced: FieldSet,
}

impl Comparison {
    pub fn is_empty(&self) -> bool {
        self.sets().into_iter().all(FieldSet::is_empty)
    }

    /// The field of the object that all of it is in, if it is one.
    pub fn root(&self) -> Option<&str> {
        let mut roots = self.sets().into_iter().flat_map(FieldSet::roots);
        let first = roots.next()?;
        match first {
            PathElement::Field(name) if roots.all(|other| other == first) => Some(name),
            _ => None,
        }
    }

    pub fn sets(&self) -> [&FieldSet; 3] {
        [&self.changed, &self.removed, &self.replaced]
    }

    pub fn sets_mut(&mut self) -> [&mut FieldSet; 3] {
        [&mut self.changed, &mut self.removed, &mut self.replaced]
    }

    /// Adds what changed inside of an element, and whether the element itself did.
    fn push(&mut self, element: &PathElement, inside: Comparison, changed: bool) {
        self.changed.push(element, changed, inside.changed);
        self.removed.push(element, false, inside.removed);
        self.replaced.push(element, false, inside.replaced);
    }
}

/// Compares two whole objects.
pub(crate) fn compare(schema: &Schema, old: &Value, new: &Value) -> Comparison {
    compare_values(Some(schema), old, new, 0).0
}

/// The changes inside, and whether the value itself changed.
fn compare_values(schema: Option<&Schema>, old: &Value, new: &Value, depth: usize) -> (Comparison, bool) {
    match (shape(schema, old, depth), shape(schema, new, depth)) {
        (Shape::Leaf, Shape::Leaf) => (Comparison::default(), !same(old, new)),
        (Shape::Map(old), Shape::Map(new)) => (compare_maps(schema, old, new, depth + 1), false),
        (Shape::List(a), Shape::List(b)) => {
            if a == b {
                return (Comparison::default(), false);
            }
            match (sorted_items(schema, a), sorted_items(schema, b)) {
                (Ok(a), Ok(b)) => (compare_items(items(schema), &a, &b, depth + 1), false),
                _ => (Comparison::default(), true),
            }
        }
        _ => {
            let changed = fields_of(schema, new, Containers::Listed, depth);
            let replaced = fields_of(schema, old, Containers::Listed, depth);
            (Comparison { changed, replaced, ..Comparison::default() }, true)
        }
    }
}

fn compare_maps(
    schema: Option<&Schema>,
    old: &Map<String, Value>,
    new: &Map<String, Value>,
    depth: usize,
) -> Comparison {
    let mut found = Comparison::default();
    for (name, before) in old {
        let field = child(schema, name).0;
        match new.get(name) {
            Some(after) => {
                let (inside, changed) = compare_values(field, before, after, depth);
                if changed || !inside.is_empty() {
                    found.push(&PathElement::field(name), inside, changed);
                }
            }
            None => {
                let below = fields_of(field, before, Containers::Listed, depth);
                found.removed.push_owned(PathElement::field(name), true, below);
            }
        }
    }
    for (name, after) in new {
        if !old.contains_key(name) {
            let (field, named) = child(schema, name);
            let below = fields_of(field, after, Containers::Listed, depth);
            let member = is_field(field, after, &below, named, Containers::Listed);
            found.changed.push_owned(PathElement::field(name), member, below);
        }
    }
    found.sets_mut().into_iter().for_each(FieldSet::sort);
    found
}

/// Compares two sorted lists, identity by identity.
fn compare_items(schema: Option<&Schema>, old: &[Item<'_>], new: &[Item<'_>], depth: usize) -> Comparison {
    let mut found = Comparison::default();
    let (mut i, mut j) = (0, 0);
    while i < old.len() || j < new.len() {
        let element = match (old.get(i), new.get(j)) {
            (Some(a), Some(b)) => (&a.element).min(&b.element),
            (Some(a), None) => &a.element,
            (None, Some(b)) => &b.element,
            (None, None) => break,
        };
        let before = run(&old[i..], element);
        let after = run(&new[j..], element);
        i += before.len();
        j += after.len();
        let fields = |item: &Item<'_>| fields_of(schema, item.value, Containers::Listed, depth);
        match (before, after) {
            ([before], [after]) => {
                let (inside, changed) = compare_values(schema, before.value, after.value, depth);
                found.push(element, inside, changed);
            }
            ([], [after]) => found.changed.push(element, true, fields(after)),
            ([before], []) => found.removed.push(element, true, fields(before)),
            // Elements that share an identity are compared and owned together.
            (before, after) if all_same(before, after) => {}
            (before, after) => {
                if let [before] = before {
                    found.removed.push(element, true, fields(before));
                } else if after.is_empty() {
                    found.removed.push(element, true, FieldSet::default());
                }
                match after {
                    [] => {}
                    [after] => found.changed.push(element, true, fields(after)),
                    _ => found.changed.push(element, true, FieldSet::default()),
                }
            }
        }
    }
    found
}

/// The elements at the start that have this identity.
fn run<'a, 'v>(list: &'a [Item<'v>], element: &PathElement) -> &'a [Item<'v>] {
    let end = list.iter().position(|item| item.element != *element).unwrap_or(list.len());
    &list[..end]
}

fn all_same(a: &[Item<'_>], b: &[Item<'_>]) -> bool {
    a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same(a.value, b.value))
}
