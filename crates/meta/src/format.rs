//! The textual forms that names, labels, keys, ports and addresses have: what is wrong with a text, in the
//! words that Kubernetes users know. Every check looks at the whole text; an empty answer means a good one.

use std::net::IpAddr;

use ipnet::IpNet;
use serde_json::Value;

const LABEL: &str = "[a-z0-9]([-a-z0-9]*[a-z0-9])?";
const LABEL_1035: &str = "[a-z]([-a-z0-9]*[a-z0-9])?";
const QUALIFIED: &str = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]";

/// RFC 1123 label.
pub fn label(text: &str) -> Vec<String> {
    let mut problems = longer_than(text, 63);
    if !is_label(text) {
        problems.push(regex(
            "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character",
            LABEL,
            &["my-name", "123-abc"],
        ));
    }
    problems
}

/// RFC 1035 label: starts with a letter.
pub fn label_1035(text: &str) -> Vec<String> {
    let mut problems = longer_than(text, 63);
    if !is_label(text) || !text.starts_with(|c: char| c.is_ascii_lowercase()) {
        problems.push(regex(
            "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, and end with an alphanumeric character",
            LABEL_1035,
            &["my-name", "abc-123"],
        ));
    }
    problems
}

/// RFC 1123 subdomain: labels joined by dots.
pub fn subdomain(text: &str) -> Vec<String> {
    let mut problems = longer_than(text, 253);
    if !text.split('.').all(is_label) {
        problems.push(regex(
            "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character",
            &format!("{LABEL}(\\.{LABEL})*"),
            &["example.com"],
        ));
    }
    problems
}

/// `*.` before a subdomain.
pub fn wildcard_subdomain(text: &str) -> Vec<String> {
    let mut problems = longer_than(text, 253);
    if !text.strip_prefix("*.").is_some_and(|rest| rest.split('.').all(is_label)) {
        problems.push(regex(
            "a wildcard DNS-1123 subdomain must start with '*.', followed by a valid DNS subdomain, which must consist of lower case alphanumeric characters, '-' or '.' and end with an alphanumeric character",
            &format!("\\*\\.{LABEL}(\\.{LABEL})*"),
            &["*.example.com"],
        ));
    }
    problems
}

/// A subdomain of at least two labels.
pub fn fully_qualified(text: &str) -> Vec<String> {
    let problems = subdomain(text);
    match problems.is_empty() && !text.contains('.') {
        true => vec!["should be a domain with at least two segments separated by dots".to_owned()],
        false => problems,
    }
}

/// `acme.io/foo`.
pub fn domain_prefixed_path(text: &str) -> Vec<String> {
    let Some((domain, path)) =
        text.split_once('/').filter(|(domain, path)| !domain.is_empty() && !path.is_empty())
    else {
        return vec!["must be a domain-prefixed path (such as \"acme.io/foo\")".to_owned()];
    };
    let mut problems = subdomain(domain);
    let allowed = |b: u8| b.is_ascii_alphanumeric() || b"/:@!$&'()*+,;=%._~-".contains(&b);
    if !path.bytes().all(allowed) {
        problems.push("path part must consist of characters that a URL path may hold".to_owned());
    }
    problems
}

/// What fits between two slashes of a URL.
pub fn path_segment(text: &str) -> Vec<String> {
    match text {
        "." | ".." => vec![format!("may not be '{text}'")],
        _ => path_segment_prefix(text),
    }
}

pub fn path_segment_prefix(text: &str) -> Vec<String> {
    ['/', '%'].into_iter().filter(|&c| text.contains(c)).map(|c| format!("may not contain '{c}'")).collect()
}

/// The key of a label or annotation, the name of a resource: `name` or `prefix/name`.
pub fn qualified_name(text: &str) -> Vec<String> {
    let mut problems = Vec::new();
    let parts: Vec<&str> = text.split('/').collect();
    let name = match parts.as_slice() {
        [name] => name,
        [prefix, name] => {
            match prefix.is_empty() {
                true => problems.push("prefix part must be non-empty".to_owned()),
                false => problems.extend(subdomain(prefix).iter().map(|p| format!("prefix part {p}"))),
            }
            name
        }
        _ => {
            let form = regex(
                "a qualified name must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character",
                QUALIFIED,
                &["MyName", "my.name", "123-abc"],
            );
            return vec![format!(
                "{form} with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"
            )];
        }
    };
    if name.is_empty() {
        problems.push("name part must be non-empty".to_owned());
    }
    problems.extend(longer_than(name, 63).iter().map(|p| format!("name part {p}")));
    if !is_bounded_word(name) {
        problems.push(regex(
            "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character",
            QUALIFIED,
            &["MyName", "my.name", "123-abc"],
        ));
    }
    problems
}

/// The value of a label: empty or like the name part of its key.
pub fn label_value(text: &str) -> Vec<String> {
    let mut problems = longer_than(text, 63);
    if !text.is_empty() && !is_bounded_word(text) {
        problems.push(regex(
            "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character",
            &format!("({QUALIFIED})?"),
            &["MyValue", "my_value", "12345"],
        ));
    }
    problems
}

/// A key of a ConfigMap or Secret: also a file name.
pub fn config_key(text: &str) -> Vec<String> {
    let mut problems = longer_than(text, 253);
    if text.is_empty() || !text.bytes().all(|b| b.is_ascii_alphanumeric() || b"-._".contains(&b)) {
        problems.push(regex(
            "a valid config key must consist of alphanumeric characters, '-', '_' or '.'",
            "[-._a-zA-Z0-9]+",
            &["key.name", "KEY_NAME", "key-name"],
        ));
    }
    match text {
        "." | ".." => problems.push(format!("must not be '{text}'")),
        _ if text.starts_with("..") => problems.push("must not start with '..'".to_owned()),
        _ => {}
    }
    problems
}

/// The name of a port, as IANA writes them.
pub fn port_name(text: &str) -> Vec<String> {
    let mut problems = longer_than(text, 15);
    let mut need = |good: bool, problem: &str| {
        if !good {
            problems.push(problem.to_owned());
        }
    };
    need(
        text.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-'),
        "must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)",
    );
    need(text.bytes().any(|b| b.is_ascii_lowercase()), "must contain at least one letter (a-z)");
    need(!text.contains("--"), "must not contain consecutive hyphens");
    need(!text.starts_with('-') && !text.ends_with('-'), "must not begin or end with a hyphen");
    problems
}

pub fn port_number(port: i64) -> Vec<String> {
    in_range(port, 1, 65535)
}

pub fn in_range(number: i64, low: i64, high: i64) -> Vec<String> {
    match (low..=high).contains(&number) {
        true => Vec::new(),
        false => vec![format!("must be between {low} and {high}, inclusive")],
    }
}

/// A number of 0 or more, or a percentage of at most 100; nothing is good, too.
pub fn count_or_percent(value: &Value) -> Vec<String> {
    let Some(text) = value.as_str() else {
        return match value.as_i64().is_some_and(|number| number < 0) {
            true => vec!["must be greater than or equal to 0".to_owned()],
            false => Vec::new(),
        };
    };
    let digits = text.strip_suffix('%').filter(|d| !d.is_empty() && d.bytes().all(|b| b.is_ascii_digit()));
    match digits {
        None => vec![regex(
            "a valid percent string must be a numeric string followed by an ending '%'",
            "[0-9]+%",
            &["1%", "93%"],
        )],
        Some(digits) if digits.parse::<u32>().is_ok_and(|percent| percent <= 100) => Vec::new(),
        Some(_) => vec!["must not be greater than 100%".to_owned()],
    }
}

pub fn ip(text: &str) -> Vec<String> {
    match text.parse::<IpAddr>() {
        Ok(_) => Vec::new(),
        Err(_) => vec!["must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)".to_owned()],
    }
}

pub fn canonical_ip(text: &str) -> Vec<String> {
    match text.parse::<IpAddr>() {
        Ok(ip) if ip.to_string() != text => vec![format!("must be in canonical form (\"{ip}\")")],
        _ => ip(text),
    }
}

pub fn cidr(text: &str) -> Vec<String> {
    match text.parse::<IpNet>() {
        Ok(_) => Vec::new(),
        Err(_) => vec!["must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)".to_owned()],
    }
}

/// An address of another machine's interface: not unspecified, loopback, link-local or multicast.
pub fn endpoint_ip(text: &str) -> Vec<String> {
    let Ok(address) = text.parse::<IpAddr>() else { return ip(text) };
    // ::ffff:127.0.0.1 leads to this machine as well.
    let address = address.to_canonical();
    let link_local = match address {
        IpAddr::V4(v4) => v4.is_link_local(),
        IpAddr::V6(v6) => v6.is_unicast_link_local(),
    };
    let link_local_multicast = match address {
        IpAddr::V4(v4) => v4.octets()[..3] == [224, 0, 0],
        IpAddr::V6(v6) => v6.segments()[0] & 0xff0f == 0xff02,
    };
    let mut problems = Vec::new();
    if address.is_unspecified() {
        problems.push(format!("may not be unspecified ({text})"));
    }
    if address.is_loopback() {
        problems.push("may not be in the loopback range (127.0.0.0/8, ::1/128)".to_owned());
    }
    if link_local {
        problems.push("may not be in the link-local range (169.254.0.0/16, fe80::/10)".to_owned());
    }
    if link_local_multicast {
        problems.push("may not be in the link-local multicast range (224.0.0.0/24, ff02::/10)".to_owned());
    }
    problems
}

fn is_label(text: &str) -> bool {
    let word = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit();
    let bytes = text.as_bytes();
    bytes.iter().all(|&b| word(b) || b == b'-')
        && bytes.first().is_some_and(|&b| word(b))
        && bytes.last().is_some_and(|&b| word(b))
}

/// Alphanumeric at both ends; `-`, `_` and `.` between.
fn is_bounded_word(text: &str) -> bool {
    let bytes = text.as_bytes();
    bytes.iter().all(|b| b.is_ascii_alphanumeric() || b"-_.".contains(b))
        && bytes.first().is_some_and(u8::is_ascii_alphanumeric)
        && bytes.last().is_some_and(u8::is_ascii_alphanumeric)
}

fn longer_than(text: &str, max: usize) -> Vec<String> {
    match text.len() > max {
        true => vec![format!("must be no more than {max} bytes")],
        false => Vec::new(),
    }
}

/// Upstream's way to show a form, to the last space.
fn regex(what: &str, form: &str, examples: &[&str]) -> String {
    let examples: Vec<String> = examples.iter().map(|e| format!("'{e}', ")).collect();
    format!("{what} (e.g. {}regex used for validation is '{form}')", examples.join(" or "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forms() {
        #[track_caller]
        fn check(form: fn(&str) -> Vec<String>, good: &[&str], bad: &[&str]) {
            for text in good {
                assert!(form(text).is_empty(), "{text:?}: {:?}", form(text));
            }
            for text in bad {
                assert!(!form(text).is_empty(), "{text:?} passed");
            }
        }
        let long = "a".repeat(64);
        check(
            qualified_name,
            &["a", "A_b.c", "example.com/x"],
            &["", "/a", "a/", "a/b/c", "-a", "A.com/x", &long],
        );
        check(label_value, &["", "a", "A_b.c-1"], &["a b", "-a", &long]);
        check(config_key, &["a", ".a", "A_b-c.d", "-"], &["", "a b", ".", "..", "..a", "a/b"]);
        check(port_name, &["http", "a-1"], &["", "HTTP", "1", "a--b", "-a", "a-", "abcdefghijklmnop"]);
        check(ip, &["1.2.3.4", "::1"], &["", "1.2.3", "1.2.3.256", "01.2.3.4"]);
        check(cidr, &["10.0.0.0/8", "::/0"], &["10.0.0.0", "10.0.0.0/33", ""]);
        check(
            endpoint_ip,
            &["10.0.0.1", "fd00::1"],
            &["0.0.0.0", "127.0.0.1", "169.254.1.1", "224.0.0.1", "::1", "fe80::1", "x"],
        );
        check(endpoint_ip, &["::ffff:10.0.0.1"], &["::ffff:127.0.0.1", "::ffff:169.254.169.254"]);
        check(wildcard_subdomain, &["*.a.b"], &["*", "a.b", "*.", "*.*.a"]);
        check(fully_qualified, &["a.b"], &["a", "A.b"]);
    }

    #[test]
    fn wording() {
        assert_eq!(
            label("A")[0],
            "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')"
        );
    }
}
