//! Quantities (`100m`, `1.5Gi`, `2e3`) as numbers that can be compared and added.

use std::cmp::Ordering;
use std::fmt;
use std::ops::{Add, AddAssign, Sub, SubAssign};

use k8s_openapi::apimachinery::pkg::api::resource::Quantity;

const NANOS: i128 = 1_000_000_000;
/// Far beyond any real amount, and far from overflow when a few of them are added.
const LARGEST: i128 = i128::MAX / (1 << 40);

/// An exact amount. What cannot be parsed counts as nothing: the API server refused it long before.
#[derive(Debug, Clone, Copy, Default)]
pub struct Amount {
    nanos: i128,
    /// Shown with powers of 1024.
    binary: bool,
}

impl Amount {
    pub fn of(quantity: &Quantity) -> Self {
        Amount::parse(&quantity.0).unwrap_or_default()
    }

    pub fn parse(text: &str) -> Option<Self> {
        let text = text.trim();
        let end = text.find(|c: char| !matches!(c, '0'..='9' | '.' | '+' | '-')).unwrap_or(text.len());
        let (number, suffix) = text.split_at(end);
        let (factor, shift, binary) = scale(suffix)?;
        let nanos = decimal_nanos(number, shift)?.checked_mul(factor)?;
        Some(Amount { nanos: nanos.clamp(-LARGEST, LARGEST), binary })
    }

    pub fn from_units(units: i64) -> Self {
        Amount { nanos: i128::from(units) * NANOS, binary: false }
    }

    /// Whole units, rounded up.
    pub fn units(self) -> i64 {
        round_up(self.nanos, NANOS)
    }

    /// Thousandths, rounded up.
    pub fn millis(self) -> i64 {
        round_up(self.nanos, NANOS / 1000)
    }

    pub fn is_zero(self) -> bool {
        self.nanos == 0
    }

    pub fn to_quantity(self) -> Quantity {
        Quantity(self.to_string())
    }
}

/// Factor, decimal exponent, whether binary.
fn scale(suffix: &str) -> Option<(i128, i32, bool)> {
    const KIBI: i128 = 1024;
    Some(match suffix {
        "" => (1, 0, false),
        "n" => (1, -9, false),
        "u" => (1, -6, false),
        "m" => (1, -3, false),
        "k" => (1, 3, false),
        "M" => (1, 6, false),
        "G" => (1, 9, false),
        "T" => (1, 12, false),
        "P" => (1, 15, false),
        "E" => (1, 18, false),
        "Ki" => (KIBI, 0, true),
        "Mi" => (KIBI.pow(2), 0, true),
        "Gi" => (KIBI.pow(3), 0, true),
        "Ti" => (KIBI.pow(4), 0, true),
        "Pi" => (KIBI.pow(5), 0, true),
        "Ei" => (KIBI.pow(6), 0, true),
        _ => (1, suffix.strip_prefix(['e', 'E'])?.parse().ok().filter(|e: &i32| e.abs() <= 18)?, false),
    })
}

/// `12.5` shifted by a power of ten, in nanos; digits below a nano round up, away from zero.
fn decimal_nanos(number: &str, shift: i32) -> Option<i128> {
    let (negative, digits) = match number.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, number.strip_prefix('+').unwrap_or(number)),
    };
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    let all = format!("{whole}{fraction}");
    if all.is_empty() || all.len() > 30 || !all.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    let value: i128 = all.parse().ok()?;
    let exponent = shift + 9 - i32::try_from(fraction.len()).ok()?;
    let nanos = match u32::try_from(exponent) {
        Ok(up) => value.checked_mul(10i128.checked_pow(up)?)?,
        Err(_) => {
            let divisor = 10i128.checked_pow(exponent.unsigned_abs())?;
            value.div_euclid(divisor) + i128::from(value.rem_euclid(divisor) > 0)
        }
    };
    Some(if negative { -nanos } else { nanos })
}

fn round_up(nanos: i128, unit: i128) -> i64 {
    let rounded = nanos.div_euclid(unit) + i128::from(nanos.rem_euclid(unit) > 0);
    i64::try_from(rounded).unwrap_or(if nanos < 0 { i64::MIN } else { i64::MAX })
}

/// The canonical form: the largest suffix that needs no fraction.
impl fmt::Display for Amount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.binary && self.nanos.abs() >= 1024 * NANOS {
            let mut units = self.nanos.div_euclid(NANOS) + i128::from(self.nanos.rem_euclid(NANOS) > 0);
            let mut suffix = "";
            for next in ["Ki", "Mi", "Gi", "Ti", "Pi", "Ei"] {
                if units % 1024 != 0 {
                    break;
                }
                units /= 1024;
                suffix = next;
            }
            return write!(f, "{units}{suffix}");
        }
        if self.nanos == 0 {
            return f.write_str("0");
        }
        let mut value = self.nanos;
        let mut suffix = "n";
        for next in ["u", "m", "", "k", "M", "G", "T", "P", "E"] {
            if value % 1000 != 0 {
                break;
            }
            value /= 1000;
            suffix = next;
        }
        write!(f, "{value}{suffix}")
    }
}

impl Add for Amount {
    type Output = Amount;

    fn add(self, other: Amount) -> Amount {
        let binary = if self.is_zero() { other.binary } else { self.binary };
        Amount { nanos: (self.nanos + other.nanos).clamp(-LARGEST, LARGEST), binary }
    }
}

impl AddAssign for Amount {
    fn add_assign(&mut self, other: Amount) {
        *self = *self + other;
    }
}

impl Sub for Amount {
    type Output = Amount;

    fn sub(self, other: Amount) -> Amount {
        self + Amount { nanos: -other.nanos, binary: other.binary }
    }
}

impl SubAssign for Amount {
    fn sub_assign(&mut self, other: Amount) {
        *self = *self - other;
    }
}

impl PartialEq for Amount {
    fn eq(&self, other: &Self) -> bool {
        self.nanos == other.nanos
    }
}

impl Eq for Amount {}

impl PartialOrd for Amount {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Amount {
    fn cmp(&self, other: &Self) -> Ordering {
        self.nanos.cmp(&other.nanos)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn forms() {
        let check = |text: &str, millis: i64, units: i64, canonical: &str| {
            let amount = Amount::parse(text).unwrap_or_else(|| panic!("{text}"));
            assert_eq!((amount.millis(), amount.units()), (millis, units), "{text}");
            assert_eq!(amount.to_string(), canonical, "{text}");
        };
        check("0", 0, 0, "0");
        check("100m", 100, 1, "100m");
        check("1", 1000, 1, "1");
        check("1.5", 1500, 2, "1500m");
        check("1000m", 1000, 1, "1");
        check("2k", 2_000_000, 2000, "2k");
        check("1e3", 1_000_000, 1000, "1k");
        check("1Ki", 1_024_000, 1024, "1Ki");
        check("1.5Gi", 1_610_612_736_000, 1_610_612_736, "1536Mi");
        check("512", 512_000, 512, "512");
        check("0.5Ki", 512_000, 512, "512");
        check("100n", 1, 1, "100n");
        check("-1", -1000, -1, "-1");
    }

    #[test]
    fn nonsense_is_nothing() {
        for text in ["", "abc", "1Zi", "1..2", "--1", "1e99", "9999999999999999999999999999999Ei", "1 Gi"] {
            assert!(Amount::parse(text).is_none(), "{text}");
        }
    }

    #[test]
    fn sums_keep_the_form_of_the_first() {
        let sum = Amount::default() + Amount::parse("1Gi").unwrap() + Amount::parse("1024Mi").unwrap();
        assert_eq!(sum.to_string(), "2Gi");
        assert_eq!((sum - Amount::parse("2Gi").unwrap()).to_string(), "0");
    }

    proptest! {
        #[test]
        fn the_canonical_form_is_the_same_amount(n in 0i64..1_000_000_000_000, suffix in 0usize..10) {
            let suffix = ["", "m", "u", "n", "k", "M", "Ki", "Mi", "Gi", "G"][suffix];
            let amount = Amount::parse(&format!("{n}{suffix}")).unwrap();
            prop_assert_eq!(Amount::parse(&amount.to_string()).unwrap(), amount);
        }

        #[test]
        fn any_text_is_survived(text in ".{0,40}") {
            let _ = Amount::parse(&text).map(|a| a.to_string());
        }
    }
}
