//! From a call's text to its tree.

use serde_json::Value;

use super::{Argument, Call, Function};
use crate::path::Path;

/// How deep calls may nest; AWS allows ten.
const DEEPEST: usize = 10;

pub(super) fn call(text: &str) -> Result<Call, String> {
    let mut parser = Parser { text, at: 0 };
    let call = parser.call(0)?;
    parser.space();
    if parser.at < text.len() {
        return Err(format!("unexpected text after the call: '{}'", &text[parser.at..]));
    }
    Ok(call)
}

struct Parser<'a> {
    text: &'a str,
    at: usize,
}

impl Parser<'_> {
    fn rest(&self) -> &str {
        &self.text[self.at..]
    }

    fn space(&mut self) {
        self.at += self.rest().len() - self.rest().trim_start().len();
    }

    fn call(&mut self, depth: usize) -> Result<Call, String> {
        if depth >= DEEPEST {
            return Err(format!("calls nest deeper than {DEEPEST}"));
        }
        let start = self.at;
        let open = self.rest().find('(').ok_or("'(' is expected")?;
        let name = self.rest()[..open].trim().to_owned();
        let &(_, function, least, most) = Function::ALL
            .iter()
            .find(|(known, ..)| *known == name)
            .ok_or_else(|| format!("there is no function '{name}'"))?;
        self.at += open + 1;
        let mut arguments = Vec::new();
        self.space();
        while !self.rest().starts_with(')') {
            if !arguments.is_empty() {
                if !self.rest().starts_with(',') {
                    return Err(format!("',' or ')' is expected before '{}'", self.rest()));
                }
                self.at += 1;
                self.space();
            }
            let argument = self.argument(depth)?;
            let is_template = function == Function::Format && arguments.is_empty();
            arguments.push(if is_template { argument } else { argument.unescaped() });
            self.space();
        }
        self.at += 1;
        if arguments.len() < least || arguments.len() > most {
            return Err(format!("{name} does not take {} arguments", arguments.len()));
        }
        if let Some(wrong) = arguments.iter().position(|argument| !function.takes(argument)) {
            return Err(format!("{name} does not take such a value as its argument {}", wrong + 1));
        }
        Ok(Call { text: self.text[start..self.at].to_owned(), function, arguments })
    }

    fn argument(&mut self, depth: usize) -> Result<Argument, String> {
        match self.rest().chars().next() {
            Some('\'') => Ok(Argument::Literal(Value::String(self.string()?))),
            Some('$') => {
                let end = path_end(self.rest());
                let path = Path::parse(self.rest()[..end].trim_end()).map_err(|invalid| invalid.0)?;
                self.at += end;
                Ok(Argument::Path(path))
            }
            Some('S') => Ok(Argument::Call(self.call(depth + 1)?)),
            Some(_) => {
                let end = self.rest().find([',', ')']).ok_or("')' is expected")?;
                let word = self.rest()[..end].trim().to_owned();
                let value = serde_json::from_str(&word).map_err(|_| format!("'{word}' is no argument"))?;
                self.at += end;
                match value {
                    Value::Array(_) | Value::Object(_) | Value::String(_) => {
                        Err(format!("'{word}' is no argument"))
                    }
                    value => Ok(Argument::Literal(value)),
                }
            }
            None => Err("an argument is expected".into()),
        }
    }

    /// A string in single quotes. `\'`, `\{`, `\}` and `\\` stand for the second character, and no other may follow a
    /// backslash. All but quotes stay escaped here: Format looks for braces itself.
    fn string(&mut self) -> Result<String, String> {
        let mut text = String::new();
        let mut characters = self.text[self.at + 1..].char_indices();
        while let Some((at, character)) = characters.next() {
            match character {
                '\'' => {
                    self.at += at + 2;
                    return Ok(text);
                }
                '\\' => match characters.next() {
                    Some((_, '\'')) => text.push('\''),
                    Some((_, escaped @ ('{' | '}' | '\\'))) => text.extend(['\\', escaped]),
                    Some((_, other)) => return Err(format!("'\\{other}' escapes nothing")),
                    None => break,
                },
                character => text.push(character),
            }
        }
        Err("a string does not end".into())
    }
}

impl Argument {
    fn unescaped(self) -> Self {
        let Self::Literal(Value::String(text)) = &self else { return self };
        let mut plain = String::new();
        let mut characters = text.chars();
        while let Some(character) = characters.next() {
            plain.push(if character == '\\' { characters.next().unwrap_or(character) } else { character });
        }
        Self::Literal(plain.into())
    }
}

/// Where a path ends among arguments: at the comma or parenthesis outside of brackets and quotes.
fn path_end(text: &str) -> usize {
    let (mut depth, mut quote) = (0usize, None);
    let mut escaped = false;
    for (at, character) in text.char_indices() {
        match (quote, character) {
            _ if escaped => escaped = false,
            (Some(_), '\\') => escaped = true,
            (Some(open), _) if open == character => quote = None,
            (Some(_), _) => {}
            (None, '\'' | '"') => quote = Some(character),
            (None, '[') => depth += 1,
            (None, ']') => depth = depth.saturating_sub(1),
            (None, ',' | ')') if depth == 0 => return at,
            _ => {}
        }
    }
    text.len()
}
