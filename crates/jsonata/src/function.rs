//! Functions as values.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;

use crate::ast::{Node, Transform};
use crate::builtins::Builtin;
use crate::expression::HostFunction;
use crate::signature::Signature;
use crate::value::Value;

#[derive(Debug)]
pub enum Function {
    Builtin(&'static Builtin),
    Host {
        function: HostFunction,
        seed: u64,
    },
    Lambda {
        parameters: Arc<[Arc<str>]>,
        body: Arc<Node>,
        signature: Option<Arc<Signature>>,
        input: Value,
        frame: Frame,
    },
    /// Arguments that are given already; none where one is still wanted.
    Partial {
        function: Rc<Function>,
        arguments: Vec<Option<Value>>,
    },
    Transform {
        transform: Arc<Transform>,
        frame: Frame,
    },
    Chain {
        first: Rc<Function>,
        second: Rc<Function>,
    },
    Regex(Arc<regex::Regex>),
    /// The next match of a pattern in a text, from a byte on, which is so many UTF-16 units.
    NextMatch {
        regex: Arc<regex::Regex>,
        text: Rc<str>,
        from: usize,
        units: usize,
    },
}

/// A call in tail position, with its arguments evaluated.
#[derive(Debug)]
pub struct TailCall {
    pub function: Value,
    pub arguments: Vec<Value>,
    pub name: Option<Arc<str>>,
}

/// Variables, and those around them.
#[derive(Debug, Clone)]
pub struct Frame(pub Rc<Scope>);

#[derive(Debug)]
pub struct Scope {
    pub variables: RefCell<HashMap<Arc<str>, Value>>,
    pub outer: Option<Frame>,
}

impl Frame {
    pub fn new(outer: Option<Self>) -> Self {
        Self(Rc::new(Scope { variables: RefCell::new(HashMap::new()), outer }))
    }

    pub fn bind(&self, name: Arc<str>, value: Value) {
        self.0.variables.borrow_mut().insert(name, value);
    }

    pub fn lookup(&self, name: &str) -> Option<Value> {
        let mut here = self;
        loop {
            if let Some(value) = here.0.variables.borrow().get(name) {
                return Some(value.clone());
            }
            here = here.0.outer.as_ref()?;
        }
    }
}

impl Function {
    /// How many parameters it declares, which tells what callbacks are given.
    pub fn arity(&self) -> usize {
        match self {
            Self::Builtin(builtin) => builtin.arity,
            Self::Host { .. } => usize::MAX,
            Self::Lambda { parameters, .. } => parameters.len(),
            Self::Partial { arguments, .. } => arguments.iter().filter(|argument| argument.is_none()).count(),
            Self::Transform { .. } | Self::Chain { .. } | Self::Regex(_) => 1,
            Self::NextMatch { .. } => 0,
        }
    }
}
