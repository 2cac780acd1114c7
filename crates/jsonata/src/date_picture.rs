//! Pictures of dates and times as XPath has them: `[D1o] [MNn] [Y0001]`; both ways.

use crate::calendar::{self, DAY, Date};
use crate::error::Error;
use crate::integer_picture::IntegerFormat;

const MONTHS: &[&str] = &[
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];
const DAYS: &[&str] = &["", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"];
pub const ISO: &str = "[Y0001]-[M01]-[D01]T[H01]:[m01]:[s01].[f001][Z01:01t]";

/// The widest a number may be asked to be.
const WIDEST: usize = 1000;

enum Part {
    Literal(String),
    Marker(Marker),
}

struct Marker {
    component: char,
    names: Option<Names>,
    format: Option<IntegerFormat>,
    timezone_t: bool,
    most: Option<usize>,
    /// How many digits of a year are shown.
    year_digits: Option<usize>,
}

#[derive(Clone, Copy, PartialEq)]
enum Names {
    Lower,
    Upper,
    Title,
}

fn default_presentation(component: char) -> Option<&'static str> {
    Some(match component {
        'Y' | 'M' | 'D' | 'd' | 'W' | 'w' | 'X' | 'x' | 'H' | 'h' | 'f' => "1",
        'F' | 'P' | 'C' | 'E' => "n",
        'm' | 's' => "01",
        'Z' | 'z' => "01:01",
        _ => return None,
    })
}

fn parse(picture: &str) -> Result<Vec<Part>, Error> {
    let mut parts: Vec<Part> = Vec::new();
    let mut rest = picture;
    while let Some(open) = rest.find('[') {
        if open > 0 {
            parts.push(Part::Literal(rest[..open].replace("]]", "]")));
        }
        rest = &rest[open + 1..];
        if let Some(after) = rest.strip_prefix('[') {
            parts.push(Part::Literal("[".into()));
            rest = after;
            continue;
        }
        let Some(close) = rest.find(']') else {
            return Err(Error::new("D3135", "No matching closing bracket ']' in date/time picture string"));
        };
        let marker: String = rest[..close].split_whitespace().collect();
        rest = &rest[close + 1..];
        let marker = parse_marker(&marker)?;
        // Digits right after digits: the first ones must be of a known number.
        if marker.format.is_some()
            && let Some(Part::Marker(previous)) = parts.last_mut()
            && let Some(format) = &mut previous.format
        {
            format.width = Some(format.mandatory);
        }
        parts.push(Part::Marker(marker));
    }
    if !rest.is_empty() {
        parts.push(Part::Literal(rest.replace("]]", "]")));
    }
    Ok(parts)
}

fn parse_marker(text: &str) -> Result<Marker, Error> {
    let unknown = |component: &str| {
        Error::new(
            "D3132",
            format!("Unknown component specifier \"{component}\" in date/time picture string"),
        )
    };
    let Some(component) = text.chars().next() else { return Err(unknown("")) };
    let (presentation, width) = match text.rfind(',') {
        Some(comma) => {
            (&text[component.len_utf8()..comma.max(component.len_utf8())], Some(&text[comma + 1..]))
        }
        None => (&text[component.len_utf8()..], None),
    };
    let bound = |text: &str| text.parse::<usize>().ok().map(|width| width.min(WIDEST));
    let (least, most) = match width {
        Some(width) => match width.split_once('-') {
            Some((least, most)) => (bound(least), bound(most)),
            None => (bound(width), None),
        },
        None => (None, None),
    };
    let default = default_presentation(component).ok_or_else(|| unknown(&component.to_string()))?;
    let mut modifier = None;
    let presentation = if presentation.chars().count() > 1 && presentation.ends_with(['a', 't', 'c', 'o']) {
        modifier = presentation.chars().last();
        &presentation[..presentation.len() - 1]
    } else if presentation.is_empty() {
        default
    } else {
        presentation
    };
    let names = match presentation.as_bytes() {
        [b'n', ..] => Some(Names::Lower),
        [b'N', b'n', ..] => Some(Names::Title),
        [b'N', ..] => Some(Names::Upper),
        _ => None,
    };
    let mut marker =
        Marker { component, names, format: None, timezone_t: modifier == Some('t'), most, year_digits: None };
    if names.is_none() && "YMDdFWwXxHhmsf".contains(component) {
        let picture = match modifier {
            Some(modifier) => format!("{presentation};{modifier}"),
            None => presentation.to_owned(),
        };
        let mut format = IntegerFormat::parse(&picture)?;
        if let Some(least) = least {
            format.mandatory = format.mandatory.max(least);
        }
        if component == 'Y' {
            match most {
                Some(most) => {
                    marker.year_digits = Some(most);
                    format.mandatory = most;
                }
                None => {
                    let digits = format.mandatory + format.optional;
                    marker.year_digits = (digits >= 2).then_some(digits);
                }
            }
        }
        marker.format = Some(format);
    }
    if matches!(component, 'Z' | 'z') {
        marker.format = Some(IntegerFormat::parse(presentation)?);
    }
    Ok(marker)
}

/// A point in time in a picture; `timezone` is an offset such as +0530.
pub fn format(milliseconds: i64, picture: &str, timezone: Option<&str>) -> Result<String, Error> {
    let offset: i64 = timezone
        .and_then(|text| text.parse().ok())
        .filter(|offset| (-9999..=9999).contains(offset))
        .unwrap_or(0);
    let (hours, minutes) = (offset.div_euclid(100), offset % 100);
    let shifted = milliseconds.saturating_add((60 * hours + minutes) * 60_000);
    let date = Date::new(shifted);
    let mut out = String::new();
    for part in parse(picture)? {
        match part {
            Part::Literal(text) => out.push_str(&text),
            Part::Marker(marker) => out.push_str(&component_text(date, &marker, hours, minutes)?),
        }
    }
    Ok(out)
}

fn fragment(date: Date, component: char) -> i64 {
    match component {
        'Y' => date.year,
        'M' => date.month,
        'D' => date.day,
        'd' => {
            (calendar::milliseconds(date.year, date.month, date.day)
                - calendar::milliseconds(date.year, 1, 1))
                / DAY
                + 1
        }
        'F' => calendar::weekday(calendar::milliseconds(date.year, date.month, date.day)),
        'W' => calendar::week_of_year(date),
        'w' => calendar::week_of_month(date),
        'X' => calendar::year_of_week(date),
        'x' => calendar::month_of_week(date),
        'H' => date.rest / 3_600_000,
        'h' => match date.rest / 3_600_000 % 12 {
            0 => 12,
            hour => hour,
        },
        'P' => i64::from(date.rest / 3_600_000 >= 12),
        'm' => date.rest / 60_000 % 60,
        's' => date.rest / 1000 % 60,
        'f' => date.rest % 1000,
        _ => 0,
    }
}

fn component_text(date: Date, marker: &Marker, hours: i64, minutes: i64) -> Result<String, Error> {
    let value = fragment(date, marker.component);
    let cased = |text: &str, names: Names| match names {
        Names::Lower => text.to_lowercase(),
        Names::Upper => text.to_uppercase(),
        Names::Title => text.to_owned(),
    };
    match marker.component {
        'P' => Ok(cased(if value == 1 { "pm" } else { "am" }, marker.names.unwrap_or(Names::Lower))),
        'C' | 'E' => Ok("ISO".into()),
        'Z' | 'z' => timezone_text(marker, hours, minutes),
        component => {
            if let Some(names) = marker.names {
                let name = match component {
                    'M' | 'x' => MONTHS.get(value as usize - 1),
                    'F' => DAYS.get(value as usize),
                    _ => None,
                };
                let Some(name) = name else {
                    return Err(Error::new(
                        "D3133",
                        format!(
                            "The 'name' modifier can only be applied to months and days in the date/time picture string, not \"{component}\""
                        ),
                    ));
                };
                let name = cased(name, names);
                return Ok(match marker.most {
                    Some(most) => name.chars().take(most).collect(),
                    None => name,
                });
            }
            let value = match (component, marker.year_digits) {
                ('Y', Some(digits)) if digits < 18 => value % 10i64.pow(digits as u32),
                _ => value,
            };
            match &marker.format {
                Some(format) => format.format(value as f64),
                None => Ok(value.to_string()),
            }
        }
    }
}

fn timezone_text(marker: &Marker, hours: i64, minutes: i64) -> Result<String, Error> {
    let offset = hours * 100 + minutes;
    if offset == 0 && marker.timezone_t {
        return Ok("Z".into());
    }
    let Some(format) = &marker.format else { return Ok(String::new()) };
    let mut text = if format.regular.is_some() {
        format.format(offset as f64)?
    } else {
        match format.mandatory {
            1 | 2 => {
                let mut text = format.format(hours as f64)?;
                if minutes != 0 {
                    text.push_str(&format!(":{:02}", minutes.abs()));
                }
                text
            }
            3 | 4 => format.format(offset as f64)?,
            _ => {
                let message = "The timezone integer format specifier cannot have more than four digits";
                return Err(Error::new("D3134", message));
            }
        }
    };
    if offset >= 0 {
        text.insert(0, '+');
    }
    if marker.component == 'z' {
        text.insert_str(0, "GMT");
    }
    Ok(text)
}

/// The point in time that a text is in a picture; what is not given comes from `now` or is the least.
pub fn parse_text(text: &str, picture: &str, now: i64) -> Result<Option<i64>, Error> {
    let parts = parse(picture)?;
    let mut pattern = String::from("(?i)^");
    for part in &parts {
        match part {
            Part::Literal(text) => pattern.push_str(&format!("({})", regex::escape(text))),
            Part::Marker(marker) => pattern.push_str(&format!("({})", marker_pattern(marker)?)),
        }
    }
    pattern.push('$');
    let regex = regex::RegexBuilder::new(&pattern)
        .size_limit(1 << 20)
        .build()
        .map_err(|_| Error::new("D3132", "The date/time picture string is too large"))?;
    let Some(found) = regex.captures(text) else { return Ok(None) };
    let mut given: Vec<(char, i64)> = Vec::new();
    for (at, part) in parts.iter().enumerate() {
        let Part::Marker(marker) = part else { continue };
        let piece = found.get(at + 1).map_or("", |group| group.as_str());
        let Some(value) = marker_value(marker, piece)? else { continue };
        given.push((marker.component, value));
    }
    if given.is_empty() {
        return Ok(None);
    }
    assemble(given, now).map(Some)
}

fn marker_pattern(marker: &Marker) -> Result<String, Error> {
    Ok(match (marker.component, &marker.format) {
        ('Z' | 'z', format) => {
            let prefix = if marker.component == 'z' { "GMT" } else { "" };
            match format.as_ref().and_then(|format| format.regular) {
                Some((_, separator)) => {
                    format!("{prefix}[-+][0-9]+{}[0-9]+", regex::escape(&separator.to_string()))
                }
                None => format!("{prefix}[-+][0-9]+"),
            }
        }
        (_, Some(format)) => format.pattern()?,
        ('M' | 'x' | 'F' | 'P', None) => "[a-zA-Z]+".into(),
        (component, None) => {
            return Err(Error::new(
                "D3133",
                format!(
                    "The 'name' modifier can only be applied to months and days in the date/time picture string, not \"{component}\""
                ),
            ));
        }
    })
}

fn marker_value(marker: &Marker, piece: &str) -> Result<Option<i64>, Error> {
    let number = |text: &str| text.parse::<i64>().unwrap_or(0).clamp(-10_000, 10_000);
    match (marker.component, &marker.format) {
        ('Z' | 'z', format) => {
            let piece = piece.trim_start_matches("GMT").trim_start_matches("gmt");
            let (hours, minutes) = match format.as_ref().and_then(|format| format.regular) {
                Some((_, separator)) => piece
                    .split_once(separator)
                    .map_or((number(piece), 0), |(hours, minutes)| (number(hours), number(minutes))),
                None if piece.len() <= 3 => (number(piece), 0),
                None => (number(&piece[..3]), number(&piece[3..])),
            };
            Ok(Some(hours * 60 + minutes))
        }
        // Digits after a point: thousandths, whatever their number.
        ('f', Some(_)) if piece.bytes().all(|byte| byte.is_ascii_digit()) => {
            Ok(format!("{piece:0<3}").get(..3).and_then(|digits| digits.parse().ok()))
        }
        (_, Some(format)) => Ok(format.parse_text(piece)?.map(|value| value as i64)),
        (component, None) => {
            let find = |names: &[&str], from: i64| {
                names
                    .iter()
                    .position(|name| {
                        let name: String = match marker.most {
                            Some(most) => name.chars().take(most).collect(),
                            None => (*name).to_owned(),
                        };
                        !name.is_empty() && name.eq_ignore_ascii_case(piece)
                    })
                    .map(|at| at as i64 + from)
            };
            Ok(match component {
                'M' | 'x' => find(MONTHS, 1),
                'F' => find(DAYS, 0),
                _ => match piece.to_lowercase().as_str() {
                    "am" => Some(0),
                    "pm" => Some(1),
                    _ => None,
                },
            })
        }
    }
}

fn assemble(mut given: Vec<(char, i64)>, now: i64) -> Result<i64, Error> {
    // Beyond these nothing is a date, and sums would not fit.
    let absurd = |(component, value): &(char, i64)| {
        value.unsigned_abs() > if matches!(component, 'Y' | 'X') { 275_760 } else { 1_000_000_000 }
    };
    if given.iter().any(absurd) {
        return Err(Error::new("D3136", "The timestamp is out of range"));
    }
    let has = |given: &[(char, i64)], component: char| given.iter().any(|(other, _)| *other == component);
    // A set fits when nothing outside of it is given. A zero decides nothing, as in the reference.
    let within = |given: &[(char, i64)], set: &str, all: &str| {
        let mut telling =
            given.iter().filter(|(other, value)| *value != 0 && all.contains(*other)).peekable();
        telling.peek().is_some() && telling.all(|(component, _)| set.contains(*component))
    };
    let dates = "YXMxWwdD";
    let by_date = within(&given, "YMD", dates);
    let by_day = !by_date && within(&given, "Yd", dates);
    let by_month_week = within(&given, "Xxw", dates);
    let by_week = !by_month_week && within(&given, "XW", dates);
    let by_clock = !within(&given, "Hmsf", "PHhmsf") && within(&given, "Phmsf", "PHhmsf");
    // With the day of the year, the reference looks at the day of the month that is not given: so no time may follow.
    let date = if by_day {
        "YD"
    } else if by_month_week {
        "XxwF"
    } else if by_week {
        "XWF"
    } else {
        "YMD"
    };
    let time = if by_clock { "Phmsf" } else { "Hmsf" };
    let today = Date::new(now);
    let (mut started, mut ended) = (false, false);
    let underspecified = || {
        Error::new(
            "D3136",
            "The date/time picture string is missing specifiers required to parse the timestamp",
        )
    };
    for component in date.chars().chain(time.chars()) {
        if has(&given, component) {
            started = true;
            if ended {
                return Err(underspecified());
            }
        } else if started {
            given.push((component, i64::from("MDd".contains(component))));
            ended = true;
        } else {
            given.push((component, fragment(today, component)));
        }
    }
    if by_month_week || by_week {
        return Err(underspecified());
    }
    let value =
        |component: char| given.iter().find(|(other, _)| *other == component).map_or(0, |(_, value)| *value);
    let start = if by_day {
        calendar::milliseconds(value('Y'), 1, value('d'))
    } else {
        calendar::milliseconds(value('Y'), value('M').max(1), value('D'))
    };
    let hour = if by_clock {
        let hour = if value('h') == 12 { 0 } else { value('h') };
        hour + 12 * value('P')
    } else {
        value('H')
    };
    let zone = [value('Z'), value('z')].into_iter().find(|zone| *zone != 0).unwrap_or(0);
    Ok(start + hour * 3_600_000 + (value('m') - zone) * 60_000 + value('s') * 1000 + value('f'))
}
