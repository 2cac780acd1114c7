//! Kubernetes quantities: `quantity('1.5Gi').isGreaterThan(quantity('1G'))`. Exact to a billionth, as upstream.

use super::{Evaluated, Row, Site, mismatch};
use crate::error::EvalError;
use crate::value::Value;

const NANO: i128 = 1_000_000_000;

/// In billionths.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Quantity(i128);

pub const TABLE: &[Row] = &[
    ("string_to_quantity", "quantity(string) -> quantity", |_, args| match &args[0] {
        Value::String(text) => Quantity::parse(text).map(Value::Quantity).ok_or_else(|| {
            EvalError::failed(
                "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'",
            )
        }),
        _ => mismatch(),
    }),
    ("is_quantity_string", "isQuantity(string) -> bool", |_, args| match &args[0] {
        Value::String(text) => Ok(Value::Bool(Quantity::parse(text).is_some())),
        _ => mismatch(),
    }),
    ("quantity_sign", "quantity::sign() -> int", |_, args| match &args[0] {
        Value::Quantity(quantity) => Ok(Value::Int(quantity.0.signum() as i64)),
        _ => mismatch(),
    }),
    ("quantity_is_greater_than", "quantity::isGreaterThan(quantity) -> bool", |_, args| match args {
        [Value::Quantity(one), Value::Quantity(two)] => Ok(Value::Bool(one > two)),
        _ => mismatch(),
    }),
    ("quantity_is_less_than", "quantity::isLessThan(quantity) -> bool", |_, args| match args {
        [Value::Quantity(one), Value::Quantity(two)] => Ok(Value::Bool(one < two)),
        _ => mismatch(),
    }),
    ("quantity_compare_to", "quantity::compareTo(quantity) -> int", |_, args| match args {
        [Value::Quantity(one), Value::Quantity(two)] => Ok(Value::Int(one.cmp(two) as i64)),
        _ => mismatch(),
    }),
    ("quantity_get_float", "quantity::asApproximateFloat() -> double", |_, args| match &args[0] {
        Value::Quantity(quantity) => Ok(Value::Double(quantity.0 as f64 / NANO as f64)),
        _ => mismatch(),
    }),
    ("quantity_get_int", "quantity::asInteger() -> int", |_, args| match &args[0] {
        Value::Quantity(quantity) => match quantity.whole() {
            Some(number) => Ok(Value::Int(number)),
            None => Err(EvalError::failed("cannot convert value to integer")),
        },
        _ => mismatch(),
    }),
    ("quantity_is_integer", "quantity::isInteger() -> bool", |_, args| match &args[0] {
        Value::Quantity(quantity) => Ok(Value::Bool(quantity.whole().is_some())),
        _ => mismatch(),
    }),
    ("quantity_add", "quantity::add(quantity) -> quantity", |site, args| combine(site, args, 1)),
    ("quantity_add_int", "quantity::add(int) -> quantity", |site, args| combine(site, args, 1)),
    ("quantity_sub", "quantity::sub(quantity) -> quantity", |site, args| combine(site, args, -1)),
    ("quantity_sub_int", "quantity::sub(int) -> quantity", |site, args| combine(site, args, -1)),
];

fn combine<'a>(_: &Site, args: &[Value<'a>], sign: i128) -> Evaluated<'a> {
    let (one, two) = match args {
        [Value::Quantity(one), Value::Quantity(two)] => (one.0, two.0),
        [Value::Quantity(one), Value::Int(two)] => (one.0, i128::from(*two) * NANO),
        _ => return mismatch(),
    };
    Ok(Value::Quantity(Quantity(one.saturating_add(two.saturating_mul(sign)))))
}

impl Quantity {
    pub fn parse(text: &str) -> Option<Self> {
        let (sign, unsigned) = match text.as_bytes().first()? {
            b'-' => (-1, &text[1..]),
            b'+' => (1, &text[1..]),
            _ => (1, text),
        };
        let end = unsigned.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(unsigned.len());
        let (number, suffix) = unsigned.split_at(end);
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        if whole.len() + fraction.len() == 0 || fraction.contains('.') {
            return None;
        }
        let (binary, decimal) = scale(suffix)?;
        let mut digits = String::from(whole) + fraction;
        // Far more digits than the result keeps.
        let dropped = digits.len().saturating_sub(30);
        digits.truncate(30);
        let mantissa: i128 = digits.parse().ok()?;
        let exponent = decimal + dropped as i32 - fraction.len() as i32 + 9;
        let scaled = mantissa.saturating_mul(1_i128 << binary);
        let billionths = if exponent >= 0 {
            scaled.saturating_mul(10_i128.saturating_pow(exponent.unsigned_abs()))
        } else {
            let by = 10_i128.saturating_pow(exponent.unsigned_abs());
            // Away from zero, so that a little never becomes nothing.
            scaled / by + i128::from(scaled % by != 0)
        };
        Some(Quantity(sign * billionths))
    }

    fn whole(self) -> Option<i64> {
        (self.0 % NANO == 0).then(|| i64::try_from(self.0 / NANO).ok()).flatten()
    }
}

/// The powers of two and of ten that a suffix stands for.
fn scale(suffix: &str) -> Option<(u32, i32)> {
    Some(match suffix {
        "" => (0, 0),
        "n" => (0, -9),
        "u" => (0, -6),
        "m" => (0, -3),
        "k" => (0, 3),
        "M" => (0, 6),
        "G" => (0, 9),
        "T" => (0, 12),
        "P" => (0, 15),
        "E" => (0, 18),
        "Ki" => (10, 0),
        "Mi" => (20, 0),
        "Gi" => (30, 0),
        "Ti" => (40, 0),
        "Pi" => (50, 0),
        "Ei" => (60, 0),
        exponent => {
            let exponent: i32 = exponent.strip_prefix(['e', 'E'])?.parse().ok()?;
            (0, exponent.clamp(-60, 60))
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_are_exact() {
        for (text, expected) in [
            ("1", Some(NANO)),
            ("1.5k", Some(1500 * NANO)),
            ("1Ki", Some(1024 * NANO)),
            ("100m", Some(NANO / 10)),
            ("0.1n", Some(1)),
            ("-2e3", Some(-2000 * NANO)),
            ("1E", Some(1_000_000_000_000_000_000 * NANO)),
            ("", None),
            (".", None),
            ("1ki", None),
            ("1.2.3", None),
        ] {
            assert_eq!(Quantity::parse(text).map(|quantity| quantity.0), expected, "{text}");
        }
    }
}
