//! JSON merge patch, RFC 7386: objects are merged, null deletes, everything else replaces.

use serde_json::{Map, Value};

use crate::{PatchError, depth};

/// Merges `patch` into `doc`. Fails only on a patch nested too deep, and then changes nothing.
pub fn apply(patch: &Value, doc: &mut Value) -> Result<(), PatchError> {
    depth::check(patch)?;
    merge(patch, doc);
    Ok(())
}

fn merge(patch: &Value, doc: &mut Value) {
    let Value::Object(patch) = patch else {
        doc.clone_from(patch);
        return;
    };
    if !doc.is_object() {
        *doc = Value::Object(Map::new());
    }
    let Value::Object(doc) = doc else { return };
    for (name, change) in patch {
        if change.is_null() {
            doc.shift_remove(name);
        } else {
            merge(change, doc.entry(name).or_insert(Value::Null));
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn rfc_7386_examples() {
        let check = |mut doc: Value, patch: Value, expected: Value| {
            apply(&patch, &mut doc).unwrap();
            assert_eq!(doc, expected, "{patch}");
        };
        check(json!({"a": "b"}), json!({"a": "c"}), json!({"a": "c"}));
        check(json!({"a": "b"}), json!({"b": "c"}), json!({"a": "b", "b": "c"}));
        check(json!({"a": "b", "b": "c"}), json!({"a": null}), json!({"b": "c"}));
        check(json!({"a": ["b"]}), json!({"a": "c"}), json!({"a": "c"}));
        check(json!({"a": "c"}), json!({"a": ["b"]}), json!({"a": ["b"]}));
        check(json!({"a": {"b": "c"}}), json!({"a": {"b": "d", "c": null}}), json!({"a": {"b": "d"}}));
        check(json!({"a": [{"b": "c"}]}), json!({"a": [1]}), json!({"a": [1]}));
        check(json!(["a"]), json!(["c"]), json!(["c"]));
        check(json!({"a": "foo"}), json!(null), json!(null));
        check(json!({"e": null}), json!({"a": 1}), json!({"e": null, "a": 1}));
        check(json!([1, 2]), json!({"a": "b", "c": null}), json!({"a": "b"}));
        check(json!({}), json!({"a": {"bb": {"ccc": null}}}), json!({"a": {"bb": {}}}));
    }

    #[test]
    fn order_of_the_other_fields_stays() {
        let mut doc = json!({"z": 1, "a": 2, "m": 3});
        apply(&json!({"a": null, "b": 4}), &mut doc).unwrap();
        assert_eq!(doc.to_string(), r#"{"z":1,"m":3,"b":4}"#);
    }

    #[test]
    fn a_patch_nested_too_deep_is_refused() {
        let mut patch = json!(1);
        for _ in 0..500 {
            patch = json!({"a": patch});
        }
        let mut doc = json!({"b": 1});
        assert_eq!(apply(&patch, &mut doc), Err(PatchError::TooDeep));
        assert_eq!(doc, json!({"b": 1}));
    }
}
