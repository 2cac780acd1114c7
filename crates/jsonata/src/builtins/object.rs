//! Functions on objects, conditions and errors.

use std::rc::Rc;

use indexmap::IndexMap;

use super::argument;
use crate::error::Error;
use crate::evaluate::Evaluator;
use crate::value::Value;

type Answer = Result<Value, Error>;

pub fn boolean(_: &mut Evaluator, arguments: &[Value], _: &Value) -> Answer {
    Ok(argument(arguments, 0).truth().map_or(Value::Undefined, Value::Boolean))
}

pub fn not(_: &mut Evaluator, arguments: &[Value], _: &Value) -> Answer {
    Ok(argument(arguments, 0).truth().map_or(Value::Undefined, |truth| Value::Boolean(!truth)))
}

pub fn exists(_: &mut Evaluator, arguments: &[Value], _: &Value) -> Answer {
    Ok(Value::Boolean(!argument(arguments, 0).is_undefined()))
}

pub fn keys(evaluator: &mut Evaluator, arguments: &[Value], _: &Value) -> Answer {
    let mut found: IndexMap<Rc<str>, ()> = IndexMap::new();
    collect_keys(argument(arguments, 0), &mut found);
    let keys = found.into_keys().map(Value::String).collect();
    evaluator.sequence(keys)
}

fn collect_keys(value: &Value, found: &mut IndexMap<Rc<str>, ()>) {
    match value {
        Value::Array(array) => array.items.iter().for_each(|item| collect_keys(item, found)),
        Value::Object(object) => object.0.keys().for_each(|key| {
            found.insert(key.clone(), ());
        }),
        _ => {}
    }
}

pub fn lookup(evaluator: &mut Evaluator, arguments: &[Value], _: &Value) -> Answer {
    match argument(arguments, 1) {
        Value::String(key) => evaluator.lookup(argument(arguments, 0), key),
        _ => Ok(Value::Undefined),
    }
}

pub fn spread(evaluator: &mut Evaluator, arguments: &[Value], _: &Value) -> Answer {
    match argument(arguments, 0) {
        Value::Array(array) => {
            let mut all = Vec::new();
            for item in &array.items {
                all.extend(spread(evaluator, std::slice::from_ref(item), &Value::Undefined)?.items());
            }
            evaluator.spend_items(all.len())?;
            // A list of one stays a list.
            Ok(if array.items.is_empty() { Value::Undefined } else { Value::array(all) })
        }
        Value::Object(object) => {
            evaluator.spend(object.0.len() * 96)?;
            let fields = object
                .0
                .iter()
                .map(|(key, value)| Value::object(IndexMap::from([(key.clone(), value.clone())])));
            Ok(Value::sequence(fields.collect()))
        }
        other => Ok(other.clone()),
    }
}

pub fn merge(evaluator: &mut Evaluator, arguments: &[Value], _: &Value) -> Answer {
    let Value::Array(array) = argument(arguments, 0) else { return Ok(Value::Undefined) };
    let mut fields = IndexMap::new();
    for item in &array.items {
        if let Value::Object(object) = item {
            evaluator.spend(object.0.len() * 48)?;
            fields.extend(object.0.iter().map(|(key, value)| (key.clone(), value.clone())));
        }
    }
    Ok(Value::object(fields))
}

pub fn error(_: &mut Evaluator, arguments: &[Value], _: &Value) -> Answer {
    let message = match argument(arguments, 0) {
        Value::String(message) => message.to_string(),
        _ => "$error() function evaluated".into(),
    };
    Err(Error::new("D3137", message))
}

pub fn assert(_: &mut Evaluator, arguments: &[Value], _: &Value) -> Answer {
    if argument(arguments, 0).is_true() {
        return Ok(Value::Undefined);
    }
    let message = match argument(arguments, 1) {
        Value::String(message) => message.to_string(),
        _ => "$assert() statement failed".into(),
    };
    Err(Error::new("D3141", message))
}

pub fn type_of(_: &mut Evaluator, arguments: &[Value], _: &Value) -> Answer {
    Ok(Value::text(match argument(arguments, 0) {
        Value::Undefined | Value::Tail(_) => return Ok(Value::Undefined),
        Value::Null => "null",
        Value::Boolean(_) => "boolean",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
        Value::Function(_) => "function",
    }))
}

pub fn clone(_: &mut Evaluator, arguments: &[Value], _: &Value) -> Answer {
    Ok(argument(arguments, 0).clone())
}

pub fn eval(evaluator: &mut Evaluator, arguments: &[Value], focus: &Value) -> Answer {
    let Value::String(text) = argument(arguments, 0) else { return Ok(Value::Undefined) };
    let input = match argument(arguments, 1) {
        Value::Undefined => focus,
        given => given,
    };
    let (tree, labels) = crate::parse::parse(text).map_err(|error| {
        Error::new("D3120", format!("Syntax error in expression passed to function eval: {error}"))
    })?;
    evaluator.evaluate_other(&tree, labels, input).map_err(|error| match error.code.as_str() {
        "U1001" | "U1002" => error,
        _ => Error::new(
            "D3121",
            format!("Dynamic error evaluating the expression passed to function eval: {error}"),
        ),
    })
}
