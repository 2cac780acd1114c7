//! Calling functions.

use std::rc::Rc;

use crate::ast::{Kind, Node, Stage};
use crate::error::Error;
use crate::evaluate::{Evaluator, positioned, settle};
use crate::function::{Frame, Function, TailCall};
use crate::value::Value;

impl Evaluator {
    #[expect(clippy::too_many_arguments, reason = "a call and where it stands")]
    pub(crate) fn call(
        &mut self,
        node: &Node,
        procedure: &Node,
        arguments: &[Node],
        tail: bool,
        first: Option<Value>,
        input: &Value,
        frame: &Frame,
    ) -> Result<Value, Error> {
        let function = self.evaluate(procedure, input, frame)?;
        if function.is_undefined()
            && let Kind::Path(steps) = &procedure.kind
            && let Kind::Name(name) = &steps[0].kind
            && (frame.lookup(name).is_some() || !crate::builtins::lookup(name).is_undefined())
        {
            let message = format!("Attempted to invoke a non-function. Did you mean ${name}?");
            return Err(Error::at("T1005", node.position, message));
        }
        let mut values: Vec<Value> = first.into_iter().collect();
        for argument in arguments {
            values.push(self.evaluate(argument, input, frame)?);
        }
        let name = match &procedure.kind {
            Kind::Variable(name) => Some(name.clone()),
            _ => None,
        };
        if tail {
            return Ok(Value::Tail(Rc::new(TailCall { function, arguments: values, name })));
        }
        self.apply(&function, values, input, name.as_deref()).map_err(|error| positioned(error, node))
    }

    pub(crate) fn partial(
        &mut self,
        node: &Node,
        procedure: &Node,
        arguments: &[Node],
        input: &Value,
        frame: &Frame,
    ) -> Result<Value, Error> {
        let mut given = Vec::with_capacity(arguments.len());
        for argument in arguments {
            given.push(match argument.kind {
                Kind::Placeholder => None,
                _ => Some(self.evaluate(argument, input, frame)?),
            });
        }
        match self.evaluate(procedure, input, frame)? {
            Value::Function(function) => {
                Ok(Value::Function(Rc::new(Function::Partial { function, arguments: given })))
            }
            Value::Undefined
                if let Kind::Path(steps) = &procedure.kind
                    && let Kind::Name(name) = &steps[0].kind
                    && (frame.lookup(name).is_some() || !crate::builtins::lookup(name).is_undefined()) =>
            {
                let message = format!("Attempted to partially apply a non-function. Did you mean ${name}?");
                Err(Error::at("T1007", node.position, message))
            }
            _ => Err(Error::at("T1008", node.position, "Attempted to partially apply a non-function")),
        }
    }

    pub(crate) fn apply_operator(
        &mut self,
        node: &Node,
        left: &Node,
        right: &Node,
        input: &Value,
        frame: &Frame,
    ) -> Result<Value, Error> {
        let value = self.evaluate(left, input, frame)?;
        if let Kind::Call { procedure, arguments, .. } = &right.kind {
            let mut result = self.call(right, procedure, arguments, false, Some(value), input, frame)?;
            for stage in &right.predicate {
                if let Stage::Filter(filter) = stage {
                    result = self.filter(filter, &result, frame)?;
                }
            }
            return Ok(settle(result, right.keep_array));
        }
        let Value::Function(second) = self.evaluate(right, input, frame)? else {
            let message = "The right side of the function application operator ~> must be a function";
            return Err(Error::at("T2006", node.position, message));
        };
        if let Value::Function(first) = value {
            return Ok(Value::Function(Rc::new(Function::Chain { first, second })));
        }
        self.apply(&Value::Function(second), vec![value], &Value::Null, None)
    }

    /// Calls a function; calls in tail position follow one another here, without nesting.
    pub fn apply(
        &mut self,
        function: &Value,
        arguments: Vec<Value>,
        input: &Value,
        name: Option<&str>,
    ) -> Result<Value, Error> {
        let mut result = self.apply_once(function, arguments, input, name)?;
        while let Value::Tail(call) = result {
            self.step()?;
            let TailCall { function, arguments, name } = &*call;
            result = self.apply_once(function, arguments.clone(), input, name.as_deref())?;
        }
        Ok(result)
    }

    pub(crate) fn apply_once(
        &mut self,
        function: &Value,
        arguments: Vec<Value>,
        input: &Value,
        name: Option<&str>,
    ) -> Result<Value, Error> {
        let Value::Function(function) = function else {
            return Err(Error::new("T1006", "Attempted to invoke a non-function"));
        };
        let input = match input {
            Value::Array(array) if array.outer => &array.items[0],
            input => input,
        };
        match &**function {
            Function::Builtin(builtin) => {
                let arguments = match builtin.signature() {
                    Some(signature) => signature.validate(&arguments, input, builtin.name)?,
                    None => arguments,
                };
                (builtin.function)(self, &arguments, input)
            }
            Function::Host { function, seed } => {
                let arguments: Vec<Option<serde_json::Value>> = arguments
                    .iter()
                    .map(|argument| crate::json::to_json(argument, 0))
                    .collect::<Result<_, _>>()?;
                self.random = self.random.wrapping_add(0x9E37_79B9_7F4A_7C15);
                match function(&arguments, seed.wrapping_add(self.random)) {
                    Ok(Some(value)) => {
                        self.spend(crate::json::size(&value))?;
                        Ok(Value::from(&value))
                    }
                    Ok(None) => Ok(Value::Undefined),
                    Err(error) => Err(error),
                }
            }
            Function::Lambda { parameters, body, signature, input: context, frame } => {
                let arguments = match signature {
                    Some(signature) => signature.validate(&arguments, context, name.unwrap_or("lambda"))?,
                    None => arguments,
                };
                let inner = Frame::new(Some(frame.clone()));
                let mut arguments = arguments.into_iter();
                for parameter in parameters.iter() {
                    inner.bind(parameter.clone(), arguments.next().unwrap_or(Value::Undefined));
                }
                self.evaluate(body, context, &inner)
            }
            Function::Partial { function, arguments: given } => {
                let mut rest = arguments.into_iter();
                let all = given.iter().map(|argument| match argument {
                    Some(value) => value.clone(),
                    None => rest.next().unwrap_or(Value::Undefined),
                });
                let all: Vec<Value> = all.collect();
                self.apply_once(&Value::Function(function.clone()), all, input, name)
            }
            Function::Chain { first, second } => {
                let between = self.apply(&Value::Function(first.clone()), arguments, input, None)?;
                self.apply_once(&Value::Function(second.clone()), vec![between], input, None)
            }
            Function::Transform { transform, frame } => {
                let subject = arguments.into_iter().next().unwrap_or(Value::Undefined);
                crate::transform::transform(self, transform, &subject, frame)
            }
            Function::Regex(regex) => match arguments.first() {
                Some(Value::String(text)) => crate::matching::match_object(self, regex, text, 0, 0),
                _ => Ok(Value::Undefined),
            },
            Function::NextMatch { regex, text, from, units } => {
                crate::matching::match_object(self, regex, text, *from, *units)
            }
        }
    }
}
