//! Functions that take functions.

use std::rc::Rc;

use indexmap::IndexMap;

use super::argument;
use crate::error::Error;
use crate::evaluate::Evaluator;
use crate::function::Function;
use crate::value::Value;

type Answer = Result<Value, Error>;

fn arity(function: &Value) -> usize {
    match function {
        Value::Function(function) => function.arity(),
        _ => 0,
    }
}

/// Calls back with as many arguments as the function declares.
fn call(evaluator: &mut Evaluator, function: &Value, item: &Value, second: Value, third: &Value) -> Answer {
    let mut arguments = vec![item.clone()];
    let arity = arity(function);
    let host = matches!(function, Value::Function(function) if matches!(**function, Function::Host { .. }));
    if arity >= 2 && !host {
        arguments.push(second);
    }
    if arity >= 3 && !host {
        arguments.push(third.clone());
    }
    evaluator.apply(function, arguments, &Value::Undefined, None)
}

pub fn map(evaluator: &mut Evaluator, arguments: &[Value], _: &Value) -> Answer {
    let (Value::Array(array), function) = (argument(arguments, 0), argument(arguments, 1)) else {
        return Ok(Value::Undefined);
    };
    let mut results = Vec::new();
    for (at, item) in array.items.iter().enumerate() {
        let result = call(evaluator, function, item, Value::Number(at as f64), argument(arguments, 0))?;
        if !result.is_undefined() {
            results.push(result);
        }
    }
    evaluator.sequence(results)
}

pub fn filter(evaluator: &mut Evaluator, arguments: &[Value], _: &Value) -> Answer {
    let (Value::Array(array), function) = (argument(arguments, 0), argument(arguments, 1)) else {
        return Ok(Value::Undefined);
    };
    let mut kept = Vec::new();
    for (at, item) in array.items.iter().enumerate() {
        if call(evaluator, function, item, Value::Number(at as f64), argument(arguments, 0))?.is_true() {
            kept.push(item.clone());
        }
    }
    evaluator.sequence(kept)
}

pub fn single(evaluator: &mut Evaluator, arguments: &[Value], _: &Value) -> Answer {
    let (Value::Array(array), function) = (argument(arguments, 0), argument(arguments, 1)) else {
        return Ok(Value::Undefined);
    };
    let mut found = None;
    for (at, item) in array.items.iter().enumerate() {
        let accepted = function.is_undefined()
            || call(evaluator, function, item, Value::Number(at as f64), argument(arguments, 0))?.is_true();
        if accepted {
            if found.is_some() {
                return Err(Error::new(
                    "D3138",
                    "The $single() function expected exactly 1 matching result.  Instead it matched more.",
                ));
            }
            found = Some(item.clone());
        }
    }
    found.ok_or_else(|| {
        Error::new(
            "D3139",
            "The $single() function expected exactly 1 matching result.  Instead it matched 0.",
        )
    })
}

pub fn reduce(evaluator: &mut Evaluator, arguments: &[Value], _: &Value) -> Answer {
    let (Value::Array(array), function) = (argument(arguments, 0), argument(arguments, 1)) else {
        return Ok(Value::Undefined);
    };
    let arity = arity(function);
    if arity < 2 {
        return Err(Error::new(
            "D3050",
            "The second argument of reduce function must be a function with at least two arguments",
        ));
    }
    let mut items = array.items.iter().enumerate();
    let mut result = match argument(arguments, 2) {
        Value::Undefined => match items.next() {
            Some((_, first)) => first.clone(),
            None => return Ok(Value::Undefined),
        },
        initial => initial.clone(),
    };
    for (at, item) in items {
        let mut given = vec![result, item.clone()];
        if arity >= 3 && arity != usize::MAX {
            given.push(Value::Number(at as f64));
        }
        if arity >= 4 && arity != usize::MAX {
            given.push(argument(arguments, 0).clone());
        }
        result = evaluator.apply(function, given, &Value::Undefined, None)?;
    }
    Ok(result)
}

pub fn each(evaluator: &mut Evaluator, arguments: &[Value], _: &Value) -> Answer {
    let (Value::Object(object), function) = (argument(arguments, 0), argument(arguments, 1)) else {
        return Ok(Value::Undefined);
    };
    let mut results = Vec::new();
    for (key, value) in &object.0 {
        let result = call(evaluator, function, value, Value::String(key.clone()), argument(arguments, 0))?;
        if !result.is_undefined() {
            results.push(result);
        }
    }
    evaluator.sequence(results)
}

pub fn sift(evaluator: &mut Evaluator, arguments: &[Value], _: &Value) -> Answer {
    let (Value::Object(object), function) = (argument(arguments, 0), argument(arguments, 1)) else {
        return Ok(Value::Undefined);
    };
    let mut fields: IndexMap<Rc<str>, Value> = IndexMap::new();
    for (key, value) in &object.0 {
        if call(evaluator, function, value, Value::String(key.clone()), argument(arguments, 0))?.is_true() {
            evaluator.spend(64)?;
            fields.insert(key.clone(), value.clone());
        }
    }
    Ok(if fields.is_empty() { Value::Undefined } else { Value::object(fields) })
}
