//! Field names of JSON as identifiers: `a-b` is written `a__dash__b`, `in` is written `__in__`.

use crate::parse::RESERVED;

/// Words that mean something in an expression, beside those that never do.
const LITERALS: [&str; 4] = ["true", "false", "null", "in"];

/// The identifier for a field name, or None if no expression can name it.
pub fn escape(name: &str) -> Option<String> {
    if name.is_empty() || name.starts_with(|c: char| c.is_ascii_digit()) {
        return None;
    }
    if LITERALS.contains(&name) || RESERVED.contains(&name) {
        return Some(format!("__{name}__"));
    }
    let mut found = String::with_capacity(name.len());
    let mut rest = name;
    while let Some(first) = rest.chars().next() {
        if let Some(after) = rest.strip_prefix("__") {
            found.push_str("__underscores__");
            rest = after;
            continue;
        }
        match first {
            '.' => found.push_str("__dot__"),
            '-' => found.push_str("__dash__"),
            '/' => found.push_str("__slash__"),
            c if c.is_ascii_alphanumeric() || c == '_' => found.push(c),
            _ => return None,
        }
        rest = &rest[first.len_utf8()..];
    }
    Some(found)
}

/// Whether an expression can name a variable like this.
pub fn is_identifier(name: &str) -> bool {
    let is_letter = |c: char| c.is_ascii_alphabetic() || c == '_';
    name.starts_with(is_letter)
        && name.chars().all(|c| is_letter(c) || c.is_ascii_digit())
        && !LITERALS.contains(&name)
        && !RESERVED.contains(&name)
}

#[cfg(test)]
mod tests {
    #[test]
    fn identifiers_are_words_that_mean_nothing_else() {
        for (name, expected) in
            [("a", true), ("_a1", true), ("if", false), ("1a", false), ("a-b", false), ("", false)]
        {
            assert_eq!(super::is_identifier(name), expected, "{name}");
        }
    }

    #[test]
    fn names_are_escaped_as_the_api_documents_it() {
        for (name, expected) in [
            ("plain_1", Some("plain_1")),
            ("a-b.c/d", Some("a__dash__b__dot__c__slash__d")),
            ("a__b", Some("a__underscores__b")),
            ("___", Some("__underscores___")),
            ("namespace", Some("__namespace__")),
            ("1a", None),
            ("a$", None),
            ("", None),
        ] {
            assert_eq!(super::escape(name).as_deref(), expected, "{name}");
        }
    }
}
