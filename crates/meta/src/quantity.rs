//! Resource quantities: `500m`, `1.5Gi`, `2e3`.
//!
//! A quantity is exact: a whole number of nano units in an `i128`, beside the family of suffixes in which
//! it was written. Two quantities are equal when their values are, however they were written. Fractions
//! below one nano round away from zero and values beyond 2⁶³-1 are cut to it, as Kubernetes does.

use std::cmp::Ordering;
use std::fmt;
use std::iter::Sum;
use std::ops::{Add, AddAssign, Sub, SubAssign};
use std::str::FromStr;

use k8s_openapi::apimachinery::pkg::api::resource::Quantity as WireQuantity;
use serde_json::Value;

const NANO: i128 = 1_000_000_000;
const MAX: i128 = i64::MAX as i128 * NANO;

/// An amount of a resource.
#[derive(Debug, Clone, Copy)]
pub struct Quantity {
    nanos: i128,
    format: Format,
}

/// The suffixes in which a quantity is printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Format {
    /// `m`, none, `k`, `M`, ...
    #[default]
    DecimalSi,
    /// `Ki`, `Mi`, `Gi`, ...
    BinarySi,
    /// `e3`, `e6`, ...
    DecimalExponent,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum QuantityError {
    #[error("quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'")]
    Format,
    #[error("unable to parse quantity's suffix")]
    Suffix,
}

impl Quantity {
    pub const ZERO: Quantity = Quantity { nanos: 0, format: Format::DecimalSi };

    pub fn parse(text: &str) -> Result<Self, QuantityError> {
        let (negative, rest) = match text.as_bytes().first() {
            Some(b'-') => (true, &text[1..]),
            Some(b'+') => (false, &text[1..]),
            _ => (false, text),
        };
        let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
        let (number, suffix) = rest.split_at(end);
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        if fraction.contains('.') || (whole.is_empty() && fraction.is_empty()) {
            return Err(QuantityError::Format);
        }
        let (unit, format) = unit(suffix)?;
        let nanos = match unit {
            Unit::Power1024(power) => binary_nanos(whole, fraction, power),
            Unit::Power10(power) => decimal_nanos(whole, fraction, power),
        };
        let nanos = nanos.map_or(MAX, |n| n.min(MAX));
        Ok(Quantity { nanos: if negative { -nanos } else { nanos }, format })
    }

    /// From JSON: users write both `"500m"` and plain numbers.
    pub fn from_json(value: &Value) -> Result<Self, QuantityError> {
        match value {
            Value::String(text) => Quantity::parse(text),
            Value::Number(number) => Quantity::parse(&number.to_string()),
            _ => Err(QuantityError::Format),
        }
    }

    /// Whole units: bytes, cores, pods.
    pub fn new(value: i64, format: Format) -> Self {
        Quantity { nanos: i128::from(value) * NANO, format }
    }

    /// Thousandths: CPU.
    pub fn from_milli(milli: i64) -> Self {
        Quantity { nanos: i128::from(milli) * (NANO / 1000), format: Format::DecimalSi }
    }

    /// In whole units, rounded up.
    pub fn value(&self) -> i64 {
        self.scaled(NANO)
    }

    /// In thousandths, rounded up.
    pub fn milli(&self) -> i64 {
        self.scaled(NANO / 1000)
    }

    /// How many of a (positive) unit it is, rounded up.
    pub fn in_units_of(&self, unit: Quantity) -> i64 {
        self.scaled(unit.nanos.max(1))
    }

    pub fn is_zero(&self) -> bool {
        self.nanos == 0
    }

    pub fn is_negative(&self) -> bool {
        self.nanos < 0
    }

    /// Whether the value is a whole number of thousandths: finer CPU amounts have no meaning.
    pub fn is_whole_milli(&self) -> bool {
        self.nanos % (NANO / 1000) == 0
    }

    /// Whether the value is a whole number.
    pub fn is_whole(&self) -> bool {
        self.nanos % NANO == 0
    }

    /// The next larger whole number of thousandths.
    pub fn rounded_up_to_milli(self) -> Self {
        let unit = NANO / 1000;
        let up = i128::from(self.nanos.rem_euclid(unit) != 0);
        Quantity { nanos: (self.nanos.div_euclid(unit) + up) * unit, ..self }
    }

    pub fn format(&self) -> Format {
        self.format
    }

    fn scaled(&self, unit: i128) -> i64 {
        let quotient = self.nanos.div_euclid(unit);
        let up = i128::from(self.nanos.rem_euclid(unit) != 0);
        i64::try_from(quotient + up).unwrap_or(if quotient < 0 { i64::MIN } else { i64::MAX })
    }

    /// The sum in this quantity's format; zero has none of its own.
    fn plus(self, nanos: i128, other: Format) -> Self {
        let format = if self.is_zero() { other } else { self.format };
        Quantity { nanos: self.nanos.saturating_add(nanos), format }
    }
}

enum Unit {
    Power10(i32),
    Power1024(u32),
}

fn unit(suffix: &str) -> Result<(Unit, Format), QuantityError> {
    let decimal = |power| Ok((Unit::Power10(power), Format::DecimalSi));
    let binary = |power| Ok((Unit::Power1024(power), Format::BinarySi));
    match suffix {
        "n" => decimal(-9),
        "u" => decimal(-6),
        "m" => decimal(-3),
        "" => decimal(0),
        "k" => decimal(3),
        "M" => decimal(6),
        "G" => decimal(9),
        "T" => decimal(12),
        "P" => decimal(15),
        "E" => decimal(18),
        "Ki" => binary(1),
        "Mi" => binary(2),
        "Gi" => binary(3),
        "Ti" => binary(4),
        "Pi" => binary(5),
        "Ei" => binary(6),
        _ => exponent(suffix),
    }
}

/// `e3`, `E-6`.
fn exponent(suffix: &str) -> Result<(Unit, Format), QuantityError> {
    let digits = suffix.strip_prefix(['e', 'E']);
    let known = |c: char| "eEinumkKMGTP+-".contains(c) || c.is_ascii_digit();
    let unknown = if suffix.chars().all(known) { QuantityError::Suffix } else { QuantityError::Format };
    let power = digits.and_then(|digits| digits.parse::<i64>().ok()).ok_or(unknown)?;
    let power = i32::try_from(power.clamp(-1000, 1000)).unwrap_or_default();
    Ok((Unit::Power10(power), Format::DecimalExponent))
}

/// None is more than fits.
fn decimal_nanos(whole: &str, fraction: &str, power: i32) -> Option<i128> {
    // The number is `digits` × 10^(power - fraction.len()); shift it to nanos by moving the point.
    let digits = format!("{whole}{fraction}");
    let leading_zeros = digits.len() - digits.trim_start_matches('0').len();
    let significant = &digits[leading_zeros..];
    if significant.is_empty() {
        return Some(0);
    }
    let point =
        i64::try_from(whole.len()).ok()? + i64::from(power) + 9 - i64::try_from(leading_zeros).ok()?;
    if point > 38 {
        return None;
    }
    if point <= 0 {
        return Some(1);
    }
    let point = usize::try_from(point).ok()?;
    let (kept, cut) = significant.split_at(point.min(significant.len()));
    let zeros = u32::try_from(point - kept.len()).ok()?;
    let nanos = kept.parse::<i128>().ok()?.checked_mul(10_i128.checked_pow(zeros)?)?;
    Some(nanos + i128::from(cut.bytes().any(|b| b != b'0')))
}

/// None is more than fits. Digits beyond the twentieth of the fraction only round up.
fn binary_nanos(whole: &str, fraction: &str, power: u32) -> Option<i128> {
    let unit = 1024_i128.pow(power);
    let whole: i128 =
        if whole.is_empty() { 0 } else { whole.trim_start_matches('0').parse().or_else(zero).ok()? };
    let (kept, cut) = fraction.split_at(fraction.len().min(20));
    let numerator: i128 = if kept.is_empty() { 0 } else { kept.parse().ok()? };
    let numerator = numerator.checked_mul(unit)?;
    let digits = u32::try_from(kept.len()).ok()?;
    let (nanos, rest) = match digits.checked_sub(9) {
        Some(beyond) => {
            let divisor = 10_i128.pow(beyond);
            (numerator / divisor, numerator % divisor)
        }
        None => (numerator.checked_mul(10_i128.pow(9 - digits))?, 0),
    };
    let up = rest != 0 || cut.bytes().any(|b| b != b'0');
    whole.checked_mul(unit)?.checked_mul(NANO)?.checked_add(nanos)?.checked_add(i128::from(up))
}

/// A number of zeros only has no digits left once they are trimmed.
fn zero(error: std::num::ParseIntError) -> Result<i128, std::num::ParseIntError> {
    if *error.kind() == std::num::IntErrorKind::Empty { Ok(0) } else { Err(error) }
}

/// The canonical form: no fraction, the largest suffix that keeps it exact.
impl fmt::Display for Quantity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let small = self.nanos.abs() < 1024 * NANO;
        if self.format == Format::BinarySi && !small && self.is_whole() {
            let (number, power) = without_factors(self.nanos / NANO, 1024, 6);
            let suffix = ["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"][power];
            return write!(f, "{number}{suffix}");
        }
        let (number, power) = without_factors(self.nanos, 1000, 9);
        if self.format == Format::DecimalExponent {
            return match 3 * i64::try_from(power).unwrap_or_default() - 9 {
                _ if number == 0 => f.write_str("0"),
                0 => write!(f, "{number}"),
                exponent => write!(f, "{number}e{exponent}"),
            };
        }
        let suffix = ["n", "u", "m", "", "k", "M", "G", "T", "P", "E"][power];
        if number == 0 { f.write_str("0") } else { write!(f, "{number}{suffix}") }
    }
}

/// Divides by `factor` as long as it stays whole, at most `most` times.
fn without_factors(mut number: i128, factor: i128, most: usize) -> (i128, usize) {
    let mut times = 0;
    while times < most && number != 0 && number % factor == 0 {
        number /= factor;
        times += 1;
    }
    (number, times)
}

impl PartialEq for Quantity {
    fn eq(&self, other: &Self) -> bool {
        self.nanos == other.nanos
    }
}

impl Eq for Quantity {}

impl PartialOrd for Quantity {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Quantity {
    fn cmp(&self, other: &Self) -> Ordering {
        self.nanos.cmp(&other.nanos)
    }
}

impl Default for Quantity {
    fn default() -> Self {
        Quantity::ZERO
    }
}

impl FromStr for Quantity {
    type Err = QuantityError;

    fn from_str(text: &str) -> Result<Self, QuantityError> {
        Quantity::parse(text)
    }
}

impl TryFrom<&WireQuantity> for Quantity {
    type Error = QuantityError;

    fn try_from(wire: &WireQuantity) -> Result<Self, QuantityError> {
        Quantity::parse(&wire.0)
    }
}

impl From<Quantity> for WireQuantity {
    fn from(quantity: Quantity) -> Self {
        WireQuantity(quantity.to_string())
    }
}

impl Add for Quantity {
    type Output = Quantity;

    fn add(self, other: Quantity) -> Quantity {
        self.plus(other.nanos, other.format)
    }
}

impl Sub for Quantity {
    type Output = Quantity;

    fn sub(self, other: Quantity) -> Quantity {
        self.plus(other.nanos.saturating_neg(), other.format)
    }
}

impl AddAssign for Quantity {
    fn add_assign(&mut self, other: Quantity) {
        *self = *self + other;
    }
}

impl SubAssign for Quantity {
    fn sub_assign(&mut self, other: Quantity) {
        *self = *self - other;
    }
}

impl Sum for Quantity {
    fn sum<I: Iterator<Item = Quantity>>(quantities: I) -> Quantity {
        quantities.fold(Quantity::ZERO, Add::add)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn check(text: &str, printed: &str) {
        assert_eq!(Quantity::parse(text).expect(text).to_string(), printed, "{text}");
    }

    #[test]
    fn canonical_form() {
        for (text, printed) in [
            ("0", "0"),
            ("0Gi", "0"),
            ("-0.0m", "0"),
            ("0e5", "0"),
            ("1", "1"),
            ("+1", "1"),
            ("0.5", "500m"),
            (".5", "500m"),
            ("5.", "5"),
            ("1000m", "1"),
            ("100000", "100k"),
            ("1500", "1500"),
            ("1500k", "1500k"),
            ("1.5Gi", "1536Mi"),
            ("1024Mi", "1Gi"),
            ("1023Ki", "1023Ki"),
            ("0.1Ki", "102400m"),
            ("1.1Ki", "1126400m"),
            ("512Ki", "512Ki"),
            ("-2Mi", "-2Mi"),
            ("1e3", "1e3"),
            ("1E3", "1e3"),
            ("12e6", "12e6"),
            ("1E", "1E"),
            ("1.2e-3", "1200e-6"),
            ("100u", "100u"),
            ("0.0000000001", "1n"),
            ("-0.0000000001", "-1n"),
            ("1e-400", "1e-9"),
            ("1e400", "9223372036854775807"),
            ("100E", "9223372036854775807"),
            ("-100Ei", "-9223372036854775807"),
            ("9223372036854775808", "9223372036854775807"),
        ] {
            check(text, printed);
        }
    }

    #[test]
    fn refused() {
        for text in
            ["", ".", "-", "1.2.3", "1 Gi", "abc", "1x", "1K", "1kI", "1e", "1ee3", "1e3.5", "Gi", "１"]
        {
            assert!(Quantity::parse(text).is_err(), "{text:?}");
        }
    }

    #[test]
    fn rounding_goes_up() {
        let quantity = |text| Quantity::parse(text).expect(text);
        assert_eq!((quantity("1m").value(), quantity("1500u").milli()), (1, 2));
        assert_eq!((quantity("-1500m").value(), quantity("100Mi").value()), (-1, 104_857_600));
        assert_eq!(
            (quantity("1500m").in_units_of(quantity("1m")), quantity("1Gi").in_units_of(quantity("1Mi"))),
            (1500, 1024)
        );
        assert_eq!(
            (quantity("8Ei").in_units_of(quantity("1m")), quantity("1001Ki").in_units_of(quantity("1Mi"))),
            (i64::MAX, 1)
        );
    }

    #[test]
    fn sums_keep_the_format_of_the_first() {
        let quantity = |text| Quantity::parse(text).expect(text);
        assert_eq!((quantity("1Gi") + quantity("1024k")).to_string(), "1049576Ki");
        assert_eq!((Quantity::ZERO + quantity("1Gi")).to_string(), "1Gi");
        assert_eq!((quantity("1") - quantity("1500m")).to_string(), "-500m");
        assert_eq!([quantity("1"), quantity("200m")].into_iter().sum::<Quantity>().milli(), 1200);
    }

    proptest! {
        #[test]
        fn printing_keeps_the_value(nanos in -MAX..=MAX, format in 0..3) {
            let format = [Format::DecimalSi, Format::BinarySi, Format::DecimalExponent][format as usize];
            let quantity = Quantity { nanos, format };
            let printed = quantity.to_string();
            let parsed = Quantity::parse(&printed).expect("printed form");
            prop_assert_eq!(parsed, quantity, "{}", printed);
            prop_assert_eq!(parsed.to_string(), printed);
        }

        #[test]
        fn never_panics(text in "[-+]?[0-9.]{0,60}[eEinumkKMGTP]{0,2}[-+]?[0-9]{0,30}") {
            if let Ok(quantity) = Quantity::parse(&text) {
                prop_assert!(quantity.nanos.abs() <= MAX);
                prop_assert_eq!(Quantity::parse(&quantity.to_string()), Ok(quantity));
            }
        }

        #[test]
        fn suffixes_agree_with_arithmetic(number in 0_i64..1_000_000, power in 0_u32..4) {
            let suffix = ["", "Ki", "Mi", "Gi"][power as usize];
            let parsed = Quantity::parse(&format!("{number}{suffix}")).expect("valid");
            prop_assert_eq!(parsed.value(), number * 1024_i64.pow(power));
        }
    }
}
