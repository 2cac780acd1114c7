//! Kubernetes quantities (`500m`, `1.5Gi`, `2e3`) as numbers. Pure.

/// In whole units, rounded up: bytes, counts.
pub fn value(text: &str) -> Option<i64> {
    let milli = parse(text)?;
    Some(milli.div_euclid(1000).saturating_add(i128::from(milli.rem_euclid(1000) != 0)).clamp(MIN, MAX) as i64)
}

/// In thousandths, rounded up: cpu.
pub fn milli(text: &str) -> Option<i64> {
    Some(parse(text)?.clamp(MIN, MAX) as i64)
}

/// As [`milli`], for amounts of bytes that would not fit.
pub fn milli_wide(text: &str) -> Option<i128> {
    parse(text)
}

const MIN: i128 = i64::MIN as i128;
const MAX: i128 = i64::MAX as i128;

/// In thousandths; what is smaller is rounded up.
fn parse(text: &str) -> Option<i128> {
    let end =
        text.find(|c: char| !(c.is_ascii_digit() || matches!(c, '.' | '+' | '-'))).unwrap_or(text.len());
    let (number, suffix) = text.split_at(end);
    let (negative, digits) = match number.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, number.strip_prefix('+').unwrap_or(number)),
    };
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    if whole.is_empty() && fraction.is_empty() {
        return None;
    }
    // The number is `mantissa / 10^scale`. Fifteen places are more than any quantity needs.
    let fraction = fraction.get(..fraction.len().min(15))?;
    let mantissa: i128 = format!("0{}{fraction}", whole.get(..whole.len().min(20))?).parse().ok()?;
    let scale = 10_i128.pow(fraction.len() as u32);
    let (numerator, denominator) = multiplier(suffix)?;
    let thousandths = mantissa.checked_mul(numerator)?.checked_mul(1000)?;
    let divisor = scale.checked_mul(denominator)?;
    let rounded = thousandths.checked_add(divisor - 1)? / divisor;
    Some(if negative { -rounded } else { rounded })
}

fn multiplier(suffix: &str) -> Option<(i128, i128)> {
    let binary = |power: u32| Some((1024_i128.pow(power), 1));
    match suffix {
        "" => Some((1, 1)),
        "n" => Some((1, 1_000_000_000)),
        "u" => Some((1, 1_000_000)),
        "m" => Some((1, 1000)),
        "k" => Some((1000, 1)),
        "M" => Some((1_000_000, 1)),
        "G" => Some((1_000_000_000, 1)),
        "T" => Some((10_i128.pow(12), 1)),
        "P" => Some((10_i128.pow(15), 1)),
        "E" => Some((10_i128.pow(18), 1)),
        "Ki" => binary(1),
        "Mi" => binary(2),
        "Gi" => binary(3),
        "Ti" => binary(4),
        "Pi" => binary(5),
        "Ei" => binary(6),
        exponent => {
            let power: i32 = exponent.strip_prefix(['e', 'E'])?.parse().ok()?;
            match power {
                0..=18 => Some((10_i128.pow(power as u32), 1)),
                -18..0 => Some((1, 10_i128.pow(power.unsigned_abs()))),
                _ => None,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities() {
        let check = |text: &str, whole: Option<i64>, thousandths: Option<i64>| {
            assert_eq!((value(text), milli(text)), (whole, thousandths), "{text}");
        };
        check("1", Some(1), Some(1000));
        check("500m", Some(1), Some(500));
        check("1.5", Some(2), Some(1500));
        check("1Gi", Some(1 << 30), Some((1 << 30) * 1000));
        check("1.5Ki", Some(1536), Some(1_536_000));
        check("2e3", Some(2000), Some(2_000_000));
        check("1n", Some(1), Some(1));
        check("-2", Some(-2), Some(-2000));
        check("", None, None);
        check("x", None, None);
        check("1Zi", None, None);
        check("1e99", None, None);
        check("é", None, None);
    }

    proptest::proptest! {
        #[test]
        fn no_text_panics(text in ".*") {
            let _ = (value(&text), milli(&text));
        }
    }
}
