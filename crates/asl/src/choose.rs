//! Whether a choice rule's condition holds.

use serde_json::Value;

use crate::definition::{Comparison, Condition, Operand};
use crate::evaluate::Scope;
use crate::failure::Failure;
use crate::timestamp::Timestamp;

pub fn holds(condition: &Condition, scope: &mut Scope<'_>, data: &Value) -> Result<bool, Failure> {
    match condition {
        Condition::And(all) => {
            for one in all {
                if !holds(one, scope, data)? {
                    return Ok(false);
                }
            }
            Ok(true)
        }
        Condition::Or(any) => {
            for one in any {
                if holds(one, scope, data)? {
                    return Ok(true);
                }
            }
            Ok(false)
        }
        Condition::Not(inner) => Ok(!holds(inner, scope, data)?),
        Condition::Constant(constant) => Ok(*constant),
        Condition::Jsonata(jsonata) => Ok(scope.typed(jsonata, "boolean")? == Value::Bool(true)),
        Condition::Test { variable, comparison, operand } => {
            let found = scope.optional(variable, data);
            if *comparison == Comparison::IsPresent {
                return Ok(Operand::wants(operand) == found.is_some());
            }
            let Some(found) = found else {
                return Err(Failure::runtime(format!(
                    "Invalid path '{}': The choice state's condition path references an invalid value.",
                    variable.text()
                )));
            };
            let operand = match operand {
                Operand::Constant(value) => value.clone(),
                Operand::Query(query) => scope.optional(query, data).ok_or_else(|| {
                    Failure::runtime(format!(
                        "Invalid path '{}': The choice state's condition path references an invalid value.",
                        query.text()
                    ))
                })?,
            };
            Ok(compare(*comparison, &found, &operand))
        }
    }
}

impl Operand {
    fn wants(operand: &Self) -> bool {
        !matches!(operand, Self::Constant(Value::Bool(false)))
    }
}

/// Values of other types than the operator's never match.
fn compare(comparison: Comparison, value: &Value, operand: &Value) -> bool {
    let wants = *operand != Value::Bool(false);
    match comparison {
        Comparison::IsNull => value.is_null() == wants,
        Comparison::IsNumeric => value.is_number() == wants,
        Comparison::IsString => value.is_string() == wants,
        Comparison::IsBoolean => value.is_boolean() == wants,
        Comparison::IsTimestamp => value.as_str().and_then(Timestamp::parse).is_some() == wants,
        Comparison::IsPresent => wants,
        Comparison::BooleanEquals => value.is_boolean() && value == operand,
        Comparison::StringMatches => match (value, operand) {
            (Value::String(text), Value::String(pattern)) => matches(pattern, text),
            _ => false,
        },
        Comparison::String(order) => match (value, operand) {
            (Value::String(a), Value::String(b)) => order.holds(a.cmp(b)),
            _ => false,
        },
        Comparison::Numeric(order) => match (value, operand) {
            (Value::Number(a), Value::Number(b)) => match (a.as_i64(), b.as_i64()) {
                (Some(a), Some(b)) => Some(a.cmp(&b)),
                _ => a.as_f64().unwrap_or_default().partial_cmp(&b.as_f64().unwrap_or_default()),
            }
            .is_some_and(|ordering| order.holds(ordering)),
            _ => false,
        },
        Comparison::Timestamp(order) => {
            match (value.as_str().and_then(Timestamp::parse), operand.as_str().and_then(Timestamp::parse)) {
                (Some(a), Some(b)) => order.holds(a.cmp(&b)),
                _ => false,
            }
        }
    }
}

/// `*` stands for any text, `\*` for a star, `\\` for a backslash. Linear in both lengths' product, never more.
fn matches(pattern: &str, text: &str) -> bool {
    enum Token {
        Any,
        Character(char),
    }
    let mut tokens = Vec::new();
    let mut characters = pattern.chars();
    while let Some(character) = characters.next() {
        tokens.push(match character {
            '*' => Token::Any,
            '\\' => Token::Character(characters.next().unwrap_or('\\')),
            character => Token::Character(character),
        });
    }
    let text: Vec<char> = text.chars().collect();
    let (mut at, mut token) = (0, 0);
    let mut star: Option<(usize, usize)> = None;
    while at < text.len() {
        match tokens.get(token) {
            Some(Token::Any) => {
                star = Some((token, at));
                token += 1;
            }
            Some(Token::Character(wanted)) if *wanted == text[at] => {
                at += 1;
                token += 1;
            }
            _ => match star {
                Some((back, from)) => {
                    token = back + 1;
                    at = from + 1;
                    star = Some((back, from + 1));
                }
                None => return false,
            },
        }
    }
    tokens[token..].iter().all(|token| matches!(token, Token::Any))
}

#[cfg(test)]
mod tests {
    use super::matches;

    #[test]
    fn string_matches_takes_stars_and_escapes() {
        for (pattern, text, expected) in [
            ("foo*.log", "foo123.log", true),
            ("foo*.log", "foo123.txt", false),
            ("*", "", true),
            ("", "", true),
            ("", "a", false),
            ("a*b*c", "axxbyyc", true),
            ("a*b*c", "axxbyy", false),
            ("a\\*c", "a*c", true),
            ("a\\*c", "abc", false),
            ("a\\\\c", "a\\c", true),
            ("*aaaaaaaaaaaaaaaaaaaab", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", false),
        ] {
            assert_eq!(matches(pattern, text), expected, "{pattern} {text}");
        }
    }
}
