//! The identity of list elements.

use minik8s_schema::{ListType, Schema};
use serde_json::Value;

use super::{Shape, child, items, shape};
use crate::fieldset::{FieldPath, PathElement};

/// A list element with what tells it apart.
pub(super) struct Item<'v> {
    pub element: PathElement,
    pub value: &'v Value,
}

/// The elements sorted by identity, or why one has none.
pub(super) fn sorted_items<'v>(schema: Option<&Schema>, list: &'v [Value]) -> Result<Vec<Item<'v>>, String> {
    let mut all = Vec::with_capacity(list.len());
    for value in list {
        all.push(Item { element: identify(schema, value)?, value });
    }
    all.sort_by(|a, b| a.element.cmp(&b.element));
    Ok(all)
}

/// The identity of one element. A key that is missing counts with its default; upstream lets the others
/// stand for keys that have none.
pub(super) fn identify(schema: Option<&Schema>, item: &Value) -> Result<PathElement, String> {
    let Some(ListType::Map(keys)) = schema.map(|schema| &schema.list) else {
        return match item {
            Value::Object(_) | Value::Array(_) | Value::Null => {
                Err("associative list without keys has an element that is no scalar".to_owned())
            }
            scalar => Ok(PathElement::Value(scalar.clone())),
        };
    };
    let Value::Object(fields) = item else {
        return Err("associative list with keys may not have non-map elements".to_owned());
    };
    let element = items(schema);
    let mut found: Vec<(Box<str>, Value)> = Vec::with_capacity(keys.len());
    for key in keys {
        let default = || child(element, key).0.and_then(|field| field.default.as_ref());
        if let Some(value) = fields.get(&**key).or_else(default) {
            found.push((key.clone(), value.clone()));
        }
    }
    if found.is_empty() {
        let keys: Vec<String> = keys.iter().map(|key| format!("{key:?}")).collect();
        return Err(format!(
            "associative list with keys has an element that omits all key fields [{}] (and doesn't have default values for any key fields)",
            keys.join(" ")
        ));
    }
    found.sort_by(|(a, _), (b, _)| a.cmp(b));
    Ok(PathElement::Key(found))
}

/// Refuses lists whose elements have no identity or share one, and says where.
pub(crate) fn check(schema: &Schema, value: &Value) -> Result<(), (FieldPath, String)> {
    let mut path = Vec::new();
    check_value(Some(schema), value, &mut path).map_err(|reason| (FieldPath(path), reason))
}

/// On error `path` stays at the place of the problem.
fn check_value(schema: Option<&Schema>, value: &Value, path: &mut Vec<PathElement>) -> Result<(), String> {
    match shape(schema, value, path.len()) {
        Shape::Leaf => Ok(()),
        Shape::Map(fields) => fields.iter().try_for_each(|(name, value)| {
            if value.is_object() || value.is_array() {
                path.push(PathElement::field(name));
                check_value(child(schema, name).0, value, path)?;
                path.pop();
            }
            Ok(())
        }),
        Shape::List(list) => {
            for (index, item) in list.iter().enumerate() {
                identify(schema, item).map_err(|reason| format!("element {index}: {reason}"))?;
            }
            let sorted = sorted_items(schema, list)?;
            for pair in sorted.windows(2) {
                if pair[0].element == pair[1].element {
                    return Err(format!("duplicate entries for key {}", pair[0].element));
                }
            }
            sorted.into_iter().try_for_each(|item| {
                path.push(item.element);
                check_value(items(schema), item.value, path)?;
                path.pop();
                Ok(())
            })
        }
    }
}
