//! Evaluating the tree. Every node costs a step, every value that is made costs bytes, and both run out: so any
//! expression ends, on any machine at the same point.

use std::rc::Rc;
use std::sync::Arc;

use crate::ast::{Kind, Node, Operator, Stage};
use crate::error::Error;
use crate::expression::Limits;
use crate::function::{Frame, Function};
use crate::value::{Array, Value};

pub struct Evaluator {
    pub now: i64,
    pub random: u64,
    pub(crate) limits: Limits,
    pub(crate) steps: u64,
    pub(crate) bytes: u64,
    pub(crate) depth: usize,
    /// Labels of the tree's parent slots.
    pub(crate) labels: Vec<usize>,
    /// Frames that functions hold on to: emptied at the end, for they hold on to the functions.
    pub(crate) captured: Vec<Frame>,
    pub(crate) root: Frame,
}

/// What an item of a list costs besides what it holds.
const ITEM: usize = 24;

impl Evaluator {
    pub fn new(limits: Limits, now: i64, random: u64, labels: Vec<usize>) -> Self {
        let root = Frame::new(None);
        Self { now, random, limits, steps: 0, bytes: 0, depth: 0, labels, captured: Vec::new(), root }
    }

    pub fn root(&self) -> &Frame {
        &self.root
    }

    /// Evaluates the whole tree. An array as input is one item to paths, as the reference wraps it.
    pub fn evaluate_root(&mut self, tree: &Node, input: &Value) -> Result<Value, Error> {
        let root = self.root.clone();
        root.bind("$".into(), input.clone());
        let input = match input {
            Value::Array(_) => outer(input),
            input => input.clone(),
        };
        self.evaluate_last(tree, &input, &root)
    }

    /// Another tree, read while this one is evaluated.
    pub fn evaluate_other(&mut self, tree: &Node, labels: Vec<usize>, input: &Value) -> Result<Value, Error> {
        let others = std::mem::replace(&mut self.labels, labels);
        let frame = Frame::new(Some(self.root.clone()));
        let input = match input {
            Value::Array(array) if !array.outer => outer(input),
            input => input.clone(),
        };
        let result = self.evaluate_last(tree, &input, &frame);
        self.labels = others;
        result
    }

    pub(crate) fn evaluate_last(
        &mut self,
        tree: &Node,
        input: &Value,
        frame: &Frame,
    ) -> Result<Value, Error> {
        let mut result = self.evaluate(tree, input, frame)?;
        while let Value::Tail(call) = result {
            result = self.apply(&call.function, call.arguments.clone(), input, call.name.as_deref())?;
        }
        Ok(result)
    }

    /// The next random number.
    pub fn draw(&mut self) -> u64 {
        self.random = self.random.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.random;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    /// Pays for a value as it would be written: what is shared within is written each time.
    pub fn charge(&mut self, value: &Value) -> Result<(), Error> {
        self.step()?;
        match value {
            Value::Array(array) => {
                self.spend_items(array.items.len())?;
                stacker::maybe_grow(64 * 1024, 1024 * 1024, || {
                    array.items.iter().try_for_each(|item| self.charge(item))
                })
            }
            Value::Object(object) => {
                self.spend(object.0.len() * 64)?;
                stacker::maybe_grow(64 * 1024, 1024 * 1024, || {
                    object.0.values().try_for_each(|item| self.charge(item))
                })
            }
            Value::String(text) => self.spend(text.len()),
            _ => Ok(()),
        }
    }

    /// Pays for `bytes` before they are made.
    pub fn spend(&mut self, bytes: usize) -> Result<(), Error> {
        self.bytes = self.bytes.saturating_add(bytes as u64);
        if self.bytes > self.limits.bytes {
            return Err(Error::new(
                "U1002",
                format!("The expression needs more than {} bytes", self.limits.bytes),
            ));
        }
        Ok(())
    }

    pub fn spend_items(&mut self, items: usize) -> Result<(), Error> {
        self.spend(items.saturating_mul(ITEM))
    }

    pub fn step(&mut self) -> Result<(), Error> {
        self.steps += 1;
        if self.steps > self.limits.steps {
            return Err(Error::new("U1001", "Expression evaluation timeout: Check for infinite loop"));
        }
        Ok(())
    }

    pub fn text(&mut self, text: String) -> Result<Value, Error> {
        self.spend(text.len())?;
        Ok(Value::text(text))
    }

    pub fn sequence(&mut self, items: Vec<Value>) -> Result<Value, Error> {
        self.spend_items(items.len())?;
        Ok(Value::sequence(items))
    }

    pub fn evaluate(&mut self, node: &Node, input: &Value, frame: &Frame) -> Result<Value, Error> {
        self.step()?;
        self.depth += 1;
        if self.depth > self.limits.depth {
            let message = "Stack overflow error: Check for non-terminating recursive function. Consider rewriting as tail-recursive.";
            return Err(Error::at("U1001", node.position, message));
        }
        let result = stacker::maybe_grow(192 * 1024, 4 * 1024 * 1024, || self.node(node, input, frame));
        self.depth -= 1;
        result
    }

    pub(crate) fn node(&mut self, node: &Node, input: &Value, frame: &Frame) -> Result<Value, Error> {
        let mut result = match &node.kind {
            Kind::Path(steps) => self.path(node, steps, input, frame)?,
            Kind::Binary { operator, left, right } => {
                self.binary(*operator, left, right, input, frame).map_err(|error| positioned(error, node))?
            }
            Kind::Negate(inner) => self.negate(node, inner, input, frame)?,
            Kind::Array(items) => self.array(node, items, input, frame)?,
            Kind::Object(pairs) => self.group(pairs, input.clone(), frame)?,
            Kind::String(text) => Value::text(&**text),
            Kind::Number(number) => Value::Number(*number),
            Kind::Boolean(value) => Value::Boolean(*value),
            Kind::Null => Value::Null,
            Kind::Name(name) => self.lookup(input, name)?,
            Kind::Variable(name) => self.variable(name, input, frame),
            Kind::Wildcard => match input {
                Value::Array(array) if array.outer => self.wildcard(&array.items[0])?,
                input => self.wildcard(input)?,
            },
            Kind::Descendant => self.descendants(input)?,
            Kind::Parent(slot) => {
                let label = format!("!{}", self.labels[*slot]);
                frame.lookup(&label).unwrap_or(Value::Undefined)
            }
            Kind::Condition { condition, then, otherwise } => {
                if self.evaluate(condition, input, frame)?.is_true() {
                    self.evaluate(then, input, frame)?
                } else if let Some(otherwise) = otherwise {
                    self.evaluate(otherwise, input, frame)?
                } else {
                    Value::Undefined
                }
            }
            Kind::Block(expressions) => {
                let inner = Frame::new(Some(frame.clone()));
                let mut result = Value::Undefined;
                for expression in expressions {
                    result = self.evaluate(expression, input, &inner)?;
                }
                result
            }
            Kind::Bind { name, value } => {
                let value = self.evaluate(value, input, frame)?;
                frame.bind(name.clone(), value.clone());
                value
            }
            Kind::Regex(_)
            | Kind::Call { .. }
            | Kind::Partial { .. }
            | Kind::Lambda { .. }
            | Kind::Apply { .. }
            | Kind::Transform(_) => self.functional(node, input, frame)?,
            Kind::Default { left, right, coalesce } => {
                let value = self.evaluate(left, input, frame)?;
                let good = if *coalesce { !value.is_undefined() } else { value.is_true() };
                if good { value } else { self.evaluate(right, input, frame)? }
            }
            Kind::Sort(_) => self.sort(node, input, frame)?,
            Kind::Placeholder | Kind::Word(_) => {
                return Err(Error::at("S0201", node.position, "Syntax error: ?"));
            }
        };
        for stage in &node.predicate {
            if let Stage::Filter(filter) = stage {
                result = self.filter(filter, &result, frame)?;
            }
        }
        if let Some(group) = &node.group
            && !matches!(node.kind, Kind::Path(_))
        {
            result = self.group(&group.pairs, result, frame)?;
        }
        Ok(settle(result, node.keep_array))
    }

    fn negate(&mut self, node: &Node, inner: &Node, input: &Value, frame: &Frame) -> Result<Value, Error> {
        match self.evaluate(inner, input, frame)? {
            Value::Undefined => Ok(Value::Undefined),
            Value::Number(number) => Ok(Value::Number(-number)),
            other => {
                let message = format!("Cannot negate a non-numeric value: {}", self.show(&other));
                Err(Error::at("D1002", node.position, message))
            }
        }
    }

    /// Functions, and what is made by calling them.
    fn functional(&mut self, node: &Node, input: &Value, frame: &Frame) -> Result<Value, Error> {
        Ok(match &node.kind {
            Kind::Regex(regex) => Value::Function(Rc::new(Function::Regex(regex.clone()))),
            Kind::Call { procedure, arguments, tail } => {
                self.call(node, procedure, arguments, *tail, None, input, frame)?
            }
            Kind::Partial { procedure, arguments } => {
                self.partial(node, procedure, arguments, input, frame)?
            }
            Kind::Lambda { parameters, body, signature } => {
                self.capture(frame)?;
                Value::Function(Rc::new(Function::Lambda {
                    parameters: parameters.clone(),
                    body: body.clone(),
                    signature: signature.clone(),
                    input: input.clone(),
                    frame: frame.clone(),
                }))
            }
            Kind::Apply { left, right } => self.apply_operator(node, left, right, input, frame)?,
            Kind::Transform(transform) => {
                self.capture(frame)?;
                Value::Function(Rc::new(Function::Transform {
                    transform: transform.clone(),
                    frame: frame.clone(),
                }))
            }
            _ => Value::Undefined,
        })
    }

    pub(crate) fn capture(&mut self, frame: &Frame) -> Result<(), Error> {
        self.spend(160)?;
        let again = self.captured.last().is_some_and(|last| Rc::ptr_eq(&last.0, &frame.0));
        if !again {
            self.captured.push(frame.clone());
        }
        Ok(())
    }

    pub(crate) fn variable(&mut self, name: &Arc<str>, input: &Value, frame: &Frame) -> Value {
        if name.is_empty() {
            // The input array as a whole stands in a sequence of its own.
            return match input {
                Value::Array(array) if array.outer => array.items[0].clone(),
                input => input.clone(),
            };
        }
        frame.lookup(name).unwrap_or_else(|| crate::builtins::lookup(name))
    }

    pub fn binary(
        &mut self,
        operator: Operator,
        left: &Node,
        right: &Node,
        input: &Value,
        frame: &Frame,
    ) -> Result<Value, Error> {
        let a = self.evaluate(left, input, frame)?;
        match operator {
            Operator::And => {
                let both = a.is_true() && self.evaluate(right, input, frame)?.is_true();
                return Ok(Value::Boolean(both));
            }
            Operator::Or => {
                let either = a.is_true() || self.evaluate(right, input, frame)?.is_true();
                return Ok(Value::Boolean(either));
            }
            _ => {}
        }
        let b = self.evaluate(right, input, frame)?;
        crate::operators::binary(self, operator, &a, &b)
    }

    /// A value in a message, shortened.
    pub fn show(&self, value: &Value) -> String {
        let text =
            crate::json::to_json(value, 0).ok().flatten().map_or_else(String::new, |json| json.to_string());
        text.chars().take(100).collect()
    }

    /// Lets go of everything that holds on to itself.
    pub fn finish(&mut self) {
        for frame in self.captured.drain(..) {
            frame.0.variables.borrow_mut().clear();
        }
        self.root.0.variables.borrow_mut().clear();
    }
}

/// An input array as the one item that paths walk into.
pub(crate) fn outer(input: &Value) -> Value {
    Value::Array(Rc::new(Array {
        items: vec![input.clone()],
        sequence: true,
        outer: true,
        ..Array::default()
    }))
}

/// What a sequence is to whoever asked: nothing, its only item, or itself.
pub(crate) fn settle(result: Value, keep_array: bool) -> Value {
    let Value::Array(array) = &result else { return result };
    if !array.sequence || array.tuples {
        return result;
    }
    match &array.items[..] {
        [] => Value::Undefined,
        [item] if !array.keep_singleton && !keep_array => item.clone(),
        _ if keep_array && !array.keep_singleton => {
            let mut array = Array::clone(array);
            array.keep_singleton = true;
            Value::Array(Rc::new(array))
        }
        _ => result,
    }
}

pub(crate) fn positioned(error: Error, node: &Node) -> Error {
    if error.position == 0 { Error { position: node.position, ..error } } else { error }
}
