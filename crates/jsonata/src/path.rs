//! Paths: steps over items, tuples of bindings, filters.

use std::rc::Rc;
use std::sync::Arc;

use indexmap::IndexMap;

use crate::ast::{Group, Kind, Node, Stage};
use crate::error::Error;
use crate::evaluate::Evaluator;
use crate::function::Frame;
use crate::value::{Array, Value};

impl Evaluator {
    pub(crate) fn path(
        &mut self,
        node: &Node,
        steps: &[Node],
        input: &Value,
        frame: &Frame,
    ) -> Result<Value, Error> {
        let mut items = match input {
            Value::Array(_) if !matches!(steps[0].kind, Kind::Variable(_)) => input.clone(),
            input => Value::sequence(vec![input.clone()]),
        };
        let mut result = Value::Undefined;
        let mut tuples: Option<Vec<Value>> = None;
        let mut is_tuples = false;
        for (at, step) in steps.iter().enumerate() {
            is_tuples |= step.tuple;
            if at == 0 && step.cons_array {
                result = self.evaluate(step, &items, frame)?;
            } else if is_tuples {
                tuples = Some(self.tuple_step(step, &items, tuples, frame)?);
            } else {
                result = self.path_step(step, &items, frame, at + 1 == steps.len())?;
            }
            let empty = match &result {
                Value::Undefined => true,
                Value::Array(array) => array.items.is_empty(),
                _ => false,
            };
            if !is_tuples && empty {
                break;
            }
            if step.focus.is_none() {
                items = result.clone();
            }
        }
        if is_tuples {
            let all = tuples.clone().unwrap_or_default();
            result = if node.tuple {
                Value::tuples(all)
            } else {
                let values = all.iter().map(|tuple| tuple.field("@")).collect();
                self.sequence(values)?
            };
        }
        if node.keep_singleton {
            result = match result {
                Value::Array(array) if array.cons && !array.sequence => {
                    let wrapped = Value::Array(array);
                    Value::Array(Rc::new(Array {
                        items: vec![wrapped],
                        sequence: true,
                        keep_singleton: true,
                        ..Array::default()
                    }))
                }
                Value::Array(array) => {
                    let mut array = Rc::unwrap_or_clone(array);
                    array.keep_singleton = true;
                    Value::Array(Rc::new(array))
                }
                other => other,
            };
        }
        if let Some(group) = &node.group {
            let Group { pairs } = &**group;
            let grouped = if is_tuples { Value::tuples(tuples.unwrap_or_default()) } else { result };
            return self.group(pairs, grouped, frame);
        }
        Ok(result)
    }

    pub(crate) fn path_step(
        &mut self,
        step: &Node,
        items: &Value,
        frame: &Frame,
        last: bool,
    ) -> Result<Value, Error> {
        if matches!(step.kind, Kind::Sort(_)) {
            let sorted = self.sort(step, items, frame)?;
            return self.stages(&step.stages, sorted, frame);
        }
        let single;
        let inputs: &[Value] = match items {
            Value::Array(array) => &array.items,
            other => {
                single = [other.clone()];
                &single
            }
        };
        let mut results = Vec::with_capacity(inputs.len());
        for input in inputs {
            let mut result = self.evaluate(step, input, frame)?;
            for stage in &step.stages {
                if let Stage::Filter(filter) = stage {
                    result = self.filter(filter, &result, frame)?;
                }
            }
            if !result.is_undefined() {
                results.push(result);
            }
        }
        if last
            && let [Value::Array(array)] = &results[..]
            && !array.sequence
        {
            return Ok(results.swap_remove(0));
        }
        let mut flat = Vec::with_capacity(results.len());
        for result in results {
            match result {
                Value::Array(array) if !array.cons => {
                    self.spend_items(array.items.len())?;
                    flat.extend(array.items.iter().cloned());
                }
                result => flat.push(result),
            }
        }
        self.sequence(flat)
    }

    pub(crate) fn stages(
        &mut self,
        stages: &[Stage],
        mut result: Value,
        frame: &Frame,
    ) -> Result<Value, Error> {
        for stage in stages {
            match stage {
                Stage::Filter(filter) => result = self.filter(filter, &result, frame)?,
                Stage::Index(name) => {
                    let tuples = result.items();
                    self.spend_items(tuples.len() * 4)?;
                    let numbered = tuples
                        .into_iter()
                        .enumerate()
                        .map(|(at, tuple)| with_field(&tuple, name, Value::Number(at as f64)));
                    result = Value::tuples(numbered.collect());
                }
            }
        }
        Ok(result)
    }

    pub(crate) fn tuple_step(
        &mut self,
        step: &Node,
        items: &Value,
        tuples: Option<Vec<Value>>,
        frame: &Frame,
    ) -> Result<Vec<Value>, Error> {
        if matches!(step.kind, Kind::Sort(_)) {
            let sorted = match tuples {
                Some(tuples) => self.sort(step, &Value::tuples(tuples), frame)?,
                None => {
                    let sorted = self.sort(step, items, frame)?.items();
                    let numbered = sorted.into_iter().enumerate().map(|(at, value)| {
                        let tuple = tuple_of(value);
                        match &step.index {
                            Some(name) => with_field(&tuple, name, Value::Number(at as f64)),
                            None => tuple,
                        }
                    });
                    Value::tuples(numbered.collect())
                }
            };
            return Ok(self.stages(&step.stages, sorted, frame)?.items());
        }
        let tuples = tuples.unwrap_or_else(|| items.items().into_iter().map(tuple_of).collect());
        let mut results = Vec::new();
        for tuple in &tuples {
            let inner = frame_of(frame, tuple);
            let context = tuple.field("@");
            let result = self.evaluate(step, &context, &inner)?;
            if result.is_undefined() {
                continue;
            }
            let carries = result.is_tuples();
            for (at, value) in result.items().into_iter().enumerate() {
                self.spend(160)?;
                let Value::Object(object) = tuple else { continue };
                let mut fields = object.0.clone();
                if carries {
                    if let Value::Object(more) = &value {
                        fields.extend(more.0.iter().map(|(key, value)| (key.clone(), value.clone())));
                    }
                } else {
                    match &step.focus {
                        Some(focus) => {
                            fields.insert(Rc::from(&**focus), value);
                            fields.insert(Rc::from("@"), context.clone());
                        }
                        None => {
                            fields.insert(Rc::from("@"), value);
                        }
                    }
                    if let Some(index) = &step.index {
                        fields.insert(Rc::from(&**index), Value::Number(at as f64));
                    }
                    if let Some(slot) = step.ancestor {
                        fields.insert(Rc::from(format!("!{}", self.labels[slot])), context.clone());
                    }
                }
                results.push(Value::object(fields));
            }
        }
        Ok(self.stages(&step.stages, Value::tuples(results), frame)?.items())
    }

    pub(crate) fn filter(&mut self, predicate: &Node, input: &Value, frame: &Frame) -> Result<Value, Error> {
        if input.is_undefined() {
            return Ok(Value::Undefined);
        }
        let tuples = input.is_tuples();
        let single;
        let items: &[Value] = match input {
            Value::Array(array) => &array.items,
            other => {
                single = [other.clone()];
                &single
            }
        };
        let place = |number: f64| {
            let at = number.floor();
            if at < 0.0 { items.len() as f64 + at } else { at }
        };
        if let Kind::Number(number) = predicate.kind {
            let at = place(number);
            let item = if at >= 0.0 { items.get(at as usize).cloned() } else { None };
            return Ok(match item {
                None => Value::sequence(Vec::new()),
                Some(Value::Array(array)) => Value::Array(array),
                Some(item) if tuples => Value::tuples(vec![item]),
                Some(item) => Value::sequence(vec![item]),
            });
        }
        let mut kept = Vec::new();
        for (at, item) in items.iter().enumerate() {
            let result = if tuples {
                self.evaluate(predicate, &item.field("@"), &frame_of(frame, item))?
            } else {
                self.evaluate(predicate, item, frame)?
            };
            match &result {
                Value::Number(number) if place(*number) == at as f64 => kept.push(item.clone()),
                Value::Number(_) => {}
                Value::Array(array)
                    if !array.items.is_empty()
                        && array.items.iter().all(|item| matches!(item, Value::Number(_))) =>
                {
                    for number in array.items.iter().filter_map(Value::as_number) {
                        if place(number) == at as f64 {
                            kept.push(item.clone());
                        }
                    }
                }
                result if result.is_true() => kept.push(item.clone()),
                _ => {}
            }
        }
        self.spend_items(kept.len())?;
        Ok(if tuples { Value::tuples(kept) } else { Value::sequence(kept) })
    }
}

pub(crate) fn tuple_of(value: Value) -> Value {
    Value::object(IndexMap::from([(Rc::from("@"), value)]))
}

pub(crate) fn with_field(tuple: &Value, name: &str, value: Value) -> Value {
    match tuple {
        Value::Object(object) => {
            let mut fields = object.0.clone();
            fields.insert(Rc::from(name), value);
            Value::object(fields)
        }
        other => other.clone(),
    }
}

pub(crate) fn frame_of(outer: &Frame, tuple: &Value) -> Frame {
    let frame = Frame::new(Some(outer.clone()));
    if let Value::Object(object) = tuple {
        for (key, value) in &object.0 {
            frame.bind(Arc::from(&**key), value.clone());
        }
    }
    frame
}
