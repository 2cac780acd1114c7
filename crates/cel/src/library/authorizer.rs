//! Questions to the host's authorizer: `authorizer.group('').resource('pods').namespace('a').check('create').allowed()`
//!
//! Who answers is the host's: it implements [`Authorizer`] and binds a check that begins with it.

use std::fmt;

use super::{Evaluated, Row, Site, mismatch};
use crate::error::EvalError;
use crate::value::Value;
use std::sync::Arc;

pub const AUTHORIZER: &str = "kubernetes.authorization.Authorizer";
pub const PATH_CHECK: &str = "kubernetes.authorization.PathCheck";
pub const GROUP_CHECK: &str = "kubernetes.authorization.GroupCheck";
pub const RESOURCE_CHECK: &str = "kubernetes.authorization.ResourceCheck";
pub const DECISION: &str = "kubernetes.authorization.Decision";

/// Says whether a request would be allowed, for the user of the request under way or a service account.
pub trait Authorizer: Send + Sync {
    fn decide(&self, question: &Question) -> Decision;
}

/// What would be asked of the API.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Question {
    /// Namespace and name, if it is not the user of the request.
    pub service_account: Option<(String, String)>,
    pub verb: String,
    /// Of a request that is not for a resource; then the rest is empty.
    pub path: Option<String>,
    pub group: String,
    pub resource: String,
    pub subresource: String,
    pub namespace: String,
    pub name: String,
    pub field_selector: Option<String>,
    pub label_selector: Option<String>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Decision {
    pub allowed: bool,
    pub reason: String,
    pub error: Option<String>,
}

/// A question that is being put together, or its answer.
#[derive(Clone)]
pub struct Check<'a> {
    stage: Stage,
    question: Question,
    authorizer: &'a dyn Authorizer,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Stage {
    Authorizer,
    Path,
    Group,
    Resource,
    Decided(Decision),
}

impl<'a> Check<'a> {
    /// The value of the variable `authorizer`.
    pub fn new(authorizer: &'a dyn Authorizer) -> Self {
        Check { stage: Stage::Authorizer, question: Question::default(), authorizer }
    }

    /// The value of `authorizer.requestResource`: the question of the request under way.
    pub fn of_resource(authorizer: &'a dyn Authorizer, question: Question) -> Self {
        Check { stage: Stage::Resource, question, authorizer }
    }

    pub fn type_name(&self) -> &'static str {
        match self.stage {
            Stage::Authorizer => AUTHORIZER,
            Stage::Path => PATH_CHECK,
            Stage::Group => GROUP_CHECK,
            Stage::Resource => RESOURCE_CHECK,
            Stage::Decided(_) => DECISION,
        }
    }
}

impl fmt::Debug for Check<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Check").field("stage", &self.stage).field("question", &self.question).finish()
    }
}

impl PartialEq for Check<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.stage == other.stage && self.question == other.question
    }
}

pub const TABLE: &[Row] = &[
    ("authorizer_path", "authorizer::path(string) -> pathcheck", |_, args| {
        if matches!(args, [_, Value::String(path)] if path.is_empty()) {
            return Err(EvalError::failed("path must not be empty"));
        }
        with(args, Some(Stage::Path), |question, path| question.path = Some(path))
    }),
    ("authorizer_group", "authorizer::group(string) -> groupcheck", |_, args| {
        with(args, Some(Stage::Group), |question, group| question.group = group)
    }),
    (
        "authorizer_serviceaccount",
        "authorizer::serviceAccount(string, string) -> authorizer",
        service_account,
    ),
    ("groupcheck_resource", "groupcheck::resource(string) -> resourcecheck", |_, args| {
        if matches!(args, [_, Value::String(resource)] if resource.is_empty()) {
            return Err(EvalError::failed("resource must not be empty"));
        }
        with(args, Some(Stage::Resource), |question, resource| question.resource = resource)
    }),
    ("resourcecheck_subresource", "resourcecheck::subresource(string) -> resourcecheck", |_, args| {
        with(args, None, |question, subresource| question.subresource = subresource)
    }),
    ("resourcecheck_namespace", "resourcecheck::namespace(string) -> resourcecheck", |_, args| {
        with(args, None, |question, namespace| question.namespace = namespace)
    }),
    ("resourcecheck_name", "resourcecheck::name(string) -> resourcecheck", |_, args| {
        with(args, None, |question, name| question.name = name)
    }),
    ("authorizer_fieldselector", "resourcecheck::fieldSelector(string) -> resourcecheck", |_, args| {
        with(args, None, |question, selector| question.field_selector = Some(selector))
    }),
    ("authorizer_labelselector", "resourcecheck::labelSelector(string) -> resourcecheck", |_, args| {
        with(args, None, |question, selector| question.label_selector = Some(selector))
    }),
    ("pathcheck_check", "pathcheck::check(string) -> decision", check),
    ("resourcecheck_check", "resourcecheck::check(string) -> decision", check),
    ("decision_errored", "decision::errored() -> bool", |_, args| {
        told(args, |decision| Value::Bool(decision.error.is_some()))
    }),
    ("decision_error", "decision::error() -> string", |_, args| {
        told(args, |decision| decision.error.clone().unwrap_or_default().into())
    }),
    ("decision_allowed", "decision::allowed() -> bool", |_, args| {
        told(args, |decision| Value::Bool(decision.allowed))
    }),
    ("decision_reason", "decision::reason() -> string", |_, args| {
        told(args, |decision| decision.reason.clone().into())
    }),
];

fn with<'a>(args: &[Value<'a>], next: Option<Stage>, change: fn(&mut Question, String)) -> Evaluated<'a> {
    let [Value::Check(check), Value::String(text)] = args else { return mismatch() };
    let mut check = (**check).clone();
    change(&mut check.question, text.to_string());
    check.stage = next.unwrap_or(check.stage);
    Ok(Value::Check(Arc::new(check)))
}

fn service_account<'a>(_: &Site, args: &[Value<'a>]) -> Evaluated<'a> {
    let [Value::Check(check), Value::String(namespace), Value::String(name)] = args else {
        return mismatch();
    };
    let is_name =
        |text: &str| !text.is_empty() && text.chars().all(|c| c.is_ascii_alphanumeric() || "-.".contains(c));
    if !is_name(name) {
        return Err(EvalError::failed("Invalid service account name"));
    }
    if !is_name(namespace) {
        return Err(EvalError::failed("Invalid service account namespace"));
    }
    let mut check = (**check).clone();
    check.question.service_account = Some((namespace.to_string(), name.to_string()));
    Ok(Value::Check(Arc::new(check)))
}

fn check<'a>(_: &Site, args: &[Value<'a>]) -> Evaluated<'a> {
    let [Value::Check(check), Value::String(verb)] = args else { return mismatch() };
    let mut check = (**check).clone();
    check.question.verb = verb.to_string();
    check.stage = Stage::Decided(check.authorizer.decide(&check.question));
    Ok(Value::Check(Arc::new(check)))
}

fn told<'a>(args: &[Value<'a>], of: fn(&Decision) -> Value<'static>) -> Evaluated<'a> {
    match &args[0] {
        Value::Check(check) => match &check.stage {
            Stage::Decided(decision) => Ok(of(decision)),
            _ => mismatch(),
        },
        _ => mismatch(),
    }
}
