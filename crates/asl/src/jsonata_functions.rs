//! Functions that AWS adds to JSONata: what intrinsic functions do in JSONPath and JSONata has not.

use minik8s_jsonata::HostFunction;
use serde_json::Value;

use crate::intrinsic;
use crate::random::Random;

/// Name and function.
pub const ALL: &[(&str, HostFunction)] = &[
    ("partition", partition),
    ("range", range),
    ("hash", hash),
    ("random", random),
    ("uuid", uuid),
    ("parse", parse),
    ("eval", eval),
];

type Answer = Result<Option<Value>, String>;

fn partition(arguments: &[Option<Value>], _: u64) -> Answer {
    let [items, size] = given(arguments, "partition")?;
    let items = if items.is_array() { items } else { Value::Array(vec![items]) };
    intrinsic::partition(&items, &size).map(Some)
}

fn range(arguments: &[Option<Value>], _: u64) -> Answer {
    let [first, last, step] = given(arguments, "range")?;
    // A sequence of one is its item.
    Ok(match intrinsic::range(&first, &last, &step)? {
        Value::Array(mut items) if items.len() == 1 => items.pop(),
        Value::Array(items) if items.is_empty() => None,
        items => Some(items),
    })
}

fn hash(arguments: &[Option<Value>], _: u64) -> Answer {
    let [data, algorithm] = given(arguments, "hash")?;
    intrinsic::hash(&data, &algorithm).map(Some)
}

fn random(arguments: &[Option<Value>], seed: u64) -> Answer {
    let seed = match arguments.first() {
        Some(Some(given)) => given.as_f64().ok_or("$random takes a number as its seed")? as u64,
        _ => seed,
    };
    Ok(Some(Random::new(seed).fraction().into()))
}

fn uuid(_: &[Option<Value>], seed: u64) -> Answer {
    Ok(Some(Random::new(seed).uuid().into()))
}

fn parse(arguments: &[Option<Value>], _: u64) -> Answer {
    let [text] = given(arguments, "parse")?;
    let text = text.as_str().ok_or("$parse takes a string")?;
    serde_json::from_str(text).map(Some).map_err(|error| format!("$parse: the text is not JSON: {error}"))
}

fn eval(_: &[Option<Value>], _: u64) -> Answer {
    Err("$eval is not supported; use $parse to read JSON".into())
}

fn given<const N: usize>(arguments: &[Option<Value>], name: &str) -> Result<[Value; N], String> {
    let values: Option<Vec<Value>> = arguments.iter().cloned().collect();
    values
        .and_then(|values| values.try_into().ok())
        .ok_or_else(|| format!("${name} takes {N} argument{}", if N == 1 { "" } else { "s" }))
}
