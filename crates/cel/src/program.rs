//! An expression, ready to run: compiled once, run often, from any thread.

use std::cell::{Cell, RefCell};

use crate::ast::Expr;
use crate::check::{self, Checked};
use crate::cost::Budget;
use crate::environment::Environment;
use crate::error::EvalError;
use crate::evaluate::Evaluator;
use crate::library::Evaluated;
use crate::parse;
use crate::plan::{self, Node};
use crate::source::{CompileErrors, Faults};
use crate::types::Type;
use crate::value::Value;

#[derive(Debug)]
pub struct Program {
    node: Node,
    pub(crate) variables: Vec<String>,
    pub(crate) tree: Expr,
    pub(crate) checked: Checked,
}

impl Program {
    pub fn compile(environment: &Environment, text: &str) -> Result<Self, CompileErrors> {
        let (tree, count) = parse::parse(text)?;
        let mut faults = Faults::new(text);
        let checked = check::check(environment, &tree, count, &mut faults);
        if !faults.is_empty() {
            return Err(faults.finish());
        }
        match plan::plan(&tree, &checked) {
            Ok((node, variables)) => Ok(Program { node, variables, tree, checked }),
            Err(message) => {
                faults.add(0, message);
                Err(faults.finish())
            }
        }
    }

    /// The type of what it evaluates to.
    pub fn result_type(&self) -> &Type {
        self.checked.ty(&self.tree)
    }

    /// Whether the expression names this variable.
    pub fn reads(&self, variable: &str) -> bool {
        self.variables.iter().any(|name| name == variable)
    }

    /// Runs it. What it costs is taken from the budget, and too much ends it.
    pub fn evaluate<'a>(&self, bindings: &Bindings<'a>, budget: &mut Budget) -> Evaluated<'a> {
        let mut evaluator = Evaluator { program: self, bindings, budget, locals: Vec::new(), made: 0 };
        evaluator.evaluate(&self.node)
    }
}

/// The values of variables, for one evaluation or several.
#[derive(Default)]
pub struct Bindings<'a> {
    entries: Vec<Binding<'a>>,
    /// What variables that are expressions have cost, beside the expressions that read them.
    spent: Cell<u64>,
}

struct Binding<'a> {
    name: &'a str,
    value: RefCell<State<'a>>,
}

enum State<'a> {
    Known(Evaluated<'a>),
    /// Computed when it is first read, from the other bindings.
    Later(&'a Program),
    /// Being computed: whoever reads it now waits for itself.
    Running,
}

impl<'a> Bindings<'a> {
    pub fn new() -> Self {
        Bindings::default()
    }

    #[must_use]
    pub fn with(mut self, name: &'a str, value: Value<'a>) -> Self {
        self.entries.push(Binding { name, value: RefCell::new(State::Known(Ok(value))) });
        self
    }

    /// A variable that is an expression itself, as the `variables` of a policy are.
    #[must_use]
    pub fn with_program(mut self, name: &'a str, program: &'a Program) -> Self {
        self.entries.push(Binding { name, value: RefCell::new(State::Later(program)) });
        self
    }

    /// A variable that has no value: whoever reads it fails like this.
    #[must_use]
    pub fn with_error(mut self, name: &'a str, error: EvalError) -> Self {
        self.entries.push(Binding { name, value: RefCell::new(State::Known(Err(error))) });
        self
    }

    /// What variables that are expressions have cost since this was asked last.
    pub fn take_spent(&self) -> u64 {
        self.spent.take()
    }

    pub(crate) fn read(&self, name: &str) -> Evaluated<'a> {
        let Some(binding) = self.entries.iter().find(|binding| binding.name == name) else {
            return Err(EvalError::NoSuchVariable(name.to_owned()));
        };
        let program = match &*binding.value.borrow() {
            State::Known(found) => return found.clone(),
            State::Later(program) => *program,
            State::Running => return Err(EvalError::failed(format!("variable {name} needs itself"))),
        };
        *binding.value.borrow_mut() = State::Running;
        // An expression of its own, with a budget of its own.
        let mut budget = Budget::default();
        let found = program.evaluate(self, &mut budget);
        self.spent.set(self.spent.get().saturating_add(budget.spent()));
        *binding.value.borrow_mut() = State::Known(found.clone());
        found
    }
}
