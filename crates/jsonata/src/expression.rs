//! One parsed expression and its evaluation.

use std::rc::Rc;
use std::sync::Arc;

use crate::ast::Node;
use crate::error::Error;
use crate::evaluate::Evaluator;
use crate::function::Function;
use crate::value::Value;

/// What an expression gave.
#[derive(Debug, Clone, PartialEq)]
pub enum Outcome {
    Value(serde_json::Value),
    /// Nothing, which is not null.
    Undefined,
    /// A function or a regular expression: no JSON.
    Function,
}

/// How much an evaluation may use. All of it is counted, none of it measured: an expression that ends here ends on
/// every machine, and one that does not, nowhere.
#[derive(Debug, Clone)]
pub struct Limits {
    /// Nodes evaluated, and other work of constant size.
    pub steps: u64,
    /// How deep evaluation nests; calls in tail position do not.
    pub depth: usize,
    /// Bytes of all values made.
    pub bytes: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self { steps: 5_000_000, depth: 1000, bytes: 64 << 20 }
    }
}

/// A variable's value, ready for evaluation; cheap to clone.
#[derive(Debug, Clone)]
pub struct Bound(Value);

impl From<&serde_json::Value> for Bound {
    fn from(value: &serde_json::Value) -> Self {
        Self(Value::from(value))
    }
}

/// A function of the host: arguments (none where undefined) and a seed in, a value (or undefined) or an error out.
pub type HostFunction = fn(&[Option<serde_json::Value>], u64) -> Result<Option<serde_json::Value>, Error>;

/// Everything an expression sees besides its input.
#[derive(Default)]
pub struct Surroundings<'a> {
    pub bindings: Vec<(&'a str, Bound)>,
    /// `$now` and `$millis`, in milliseconds of the Unix epoch.
    pub now: i64,
    /// The seed of everything random.
    pub random: u64,
    /// Functions beside those of the language, or instead of them.
    pub functions: &'a [(&'static str, HostFunction)],
    pub limits: Limits,
}

/// A parsed expression.
#[derive(Debug, Clone)]
pub struct Expression {
    tree: Arc<Node>,
    labels: Vec<usize>,
    variables: Vec<String>,
}

impl Expression {
    pub fn parse(source: &str) -> Result<Self, Error> {
        let (tree, labels) = crate::parse::parse(source)?;
        Ok(Self { tree: Arc::new(tree), labels, variables: names(source) })
    }

    /// What it reads of its input, where it is evaluated without one: `name`, `$` or `$$`.
    pub fn input_reference(&self) -> Option<&str> {
        crate::references::of_input(&self.tree)
    }

    /// The names after `$` in the text: which variables it may look at.
    pub fn variables(&self) -> &[String] {
        &self.variables
    }

    pub fn evaluate(
        &self,
        input: Option<&serde_json::Value>,
        around: &Surroundings<'_>,
    ) -> Result<Outcome, Error> {
        let mut evaluator =
            Evaluator::new(around.limits.clone(), around.now, around.random, self.labels.clone());
        for (at, (name, function)) in around.functions.iter().enumerate() {
            let seed = around.random.wrapping_add(at as u64);
            let function = Function::Host { function: *function, seed };
            evaluator.root().bind((*name).into(), Value::Function(Rc::new(function)));
        }
        for (name, value) in &around.bindings {
            evaluator.root().bind((*name).into(), value.0.clone());
        }
        let input = input.map_or(Value::Undefined, Value::from);
        let result = evaluator.evaluate_root(&self.tree, &input).and_then(|value| match value {
            Value::Undefined => Ok(Outcome::Undefined),
            Value::Function(_) => Ok(Outcome::Function),
            value => {
                evaluator.charge(&value)?;
                Ok(crate::json::to_json(&value, 0)?.map_or(Outcome::Undefined, Outcome::Value))
            }
        });
        evaluator.finish();
        result
    }
}

fn names(source: &str) -> Vec<String> {
    let mut names: Vec<String> = source
        .split('$')
        .skip(1)
        .map(|rest| rest.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect::<String>())
        .filter(|name| !name.is_empty())
        .collect();
    names.sort();
    names.dedup();
    names
}
