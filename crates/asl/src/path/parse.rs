//! From a path's text to its segments.

use super::filter::{Filter, Operand, Operator};
use super::{Invalid, Path, Root, Segment};

pub(super) fn path(text: &str) -> Result<Path, Invalid> {
    let mut parser = Parser { text, rest: text };
    let root = parser.root()?;
    let segments = parser.segments()?;
    if !parser.rest.is_empty() {
        return Err(parser.invalid("unexpected text"));
    }
    Ok(Path { text: text.to_owned(), root, segments })
}

struct Parser<'a> {
    text: &'a str,
    rest: &'a str,
}

impl<'a> Parser<'a> {
    fn invalid(&self, why: &str) -> Invalid {
        Invalid(format!("{why} at position {} of '{}'", self.text.len() - self.rest.len(), self.text))
    }

    fn eat(&mut self, token: &str) -> bool {
        match self.rest.strip_prefix(token) {
            Some(rest) => {
                self.rest = rest;
                true
            }
            None => false,
        }
    }

    fn need(&mut self, token: &str) -> Result<(), Invalid> {
        if self.eat(token) { Ok(()) } else { Err(self.invalid(&format!("'{token}' is expected"))) }
    }

    fn space(&mut self) {
        self.rest = self.rest.trim_start();
    }

    fn take(&mut self, wanted: impl Fn(char) -> bool) -> &'a str {
        let end = self.rest.find(|c| !wanted(c)).unwrap_or(self.rest.len());
        let (taken, rest) = self.rest.split_at(end);
        self.rest = rest;
        taken
    }

    fn root(&mut self) -> Result<Root, Invalid> {
        self.need("$")?;
        if self.eat("$") {
            return Ok(Root::Context);
        }
        let name = self.take(|c| c.is_alphanumeric() || c == '_');
        Ok(if name.is_empty() { Root::Data } else { Root::Variable(name.to_owned()) })
    }

    fn segments(&mut self) -> Result<Vec<Segment>, Invalid> {
        let mut segments = Vec::new();
        loop {
            if self.eat("..") {
                let inner = if self.rest.starts_with('[') { self.bracket()? } else { self.member()? };
                segments.push(Segment::Descent(Box::new(inner)));
            } else if self.eat(".") {
                let segment = if self.rest.starts_with('[') { self.bracket()? } else { self.member()? };
                segments.push(segment);
            } else if self.rest.starts_with('[') {
                segments.push(self.bracket()?);
            } else {
                return Ok(segments);
            }
        }
    }

    fn member(&mut self) -> Result<Segment, Invalid> {
        if self.eat("*") {
            return Ok(Segment::Wildcard);
        }
        let name = self.take(|c| {
            !matches!(
                c,
                '.' | '['
                    | ']'
                    | '('
                    | ')'
                    | ','
                    | '\''
                    | '"'
                    | '@'
                    | '?'
                    | '&'
                    | '|'
                    | '='
                    | '<'
                    | '>'
                    | '!'
                    | '~'
                    | '*'
                    | '$'
            ) && !c.is_whitespace()
        });
        if name.is_empty() {
            Err(self.invalid("a property's name is expected"))
        } else {
            Ok(Segment::Child(name.to_owned()))
        }
    }

    fn bracket(&mut self) -> Result<Segment, Invalid> {
        self.need("[")?;
        self.space();
        let segment = if self.eat("*") {
            Segment::Wildcard
        } else if self.rest.starts_with(['\'', '"']) {
            let mut names = vec![self.quoted()?];
            self.space();
            while self.eat(",") {
                self.space();
                names.push(self.quoted()?);
                self.space();
            }
            if names.len() == 1 { Segment::Child(names.remove(0)) } else { Segment::Children(names) }
        } else if self.eat("?") {
            self.space();
            let parenthesis = self.eat("(");
            let filter = self.any()?;
            self.space();
            if parenthesis {
                self.need(")")?;
            }
            Segment::Filter(Box::new(filter))
        } else if self.eat("(@.length-") {
            let back = self.integer()?;
            self.need(")")?;
            Segment::FromEnd(back)
        } else {
            self.numbers()?
        };
        self.space();
        self.need("]")?;
        Ok(segment)
    }

    fn numbers(&mut self) -> Result<Segment, Invalid> {
        let from = if self.rest.starts_with(':') { None } else { Some(self.integer()?) };
        self.space();
        if self.eat(":") {
            self.space();
            let to = if self.rest.starts_with([']', ':']) { None } else { Some(self.integer()?) };
            let step = if self.eat(":") && !self.rest.starts_with(']') { self.integer()? } else { 1 };
            return Ok(Segment::Slice { from, to, step });
        }
        let mut indexes: Vec<i64> = from.into_iter().collect();
        while self.eat(",") {
            self.space();
            indexes.push(self.integer()?);
            self.space();
        }
        match indexes[..] {
            [index] => Ok(Segment::Index(index)),
            _ => Ok(Segment::Indexes(indexes)),
        }
    }

    fn integer(&mut self) -> Result<i64, Invalid> {
        let digits = self.take(|c| c.is_ascii_digit() || c == '-');
        digits.parse().map_err(|_| self.invalid("an index is expected"))
    }

    /// A quoted name. A backslash stands for itself unless a quote follows that would end the name too early: AWS
    /// takes `$['a\"b']` literally.
    fn quoted(&mut self) -> Result<String, Invalid> {
        let quote = self.rest.chars().next().unwrap_or_default();
        if !matches!(quote, '\'' | '"') {
            return Err(self.invalid("a quoted name is expected"));
        }
        self.rest = &self.rest[1..];
        let mut name = String::new();
        let mut characters = self.rest.char_indices();
        while let Some((at, character)) = characters.next() {
            if character == quote {
                self.rest = &self.rest[at + 1..];
                return Ok(name);
            }
            if character == '\\' && self.rest[at + 1..].starts_with(quote) {
                characters.next();
                name.push(quote);
            } else {
                name.push(character);
            }
        }
        Err(self.invalid("the quote does not end"))
    }

    fn any(&mut self) -> Result<Filter, Invalid> {
        let mut filter = self.all()?;
        loop {
            self.space();
            if !self.eat("||") {
                return Ok(filter);
            }
            filter = Filter::Or(Box::new(filter), Box::new(self.all()?));
        }
    }

    fn all(&mut self) -> Result<Filter, Invalid> {
        let mut filter = self.one()?;
        loop {
            self.space();
            if !self.eat("&&") {
                return Ok(filter);
            }
            filter = Filter::And(Box::new(filter), Box::new(self.one()?));
        }
    }

    fn one(&mut self) -> Result<Filter, Invalid> {
        self.space();
        if self.rest.starts_with('!') && !self.rest.starts_with("!=") {
            self.eat("!");
            return Ok(Filter::Not(Box::new(self.one()?)));
        }
        if self.eat("(") {
            let inner = self.any()?;
            self.space();
            self.need(")")?;
            return Ok(inner);
        }
        let left = self.operand()?;
        self.space();
        let Some(operator) = Operator::ALL.iter().find(|(text, _)| self.rest.starts_with(text)) else {
            return match left {
                Operand::Path { .. } => Ok(Filter::Exists(left)),
                Operand::Literal(_) | Operand::Pattern(_) => Err(self.invalid("an operator is expected")),
            };
        };
        self.rest = &self.rest[operator.0.len()..];
        self.space();
        let right = self.operand()?;
        Ok(Filter::Compare { left, operator: operator.1, right })
    }

    fn operand(&mut self) -> Result<Operand, Invalid> {
        self.space();
        if self.rest.starts_with(['@', '$']) {
            let from_root = self.rest.starts_with('$');
            self.rest = &self.rest[1..];
            return Ok(Operand::Path { from_root, segments: self.segments()? });
        }
        if self.rest.starts_with(['\'', '"']) {
            return Ok(Operand::Literal(self.quoted()?.into()));
        }
        if self.eat("/") {
            return self.pattern();
        }
        if self.rest.starts_with('[') {
            let end = self.rest.find(']').ok_or_else(|| self.invalid("the list does not end"))?;
            let list = self.rest[..=end].replace('\'', "\"");
            let list =
                serde_json::from_str(&list).map_err(|_| self.invalid("a list of literals is expected"))?;
            self.rest = &self.rest[end + 1..];
            return Ok(Operand::Literal(list));
        }
        let word =
            self.take(|c| !matches!(c, ')' | ']' | '&' | '|' | '=' | '<' | '>' | '!') && !c.is_whitespace());
        if word.is_empty() {
            return Err(self.invalid("a value is expected"));
        }
        // A word without quotes is taken as text.
        Ok(Operand::Literal(serde_json::from_str(word).unwrap_or_else(|_| word.into())))
    }

    fn pattern(&mut self) -> Result<Operand, Invalid> {
        let mut end = None;
        let mut escaped = false;
        for (at, character) in self.rest.char_indices() {
            match character {
                _ if escaped => escaped = false,
                '\\' => escaped = true,
                '/' => {
                    end = Some(at);
                    break;
                }
                _ => {}
            }
        }
        let end = end.ok_or_else(|| self.invalid("the pattern does not end"))?;
        let pattern = &self.rest[..end];
        self.rest = &self.rest[end + 1..];
        let flags = self.take(|c| c.is_ascii_lowercase());
        let pattern = regex::RegexBuilder::new(pattern)
            .case_insensitive(flags.contains('i'))
            .size_limit(1 << 20)
            .build()
            .map_err(|_| self.invalid("the pattern cannot be read"))?;
        Ok(Operand::Pattern(pattern))
    }
}
