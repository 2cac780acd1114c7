//! Prometheus' durations: `1h30m`, units from the largest to the smallest, each once.

const UNITS: &[(&str, u64)] = &[
    ("y", 365 * 86_400_000),
    ("w", 7 * 86_400_000),
    ("d", 86_400_000),
    ("h", 3_600_000),
    ("m", 60_000),
    ("s", 1000),
    ("ms", 1),
];

/// Milliseconds. None for what is no duration.
pub fn milliseconds(text: &str) -> Option<u64> {
    if text == "0" {
        return Some(0);
    }
    let (mut rest, mut total, mut next) = (text, 0u64, 0);
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit())?;
        let number: u64 = rest[..digits].parse().ok()?;
        rest = &rest[digits..];
        let letters = rest.find(|c: char| !c.is_ascii_lowercase()).unwrap_or(rest.len());
        let at = UNITS.iter().position(|(unit, _)| *unit == &rest[..letters]).filter(|at| *at >= next)?;
        total = total.checked_add(number.checked_mul(UNITS[at].1)?)?;
        (rest, next) = (&rest[letters..], at + 1);
    }
    (!text.is_empty()).then_some(total)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_read_as_prometheus_reads_them() {
        for (text, expected) in [
            ("30s", Some(30_000)),
            ("1h30m", Some(5_400_000)),
            ("500ms", Some(500)),
            ("0", Some(0)),
            ("1m1h", None),
            ("1m1m", None),
            ("30", None),
            ("s", None),
            ("", None),
            ("1.5s", None),
            ("99999999999999999999s", None),
        ] {
            assert_eq!(milliseconds(text), expected, "{text}");
        }
    }
}
