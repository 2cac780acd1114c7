//! Expressions about the question whether a request is allowed: `request` is the spec of a SubjectAccessReview
//! (`authorization.k8s.io/v1`), and nothing else can be named.

use std::sync::{Arc, LazyLock};

use serde_json::{Value as Json, json};

use crate::admission::{self, declare, unescape_namespace};
use crate::declaration::Declaration;
use crate::environment::Environment;
use crate::program::Bindings;
use crate::types::Type;
use crate::value::Value;

/// The `matchConditions` of an authorization webhook.
#[derive(Debug, Default)]
pub struct Conditions(admission::Conditions);

impl Conditions {
    /// Or which of them is wrong, and why.
    pub fn compile<'c>(expressions: impl IntoIterator<Item = &'c str>) -> Result<Self, (usize, String)> {
        let environment = declare(Environment::new(), "request", spec());
        let conditions = admission::Conditions::compile(&environment, expressions);
        match conditions.first_error() {
            Some((index, why)) => Err((index, why.to_owned())),
            None => Ok(Conditions(conditions)),
        }
    }

    /// Whether all hold for this spec. One that does not decides; only else the errors of others matter.
    pub fn hold(&self, request: &Json) -> Result<bool, String> {
        if self.0.is_empty() {
            return Ok(true);
        }
        self.0.hold(&Bindings::new().with("request", Value::of_json(request, spec())))
    }
}

fn spec() -> Option<&'static Declaration> {
    static SPEC: LazyLock<Option<Declaration>> = LazyLock::new(declare_spec);
    SPEC.as_ref()
}

fn declare_spec() -> Option<Declaration> {
    let text = json!({"type": "string"});
    let texts = json!({"type": "array", "items": text});
    let object = |properties: Json| json!({"type": "object", "properties": properties});
    let requirement = object(json!({"key": text, "operator": text, "values": texts}));
    let selector =
        object(json!({"rawSelector": text, "requirements": {"type": "array", "items": requirement}}));
    let resource = object(json!({
        "namespace": text, "verb": text, "group": text, "version": text, "resource": text, "subresource": text,
        "name": text, "fieldSelector": selector, "labelSelector": selector}));
    let schema = object(json!({
        "resourceAttributes": resource,
        "nonResourceAttributes": object(json!({"path": text, "verb": text})),
        "user": text, "uid": text, "groups": texts,
        "extra": {"type": "object", "additionalProperties": texts}}));
    let mut declaration = Declaration::of_schema(&schema, "kubernetes.SubjectAccessReviewSpec", false)?;
    if let Type::Object(object) = &mut declaration.ty
        && let Some(resource) =
            Arc::get_mut(object).and_then(|object| object.fields.get_mut("resourceAttributes"))
    {
        unescape_namespace(&mut resource.declaration);
    }
    Some(declaration)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conditions_see_the_spec_of_a_review() {
        let resource = json!({"user": "ann", "uid": "", "groups": ["devs"], "extra": {"k": ["v"]}, "resourceAttributes": {
            "namespace": "kube-system", "verb": "get", "group": "", "version": "v1", "resource": "pods",
            "subresource": "", "name": "p"}});
        let path = json!({"user": "ann", "uid": "", "groups": [], "extra": {}, "nonResourceAttributes": {
            "path": "/healthz", "verb": "get"}});
        let check = |expression: &str, expected: (Option<bool>, Option<bool>)| {
            let conditions = Conditions::compile([expression]).unwrap();
            assert_eq!(
                (conditions.hold(&resource).ok(), conditions.hold(&path).ok()),
                expected,
                "{expression}"
            );
        };
        check("has(request.resourceAttributes)", (Some(true), Some(false)));
        check("request.resourceAttributes.namespace == 'kube-system'", (Some(true), None));
        check("request.resourceAttributes.subresource == ''", (Some(true), None));
        check("!('devs' in request.groups)", (Some(false), Some(true)));
        check("'k' in request.extra && request.extra['k'].exists(v, v == 'v')", (Some(true), Some(false)));
        check(
            "has(request.nonResourceAttributes) && request.nonResourceAttributes.path == '/healthz'",
            (Some(false), Some(true)),
        );
        assert_eq!(Conditions::default().hold(&path), Ok(true));
    }

    #[test]
    fn conditions_that_cannot_be_are_refused_by_their_place() {
        let check = |expression: &str, part: &str| {
            let (index, why) = Conditions::compile(["true", expression]).unwrap_err();
            assert!(index == 1 && why.contains(part), "{expression}: {why}");
        };
        check("request.user", "must evaluate to bool");
        check("request.nothing == ''", "undefined field");
        check("object.a == 1", "undeclared reference");
        check("request.", "yntax");
    }

    #[test]
    fn a_condition_that_does_not_hold_decides_before_errors() {
        let conditions = Conditions::compile(["request.resourceAttributes.verb == 'get'", "false"]).unwrap();
        assert_eq!(conditions.hold(&json!({"user": "a", "groups": []})), Ok(false));
    }
}
