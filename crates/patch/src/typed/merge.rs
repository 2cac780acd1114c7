//! Merging an applied configuration into the live object.

use std::collections::BTreeMap;

use minik8s_schema::Schema;
use serde_json::Value;

use super::keys::identify;
use super::{Shape, child, items, shape};
use crate::fieldset::PathElement;

/// Merges `applied` into `live`. Where they cannot be merged, `applied` wins; only a null leaves a map or
/// a list with identities as it is.
pub(crate) fn merge(schema: Option<&Schema>, live: &mut Value, applied: &Value, depth: usize) {
    match (shape(schema, live, depth), shape(schema, applied, depth)) {
        (Shape::Map(_), Shape::Map(changes)) => {
            let Value::Object(fields) = live else { return };
            for (name, change) in changes {
                match fields.get_mut(name) {
                    Some(field) => merge(child(schema, name).0, field, change, depth + 1),
                    None => drop(fields.insert(name.clone(), change.clone())),
                }
            }
        }
        (Shape::List(_), Shape::List(changes)) => {
            let Value::Array(list) = live else { return };
            if !merge_lists(schema, list, changes, depth) {
                *live = applied.clone();
            }
        }
        (Shape::Map(_) | Shape::List(_), Shape::Leaf) if applied.is_null() => {}
        _ => live.clone_from(applied),
    }
}

/// Merges element by element. The order: elements of the configuration come in its order; elements that
/// only the live list has stay before the shared element they stood before. `false` when an element has
/// no identity.
fn merge_lists(schema: Option<&Schema>, live: &mut Vec<Value>, applied: &[Value], depth: usize) -> bool {
    let identities = |list: &[Value]| -> Option<Vec<PathElement>> {
        list.iter().map(|item| identify(schema, item).ok()).collect()
    };
    let (Some(live_ids), Some(applied_ids)) = (identities(live), identities(applied)) else { return false };

    let applied_at: BTreeMap<&PathElement, usize> = applied_ids.iter().zip(0..).collect();
    let mut live_at: BTreeMap<&PathElement, Vec<usize>> = BTreeMap::new();
    for (place, id) in live_ids.iter().enumerate() {
        live_at.entry(id).or_default().push(place);
    }
    let next_shared = next_shared(&applied_ids, &live_at);

    let mut old: Vec<Option<Value>> = std::mem::take(live).into_iter().map(Some).collect();
    let mut at = 0;
    for (index, change) in applied.iter().enumerate() {
        // Up to the shared element that comes next, what only the live list has goes first.
        while at < old.len() {
            match applied_at.get(&live_ids[at]) {
                None => live.extend(old[at].take()),
                Some(place) if next_shared[index] == Some(*place) => break,
                Some(_) => {}
            }
            at += 1;
        }
        // Live elements that share an identity are not merged but replaced.
        let before = match live_at.get(&applied_ids[index]).map(Vec::as_slice) {
            Some([place]) => old[*place].take(),
            _ => None,
        };
        live.push(match before {
            Some(mut item) => {
                merge(items(schema), &mut item, change, depth + 1);
                item
            }
            None => change.clone(),
        });
    }
    let only_live = (at..old.len()).filter(|place| !applied_at.contains_key(&live_ids[*place]));
    for place in only_live {
        live.extend(old[place].take());
    }
    true
}

/// For each applied element, the place of the first one from there on that the live list has too.
fn next_shared(applied: &[PathElement], live_at: &BTreeMap<&PathElement, Vec<usize>>) -> Vec<Option<usize>> {
    let mut next = vec![None; applied.len()];
    let mut found = None;
    for (place, id) in applied.iter().enumerate().rev() {
        if live_at.contains_key(id) {
            found = Some(place);
        }
        next[place] = found;
    }
    next
}
