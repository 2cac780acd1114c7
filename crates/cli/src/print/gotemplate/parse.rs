//! Text → nodes.

use serde_json::Value;

use super::{Node, Operand, Pipe};

#[derive(Debug, Clone, PartialEq)]
enum Token {
    Word(String),
    Dot(Vec<String>),
    /// `.a` right after a parenthesis: a field of what it gave.
    FieldOf(Vec<String>),
    Variable(String, Vec<String>),
    Literal(Value),
    Open,
    Close,
    Bar,
    Comma,
    Set,
}

pub fn nodes(text: &str) -> Result<Vec<Node>, String> {
    let mut pieces = pieces(text)?.into_iter().peekable();
    let (nodes, end) = body(&mut pieces)?;
    match end {
        Closing::Text => Ok(nodes),
        _ => Err("unexpected {{end}} or {{else}}".to_owned()),
    }
}

enum Piece {
    Text(String),
    Action(Vec<Token>),
}

enum Closing {
    Text,
    End,
    Else(Vec<Token>),
}

/// Texts and actions, with the blanks cut that `{{-` and `-}}` cut.
fn pieces(text: &str) -> Result<Vec<Piece>, String> {
    let mut pieces = Vec::new();
    let (mut rest, mut trim) = (text, false);
    loop {
        let start = rest.find("{{");
        let mut before = &rest[..start.unwrap_or(rest.len())];
        if trim {
            before = before.trim_start();
        }
        let Some(start) = start else {
            pieces.push(Piece::Text(before.to_owned()));
            return Ok(pieces);
        };
        let inside = &rest[start + 2..];
        let end = end_of_action(inside).ok_or("unclosed action")?;
        let mut action = &inside[..end];
        if let Some(cut) = action.strip_prefix("- ") {
            before = before.trim_end();
            action = cut;
        }
        trim = action.ends_with(" -");
        action = action.strip_suffix(" -").unwrap_or(action).trim();
        if !before.is_empty() {
            pieces.push(Piece::Text(before.to_owned()));
        }
        if !action.starts_with("/*") {
            pieces.push(Piece::Action(tokens(action)?));
        }
        rest = &inside[end + 2..];
    }
}

/// Where `}}` stands outside of quotes.
fn end_of_action(text: &str) -> Option<usize> {
    let (mut quote, mut escaped) = (None, false);
    for (i, c) in text.char_indices() {
        match (quote, c) {
            _ if escaped => escaped = false,
            (Some('"'), '\\') => escaped = true,
            (Some(open), c) if c == open => quote = None,
            (Some(_), _) => {}
            (None, '"' | '`' | '\'') => quote = Some(c),
            (None, '}') if text[i..].starts_with("}}") => return Some(i),
            _ => {}
        }
    }
    None
}

fn tokens(text: &str) -> Result<Vec<Token>, String> {
    let mut tokens = Vec::new();
    let (mut rest, mut spaced) = (text.trim_start(), true);
    while let Some(first) = rest.chars().next() {
        let (token, length) = match first {
            '(' => (Token::Open, 1),
            ')' => (Token::Close, 1),
            '|' => (Token::Bar, 1),
            ',' => (Token::Comma, 1),
            ':' if rest.starts_with(":=") => (Token::Set, 2),
            '=' => (Token::Set, 1),
            '"' => {
                let mut stream = serde_json::Deserializer::from_str(rest).into_iter::<String>();
                let word = stream.next().and_then(Result::ok).ok_or("unterminated quoted string")?;
                (Token::Literal(word.into()), stream.byte_offset())
            }
            '`' => {
                let end = rest[1..].find('`').ok_or("unterminated raw quoted string")?;
                (Token::Literal(rest[1..=end].into()), end + 2)
            }
            '.' => {
                let (names, length) = names(rest);
                let is_field = !spaced && tokens.last() == Some(&Token::Close);
                (if is_field { Token::FieldOf(names) } else { Token::Dot(names) }, length)
            }
            '$' => {
                let name = word(&rest[1..]);
                let (names, length) = names(&rest[1 + name.len()..]);
                (Token::Variable(name.to_owned(), names), 1 + name.len() + length)
            }
            c if c.is_ascii_digit() || c == '-' => {
                let end =
                    rest.find(|c: char| !c.is_ascii_digit() && !"+-.eE".contains(c)).unwrap_or(rest.len());
                let number =
                    serde_json::from_str(&rest[..end]).map_err(|_| format!("bad number {}", &rest[..end]))?;
                (Token::Literal(number), end)
            }
            _ => {
                let word = word(rest);
                if word.is_empty() {
                    return Err(format!("unexpected {first:?} in command"));
                }
                let token = match word {
                    "true" => Token::Literal(true.into()),
                    "false" => Token::Literal(false.into()),
                    "nil" => Token::Literal(Value::Null),
                    _ => Token::Word(word.to_owned()),
                };
                (token, word.len())
            }
        };
        tokens.push(token);
        let after = rest[length..].trim_start();
        spaced = after.len() < rest.len() - length;
        rest = after;
    }
    Ok(tokens)
}

fn word(text: &str) -> &str {
    &text[..text.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(text.len())]
}

/// `.a.b` → its names and its length.
fn names(text: &str) -> (Vec<String>, usize) {
    let (mut names, mut length) = (Vec::new(), 0);
    while text[length..].starts_with('.') {
        let name = word(&text[length + 1..]);
        length += 1 + name.len();
        if name.is_empty() {
            break;
        }
        names.push(name.to_owned());
    }
    (names, length)
}

type Pieces = std::iter::Peekable<std::vec::IntoIter<Piece>>;

/// Nodes up to the `{{end}}` or `{{else}}` that is not theirs.
fn body(pieces: &mut Pieces) -> Result<(Vec<Node>, Closing), String> {
    let mut nodes = Vec::new();
    while let Some(piece) = pieces.next() {
        let tokens = match piece {
            Piece::Text(text) => {
                nodes.push(Node::Text(text));
                continue;
            }
            Piece::Action(tokens) => tokens,
        };
        let keyword = match tokens.first() {
            Some(Token::Word(word)) => word.as_str(),
            _ => "",
        };
        match keyword {
            "end" => return Ok((nodes, Closing::End)),
            "else" => return Ok((nodes, Closing::Else(tokens[1..].to_vec()))),
            "if" => nodes.push(condition(&tokens[1..], pieces)?),
            "with" => {
                let (inner, otherwise) = branches(pieces)?;
                nodes.push(Node::With(pipe(&tokens[1..])?, inner, otherwise));
            }
            "range" => {
                let (names, over) = range(&tokens[1..])?;
                let (inner, otherwise) = branches(pieces)?;
                nodes.push(Node::Range { names, over, body: inner, otherwise });
            }
            _ => nodes.push(match tokens.as_slice() {
                [Token::Variable(name, _), Token::Set, value @ ..] => Node::Set(name.clone(), pipe(value)?),
                _ => Node::Print(pipe(&tokens)?),
            }),
        }
    }
    Ok((nodes, Closing::Text))
}

fn condition(first: &[Token], pieces: &mut Pieces) -> Result<Node, String> {
    let mut all = Vec::new();
    let mut test = first.to_vec();
    loop {
        let (inner, end) = body(pieces)?;
        all.push((pipe(&test)?, inner));
        match end {
            Closing::Text => return Err("unclosed {{if}}".to_owned()),
            Closing::End => return Ok(Node::If(all, Vec::new())),
            Closing::Else(tokens) if tokens.is_empty() => {
                let (otherwise, end) = body(pieces)?;
                return match end {
                    Closing::End => Ok(Node::If(all, otherwise)),
                    _ => Err("unclosed {{else}}".to_owned()),
                };
            }
            Closing::Else(tokens) => test = tokens[1..].to_vec(),
        }
    }
}

/// A body and what stands after `{{else}}`.
fn branches(pieces: &mut Pieces) -> Result<(Vec<Node>, Vec<Node>), String> {
    let (inner, end) = body(pieces)?;
    match end {
        Closing::End => Ok((inner, Vec::new())),
        Closing::Text => Err("an {{end}} is missing".to_owned()),
        Closing::Else(_) => match body(pieces)? {
            (otherwise, Closing::End) => Ok((inner, otherwise)),
            _ => Err("an {{end}} is missing".to_owned()),
        },
    }
}

fn range(tokens: &[Token]) -> Result<(Vec<String>, Pipe), String> {
    let Some(at) = tokens.iter().position(|token| *token == Token::Set) else {
        return Ok((Vec::new(), pipe(tokens)?));
    };
    let name = |token: &Token| match token {
        Token::Variable(name, _) => Some(name.clone()),
        _ => None,
    };
    Ok((tokens[..at].iter().filter_map(name).collect(), pipe(&tokens[at + 1..])?))
}

fn pipe(tokens: &[Token]) -> Result<Pipe, String> {
    let (mut commands, mut command, mut at) = (Vec::new(), Vec::new(), 0);
    while let Some(token) = tokens.get(at) {
        at += 1;
        match token {
            Token::Bar => commands.push(std::mem::take(&mut command)),
            Token::Word(word) => command.push(Operand::Function(word.clone())),
            Token::Dot(names) => command.push(Operand::Dot(names.clone())),
            Token::FieldOf(names) => {
                let mut call = vec![Operand::Function("index".to_owned())];
                call.extend(command.pop());
                call.extend(names.iter().map(|name| Operand::Literal(name.as_str().into())));
                command.push(Operand::Group(vec![call]));
            }
            Token::Variable(name, names) => command.push(Operand::Variable(name.clone(), names.clone())),
            Token::Literal(value) => command.push(Operand::Literal(value.clone())),
            Token::Open => {
                let close = closing(&tokens[at..]).ok_or("unclosed left paren")?;
                command.push(Operand::Group(pipe(&tokens[at..at + close])?));
                at += close + 1;
            }
            Token::Close | Token::Comma | Token::Set => return Err("unexpected sign in command".to_owned()),
        }
    }
    commands.push(command);
    if commands.iter().any(Vec::is_empty) {
        return Err("missing value for command".to_owned());
    }
    Ok(commands)
}

fn closing(tokens: &[Token]) -> Option<usize> {
    let mut depth = 0usize;
    for (i, token) in tokens.iter().enumerate() {
        match token {
            Token::Open => depth += 1,
            Token::Close if depth == 0 => return Some(i),
            Token::Close => depth -= 1,
            _ => {}
        }
    }
    None
}
