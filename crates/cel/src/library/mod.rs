//! Every function an expression can call: its signatures, and what it does.
//!
//! A library is a table of overloads. Signatures are written as text, `string::charAt(int) -> string`, where `::`
//! stands between the receiver and the name. Nothing here does IO; what needs the host is behind a trait
//! ([`authorizer::Authorizer`]).

pub mod authorizer;
pub mod conversions;
pub mod duration;
mod formatting;
pub mod lists;
pub mod named_format;
mod network;
mod operators;
mod optional;
pub mod patterns;
pub mod quantity;
pub mod semver;
mod sets;
mod strings;
mod time;
pub mod url;

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

use regex::Regex;

use crate::error::EvalError;
use crate::types::Type;
use crate::value::{Map, Value};

pub type Evaluated<'a> = Result<Value<'a>, EvalError>;
pub type Implementation = for<'a> fn(&Site, &[Value<'a>]) -> Evaluated<'a>;

/// What is known about the place of a call before it runs.
#[derive(Debug, Default, Clone)]
pub struct Site {
    /// The pattern, if it is a constant.
    pub regex: Option<Regex>,
}

/// One signature of a function.
#[derive(Debug)]
pub struct Overload {
    pub function: String,
    pub id: String,
    pub is_member: bool,
    pub params: Vec<Type>,
    pub result: Type,
    pub call: Implementation,
}

/// An identifier, a signature, an implementation.
type Row = (&'static str, &'static str, Implementation);

/// The overloads of a function, or none if there is no such function.
pub fn overloads(function: &str) -> &'static [Overload] {
    registry().get(function).map_or(&[], Vec::as_slice)
}

fn registry() -> &'static HashMap<String, Vec<Overload>> {
    static REGISTRY: OnceLock<HashMap<String, Vec<Overload>>> = OnceLock::new();
    REGISTRY.get_or_init(|| {
        let mut found: HashMap<String, Vec<Overload>> = HashMap::new();
        let tables: [&[Row]; 14] = [
            operators::TABLE,
            conversions::TABLE,
            time::TABLE,
            strings::TABLE,
            lists::TABLE,
            sets::TABLE,
            patterns::TABLE,
            url::TABLE,
            network::TABLE,
            quantity::TABLE,
            semver::TABLE,
            named_format::TABLE,
            optional::TABLE,
            authorizer::TABLE,
        ];
        let rows = tables.into_iter().flatten().map(|(id, signature, call)| overload(id, signature, *call));
        for overload in rows.chain(operators::comparisons()).chain(lists::of_comparable_elements()) {
            found.entry(overload.function.clone()).or_default().push(overload);
        }
        found
    })
}

/// An overload from its signature. Signatures are ours: a wrong one is found by the first test that runs.
fn overload(id: &str, signature: &str, call: Implementation) -> Overload {
    let (head, result) = signature.rsplit_once(" -> ").unwrap_or((signature, "dyn"));
    let (receiver, rest) = match head.split_once("::") {
        Some((receiver, rest)) => (Some(receiver), rest),
        None => (None, head),
    };
    let (function, params) = rest.split_once('(').unwrap_or((rest, ")"));
    let params = params.strip_suffix(')').unwrap_or(params);
    let params = receiver.into_iter().chain(split(params)).map(type_of).collect();
    let (function, id) = (function.to_owned(), id.to_owned());
    Overload { function, id, is_member: receiver.is_some(), params, result: type_of(result), call }
}

/// Parameters at the commas that stand in no brackets.
fn split(params: &str) -> Vec<&str> {
    let (mut parts, mut depth, mut start) = (Vec::new(), 0, 0);
    for (index, character) in params.char_indices() {
        match character {
            '(' => depth += 1,
            ')' => depth -= 1,
            ',' if depth == 0 => {
                parts.push(params[start..index].trim());
                start = index + 1;
            }
            _ => {}
        }
    }
    if !params.is_empty() {
        parts.push(params[start..].trim());
    }
    parts
}

fn type_of(text: &str) -> Type {
    if let Some((name, rest)) = text.split_once('(') {
        let mut of = split(rest.strip_suffix(')').unwrap_or(rest)).into_iter().map(type_of);
        let first = of.next().unwrap_or(Type::Dyn);
        return match name {
            "list" => Type::list(first),
            "optional" => Type::optional(first),
            "type" => Type::of_type(first),
            _ => Type::map(first, of.next().unwrap_or(Type::Dyn)),
        };
    }
    match text {
        "bool" => Type::Bool,
        "int" => Type::Int,
        "uint" => Type::Uint,
        "double" => Type::Double,
        "string" => Type::String,
        "bytes" => Type::Bytes,
        "duration" => Type::Duration,
        "timestamp" => Type::Timestamp,
        "ip" => Type::Opaque("net.IP"),
        "cidr" => Type::Opaque("net.CIDR"),
        "quantity" => Type::Opaque("kubernetes.Quantity"),
        "semver" => Type::Opaque("kubernetes.Semver"),
        "url" => Type::Opaque("kubernetes.URL"),
        "format" => Type::Opaque("kubernetes.NamedFormat"),
        "authorizer" => Type::Opaque(authorizer::AUTHORIZER),
        "pathcheck" => Type::Opaque(authorizer::PATH_CHECK),
        "groupcheck" => Type::Opaque(authorizer::GROUP_CHECK),
        "resourcecheck" => Type::Opaque(authorizer::RESOURCE_CHECK),
        "decision" => Type::Opaque(authorizer::DECISION),
        "A" => Type::Param('A'),
        "B" => Type::Param('B'),
        _ => Type::Dyn,
    }
}

impl Overload {
    /// Whether the values are of the types that this overload takes, as far as is seen without looking inside.
    pub fn accepts(&self, args: &[Value]) -> bool {
        self.params.len() == args.len() && self.params.iter().zip(args).all(|(ty, value)| accepts(ty, value))
    }
}

fn accepts(ty: &Type, value: &Value) -> bool {
    match (ty, value) {
        (Type::Dyn | Type::Param(_), _)
        | (Type::Bool, Value::Bool(_))
        | (Type::Int, Value::Int(_))
        | (Type::Uint, Value::Uint(_))
        | (Type::Double, Value::Double(_))
        | (Type::String, Value::String(_))
        | (Type::Bytes, Value::Bytes(_))
        | (Type::Duration, Value::Duration(_))
        | (Type::Timestamp, Value::Timestamp(_))
        | (Type::Map(_), Value::Map(_))
        | (Type::Optional(_), Value::Optional(_))
        | (Type::Type(_), Value::Type(_)) => true,
        // The first element tells lists of different types apart.
        (Type::List(of), Value::List(list)) => list.get(0).is_none_or(|first| accepts(of, &first)),
        (Type::Opaque(name), value) => value.type_name() == *name,
        _ => false,
    }
}

/// For the arms that the checker makes impossible, unless types are known only at run time.
fn mismatch<'a>() -> Evaluated<'a> {
    Err(EvalError::no_such_overload())
}

fn shared_type(name: &str) -> Value<'static> {
    Value::Type(Arc::from(name))
}

/// Whether a value is what its type begins with: zero, empty, none.
fn is_zero(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Bool(value) => !value,
        Value::Int(number) => *number == 0,
        Value::Uint(number) => *number == 0,
        Value::Double(number) => *number == 0.0,
        Value::Duration(nanoseconds) => *nanoseconds == 0,
        Value::Map(Map::Json { entries, .. }) => entries.is_empty(),
        Value::Optional(value) => value.is_none(),
        other => other.size() == Some(0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signatures_are_read_as_they_are_meant() {
        let reverse = &overloads("reverse");
        assert!(reverse.iter().any(|overload| overload.is_member && overload.params == [Type::String]));
        let contains = &overloads("sets.contains")[0];
        assert_eq!(contains.params, [Type::list(Type::Param('A')), Type::list(Type::Param('A'))]);
        assert_eq!(contains.result, Type::Bool);
        let query = &overloads("getQuery")[0];
        assert_eq!(query.result, Type::map(Type::String, Type::list(Type::String)));
    }

    #[test]
    fn identifiers_of_overloads_are_unique() {
        let mut seen = std::collections::HashSet::new();
        for overload in registry().values().flatten() {
            assert!(seen.insert((&overload.function, &overload.id)), "{}", overload.id);
        }
    }
}
