//! Durations as the Gateway API writes them: `1h30m`, `10s`, `500ms`, each unit at most once.

use std::time::Duration;

/// None if it is not of this form.
pub fn parse(text: &str) -> Option<Duration> {
    let (mut rest, mut total) = (text, Duration::ZERO);
    if rest.is_empty() {
        return None;
    }
    while !rest.is_empty() {
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        if !(1..=5).contains(&digits) {
            return None;
        }
        let number: u64 = rest[..digits].parse().ok()?;
        rest = &rest[digits..];
        let units = [("ms", 1), ("h", 3_600_000), ("m", 60_000), ("s", 1000)];
        let (unit, millis) = units.into_iter().find(|(unit, _)| rest.starts_with(unit))?;
        rest = &rest[unit.len()..];
        total += Duration::from_millis(number * millis);
    }
    Some(total)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations() {
        for (text, millis) in [
            ("10s", Some(10_000)),
            ("500ms", Some(500)),
            ("1m", Some(60_000)),
            ("1h30m10s20ms", Some(5_410_020)),
            ("0s", Some(0)),
            ("", None),
            ("10", None),
            ("s", None),
            ("1.5s", None),
            ("-1s", None),
            ("123456s", None),
        ] {
            assert_eq!(parse(text), millis.map(Duration::from_millis), "{text}");
        }
    }
}
