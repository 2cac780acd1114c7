//! Functions that AWS adds to JSONata: what intrinsic functions do in JSONPath and JSONata has not.
//!
//! Numbers are cut towards zero, and where there is nothing to give the answer is undefined rather than an error, as on
//! AWS.

use minik8s_jsonata::{Error, HostFunction};
use serde_json::Value;

use crate::intrinsic;
use crate::random::{Random, java_double};

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

/// How many items AWS makes of a range.
const LONGEST_RANGE: i128 = 360_145;

type Answer = Result<Option<Value>, Error>;

fn partition(arguments: &[Option<Value>], _: u64) -> Answer {
    let call = Call::new("partition", arguments, 2)?;
    let items = match call.value(0) {
        None => return Ok(None),
        Some(Value::Array(items)) => items.clone(),
        Some(Value::Null) => {
            return Err(Error::new("T0412", "Argument 1 of function \"partition\" must be an array"));
        }
        Some(single) => vec![single.clone()],
    };
    let size = match call.number(1)? {
        None => items.len(),
        Some(size) if size < 0 => {
            return Err(Error::new("D3137", "Second argument must be zero or greater"));
        }
        Some(size) => usize::try_from(size).unwrap_or(usize::MAX),
    };
    if items.is_empty() || size == 0 {
        return Ok(None);
    }
    Ok(Some(items.chunks(size).map(|chunk| Value::Array(chunk.to_vec())).collect()))
}

fn range(arguments: &[Option<Value>], _: u64) -> Answer {
    let call = Call::new("range", arguments, 3)?;
    let (Some(first), Some(last)) = (call.number(0)?, call.number(1)?) else {
        return Err(call.mismatch(if call.value(0).is_some() { 1 } else { 0 }));
    };
    let Some(step) = call.number(2)?.filter(|step| *step != 0) else { return Ok(None) };
    let (first, step, span) = (i128::from(first), i128::from(step), i128::from(last) - i128::from(first));
    let count = if span.signum() * step.signum() < 0 { 0 } else { span / step + 1 };
    if count > LONGEST_RANGE {
        let message = "Expression evaluation memory limit exceeded: Check for excessive memory usage";
        return Err(Error::new("U1002", message));
    }
    let mut items = (0..count).map(|at| Value::from((first + at * step) as i64));
    // A sequence of one is its item.
    Ok(match count {
        0 => None,
        1 => items.next(),
        _ => Some(items.collect()),
    })
}

fn hash(arguments: &[Option<Value>], _: u64) -> Answer {
    let call = Call::new("hash", arguments, 2)?;
    let (Some(_), Some(_)) = (call.text(0)?, call.text(1)?) else { return Ok(None) };
    match (call.value(0), call.value(1)) {
        (Some(data), Some(algorithm)) => {
            intrinsic::hash(data, algorithm).map(Some).map_err(|reason| Error::new("D3137", reason))
        }
        _ => Ok(None),
    }
}

fn random(arguments: &[Option<Value>], seed: u64) -> Answer {
    let call = Call::new("random", arguments, 1)?;
    Ok(Some(match call.number(0)? {
        Some(seed) => java_double(seed).into(),
        None => Random::new(seed).fraction().into(),
    }))
}

fn uuid(arguments: &[Option<Value>], seed: u64) -> Answer {
    Call::new("uuid", arguments, 0)?;
    Ok(Some(Random::new(seed).uuid().into()))
}

fn parse(arguments: &[Option<Value>], _: u64) -> Answer {
    let call = Call::new("parse", arguments, 1)?;
    let Some(text) = call.text(0)? else { return Ok(None) };
    serde_json::from_str(text)
        .map(Some)
        .map_err(|error| Error::new("D3137", format!("Invalid JSON: {error}")))
}

/// AWS has no `$eval`.
fn eval(_: &[Option<Value>], _: u64) -> Answer {
    Err(Error::new("T1006", "Attempted to invoke a non-function"))
}

/// A call's arguments, read as what they have to be.
struct Call<'a> {
    name: &'static str,
    arguments: &'a [Option<Value>],
}

impl<'a> Call<'a> {
    fn new(name: &'static str, arguments: &'a [Option<Value>], most: usize) -> Result<Self, Error> {
        let call = Self { name, arguments };
        if arguments.len() > most { Err(call.mismatch(most)) } else { Ok(call) }
    }

    fn mismatch(&self, at: usize) -> Error {
        let message =
            format!("Argument {} of function \"{}\" does not match function signature", at + 1, self.name);
        Error::new("T0410", message)
    }

    fn value(&self, at: usize) -> Option<&'a Value> {
        self.arguments.get(at).and_then(Option::as_ref)
    }

    fn number(&self, at: usize) -> Result<Option<i64>, Error> {
        let Some(value) = self.value(at) else { return Ok(None) };
        let whole = value.as_i64().or_else(|| value.as_f64().map(|float| float as i64));
        whole.map(Some).ok_or_else(|| self.mismatch(at))
    }

    fn text(&self, at: usize) -> Result<Option<&'a str>, Error> {
        self.value(at).map(|value| value.as_str().ok_or_else(|| self.mismatch(at))).transpose()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn partition_and_range_are_undefined_where_there_is_nothing() {
        let call = |function: HostFunction, arguments: Value| {
            let arguments: Vec<Option<Value>> =
                arguments.as_array().unwrap().iter().cloned().map(Some).collect();
            function(&arguments, 1).map_err(|error| error.code)
        };
        for (arguments, expected) in [
            (json!([[1, 2, 3, 4, 5], 2.9]), Ok(Some(json!([[1, 2], [3, 4], [5]])))),
            (json!([[1, 2, 3]]), Ok(Some(json!([[1, 2, 3]])))),
            (json!([[1], 3]), Ok(Some(json!([[1]])))),
            (json!([[], 2]), Ok(None)),
            (json!([[1, 2], 0]), Ok(None)),
            (json!([[1, 2], -0.5]), Ok(None)),
            (json!([[1, 2], -1]), Err("D3137".to_owned())),
            (json!([null, 2]), Err("T0412".to_owned())),
            (json!([[1], "x"]), Err("T0410".to_owned())),
            (json!([[1], 1, 1]), Err("T0410".to_owned())),
        ] {
            assert_eq!(call(partition, arguments.clone()), expected, "$partition{arguments}");
        }
        for (arguments, expected) in [
            (json!([0, 10, 2]), Ok(Some(json!([0, 2, 4, 6, 8, 10])))),
            (json!([10, 0, -5]), Ok(Some(json!([10, 5, 0])))),
            (json!([-1.7, 2, 1]), Ok(Some(json!([-1, 0, 1, 2])))),
            (json!([3, 3, 1]), Ok(Some(json!(3)))),
            (json!([5, 1, 1]), Ok(None)),
            (json!([1, 5, 0]), Ok(None)),
            (json!([1, 5]), Ok(None)),
            (json!([1]), Err("T0410".to_owned())),
            (json!([1, 1e9, 1]), Err("U1002".to_owned())),
        ] {
            assert_eq!(call(range, arguments.clone()), expected, "$range{arguments}");
        }
        assert_eq!(call(hash, json!(["a"])), Ok(None));
        assert_eq!(call(hash, json!(["a", "md5"])), Err("D3137".to_owned()));
        assert_eq!(call(hash, json!([42, "MD5"])), Err("T0410".to_owned()));
        assert_eq!(call(parse, json!(["x"])), Err("D3137".to_owned()));
        assert_eq!(call(parse, json!([null])), Err("T0410".to_owned()));
        assert_eq!(call(random, json!([42])), Ok(Some(json!(0.727_563_680_032_868_1))));
    }
}
