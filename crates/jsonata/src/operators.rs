//! Binary operators on values.

use crate::ast::Operator;
use crate::error::Error;
use crate::evaluate::Evaluator;
use crate::value::Value;

/// The longest range, as the reference has it.
const LONGEST_RANGE: f64 = 1e7;

pub fn binary(evaluator: &mut Evaluator, operator: Operator, a: &Value, b: &Value) -> Result<Value, Error> {
    match operator {
        Operator::Add | Operator::Subtract | Operator::Multiply | Operator::Divide | Operator::Modulo => {
            arithmetic(operator, a, b)
        }
        Operator::Equal => Ok(Value::Boolean(!a.is_undefined() && !b.is_undefined() && a.equals(b))),
        Operator::NotEqual => Ok(Value::Boolean(!a.is_undefined() && !b.is_undefined() && !a.equals(b))),
        Operator::Less | Operator::LessEqual | Operator::Greater | Operator::GreaterEqual => {
            comparison(evaluator, operator, a, b)
        }
        Operator::Concatenate => {
            let (a, b) =
                (crate::json::string(evaluator, a, false)?, crate::json::string(evaluator, b, false)?);
            evaluator.spend(a.len() + b.len())?;
            Ok(Value::text(format!("{a}{b}")))
        }
        Operator::In => {
            if a.is_undefined() || b.is_undefined() {
                return Ok(Value::Boolean(false));
            }
            Ok(Value::Boolean(match b {
                Value::Array(array) => array.items.iter().any(|item| item.equals(a)),
                b => b.equals(a),
            }))
        }
        Operator::Range => range(evaluator, a, b),
        _ => Err(Error::new("S0201", format!("Syntax error: {}", operator.text()))),
    }
}

fn arithmetic(operator: Operator, a: &Value, b: &Value) -> Result<Value, Error> {
    for (value, code, side) in [(a, "T2001", "left"), (b, "T2002", "right")] {
        if !matches!(value, Value::Undefined | Value::Number(_)) {
            let message =
                format!("The {side} side of the {:?} operator must evaluate to a number", operator.text());
            return Err(Error::new(code, message));
        }
    }
    let (Some(a), Some(b)) = (a.as_number(), b.as_number()) else { return Ok(Value::Undefined) };
    let result = match operator {
        Operator::Add => a + b,
        Operator::Subtract => a - b,
        Operator::Multiply => a * b,
        Operator::Divide => a / b,
        _ => a % b,
    };
    if !result.is_finite() {
        return Err(Error::new("D1001", format!("Number out of range: {result}")));
    }
    Ok(Value::Number(result))
}

fn comparison(evaluator: &Evaluator, operator: Operator, a: &Value, b: &Value) -> Result<Value, Error> {
    let comparable = |value: &Value| matches!(value, Value::Undefined | Value::Number(_) | Value::String(_));
    if !comparable(a) || !comparable(b) {
        let message = format!(
            "The expressions either side of operator {:?} must evaluate to numeric or string values",
            operator.text()
        );
        return Err(Error::new("T2010", message));
    }
    use std::cmp::Ordering;
    let order = match (a, b) {
        (Value::Undefined, _) | (_, Value::Undefined) => return Ok(Value::Undefined),
        (Value::Number(a), Value::Number(b)) => a.partial_cmp(b).unwrap_or(Ordering::Equal),
        (Value::String(a), Value::String(b)) => a.encode_utf16().cmp(b.encode_utf16()),
        _ => {
            let message = format!(
                "The values {} and {} either side of operator {:?} must be of the same data type",
                evaluator.show(a),
                evaluator.show(b),
                operator.text()
            );
            return Err(Error::new("T2009", message));
        }
    };
    Ok(Value::Boolean(match operator {
        Operator::Less => order.is_lt(),
        Operator::LessEqual => order.is_le(),
        Operator::Greater => order.is_gt(),
        _ => order.is_ge(),
    }))
}

fn range(evaluator: &mut Evaluator, a: &Value, b: &Value) -> Result<Value, Error> {
    for (value, code, side) in [(a, "T2003", "left"), (b, "T2004", "right")] {
        let whole = matches!(value, Value::Number(number) if number.fract() == 0.0);
        if !whole && !value.is_undefined() {
            let message = format!("The {side} side of the range operator (..) must evaluate to an integer");
            return Err(Error::new(code, message));
        }
    }
    let (Some(a), Some(b)) = (a.as_number(), b.as_number()) else { return Ok(Value::Undefined) };
    if a > b {
        return Ok(Value::Undefined);
    }
    let count = b - a + 1.0;
    if count > LONGEST_RANGE {
        let message = format!(
            "The size of the sequence allocated by the range operator (..) must not exceed 1e7.  Attempted to allocate {count}."
        );
        return Err(Error::new("D2014", message));
    }
    evaluator.spend_items(count as usize)?;
    Ok(Value::sequence((0..count as usize).map(|at| Value::Number(a + at as f64)).collect()))
}
