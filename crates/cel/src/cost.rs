//! What an evaluation costs, in upstream's units, and the budget it is paid from.
//!
//! A unit is about what a comparison takes. Long strings and lists cost by their size, so that a budget bounds the
//! time, and a tenth of a unit is the cost of passing one character.

use crate::error::EvalError;
use crate::library::Overload;
use crate::value::Value;

/// What one expression may cost when it runs.
pub const PER_CALL_LIMIT: u64 = 1_000_000;
/// What all rules of one object may cost together when they run.
pub const PER_OBJECT_LIMIT: u64 = 10_000_000;

pub const CREATE_LIST: u64 = 10;
pub const CREATE_MAP: u64 = 30;
pub const CREATE_OBJECT: u64 = 40;
/// Of a unit, for one character.
pub const PER_CHARACTER: f64 = 0.1;
/// Of a unit, for one character of a pattern: four of them are taken for a step.
pub const PER_PATTERN_CHARACTER: f64 = 0.25;
/// Two checks for an expression, not more.
pub const AUTHORIZATION_CHECK: u64 = 350_000;

/// What an evaluation may cost, and what it has cost so far.
#[derive(Debug, Clone, Copy)]
pub struct Budget {
    limit: u64,
    spent: u64,
}

impl Budget {
    pub fn new(limit: u64) -> Self {
        Budget { limit, spent: 0 }
    }

    pub fn spent(&self) -> u64 {
        self.spent
    }

    pub fn charge(&mut self, cost: u64) -> Result<(), EvalError> {
        self.spent = self.spent.saturating_add(cost);
        if self.spent > self.limit { Err(EvalError::CostLimit) } else { Ok(()) }
    }
}

impl Default for Budget {
    fn default() -> Self {
        Budget::new(PER_CALL_LIMIT)
    }
}

/// How the cost of a call is counted.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Charge {
    Fixed(u64),
    /// Each character of the first argument, so many times.
    Scan(f64),
    /// Each character of the second argument.
    ScanPart,
    /// Each character of the result, twice.
    ScanResult,
    /// Each element of the second argument.
    Elements,
    /// The shorter of two.
    Shorter,
    /// Both of two.
    Both,
    /// The text times the pattern.
    Pattern,
    /// The text times the part.
    Part,
    /// Everything inside the first argument.
    Traverse,
    Selector,
    Network {
        masked: bool,
        text: bool,
    },
    NamedFormat,
    /// The length of the resulting list.
    List,
    Flatten,
    /// Each element with each other.
    SelfCompare,
    /// Each element of one with each of the other, so many times.
    Product(u64),
}

impl Charge {
    /// For a call with these overloads; where only the values decide, by the name alone.
    pub fn of(function: &str, overloads: &[&Overload]) -> Charge {
        let id = match overloads {
            [one] => one.id.as_str(),
            _ => "",
        };
        of_library(function, id).unwrap_or_else(|| of_standard(id))
    }

    pub fn amount(self, args: &[Value], result: &Value) -> u64 {
        let size = |index: usize| args.get(index).map_or(1, actual_size);
        match self {
            Charge::Fixed(cost) => cost,
            Charge::Scan(factor) => scaled(size(0), factor * PER_CHARACTER),
            Charge::ScanPart => scaled(size(1), PER_CHARACTER),
            Charge::ScanResult => scaled(actual_size(result), 2.0 * PER_CHARACTER),
            Charge::Elements => size(1),
            Charge::Shorter => scaled(size(0).min(size(1)), PER_CHARACTER),
            Charge::Both => scaled(size(0) + size(1), PER_CHARACTER),
            Charge::Pattern => pattern(size(0), size(1)),
            Charge::Part => scaled(size(0), PER_CHARACTER) * scaled(size(1), PER_CHARACTER),
            Charge::Traverse => args.first().map_or(0, traversal),
            Charge::Selector => {
                let requirements = scaled(size(1), 0.5);
                CREATE_LIST + scaled(size(1), PER_CHARACTER) + requirements * (CREATE_LIST + CREATE_OBJECT)
            }
            Charge::Network { masked, text } => {
                let compared = scaled(2 * size(0), PER_CHARACTER);
                let mask = if masked { scaled(size(0), PER_CHARACTER) + 1 } else { 0 };
                compared + mask + if text { scaled(size(1), PER_CHARACTER) } else { 0 }
            }
            Charge::NamedFormat => match args.first() {
                Some(Value::Format(format)) => pattern(size(1), format.pattern_size()),
                _ => 1,
            },
            Charge::List => actual_size(result) + 1 + CREATE_LIST,
            Charge::Flatten => {
                let depth = match args.get(1) {
                    Some(Value::Int(depth)) => depth.unsigned_abs(),
                    _ => 1,
                };
                size(0).saturating_mul(depth) + 1 + CREATE_LIST
            }
            Charge::SelfCompare => self_compare(args.first()),
            Charge::Product(factor) => 1 + size(0).saturating_mul(size(1)).saturating_mul(factor),
        }
    }
}

/// For a sort by keys, and what compares as much.
pub fn self_compare(list: Option<&Value>) -> u64 {
    let Some(Value::List(list)) = list else { return 1 + CREATE_LIST };
    let is_long = matches!(list.get(0), Some(Value::String(_) | Value::Bytes(_)));
    let factor = if is_long { 2.0 + PER_CHARACTER } else { 2.0 };
    let size = list.len() as u64;
    (size.saturating_mul(size) as f64 * factor) as u64 + 1 + CREATE_LIST
}

fn of_library(function: &str, id: &str) -> Option<Charge> {
    Some(match function {
        "check" => Charge::Fixed(AUTHORIZATION_CHECK),
        "serviceAccount" | "path" | "group" | "resource" | "subresource" | "namespace" | "name"
        | "allowed" | "reason" | "error" | "errored" => Charge::Fixed(1),
        "fieldSelector" | "labelSelector" => Charge::Selector,
        "isSorted" | "sum" | "max" | "min" | "indexOf" | "lastIndexOf" | "includes" => Charge::Traverse,
        "url"
        | "lowerAscii"
        | "upperAscii"
        | "substring"
        | "trim"
        | "jsonpatch.escapeKey"
        | "cidr"
        | "isIP"
        | "isCIDR"
        | "quantity"
        | "isQuantity"
        | "semver"
        | "isSemver" => Charge::Scan(1.0),
        "replace" | "split" | "ip.isCanonical" => Charge::Scan(2.0),
        "join" => Charge::ScanResult,
        "find" | "findAll" => Charge::Pattern,
        "ip" if id == "cidr_ip" => Charge::Fixed(1),
        "ip" => Charge::Scan(1.0),
        "containsIP" => Charge::Network { masked: false, text: id == "cidr_contains_ip_string" },
        "containsCIDR" => Charge::Network { masked: true, text: id == "cidr_contains_cidr_string" },
        "validate" => Charge::NamedFormat,
        "sort" | "distinct" => Charge::SelfCompare,
        "slice" | "lists.range" => Charge::List,
        "reverse" if id == "list_reverse" => Charge::List,
        "flatten" => Charge::Flatten,
        "sets.contains" | "sets.intersects" => Charge::Product(1),
        "sets.equivalent" => Charge::Product(2),
        _ => return None,
    })
}

fn of_standard(id: &str) -> Charge {
    match id {
        "starts_with_string" | "ends_with_string" => Charge::ScanPart,
        "string_to_bytes" | "bytes_to_string" | "strings_quote" | "string_format" => Charge::Scan(1.0),
        "in_list" => Charge::Elements,
        "equals"
        | "not_equals"
        | "less_string"
        | "less_equals_string"
        | "greater_string"
        | "greater_equals_string"
        | "less_bytes"
        | "less_equals_bytes"
        | "greater_bytes"
        | "greater_equals_bytes" => Charge::Shorter,
        "add_string" | "add_bytes" => Charge::Both,
        "matches_string" | "matches" => Charge::Pattern,
        "contains_string" => Charge::Part,
        _ => Charge::Fixed(1),
    }
}

/// The pattern is taken to be a step for every four of its characters, each of which sees the whole text.
fn pattern(text: u64, pattern: u64) -> u64 {
    scaled(text + 1, PER_CHARACTER) * scaled(pattern, PER_PATTERN_CHARACTER)
}

fn scaled(size: u64, factor: f64) -> u64 {
    (size as f64 * factor).ceil() as u64
}

fn actual_size(value: &Value) -> u64 {
    match value {
        Value::Optional(Some(value)) => actual_size(value),
        other => other.size().unwrap_or(1),
    }
}

fn traversal(value: &Value) -> u64 {
    match value {
        Value::String(text) => (text.len() as f64 * PER_CHARACTER) as u64,
        Value::Bytes(bytes) => (bytes.len() as f64 * PER_CHARACTER) as u64,
        Value::List(list) => list.iter().map(|value| traversal(&value)).sum(),
        Value::Map(map) => map.iter().map(|(key, value)| traversal(&key) + traversal(&value)).sum(),
        _ => 1,
    }
}
