//! The grammar of label selector strings.
//!
//! ```text
//! selector    = [ requirement { "," requirement } ]
//! requirement = "!" KEY | KEY | KEY ("=" | "==" | "!=" | ">" | "<") [VALUE] | KEY ("in" | "notin") "(" list ")"
//! ```
//! `in` and `notin` are words only where an operator may stand, so labels may have these names.

use super::SelectorError;
use super::label::{Operator, Requirement};

pub(super) fn parse(text: &str) -> Result<Vec<Requirement>, SelectorError> {
    let mut parser = Parser { tokens: tokens(text), next: 0 };
    let mut requirements = Vec::new();
    match parser.peek() {
        Token::End => return Ok(requirements),
        Token::Not | Token::Word(_) => {}
        other => return Err(expected(other, "!, identifier, or 'end of string'")),
    }
    loop {
        requirements.push(parser.requirement()?);
        match parser.take() {
            Token::End => return Ok(requirements),
            Token::Comma if matches!(parser.peek(), Token::Not | Token::Word(_)) => {}
            Token::Comma => return Err(expected(parser.peek(), "identifier after ','")),
            other => return Err(expected(other, "',' or 'end of string'")),
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Token<'a> {
    Word(&'a str),
    Comma,
    Open,
    Close,
    Not,
    Equals,
    DoubleEquals,
    NotEquals,
    Greater,
    Less,
    End,
}

impl Token<'_> {
    fn text(&self) -> &str {
        match self {
            Token::Word(word) => word,
            Token::Comma => ",",
            Token::Open => "(",
            Token::Close => ")",
            Token::Not => "!",
            Token::Equals => "=",
            Token::DoubleEquals => "==",
            Token::NotEquals => "!=",
            Token::Greater => ">",
            Token::Less => "<",
            Token::End => "",
        }
    }
}

fn tokens(text: &str) -> Vec<Token<'_>> {
    let special = |c: char| matches!(c, '=' | '!' | '(' | ')' | ',' | '>' | '<');
    let white = |c: char| matches!(c, ' ' | '\t' | '\r' | '\n');
    let mut tokens = Vec::new();
    let mut rest = text.trim_start_matches(white);
    while !rest.is_empty() {
        let symbols = [
            ("!=", Token::NotEquals),
            ("==", Token::DoubleEquals),
            ("=", Token::Equals),
            ("!", Token::Not),
            (",", Token::Comma),
            ("(", Token::Open),
            (")", Token::Close),
            (">", Token::Greater),
            ("<", Token::Less),
        ];
        let (token, length) = match symbols.iter().find(|(symbol, _)| rest.starts_with(symbol)) {
            Some((symbol, token)) => (*token, symbol.len()),
            None => {
                let length = rest.find(|c| special(c) || white(c)).unwrap_or(rest.len());
                (Token::Word(&rest[..length]), length)
            }
        };
        tokens.push(token);
        rest = rest[length..].trim_start_matches(white);
    }
    tokens
}

struct Parser<'a> {
    tokens: Vec<Token<'a>>,
    next: usize,
}

impl<'a> Parser<'a> {
    fn peek(&self) -> Token<'a> {
        self.tokens.get(self.next).copied().unwrap_or(Token::End)
    }

    fn take(&mut self) -> Token<'a> {
        let token = self.peek();
        self.next += 1;
        token
    }

    fn requirement(&mut self) -> Result<Requirement, SelectorError> {
        if self.peek() == Token::Not {
            self.take();
            return Requirement::new(self.word()?, Operator::DoesNotExist, Vec::new());
        }
        let key = self.word()?;
        let operator = match self.peek() {
            Token::End | Token::Comma => return Requirement::new(key, Operator::Exists, Vec::new()),
            Token::Equals => Operator::Equals,
            Token::DoubleEquals => Operator::DoubleEquals,
            Token::NotEquals => Operator::NotEquals,
            Token::Greater => Operator::GreaterThan,
            Token::Less => Operator::LessThan,
            Token::Word("in") => Operator::In,
            Token::Word("notin") => Operator::NotIn,
            other => return Err(expected(other, "in, notin, =, ==, !=, >, <")),
        };
        self.take();
        let values = match operator {
            Operator::In | Operator::NotIn => self.list()?,
            _ => vec![self.value()?],
        };
        Requirement::new(key, operator, values)
    }

    fn word(&mut self) -> Result<&'a str, SelectorError> {
        match self.take() {
            Token::Word(word) => Ok(word),
            other => Err(expected(other, "identifier")),
        }
    }

    /// What stands after `=`; nothing at all is the empty value.
    fn value(&mut self) -> Result<String, SelectorError> {
        match self.peek() {
            Token::End | Token::Comma => Ok(String::new()),
            _ => self.word().map(str::to_owned),
        }
    }

    /// `(a,b)`, in which an empty place is the empty value and `()` is no value.
    fn list(&mut self) -> Result<Vec<String>, SelectorError> {
        match self.take() {
            Token::Open => {}
            other => return Err(expected(other, "'('")),
        }
        let mut values = Vec::new();
        if self.peek() == Token::Close {
            self.take();
            return Ok(values);
        }
        loop {
            values.push(match self.peek() {
                Token::Word(word) => {
                    self.take();
                    word.to_owned()
                }
                Token::Comma | Token::Close => String::new(),
                other => return Err(expected(other, "',', ')' or identifier")),
            });
            match self.take() {
                Token::Comma => {}
                Token::Close => return Ok(values),
                other => return Err(expected(other, "',' or ')'")),
            }
        }
    }
}

fn expected(found: Token<'_>, wanted: &str) -> SelectorError {
    SelectorError(format!("found '{}', expected: {wanted}", found.text()))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use crate::LabelSelector;

    fn check(text: &str, expected: &str) {
        let parsed = LabelSelector::parse(text).expect(text);
        assert_eq!(parsed.to_string(), expected, "{text}");
    }

    fn refused(text: &str, part: &str) {
        let error = LabelSelector::parse(text).expect_err(text).to_string();
        assert!(error.contains(part), "{text}: {error}");
    }

    #[test]
    fn canonical_form() {
        check("", "");
        check("  ", "");
        check("x=a,y=b,z=c", "x=a,y=b,z=c");
        check("z = c , a!=b", "a!=b,z=c");
        check("a in (c, b,b)", "a in (b,c)");
        check("in notin (in)", "in notin (in)");
    }

    #[test]
    fn errors_say_what_was_expected() {
        refused("x=a=b", "found '=', expected: ',' or 'end of string'");
        refused(",x", "found ',', expected: !, identifier, or 'end of string'");
        refused("x,", "found '', expected: identifier after ','");
        refused("x in a", "found 'a', expected: '('");
        refused("x in (a", "found '', expected: ',' or ')'");
        refused("x in ()", "values set can't be empty");
        refused("x ~ y", "found '~', expected: in, notin, =, ==, !=, >, <");
        refused("x>a", "must be an integer");
        refused("x=a b", "found 'b', expected: ',' or 'end of string'");
        refused("a/b/c=d", "Invalid value: \"a/b/c\"");
        refused("!", "found '', expected: identifier");
        refused("a=-b", "values[0][a]: Invalid value: \"-b\"");
    }

    proptest! {
        #[test]
        fn never_panics_and_prints_what_it_parses(text in "[a-c!=,() <>/in-]{0,24}") {
            if let Ok(selector) = LabelSelector::parse(&text) {
                let printed = selector.to_string();
                prop_assert_eq!(LabelSelector::parse(&printed), Ok(selector), "{}", printed);
            }
        }
    }
}
