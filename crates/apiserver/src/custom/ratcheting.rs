//! What was there before a schema became stricter may stay: an update is held against what it changes.
//!
//! Values in lists count as changed with the list they are in, whatever its type.

use minik8s_schema::{FieldError, FieldErrorKind, FieldErrors};
use serde_json::Value;

/// Without the errors about values of a custom object that the update has not touched.
pub fn without_unchanged(errors: FieldErrors, object: &Value, old: &Value) -> FieldErrors {
    // Elements that are alike are a fault of the list, also where each of them was there before.
    let is_new = |error: &FieldError| {
        error.kind == FieldErrorKind::Duplicate || !is_unchanged(object, old, error.path.as_str())
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
fn is_unchanged(new: &Value, old: &Value, path: &str) -> bool {
    if new == old {
        return true;
    }
    let (Value::Object(new), Value::Object(old)) = (new, old) else { return false };
    let Some((name, rest)) = first_step(new, path) else { return false };
    match (new.get(name), old.get(name)) {
        (Some(new), Some(old)) => is_unchanged(new, old, rest),
        _ => false,
    }
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
        let check =
            |path: &str, expected: bool| assert_eq!(is_unchanged(&new, &old, path), expected, "{path}");
        check("spec.size", true);
        check("spec.a.b.c", true);
        check("spec.a.b.missing", true);
        check("spec.list[0].x", true);
        check("spec.labels[k/v]", true);
        check("spec.new", false);
        check("spec.missing", false);
        let mut changed = old.clone();
        changed["spec"]["list"][0]["y"] = 1.into();
        assert!(!is_unchanged(&changed, &old, "spec.list[0].x"));
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
