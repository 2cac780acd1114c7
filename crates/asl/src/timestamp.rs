//! Timestamps: RFC 3339 with capital T and a zone, as the States Language has them, without a clock.

/// Milliseconds of the Unix epoch, and the nanoseconds below, so that equal instants compare equal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Timestamp {
    pub milliseconds: i64,
    nanoseconds: u32,
}

impl Timestamp {
    pub fn parse(text: &str) -> Option<Self> {
        let (date, rest) = text.split_once('T')?;
        let mut parts = date.split('-');
        let year: i64 = digits(parts.next()?, 4)?;
        let month: i64 = digits(parts.next()?, 2)?;
        let day: i64 = digits(parts.next()?, 2)?;
        if parts.next().is_some() || !(1..=12).contains(&month) || day < 1 || day > days_in(year, month) {
            return None;
        }
        let zone = rest.find(['Z', '+', '-'])?;
        let (time, zone) = rest.split_at(zone);
        let (time, fraction) =
            time.split_once('.').map_or((time, None), |(time, fraction)| (time, Some(fraction)));
        let mut parts = time.split(':');
        let hour: i64 = digits(parts.next()?, 2)?;
        let minute: i64 = digits(parts.next()?, 2)?;
        let second: i64 = match parts.next() {
            Some(second) => digits(second, 2)?,
            None => 0,
        };
        if parts.next().is_some() || hour > 23 || minute > 59 || second > 59 {
            return None;
        }
        let nanoseconds = match fraction {
            Some(fraction) if !fraction.is_empty() && fraction.len() <= 9 && all_digits(fraction) => {
                format!("{fraction:0<9}").parse::<u32>().ok()?
            }
            Some(_) => return None,
            None => 0,
        };
        let offset = offset(zone)?;
        let seconds = days(year, month, day) * 86_400 + hour * 3600 + minute * 60 + second - offset;
        let milliseconds = seconds * 1000 + i64::from(nanoseconds / 1_000_000);
        Some(Self { milliseconds, nanoseconds: nanoseconds % 1_000_000 })
    }
}

/// `2016-03-14T01:59:00.123Z`.
pub fn format(milliseconds: i64) -> String {
    let (days, rest) = (milliseconds.div_euclid(86_400_000), milliseconds.rem_euclid(86_400_000));
    let (year, month, day) = civil(days);
    let (hour, minute, second) = (rest / 3_600_000, rest / 60_000 % 60, rest / 1000 % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{:03}Z", rest % 1000)
}

fn offset(zone: &str) -> Option<i64> {
    if zone == "Z" {
        return Some(0);
    }
    let sign = if zone.starts_with('-') { -1 } else { 1 };
    let (hours, minutes) = zone[1..].split_once(':').unwrap_or((&zone[1..], "00"));
    let (hours, minutes): (i64, i64) = (digits(hours, 2)?, digits(minutes, 2)?);
    (hours <= 18 && minutes <= 59).then_some(sign * (hours * 3600 + minutes * 60))
}

fn all_digits(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_digit())
}

fn digits(text: &str, count: usize) -> Option<i64> {
    (text.len() == count && all_digits(text)).then(|| text.parse().ok()).flatten()
}

fn days_in(year: i64, month: i64) -> i64 {
    match month {
        4 | 6 | 9 | 11 => 30,
        2 if year % 4 == 0 && (year % 100 != 0 || year % 400 == 0) => 29,
        2 => 28,
        _ => 31,
    }
}

/// Days since 1970 of a date in the Gregorian calendar.
fn days(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let of_era = year.rem_euclid(400);
    let of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468
}

fn civil(days: i64) -> (i64, i64, i64) {
    let days = days + 719_468;
    let era = days.div_euclid(146_097);
    let of_era = days.rem_euclid(146_097);
    let year = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    (year + era * 400 + i64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timestamp_parses_only_extended_offset_forms() {
        for good in [
            "2016-03-14T01:59:00Z",
            "2016-03-14T01:59:00.5Z",
            "2016-03-14T01:59:00+02:00",
            "2024-02-29T00:00:00Z",
        ] {
            assert!(Timestamp::parse(good).is_some(), "{good}");
        }
        for bad in [
            "2016-03-14",
            "2016-03-14 01:59:00Z",
            "2016-03-14T01:59:00",
            "2016-13-14T01:59:00Z",
            "2023-02-29T00:00:00Z",
            "16-03-14T01:59:00Z",
            "2016-03-14T25:59:00Z",
            "",
            "T",
            "é",
        ] {
            assert!(Timestamp::parse(bad).is_none(), "{bad}");
        }
    }

    #[test]
    fn timestamp_format_and_parse_agree() {
        for milliseconds in
            [0, 1, -1, 951_782_400_000, 1_700_000_000_123, 4_102_444_800_000, -62_135_596_800_000]
        {
            let text = format(milliseconds);
            assert_eq!(Timestamp::parse(&text).map(|time| time.milliseconds), Some(milliseconds), "{text}");
        }
    }

    #[test]
    fn timestamp_compares_instants_across_zones() {
        assert_eq!(Timestamp::parse("2016-03-14T02:00:00+02:00"), Timestamp::parse("2016-03-14T00:00:00Z"));
    }
}
