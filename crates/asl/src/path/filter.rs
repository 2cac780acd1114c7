//! `[?(…)]`: which elements a path keeps. What cannot be compared is not kept; a filter never fails.

use std::cmp::Ordering;

use regex::Regex;
use serde_json::Value;

use super::Segment;
use super::evaluate::find;

#[derive(Debug, Clone)]
pub(super) enum Filter {
    And(Box<Filter>, Box<Filter>),
    Or(Box<Filter>, Box<Filter>),
    Not(Box<Filter>),
    Exists(Operand),
    Compare { left: Operand, operator: Operator, right: Operand },
}

#[derive(Debug, Clone)]
pub(super) enum Operand {
    Path { from_root: bool, segments: Vec<Segment> },
    Literal(Value),
    Pattern(Regex),
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Operator {
    Equal,
    NotEqual,
    LessEqual,
    Less,
    GreaterEqual,
    Greater,
    Matches,
    In,
    NotIn,
    Contains,
    Size,
    Empty,
    SubsetOf,
    AnyOf,
    NoneOf,
}

impl Operator {
    /// Longer texts stand before their beginnings.
    pub(super) const ALL: &'static [(&'static str, Self)] = &[
        ("===", Self::Equal),
        ("!==", Self::NotEqual),
        ("==", Self::Equal),
        ("!=", Self::NotEqual),
        ("=~", Self::Matches),
        ("<=", Self::LessEqual),
        (">=", Self::GreaterEqual),
        ("<", Self::Less),
        (">", Self::Greater),
        ("in ", Self::In),
        ("nin ", Self::NotIn),
        ("contains ", Self::Contains),
        ("size ", Self::Size),
        ("empty ", Self::Empty),
        ("subsetof ", Self::SubsetOf),
        ("anyof ", Self::AnyOf),
        ("noneof ", Self::NoneOf),
    ];
}

impl Filter {
    pub(super) fn accepts(&self, item: &Value, root: &Value) -> bool {
        match self {
            Self::And(a, b) => a.accepts(item, root) && b.accepts(item, root),
            Self::Or(a, b) => a.accepts(item, root) || b.accepts(item, root),
            Self::Not(inner) => !inner.accepts(item, root),
            Self::Exists(operand) => match operand {
                Operand::Path { segments, .. } => match operand.value(item, root) {
                    Some(Value::Array(found)) if !segments.iter().all(Segment::is_definite) => {
                        !found.is_empty()
                    }
                    found => found.is_some(),
                },
                _ => true,
            },
            Self::Compare { left, operator, right } => compare(left, *operator, right, item, root),
        }
    }
}

impl Operand {
    fn value(&self, item: &Value, root: &Value) -> Option<Value> {
        match self {
            Self::Path { from_root, segments } => {
                find(segments, if *from_root { root } else { item }, root).ok()
            }
            Self::Literal(value) => Some(value.clone()),
            Self::Pattern(_) => None,
        }
    }
}

fn compare(left: &Operand, operator: Operator, right: &Operand, item: &Value, root: &Value) -> bool {
    if operator == Operator::Matches {
        let Operand::Pattern(pattern) = right else { return false };
        // Jayway matches the whole text.
        return matches!(left.value(item, root), Some(Value::String(text))
            if pattern.find(&text).is_some_and(|found| found.start() == 0 && found.end() == text.len()));
    }
    let (Some(a), Some(b)) = (left.value(item, root), right.value(item, root)) else {
        return operator == Operator::NotEqual;
    };
    let among = |list: &Value, value: &Value| {
        list.as_array().is_some_and(|list| list.iter().any(|other| crate::values::equal(other, value)))
    };
    match operator {
        Operator::Equal => crate::values::equal(&a, &b),
        Operator::NotEqual => !crate::values::equal(&a, &b),
        Operator::Less => order(&a, &b) == Some(Ordering::Less),
        Operator::Greater => order(&a, &b) == Some(Ordering::Greater),
        Operator::LessEqual => matches!(order(&a, &b), Some(Ordering::Less | Ordering::Equal)),
        Operator::GreaterEqual => matches!(order(&a, &b), Some(Ordering::Greater | Ordering::Equal)),
        Operator::In => among(&b, &a),
        Operator::NotIn => !among(&b, &a),
        Operator::Contains => match (&a, &b) {
            (Value::String(text), Value::String(part)) => text.contains(part.as_str()),
            _ => among(&a, &b),
        },
        Operator::Size => size(&a).is_some_and(|size| b.as_u64() == Some(size as u64)),
        Operator::Empty => size(&a).is_some_and(|size| b.as_bool() == Some(size == 0)),
        Operator::SubsetOf => a.as_array().is_some_and(|items| items.iter().all(|item| among(&b, item))),
        Operator::AnyOf => a.as_array().is_some_and(|items| items.iter().any(|item| among(&b, item))),
        Operator::NoneOf => a.as_array().is_some_and(|items| !items.iter().any(|item| among(&b, item))),
        Operator::Matches => false,
    }
}

fn order(a: &Value, b: &Value) -> Option<Ordering> {
    match (a, b) {
        (Value::Number(a), Value::Number(b)) => a.as_f64()?.partial_cmp(&b.as_f64()?),
        (Value::String(a), Value::String(b)) => Some(a.cmp(b)),
        _ => None,
    }
}

fn size(value: &Value) -> Option<usize> {
    match value {
        Value::Array(items) => Some(items.len()),
        Value::String(text) => Some(text.chars().count()),
        Value::Object(object) => Some(object.len()),
        _ => None,
    }
}
