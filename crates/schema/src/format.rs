//! `format` of strings.
//!
//! Checked are the formats that definitions use; a format not listed here holds for every string, as
//! OpenAPI wants it for unknown ones.

use std::net::{Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

/// Whether the text is of the format.
pub(crate) fn matches(format: &str, text: &str) -> bool {
    match format {
        "date-time" | "datetime" => is_date_time(text),
        "date" => is_date(text),
        "byte" => is_base64(text),
        "quantity" => is_quantity(text),
        "duration" => is_duration(text),
        "ipv4" => Ipv4Addr::from_str(text).is_ok(),
        "ipv6" => Ipv6Addr::from_str(text).is_ok(),
        "cidr" => is_cidr(text),
        "mac" => is_mac(text),
        "hostname" => is_hostname(text),
        "uri" => is_uri(text),
        "email" => is_email(text),
        "uuid" => is_uuid(text, None),
        "uuid3" => is_uuid(text, Some('3')),
        "uuid4" => is_uuid(text, Some('4')),
        "uuid5" => is_uuid(text, Some('5')),
        "hexcolor" => is_hex(text.strip_prefix('#').unwrap_or(text), &[3, 6]),
        "bsonobjectid" => is_hex(text, &[24]),
        "k8s-short-name" => is_label(text, 63),
        "k8s-long-name" => text.len() <= 253 && text.split('.').all(|label| is_label(label, 253)),
        _ => true,
    }
}

/// RFC 3339, as Go parses it: `2006-01-02T15:04:05.999Z`, `2006-01-02T15:04:05+01:00`.
fn is_date_time(text: &str) -> bool {
    let Some((date, time)) = text.split_once(['T', 't']) else { return false };
    let Some(zone_at) = time.find(['Z', 'z', '+', '-']) else { return false };
    let (clock, zone) = time.split_at(zone_at);
    let (clock, fraction) = clock.split_once('.').unwrap_or((clock, "0"));
    let clock: Vec<&str> = clock.split(':').collect();
    let [hour, minute, second] = clock[..] else { return false };
    let zone_fits = match zone.split_at(1) {
        ("Z" | "z", rest) => rest.is_empty(),
        (_, offset) => offset.split_once(':').is_some_and(|(h, m)| below(h, 24) && below(m, 60)),
    };
    let fraction_fits = !fraction.is_empty() && fraction.bytes().all(|b| b.is_ascii_digit());
    is_date(date) && below(hour, 24) && below(minute, 60) && below(second, 60) && fraction_fits && zone_fits
}

fn is_date(text: &str) -> bool {
    let parts: Vec<&str> = text.split('-').collect();
    let [year, month, day] = parts[..] else { return false };
    if year.len() != 4 || !below(month, 13) {
        return false;
    }
    let (Ok(year), Ok(month)) = (year.parse::<u32>(), month.parse::<u32>()) else { return false };
    let leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let days = match month {
        1 | 3 | 5 | 7 | 8 | 10 | 12 => 31,
        4 | 6 | 9 | 11 => 30,
        2 if leap => 29,
        2 => 28,
        _ => return false,
    };
    below(day, days + 1) && day != "00"
}

/// Two digits below a limit.
fn below(text: &str, limit: u32) -> bool {
    text.len() == 2
        && text.bytes().all(|b| b.is_ascii_digit())
        && text.parse::<u32>().is_ok_and(|n| n < limit)
}

/// Standard alphabet, padded; line breaks do not count.
fn is_base64(text: &str) -> bool {
    let (mut length, mut padding) = (0usize, 0usize);
    for byte in text.bytes().filter(|b| !matches!(b, b'\n' | b'\r')) {
        match byte {
            b'=' => padding += 1,
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'+' | b'/' if padding == 0 => {}
            _ => return false,
        }
        length += 1;
    }
    length % 4 == 0 && padding <= 2 && (padding == 0 || length >= 4)
}

/// A number with a suffix of either kind: `500m`, `1Gi`, `1e3`, `.5`.
fn is_quantity(text: &str) -> bool {
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    let end = unsigned.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(unsigned.len());
    let (number, suffix) = unsigned.split_at(end);
    let digits = number.bytes().filter(u8::is_ascii_digit).count();
    let dots = number.len() - digits;
    if digits == 0 || dots > 1 {
        return false;
    }
    if let Some(exponent) = suffix.strip_prefix(['e', 'E']).filter(|rest| !rest.is_empty()) {
        return exponent.parse::<i32>().is_ok();
    }
    let decimal = ["", "n", "u", "m", "k", "M", "G", "T", "P", "E"];
    let binary = ["Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];
    decimal.contains(&suffix) || binary.contains(&suffix)
}

/// Go's `1h30m`, `1.5s`, `-10ms`, or Scala's `10 seconds`.
fn is_duration(text: &str) -> bool {
    let mut rest = text.strip_prefix(['+', '-']).unwrap_or(text);
    if rest == "0" {
        return true;
    }
    if let Some((number, unit)) = rest.split_once(' ') {
        let units =
            ["ns", "us", "µs", "ms", "s", "m", "h", "d", "w", "second", "minute", "hour", "day", "week"];
        let singular = unit.strip_suffix('s').unwrap_or(unit);
        return number.parse::<u64>().is_ok() && (units.contains(&unit) || units.contains(&singular));
    }
    let mut parts = 0;
    while !rest.is_empty() {
        let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
        let (number, after) = rest.split_at(end);
        let unit_end = after.find(|c: char| c.is_ascii_digit() || c == '.').unwrap_or(after.len());
        let (unit, next) = after.split_at(unit_end);
        let number_fits = number.parse::<f64>().is_ok();
        if !number_fits || !matches!(unit, "ns" | "us" | "µs" | "μs" | "ms" | "s" | "m" | "h") {
            return false;
        }
        rest = next;
        parts += 1;
    }
    parts > 0
}

fn is_cidr(text: &str) -> bool {
    let Some((address, length)) = text.split_once('/') else { return false };
    let Ok(bits) = length.parse::<u8>() else { return false };
    Ipv4Addr::from_str(address).is_ok() && bits <= 32 || Ipv6Addr::from_str(address).is_ok() && bits <= 128
}

/// 6, 8 or 20 bytes in hexadecimal, with `:` or `-` between.
fn is_mac(text: &str) -> bool {
    let separator = if text.contains(':') { ':' } else { '-' };
    let parts: Vec<&str> = text.split(separator).collect();
    matches!(parts.len(), 6 | 8 | 20) && parts.iter().all(|part| is_hex(part, &[2]))
}

fn is_hostname(text: &str) -> bool {
    let name = text.strip_suffix('.').unwrap_or(text);
    let part = |label: &str| {
        let inside = |b: u8| b.is_ascii_alphanumeric() || b == b'-' || b == b'_';
        !label.is_empty()
            && label.len() <= 63
            && label.bytes().all(inside)
            && !label.starts_with('-')
            && !label.ends_with('-')
    };
    name.len() <= 253 && name.split('.').all(part)
}

/// An absolute URI or a path from the root, as `url.ParseRequestURI` takes it.
fn is_uri(text: &str) -> bool {
    if text.bytes().any(|b| b.is_ascii_control() || b == b' ') {
        return false;
    }
    if text.starts_with('/') {
        return true;
    }
    let Some((scheme, rest)) = text.split_once(':') else { return false };
    let inside = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'+' | b'-' | b'.');
    scheme.starts_with(|c: char| c.is_ascii_alphabetic()) && scheme.bytes().all(inside) && !rest.is_empty()
}

/// `local@domain`, also inside `Name <local@domain>`.
fn is_email(text: &str) -> bool {
    let address = match text.split_once('<') {
        Some((_, rest)) => match rest.strip_suffix('>') {
            Some(address) => address,
            None => return false,
        },
        None => text,
    };
    let Some((local, domain)) = address.rsplit_once('@') else { return false };
    let plain = |part: &str| !part.is_empty() && !part.chars().any(|c| c.is_whitespace() || c == '@');
    plain(local) && plain(domain) && !domain.starts_with('.') && !domain.ends_with('.')
}

fn is_uuid(text: &str, version: Option<char>) -> bool {
    let hex: String = text.chars().filter(|&c| c != '-').collect();
    let dashes_fit = match text.len() {
        32 => true,
        36 => text.bytes().enumerate().all(|(at, b)| (b == b'-') == matches!(at, 8 | 13 | 18 | 23)),
        _ => false,
    };
    dashes_fit && is_hex(&hex, &[32]) && version.is_none_or(|v| hex[12..].starts_with(v))
}

fn is_hex(text: &str, lengths: &[usize]) -> bool {
    lengths.contains(&text.len()) && text.bytes().all(|b| b.is_ascii_hexdigit())
}

/// An RFC 1123 label.
fn is_label(text: &str, max: usize) -> bool {
    let inside = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
    !text.is_empty()
        && text.len() <= max
        && text.bytes().all(inside)
        && !text.starts_with('-')
        && !text.ends_with('-')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats() {
        let check = |format: &str, yes: &[&str], no: &[&str]| {
            for text in yes {
                assert!(matches(format, text), "{text:?} is a {format}");
            }
            for text in no {
                assert!(!matches(format, text), "{text:?} is no {format}");
            }
        };
        check(
            "date-time",
            &["2024-02-29T23:59:59Z", "2006-01-02T15:04:05.123456Z", "2006-01-02T15:04:05-07:00"],
            &[
                "",
                "2023-02-29T00:00:00Z",
                "2006-01-02",
                "2006-01-02T15:04:05",
                "2006-01-02T24:00:00Z",
                "2006-01-02T15:04:05.Z",
                "2006-01-02T15:04:05+0700",
                "tomorrow",
                "2006-01-02T15:04Z",
            ],
        );
        check("date", &["2024-12-31"], &["2024-13-01", "2024-00-01", "2024-01-00", "24-01-01", "2024-1-1"]);
        check("byte", &["", "YWJj", "YQ==", "YWI=", "YW\nJj"], &["a", "YQ=", "YQ==YQ==", "Y*==", "===="]);
        check(
            "quantity",
            &["1", "500m", "1Gi", "1.5", ".5", "-1", "1e3", "1E6", "12E", "5."],
            &["", "Gi", "1gi", "1.2.3", "1 Gi", "abc", "e3", "1ee"],
        );
        check(
            "duration",
            &["0", "1h30m", "1.5s", "-10ms", "10 seconds", "3 d"],
            &["", "1", "h", "1x", "1h5"],
        );
        check("ipv4", &["10.0.0.1"], &["10.0.0", "::1", "256.0.0.1"]);
        check("ipv6", &["::1", "fe80::1"], &["10.0.0.1", "x"]);
        check("cidr", &["10.0.0.0/8", "fd00::/8"], &["10.0.0.0", "10.0.0.0/33", "x/8"]);
        check("mac", &["00:00:5e:00:53:01", "00-00-5e-00-53-01"], &["00:00", "zz:00:5e:00:53:01"]);
        check("hostname", &["a.example.com", "localhost", "a."], &["", "-a", "a..b", "ä"]);
        check("uri", &["http://x/y?z", "/path", "urn:a:b"], &["", "x", "http://a b", ":x"]);
        check("email", &["a@b.c", "A <a@b>"], &["a", "@b", "a@", "A <a@b"]);
        check(
            "uuid",
            &["123e4567-e89b-12d3-a456-426614174000", "123e4567e89b12d3a456426614174000"],
            &["123", "g23e4567-e89b-12d3-a456-426614174000", "123e4567e-89b-12d3-a456-426614174000"],
        );
        check("uuid4", &["123e4567-e89b-42d3-a456-426614174000"], &["123e4567-e89b-12d3-a456-426614174000"]);
        check("hexcolor", &["#fff", "00ff00"], &["#ff", "red"]);
        check("k8s-short-name", &["a-b"], &["A", "a.b", "", "-a"]);
        check("k8s-long-name", &["a.b-c"], &["a..b", "A"]);
        check("anything-else", &["", "x"], &[]);
    }

    proptest::proptest! {
        #[test]
        fn never_panics(text in "\\PC{0,40}") {
            for format in ["date-time", "date", "byte", "quantity", "duration", "cidr", "mac", "hostname", "uri",
                           "email", "uuid", "uuid4", "hexcolor", "k8s-long-name"] {
                matches(format, &text);
            }
        }
    }
}
