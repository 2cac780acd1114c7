//! From text to tokens. Whether a slash begins a pattern depends on what stands before it, so the parser asks for one
//! token at a time.

use std::sync::Arc;

use crate::error::Error;

#[derive(Debug, Clone, PartialEq)]
pub enum Token {
    End,
    Name(Arc<str>),
    Variable(Arc<str>),
    String(Arc<str>),
    Number(f64),
    Boolean(bool),
    Null,
    Regex(String, String),
    Operator(&'static str),
}

const OPERATORS: &[&str] = &[
    "..", ":=", "!=", ">=", "<=", "**", "~>", "?:", "??", ".", "[", "]", "{", "}", "(", ")", ",", "@", "#",
    ";", ":", "?", "+", "-", "*", "/", "%", "|", "=", "<", ">", "^", "&", "!", "~",
];

pub struct Lexer<'a> {
    text: &'a str,
    pub at: usize,
}

impl<'a> Lexer<'a> {
    pub fn new(text: &'a str) -> Self {
        Self { text, at: 0 }
    }

    fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    /// The next token and where it begins. After an operand (`infix`) a slash divides.
    pub fn next(&mut self, infix: bool) -> Result<(Token, usize), Error> {
        self.skip()?;
        let start = self.at;
        let Some(first) = self.rest().chars().next() else { return Ok((Token::End, start)) };
        if first == '/' && !infix {
            self.at += 1;
            return Ok((self.regex(start)?, start));
        }
        if let Some(operator) = OPERATORS.iter().find(|operator| self.rest().starts_with(**operator)) {
            self.at += operator.len();
            return Ok((Token::Operator(operator), start));
        }
        match first {
            '"' | '\'' => Ok((Token::String(self.string(first)?.into()), start)),
            '0'..='9' => Ok((self.number(start)?, start)),
            '`' => {
                let Some(end) = self.rest()[1..].find('`') else {
                    return Err(Error::at(
                        "S0105",
                        start,
                        "Quoted property name must be terminated with a backquote (`)",
                    ));
                };
                let name = &self.rest()[1..=end];
                self.at += end + 2;
                Ok((Token::Name(name.into()), start))
            }
            _ => Ok((self.word(), start)),
        }
    }

    fn skip(&mut self) -> Result<(), Error> {
        loop {
            self.at =
                self.text.len() - self.rest().trim_start_matches([' ', '\t', '\n', '\r', '\u{b}']).len();
            if !self.rest().starts_with("/*") {
                return Ok(());
            }
            match self.rest()[2..].find("*/") {
                Some(end) => self.at += end + 4,
                None => return Err(Error::at("S0106", self.at, "Comment has no closing tag")),
            }
        }
    }

    fn word(&mut self) -> Token {
        let rest = self.rest();
        let ends = |c: char| {
            c.is_whitespace()
                || OPERATORS.iter().any(|operator| operator.len() == 1 && operator.starts_with(c))
        };
        let end = rest.find(ends).unwrap_or(rest.len());
        let word = &rest[..end];
        self.at += end;
        if let Some(name) = word.strip_prefix('$') {
            return Token::Variable(name.into());
        }
        match word {
            "or" => Token::Operator("or"),
            "in" => Token::Operator("in"),
            "and" => Token::Operator("and"),
            "true" => Token::Boolean(true),
            "false" => Token::Boolean(false),
            "null" => Token::Null,
            name => Token::Name(name.into()),
        }
    }

    fn number(&mut self, start: usize) -> Result<Token, Error> {
        let bytes = self.rest().as_bytes();
        let digits = |from: usize| bytes[from..].iter().take_while(|byte| byte.is_ascii_digit()).count();
        let mut end = if bytes[0] == b'0' { 1 } else { digits(0) };
        if bytes.get(end) == Some(&b'.') && digits(end + 1) > 0 {
            end += 1 + digits(end + 1);
        }
        if matches!(bytes.get(end), Some(b'e' | b'E')) {
            let sign = usize::from(matches!(bytes.get(end + 1), Some(b'+' | b'-')));
            if bytes.len() > end + 1 + sign && digits(end + 1 + sign) > 0 {
                end += 1 + sign + digits(end + 1 + sign);
            }
        }
        let text = &self.rest()[..end];
        let number: f64 = text.parse().unwrap_or(f64::INFINITY);
        self.at += end;
        if number.is_finite() {
            return Ok(Token::Number(number));
        }
        Err(Error::at("S0102", start, format!("Number out of range: {text}")))
    }

    fn string(&mut self, quote: char) -> Result<String, Error> {
        let start = self.at;
        self.at += 1;
        let mut text = String::new();
        while let Some(character) = self.rest().chars().next() {
            self.at += character.len_utf8();
            if character == quote {
                return Ok(text);
            }
            if character != '\\' {
                text.push(character);
                continue;
            }
            let Some(escaped) = self.rest().chars().next() else { break };
            self.at += escaped.len_utf8();
            match escaped {
                '"' | '\\' | '/' | '\'' => text.push(escaped),
                'b' => text.push('\u{8}'),
                'f' => text.push('\u{c}'),
                'n' => text.push('\n'),
                'r' => text.push('\r'),
                't' => text.push('\t'),
                'u' => text.push(self.unicode()?),
                other => {
                    return Err(Error::at(
                        "S0103",
                        self.at,
                        format!("Unsupported escape sequence: \\\"{other}\""),
                    ));
                }
            }
        }
        Err(Error::at("S0101", start, "String literal must be terminated by a matching quote"))
    }

    fn unicode(&mut self) -> Result<char, Error> {
        let refused =
            |at: usize| Error::at("S0104", at, "The escape sequence \\u must be followed by 4 hex digits");
        let unit = |lexer: &mut Self| {
            let digits =
                lexer.rest().get(..4).filter(|digits| digits.bytes().all(|byte| byte.is_ascii_hexdigit()));
            let value = digits.and_then(|digits| u32::from_str_radix(digits, 16).ok());
            value.inspect(|_| lexer.at += 4).ok_or_else(|| refused(lexer.at))
        };
        let first = unit(self)?;
        if (0xD800..0xDC00).contains(&first) && self.rest().starts_with("\\u") {
            let back = self.at;
            self.at += 2;
            let second = unit(self)?;
            if (0xDC00..0xE000).contains(&second) {
                let value = 0x10000 + ((first - 0xD800) << 10) + (second - 0xDC00);
                return Ok(char::from_u32(value).unwrap_or(char::REPLACEMENT_CHARACTER));
            }
            self.at = back;
        }
        Ok(char::from_u32(first).unwrap_or(char::REPLACEMENT_CHARACTER))
    }

    fn regex(&mut self, start: usize) -> Result<Token, Error> {
        let (mut depth, mut escaped) = (0i32, false);
        for (at, character) in self.rest().char_indices() {
            match character {
                _ if escaped => escaped = false,
                '\\' => escaped = true,
                '/' if depth == 0 => {
                    let pattern = self.rest()[..at].to_owned();
                    if pattern.is_empty() {
                        return Err(Error::at("S0301", start, "Empty regular expressions are not allowed"));
                    }
                    self.at += at + 1;
                    let flags: String = self.rest().chars().take_while(|c| matches!(c, 'i' | 'm')).collect();
                    self.at += flags.len();
                    return Ok(Token::Regex(pattern, flags));
                }
                '(' | '[' | '{' => depth += 1,
                ')' | ']' | '}' => depth -= 1,
                _ => {}
            }
        }
        Err(Error::at("S0302", start, "No terminating / in regular expression"))
    }
}
