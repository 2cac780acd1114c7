//! Arrays, objects and groups that are made, sorting, and what names and wildcards find.

use std::rc::Rc;
use std::sync::Arc;

use indexmap::IndexMap;

use crate::ast::{Kind, Node};
use crate::error::Error;
use crate::evaluate::Evaluator;
use crate::function::Frame;
use crate::path::frame_of;
use crate::value::{Array, Value};

impl Evaluator {
    pub(crate) fn array(
        &mut self,
        node: &Node,
        items: &[Node],
        input: &Value,
        frame: &Frame,
    ) -> Result<Value, Error> {
        let mut result = Vec::new();
        for item in items {
            let value = self.evaluate(item, input, frame)?;
            match value {
                Value::Undefined => {}
                Value::Array(array) if !matches!(item.kind, Kind::Array(_)) => {
                    self.spend_items(array.items.len())?;
                    result.extend(array.items.iter().cloned());
                }
                value => result.push(value),
            }
        }
        self.spend_items(result.len())?;
        Ok(Value::Array(Rc::new(Array { items: result, cons: node.cons_array, ..Array::default() })))
    }

    /// Objects made of `pairs`, one field for each key that occurs.
    pub(crate) fn group(
        &mut self,
        pairs: &[(Node, Node)],
        input: Value,
        frame: &Frame,
    ) -> Result<Value, Error> {
        let tuples = input.is_tuples();
        let mut items = match &input {
            Value::Array(array) => array.items.clone(),
            Value::Undefined => Vec::new(),
            other => vec![other.clone()],
        };
        if items.is_empty() {
            items.push(Value::Undefined);
        }
        let mut groups: IndexMap<Rc<str>, (Vec<Value>, usize)> = IndexMap::new();
        for item in items {
            let inner = if tuples { frame_of(frame, &item) } else { frame.clone() };
            let context = if tuples { item.field("@") } else { item.clone() };
            for (index, (key_node, _)) in pairs.iter().enumerate() {
                let key = match self.evaluate(key_node, &context, &inner)? {
                    Value::Undefined => continue,
                    Value::String(key) => key,
                    other => {
                        let message = format!(
                            "Key in object structure must evaluate to a string; got: {}",
                            self.show(&other)
                        );
                        return Err(Error::at("T1003", key_node.position, message));
                    }
                };
                self.spend(96 + key.len())?;
                match groups.get_mut(&key) {
                    Some((_, other)) if *other != index => {
                        let message = format!("Multiple key definitions evaluate to same key: \"{key}\"");
                        return Err(Error::at("D1009", key_node.position, message));
                    }
                    Some((data, _)) => data.push(item.clone()),
                    None => {
                        groups.insert(key, (vec![item.clone()], index));
                    }
                }
            }
        }
        let mut fields = IndexMap::with_capacity(groups.len());
        for (key, (data, index)) in groups {
            let value_node = &pairs[index].1;
            let value = if tuples {
                let (context, inner) = reduce_tuples(&data, frame);
                self.evaluate(value_node, &context, &inner)?
            } else {
                let context = appended(data);
                self.evaluate(value_node, &context, frame)?
            };
            if !value.is_undefined() {
                fields.insert(key, value);
            }
        }
        Ok(Value::object(fields))
    }

    pub(crate) fn sort(&mut self, node: &Node, input: &Value, frame: &Frame) -> Result<Value, Error> {
        let Kind::Sort(terms) = &node.kind else { return Ok(Value::Undefined) };
        let tuples = input.is_tuples();
        let items = input.items();
        if items.len() <= 1 && !tuples {
            return self.sequence(items);
        }
        let mut keyed = Vec::with_capacity(items.len());
        for item in items {
            let mut keys = Vec::with_capacity(terms.len());
            for (term, _) in terms {
                let key = if tuples {
                    self.evaluate(term, &item.field("@"), &frame_of(frame, &item))?
                } else {
                    self.evaluate(term, &item, frame)?
                };
                if !matches!(key, Value::Undefined | Value::Number(_) | Value::String(_)) {
                    let message =
                        "The expressions within an order-by clause must evaluate to numeric or string values";
                    return Err(Error::at("T2008", term.position, message));
                }
                keys.push(key);
            }
            keyed.push((keys, item));
        }
        for (at, (term, _)) in terms.iter().enumerate() {
            let mut values = keyed.iter().map(|(keys, _)| &keys[at]).filter(|value| !value.is_undefined());
            let Some(first) = values.next() else { continue };
            let is_number = |value: &Value| matches!(value, Value::Number(_));
            if let Some(other) = values.find(|value| is_number(value) != is_number(first)) {
                let (first, other) = (self.show(first), self.show(other));
                let message =
                    format!("Type mismatch when comparing values {first} and {other} in order-by clause");
                return Err(Error::at("T2007", term.position, message));
            }
        }
        keyed.sort_by(|(a, _), (b, _)| {
            for (at, (_, descending)) in terms.iter().enumerate() {
                use std::cmp::Ordering;
                let order = match (&a[at], &b[at]) {
                    (Value::Undefined, Value::Undefined) => Ordering::Equal,
                    // Nothing comes last in either direction.
                    (Value::Undefined, _) => return Ordering::Greater,
                    (_, Value::Undefined) => return Ordering::Less,
                    (Value::Number(a), Value::Number(b)) => a.partial_cmp(b).unwrap_or(Ordering::Equal),
                    (Value::String(a), Value::String(b)) => a.encode_utf16().cmp(b.encode_utf16()),
                    _ => Ordering::Equal,
                };
                if order != Ordering::Equal {
                    return if *descending { order.reverse() } else { order };
                }
            }
            std::cmp::Ordering::Equal
        });
        let sorted: Vec<Value> = keyed.into_iter().map(|(_, item)| item).collect();
        self.spend_items(sorted.len())?;
        Ok(if tuples { Value::tuples(sorted) } else { Value::sequence(sorted) })
    }

    pub fn lookup(&mut self, input: &Value, name: &str) -> Result<Value, Error> {
        match input {
            Value::Array(array) => {
                let mut found = Vec::new();
                for item in &array.items {
                    self.step()?;
                    match self.lookup(item, name)? {
                        Value::Undefined => {}
                        Value::Array(more) => found.extend(more.items.iter().cloned()),
                        value => found.push(value),
                    }
                }
                self.sequence(found)
            }
            Value::Object(object) => Ok(object.0.get(name).cloned().unwrap_or(Value::Undefined)),
            _ => Ok(Value::Undefined),
        }
    }

    pub(crate) fn wildcard(&mut self, input: &Value) -> Result<Value, Error> {
        let mut found = Vec::new();
        match input {
            Value::Array(array) => array.items.iter().for_each(|item| flatten_into(item, &mut found)),
            Value::Object(object) => object.0.values().for_each(|item| flatten_into(item, &mut found)),
            _ => {}
        }
        self.sequence(found)
    }

    pub(crate) fn descendants(&mut self, input: &Value) -> Result<Value, Error> {
        if input.is_undefined() {
            return Ok(Value::Undefined);
        }
        let mut found = Vec::new();
        self.descend(input, &mut found)?;
        if found.len() == 1 {
            return Ok(found.swap_remove(0));
        }
        self.sequence(found)
    }

    pub(crate) fn descend(&mut self, value: &Value, found: &mut Vec<Value>) -> Result<(), Error> {
        self.step()?;
        stacker::maybe_grow(64 * 1024, 1024 * 1024, || {
            if !matches!(value, Value::Array(_)) {
                found.push(value.clone());
            }
            match value {
                Value::Array(array) => array.items.iter().try_for_each(|item| self.descend(item, found)),
                Value::Object(object) => object.0.values().try_for_each(|item| self.descend(item, found)),
                _ => Ok(()),
            }
        })
    }
}

pub(crate) fn flatten_into(value: &Value, found: &mut Vec<Value>) {
    match value {
        Value::Array(array) => stacker::maybe_grow(64 * 1024, 1024 * 1024, || {
            array.items.iter().for_each(|item| flatten_into(item, found));
        }),
        value => found.push(value.clone()),
    }
}

/// Several items of a group as one value.
pub(crate) fn appended(mut data: Vec<Value>) -> Value {
    if data.len() == 1 {
        return data.swap_remove(0);
    }
    let mut items = Vec::with_capacity(data.len());
    for value in data {
        match value {
            Value::Array(array) => items.extend(array.items.iter().cloned()),
            value => items.push(value),
        }
    }
    Value::sequence(items)
}

pub(crate) fn reduce_tuples(data: &[Value], outer: &Frame) -> (Value, Frame) {
    let mut fields: IndexMap<Rc<str>, Vec<Value>> = IndexMap::new();
    for tuple in data {
        if let Value::Object(object) = tuple {
            for (key, value) in &object.0 {
                fields.entry(key.clone()).or_default().push(value.clone());
            }
        }
    }
    let frame = Frame::new(Some(outer.clone()));
    let mut context = Value::Undefined;
    for (key, values) in fields {
        let value = appended(values);
        if &*key == "@" {
            context = value;
        } else {
            frame.bind(Arc::from(&*key), value);
        }
    }
    (context, frame)
}
