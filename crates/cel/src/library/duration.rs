//! Durations as text: `1h30m`, `-1.5s` in, seconds out. Nanoseconds in 64 bits, as Go has them.

const UNITS: [(&str, i128); 8] = [
    ("ns", 1),
    ("us", 1_000),
    ("\u{b5}s", 1_000),
    ("\u{3bc}s", 1_000),
    ("ms", 1_000_000),
    ("s", 1_000_000_000),
    ("m", 60_000_000_000),
    ("h", 3_600_000_000_000),
];
/// More digits of a fraction than a nanosecond of an hour needs say nothing.
const DIGITS: usize = 15;

/// The nanoseconds, or None if it is no duration.
pub fn parse(text: &str) -> Option<i64> {
    let (sign, mut rest) = match text.as_bytes().first()? {
        b'-' => (-1, &text[1..]),
        b'+' => (1, &text[1..]),
        _ => (1, text),
    };
    if rest == "0" {
        return Some(0);
    }
    if rest.is_empty() {
        return None;
    }
    let mut total: i128 = 0;
    while !rest.is_empty() {
        let (whole, after) = digits(rest);
        let (fraction, after) = match after.strip_prefix('.') {
            Some(after) => digits(after),
            None => ("", after),
        };
        if whole.is_empty() && fraction.is_empty() {
            return None;
        }
        let unit = after.split(|c: char| c == '.' || c.is_ascii_digit()).next()?;
        let (_, scale) = UNITS.iter().find(|(name, _)| *name == unit)?;
        rest = &after[unit.len()..];
        let whole: i128 = if whole.is_empty() { 0 } else { whole.parse().ok()? };
        total = total.checked_add(whole.checked_mul(*scale)?)?;
        let fraction = &fraction[..fraction.len().min(DIGITS)];
        if !fraction.is_empty() {
            total += fraction.parse::<i128>().ok()? * scale / 10_i128.pow(fraction.len() as u32);
        }
    }
    i64::try_from(sign * total).ok()
}

fn digits(text: &str) -> (&str, &str) {
    text.split_at(text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len()))
}

/// Seconds: `5400s`, `0.25s`.
pub fn to_text(nanoseconds: i64) -> String {
    let (whole, rest) =
        (nanoseconds.unsigned_abs() / 1_000_000_000, nanoseconds.unsigned_abs() % 1_000_000_000);
    let sign = if nanoseconds < 0 { "-" } else { "" };
    if rest == 0 {
        return format!("{sign}{whole}s");
    }
    let fraction = format!("{rest:09}");
    format!("{sign}{whole}.{}s", fraction.trim_end_matches('0'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_read_and_written() {
        for (text, expected) in [
            ("1h30m", Some(5_400_000_000_000)),
            ("-1.5s", Some(-1_500_000_000)),
            ("0", Some(0)),
            (".5ms", Some(500_000)),
            ("1d", None),
            ("", None),
            ("-", None),
            ("1", None),
            ("99999999999h", None),
        ] {
            assert_eq!(parse(text), expected, "{text}");
        }
        assert_eq!(to_text(5_400_000_000_000), "5400s");
        assert_eq!(to_text(-250_000_000), "-0.25s");
    }
}
