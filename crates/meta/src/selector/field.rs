//! Field selectors: `metadata.name=web,status.phase!=Running`.

use std::fmt;

use super::SelectorError;

/// What fields must (not) equal. The default selects everything.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FieldSelector {
    terms: Vec<Term>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Term {
    field: String,
    value: String,
    equal: bool,
}

impl FieldSelector {
    /// `a=b`, `a==b`, `a!=b`, joined by commas; a backslash takes `\`, `,` and `=` literally.
    pub fn parse(text: &str) -> Result<Self, SelectorError> {
        let mut terms = Vec::new();
        for part in split_terms(text).into_iter().filter(|part| !part.is_empty()) {
            let Some((field, equal, value)) = split_operator(part) else {
                return Err(SelectorError(format!("invalid selector: '{text}'; can't understand '{part}'")));
            };
            terms.push(Term { field: field.to_owned(), value: unescape(value)?, equal });
        }
        Ok(FieldSelector { terms })
    }

    pub fn is_everything(&self) -> bool {
        self.terms.is_empty()
    }

    /// The names of the fields in use: to refuse the ones a kind does not have.
    pub fn fields(&self) -> impl Iterator<Item = &str> {
        self.terms.iter().map(|term| term.field.as_str())
    }

    /// The value that this field must have: a request for one name needs no list.
    pub fn exact(&self, field: &str) -> Option<&str> {
        self.terms.iter().find(|term| term.equal && term.field == field).map(|term| term.value.as_str())
    }

    /// `value_of` looks a field up; a field that is not set counts as empty.
    pub fn matches<'a>(&self, value_of: impl Fn(&str) -> Option<&'a str>) -> bool {
        self.terms.iter().all(|term| (value_of(&term.field).unwrap_or_default() == term.value) == term.equal)
    }
}

impl fmt::Display for FieldSelector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, term) in self.terms.iter().enumerate() {
            let comma = if i > 0 { "," } else { "" };
            let operator = if term.equal { "=" } else { "!=" };
            let value = term.value.replace('\\', "\\\\").replace(',', "\\,").replace('=', "\\=");
            write!(f, "{comma}{}{operator}{value}", term.field)?;
        }
        Ok(())
    }
}

/// Splits at commas that no backslash precedes.
fn split_terms(text: &str) -> Vec<&str> {
    let mut terms = Vec::new();
    let (mut start, mut escaped) = (0, false);
    for (i, c) in text.char_indices() {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            ',' => {
                terms.push(&text[start..i]);
                start = i + 1;
            }
            _ => {}
        }
    }
    terms.push(&text[start..]);
    terms
}

/// Field, whether it must be equal, and the value still escaped.
fn split_operator(term: &str) -> Option<(&str, bool, &str)> {
    let at = term.char_indices().find(|&(i, _)| {
        let rest = &term[i..];
        rest.starts_with("!=") || rest.starts_with('=')
    });
    let (i, _) = at?;
    let rest = &term[i..];
    let (equal, length) = match rest {
        r if r.starts_with("!=") => (false, 2),
        r if r.starts_with("==") => (true, 2),
        _ => (true, 1),
    };
    Some((&term[..i], equal, &rest[length..]))
}

fn unescape(value: &str) -> Result<String, SelectorError> {
    let mut plain = String::with_capacity(value.len());
    let mut chars = value.chars();
    while let Some(c) = chars.next() {
        match c {
            '\\' => match chars.next() {
                Some(c @ ('\\' | ',' | '=')) => plain.push(c),
                Some(c) => {
                    let message = format!("invalid field selector: invalid escape sequence: \\{c}");
                    return Err(SelectorError(message));
                }
                None => {
                    return Err(SelectorError("invalid field selector: invalid escape sequence: \\".into()));
                }
            },
            '=' => {
                let message = "invalid field selector: unescaped character in value: =";
                return Err(SelectorError(message.into()));
            }
            c => plain.push(c),
        }
    }
    Ok(plain)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::FieldSelector;

    fn check(selector: &str, expected: bool) {
        let parsed = FieldSelector::parse(selector).expect(selector);
        let value_of = |field: &str| match field {
            "metadata.name" => Some("web"),
            "spec.note" => Some("a=b,c\\d"),
            _ => None,
        };
        assert_eq!(parsed.matches(value_of), expected, "{selector}");
    }

    #[test]
    fn matching() {
        check("", true);
        check("metadata.name=web", true);
        check("metadata.name==web", true);
        check("metadata.name!=web", false);
        check("metadata.name=web,spec.nodeName=", true);
        check("metadata.name=web,spec.nodeName!=", false);
        check(r"spec.note=a\=b\,c\\d", true);
        check(",metadata.name=web,", true);
    }

    #[test]
    fn exact_values_are_found() {
        let selector = FieldSelector::parse("a!=x,b=y").expect("valid");
        assert_eq!((selector.exact("a"), selector.exact("b")), (None, Some("y")));
        assert_eq!(selector.fields().collect::<Vec<_>>(), ["a", "b"]);
    }

    #[test]
    fn errors() {
        for (text, part) in [
            ("metadata.name", "can't understand 'metadata.name'"),
            (r"a=b\c", r"invalid escape sequence: \c"),
            ("a=b\\", "invalid escape sequence: \\"),
            ("a=b=c", "unescaped character in value: ="),
        ] {
            let error = FieldSelector::parse(text).expect_err(text).to_string();
            assert!(error.contains(part), "{text}: {error}");
        }
    }

    proptest! {
        #[test]
        fn prints_what_it_parses(text in r"[ab=!,\\]{0,16}") {
            if let Ok(selector) = FieldSelector::parse(&text) {
                prop_assert_eq!(FieldSelector::parse(&selector.to_string()), Ok(selector));
            }
        }
    }
}
