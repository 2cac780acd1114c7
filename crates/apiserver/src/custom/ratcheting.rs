//! What was there before a schema became stricter may stay: an update is held against what it changes.
//!
//! Elements of lists of type map are held against those with the same keys. In other lists values never count as unchanged
//! where the list has changed.

use minik8s_schema::{FieldError, FieldErrorKind, FieldErrors};
use serde_json::Value;

/// Without the errors about values of a custom object that the update has not touched.
pub fn without_unchanged(errors: FieldErrors, object: &Value, old: &Value, schema: &Value) -> FieldErrors {
    // Elements that are alike are a fault of the list, also where each of them was there before.
    let is_new = |error: &FieldError| {
        error.kind == FieldErrorKind::Duplicate || !is_unchanged(object, old, error.path.as_str(), schema)
    };
    kept(errors, is_new)
}

/// Without the errors about rules in schemas of a definition that the update has not touched: they were taken once.
pub fn without_unchanged_rules(errors: FieldErrors, definition: &Value, old: &Value) -> FieldErrors {
    let schemas = |definition: &Value| -> Vec<(Value, Value)> {
        let versions = definition["spec"]["versions"].as_array().into_iter().flatten();
        versions.map(|version| (version["name"].clone(), version["schema"].clone())).collect()
    };
    let before = schemas(old);
    let unchanged: Vec<String> = schemas(definition)
        .into_iter()
        .enumerate()
        .filter(|(_, schema)| before.contains(schema))
        .map(|(index, _)| format!("spec.versions[{index}].schema.openAPIV3Schema"))
        .collect();
    kept(errors, |error| {
        let is_about_rules = error.path.as_str().contains("x-kubernetes-validations")
            || error.message.contains("x-kubernetes-validations estimated rule cost");
        !(is_about_rules && unchanged.iter().any(|schema| error.path.as_str().starts_with(schema)))
    })
}

fn kept(errors: FieldErrors, is_kept: impl Fn(&FieldError) -> bool) -> FieldErrors {
    let mut found = FieldErrors::default();
    for error in errors.iter().filter(|error| is_kept(error)) {
        found.push(error.kind, error.path.clone(), error.message.clone());
    }
    found
}

/// Whether something on the way to the field is what it was, and with it the field.
fn is_unchanged(new: &Value, old: &Value, path: &str, schema: &Value) -> bool {
    if new == old {
        return true;
    }
    match (new, old) {
        (Value::Object(new), Value::Object(old)) => {
            let Some((name, rest)) = first_step(new, path) else { return false };
            let declared = &schema["properties"][name];
            let below = if declared.is_null() { &schema["additionalProperties"] } else { declared };
            match (new.get(name), old.get(name)) {
                (Some(new), Some(old)) => is_unchanged(new, old, rest, below),
                _ => false,
            }
        }
        (Value::Array(new), Value::Array(old)) => {
            let Some((index, rest)) = path.strip_prefix('[').and_then(|path| path.split_once(']')) else {
                return false;
            };
            let Some(new) = index.parse::<usize>().ok().and_then(|index| new.get(index)) else {
                return false;
            };
            old_element(old, new, schema).is_some_and(|old| is_unchanged(new, old, rest, &schema["items"]))
        }
        _ => false,
    }
}

/// The element with the same keys; lists that are not keyed have none.
fn old_element<'a>(old: &'a [Value], new: &Value, list: &Value) -> Option<&'a Value> {
    if list["x-kubernetes-list-type"] != "map" {
        return None;
    }
    let keys = list["x-kubernetes-list-map-keys"].as_array()?;
    let has_keys =
        |old: &Value| keys.iter().filter_map(Value::as_str).all(|key| old.get(key) == new.get(key));
    old.iter().find(|old| has_keys(old))
}

/// The field that the path leads to next, and the way on from there. Names may hold dots: the longest that fits is meant.
fn first_step<'p>(fields: &serde_json::Map<String, Value>, path: &'p str) -> Option<(&'p str, &'p str)> {
    if let Some(keyed) = path.strip_prefix('[') {
        return keyed.split_once(']');
    }
    let path = path.strip_prefix('.').unwrap_or(path);
    let fits = |name: &&String| {
        let rest = path.strip_prefix(name.as_str());
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
    };
    let longest = fields.keys().filter(fits).map(String::len).max()?;
    Some(path.split_at(longest))
}

#[cfg(test)]
mod tests {
    use minik8s_schema::Path;
    use serde_json::json;

    use super::*;

    #[test]
    fn fields_are_unchanged_with_what_they_are_in() {
        let old = json!({"spec": {"size": 9, "a.b": {"c": 1}, "list": [{"x": 1}], "labels": {"k/v": "!"}, "new": 1}});
        let mut new = old.clone();
        new["spec"]["new"] = 2.into();
        let check = |path: &str, expected: bool| {
            assert_eq!(is_unchanged(&new, &old, path, &Value::Null), expected, "{path}")
        };
        check("spec.size", true);
        check("spec.a.b.c", true);
        check("spec.a.b.missing", true);
        check("spec.list[0].x", true);
        check("spec.labels[k/v]", true);
        check("spec.new", false);
        check("spec.missing", false);
        let mut changed = old.clone();
        changed["spec"]["list"][0]["y"] = 1.into();
        assert!(!is_unchanged(&changed, &old, "spec.list[0].x", &Value::Null));
    }

    #[test]
    fn elements_of_map_lists_are_held_against_those_with_the_same_keys() {
        let schema = |kind: &str| {
            json!({"properties": {"ports": {"x-kubernetes-list-type": kind, "x-kubernetes-list-map-keys": ["name"],
                "items": {"properties": {"name": {}, "port": {}, "note": {}}}}}})
        };
        let port = |name: &str, port: u32, note: &str| json!({"name": name, "port": port, "note": note});
        let old = json!({"ports": [port("a", 1, "x"), port("b", 2, "x")]});
        let new = json!({"ports": [port("c", 3, "x"), port("b", 2, "y"), port("a", 1, "x")]});
        let check = |kind: &str, path: &str, expected: bool| {
            assert_eq!(is_unchanged(&new, &old, path, &schema(kind)), expected, "{kind} {path}");
        };
        check("map", "ports[0].port", false);
        check("map", "ports[1].port", true);
        check("map", "ports[1].note", false);
        check("map", "ports[2]", true);
        check("map", "ports[9].port", false);
        check("map", "ports", false);
        check("atomic", "ports[1].port", false);
        check("set", "ports[2]", false);
    }

    #[test]
    fn rules_of_unchanged_schemas_are_not_looked_at_again() {
        let version =
            |name: &str, ty: &str| json!({"name": name, "schema": {"openAPIV3Schema": {"type": ty}}});
        let old = json!({"spec": {"versions": [version("v1", "object"), version("v2", "object")]}});
        let new = json!({"spec": {"versions": [version("v2", "object"), version("v1", "string")]}});
        let mut errors = FieldErrors::default();
        for index in [0, 1] {
            let schema =
                Path::new("spec").field("versions").index(index).field("schema").field("openAPIV3Schema");
            errors
                .forbidden(schema.field("x-kubernetes-validations").index(0).field("rule"), "too expensive");
            errors.forbidden(schema, "another fault");
        }
        let left = without_unchanged_rules(errors, &new, &old);
        let paths: Vec<&str> = left.iter().map(|error| error.path.as_str()).collect();
        assert_eq!(
            paths,
            [
                "spec.versions[0].schema.openAPIV3Schema",
                "spec.versions[1].schema.openAPIV3Schema.x-kubernetes-validations[0].rule",
                "spec.versions[1].schema.openAPIV3Schema",
            ]
        );
    }
}
