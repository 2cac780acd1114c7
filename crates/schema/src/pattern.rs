//! `pattern`: regular expressions in the syntax of Go's RE2, as CustomResourceDefinitions are written.
//!
//! The `regex` crate differs from Go in a few places (Unicode `\d`, operators inside classes, a literal
//! `{`), so the text is translated first. An expression is built when the first value meets it, because
//! most of the patterns of a large definition are never used, and a built one costs kilobytes.

use std::sync::OnceLock;

use regex::{Regex, RegexBuilder};

/// Bounds what one expression may cost, built and while matching.
const SIZE_LIMIT: usize = 4 << 20;
const CACHE_LIMIT: usize = 256 << 10;

#[derive(Debug, Clone)]
pub struct Pattern {
    source: Box<str>,
    built: OnceLock<Option<Regex>>,
}

impl Pattern {
    pub fn new(source: &str) -> Self {
        Pattern { source: source.into(), built: OnceLock::new() }
    }

    /// As the user wrote it.
    pub fn source(&self) -> &str {
        &self.source
    }

    /// Whether any part of the text matches; an expression that cannot be built matches nothing.
    pub fn matches(&self, text: &str) -> bool {
        let built = self.built.get_or_init(|| build(&self.source).ok());
        built.as_ref().is_some_and(|regex| regex.is_match(text))
    }

    /// Why the expression cannot be built, if so.
    pub fn problem(&self) -> Option<String> {
        build(&self.source).err().map(|error| error.to_string())
    }
}

impl PartialEq for Pattern {
    fn eq(&self, other: &Self) -> bool {
        self.source == other.source
    }
}

fn build(source: &str) -> Result<Regex, regex::Error> {
    RegexBuilder::new(&from_go(source)).size_limit(SIZE_LIMIT).dfa_size_limit(CACHE_LIMIT).build()
}

/// Go's syntax in the words of the `regex` crate.
fn from_go(source: &str) -> String {
    let mut out = String::with_capacity(source.len() + 16);
    let mut rest = source;
    let mut in_class = false;
    while let Some(c) = rest.chars().next() {
        let used = match c {
            '\\' => escape(rest, in_class, &mut out),
            '[' if in_class => class_bracket(rest, &mut out),
            '[' => {
                in_class = true;
                class_start(rest, &mut out)
            }
            ']' => {
                in_class = false;
                push(&mut out, c)
            }
            // `&&`, `--` and `~~` are set operators there and plain characters in Go.
            '&' | '~' | '-' if in_class && rest[1..].starts_with(c) => {
                out.push('\\');
                push(&mut out, c)
            }
            '{' if !in_class && !is_repetition(rest) => {
                out.push('\\');
                push(&mut out, c)
            }
            _ => push(&mut out, c),
        };
        rest = &rest[used..];
    }
    out
}

fn push(out: &mut String, c: char) -> usize {
    out.push(c);
    c.len_utf8()
}

/// `[`, `[^` and a `]` right behind them, which is a literal.
fn class_start(rest: &str, out: &mut String) -> usize {
    let negated = if rest.starts_with("[^") { 2 } else { 1 };
    out.push_str(&rest[..negated]);
    if rest[negated..].starts_with(']') {
        out.push_str("\\]");
        return negated + 1;
    }
    negated
}

/// A `[` inside a class: `[:alpha:]`, or a literal.
fn class_bracket(rest: &str, out: &mut String) -> usize {
    match rest.find(":]") {
        Some(end) if rest.starts_with("[:") => {
            out.push_str(&rest[..end + 2]);
            end + 2
        }
        _ => {
            out.push_str("\\[");
            1
        }
    }
}

/// A backslash and what belongs to it. Returns how much was read.
fn escape(rest: &str, in_class: bool, out: &mut String) -> usize {
    if let Some(quoted) = rest.strip_prefix("\\Q") {
        let (text, end) = match quoted.find("\\E") {
            Some(at) => (&quoted[..at], at + 4),
            None => (quoted, rest.len()),
        };
        out.push_str(&regex::escape(text));
        return end;
    }
    let Some(c) = rest[1..].chars().next() else {
        out.push('\\');
        return 1;
    };
    let in_set = |inside: &str, negated: bool| match (in_class, negated) {
        (true, false) => inside.to_owned(),
        (_, true) => format!("[^{inside}]"),
        (false, false) => format!("[{inside}]"),
    };
    match c {
        'd' | 'D' => out.push_str(&in_set("0-9", c == 'D')),
        'w' | 'W' => out.push_str(&in_set("0-9A-Za-z_", c == 'W')),
        's' | 'S' => out.push_str(&in_set("\\t\\n\\x0C\\r ", c == 'S')),
        'b' if !in_class => out.push_str("(?-u:\\b)"),
        '<' | '>' => out.push(c),
        _ => {
            out.push('\\');
            out.push(c);
        }
    }
    1 + c.len_utf8()
}

/// Whether `{` opens `{n}`, `{n,}` or `{n,m}`; anything else is a literal brace in Go.
fn is_repetition(rest: &str) -> bool {
    let Some(end) = rest.find('}') else { return false };
    let (low, high) = rest[1..end].split_once(',').unwrap_or((&rest[1..end], ""));
    let digits = |text: &str| text.bytes().all(|b| b.is_ascii_digit());
    !low.is_empty() && digits(low) && digits(high)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn matches_as_go_does() {
        let check = |pattern: &str, yes: &[&str], no: &[&str]| {
            let pattern = Pattern::new(pattern);
            assert_eq!(pattern.problem(), None, "{}", pattern.source());
            for text in yes {
                assert!(pattern.matches(text), "{} should match {text:?}", pattern.source());
            }
            for text in no {
                assert!(!pattern.matches(text), "{} should not match {text:?}", pattern.source());
            }
        };
        check("^[a-z0-9]([-a-z0-9]*[a-z0-9])?$", &["a", "a-b"], &["-a", "", "A", "a\n"]);
        check(r"^(\d+|\*)(/\d+)?(\s+(\d+|\*)(/\d+)?){4}$", &["* * * * */5"], &["* * * *", "٣ * * * *"]);
        check("bc", &["abcd"], &["b"]);
        check("^{.*}$", &["{x}"], &["x"]);
        check("^a{2,3}$", &["aa", "aaa"], &["a", "aaaa"]);
        check("^a{,3}$", &["a{,3}"], &["aa"]);
        check("^[[]$", &["["], &["]"]);
        check("^[]a]$", &["]", "a"], &["["]);
        check("^[^]a]$", &["b"], &["]", "a"]);
        check("^[[:alpha:]_]+$", &["ab_"], &["1"]);
        check("^[a&&b]$", &["&", "a"], &["c"]);
        check(r"^[\w.-]+$", &["a_1.-"], &["ä", " "]);
        check(r"^[^\s]+$", &["abc"], &["a b"]);
        check(r"^\Qa.b\E$", &["a.b"], &["axb"]);
        check(r"^\<a\>$", &["<a>"], &["a"]);
        check(r"^https?:\/\/", &["http://x"], &["ftp://"]);
        check(r"^[\D]$", &["a"], &["1"]);
    }

    #[test]
    fn says_what_cannot_be_built() {
        for pattern in ["(", "(?=x)", "[z-a]", "\\"] {
            assert!(Pattern::new(pattern).problem().is_some(), "{pattern}");
            assert!(!Pattern::new(pattern).matches("x"));
        }
        assert!(Pattern::new("((a{1000}){1000}){1000}").problem().is_some(), "size is bounded");
    }

    proptest::proptest! {
        #[test]
        fn never_panics(pattern in "[a-z\\\\\\[\\]{}(),.:^$&~0-9QEdwsä-]{0,20}", text in ".{0,10}") {
            Pattern::new(&pattern).matches(&text);
        }
    }
}
