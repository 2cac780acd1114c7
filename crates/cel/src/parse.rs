//! From tokens to the tree, by recursive descent. Errors are worded as Kubernetes users know them.
//!
//! Nesting is bounded, so that no expression can overflow the stack here or in whatever walks the tree later.

use crate::ast::{Access, Element, Entry, Expr, Field, Kind, Literal};
use crate::macros;
use crate::source::{CompileErrors, Faults, LONGEST};
use crate::token::{Token, tokens};
use crate::unescape;

/// How many levels a tree may have.
const DEEPEST: u16 = 250;
const ROOM: usize = 128 * 1024;
const MORE_ROOM: usize = 1024 * 1024;
const OPERAND: &str = "{'[', '{', '(', '.', '-', '!', 'true', 'false', 'null', NUM_FLOAT, NUM_INT, NUM_UINT, STRING, \
                       BYTES, IDENTIFIER}";
/// Names that no expression may have.
pub const RESERVED: [&str; 17] = [
    "as",
    "break",
    "const",
    "continue",
    "else",
    "for",
    "function",
    "if",
    "import",
    "let",
    "loop",
    "package",
    "namespace",
    "return",
    "var",
    "void",
    "while",
];

/// The tree and how many nodes it has.
pub fn parse(text: &str) -> Result<(Expr, usize), CompileErrors> {
    let mut faults = Faults::new(text);
    let size = text.chars().count();
    if size > LONGEST {
        let message = format!("expression code point size exceeds limit: size: {size}, limit {LONGEST}");
        faults.add(0, message);
        return Err(faults.finish());
    }
    let tokens = tokens(text, &mut faults);
    let mut parser = Parser { tokens, next: 0, count: 0, nesting: 0, faults };
    // One fault ends the reading: what follows would be guesswork.
    let tree = match parser.expression() {
        Ok(tree) if *parser.peek() == Token::End => Some(tree),
        Ok(_) => {
            parser.unexpected("<EOF>");
            None
        }
        Err(Stopped) => None,
    };
    match tree {
        Some(tree) if parser.faults.is_empty() => Ok((tree, parser.count)),
        _ => Err(parser.faults.finish()),
    }
}

/// The fault has been noted.
pub struct Stopped;
pub type Parsed<T> = Result<T, Stopped>;

pub struct Parser<'t> {
    tokens: Vec<(Token, u32)>,
    next: usize,
    count: usize,
    nesting: u16,
    faults: Faults<'t>,
}

impl Parser<'_> {
    pub fn fault(&mut self, at: u32, message: impl Into<String>) {
        self.faults.add(at, message);
    }

    /// A new node; its children have been made before it.
    pub fn node(&mut self, at: u32, kind: Kind) -> Parsed<Expr> {
        let depth = 1 + deepest_child(&kind);
        if depth > DEEPEST {
            self.fault(at, format!("expression recursion limit exceeded: {DEEPEST}"));
            return Err(Stopped);
        }
        self.count += 1;
        Ok(Expr { id: self.count - 1, at, depth, kind })
    }

    pub fn call(&mut self, at: u32, function: &str, args: Vec<Expr>) -> Parsed<Expr> {
        self.node(at, Kind::Call { function: function.to_owned(), target: None, args })
    }

    fn peek(&self) -> &Token {
        &self.tokens[self.next].0
    }

    fn at(&self) -> u32 {
        self.tokens[self.next].1
    }

    fn advance(&mut self) -> Token {
        let token = self.tokens[self.next].0.clone();
        self.next = (self.next + 1).min(self.tokens.len() - 1);
        token
    }

    fn is(&self, sign: &str) -> bool {
        matches!(self.peek(), Token::Sign(found) if *found == sign)
    }

    /// The place of the sign, if it comes next.
    fn take(&mut self, sign: &str) -> Option<u32> {
        let at = self.at();
        self.is(sign).then(|| {
            self.advance();
            at
        })
    }

    fn expect(&mut self, sign: &'static str) -> Parsed<u32> {
        match self.take(sign) {
            Some(at) => Ok(at),
            None => {
                self.unexpected(&format!("'{sign}'"));
                Err(Stopped)
            }
        }
    }

    fn unexpected(&mut self, expected: &str) {
        let message = format!("Syntax error: mismatched input '{}' expecting {expected}", self.peek().text());
        self.fault(self.at(), message);
    }

    fn expression(&mut self) -> Parsed<Expr> {
        self.nesting += 1;
        if self.nesting > DEEPEST {
            self.fault(self.at(), format!("expression recursion limit exceeded: {DEEPEST}"));
            return Err(Stopped);
        }
        // Each level passes through a dozen functions; threads of a server have small stacks.
        let found = stacker::maybe_grow(ROOM, MORE_ROOM, || self.conditional())?;
        self.nesting -= 1;
        Ok(found)
    }

    fn conditional(&mut self) -> Parsed<Expr> {
        let condition = self.or()?;
        Ok(match self.take("?") {
            None => condition,
            Some(at) => {
                let yes = self.or()?;
                self.expect(":")?;
                let no = self.expression()?;
                self.call(at, "_?_:_", vec![condition, yes, no])?
            }
        })
    }

    fn or(&mut self) -> Parsed<Expr> {
        let mut terms = vec![self.and()?];
        let mut places = Vec::new();
        while let Some(at) = self.take("||") {
            places.push(at);
            terms.push(self.and()?);
        }
        self.balanced("_||_", terms, &places)
    }

    fn and(&mut self) -> Parsed<Expr> {
        let mut terms = vec![self.relation()?];
        let mut places = Vec::new();
        while let Some(at) = self.take("&&") {
            places.push(at);
            terms.push(self.relation()?);
        }
        self.balanced("_&&_", terms, &places)
    }

    /// A long chain becomes a shallow tree.
    fn balanced(&mut self, operator: &str, mut terms: Vec<Expr>, places: &[u32]) -> Parsed<Expr> {
        if places.is_empty() {
            return terms.pop().ok_or(Stopped);
        }
        let middle = places.len() / 2;
        let right = terms.split_off(middle + 1);
        let left = self.balanced(operator, terms, &places[..middle])?;
        let right = self.balanced(operator, right, &places[middle + 1..])?;
        self.call(places[middle], operator, vec![left, right])
    }

    fn relation(&mut self) -> Parsed<Expr> {
        const OPERATORS: [(&str, &str); 7] = [
            ("<", "_<_"),
            ("<=", "_<=_"),
            (">", "_>_"),
            (">=", "_>=_"),
            ("==", "_==_"),
            ("!=", "_!=_"),
            ("in", "@in"),
        ];
        self.binary(&OPERATORS, Self::sum)
    }

    fn sum(&mut self) -> Parsed<Expr> {
        self.binary(&[("+", "_+_"), ("-", "_-_")], Self::product)
    }

    fn product(&mut self) -> Parsed<Expr> {
        self.binary(&[("*", "_*_"), ("/", "_/_"), ("%", "_%_")], Self::unary)
    }

    fn binary(
        &mut self,
        operators: &[(&'static str, &str)],
        operand: impl Fn(&mut Self) -> Parsed<Expr>,
    ) -> Parsed<Expr> {
        let mut left = operand(self)?;
        while let Some((sign, function)) = operators.iter().find(|(sign, _)| self.is(sign)) {
            let at = self.expect(sign)?;
            let right = operand(self)?;
            left = self.call(at, function, vec![left, right])?;
        }
        Ok(left)
    }

    fn unary(&mut self) -> Parsed<Expr> {
        let at = self.at();
        for (sign, function) in [("!", "!_"), ("-", "-_")] {
            let mut count = 0;
            while self.is(sign) && !(sign == "-" && count == 0 && self.is_negative_number()) {
                self.advance();
                count += 1;
            }
            if count > 0 {
                let operand = self.member()?;
                return if count % 2 == 0 { Ok(operand) } else { self.call(at, function, vec![operand]) };
            }
        }
        self.member()
    }

    fn is_negative_number(&self) -> bool {
        matches!(self.tokens.get(self.next + 1), Some((Token::Int(_) | Token::Double(_), _)))
    }

    fn member(&mut self) -> Parsed<Expr> {
        let mut found = self.primary()?;
        loop {
            let at = self.at();
            if self.take(".").is_some() {
                found = self.selection(found, at)?;
            } else if self.take("[").is_some() {
                let function = if self.take("?").is_some() { "_[?_]" } else { "_[_]" };
                let index = self.expression()?;
                self.expect("]")?;
                found = self.call(at, function, vec![found, index])?;
            } else if self.is("{") && qualified_name(&found).is_some() {
                found = self.object(&found)?;
            } else {
                return Ok(found);
            }
        }
    }

    fn selection(&mut self, operand: Expr, at: u32) -> Parsed<Expr> {
        let access = if self.take("?").is_some() { Access::Optional } else { Access::Value };
        let field = match self.peek() {
            Token::Ident(name) => name.clone(),
            Token::Quoted(name) => name.trim_matches('`').to_owned(),
            other => {
                let message = format!("Syntax error: no viable alternative at input '.{}'", other.text());
                self.fault(self.at(), message);
                return Err(Stopped);
            }
        };
        self.advance();
        let open = self.at();
        if access == Access::Value && self.take("(").is_some() {
            let args = self.sequence(")", Self::expression)?;
            return macros::member(self, open, field, operand, args);
        }
        self.node(at, Kind::Select { operand: Box::new(operand), field, access })
    }

    fn primary(&mut self) -> Parsed<Expr> {
        let at = self.at();
        match self.peek().clone() {
            Token::Sign("(") => {
                self.advance();
                let inner = self.expression()?;
                self.expect(")")?;
                Ok(inner)
            }
            Token::Sign("[") => {
                self.advance();
                let elements = self.sequence("]", |parser| {
                    let optional = parser.take("?").is_some();
                    Ok(Element { value: parser.expression()?, optional })
                })?;
                self.node(at, Kind::List(elements))
            }
            Token::Sign("{") => {
                self.advance();
                let entries = self.sequence("}", Self::entry)?;
                self.node(at, Kind::Map(entries))
            }
            Token::Sign(".") => {
                self.advance();
                self.named(".")
            }
            Token::Ident(_) => self.named(""),
            _ => self.literal(at),
        }
    }

    fn entry(&mut self) -> Parsed<Entry> {
        let optional = self.take("?").is_some();
        let key = self.expression()?;
        self.expect(":")?;
        Ok(Entry { key, value: self.expression()?, optional })
    }

    /// Elements up to the closing bracket; a comma may follow the last.
    fn sequence<T>(&mut self, close: &'static str, item: impl Fn(&mut Self) -> Parsed<T>) -> Parsed<Vec<T>> {
        let mut found = Vec::new();
        while self.take(close).is_none() {
            if !found.is_empty() {
                self.expect(",")?;
                if close != ")" && self.take(close).is_some() {
                    break;
                }
            }
            found.push(item(self)?);
        }
        Ok(found)
    }

    fn named(&mut self, dot: &str) -> Parsed<Expr> {
        let at = self.at();
        let Token::Ident(name) = self.peek().clone() else {
            let message = format!("Syntax error: no viable alternative at input '.{}'", self.peek().text());
            self.fault(at, message);
            return Err(Stopped);
        };
        let constant = match name.as_str() {
            "true" => Some(Literal::Bool(true)),
            "false" => Some(Literal::Bool(false)),
            "null" => Some(Literal::Null),
            _ => None,
        };
        self.advance();
        if let Some(constant) = constant.filter(|_| dot.is_empty()) {
            return self.node(at, Kind::Literal(constant));
        }
        if RESERVED.contains(&name.as_str()) {
            self.fault(at, format!("reserved identifier: {name}"));
            return self.node(at, Kind::Broken);
        }
        let open = self.at();
        if self.take("(").is_some() {
            let args = self.sequence(")", Self::expression)?;
            return macros::global(self, open, format!("{dot}{name}"), args);
        }
        self.node(at, Kind::Ident(format!("{dot}{name}")))
    }

    fn object(&mut self, named: &Expr) -> Parsed<Expr> {
        let name = qualified_name(named).unwrap_or_default();
        let at = self.expect("{")?;
        let fields = self.sequence("}", |parser| {
            let optional = parser.take("?").is_some();
            let name = match parser.advance() {
                Token::Ident(name) => name,
                Token::Quoted(name) => name.trim_matches('`').to_owned(),
                _ => {
                    parser.next = parser.next.saturating_sub(1);
                    parser.unexpected("{'}', ',', '?', IDENTIFIER, ESC_IDENTIFIER}");
                    return Err(Stopped);
                }
            };
            let at = parser.expect(":")?;
            Ok(Field { at, name, value: parser.expression()?, optional })
        })?;
        self.node(at, Kind::Object { name, fields })
    }

    fn literal(&mut self, at: u32) -> Parsed<Expr> {
        let sign = if self.take("-").is_some() { "-" } else { "" };
        let literal = match self.peek() {
            Token::Int(text) => integer(sign, text).map(Literal::Int).ok_or("invalid int literal".to_owned()),
            Token::Uint(text) => {
                let digits = &text[..text.len() - 1];
                let found = match digits.strip_prefix("0x") {
                    Some(hexadecimal) => u64::from_str_radix(hexadecimal, 16),
                    None => digits.parse(),
                };
                found.map(Literal::Uint).map_err(|_| "invalid uint literal".to_owned())
            }
            Token::Double(text) => match format!("{sign}{text}").parse::<f64>() {
                Ok(number) if number.is_finite() => Ok(Literal::Double(number)),
                _ => Err("invalid double literal".to_owned()),
            },
            Token::String(text) => unescape::string(text).map(Literal::String),
            Token::Bytes(text) => unescape::bytes(text).map(Literal::Bytes),
            _ => {
                self.unexpected(OPERAND);
                return Err(Stopped);
            }
        };
        self.advance();
        match literal {
            Ok(literal) => self.node(at, Kind::Literal(literal)),
            Err(message) => {
                self.fault(at, message);
                self.node(at, Kind::Broken)
            }
        }
    }
}

fn integer(sign: &str, text: &str) -> Option<i64> {
    match text.strip_prefix("0x") {
        Some(hexadecimal) => i64::from_str_radix(&format!("{sign}{hexadecimal}"), 16).ok(),
        None => format!("{sign}{text}").parse().ok(),
    }
}

/// `a.b.c` as one name, if the tree is only that.
pub fn qualified_name(expr: &Expr) -> Option<String> {
    match &expr.kind {
        Kind::Ident(name) => Some(name.clone()),
        Kind::Select { operand, field, access: Access::Value } => {
            Some(format!("{}.{field}", qualified_name(operand)?))
        }
        _ => None,
    }
}

fn deepest_child(kind: &Kind) -> u16 {
    let of = |exprs: &mut dyn Iterator<Item = &Expr>| exprs.map(|e| e.depth).max().unwrap_or(0);
    match kind {
        Kind::Literal(_) | Kind::Ident(_) | Kind::Broken => 0,
        Kind::Select { operand, .. } => operand.depth,
        Kind::Call { target, args, .. } => of(&mut args.iter().chain(target.as_deref())),
        Kind::List(elements) => of(&mut elements.iter().map(|element| &element.value)),
        Kind::Map(entries) => of(&mut entries.iter().flat_map(|entry| [&entry.key, &entry.value])),
        Kind::Object { fields, .. } => of(&mut fields.iter().map(|field| &field.value)),
        Kind::Comprehension(each) => {
            of(&mut std::iter::once(&each.range).chain(&each.condition).chain(&each.transform))
        }
        Kind::Bind { value, body, .. } => value.depth.max(body.depth),
        Kind::OptionalMap { target, body, .. } => target.depth.max(body.depth),
    }
}
