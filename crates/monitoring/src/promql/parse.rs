//! From tokens to a type. Precedence climbs: `or`, then `and` and `unless`, comparisons, sums, products, powers.

use super::functions::{AGGREGATIONS, Signature, find};
use super::lex::Failed;
use super::{DEEPEST, Kind, Token, ValueType};

/// An expression, as far as what follows it must know.
#[derive(Clone, Copy)]
struct Expression {
    gives: ValueType,
    /// A selector, which may have a range; or one with a range, or a subquery, which may have an offset.
    selects: bool,
    /// Where it begins.
    at: usize,
}

type Parsed = Result<Expression, Failed>;

pub fn expression(tokens: &[Token<'_>], end: usize) -> Result<ValueType, Failed> {
    let mut parser = Parser { tokens, next: 0, depth: 0 };
    if parser.peek().kind == Kind::End {
        return Err((end, "no expression found in input".to_owned()));
    }
    let found = parser.binary(0)?;
    match parser.peek().kind {
        Kind::End => Ok(found.gives),
        _ => Err(parser.unexpected("")),
    }
}

struct Parser<'a> {
    tokens: &'a [Token<'a>],
    next: usize,
    depth: usize,
}

/// Operators by how tightly they bind.
const LEVELS: &[&[&str]] = &[
    &["or"],
    &["and", "unless"],
    &["==", "!=", "<=", "<", ">=", ">"],
    &["+", "-"],
    &["*", "/", "%", "atan2"],
    &["^"],
];
const SETS: &[&str] = &["and", "or", "unless"];

impl<'a> Parser<'a> {
    fn peek(&self) -> &'a Token<'a> {
        // The last token is the end, and nobody goes past it.
        &self.tokens[self.next.min(self.tokens.len() - 1)]
    }

    fn take(&mut self) -> &'a Token<'a> {
        let token = self.peek();
        self.next += 1;
        token
    }

    fn is(&self, text: &str) -> bool {
        let token = self.peek();
        matches!(token.kind, Kind::Sign | Kind::Identifier) && token.text.eq_ignore_ascii_case(text)
    }

    fn eat(&mut self, text: &str) -> bool {
        let found = self.is(text);
        self.next += usize::from(found);
        found
    }

    fn want(&mut self, text: &str, context: &str) -> Result<(), Failed> {
        if self.eat(text) { Ok(()) } else { Err(self.unexpected(context)) }
    }

    fn unexpected(&self, context: &str) -> Failed {
        let token = self.peek();
        let what = match &token.kind {
            Kind::End => "end of input".to_owned(),
            Kind::Identifier => format!("identifier {:?}", token.text),
            Kind::Number => format!("number {:?}", token.text),
            Kind::Duration => format!("duration {:?}", token.text),
            Kind::Text(_) => format!("string {}", token.text),
            Kind::Sign => format!("{:?}", token.text),
        };
        let context = if context.is_empty() { String::new() } else { format!(" in {context}") };
        (token.at, format!("unexpected {what}{context}"))
    }

    fn binary(&mut self, level: usize) -> Parsed {
        let Some(operators) = LEVELS.get(level) else { return self.unary() };
        let mut left = self.binary(level + 1)?;
        while let Some(&operator) = operators.iter().find(|operator| self.is(operator)) {
            self.take();
            let bool_modifier = self.modifiers(operator)?;
            // Powers bind to the right.
            let right = match operator {
                "^" => self.nested(|parser| parser.binary(level))?,
                _ => self.binary(level + 1)?,
            };
            left = combine(operator, bool_modifier, left, right)?;
        }
        Ok(left)
    }

    /// `bool`, `on (…)`, `group_left (…)`. Says whether there is a bool.
    fn modifiers(&mut self, operator: &str) -> Result<bool, Failed> {
        let at = self.peek().at;
        let is_bool = self.eat("bool");
        if is_bool && !LEVELS[2].contains(&operator) {
            return Err((at, "bool modifier can only be used on comparison operators".to_owned()));
        }
        if self.eat("on") || self.eat("ignoring") {
            self.names("grouping opts")?;
            let at = self.peek().at;
            if self.eat("group_left") || self.eat("group_right") {
                if SETS.contains(&operator) {
                    return Err((at, format!("no grouping allowed for {operator:?} operation")));
                }
                if self.is("(") {
                    self.names("grouping opts")?;
                }
            }
        }
        Ok(is_bool)
    }

    /// `(a, b)`.
    fn names(&mut self, context: &str) -> Result<(), Failed> {
        self.want("(", context)?;
        while !self.eat(")") {
            match self.peek().kind {
                Kind::Identifier if !self.peek().text.contains(':') => self.next += 1,
                _ => return Err(self.unexpected(context)),
            }
            if !self.is(")") {
                self.want(",", context)?;
            }
        }
        Ok(())
    }

    fn unary(&mut self) -> Parsed {
        let at = self.peek().at;
        if self.is("+") || self.is("-") {
            self.take();
            let inner = self.nested(|parser| parser.binary(LEVELS.len() - 1))?;
            return match inner.gives {
                ValueType::Scalar | ValueType::Vector => {
                    Ok(Expression { gives: inner.gives, selects: false, at })
                }
                other => Err((
                    at,
                    format!(
                        "unary expression only allowed on expressions of type scalar or instant vector, got {:?}",
                        other.name()
                    ),
                )),
            };
        }
        let mut found = self.primary()?;
        loop {
            found = match () {
                () if self.is("[") => self.range(found)?,
                () if self.is("offset") => self.offset(found)?,
                () if self.is("@") => self.moment(found)?,
                () => return Ok(found),
            };
        }
    }

    fn nested(&mut self, work: impl FnOnce(&mut Self) -> Parsed) -> Parsed {
        self.depth += 1;
        if self.depth > DEEPEST {
            return Err((self.peek().at, format!("the expression nests deeper than {DEEPEST}")));
        }
        let found = work(self)?;
        self.depth -= 1;
        Ok(found)
    }

    fn range(&mut self, of: Expression) -> Parsed {
        self.take();
        self.duration("subquery or range")?;
        if self.eat(":") {
            if !self.is("]") {
                self.duration("subquery selector")?;
            }
            self.want("]", "subquery selector")?;
            return match of.gives {
                ValueType::Vector => Ok(Expression { gives: ValueType::Matrix, selects: true, at: of.at }),
                other => Err((
                    of.at,
                    format!("subquery is only allowed on instant vector, got {} instead", other.name()),
                )),
            };
        }
        self.want("]", "subquery or range")?;
        if !of.selects || of.gives != ValueType::Vector {
            return Err((of.at, "ranges only allowed for vector selectors".to_owned()));
        }
        Ok(Expression { gives: ValueType::Matrix, ..of })
    }

    fn offset(&mut self, of: Expression) -> Parsed {
        self.take();
        self.eat("-");
        self.duration("offset")?;
        self.only_of_selectors(of, "offset modifier")
    }

    fn moment(&mut self, of: Expression) -> Parsed {
        self.take();
        let signed = self.eat("-") || self.eat("+");
        if !signed && (self.eat("start") || self.eat("end")) {
            self.want("(", "@")?;
            self.want(")", "@")?;
        } else if self.peek().kind == Kind::Number {
            self.next += 1;
        } else {
            return Err(self.unexpected("@"));
        }
        self.only_of_selectors(of, "@ modifier")
    }

    fn only_of_selectors(&self, of: Expression, what: &str) -> Parsed {
        match of.selects {
            true => Ok(of),
            false => Err((
                of.at,
                format!(
                    "{what} must be preceded by an instant vector selector or range vector selector or a subquery"
                ),
            )),
        }
    }

    fn duration(&mut self, context: &str) -> Result<(), Failed> {
        match self.peek().kind {
            // Seconds, since Prometheus 3.
            Kind::Duration | Kind::Number => {
                self.next += 1;
                Ok(())
            }
            _ => Err(self.unexpected(context)),
        }
    }

    fn primary(&mut self) -> Parsed {
        let token = self.peek();
        let at = token.at;
        let plain = |gives| Ok(Expression { gives, selects: false, at });
        match &token.kind {
            Kind::Number => {
                self.next += 1;
                plain(ValueType::Scalar)
            }
            Kind::Text(_) => {
                self.next += 1;
                plain(ValueType::String)
            }
            Kind::Sign if token.text == "(" => {
                self.take();
                let inner = self.nested(|parser| parser.binary(0))?;
                if self.peek().kind == Kind::End {
                    return Err((self.peek().at, "unclosed left parenthesis".to_owned()));
                }
                self.want(")", "parenthesised expression")?;
                Ok(Expression { selects: false, at, ..inner })
            }
            Kind::Sign if token.text == "{" => self.selector(None),
            Kind::Identifier => self.named(token),
            _ => Err(self.unexpected("")),
        }
    }

    fn named(&mut self, token: &Token<'_>) -> Parsed {
        let name = token.text;
        let lower = name.to_ascii_lowercase();
        self.take();
        let followed = self.is("(");
        if let Some((_, parameter)) = AGGREGATIONS.iter().find(|(known, _)| *known == lower)
            && (followed || self.is("by") || self.is("without"))
        {
            return self.nested(|parser| parser.aggregation(&lower, *parameter, token.at));
        }
        if followed {
            let signature =
                find(name).ok_or_else(|| (token.at, format!("unknown function with name {name:?}")))?;
            return self.nested(|parser| parser.call(signature, token.at));
        }
        if matches!(lower.as_str(), "inf" | "nan") {
            return Ok(Expression { gives: ValueType::Scalar, selects: false, at: token.at });
        }
        if LEVELS.iter().any(|level| level.contains(&lower.as_str())) || lower == "bool" {
            self.next -= 1;
            return Err(self.unexpected(""));
        }
        self.selector(Some(token))
    }

    fn aggregation(&mut self, name: &str, parameter: Option<ValueType>, at: usize) -> Parsed {
        let grouped = self.eat("by") || self.eat("without");
        if grouped {
            self.names("grouping opts")?;
        }
        let arguments = self.arguments("aggregation")?;
        let wanted = 1 + usize::from(parameter.is_some());
        if arguments.len() != wanted {
            let text = format!(
                "wrong number of arguments for aggregate expression provided, expected {wanted}, got {}",
                arguments.len()
            );
            return Err((at, text));
        }
        let types = parameter.into_iter().chain([ValueType::Vector]);
        for (argument, wanted) in arguments.iter().zip(types) {
            need(argument, wanted, &format!("aggregation expression {name:?}"))?;
        }
        if !grouped && (self.eat("by") || self.eat("without")) {
            self.names("grouping opts")?;
        }
        Ok(Expression { gives: ValueType::Vector, selects: false, at })
    }

    fn call(&mut self, signature: &Signature, at: usize) -> Parsed {
        let arguments = self.arguments("function call")?;
        let (most, given) = (signature.takes.len(), arguments.len());
        let (least, problem) = match signature.optional {
            0 => (most, "expected"),
            negative if negative < 0 => (most - 1, "expected at least"),
            count => (most - count.unsigned_abs() as usize, "expected at most"),
        };
        let too_many = signature.optional >= 0 && given > most;
        if given < least || too_many {
            let wanted = if given < least { least } else { most };
            let problem = if given < least && signature.optional > 0 { "expected at least" } else { problem };
            let name = signature.name;
            return Err((at, format!("{problem} {wanted} argument(s) in call to {name:?}, got {given}")));
        }
        for (index, argument) in arguments.iter().enumerate() {
            if let Some(wanted) = signature.takes.get(index).or(signature.takes.last()) {
                need(argument, *wanted, &format!("call to function {:?}", signature.name))?;
            }
        }
        Ok(Expression { gives: signature.gives, selects: false, at })
    }

    fn arguments(&mut self, context: &str) -> Result<Vec<Expression>, Failed> {
        self.want("(", context)?;
        let mut arguments = Vec::new();
        while !self.eat(")") {
            arguments.push(self.binary(0)?);
            if self.peek().kind == Kind::End {
                return Err((self.peek().at, "unclosed left parenthesis".to_owned()));
            }
            if !self.is(")") {
                self.want(",", context)?;
            }
        }
        Ok(arguments)
    }

    /// `name{label="value"}`.
    fn selector(&mut self, name: Option<&Token<'_>>) -> Parsed {
        let at = name.map_or(self.peek().at, |name| name.at);
        let mut chooses = name.is_some();
        if self.eat("{") {
            while !self.eat("}") {
                chooses |= self.matcher(name.is_some())?;
                if !self.is("}") {
                    self.want(",", "label matching")?;
                }
            }
        }
        if !chooses {
            return Err((at, "vector selector must contain at least one non-empty matcher".to_owned()));
        }
        Ok(Expression { gives: ValueType::Vector, selects: true, at })
    }

    /// Says whether it leaves anything out.
    fn matcher(&mut self, is_named: bool) -> Result<bool, Failed> {
        let label = self.peek();
        let context = "label matching";
        if label.kind != Kind::Identifier || label.text.contains(':') {
            return Err(self.unexpected(context));
        }
        self.take();
        let operator = self.peek();
        if !["=", "!=", "=~", "!~"].contains(&operator.text) {
            return Err(self.unexpected(context));
        }
        self.take();
        let Kind::Text(value) = &self.peek().kind else { return Err(self.unexpected(context)) };
        let at = self.take().at;
        if is_named && label.text == "__name__" {
            return Err((label.at, "metric name must not be set twice".to_owned()));
        }
        Ok(match operator.text {
            "=" => !value.is_empty(),
            "!=" => value.is_empty(),
            pattern => {
                let regex = regex::Regex::new(&format!("^(?s:{value})$"));
                let regex = regex.map_err(|error| (at, format!("error parsing regexp: {error}")))?;
                regex.is_match("") != (pattern == "=~")
            }
        })
    }
}

fn need(argument: &Expression, wanted: ValueType, place: &str) -> Result<(), Failed> {
    if argument.gives == wanted {
        return Ok(());
    }
    let text = format!("expected type {} in {place}, got {}", wanted.name(), argument.gives.name());
    Err((argument.at, text))
}

fn combine(operator: &str, is_bool: bool, left: Expression, right: Expression) -> Parsed {
    use ValueType::{Scalar, Vector};
    let is_comparison = LEVELS[2].contains(&operator);
    let gives = match (left.gives, right.gives) {
        (Scalar, Scalar) if SETS.contains(&operator) => {
            return Err((
                left.at,
                format!("set operator {operator:?} not allowed in binary scalar expression"),
            ));
        }
        (Scalar, Scalar) if is_comparison && !is_bool => {
            return Err((left.at, "comparisons between scalars must use BOOL modifier".to_owned()));
        }
        (Scalar, Scalar) => Scalar,
        (Scalar | Vector, Scalar | Vector)
            if SETS.contains(&operator) && (left.gives, right.gives) != (Vector, Vector) =>
        {
            return Err((
                left.at,
                format!("set operator {operator:?} not allowed in binary scalar expression"),
            ));
        }
        (Scalar | Vector, Scalar | Vector) => Vector,
        _ => {
            return Err((
                left.at,
                "binary expression must contain only scalar and instant vector types".to_owned(),
            ));
        }
    };
    Ok(Expression { gives, selects: false, at: left.at })
}
