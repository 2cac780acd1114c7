//! Walking a value along a path's segments.

use serde_json::Value;

use super::{Missing, Segment};

/// What `segments` give below `value`; filters may look at `root`.
pub(super) fn find(segments: &[Segment], value: &Value, root: &Value) -> Result<Value, Missing> {
    let definite = segments.iter().take_while(|segment| segment.is_definite()).count();
    let mut here = value;
    let mut shown = String::from("$");
    for (at, segment) in segments[..definite].iter().enumerate() {
        match step(segment, here, &mut shown, at + 1 == segments.len()) {
            Ok(next) => here = next,
            // An indefinite path over nothing is an empty list.
            Err(_) if definite < segments.len() => return Ok(Value::Array(Vec::new())),
            Err(missing) => return Err(missing),
        }
    }
    if definite == segments.len() {
        return Ok(here.clone());
    }
    let mut found = vec![here];
    for segment in &segments[definite..] {
        let mut next = Vec::new();
        for value in found {
            spread(segment, value, root, &mut next);
        }
        found = next;
    }
    Ok(Value::Array(found.into_iter().cloned().collect()))
}

fn step<'a>(
    segment: &Segment,
    value: &'a Value,
    shown: &mut String,
    last: bool,
) -> Result<&'a Value, Missing> {
    match segment {
        Segment::Child(name) => {
            let Value::Object(object) = value else {
                return Err(Missing(format!(
                    "Expected to find an object with property ['{name}'] in path {shown} but found '{}'. This is \
                     not a json object according to the JsonProvider: \
                     'com.jayway.jsonpath.spi.json.JacksonJsonNodeJsonProvider'.",
                    node_class(value)
                )));
            };
            shown.push_str(&format!("['{name}']"));
            object.get(name).ok_or_else(|| {
                let reason = if last { "No results for path:" } else { "Missing property in path" };
                Missing(format!("{reason} {shown}"))
            })
        }
        Segment::Index(_) | Segment::FromEnd(_) => {
            let written = match segment {
                Segment::Index(index) => index.to_string(),
                Segment::FromEnd(back) => format!("(@.length-{back})"),
                _ => String::new(),
            };
            let Value::Array(items) = value else {
                return Err(Missing(format!(
                    "Filter: [{written}] can only be applied to arrays. Current context is: {value}"
                )));
            };
            shown.push_str(&format!("[{written}]"));
            let index = match segment {
                Segment::Index(index) => *index,
                Segment::FromEnd(back) => -back,
                _ => 0,
            };
            position(index, items.len())
                .map(|at| &items[at])
                .ok_or_else(|| Missing(format!("Index out of bounds when evaluating path {shown}")))
        }
        _ => Ok(value),
    }
}

/// Everything an indefinite segment gives; what does not fit is left out.
fn spread<'a>(segment: &Segment, value: &'a Value, root: &Value, found: &mut Vec<&'a Value>) {
    match (segment, value) {
        (Segment::Child(name), Value::Object(object)) => found.extend(object.get(name)),
        (Segment::Children(names), Value::Object(object)) => {
            found.extend(names.iter().filter_map(|name| object.get(name)));
        }
        (Segment::Index(index), Value::Array(items)) => {
            found.extend(position(*index, items.len()).map(|at| &items[at]));
        }
        (Segment::FromEnd(back), Value::Array(items)) => {
            found.extend(position(-back, items.len()).map(|at| &items[at]));
        }
        (Segment::Indexes(indexes), Value::Array(items)) => {
            found.extend(
                indexes.iter().filter_map(|index| position(*index, items.len())).map(|at| &items[at]),
            );
        }
        (Segment::Slice { from, to, step }, Value::Array(items)) => slice(items, *from, *to, *step, found),
        (Segment::Wildcard, Value::Array(items)) => found.extend(items),
        (Segment::Wildcard, Value::Object(object)) => found.extend(object.values()),
        (Segment::Filter(filter), Value::Array(items)) => {
            found.extend(items.iter().filter(|item| filter.accepts(item, root)));
        }
        (Segment::Filter(filter), Value::Object(_)) if filter.accepts(value, root) => found.push(value),
        (Segment::Descent(inner), _) => descend(inner, value, root, found),
        _ => {}
    }
}

fn descend<'a>(inner: &Segment, value: &'a Value, root: &Value, found: &mut Vec<&'a Value>) {
    spread(inner, value, root, found);
    match value {
        Value::Array(items) => items.iter().for_each(|item| descend(inner, item, root, found)),
        Value::Object(object) => object.values().for_each(|item| descend(inner, item, root, found)),
        _ => {}
    }
}

fn slice<'a>(items: &'a [Value], from: Option<i64>, to: Option<i64>, step: i64, found: &mut Vec<&'a Value>) {
    let length = items.len() as i64;
    let clamp = |at: i64| if at < 0 { (at + length).max(0) } else { at.min(length) };
    let (from, to) = (clamp(from.unwrap_or(0)), clamp(to.unwrap_or(length)));
    let mut at = from;
    while at < to {
        found.push(&items[at as usize]);
        at += step.max(1);
    }
}

fn position(index: i64, length: usize) -> Option<usize> {
    let at = if index < 0 { index + length as i64 } else { index };
    usize::try_from(at).ok().filter(|at| *at < length)
}

/// Jackson's name for the kind of node, which messages quote.
fn node_class(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "com.fasterxml.jackson.databind.node.BooleanNode",
        Value::Number(number) if number.is_f64() => "com.fasterxml.jackson.databind.node.DoubleNode",
        Value::Number(_) => "com.fasterxml.jackson.databind.node.IntNode",
        Value::String(_) => "com.fasterxml.jackson.databind.node.TextNode",
        Value::Array(_) => "com.fasterxml.jackson.databind.node.ArrayNode",
        Value::Object(_) => "com.fasterxml.jackson.databind.node.ObjectNode",
    }
}
