//! From tokens to a raw tree, by binding powers; `process.rs` makes paths of it.

use std::sync::Arc;

use crate::ast::{Group, Kind, Node, Operator, Transform};
use crate::error::Error;
use crate::process::Processor;
use crate::signature::Signature;
use crate::token::{Lexer, Token};

/// How deep an expression's text may nest.
const DEEPEST: usize = 500;
/// How high its tree may become, by chains of operators too: trees are dropped by recursion.
const HIGHEST: usize = 1000;

/// The tree of a text, and how many parent slots it has with their labels.
pub fn parse(text: &str) -> Result<(Node, Vec<usize>), Error> {
    let mut lexer = Lexer::new(text);
    let (token, position) = lexer.next(false)?;
    let mut parser = Parser { lexer, token, position, depth: 0, open: Vec::new(), height: 0 };
    let raw = parser.expression(0)?;
    if parser.token != Token::End {
        return Err(Error::at("S0201", parser.position, format!("Syntax error: {}", show(&parser.token))));
    }
    let mut processor = Processor::default();
    let tree = processor.process(raw)?;
    if matches!(tree.kind, Kind::Parent(_)) || !tree.seeking.is_empty() {
        return Err(Error::at(
            "S0217",
            tree.position,
            "The object representing the 'parent' cannot be derived from this expression",
        ));
    }
    Ok((tree, processor.labels))
}

struct Parser<'a> {
    lexer: Lexer<'a>,
    token: Token,
    position: usize,
    depth: usize,
    /// What ends the brackets that are open.
    open: Vec<&'static str>,
    /// Of the highest tree that was read below the one being read.
    height: usize,
}

fn binding_power(token: &Token) -> u32 {
    let Token::Operator(operator) = token else { return 0 };
    match *operator {
        "[" | "(" | "@" | "#" => 80,
        "." => 75,
        "{" => 70,
        "*" | "/" | "%" => 60,
        "+" | "-" | "&" => 50,
        "=" | "<" | ">" | "^" | "!=" | "<=" | ">=" | "~>" | "in" | "??" | "?:" => 40,
        "and" => 30,
        "or" => 25,
        "?" => 20,
        ":=" => 10,
        _ => 0,
    }
}

fn missing(operator: &str, position: usize) -> Error {
    Error::at("S0203", position, format!("Expected \"{operator}\" before end of expression"))
}

/// A token as it is written.
fn plain(token: &Token) -> String {
    match token {
        Token::Name(text) | Token::Variable(text) | Token::String(text) => text.to_string(),
        Token::Operator(operator) => (*operator).to_owned(),
        token => show(token),
    }
}

/// A token as messages of the reference have it.
fn show(token: &Token) -> String {
    match token {
        Token::End => "\"(end)\"".into(),
        Token::Name(text) | Token::Variable(text) | Token::String(text) => format!("{text:?}"),
        Token::Number(number) => number.to_string(),
        Token::Boolean(value) => value.to_string(),
        Token::Null => "null".into(),
        Token::Regex(..) => "(regex)".into(),
        Token::Operator(operator) => format!("{operator:?}"),
    }
}

impl Parser<'_> {
    fn is(&self, operator: &str) -> bool {
        matches!(&self.token, Token::Operator(found) if *found == operator)
    }

    fn next(&mut self, infix: bool) -> Result<(Token, usize), Error> {
        match self.token {
            Token::Operator("(") => self.open.push(")"),
            Token::Operator("[") => self.open.push("]"),
            Token::Operator("{") => self.open.push("}"),
            Token::Operator(")" | "]" | "}") => {
                self.open.pop();
            }
            _ => {}
        }
        let (token, position) = self.lexer.next(infix)?;
        if let Token::Operator(operator @ ("!" | "~")) = token {
            return Err(Error::at("S0204", position, format!("Unknown operator: {operator:?}")));
        }
        Ok((std::mem::replace(&mut self.token, token), std::mem::replace(&mut self.position, position)))
    }

    fn advance(&mut self, operator: &str, infix: bool) -> Result<(), Error> {
        if !self.is(operator) {
            return Err(match &self.token {
                Token::End => missing(operator, self.position),
                token => {
                    let message = format!("Expected \"{operator}\", got {}", show(token));
                    Error::at("S0202", self.position, message)
                }
            });
        }
        self.next(infix).map(|_| ())
    }

    fn expression(&mut self, power: u32) -> Result<Node, Error> {
        self.depth += 1;
        if self.depth > DEEPEST {
            return Err(Error::at(
                "S0201",
                self.position,
                format!("The expression nests deeper than {DEEPEST}"),
            ));
        }
        let parsed = stacker::maybe_grow(128 * 1024, 1024 * 1024, || {
            let outer = std::mem::take(&mut self.height);
            let (token, position) = self.next(true)?;
            let mut left = self.prefix(token, position)?;
            let mut height = self.height + 1;
            while power < binding_power(&self.token) {
                self.height = 0;
                let (token, position) = self.next(false)?;
                left = self.infix(token, position, left)?;
                height = height.max(self.height) + 1;
                if height > HIGHEST {
                    let message = format!("The expression has more than {HIGHEST} operators in a row");
                    return Err(Error::at("S0201", position, message));
                }
            }
            self.height = outer.max(height);
            Ok(left)
        });
        self.depth -= 1;
        parsed
    }

    fn prefix(&mut self, token: Token, position: usize) -> Result<Node, Error> {
        let kind = match token {
            Token::Name(name) => Kind::Name(name),
            Token::Variable(name) => Kind::Variable(name),
            Token::String(text) => Kind::String(text),
            Token::Number(number) => Kind::Number(number),
            Token::Boolean(value) => Kind::Boolean(value),
            Token::Null => Kind::Null,
            Token::Regex(pattern, flags) => {
                Kind::Regex(Arc::new(crate::pattern::compile(&pattern, &flags, position)?))
            }
            // What is open is missed first.
            Token::End if !self.open.is_empty() => {
                return Err(missing(self.open.last().copied().unwrap_or(")"), position));
            }
            Token::End => return Err(Error::at("S0207", position, "Unexpected end of expression")),
            Token::Operator(operator) => return self.prefix_operator(operator, position),
        };
        Ok(Node::new(kind, position))
    }

    fn prefix_operator(&mut self, operator: &'static str, position: usize) -> Result<Node, Error> {
        let kind = match operator {
            "-" => Kind::Negate(Box::new(self.expression(70)?)),
            "*" => Kind::Wildcard,
            "**" => Kind::Descendant,
            "%" => Kind::Parent(usize::MAX),
            "and" | "or" | "in" => Kind::Word(operator.into()),
            "?" => Kind::Placeholder,
            "(" => {
                let mut expressions = Vec::new();
                while !self.is(")") {
                    expressions.push(self.expression(0)?);
                    if !self.is(";") {
                        break;
                    }
                    self.advance(";", false)?;
                }
                self.advance(")", true)?;
                Kind::Block(expressions)
            }
            "[" => Kind::Array(self.items()?),
            "{" => Kind::Object(self.pairs()?),
            "|" => {
                self.open.push("|");
                let pattern = self.expression(0)?;
                self.advance("|", false)?;
                let update = self.expression(0)?;
                let delete = if self.is(",") {
                    self.advance(",", false)?;
                    Some(self.expression(0)?)
                } else {
                    None
                };
                self.advance("|", true)?;
                self.open.pop();
                Kind::Transform(Arc::new(Transform { pattern, update, delete }))
            }
            operator => {
                let message = format!("The symbol {operator:?} cannot be used as a unary operator");
                return Err(Error::at("S0211", position, message));
            }
        };
        Ok(Node::new(kind, position))
    }

    fn items(&mut self) -> Result<Vec<Node>, Error> {
        let mut items = Vec::new();
        if !self.is("]") {
            loop {
                let mut item = self.expression(0)?;
                if self.is("..") {
                    let position = self.position;
                    self.advance("..", false)?;
                    let right = Box::new(self.expression(0)?);
                    item = Node::new(
                        Kind::Binary { operator: Operator::Range, left: Box::new(item), right },
                        position,
                    );
                }
                items.push(item);
                if !self.is(",") {
                    break;
                }
                self.advance(",", false)?;
            }
        }
        self.advance("]", true)?;
        Ok(items)
    }

    fn pairs(&mut self) -> Result<Vec<(Node, Node)>, Error> {
        let mut pairs = Vec::new();
        if !self.is("}") {
            loop {
                let key = self.expression(0)?;
                self.advance(":", false)?;
                pairs.push((key, self.expression(0)?));
                if !self.is(",") {
                    break;
                }
                self.advance(",", false)?;
            }
        }
        self.advance("}", true)?;
        Ok(pairs)
    }

    fn infix(&mut self, token: Token, position: usize, mut left: Node) -> Result<Node, Error> {
        let Token::Operator(operator) = token else {
            return Err(Error::at("S0201", position, format!("Syntax error: {}", show(&token))));
        };
        let power = binding_power(&Token::Operator(operator));
        let binary = |parser: &mut Self, operator: Operator, left: Node| {
            let right = Box::new(parser.expression(power)?);
            Ok(Kind::Binary { operator, left: Box::new(left), right })
        };
        let kind = match operator {
            "." => binary(self, Operator::Dot, left)?,
            "+" => binary(self, Operator::Add, left)?,
            "-" => binary(self, Operator::Subtract, left)?,
            "*" => binary(self, Operator::Multiply, left)?,
            "/" => binary(self, Operator::Divide, left)?,
            "%" => binary(self, Operator::Modulo, left)?,
            "=" => binary(self, Operator::Equal, left)?,
            "!=" => binary(self, Operator::NotEqual, left)?,
            "<" => binary(self, Operator::Less, left)?,
            "<=" => binary(self, Operator::LessEqual, left)?,
            ">" => binary(self, Operator::Greater, left)?,
            ">=" => binary(self, Operator::GreaterEqual, left)?,
            "&" => binary(self, Operator::Concatenate, left)?,
            "and" => binary(self, Operator::And, left)?,
            "or" => binary(self, Operator::Or, left)?,
            "in" => binary(self, Operator::In, left)?,
            "~>" => Kind::Apply { left: Box::new(left), right: Box::new(self.expression(power)?) },
            "(" => return self.call(position, left),
            "[" => {
                if self.is("]") {
                    let mut step = &mut left;
                    while let Kind::Binary { operator: Operator::Filter, left: inner, .. } = &mut step.kind {
                        step = inner;
                    }
                    step.keep_array = true;
                    self.advance("]", true)?;
                    return Ok(left);
                }
                let right = Box::new(self.expression(0)?);
                self.advance("]", true)?;
                Kind::Binary { operator: Operator::Filter, left: Box::new(left), right }
            }
            "{" => {
                let pairs = self.pairs()?;
                let mut node = Node::new(Kind::Block(vec![left]), position);
                // A raw grouping: the block is taken off again when it is processed.
                node.group = Some(Box::new(Group { pairs }));
                return Ok(node);
            }
            "^" => {
                let terms = self.terms()?;
                let sort = Node::new(Kind::Sort(terms), position);
                Kind::Binary { operator: Operator::Dot, left: Box::new(left), right: Box::new(sort) }
            }
            ":=" => self.assignment(&left)?,
            "@" | "#" => return self.binding(operator, power, position, left),
            "?" => {
                let then = Box::new(self.expression(0)?);
                let otherwise = if self.is(":") {
                    self.advance(":", false)?;
                    Some(Box::new(self.expression(0)?))
                } else {
                    None
                };
                Kind::Condition { condition: Box::new(left), then, otherwise }
            }
            "??" | "?:" => {
                let right = Box::new(self.expression(0)?);
                Kind::Default { left: Box::new(left), right, coalesce: operator == "??" }
            }
            operator => return Err(Error::at("S0201", position, format!("Syntax error: {operator:?}"))),
        };
        Ok(Node::new(kind, position))
    }

    fn assignment(&mut self, left: &Node) -> Result<Kind, Error> {
        let Kind::Variable(name) = &left.kind else {
            let message = "The left side of := must be a variable name (start with $)";
            return Err(Error::at("S0212", left.position, message));
        };
        Ok(Kind::Bind { name: name.clone(), value: Box::new(self.expression(9)?) })
    }

    /// `left@$name` and `left#$name`.
    fn binding(&mut self, operator: &str, power: u32, position: usize, left: Node) -> Result<Node, Error> {
        let right = self.expression(power)?;
        if !matches!(right.kind, Kind::Variable(_)) {
            let message = format!("The right side of {operator:?} must be a variable name (start with $)");
            return Err(Error::at("S0214", right.position, message));
        }
        let keep = right.keep_array;
        let operator = if operator == "@" { Operator::Focus } else { Operator::Index };
        let kind = Kind::Binary { operator, left: Box::new(left), right: Box::new(right) };
        let mut node = Node::new(kind, position);
        node.keep_array = keep;
        Ok(node)
    }

    fn terms(&mut self) -> Result<Vec<(Node, bool)>, Error> {
        self.advance("(", false)?;
        let mut terms = Vec::new();
        loop {
            let descending = self.is(">");
            if descending || self.is("<") {
                self.next(false)?;
            }
            terms.push((self.expression(0)?, descending));
            if !self.is(",") {
                break;
            }
            self.advance(",", false)?;
        }
        self.advance(")", true)?;
        Ok(terms)
    }

    fn call(&mut self, position: usize, left: Node) -> Result<Node, Error> {
        let mut arguments = Vec::new();
        let mut partial = false;
        if !self.is(")") {
            loop {
                if self.is("?") {
                    let (_, position) = self.next(false)?;
                    partial = true;
                    arguments.push(Node::new(Kind::Placeholder, position));
                } else {
                    arguments.push(self.expression(0)?);
                }
                if !self.is(",") {
                    break;
                }
                self.advance(",", false)?;
            }
        }
        self.advance(")", true)?;
        if let Kind::Name(name) = &left.kind
            && matches!(&**name, "function" | "\u{3bb}")
        {
            return self.lambda(position, arguments);
        }
        let procedure = Box::new(left);
        let kind = if partial {
            Kind::Partial { procedure, arguments }
        } else {
            Kind::Call { procedure, arguments, tail: false }
        };
        Ok(Node::new(kind, position))
    }

    fn lambda(&mut self, position: usize, arguments: Vec<Node>) -> Result<Node, Error> {
        let mut parameters = Vec::new();
        for (at, argument) in arguments.into_iter().enumerate() {
            let Kind::Variable(name) = argument.kind else {
                let at = at + 1;
                let message =
                    format!("Parameter {at} of function definition must be a variable name (start with $)");
                return Err(Error::at("S0208", argument.position, message));
            };
            parameters.push(name);
        }
        let mut signature = None;
        if self.is("<") {
            let begin = self.position;
            let (mut depth, mut text) = (1, String::from("<"));
            while depth > 0 && !self.is("{") && self.token != Token::End {
                self.next(false)?;
                match self.token {
                    Token::Operator(">") => depth -= 1,
                    Token::Operator("<") => depth += 1,
                    _ => {}
                }
                text.push_str(&plain(&self.token));
            }
            self.advance(">", false)?;
            signature = Some(Arc::new(Signature::parse(&text, begin)?));
        }
        self.advance("{", false)?;
        let body = Arc::new(self.expression(0)?);
        self.advance("}", true)?;
        Ok(Node::new(Kind::Lambda { parameters: parameters.into(), body, signature }, position))
    }
}
