//! YAML as kubectl prints it, byte for byte: keys in order, lists as deep as their key, long lines folded at
//! 80 columns, and each text in the plainest style that reads back as itself.

use std::cmp::Ordering;

use serde_json::Value;

use crate::manifest::yaml::scalar;

const WIDTH: usize = 80;

/// One document, with a newline at its end.
pub fn to_string(value: &Value) -> String {
    let mut writer = Writer { out: String::new(), column: 0 };
    writer.node(value, 0, Position::Top);
    writer.out
}

#[derive(Clone, Copy, PartialEq)]
enum Position {
    Top,
    /// After `key:`.
    Value,
    /// After `- `.
    Item,
}

struct Writer {
    out: String,
    column: usize,
}

impl Writer {
    fn node(&mut self, value: &Value, indent: usize, position: Position) {
        match value {
            Value::Object(map) if !map.is_empty() => {
                let mut keys: Vec<&String> = map.keys().collect();
                keys.sort_by(|a, b| natural(a, b));
                if position == Position::Value {
                    self.newline();
                }
                for (i, key) in keys.into_iter().enumerate() {
                    if i > 0 || position != Position::Item {
                        self.pad(indent);
                    }
                    self.text(key, indent, true);
                    self.put(":");
                    self.value(&map[key], indent);
                }
            }
            Value::Array(items) if !items.is_empty() => {
                if position == Position::Value {
                    self.newline();
                }
                for (i, item) in items.iter().enumerate() {
                    if i > 0 || position != Position::Item {
                        self.pad(indent);
                    }
                    self.put("- ");
                    self.node(item, indent + 2, Position::Item);
                }
            }
            leaf => {
                if position == Position::Value {
                    self.put(" ");
                }
                self.leaf(leaf, indent);
                self.newline();
            }
        }
    }

    /// What stands after `key:`. Lists are no deeper than their key.
    fn value(&mut self, value: &Value, indent: usize) {
        let below = if value.is_array() && value != &Value::Array(Vec::new()) { indent } else { indent + 2 };
        self.node(value, below, Position::Value);
    }

    fn leaf(&mut self, value: &Value, indent: usize) {
        match value {
            Value::String(text) => self.text(text, indent, false),
            Value::Object(_) => self.put("{}"),
            Value::Array(_) => self.put("[]"),
            other => self.put(&super::json::number(other)),
        }
    }

    fn text(&mut self, text: &str, indent: usize, is_key: bool) {
        let traits = Traits::of(text);
        if text.contains('\n') && traits.block_allowed && !is_key {
            return self.literal(text, indent);
        }
        let reads_as_text = scalar(text).is_string() && !looks_like_time(text);
        if !text.contains('\n') && reads_as_text {
            if traits.plain_allowed {
                return self.folded(text, indent, is_key, Style::Plain);
            }
            if traits.single_allowed {
                return self.folded(text, indent, is_key, Style::Single);
            }
        }
        self.folded(text, indent, is_key, Style::Double);
    }

    fn literal(&mut self, text: &str, indent: usize) {
        self.put("|");
        if text.starts_with([' ', '\n']) {
            self.put("2");
        }
        if !text.ends_with('\n') {
            self.put("-");
        } else if text == "\n" || text.ends_with("\n\n") {
            self.put("+");
        }
        for line in text.strip_suffix('\n').unwrap_or(text).split('\n') {
            self.newline();
            if !line.is_empty() {
                self.pad(indent);
                self.put(line);
            }
        }
    }

    /// A text in one of the styles that may be broken at blanks.
    fn folded(&mut self, text: &str, indent: usize, is_key: bool, style: Style) {
        let quote = match style {
            Style::Plain => "",
            Style::Single => "'",
            Style::Double => "\"",
        };
        self.put(quote);
        let chars: Vec<char> = text.chars().collect();
        let mut after_space = false;
        for (i, &c) in chars.iter().enumerate() {
            let next_is_space = chars.get(i + 1) == Some(&' ');
            let inside = style == Style::Plain || (i > 0 && i + 1 < chars.len());
            let may_break = c == ' ' && !is_key && !after_space && self.column > WIDTH && inside;
            if may_break && (style == Style::Double || !next_is_space) {
                self.newline();
                self.pad(indent);
                if next_is_space {
                    self.put("\\");
                }
            } else {
                match style {
                    Style::Single if c == '\'' => self.put("''"),
                    Style::Double => self.put(&escaped(c)),
                    _ => self.put(c.encode_utf8(&mut [0; 4])),
                }
            }
            after_space = c == ' ';
        }
        self.put(quote);
    }

    fn put(&mut self, text: &str) {
        self.out.push_str(text);
        self.column += text.chars().count();
    }

    fn pad(&mut self, indent: usize) {
        self.put(&" ".repeat(indent));
    }

    fn newline(&mut self) {
        self.out.push('\n');
        self.column = 0;
    }
}

#[derive(Clone, Copy, PartialEq)]
enum Style {
    Plain,
    Single,
    Double,
}

fn escaped(c: char) -> String {
    match c {
        '"' => "\\\"".to_owned(),
        '\\' => "\\\\".to_owned(),
        '\n' => "\\n".to_owned(),
        '\t' => "\\t".to_owned(),
        '\r' => "\\r".to_owned(),
        '\0' => "\\0".to_owned(),
        '\u{7}' => "\\a".to_owned(),
        '\u{8}' => "\\b".to_owned(),
        '\u{b}' => "\\v".to_owned(),
        '\u{c}' => "\\f".to_owned(),
        '\u{1b}' => "\\e".to_owned(),
        c if is_printable(c) => c.to_string(),
        c if (c as u32) < 0x100 => format!("\\x{:02X}", c as u32),
        c if (c as u32) < 0x10000 => format!("\\u{:04X}", c as u32),
        c => format!("\\U{:08X}", c as u32),
    }
}

fn is_printable(c: char) -> bool {
    matches!(c, '\n' | ' '..='~' | '\u{a0}'..='\u{d7ff}' | '\u{e000}'..='\u{fffd}' | '\u{10000}'..)
        && c != '\u{feff}'
}

/// Which styles a text can stand in.
struct Traits {
    plain_allowed: bool,
    single_allowed: bool,
    block_allowed: bool,
}

impl Traits {
    fn of(text: &str) -> Traits {
        let chars: Vec<char> = text.chars().collect();
        let blank = |i: usize| chars.get(i).is_none_or(|c| matches!(c, ' ' | '\t' | '\n'));
        let mut indicators = text.starts_with("---") || text.starts_with("...");
        let (mut special, mut space_break, mut break_space) = (false, false, false);
        for (i, &c) in chars.iter().enumerate() {
            let first = i == 0;
            indicators |= match c {
                '#' if first => true,
                ',' | '[' | ']' | '{' | '}' | '&' | '*' | '!' | '|' | '>' | '\'' | '"' | '%' | '@' | '`' => {
                    first
                }
                '?' | '-' => first && blank(i + 1),
                ':' => blank(i + 1),
                '#' => blank(i - 1),
                _ => false,
            };
            special |= !is_printable(c);
            space_break |= c == ' ' && chars.get(i + 1) == Some(&'\n');
            break_space |= c == '\n' && chars.get(i + 1) == Some(&' ');
        }
        let edge = |c: Option<&char>| matches!(c, Some(' ' | '\n'));
        let trailing_space = chars.last() == Some(&' ');
        let edges = edge(chars.first()) || edge(chars.last());
        let breaks = text.contains('\n');
        Traits {
            plain_allowed: !(indicators
                || special
                || space_break
                || break_space
                || edges
                || breaks
                || text.is_empty()),
            single_allowed: !(special || space_break || break_space),
            block_allowed: !(special || space_break || trailing_space),
        }
    }
}

/// Dates and `1:20` (sixty-based numbers) would be read as something else by old parsers.
fn looks_like_time(text: &str) -> bool {
    let bytes = text.as_bytes();
    let digits = |part: &str, least: usize, most: usize| {
        (least..=most).contains(&part.len()) && part.bytes().all(|b| b.is_ascii_digit())
    };
    let date = text.get(..10).is_some_and(|date| {
        let parts: Vec<&str> = date.split('-').collect();
        matches!(parts.as_slice(), [y, m, d] if digits(y, 4, 4) && digits(m, 2, 2) && digits(d, 2, 2))
    });
    if date && (bytes.len() == 10 || matches!(bytes[10], b'T' | b't' | b' ')) {
        return jiff::civil::Date::strptime("%Y-%m-%d", &text[..10]).is_ok();
    }
    let sexagesimal = text.trim_start_matches(['-', '+']);
    let mut parts = sexagesimal.split(':');
    let starts_well = parts.next().is_some_and(|first| digits(first, 1, 20));
    let rest: Vec<&str> = parts.collect();
    let sixty = |part: &&str| {
        let whole = part.split('.').next().unwrap_or_default();
        digits(whole, 1, 2) && whole.parse::<u8>().is_ok_and(|n| n < 60)
    };
    starts_well && !rest.is_empty() && rest.iter().all(sixty)
}

/// The order of keys: digits count as numbers, and stand before letters.
fn natural(a: &str, b: &str) -> Ordering {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
    for i in 0..a.len().min(b.len()) {
        if a[i] == b[i] {
            continue;
        }
        match (a[i].is_alphabetic(), b[i].is_alphabetic()) {
            (true, true) => return a[i].cmp(&b[i]),
            (true, false) => return Ordering::Greater,
            (false, true) => return Ordering::Less,
            (false, false) => {}
        }
        let significant = (a[i] == '0' || b[i] == '0')
            && a[..i].iter().rev().take_while(|c| c.is_ascii_digit()).any(|c| *c != '0');
        let number = |text: &[char]| {
            let digits = text[i..].iter().take_while(|c| c.is_ascii_digit());
            let mut value = u128::from(significant);
            let mut length = 0;
            for digit in digits {
                value = value.saturating_mul(10).saturating_add(u128::from(digit.to_digit(10).unwrap_or(0)));
                length += 1;
            }
            (value, length)
        };
        return number(&a).cmp(&number(&b)).then(a[i].cmp(&b[i]));
    }
    a.len().cmp(&b.len())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::manifest::yaml::parse;

    /// What kubectl 1.32 prints for the same data.
    #[test]
    fn as_kubectl_prints_it() {
        let long = "word1 word2 word3 word4 word5 word6 word7 word8 word9 word10 word11 word12 word13 word14 word15 word16 word17";
        let value = json!({
            "data": {
                "a": long, "b": format!("{long}: x # y"), "c": "tab\tx", "d": "a\nb", "e": "a\n\n", "f": " lead",
                "g": "1", "h": "yes", "i": "", "j": " a\nb \n", "k10": "a", "k9": "a", "l": "{\"a\":1}", "m": "it's",
                "n": "a: b", "o": "é ünï", "p": "2026-01-01", "q": "1:20", "r": "- x", "s": "a #b", "t": "x\ny  ", "u": "<>&",
            },
            "none": {}, "list": [{"b": 1, "a": [[1, 2], []]}, "x"], "nothing": null,
        });
        let expected = r#"data:
  a: word1 word2 word3 word4 word5 word6 word7 word8 word9 word10 word11 word12 word13
    word14 word15 word16 word17
  b: 'word1 word2 word3 word4 word5 word6 word7 word8 word9 word10 word11 word12 word13
    word14 word15 word16 word17: x # y'
  c: "tab\tx"
  d: |-
    a
    b
  e: |+
    a

  f: ' lead'
  g: "1"
  h: "yes"
  i: ""
  j: " a\nb \n"
  k9: a
  k10: a
  l: '{"a":1}'
  m: it's
  "n": 'a: b'
  o: é ünï
  p: "2026-01-01"
  q: "1:20"
  r: '- x'
  s: 'a #b'
  t: "x\ny  "
  u: <>&
list:
- a:
  - - 1
    - 2
  - []
  b: 1
- x
none: {}
nothing: null
"#;
        assert_eq!(to_string(&value), expected);
    }

    proptest::proptest! {
        /// Whatever the text, it reads back as itself.
        #[test]
        fn reads_back(text in "\\PC{0,30}|[ -~\n]{0,40}|([a-z]{1,9} ){10,30}", key in "[a-z0-9./-]{1,9}") {
            let value = json!({"top": {key: text, "list": [text, [text]]}});
            let printed = to_string(&value);
            proptest::prop_assert_eq!(parse(&printed).map(|mut d| d.remove(0).value), Ok(value), "{}", printed);
        }
    }
}
