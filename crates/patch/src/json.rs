//! JSON patch, RFC 6902.
//!
//! A hostile patch cannot make the server spin or its memory explode:
//! the number of operations, the depth of the result, the bytes that `copy` adds and the elements that
//! inserting and removing shift are bounded. Like the apiserver's library, and unlike the RFC, `test`
//! accepts a missing field where it expects null, and `replace` makes a field that is missing.

use serde_json::{Map, Value};

use crate::pointer::{self, Pointer};
use crate::{PatchError, depth, number};

pub(crate) const MAX_OPERATIONS: usize = 10_000;
/// What `copy` may add in all: as much as a request body may hold.
const MAX_COPIED_BYTES: usize = 3 << 20;
/// Values visited and array elements shifted, in all. Real patches need some thousands.
const MAX_WORK: usize = 100_000_000;

/// Applies the operations in order. An error leaves `doc` half patched: give it a copy.
pub fn apply(patch: &Value, doc: &mut Value) -> Result<(), PatchError> {
    let Value::Array(operations) = patch else {
        return Err(PatchError::Malformed("a JSON patch must be an array of operations".to_owned()));
    };
    if operations.len() > MAX_OPERATIONS {
        return Err(PatchError::TooManyOperations(operations.len()));
    }
    let mut patched = Patched { doc, copied: 0, work: 0 };
    for (index, operation) in operations.iter().enumerate() {
        let Value::Object(operation) = operation else {
            return Err(PatchError::Malformed(format!("operation {index} must be an object")));
        };
        patched.carry_out(operation).map_err(|reason| PatchError::Operation {
            index,
            op: text(operation, "op").unwrap_or_default().to_owned(),
            path: text(operation, "path").unwrap_or_default().to_owned(),
            reason,
        })?;
    }
    Ok(())
}

/// A document under work, and what the work has cost.
struct Patched<'d> {
    doc: &'d mut Value,
    copied: usize,
    work: usize,
}

impl Patched<'_> {
    fn carry_out(&mut self, operation: &Map<String, Value>) -> Result<(), String> {
        let path = Pointer::parse(text(operation, "path")?)?;
        let value = || operation.get("value").ok_or("\"value\" is missing");
        match text(operation, "op")? {
            "add" => self.add(&path, value()?.clone()),
            "remove" => self.remove(&path).map(drop),
            "replace" => self.replace(&path, value()?.clone()),
            "test" => self.test(&path, value()?),
            "copy" => {
                let from = Pointer::parse(text(operation, "from")?)?;
                let value = from.find(self.doc)?.clone();
                self.copied += size(&value);
                if self.copied > MAX_COPIED_BYTES {
                    return Err(format!("the patch copies more than {MAX_COPIED_BYTES} bytes"));
                }
                self.add(&path, value)
            }
            "move" => {
                let from = Pointer::parse(text(operation, "from")?)?;
                if path == from {
                    return from.find(self.doc).map(drop);
                }
                if path.starts_with(&from) {
                    return Err("a value cannot be moved into itself".to_owned());
                }
                let value = self.remove(&from)?;
                self.add(&path, value)
            }
            other => {
                Err(format!("unknown operation {other:?}: expected add, remove, replace, move, copy or test"))
            }
        }
    }

    fn add(&mut self, path: &Pointer<'_>, value: Value) -> Result<(), String> {
        self.admit(path, &value)?;
        let Some((way, last)) = path.split_last() else {
            *self.doc = value;
            return Ok(());
        };
        match pointer::find_mut(self.doc, way)? {
            Value::Object(fields) => {
                fields.insert(last.to_owned(), value);
            }
            Value::Array(items) => {
                let count = items.len();
                let index = if last == "-" { count } else { pointer::parse_index(last)? };
                if index > count {
                    return Err(pointer::outside(index, count));
                }
                spend(&mut self.work, count - index)?;
                items.insert(index, value);
            }
            _ => return Err("the parent is no object or array".to_owned()),
        }
        Ok(())
    }

    fn remove(&mut self, path: &Pointer<'_>) -> Result<Value, String> {
        let Some((way, last)) = path.split_last() else {
            return Err("the whole document cannot be removed".to_owned());
        };
        match pointer::find_mut(self.doc, way)? {
            Value::Object(fields) => {
                spend(&mut self.work, fields.len())?;
                fields.shift_remove(last).ok_or_else(|| pointer::missing(last))
            }
            Value::Array(items) => {
                let (index, count) = (pointer::parse_index(last)?, items.len());
                if index >= count {
                    return Err(pointer::outside(index, count));
                }
                spend(&mut self.work, count - index)?;
                Ok(items.remove(index))
            }
            _ => Err("the parent is no object or array".to_owned()),
        }
    }

    fn replace(&mut self, path: &Pointer<'_>, value: Value) -> Result<(), String> {
        if self.is_field(path) {
            return self.add(path, value);
        }
        path.find(self.doc)?;
        self.admit(path, &value)?;
        let way: &[_] = path.split_last().map_or(&[], |(way, _)| way);
        let parent = pointer::find_mut(self.doc, way)?;
        let target = match (path.split_last(), parent) {
            (None, doc) => Some(doc),
            (Some((_, last)), Value::Array(items)) => items.get_mut(pointer::parse_index(last)?),
            _ => None,
        };
        *target.ok_or("the value to replace is missing")? = value;
        Ok(())
    }

    fn test(&self, path: &Pointer<'_>, expected: &Value) -> Result<(), String> {
        let found = match path.find(self.doc) {
            Ok(found) => found,
            Err(_) if expected.is_null() && self.is_field(path) => return Ok(()),
            Err(reason) => return Err(reason),
        };
        if number::same(found, expected) { Ok(()) } else { Err("testing value failed".to_owned()) }
    }

    /// Whether the path leads to a field of an object that is there; the field need not be.
    fn is_field(&self, path: &Pointer<'_>) -> bool {
        path.parent().is_some_and(|parent| parent.find(self.doc).is_ok_and(Value::is_object))
    }

    /// Checks that a value put at `path` keeps the document within its bounds.
    fn admit(&mut self, path: &Pointer<'_>, value: &Value) -> Result<(), String> {
        let (values, levels) = measure(value, depth::MAX);
        spend(&mut self.work, values)?;
        if path.len() + levels > depth::MAX {
            return Err(format!("the result would be nested more than {} levels deep", depth::MAX));
        }
        Ok(())
    }
}

fn spend(work: &mut usize, amount: usize) -> Result<(), String> {
    *work = work.saturating_add(amount);
    if *work > MAX_WORK { Err("the patch asks for too much work".to_owned()) } else { Ok(()) }
}

fn text<'a>(operation: &'a Map<String, Value>, name: &str) -> Result<&'a str, String> {
    match operation.get(name) {
        Some(Value::String(text)) => Ok(text),
        Some(_) => Err(format!("{name:?} must be a string")),
        None => Err(format!("{name:?} is missing")),
    }
}

/// How many values there are inside, and how deep they nest (counted up to one level past `max`).
fn measure(value: &Value, max: usize) -> (usize, usize) {
    let inside: &mut dyn Iterator<Item = &Value> = match value {
        Value::Array(items) => &mut items.iter(),
        Value::Object(fields) => &mut fields.values(),
        _ => return (1, 0),
    };
    if max == 0 {
        return (1, 1);
    }
    inside
        .map(|value| measure(value, max - 1))
        .fold((1, 1), |(count, depth), (more, below)| (count + more, depth.max(below + 1)))
}

/// Roughly the bytes of the JSON text.
fn size(value: &Value) -> usize {
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => 5,
        Value::String(text) => text.len() + 2,
        Value::Array(items) => 2 + items.iter().map(|item| 1 + size(item)).sum::<usize>(),
        Value::Object(fields) => {
            2 + fields.iter().map(|(name, field)| name.len() + 4 + size(field)).sum::<usize>()
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    #[track_caller]
    fn check(doc: Value, patch: Value, expected: Value) {
        let mut patched = doc;
        apply(&patch, &mut patched).unwrap();
        assert_eq!(patched, expected);
    }

    #[track_caller]
    fn refuse(doc: Value, patch: Value, message: &str) {
        let mut patched = doc;
        let error = apply(&patch, &mut patched).unwrap_err().to_string();
        assert!(error.contains(message), "{error}");
    }

    #[test]
    fn operations() {
        let doc = json!({"a": {"b": 1}, "l": [1, 2]});
        check(doc.clone(), json!([]), doc.clone());
        check(json!({}), json!([{"op": "add", "path": "/x", "value": null}]), json!({"x": null}));
        check(json!({"x": 1}), json!([{"op": "add", "path": "/x", "value": 2}]), json!({"x": 2}));
        check(json!([1, 3]), json!([{"op": "add", "path": "/1", "value": 2}]), json!([1, 2, 3]));
        check(json!([1]), json!([{"op": "add", "path": "/1", "value": 2}]), json!([1, 2]));
        check(json!([1]), json!([{"op": "add", "path": "/-", "value": [2]}]), json!([1, [2]]));
        check(json!({}), json!([{"op": "add", "path": "", "value": [1]}]), json!([1]));
        check(doc.clone(), json!([{"op": "remove", "path": "/a/b"}]), json!({"a": {}, "l": [1, 2]}));
        check(doc.clone(), json!([{"op": "remove", "path": "/l/0"}]), json!({"a": {"b": 1}, "l": [2]}));
        check(
            doc.clone(),
            json!([{"op": "replace", "path": "/l/1", "value": 9}]),
            json!({"a": {"b": 1}, "l": [1, 9]}),
        );
        check(doc.clone(), json!([{"op": "replace", "path": "", "value": 9}]), json!(9));
        check(
            doc.clone(),
            json!([{"op": "move", "from": "/l/0", "path": "/a/c"}]),
            json!({"a": {"b": 1, "c": 1}, "l": [2]}),
        );
        check(json!([1, 2, 3]), json!([{"op": "move", "from": "/0", "path": "/2"}]), json!([2, 3, 1]));
        check(doc.clone(), json!([{"op": "move", "from": "/a", "path": "/a"}]), doc.clone());
        check(
            doc.clone(),
            json!([{"op": "copy", "from": "/a", "path": "/a/c"}]),
            json!({"a": {"b": 1, "c": {"b": 1}}, "l": [1, 2]}),
        );
        check(doc.clone(), json!([{"op": "test", "path": "/l", "value": [1.0, 2]}]), doc.clone());
        check(doc.clone(), json!([{"op": "test", "path": "/none", "value": null}]), doc.clone());
        check(
            json!({"a": {}}),
            json!([{"op": "replace", "path": "/a/b", "value": 1}]),
            json!({"a": {"b": 1}}),
        );
        check(doc.clone(), json!([{"op": "test", "path": "", "value": doc}]), doc);
        check(
            json!({"a/b": 1}),
            json!([{"op": "remove", "path": "/a~1b", "note": "unknown members are ignored"}]),
            json!({}),
        );
    }

    #[test]
    fn refusals_name_the_operation() {
        let doc = json!({"a": {"b": 1}, "l": [1]});
        let one = |operation: Value| json!([{"op": "test", "path": "/a/b", "value": 1}, operation]);
        for (operation, message) in [
            (
                json!({"op": "remove", "path": "/a/x"}),
                "operation 1 (remove \"/a/x\"): there is no field \"x\"",
            ),
            (json!({"op": "remove", "path": "/l/1"}), "index 1 is outside"),
            (json!({"op": "remove", "path": ""}), "whole document"),
            (json!({"op": "replace", "path": "/x/y", "value": 1}), "there is no field \"x\""),
            (json!({"op": "add", "path": "/x/y", "value": 1}), "there is no field \"x\""),
            (json!({"op": "add", "path": "/l/3", "value": 1}), "index 3 is outside"),
            (json!({"op": "add", "path": "/l/18446744073709551616", "value": 1}), "too large"),
            (json!({"op": "add", "path": "/a/b/c", "value": 1}), "no object or array"),
            (json!({"op": "add", "path": "/x"}), "\"value\" is missing"),
            (json!({"op": "add", "value": 1}), "\"path\" is missing"),
            (json!({"op": 1, "path": "/x"}), "\"op\" must be a string"),
            (json!({"op": "merge", "path": "/x"}), "unknown operation \"merge\""),
            (json!({"op": "test", "path": "/a/b", "value": 2}), "testing value failed"),
            (json!({"op": "test", "path": "/l/7", "value": null}), "index 7 is outside"),
            (json!({"op": "copy", "from": "/x", "path": "/y"}), "there is no field \"x\""),
            (json!({"op": "move", "from": "/a", "path": "/a/b"}), "into itself"),
        ] {
            refuse(doc.clone(), one(operation), message);
        }
        refuse(doc.clone(), json!({"op": "add"}), "must be an array");
        refuse(doc, json!([1]), "operation 0 must be an object");
    }

    #[test]
    fn hostile_patches_are_bounded() {
        let many = vec![json!({"op": "add", "path": "/x", "value": 1}); MAX_OPERATIONS + 1];
        refuse(json!({}), Value::Array(many), "got 10001");
        let doubling = vec![json!({"op": "copy", "from": "/a", "path": "/a/-"}); 100];
        refuse(json!({"a": ["0123456789"]}), Value::Array(doubling), "copies more than");
        let nesting: Vec<Value> =
            (1..300).map(|n| json!({"op": "add", "path": "/a".repeat(n), "value": {}})).collect();
        refuse(json!({}), Value::Array(nesting), "nested more than 128");
        let shifting = vec![json!({"op": "add", "path": "/0", "value": 1}); MAX_OPERATIONS];
        refuse(Value::Array(vec![Value::Null; 100_000]), Value::Array(shifting), "too much work");
    }

    fn operations_on_small_documents() -> impl Strategy<Value = Value> {
        let paths =
            prop::sample::select(vec!["", "/a", "/a/b", "/l", "/l/0", "/l/1", "/l/-", "/a/b/c", "x", "/~3"]);
        let ops = prop::sample::select(vec!["add", "remove", "replace", "move", "copy", "test", "?"]);
        (ops, paths.clone(), paths, prop_oneof![Just(json!(1)), Just(json!({"b": [1]})), Just(json!([]))])
            .prop_map(|(op, path, from, value)| json!({"op": op, "path": path, "from": from, "value": value}))
    }

    proptest! {
        #[test]
        fn no_patch_panics(operations in prop::collection::vec(operations_on_small_documents(), 0..12)) {
            let mut doc = json!({"a": {"b": 1}, "l": [1, 2]});
            let _ = apply(&Value::Array(operations), &mut doc);
            prop_assert!(crate::depth::check(&doc).is_ok());
        }
    }
}
