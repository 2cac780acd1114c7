//! Where the pods' template is in a workload, and patches of its containers. Pure.

use serde_json::{Value, json};

use crate::error::{Error, Result};

/// The fields that lead to the spec of a kind's pods.
fn path(object: &Value) -> Result<&'static [&'static str]> {
    match object["kind"].as_str().unwrap_or_default() {
        "Pod" => Ok(&["spec"]),
        "CronJob" => Ok(&["spec", "jobTemplate", "spec", "template", "spec"]),
        _ if object["spec"]["template"]["spec"].is_object() => Ok(&["spec", "template", "spec"]),
        kind => Err(Error::plain(format!("a {kind} has no pods to change"))),
    }
}

/// The spec of a workload's pods.
pub fn spec(object: &Value) -> Result<&Value> {
    Ok(path(object)?.iter().fold(object, |value, field| &value[*field]))
}

/// A change of the pods' spec as a change of the whole object.
pub fn at(object: &Value, change: Value) -> Result<Value> {
    Ok(path(object)?.iter().rev().fold(change, |below, field| json!({*field: below})))
}

/// Names of the containers that a word means: `*` all, or with `*` at an end.
pub fn containers(object: &Value, word: &str) -> Result<Vec<String>> {
    let matches = |name: &str| match (word.strip_prefix('*'), word.strip_suffix('*')) {
        (Some(end), _) if !end.is_empty() => name.ends_with(end),
        (_, Some(start)) => name.starts_with(start),
        _ => name == word,
    };
    let spec = spec(object)?;
    let mut names = Vec::new();
    for list in ["initContainers", "containers"] {
        for container in spec[list].as_array().into_iter().flatten() {
            names.extend(container["name"].as_str().filter(|name| matches(name)).map(str::to_owned));
        }
    }
    Ok(names)
}

/// A strategic patch that changes containers by their names.
pub fn patch(object: &Value, changes: &[(String, Value)]) -> Result<Value> {
    let spec = spec(object)?;
    let mut change = json!({});
    for list in ["initContainers", "containers"] {
        let is_here = |name: &str| {
            spec[list].as_array().into_iter().flatten().any(|container| container["name"] == name)
        };
        let mut parts: Vec<Value> = Vec::new();
        for (name, part) in changes.iter().filter(|(name, _)| is_here(name)) {
            let mut part = part.clone();
            part["name"] = name.clone().into();
            parts.push(part);
        }
        if !parts.is_empty() {
            change[list] = parts.into();
        }
    }
    at(object, change)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patches() {
        let pod =
            json!({"initContainers": [{"name": "setup"}], "containers": [{"name": "app"}, {"name": "side"}]});
        let object = json!({"kind": "Deployment", "spec": {"template": {"spec": pod}}});
        assert_eq!(containers(&object, "*").unwrap(), ["setup", "app", "side"]);
        assert_eq!(containers(&object, "s*").unwrap(), ["setup", "side"]);
        assert_eq!(containers(&object, "app").unwrap(), ["app"]);
        assert_eq!(
            patch(&object, &[("app".to_owned(), json!({"image": "x"}))]).unwrap(),
            json!({"spec": {"template": {"spec": {"containers": [{"image": "x", "name": "app"}]}}}})
        );
        assert!(spec(&json!({"kind": "ConfigMap"})).is_err());
    }
}
