//! JSON pointers, RFC 6901: where an operation of a JSON patch applies.

use std::borrow::Cow;

use serde_json::Value;

/// A parsed pointer: the unescaped reference tokens.
#[derive(Debug, PartialEq)]
pub(crate) struct Pointer<'a>(Vec<Cow<'a, str>>);

impl<'a> Pointer<'a> {
    pub fn parse(text: &'a str) -> Result<Self, String> {
        if text.is_empty() {
            return Ok(Pointer(Vec::new()));
        }
        let Some(tokens) = text.strip_prefix('/') else {
            return Err("a path must be empty or start with \"/\"".to_owned());
        };
        tokens.split('/').map(unescape).collect::<Result<_, _>>().map(Pointer)
    }

    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// The way to the container and the last token; `None` for the whole document.
    pub fn split_last(&self) -> Option<(&[Cow<'a, str>], &str)> {
        self.0.split_last().map(|(last, way)| (way, last.as_ref()))
    }

    pub fn parent(&self) -> Option<Pointer<'a>> {
        self.0.split_last().map(|(_, way)| Pointer(way.to_vec()))
    }

    pub fn starts_with(&self, other: &Pointer<'_>) -> bool {
        self.0.starts_with(&other.0)
    }

    pub fn find<'v>(&self, doc: &'v Value) -> Result<&'v Value, String> {
        self.0.iter().try_fold(doc, |at, token| match at {
            Value::Object(fields) => fields.get(&**token).ok_or_else(|| missing(token)),
            Value::Array(items) => {
                let index = parse_index(token)?;
                items.get(index).ok_or_else(|| outside(index, items.len()))
            }
            _ => Err(format!("{token:?} cannot be looked up in a value that is no object or array")),
        })
    }
}

/// Follows `way` and answers the container it ends at.
pub(crate) fn find_mut<'v>(mut at: &'v mut Value, way: &[Cow<'_, str>]) -> Result<&'v mut Value, String> {
    for token in way {
        at = match at {
            Value::Object(fields) => fields.get_mut(&**token).ok_or_else(|| missing(token))?,
            Value::Array(items) => {
                let (index, count) = (parse_index(token)?, items.len());
                items.get_mut(index).ok_or_else(|| outside(index, count))?
            }
            _ => return Err(format!("{token:?} cannot be looked up in a value that is no object or array")),
        };
    }
    Ok(at)
}

/// An array index as the RFC writes it: digits, no sign, no leading zero.
pub(crate) fn parse_index(token: &str) -> Result<usize, String> {
    let digits = !token.is_empty() && token.bytes().all(|byte| byte.is_ascii_digit());
    if !digits || (token.len() > 1 && token.starts_with('0')) {
        return Err(format!("{token:?} is no array index"));
    }
    token.parse().map_err(|_| format!("array index {token} is too large"))
}

pub(crate) fn missing(token: &str) -> String {
    format!("there is no field {token:?}")
}

pub(crate) fn outside(index: usize, count: usize) -> String {
    format!("array index {index} is outside of the array, which has {count} elements")
}

fn unescape(token: &str) -> Result<Cow<'_, str>, String> {
    if !token.contains('~') {
        return Ok(Cow::Borrowed(token));
    }
    let mut text = String::with_capacity(token.len());
    let mut chars = token.chars();
    while let Some(c) = chars.next() {
        match c {
            '~' => match chars.next() {
                Some('0') => text.push('~'),
                Some('1') => text.push('/'),
                _ => return Err(format!("{token:?}: \"~\" must be followed by 0 or 1")),
            },
            c => text.push(c),
        }
    }
    Ok(Cow::Owned(text))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn pointers_find_values() {
        let doc = json!({"a": [{"b/c": 1}, 2], "": 3, "m~n": 4});
        for (text, expected) in [
            ("/a/0/b~1c", json!(1)),
            ("/a/1", json!(2)),
            ("/", json!(3)),
            ("/m~0n", json!(4)),
            ("", doc.clone()),
        ] {
            assert_eq!(Pointer::parse(text).unwrap().find(&doc), Ok(&expected), "{text}");
        }
    }

    #[test]
    fn bad_pointers_say_why() {
        let doc = json!({"a": [1], "s": "text"});
        for (text, part) in [
            ("a", "start with"),
            ("/~2", "followed by 0 or 1"),
            ("/x", "no field \"x\""),
            ("/a/1", "has 1 elements"),
            ("/a/-1", "no array index"),
            ("/a/00", "no array index"),
            ("/a/99999999999999999999999", "too large"),
            ("/s/x", "no object or array"),
        ] {
            let found = Pointer::parse(text).and_then(|pointer| pointer.find(&doc).cloned());
            assert!(found.as_ref().is_err_and(|reason| reason.contains(part)), "{text}: {found:?}");
        }
    }
}
