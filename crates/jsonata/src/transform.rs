//! The transform operator: `| pattern | update, delete |` on a copy of its subject.

use std::rc::Rc;

use crate::ast::Transform;
use crate::error::Error;
use crate::evaluate::Evaluator;
use crate::function::Frame;
use crate::value::Value;

pub fn transform(
    evaluator: &mut Evaluator,
    transform: &Transform,
    subject: &Value,
    frame: &Frame,
) -> Result<Value, Error> {
    if subject.is_undefined() {
        return Ok(Value::Undefined);
    }
    if !matches!(subject, Value::Object(_) | Value::Array(_)) {
        return Err(Error::new("T0410", "Argument 1 of a transform must be an object or an array"));
    }
    let matches = evaluator.evaluate(&transform.pattern, subject, frame)?;
    let mut changes = Vec::new();
    for found in matches.items() {
        let update = evaluator.evaluate(&transform.update, &found, frame)?;
        let updated = match update {
            Value::Undefined => None,
            Value::Object(update) => Some(update),
            other => {
                let message = format!(
                    "The insert/update clause of the transform expression must evaluate to an object: {}",
                    evaluator.show(&other)
                );
                return Err(Error::new("T2011", message));
            }
        };
        let mut deleted = Vec::new();
        if let Some(delete) = &transform.delete {
            match evaluator.evaluate(delete, &found, frame)? {
                Value::Undefined => {}
                Value::String(name) => deleted.push(name),
                Value::Array(names) if names.items.iter().all(|name| matches!(name, Value::String(_))) => {
                    deleted.extend(names.items.iter().filter_map(|name| name.as_text().cloned()));
                }
                other => {
                    let message = format!(
                        "The delete clause of the transform expression must evaluate to a string or array of strings: {}",
                        evaluator.show(&other)
                    );
                    return Err(Error::new("T2012", message));
                }
            }
        }
        if let Value::Object(object) = &found {
            changes.push((Rc::as_ptr(object), updated, deleted));
        }
    }
    rebuild(evaluator, subject, &changes)
}

type Change = (*const crate::value::Object, Option<Rc<crate::value::Object>>, Vec<Rc<str>>);

/// A copy in which the objects that matched, known by where they are, are changed.
fn rebuild(evaluator: &mut Evaluator, value: &Value, changes: &[Change]) -> Result<Value, Error> {
    evaluator.step()?;
    stacker::maybe_grow(64 * 1024, 1024 * 1024, || match value {
        Value::Array(array) => {
            evaluator.spend_items(array.items.len())?;
            let items =
                array.items.iter().map(|item| rebuild(evaluator, item, changes)).collect::<Result<_, _>>()?;
            let mut copy = crate::value::Array::clone(array);
            copy.items = items;
            Ok(Value::Array(Rc::new(copy)))
        }
        Value::Object(object) => {
            evaluator.spend(object.0.len() * 64)?;
            let mut fields = indexmap::IndexMap::with_capacity(object.0.len());
            for (key, field) in &object.0 {
                fields.insert(key.clone(), rebuild(evaluator, field, changes)?);
            }
            for (_, updated, deleted) in changes.iter().filter(|(found, ..)| *found == Rc::as_ptr(object)) {
                if let Some(updated) = updated {
                    fields.extend(updated.0.iter().map(|(key, value)| (key.clone(), value.clone())));
                }
                for name in deleted {
                    fields.shift_remove(name);
                }
            }
            Ok(Value::object(fields))
        }
        value => Ok(value.clone()),
    })
}
