//! Text → [`Template`].

use serde_json::Value;

use super::{Filter, Operand, Operator, Path, Piece, Step, Template};

pub fn template(text: &str) -> Result<Template, String> {
    // The pieces of each range that is open, innermost last; the first are the template's own.
    let mut open: Vec<(Option<Path>, Vec<Piece>)> = vec![(None, Vec::new())];
    let mut rest = text;
    while !rest.is_empty() {
        let Some(brace) = rest.find('{') else {
            push(&mut open, Piece::Text(rest.to_owned()));
            break;
        };
        if brace > 0 {
            push(&mut open, Piece::Text(rest[..brace].to_owned()));
        }
        let (action, after) = action(&rest[brace + 1..])?;
        rest = after;
        if action == "end" {
            let (path, pieces) = open.pop().unwrap_or_default();
            let Some(path) = path else { return Err("not in range, nothing to end".to_owned()) };
            push(&mut open, Piece::Range(path, pieces));
        } else if let Some(over) = action.strip_prefix("range").filter(|over| over.starts_with(' ')) {
            open.push((Some(path(over.trim())?), Vec::new()));
        } else if action.starts_with(['"', '\'']) {
            push(&mut open, Piece::Text(quoted(action)?));
        } else {
            push(&mut open, Piece::Print(path(action)?));
        }
    }
    match (open.pop(), open.is_empty()) {
        (Some((None, pieces)), true) => Ok(Template { pieces }),
        _ => Err("unclosed range: {end} is missing".to_owned()),
    }
}

fn push(open: &mut [(Option<Path>, Vec<Piece>)], piece: Piece) {
    if let Some((_, pieces)) = open.last_mut() {
        pieces.push(piece);
    }
}

/// What stands before the closing brace, and what after it.
fn action(text: &str) -> Result<(&str, &str), String> {
    let end = end_of(text, '}').ok_or("unclosed action: } is missing")?;
    Ok((text[..end].trim(), &text[end + 1..]))
}

/// Where `closing` stands outside of quotes and brackets.
fn end_of(text: &str, closing: char) -> Option<usize> {
    let (mut quote, mut depth, mut escaped) = (None, 0usize, false);
    for (i, c) in text.char_indices() {
        if escaped {
            escaped = false;
            continue;
        }
        match (quote, c) {
            (_, '\\') => escaped = true,
            (Some(open), c) if c == open => quote = None,
            (Some(_), _) => {}
            (None, '"' | '\'') => quote = Some(c),
            (None, c) if c == closing && depth == 0 => return Some(i),
            (None, '[' | '(' | '{') => depth += 1,
            (None, ']' | ')' | '}') => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    None
}

/// A text in quotes, with Go's escapes.
fn quoted(text: &str) -> Result<String, String> {
    let quote = text.chars().next().unwrap_or('"');
    let inner = text.strip_prefix(quote).and_then(|rest| rest.strip_suffix(quote));
    let inner =
        inner.filter(|_| text.len() > 1).ok_or_else(|| format!("unterminated quoted string {text}"))?;
    let mut out = String::new();
    let mut chars = inner.chars();
    while let Some(c) = chars.next() {
        match c {
            '\\' => match chars.next() {
                Some('n') => out.push('\n'),
                Some('t') => out.push('\t'),
                Some('r') => out.push('\r'),
                Some(other) => out.push(other),
                None => {}
            },
            c => out.push(c),
        }
    }
    Ok(out)
}

/// A path such as `.items[*].metadata.name`.
pub fn path(text: &str) -> Result<Path, String> {
    let mut steps = Vec::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        match first {
            '$' => {
                steps.push(Step::Root);
                rest = &rest[1..];
            }
            '@' | ' ' => rest = &rest[1..],
            '.' if rest.starts_with("..") => {
                steps.push(Step::Recursive);
                // `..name` is a field of everything below; `..[0]` has no name.
                rest = if rest[2..].starts_with('[') { &rest[2..] } else { &rest[1..] };
            }
            '.' => {
                let (name, after) = field(&rest[1..]);
                match name.as_str() {
                    "" => {}
                    "*" => steps.push(Step::Wildcard),
                    _ => steps.push(Step::Field(name)),
                }
                rest = after;
            }
            '[' => {
                let end = end_of(&rest[1..], ']').ok_or("unterminated array: ] is missing")? + 1;
                steps.push(brackets(rest[1..end].trim())?);
                rest = &rest[end + 1..];
            }
            _ => {
                let (name, after) = field(rest);
                if name.is_empty() {
                    return Err(format!("unrecognized character in action: {first:?}"));
                }
                steps.push(Step::Field(name));
                rest = after;
            }
        }
    }
    Ok(Path { steps })
}

/// A field's name up to the next sign; `\.` is a dot of the name.
fn field(text: &str) -> (String, &str) {
    let mut name = String::new();
    let mut chars = text.char_indices();
    while let Some((i, c)) = chars.next() {
        match c {
            '\\' => name.extend(chars.next().map(|(_, c)| c)),
            ' ' | '.' | ',' | '[' | ']' | '$' | '@' | '{' | '}' | '\n' => return (name, &text[i..]),
            c => name.push(c),
        }
    }
    (name, "")
}

/// What stands in `[...]`.
fn brackets(text: &str) -> Result<Step, String> {
    if text == "*" {
        return Ok(Step::Wildcard);
    }
    if let Some(condition) = text.strip_prefix("?(") {
        let condition = condition.strip_suffix(')').ok_or("unterminated filter: ) is missing")?;
        return Ok(Step::Filter(Box::new(filter(condition)?)));
    }
    let parts = split_at_commas(text);
    if parts.len() > 1 {
        return Ok(Step::Union(parts.iter().map(|part| member(part.trim())).collect::<Result<_, _>>()?));
    }
    if text.starts_with(['\'', '"']) {
        let steps = member(text)?.steps;
        return match steps.as_slice() {
            [one] => Ok(one.clone()),
            _ => Ok(Step::Union(vec![Path { steps }])),
        };
    }
    slice(text)
}

/// One member of a union: a slice, or names in quotes.
fn member(text: &str) -> Result<Path, String> {
    if text.starts_with(['\'', '"']) {
        // As kubectl has it, the quoted text is a path of its own: ['metadata.name'].
        let inner = text.trim_matches(['\'', '"']);
        return path(&format!(".{inner}"));
    }
    match slice(text) {
        Ok(step) => Ok(Path { steps: vec![step] }),
        Err(_) => path(text),
    }
}

fn split_at_commas(text: &str) -> Vec<&str> {
    let (mut parts, mut rest) = (Vec::new(), text);
    while let Some(comma) = end_of(rest, ',') {
        parts.push(&rest[..comma]);
        rest = &rest[comma + 1..];
    }
    parts.push(rest);
    parts
}

fn slice(text: &str) -> Result<Step, String> {
    let number = |part: &str| -> Result<Option<i64>, String> {
        match part.trim() {
            "" => Ok(None),
            digits => digits.parse().map(Some).map_err(|_| format!("invalid array index {text}")),
        }
    };
    let parts: Vec<&str> = text.split(':').collect();
    match parts.as_slice() {
        [one] => {
            let first = number(one)?.ok_or_else(|| format!("invalid array index {text}"))?;
            Ok(Step::Slice { first: Some(first), last: None, step: 1, single: true })
        }
        [first, last] => {
            Ok(Step::Slice { first: number(first)?, last: number(last)?, step: 1, single: false })
        }
        [first, last, step] => {
            let step = number(step)?.unwrap_or(1);
            if step < 1 {
                return Err("step must be > 0".to_owned());
            }
            Ok(Step::Slice { first: number(first)?, last: number(last)?, step, single: false })
        }
        _ => Err(format!("invalid array index {text}")),
    }
}

const OPERATORS: [(&str, Operator); 6] = [
    ("==", Operator::Equal),
    ("!=", Operator::NotEqual),
    ("<=", Operator::LessOrEqual),
    (">=", Operator::GreaterOrEqual),
    ("<", Operator::Less),
    (">", Operator::Greater),
];

fn filter(text: &str) -> Result<Filter, String> {
    let Some(at) = ['=', '!', '<', '>'].iter().filter_map(|sign| end_of(text, *sign)).min() else {
        return Ok(Filter::Exists(operand(text.trim())?));
    };
    let (left, right) = text.split_at(at);
    let Some((sign, operator)) = OPERATORS.iter().find(|(sign, _)| right.starts_with(sign)) else {
        return Err(format!("unrecognized filter operator in {text}"));
    };
    Ok(Filter::Compare(operand(left.trim())?, *operator, operand(right[sign.len()..].trim())?))
}

fn operand(text: &str) -> Result<Operand, String> {
    if text.starts_with(['"', '\'']) {
        return Ok(Operand::Literal(Value::String(quoted(text)?)));
    }
    if let Ok(literal @ (Value::Number(_) | Value::Bool(_))) = serde_json::from_str::<Value>(text) {
        return Ok(Operand::Literal(literal));
    }
    Ok(Operand::Path(path(text)?))
}
