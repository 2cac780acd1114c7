//! What matchers give: patterns, and functions that behave as one.

use std::rc::Rc;
use std::sync::Arc;

use indexmap::IndexMap;

use crate::error::Error;
use crate::evaluate::Evaluator;
use crate::function::Function;
use crate::value::Value;

/// One match.
pub struct Match {
    pub text: Rc<str>,
    /// In UTF-16 units, as JavaScript counts.
    pub start: usize,
    pub end: usize,
    pub groups: Vec<Value>,
}

/// `{match, start, end, groups, next}`, or nothing.
pub fn match_object(
    evaluator: &mut Evaluator,
    regex: &Arc<regex::Regex>,
    text: &Rc<str>,
    from: usize,
    units: usize,
) -> Result<Value, Error> {
    evaluator.step()?;
    let Some(found) = (from <= text.len()).then(|| regex.captures_at(text, from)).flatten() else {
        return Ok(Value::Undefined);
    };
    let Some(whole) = found.get(0) else { return Ok(Value::Undefined) };
    if whole.is_empty() {
        return Err(Error::new("D1004", "Regular expression matches zero length string"));
    }
    evaluator.spend(whole.len() + 256)?;
    // Counted on from the match before: from the beginning each time would take the square of the length.
    let start = units + text[from..whole.start()].encode_utf16().count();
    let end = start + whole.as_str().encode_utf16().count();
    let groups = found
        .iter()
        .skip(1)
        .map(|group| group.map_or(Value::text(""), |group| Value::text(group.as_str())))
        .collect();
    let next =
        Function::NextMatch { regex: regex.clone(), text: text.clone(), from: whole.end(), units: end };
    Ok(Value::object(IndexMap::from([
        (Rc::from("match"), Value::text(whole.as_str())),
        (Rc::from("start"), Value::Number(start as f64)),
        (Rc::from("end"), Value::Number(end as f64)),
        (Rc::from("groups"), Value::array(groups)),
        (Rc::from("next"), Value::Function(Rc::new(next))),
    ])))
}

/// Up to `most` matches of a matcher in a text.
pub fn matches(
    evaluator: &mut Evaluator,
    matcher: &Value,
    text: &Rc<str>,
    most: usize,
    name: &str,
) -> Result<Vec<Match>, Error> {
    let refused = || {
        let message = format!(
            "The matcher function argument passed to function {name:?} does not return the correct object structure"
        );
        Error::new("T1010", message)
    };
    if !matcher.is_function() {
        return Err(refused());
    }
    let mut found = Vec::new();
    let mut result = evaluator.apply(matcher, vec![Value::String(text.clone())], &Value::Undefined, None)?;
    while found.len() < most && !result.is_undefined() {
        let Value::Object(_) = &result else { return Err(refused()) };
        let (Some(start), Some(end)) = (result.field("start").as_number(), result.field("end").as_number())
        else {
            return Err(refused());
        };
        let Value::String(matched) = result.field("match") else { return Err(refused()) };
        let next = result.field("next");
        if !next.is_function() {
            return Err(refused());
        }
        found.push(Match {
            text: matched,
            start: start.max(0.0) as usize,
            end: end.max(0.0) as usize,
            groups: result.field("groups").items(),
        });
        result = evaluator.apply(&next, Vec::new(), &Value::Undefined, None)?;
    }
    Ok(found)
}

/// Finds bytes at UTF-16 offsets that grow.
pub struct Cursor<'a> {
    text: &'a str,
    byte: usize,
    units: usize,
}

impl<'a> Cursor<'a> {
    pub fn new(text: &'a str) -> Self {
        Self { text, byte: 0, units: 0 }
    }

    pub fn byte_at(&mut self, units: usize) -> usize {
        if units < self.units {
            *self = Self::new(self.text);
        }
        for character in self.text[self.byte..].chars() {
            if self.units >= units {
                break;
            }
            self.byte += character.len_utf8();
            self.units += character.len_utf16();
        }
        self.byte
    }
}
