//! From text to tokens.

pub type Failed = (usize, String);

#[derive(Debug, Clone, PartialEq)]
pub enum Kind {
    Identifier,
    Number,
    Duration,
    Text(String),
    /// Operators, brackets, commas: as they are written.
    Sign,
    End,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Token<'a> {
    pub kind: Kind,
    pub text: &'a str,
    pub at: usize,
}

/// Longer ones before their beginnings.
const SIGNS: &[&str] = &[
    "==", "!=", "<=", ">=", "=~", "!~", "=", "<", ">", "+", "-", "*", "/", "%", "^", "(", ")", "{", "}", "[",
    "]", ",", ":", "@",
];

pub fn tokens(text: &str) -> Result<Vec<Token<'_>>, Failed> {
    let mut tokens = Vec::new();
    let mut at = 0;
    // Between brackets a colon is the middle of a subquery, elsewhere a part of names.
    let mut in_range = false;
    while let Some(first) = text[at..].chars().next() {
        if first.is_whitespace() {
            at += first.len_utf8();
            continue;
        }
        if first == '#' {
            at = text[at..].find('\n').map_or(text.len(), |end| at + end);
            continue;
        }
        let (kind, end) = token(text, at, first, in_range)?;
        match &text[at..end] {
            "[" => in_range = true,
            "]" => in_range = false,
            _ => {}
        }
        tokens.push(Token { kind, text: &text[at..end], at });
        at = end;
    }
    tokens.push(Token { kind: Kind::End, text: "", at: text.len() });
    Ok(tokens)
}

fn token(text: &str, at: usize, first: char, in_range: bool) -> Result<(Kind, usize), Failed> {
    let rest = &text[at..];
    if matches!(first, '"' | '\'' | '`') {
        return string(rest, first, at).map(|(value, length)| (Kind::Text(value), at + length));
    }
    let is_number =
        first.is_ascii_digit() || (first == '.' && rest[1..].starts_with(|c: char| c.is_ascii_digit()));
    if is_number {
        return number(rest, at).map(|(kind, length)| (kind, at + length));
    }
    let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_' || (c == ':' && !in_range);
    if is_part(first) {
        let end = rest.find(|c: char| !is_part(c)).unwrap_or(rest.len());
        return Ok((Kind::Identifier, at + end));
    }
    match SIGNS.iter().find(|sign| rest.starts_with(**sign)) {
        Some(sign) => Ok((Kind::Sign, at + sign.len())),
        None => Err((at, format!("unexpected character: {first:?}"))),
    }
}

/// A number, or a duration: `5m`, `1h30m`.
fn number(rest: &str, at: usize) -> Result<(Kind, usize), Failed> {
    if let Some(digits) = rest.strip_prefix("0x").or_else(|| rest.strip_prefix("0X")) {
        let length = digits.find(|c: char| !c.is_ascii_hexdigit()).unwrap_or(digits.len());
        return Ok((Kind::Number, 2 + length));
    }
    let mut length = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '.').unwrap_or(rest.len());
    // 1e-9
    if rest[..length].ends_with(['e', 'E']) && rest[length..].starts_with(['-', '+']) {
        let digits = &rest[length + 1..];
        length += 1 + digits.find(|c: char| !c.is_ascii_digit()).unwrap_or(digits.len());
    }
    let word = &rest[..length];
    if word.parse::<f64>().is_ok() {
        return Ok((Kind::Number, length));
    }
    match crate::monitors::duration_milliseconds(word) {
        Some(_) => Ok((Kind::Duration, length)),
        None => Err((at, format!("bad number or duration syntax: {word:?}"))),
    }
}

fn string(rest: &str, quote: char, at: usize) -> Result<(String, usize), Failed> {
    let mut value = String::new();
    let mut characters = rest.char_indices().skip(1);
    while let Some((offset, character)) = characters.next() {
        match character {
            _ if character == quote => return Ok((value, offset + 1)),
            '\n' if quote != '`' => break,
            '\\' if quote != '`' => match characters.next() {
                Some((_, 'n')) => value.push('\n'),
                Some((_, 't')) => value.push('\t'),
                Some((_, 'r')) => value.push('\r'),
                Some((_, escaped @ ('\\' | '"' | '\''))) => value.push(escaped),
                // Codes of characters are seldom, and their value matters to nobody here.
                Some((_, 'a' | 'b' | 'f' | 'v' | 'x' | 'u' | 'U' | '0'..='7')) => value.push('?'),
                Some((_, escaped)) => return Err((at, format!("unknown escape sequence: '\\{escaped}'"))),
                None => break,
            },
            character => value.push(character),
        }
    }
    Err((at, "unterminated quoted string".to_owned()))
}
