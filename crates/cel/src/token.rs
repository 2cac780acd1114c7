//! The words of an expression. Characters that belong to no word are reported and skipped, as a reader would.

use crate::source::Faults;

#[derive(Debug, Clone, PartialEq)]
pub enum Token {
    Ident(String),
    /// In backquotes: a field name with characters that no identifier has.
    Quoted(String),
    Int(String),
    Uint(String),
    Double(String),
    /// As written, with its quotes and prefix.
    String(String),
    Bytes(String),
    /// Operators and brackets.
    Sign(&'static str),
    End,
}

impl Token {
    /// As it stands in the text.
    pub fn text(&self) -> &str {
        match self {
            Token::Ident(text)
            | Token::Quoted(text)
            | Token::Int(text)
            | Token::Uint(text)
            | Token::Double(text)
            | Token::String(text)
            | Token::Bytes(text) => text,
            Token::Sign(sign) => sign,
            Token::End => "<EOF>",
        }
    }
}

/// The longest first.
const SIGNS: [&str; 23] = [
    "==", "!=", "<=", ">=", "&&", "||", "<", ">", "+", "-", "*", "/", "%", "!", "?", ":", ".", ",", "(", ")",
    "[", "]", "{",
];

/// Every token with the place where it begins; the last is [`Token::End`].
pub fn tokens(text: &str, faults: &mut Faults) -> Vec<(Token, u32)> {
    let characters: Vec<char> = text.chars().collect();
    let mut lexer = Lexer { characters: &characters, at: 0 };
    let mut found = Vec::new();
    while let Some(first) = lexer.peek(0) {
        let start = lexer.at;
        if first.is_ascii_whitespace() || first == '\u{c}' {
            lexer.at += 1;
        } else if first == '/' && lexer.peek(1) == Some('/') {
            lexer.skip_while(|c| c != '\n');
        } else if let Some(token) = lexer.token(first) {
            found.push((token, start as u32));
        } else {
            lexer.at = lexer.at.max(start + 1);
            let skipped: String = characters[start..lexer.at].iter().collect();
            faults.add(start as u32, format!("Syntax error: token recognition error at: '{skipped}'"));
        }
    }
    found.push((Token::End, characters.len() as u32));
    found
}

struct Lexer<'t> {
    characters: &'t [char],
    at: usize,
}

impl Lexer<'_> {
    fn peek(&self, ahead: usize) -> Option<char> {
        self.characters.get(self.at + ahead).copied()
    }

    fn skip_while(&mut self, wanted: impl Fn(char) -> bool) {
        while self.peek(0).is_some_and(&wanted) {
            self.at += 1;
        }
    }

    fn since(&self, start: usize) -> String {
        self.characters[start..self.at].iter().collect()
    }

    fn token(&mut self, first: char) -> Option<Token> {
        let start = self.at;
        if let Some(prefix) = self.string_prefix() {
            let bytes = self.characters[start..start + prefix].iter().any(|c| matches!(c, 'b' | 'B'));
            let raw = self.characters[start..start + prefix].iter().any(|c| matches!(c, 'r' | 'R'));
            self.at += prefix;
            if !self.string(raw) {
                return None;
            }
            let text = self.since(start);
            return Some(if bytes { Token::Bytes(text) } else { Token::String(text) });
        }
        if first.is_ascii_alphabetic() || first == '_' {
            self.skip_while(|c| c.is_ascii_alphanumeric() || c == '_');
            let text = self.since(start);
            return Some(if text == "in" { Token::Sign("in") } else { Token::Ident(text) });
        }
        if first.is_ascii_digit() || (first == '.' && self.peek(1).is_some_and(|c| c.is_ascii_digit())) {
            return Some(self.number());
        }
        if first == '`' {
            return self.quoted_ident();
        }
        if first == '}' {
            self.at += 1;
            return Some(Token::Sign("}"));
        }
        let rest = &self.characters[self.at..];
        let sign = SIGNS.iter().find(|sign| sign.chars().eq(rest.iter().copied().take(sign.len())))?;
        self.at += sign.len();
        Some(Token::Sign(sign))
    }

    /// How many characters stand before the quote of a string that begins here.
    fn string_prefix(&self) -> Option<usize> {
        let is_quote = |c: Option<char>| matches!(c, Some('"' | '\''));
        let is_raw = |c: Option<char>| matches!(c, Some('r' | 'R'));
        let is_bytes = |c: Option<char>| matches!(c, Some('b' | 'B'));
        let (one, two) = (self.peek(0), self.peek(1));
        if is_quote(one) {
            Some(0)
        } else if (is_raw(one) || is_bytes(one)) && is_quote(two) {
            Some(1)
        } else if is_quote(self.peek(2)) && ((is_raw(one) && is_bytes(two)) || (is_bytes(one) && is_raw(two)))
        {
            Some(2)
        } else {
            None
        }
    }

    /// Past the closing quotes, or false with what cannot be read behind.
    fn string(&mut self, raw: bool) -> bool {
        let Some(quote) = self.peek(0) else { return false };
        let triple = self.peek(1) == Some(quote) && self.peek(2) == Some(quote);
        self.at += if triple { 3 } else { 1 };
        while let Some(character) = self.peek(0) {
            if character == '\\' && !raw {
                self.at += 2;
            } else if character == quote && triple {
                if self.peek(1) == Some(quote) && self.peek(2) == Some(quote) {
                    self.at += 3;
                    return true;
                }
                self.at += 1;
            } else if character == quote {
                self.at += 1;
                return true;
            } else if matches!(character, '\n' | '\r') && !triple {
                return false;
            } else {
                self.at += 1;
            }
        }
        self.at = self.at.min(self.characters.len());
        false
    }

    fn number(&mut self) -> Token {
        let start = self.at;
        if self.peek(0) == Some('0')
            && self.peek(1) == Some('x')
            && self.peek(2).is_some_and(|c| c.is_ascii_hexdigit())
        {
            self.at += 2;
            self.skip_while(|c| c.is_ascii_hexdigit());
            return self.whole_number(start);
        }
        self.skip_while(|c| c.is_ascii_digit());
        let mut fraction = false;
        if self.peek(0) == Some('.') && self.peek(1).is_some_and(|c| c.is_ascii_digit()) {
            self.at += 1;
            self.skip_while(|c| c.is_ascii_digit());
            fraction = true;
        }
        let sign = usize::from(matches!(self.peek(1), Some('+' | '-')));
        if matches!(self.peek(0), Some('e' | 'E')) && self.peek(1 + sign).is_some_and(|c| c.is_ascii_digit())
        {
            self.at += 1 + sign;
            self.skip_while(|c| c.is_ascii_digit());
            fraction = true;
        }
        if fraction { Token::Double(self.since(start)) } else { self.whole_number(start) }
    }

    fn whole_number(&mut self, start: usize) -> Token {
        if matches!(self.peek(0), Some('u' | 'U')) {
            self.at += 1;
            return Token::Uint(self.since(start));
        }
        Token::Int(self.since(start))
    }

    fn quoted_ident(&mut self) -> Option<Token> {
        let start = self.at;
        self.at += 1;
        self.skip_while(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '-' | '/' | ' '));
        if self.peek(0) != Some('`') || self.at == start + 1 {
            return None;
        }
        self.at += 1;
        Some(Token::Quoted(self.since(start)))
    }
}
