//! Expressions of admission policies: what each may name, what it must evaluate to, and what it may cost.
//!
//! It compiles and runs single expressions. Which policy looks at which request, and what becomes of the answer, is the
//! API server's.

use std::collections::HashMap;
use std::sync::Arc;

use crate::admission::{self, declare};
use crate::cost::Budget;
use crate::declaration::Declaration;
use crate::environment::Environment;
use crate::error::EvalError;
use crate::library::Evaluated;
use crate::library::authorizer::{AUTHORIZER, RESOURCE_CHECK};
use crate::program::{Bindings, Program};
use crate::types::{ObjectType, Type};
use crate::value::{Map, Value};

/// What all expressions of one policy may cost together, for one request.
pub const PER_POLICY_LIMIT: u64 = 10_000_000;

/// Which variables an expression may name beside `object`, `oldObject`, `request` and `namespaceObject`.
#[derive(Debug, Clone, Copy, Default)]
pub struct Scope {
    /// `params`: the policy has a `paramKind`.
    pub params: bool,
    /// `authorizer`, which messages may not ask.
    pub authorizer: bool,
    /// `Object{…}` and `JSONPatch{…}`.
    pub mutation: bool,
}

impl Scope {
    pub fn environment(self) -> Environment {
        self.environment_of(Declaration::of_type(Type::Dyn), Declaration::of_type(Type::Dyn))
    }

    /// Where the schemas of the object and of the parameters are known.
    pub fn environment_of(self, object: Declaration, params: Declaration) -> Environment {
        let mut environment = Environment::new().with("object", object.clone()).with("oldObject", object);
        environment = declare(environment, "request", admission::request());
        environment = declare(environment, "namespaceObject", admission::namespace());
        if self.params {
            environment = environment.with("params", params);
        }
        if self.authorizer {
            environment = environment
                .with_type("authorizer", Type::Opaque(AUTHORIZER))
                .with_type("authorizer.requestResource", Type::Opaque(RESOURCE_CHECK));
        }
        if self.mutation { environment.with_mutation() } else { environment }
    }
}

/// What an expression must evaluate to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Expected {
    Any,
    Bool,
    String,
    StringOrNull,
    /// `Object{…}`.
    ApplyConfiguration,
    /// A list of `JSONPatch{…}`.
    JsonPatch,
}

impl Expected {
    /// The program, or upstream's words for why there is none.
    pub fn compile(self, environment: &Environment, expression: &str) -> Result<Program, String> {
        let program = Program::compile(environment, expression)
            .map_err(|errors| format!("compilation failed: {errors}"))?;
        let found = program.result_type();
        if self.is(found) {
            return Ok(program);
        }
        let got = runtime_name(found);
        Err(match self {
            Expected::StringOrNull => format!("must evaluate to one of [string null_type] but got {got}"),
            Expected::Bool => format!("must evaluate to bool but got {got}"),
            Expected::String => format!("must evaluate to string but got {got}"),
            Expected::ApplyConfiguration => format!("must evaluate to Object but got {got}"),
            Expected::JsonPatch => format!("must evaluate to list(JSONPatch) but got {got}"),
            Expected::Any => "must evaluate to something".to_owned(),
        })
    }

    fn is(self, ty: &Type) -> bool {
        match self {
            Expected::Any => true,
            Expected::Bool => *ty == Type::Bool,
            Expected::String => *ty == Type::String,
            Expected::StringOrNull => matches!(ty, Type::String | Type::Null),
            Expected::ApplyConfiguration => is_object(ty, "Object"),
            Expected::JsonPatch => matches!(ty, Type::List(of) if is_object(of, "JSONPatch")),
        }
    }
}

fn is_object(ty: &Type, name: &str) -> bool {
    matches!(ty, Type::Object(object) if object.name == name)
}

/// Messages about results name some types otherwise than messages about operands.
fn runtime_name(ty: &Type) -> String {
    match ty {
        Type::Null => "null_type".to_owned(),
        Type::Duration => "google.protobuf.Duration".to_owned(),
        Type::Timestamp => "google.protobuf.Timestamp".to_owned(),
        other => other.to_string(),
    }
}

/// The `variables` of a policy: each may read those before it, is computed when it is first read, and once.
#[derive(Debug, Default)]
pub struct Variables(Vec<Variable>);

#[derive(Debug)]
struct Variable {
    /// `variables.NAME`.
    path: String,
    program: Result<Program, String>,
}

impl Variables {
    /// Compiles one more, which sees those before it; else says why it cannot be.
    pub fn add(&mut self, scope: &Environment, name: &str, expression: &str) -> Result<(), String> {
        let environment = self.declare(scope.clone());
        let program = Expected::Any.compile(&environment, expression);
        let failed = program.as_ref().err().cloned();
        self.0.push(Variable { path: format!("variables.{name}"), program });
        failed.map_or(Ok(()), Err)
    }

    /// The environment with them in it.
    pub fn declare(&self, environment: Environment) -> Environment {
        // So that a name that is none of them is called an undefined field.
        let all = ObjectType { name: "kubernetes.variables".to_owned(), fields: HashMap::new() };
        let environment = environment.with_type("variables", Type::Object(Arc::new(all)));
        self.0.iter().fold(environment, |environment, variable| {
            let ty = variable.program.as_ref().map_or(Type::Dyn, |program| program.result_type().clone());
            environment.with_type(variable.path.clone(), ty)
        })
    }

    pub fn bind<'a>(&'a self, bindings: Bindings<'a>) -> Bindings<'a> {
        self.0.iter().fold(bindings, |bindings, variable| match &variable.program {
            Ok(program) => bindings.with_program(&variable.path, program),
            Err(why) => {
                let why = format!("composited variable {:?} fails to compile: {why}", variable.path);
                bindings.with_error(&variable.path, EvalError::failed(why))
            }
        })
    }
}

/// What the expressions of a policy have left to spend on a request.
#[derive(Debug)]
pub struct Account {
    left: u64,
}

/// Nothing more is evaluated for this request and policy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("validation failed due to running out of cost budget, no further validation rules will be run")]
pub struct OutOfBudget;

impl Default for Account {
    fn default() -> Self {
        Account { left: PER_POLICY_LIMIT }
    }
}

impl Account {
    /// The value, or why there is none; `OutOfBudget` if the account does not cover what it cost.
    pub fn run<'a>(
        &mut self,
        program: &Program,
        bindings: &Bindings<'a>,
    ) -> Result<Evaluated<'a>, OutOfBudget> {
        let mut budget = Budget::default();
        let found = program.evaluate(bindings, &mut budget);
        let cost = budget.spent().saturating_add(bindings.take_spent());
        self.left = self.left.checked_sub(cost).ok_or(OutOfBudget)?;
        Ok(found)
    }
}

/// Objects are named after their place: `Object.spec{template: Object.spec.template{…}}`.
pub fn check_names(value: &Value, expected: &str) -> Result<(), String> {
    match value {
        Value::Map(map) => {
            let name = match map {
                Map::Made(made) => made.name.as_deref(),
                Map::Json { .. } => None,
            };
            if let Some(name) = name.filter(|name| *name != expected) {
                return Err(format!(
                    "unexpected type name {name:?}, expected {expected:?}, which matches field name path from root \
                     Object type"
                ));
            }
            map.iter().try_for_each(|(key, value)| match (&key, name) {
                (Value::String(field), Some(_)) => check_names(&value, &format!("{expected}.{}", &**field)),
                _ => check_names(&value, expected),
            })
        }
        Value::List(list) => list.iter().try_for_each(|value| check_names(&value, expected)),
        Value::Optional(Some(value)) => check_names(value, expected),
        _ => Ok(()),
    }
}
