//! Expressions about requests to the API: what they can name, and the conditions under which one is looked at.

use std::sync::{Arc, LazyLock};

use serde_json::{Value as Json, json};

use crate::cost::Budget;
use crate::declaration::Declaration;
use crate::environment::Environment;
use crate::library::authorizer::{AUTHORIZER, RESOURCE_CHECK};
use crate::policy::Expected;
use crate::program::{Bindings, Program};
use crate::types::Type;
use crate::value::Value;

/// What all conditions of one webhook or policy may cost together.
const CONDITIONS_LIMIT: u64 = 2_500_000;

/// `object` and `oldObject` of any kind, the `request`, and the `authorizer`.
pub fn environment() -> Environment {
    let environment = Environment::new()
        .with_type("object", Type::Dyn)
        .with_type("oldObject", Type::Dyn)
        .with_type("authorizer", Type::Opaque(AUTHORIZER))
        .with_type("authorizer.requestResource", Type::Opaque(RESOURCE_CHECK));
    declare(environment, "request", request())
}

pub(crate) fn declare(
    environment: Environment,
    name: &str,
    declaration: Option<&'static Declaration>,
) -> Environment {
    match declaration {
        Some(declaration) => environment.with(name, declaration.clone()),
        None => environment.with_type(name, Type::Dyn),
    }
}

/// The fields of an AdmissionRequest that expressions see; the objects are variables of their own.
pub fn request() -> Option<&'static Declaration> {
    static REQUEST: LazyLock<Option<Declaration>> = LazyLock::new(declare_request);
    REQUEST.as_ref()
}

/// The fields of a Namespace that expressions see as `namespaceObject`.
pub fn namespace() -> Option<&'static Declaration> {
    static NAMESPACE: LazyLock<Option<Declaration>> = LazyLock::new(declare_namespace);
    NAMESPACE.as_ref()
}

fn declare_request() -> Option<Declaration> {
    let text = json!({"type": "string"});
    let texts = json!({"type": "array", "items": text});
    let kind = json!({"type": "object", "properties": {"group": text, "version": text, "kind": text}});
    let resource =
        json!({"type": "object", "properties": {"group": text, "version": text, "resource": text}});
    let user = json!({"type": "object", "properties": {
        "username": text, "uid": text, "groups": texts,
        "extra": {"type": "object", "additionalProperties": texts}}});
    let schema = json!({"type": "object", "properties": {
        "kind": kind, "resource": resource, "subResource": text,
        "requestKind": kind, "requestResource": resource, "requestSubResource": text,
        "name": text, "namespace": text, "operation": text, "userInfo": user, "dryRun": {"type": "boolean"},
        // Of any type.
        "options": {"x-kubernetes-int-or-string": true}}});
    let mut declaration = Declaration::of_schema(&schema, "kubernetes.AdmissionRequest", false)?;
    unescape_namespace(&mut declaration);
    Some(declaration)
}

fn declare_namespace() -> Option<Declaration> {
    let text = json!({"type": "string"});
    let time = json!({"type": "string", "format": "date-time"});
    let whole = json!({"type": "integer"});
    let texts = json!({"type": "array", "items": text});
    let named = json!({"type": "object", "additionalProperties": text});
    let object = |properties: Json| json!({"type": "object", "properties": properties});
    let metadata = object(json!({
        "name": text, "generateName": text, "namespace": text, "labels": named, "annotations": named, "UID": text,
        "creationTimestamp": time, "deletionGracePeriodSeconds": whole, "deletionTimestamp": time,
        "generation": whole, "resourceVersion": text, "finalizers": texts}));
    let condition = object(
        json!({"status": text, "type": text, "lastTransitionTime": time, "message": text, "reason": text}),
    );
    let status = object(json!({"conditions": {"type": "array", "items": condition}, "phase": text}));
    let schema = object(json!({
        "metadata": metadata, "spec": object(json!({"finalizers": texts})), "status": status}));
    let mut declaration = Declaration::of_schema(&schema, "kubernetes.Namespace", false)?;
    if let Type::Object(object) = &mut declaration.ty
        && let Some(metadata) = Arc::get_mut(object).and_then(|object| object.fields.get_mut("metadata"))
    {
        unescape_namespace(&mut metadata.declaration);
    }
    Some(declaration)
}

/// Reserved words are escaped in schemas of users only: it is `request.namespace`.
pub(crate) fn unescape_namespace(declaration: &mut Declaration) {
    if let Type::Object(object) = &mut declaration.ty
        && let Some(object) = Arc::get_mut(object)
        && let Some(namespace) = object.fields.remove("__namespace__")
    {
        object.fields.insert("namespace".to_owned(), namespace);
    }
}

/// The program of a condition, which must say yes or no.
pub fn condition(environment: &Environment, expression: &str) -> Result<Program, String> {
    Expected::Bool.compile(environment, expression)
}

/// The `matchConditions` of a webhook or a policy.
#[derive(Debug, Default)]
pub struct Conditions(Vec<(String, Result<Program, String>)>);

impl Conditions {
    pub fn compile<'c>(
        environment: &Environment,
        expressions: impl IntoIterator<Item = &'c str>,
    ) -> Conditions {
        let compiled = |expression: &str| (expression.to_owned(), condition(environment, expression));
        Conditions(expressions.into_iter().map(compiled).collect())
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The first that cannot be compiled, and why.
    pub fn first_error(&self) -> Option<(usize, &str)> {
        let mut all = self.0.iter().enumerate();
        all.find_map(|(index, (_, program))| Some((index, program.as_ref().err()?.as_str())))
    }

    /// Whether all hold. One that does not decides; only else the errors of others matter.
    pub fn hold(&self, bindings: &Bindings) -> Result<bool, String> {
        let mut budget = Budget::new(CONDITIONS_LIMIT);
        let mut failed = Vec::new();
        for (expression, program) in &self.0 {
            let found = match program {
                Ok(program) => program.evaluate(bindings, &mut budget).map_err(|error| error.to_string()),
                Err(why) => Err(why.clone()),
            };
            match found {
                Ok(Value::Bool(true)) => {}
                Ok(_) => return Ok(false),
                Err(why) => failed.push(format!("expression '{expression}' resulted in error: {why}")),
            }
        }
        if failed.is_empty() { Ok(true) } else { Err(failed.join(", ")) }
    }
}
