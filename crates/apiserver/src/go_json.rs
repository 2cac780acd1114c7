//! JSON as Go's encoder writes it: `<`, `>`, `&` and the two line separators of JavaScript are escaped.
//!
//! It means the same, but clients compare raw parts of objects (the data of a ControllerRevision) byte by byte
//! with what Go would write.

use std::io;

use serde::Serialize;
use serde_json::ser::{Formatter, Serializer};

pub fn to_vec(value: &impl Serialize) -> serde_json::Result<Vec<u8>> {
    let mut out = Vec::with_capacity(1024);
    value.serialize(&mut Serializer::with_formatter(&mut out, GoFormatter))?;
    Ok(out)
}

struct GoFormatter;

impl Formatter for GoFormatter {
    fn write_string_fragment<W: ?Sized + io::Write>(&mut self, out: &mut W, text: &str) -> io::Result<()> {
        let is_special = |c: char| matches!(c, '<' | '>' | '&' | '\u{2028}' | '\u{2029}');
        // Nearly all text has none of them: 0xe2 begins the separators.
        if !text.bytes().any(|byte| matches!(byte, b'<' | b'>' | b'&' | 0xe2)) {
            return out.write_all(text.as_bytes());
        }
        let mut rest = text;
        while let Some(at) = rest.find(is_special) {
            let (before, found) = rest.split_at(at);
            out.write_all(before.as_bytes())?;
            let mut chars = found.chars();
            if let Some(special) = chars.next() {
                write!(out, "\\u{:04x}", u32::from(special))?;
            }
            rest = chars.as_str();
        }
        out.write_all(rest.as_bytes())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn text_is_escaped_as_go_escapes_it() {
        for (value, expected) in [
            (json!({"a": [1, "x\n\"y"]}), r#"{"a":[1,"x\n\"y"]}"#),
            (json!("a && b > c < d"), r#""a \u0026\u0026 b \u003e c \u003c d""#),
            (json!({"<k>": "é\u{2028}\u{2029}€"}), "{\"\\u003ck\\u003e\":\"é\\u2028\\u2029€\"}"),
            (json!("&"), r#""\u0026""#),
        ] {
            let text = String::from_utf8(to_vec(&value).unwrap()).unwrap();
            assert_eq!(text, expected);
            assert_eq!(text.parse::<Value>().unwrap(), value);
        }
    }
}
