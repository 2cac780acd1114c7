use serde_json::{Value, json};

use crate::PatchError;
use crate::sample::{anything, keyed, map, object, set, string};

use super::*;

/// `items` merge by `name` and hold `items` of their own; `tags` is a set, `plain` a replaced list.
fn schema() -> Schema {
    let inner = object([("name", string()), ("value", string())]);
    let item = object([
        ("name", string()),
        ("value", string()),
        ("more", map(string())),
        ("items", keyed(inner, &["name"])),
    ]);
    object([
        ("items", keyed(item, &["name"])),
        ("tags", set(string())),
        ("plain", crate::sample::atomic_list(string())),
        ("one", object([("a", string()), ("b", anything()), ("tags", set(string()))])),
        ("labels", map(string())),
        ("selector", replaced(map(string()))),
    ])
}

/// An object with `patchStrategy: replace`.
fn replaced(mut schema: Schema) -> Schema {
    schema.merge.replace = true;
    schema
}

#[track_caller]
fn check(doc: Value, patch: Value, expected: Value) {
    let mut patched = doc;
    apply(&schema(), &patch, &mut patched).unwrap();
    assert_eq!(patched.to_string(), expected.to_string());
}

#[track_caller]
fn refuse(doc: Value, patch: Value, message: &str) {
    let mut patched = doc;
    let error = apply(&schema(), &patch, &mut patched).unwrap_err();
    assert!(error.to_string().contains(message), "{error}");
}

fn names(names: &str) -> Value {
    names.chars().map(|name| json!({"name": name.to_string()})).collect()
}

#[test]
fn maps_merge_and_null_deletes() {
    check(
        json!({"one": {"a": "1", "b": 2}, "labels": {"x": "1", "y": "2"}}),
        json!({"one": {"b": null, "c": null}, "labels": {"x": "9", "z": "3"}}),
        json!({"one": {"a": "1"}, "labels": {"x": "9", "y": "2", "z": "3"}}),
    );
    check(json!({}), json!({"one": {"a": "1", "b": null}}), json!({"one": {"a": "1"}}));
    check(json!({"one": "text"}), json!({"one": {"a": null, "b": 1}}), json!({"one": {"b": 1}}));
}

#[test]
fn objects_with_the_strategy_replace_are_replaced() {
    check(
        json!({"selector": {"a": "1"}, "labels": {"a": "1"}}),
        json!({"selector": {"b": "2", "c": null}, "labels": {"b": "2"}}),
        json!({"selector": {"b": "2"}, "labels": {"a": "1", "b": "2"}}),
    );
}

#[test]
fn lists_without_strategy_are_replaced() {
    check(json!({"plain": ["a", "b"]}), json!({"plain": ["c"]}), json!({"plain": ["c"]}));
    check(json!({"plain": ["a"]}), json!({"plain": []}), json!({"plain": []}));
    check(json!({"unknown": [1]}), json!({"unknown": [2]}), json!({"unknown": [2]}));
}

#[test]
fn lists_merge_by_key() {
    check(
        json!({"items": [{"name": "a", "value": "1"}, {"name": "b", "value": "2"}]}),
        json!({"items": [{"name": "b", "value": "3"}, {"name": "c", "value": "4"}]}),
        json!({"items": [{"name": "a", "value": "1"}, {"name": "b", "value": "3"}, {"name": "c", "value": "4"}]}),
    );
    check(
        json!({"items": [{"name": "a", "items": [{"name": "x", "value": "1"}]}]}),
        json!({"items": [{"name": "a", "items": [{"name": "y"}], "value": null}]}),
        // The server's own elements come after what the patch names, unless the server had them before it.
        json!({"items": [{"name": "a", "items": [{"name": "y"}, {"name": "x", "value": "1"}]}]}),
    );
    check(json!({}), json!({"items": [{"name": "a", "value": null}]}), json!({"items": [{"name": "a"}]}));
    check(json!({"items": []}), json!({"items": []}), json!({"items": []}));
}

#[test]
fn primitive_lists_merge_as_sets() {
    check(json!({"tags": ["a", "b"]}), json!({"tags": ["b", "c"]}), json!({"tags": ["a", "b", "c"]}));
    check(
        json!({"tags": ["a", "b", "c"]}),
        json!({"$deleteFromPrimitiveList/tags": ["b", "x"]}),
        json!({"tags": ["a", "c"]}),
    );
    check(
        json!({"tags": ["a", "b"]}),
        json!({"$deleteFromPrimitiveList/tags": ["a"], "$setElementOrder/tags": ["c", "b"], "tags": ["c"]}),
        json!({"tags": ["c", "b"]}),
    );
    check(json!({}), json!({"$deleteFromPrimitiveList/tags": ["a"]}), json!({}));
    check(json!({}), json!({"one": {"$deleteFromPrimitiveList/tags": ["a"]}}), json!({"one": {}}));
}

#[test]
fn directives_replace_and_delete() {
    check(
        json!({"one": {"a": "1"}}),
        json!({"one": {"$patch": "replace", "b": 2}}),
        json!({"one": {"b": 2}}),
    );
    check(json!({"one": {"a": "1"}}), json!({"one": {"$patch": "delete"}}), json!({"one": {}}));
    check(
        json!({"one": {"a": "1"}}),
        json!({"one": {"$patch": "merge", "b": 2}}),
        json!({"one": {"a": "1", "b": 2}}),
    );
    check(json!({}), json!({"one": {"$patch": "delete"}}), json!({}));
    check(json!({}), json!({"one": {"$patch": "replace", "a": "1"}}), json!({"one": {"a": "1"}}));
    check(
        json!({"items": names("abc")}),
        json!({"items": [{"name": "b", "$patch": "delete"}]}),
        json!({"items": names("ac")}),
    );
    check(json!({"items": names("ab")}), json!({"items": [{"$patch": "replace"}]}), json!({"items": []}));
    check(
        json!({"items": names("ab")}),
        json!({"items": [{"name": "c"}, {"$patch": "replace"}]}),
        json!({"items": names("c")}),
    );
    check(
        json!({}),
        json!({"items": [{"name": "c"}, {"$patch": "replace"}, {"name": "d", "$patch": "delete"}]}),
        json!({"items": names("c")}),
    );
    check(
        json!({"items": names("a")}),
        json!({"items": [{"name": "a", "$patch": "merge", "value": "1"}]}),
        json!({"items": [{"name": "a", "value": "1"}]}),
    );
    check(
        json!({"plain": ["a"]}),
        json!({"$patch": "replace", "one": {"a": "1"}}),
        json!({"one": {"a": "1"}}),
    );
}

#[test]
fn retained_keys_drop_the_others() {
    check(
        json!({"one": {"a": "1", "b": 2}}),
        json!({"one": {"$retainKeys": ["b", "c"], "c": 3}}),
        json!({"one": {"b": 2, "c": 3}}),
    );
    check(json!({}), json!({"one": {"$retainKeys": ["c"], "c": 3}}), json!({"one": {"c": 3}}));
    check(
        json!({"items": [{"name": "a", "value": "1"}]}),
        json!({"items": [{"$retainKeys": ["name", "more"], "name": "a", "value": null, "more": {}}]}),
        json!({"items": [{"name": "a", "more": {}}]}),
    );
    refuse(json!({"one": {}}), json!({"one": {"$retainKeys": ["b"], "c": 3}}), "one: the patch sets \"c\"");
    refuse(json!({"one": {}}), json!({"one": {"$retainKeys": "b"}}), "must be a list");
}

#[test]
fn element_order() {
    let order = |before: &str, wanted: &str, patch: &str, after: &str| {
        check(
            json!({"items": names(before)}),
            json!({"$setElementOrder/items": names(wanted), "items": names(patch)}),
            json!({"items": names(after)}),
        );
    };
    order("abc", "cba", "", "cba");
    order("abc", "acdb", "d", "acdb");
    // x stood after a and before b on the server; y at the end.
    order("axby", "ab", "", "axby");
    order("axby", "ba", "", "xbay");
    order("axby", "nab", "n", "naxby");
    order("xab", "ba", "", "xba");
    check(
        json!({"items": names("ab")}),
        json!({"$setElementOrder/items": names("ba")}),
        json!({"items": names("ba")}),
    );
    check(
        json!({"tags": ["a", "x", "b"]}),
        json!({"$setElementOrder/tags": ["b", "a"]}),
        json!({"tags": ["x", "b", "a"]}),
    );
    check(json!({}), json!({"$setElementOrder/items": names("ba")}), json!({}));
    refuse(
        json!({"items": names("ab")}),
        json!({"$setElementOrder/items": names("ab"), "items": names("ba")}),
        "does not match",
    );
    refuse(json!({"items": names("ab")}), json!({"$setElementOrder/items": 1}), "must be followed by a list");
}

#[test]
fn refusals_say_where() {
    let doc = json!({"items": [{"name": "a"}], "tags": ["a"], "one": {}});
    refuse(
        doc.clone(),
        json!({"items": [{"name": "a"}, {"value": "1"}]}),
        "items[1]: does not contain declared merge key: name",
    );
    refuse(
        doc.clone(),
        json!({"items": [{"$patch": "delete"}]}),
        "items[0]: does not contain declared merge key: name",
    );
    refuse(doc.clone(), json!({"one": {"$patch": "explode"}}), "one: $patch must be");
    refuse(doc.clone(), json!({"items": ["a"]}), "items: list element types are not identical");
    refuse(doc.clone(), json!({"tags": [["a"]]}), "tags: lists of lists");
    refuse(doc.clone(), json!({"$deleteFromPrimitiveList/tags": "a"}), "list of values");
    refuse(doc.clone(), json!([1]), "must be an object");
    assert_eq!(apply(&schema(), &json!(1), &mut doc.clone()).unwrap_err().status(), 400);
    let missing = PatchError::Field { path: Path::root(), reason: String::new() };
    assert_eq!(missing.status(), 422);
}

#[test]
fn null_and_empty_patches_change_nothing() {
    let doc = json!({"items": names("ba"), "tags": ["b", "a", "b"], "one": {"a": null}});
    check(doc.clone(), json!({}), doc.clone());
    check(doc.clone(), json!(null), doc);
}
