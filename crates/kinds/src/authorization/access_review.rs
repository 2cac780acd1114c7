//! What the access reviews have in common: a question about one resource or one URL.

use serde_json::Value;

use crate::At;
use crate::FieldErrors;

pub(super) fn validate_question(spec: &At<'_>, errors: &mut FieldErrors) {
    let (resource, url) = (spec.field("resourceAttributes"), spec.field("nonResourceAttributes"));
    match (resource.exists(), url.exists()) {
        (true, true) => url.invalid(errors, "cannot be specified in combination with resourceAttributes"),
        (false, false) => resource
            .invalid(errors, "exactly one of nonResourceAttributes or resourceAttributes must be specified"),
        _ => {}
    }
}

pub(super) fn validate_subject(spec: &At<'_>, errors: &mut FieldErrors) {
    if !spec.field("user").is_set() && !spec.field("groups").is_set() {
        errors.invalid(spec.path.field("user"), "", "at least one of user or group must be specified");
    }
}

/// A local review asks about its own namespace only.
pub(super) fn validate_local(object: &Value, errors: &mut FieldErrors) {
    let root = At::root(object);
    let spec = root.field("spec");
    let namespace = spec.field("resourceAttributes").field("namespace");
    if namespace.text() != root.field("metadata").field("namespace").text() {
        namespace.invalid(errors, "must match metadata.namespace");
    }
    if spec.field("nonResourceAttributes").exists() {
        spec.field("nonResourceAttributes").invalid(errors, "disallowed on this kind of request");
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use crate::check;

    #[test]
    fn reviews() {
        let pods = json!({"verb": "get", "resource": "pods", "namespace": "a"});
        check::errors("selfsubjectaccessreviews", json!({"spec": {"resourceAttributes": pods}}), &[]);
        check::errors(
            "selfsubjectaccessreviews",
            json!({"spec": {"resourceAttributes": pods, "nonResourceAttributes": {}}}),
            &["spec.nonResourceAttributes: Invalid value: {}: cannot be specified in combination"],
        );
        check::errors(
            "subjectaccessreviews",
            json!({"spec": {}}),
            &[
                "spec.resourceAttributes: Invalid value: null: exactly one of",
                "spec.user: Invalid value: \"\": at least one of user or group must be specified",
            ],
        );
        check::errors(
            "localsubjectaccessreviews",
            json!({"metadata": {"namespace": "b"}, "spec": {"user": "u", "resourceAttributes": pods}}),
            &["spec.resourceAttributes.namespace: Invalid value: \"a\": must match metadata.namespace"],
        );
    }
}
