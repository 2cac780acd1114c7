//! A share as a picture.

const LENGTH: usize = 12;

/// `███░░░░░░░░░` for a quarter.
pub fn bar(part: i64, whole: i64) -> String {
    let percent = percent(part, whole).clamp(0, 100);
    let full = usize::try_from(percent).unwrap_or(0) * LENGTH / 100;
    format!("{}{}", "█".repeat(full), "░".repeat(LENGTH - full))
}

/// `███░░░░░░░░░ 1/4 pods gone`.
pub fn of(part: usize, whole: usize, what: &str) -> String {
    let number = |count: usize| i64::try_from(count).unwrap_or(i64::MAX);
    format!("{} {part}/{whole} {what}", bar(number(part), number(whole)))
}

/// None of nothing is nothing.
pub fn percent(part: i64, whole: i64) -> i64 {
    if whole > 0 { part * 100 / whole } else { 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares() {
        let check = |part: i64, whole: i64, expected: &str| assert_eq!(bar(part, whole), expected);
        check(1, 4, "███░░░░░░░░░");
        check(0, 0, "░░░░░░░░░░░░");
        check(9, 3, "████████████");
        check(-1, 3, "░░░░░░░░░░░░");
    }
}
