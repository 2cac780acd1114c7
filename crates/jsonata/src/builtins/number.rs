//! Functions on numbers.

use super::{argument, short};
use crate::error::Error;
use crate::evaluate::Evaluator;
use crate::value::Value;

type Answer = Result<Value, Error>;

fn numbers(value: &Value) -> Option<Vec<f64>> {
    value.as_array().map(|array| array.items.iter().filter_map(Value::as_number).collect())
}

pub fn sum(_: &mut Evaluator, arguments: &[Value], _: &Value) -> Answer {
    Ok(numbers(argument(arguments, 0)).map_or(Value::Undefined, |all| Value::Number(all.iter().sum())))
}

pub fn count(_: &mut Evaluator, arguments: &[Value], _: &Value) -> Answer {
    Ok(Value::Number(argument(arguments, 0).as_array().map_or(0.0, |array| array.items.len() as f64)))
}

pub fn max(_: &mut Evaluator, arguments: &[Value], _: &Value) -> Answer {
    let all = numbers(argument(arguments, 0)).unwrap_or_default();
    Ok(all.into_iter().reduce(f64::max).map_or(Value::Undefined, Value::Number))
}

pub fn min(_: &mut Evaluator, arguments: &[Value], _: &Value) -> Answer {
    let all = numbers(argument(arguments, 0)).unwrap_or_default();
    Ok(all.into_iter().reduce(f64::min).map_or(Value::Undefined, Value::Number))
}

pub fn average(_: &mut Evaluator, arguments: &[Value], _: &Value) -> Answer {
    let all = numbers(argument(arguments, 0)).unwrap_or_default();
    if all.is_empty() {
        return Ok(Value::Undefined);
    }
    Ok(Value::Number(all.iter().sum::<f64>() / all.len() as f64))
}

pub fn number(_: &mut Evaluator, arguments: &[Value], _: &Value) -> Answer {
    match argument(arguments, 0) {
        Value::Number(number) => Ok(Value::Number(*number)),
        Value::Boolean(value) => Ok(Value::Number(f64::from(u8::from(*value)))),
        Value::String(text) => {
            let refused = || Error::new("D3030", format!("Unable to cast value to a number: \"{text}\""));
            let prefixed = |radix: u32| u64::from_str_radix(&text[2..], radix).map(|number| number as f64);
            let lower = text.get(..2).map(str::to_ascii_lowercase);
            let number = match lower.as_deref() {
                Some("0x") => prefixed(16).map_err(|_| refused())?,
                Some("0o") => prefixed(8).map_err(|_| refused())?,
                Some("0b") => prefixed(2).map_err(|_| refused())?,
                _ if is_number(text) => text.parse().map_err(|_| refused())?,
                _ => return Err(refused()),
            };
            if number.is_finite() { Ok(Value::Number(number)) } else { Err(refused()) }
        }
        _ => Ok(Value::Undefined),
    }
}

/// As JSON writes numbers, but for leading zeros: no bare points, no signs but minus.
fn is_number(text: &str) -> bool {
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let text = text.strip_prefix('-').unwrap_or(text);
    let (mantissa, exponent) = match text.find(['e', 'E']) {
        Some(at) => (&text[..at], Some(&text[at + 1..])),
        None => (text, None),
    };
    let (whole, fraction) = match mantissa.split_once('.') {
        Some((whole, fraction)) => (whole, Some(fraction)),
        None => (mantissa, None),
    };
    digits(whole)
        && fraction.is_none_or(digits)
        && exponent.is_none_or(|exponent| digits(exponent.strip_prefix(['+', '-']).unwrap_or(exponent)))
}

fn unary(arguments: &[Value], operation: impl Fn(f64) -> f64) -> Value {
    match argument(arguments, 0) {
        Value::Number(number) => {
            let result = operation(*number);
            Value::Number(if result == 0.0 { 0.0 } else { result })
        }
        _ => Value::Undefined,
    }
}

pub fn floor(_: &mut Evaluator, arguments: &[Value], _: &Value) -> Answer {
    Ok(unary(arguments, f64::floor))
}

pub fn ceil(_: &mut Evaluator, arguments: &[Value], _: &Value) -> Answer {
    Ok(unary(arguments, f64::ceil))
}

pub fn abs(_: &mut Evaluator, arguments: &[Value], _: &Value) -> Answer {
    Ok(unary(arguments, f64::abs))
}

pub fn round(_: &mut Evaluator, arguments: &[Value], _: &Value) -> Answer {
    let precision = argument(arguments, 1).as_number().unwrap_or(0.0);
    Ok(unary(arguments, |number| round_to(number, precision.clamp(-400.0, 400.0) as i32)))
}

/// Half to even, shifting the decimal point in the text so that no digit is lost.
pub fn round_to(number: f64, precision: i32) -> f64 {
    let shift = |number: f64, by: i32| {
        if by == 0 {
            return number;
        }
        let text = format!("{number:e}");
        let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "0"));
        let exponent = exponent.parse::<i32>().unwrap_or(0) + by;
        format!("{mantissa}e{exponent}").parse().unwrap_or(number)
    };
    let shifted = shift(number, precision);
    let mut rounded = (shifted + 0.5).floor();
    if (rounded - shifted).abs() == 0.5 && (rounded % 2.0).abs() == 1.0 {
        rounded -= 1.0;
    }
    let result = shift(rounded, -precision);
    if result == 0.0 { 0.0 } else { result }
}

pub fn sqrt(_: &mut Evaluator, arguments: &[Value], _: &Value) -> Answer {
    match argument(arguments, 0) {
        Value::Number(number) if *number < 0.0 => Err(Error::new(
            "D3060",
            format!("The sqrt function cannot be applied to a negative number: {number}"),
        )),
        Value::Number(number) => Ok(Value::Number(number.sqrt())),
        _ => Ok(Value::Undefined),
    }
}

pub fn power(evaluator: &mut Evaluator, arguments: &[Value], _: &Value) -> Answer {
    let (Value::Number(base), exponent) = (argument(arguments, 0), argument(arguments, 1).as_number()) else {
        return Ok(Value::Undefined);
    };
    let result = base.powf(exponent.unwrap_or(f64::NAN));
    if !result.is_finite() {
        let message = format!(
            "The power function has resulted in a value that cannot be represented as a JSON number: base={}, \
             exponent={}",
            evaluator.show(argument(arguments, 0)),
            evaluator.show(argument(arguments, 1))
        );
        return Err(Error::new("D3061", message));
    }
    Ok(Value::Number(result))
}

pub fn random(evaluator: &mut Evaluator, _: &[Value], _: &Value) -> Answer {
    Ok(Value::Number((evaluator.draw() >> 11) as f64 / (1u64 << 53) as f64))
}

pub fn format_base(evaluator: &mut Evaluator, arguments: &[Value], _: &Value) -> Answer {
    let Value::Number(number) = argument(arguments, 0) else { return Ok(Value::Undefined) };
    let radix = match argument(arguments, 1) {
        Value::Number(radix) => round_to(*radix, 0),
        _ => 10.0,
    };
    if !(2.0..=36.0).contains(&radix) {
        return Err(Error::new(
            "D3100",
            format!("The radix of the formatBase function must be between 2 and 36.  It was given {radix}"),
        ));
    }
    let number = round_to(*number, 0);
    let mut rest = number.abs() as u128;
    let mut digits = Vec::new();
    while rest > 0 || digits.is_empty() {
        digits.push(char::from_digit((rest % radix as u128) as u32, radix as u32).unwrap_or('0'));
        rest /= radix as u128;
    }
    if number < 0.0 {
        digits.push('-');
    }
    evaluator.text(digits.into_iter().rev().collect())
}

pub fn format_number(evaluator: &mut Evaluator, arguments: &[Value], _: &Value) -> Answer {
    let (Value::Number(number), Value::String(picture)) = (argument(arguments, 0), argument(arguments, 1))
    else {
        return Ok(Value::Undefined);
    };
    short(picture)?;
    evaluator.spend(picture.len() * 8 + 400)?;
    let text = crate::number_picture::format(*number, picture, argument(arguments, 2))?;
    evaluator.text(text)
}

pub fn format_integer(evaluator: &mut Evaluator, arguments: &[Value], _: &Value) -> Answer {
    let (Value::Number(number), Value::String(picture)) = (argument(arguments, 0), argument(arguments, 1))
    else {
        return Ok(Value::Undefined);
    };
    short(picture)?;
    evaluator.spend(picture.len() * 4 + 400)?;
    let format = crate::integer_picture::IntegerFormat::parse(picture)?;
    let text = format.format(number.floor())?;
    evaluator.text(text)
}

pub fn parse_integer(_: &mut Evaluator, arguments: &[Value], _: &Value) -> Answer {
    let (Value::String(text), Value::String(picture)) = (argument(arguments, 0), argument(arguments, 1))
    else {
        return Ok(Value::Undefined);
    };
    short(picture)?;
    let format = crate::integer_picture::IntegerFormat::parse(picture)?;
    Ok(format.parse_text(text)?.map_or(Value::Undefined, Value::Number))
}
