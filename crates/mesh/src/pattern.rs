//! Regular expressions of users: they take time in proportion to what they look at, and a bounded amount of memory.

use regex::{Regex, RegexBuilder};

/// Of a compiled expression.
const LARGEST: usize = 256 << 10;

/// The expression, or what is wrong with it and where: the expression stands below, with a caret under the place.
pub fn compile(text: &str) -> Result<Regex, String> {
    RegexBuilder::new(text).size_limit(LARGEST).dfa_size_limit(LARGEST).build().map_err(|error| match error {
        regex::Error::CompiledTooBig(_) => "is too large when compiled: use a simpler one".to_owned(),
        other => {
            // The last line of several says what is wrong; those before it draw where.
            let text = other.to_string();
            let lines: Vec<&str> = text.lines().collect();
            let last = lines.last().copied().unwrap_or_default();
            let drawn: Vec<&str> = lines.iter().filter(|line| line.starts_with(' ')).copied().collect();
            let what = format!("is not a regular expression: {}", last.trim_start_matches("error: "));
            if drawn.is_empty() { what } else { format!("{what}\n{}", drawn.join("\n")) }
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bad_expression_is_explained() {
        let drawn = "is not a regular expression: unclosed group\n    a(b\n     ^";
        assert_eq!(compile("a(b").unwrap_err(), drawn);
        assert!(compile(r"\w{1000}{1000}").unwrap_err().contains("too large"));
        assert!(compile("^/reviews/[0-9]+$").unwrap().is_match("/reviews/7"));
    }
}
