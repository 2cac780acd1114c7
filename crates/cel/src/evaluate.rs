//! Runs a program over borrowed values, and counts what it costs as it goes.
//!
//! Costs follow upstream's interpreter step by step, also where that is peculiar: a name costs one, each selection
//! after it one more, constants nothing, and a name that is directly a branch of `?:` nothing for itself.

use std::sync::Arc;

use indexmap::IndexMap;

use crate::ast::Access;
use crate::cost::{Budget, CREATE_LIST, CREATE_MAP, CREATE_OBJECT};
use crate::equality::equal;
use crate::error::EvalError;
use crate::library::{Evaluated, lists};
use crate::plan::{Call, Node};
use crate::program::{Bindings, Program};
use crate::value::{Key, List, MadeMap, Map, Value};

pub struct Evaluator<'e, 'a> {
    pub(crate) program: &'e Program,
    pub(crate) bindings: &'e Bindings<'a>,
    pub(crate) budget: &'e mut Budget,
    pub(crate) locals: Vec<Local<'e, 'a>>,
    /// Elements of the lists that calls have made. Joining lists costs one unit however long they are, and a list
    /// joined with itself again and again would fill the memory.
    pub(crate) made: usize,
}

/// A variable of a macro.
#[derive(Clone)]
pub(crate) enum Local<'e, 'a> {
    Known(Evaluated<'a>),
    /// Computed when it is first read.
    Later(&'e Node),
}

impl<'e, 'a> Evaluator<'e, 'a> {
    pub(crate) fn evaluate(&mut self, node: &'e Node) -> Evaluated<'a> {
        match node {
            Node::Constant(value) => Ok(value.clone()),
            Node::Variable(_) | Node::Local(_) | Node::Select { .. } | Node::Index { .. } => {
                let found = self.attribute(node);
                self.budget.charge(cost_of_attribute(node))?;
                found
            }
            Node::Conditional(_) => self.attribute(node),
            Node::Call(call) => self.call(call),
            Node::And(left, right) => self.logical(left, right, false),
            Node::Or(left, right) => self.logical(left, right, true),
            Node::InConstants { value, constants } => {
                let value = self.evaluate(value)?;
                let Value::List(constants) = constants else { return Err(EvalError::no_such_overload()) };
                Ok(Value::Bool(constants.iter().any(|constant| equal(&constant, &value))))
            }
            Node::List(items) => self.list(items),
            Node::Map(entries) => self.map(entries),
            Node::Object { name, fields } => self.object(name, fields),
            Node::Each(each) => self.each(each),
            Node::Bind { slot, value, body } => {
                self.set(*slot, Local::Later(value));
                self.evaluate(body)
            }
            Node::OptionalMap { target, slot, body, flat } => self.optional_map(target, *slot, body, *flat),
            Node::OptionalOr { target, other, unwraps } => match self.evaluate(target)? {
                Value::Optional(Some(value)) if *unwraps => Ok((*value).clone()),
                value @ Value::Optional(Some(_)) => Ok(value),
                Value::Optional(None) => self.evaluate(other),
                _ => Err(EvalError::no_such_overload()),
            },
        }
    }

    pub(crate) fn set(&mut self, slot: usize, local: Local<'e, 'a>) {
        self.locals.truncate(slot);
        self.locals.push(local);
    }

    /// What a chain of selections leads to. Its last unit is for whoever asks.
    fn attribute(&mut self, node: &'e Node) -> Evaluated<'a> {
        match node {
            Node::Variable(place) => self.bindings.read(&self.program.variables[*place]),
            Node::Local(slot) => self.local(*slot),
            Node::Select { operand, field, access } => {
                let operand = self.attribute(operand)?;
                let found = select(operand, field, *access);
                self.budget.charge(u64::from(!is_absent(*access == Access::Optional, &found)))?;
                found
            }
            Node::Index { operand, index, optional } => {
                let operand = self.attribute(operand)?;
                let index = self.attribute(index)?;
                let found = at_index(operand, &index, *optional);
                self.budget.charge(u64::from(!is_absent(*optional, &found)))?;
                found
            }
            Node::Conditional(parts) => match self.evaluate(&parts[0])? {
                Value::Bool(true) => self.attribute(&parts[1]),
                Value::Bool(false) => self.attribute(&parts[2]),
                _ => Err(EvalError::no_such_overload()),
            },
            other => self.evaluate(other),
        }
    }

    fn local(&mut self, slot: usize) -> Evaluated<'a> {
        match self.locals.get(slot) {
            Some(Local::Known(found)) => found.clone(),
            Some(Local::Later(node)) => {
                let node = *node;
                // It names only what stands further out, so what is further in may go and come back.
                let inner = self.locals.split_off(slot);
                let found = self.evaluate(node);
                self.locals.truncate(slot);
                self.locals.extend(inner);
                self.locals[slot] = Local::Known(found.clone());
                found
            }
            None => Err(EvalError::NoSuchVariable("unknown".to_owned())),
        }
    }

    fn call(&mut self, call: &'e Call) -> Evaluated<'a> {
        // Most calls have one or two arguments; they need no list on the heap.
        match call.args.as_slice() {
            [one] => match self.evaluate(one) {
                Ok(one) => self.invoke(call, &[one]),
                Err(error) => self.fail(call, error),
            },
            [one, two] => match (self.evaluate(one), two) {
                (Err(EvalError::CostLimit), _) => Err(EvalError::CostLimit),
                (one, two) => match (one, self.evaluate(two)) {
                    (Ok(one), Ok(two)) => self.invoke(call, &[one, two]),
                    (Err(error), _) | (_, Err(error)) => self.fail(call, error),
                },
            },
            more => match more.iter().map(|node| self.evaluate(node)).collect::<Result<Vec<_>, _>>() {
                Ok(args) => self.invoke(call, &args),
                Err(error) => self.fail(call, error),
            },
        }
    }

    /// A call is paid for though an argument failed.
    fn fail(&mut self, call: &'e Call, error: EvalError) -> Evaluated<'a> {
        self.budget.charge(call.charge.amount(&[Value::Null, Value::Null], &Value::Null))?;
        Err(error)
    }

    fn invoke(&mut self, call: &'e Call, args: &[Value<'a>]) -> Evaluated<'a> {
        let overload = match call.overloads.as_slice() {
            [one] => Some(one),
            several => several.iter().find(|overload| overload.accepts(args)),
        };
        let found = match overload {
            Some(overload) => (overload.call)(&call.site, args),
            None => Err(EvalError::no_such_overload()),
        };
        let found = found.map_err(|error| match error {
            EvalError::NoSuchOverload(_) => no_such_overload(call, args),
            other => other,
        });
        self.budget.charge(call.charge.amount(args, found.as_ref().unwrap_or(&Value::Null)))?;
        if let Ok(Value::List(List::Made(list))) = &found {
            self.made += list.len();
            if self.made > lists::LONGEST {
                return Err(EvalError::CostLimit);
            }
        }
        found
    }

    /// `&&` and `||`: a side that decides makes the other's error meaningless.
    fn logical(&mut self, left: &'e Node, right: &'e Node, deciding: bool) -> Evaluated<'a> {
        let left = self.evaluate(left);
        match left {
            Ok(Value::Bool(value)) if value == deciding => return Ok(Value::Bool(deciding)),
            Err(EvalError::CostLimit) => return left,
            _ => {}
        }
        let right = self.evaluate(right)?;
        match (left, right) {
            (_, Value::Bool(value)) if value == deciding => Ok(Value::Bool(deciding)),
            (Ok(Value::Bool(_)), Value::Bool(_)) => Ok(Value::Bool(!deciding)),
            (Err(error), _) => Err(error),
            _ => Err(EvalError::no_such_overload()),
        }
    }

    fn list(&mut self, items: &'e [(Node, bool)]) -> Evaluated<'a> {
        let mut values = Vec::with_capacity(items.len());
        for (node, optional) in items {
            let value = self.evaluate(node)?;
            values.extend(if *optional { present(value)? } else { Some(value) });
        }
        self.budget.charge(CREATE_LIST)?;
        Ok(Value::list(values))
    }

    fn map(&mut self, nodes: &'e [(Node, Node, bool)]) -> Evaluated<'a> {
        let mut entries = IndexMap::with_capacity(nodes.len());
        for (key, value, optional) in nodes {
            let key = self.evaluate(key)?;
            let value = self.evaluate(value)?;
            let value = if *optional { present(value)? } else { Some(value) };
            if let Some(value) = value {
                insert(&mut entries, key, value)?;
            }
        }
        self.budget.charge(CREATE_MAP)?;
        Ok(Value::Map(Map::Made(Arc::new(MadeMap { entries, ..MadeMap::default() }))))
    }

    fn object(&mut self, name: &Arc<str>, fields: &'e [(Box<str>, Node, bool)]) -> Evaluated<'a> {
        let mut entries = IndexMap::with_capacity(fields.len());
        for (field, node, optional) in fields {
            let value = self.evaluate(node)?;
            let value = if *optional { present(value)? } else { Some(value) };
            let Some(value) = value else { continue };
            if let Value::Map(Map::Made(made)) = &value
                && let Some(found) = &made.name
                && **name != *"JSONPatch"
                && **found != *format!("{name}.{field}")
            {
                let message =
                    format!("unexpected type name {found:?}, expected {:?}", format!("{name}.{field}"));
                return Err(EvalError::failed(message));
            }
            entries.insert(Key::String(field.clone()), (Value::from(field.to_string()), value));
        }
        self.budget.charge(CREATE_OBJECT)?;
        Ok(Value::Map(Map::Made(Arc::new(MadeMap {
            name: Some(name.clone()),
            entries,
            ..MadeMap::default()
        }))))
    }

    /// Upstream reads the target once to look whether it has a value, and once for the value.
    fn optional_map(&mut self, target: &'e Node, slot: usize, body: &'e Node, flat: bool) -> Evaluated<'a> {
        let before = self.budget.spent();
        let target = self.evaluate(target)?;
        let cost = self.budget.spent() - before;
        self.budget.charge(1)?;
        match target {
            Value::Optional(Some(value)) => {
                self.budget.charge(cost + 1)?;
                self.set(slot, Local::Known(Ok((*value).clone())));
                let found = self.evaluate(body)?;
                if flat {
                    return Ok(found);
                }
                self.budget.charge(1)?;
                Ok(Value::some(found))
            }
            Value::Optional(None) => {
                self.budget.charge(1)?;
                Ok(Value::none())
            }
            _ => Err(EvalError::no_such_overload()),
        }
    }
}

/// What is optional and not there is not paid for.
fn is_absent(optional: bool, found: &Evaluated) -> bool {
    optional && matches!(found, Ok(Value::Optional(None)))
}

fn cost_of_attribute(mut node: &Node) -> u64 {
    loop {
        node = match node {
            Node::Select { access: Access::Presence, .. } => return 0,
            Node::Select { operand, .. } | Node::Index { operand, .. } => operand,
            Node::Conditional(_) => return 0,
            _ => return 1,
        };
    }
}

pub(crate) fn insert<'a>(
    entries: &mut IndexMap<Key, (Value<'a>, Value<'a>)>,
    key: Value<'a>,
    value: Value<'a>,
) -> Result<(), EvalError> {
    let plain = Key::of(&key)
        .ok_or_else(|| EvalError::failed(format!("unsupported key type: {}", key.type_name())))?;
    if entries.contains_key(&plain) {
        return Err(EvalError::failed(format!("Failed with repeated key: {key}")));
    }
    entries.insert(plain, (key, value));
    Ok(())
}

fn present(value: Value) -> Result<Option<Value>, EvalError> {
    match value {
        Value::Optional(value) => Ok(value.map(|value| (*value).clone())),
        other => {
            let message = format!("cannot initialize optional list element from non-optional value {other}");
            Err(EvalError::failed(message))
        }
    }
}

fn select<'a>(operand: Value<'a>, field: &str, access: Access) -> Evaluated<'a> {
    let (map, was_optional) = match operand {
        Value::Map(map) => (Some(map), false),
        Value::Optional(None) => (None, true),
        Value::Optional(Some(inner)) => match &*inner {
            Value::Map(map) => (Some(map.clone()), true),
            other => return Err(no_such_field(other, field)),
        },
        other => return Err(no_such_field(&other, field)),
    };
    let found = map.and_then(|map| map.field(field));
    match (access, found) {
        (Access::Presence, found) => {
            Ok(Value::Bool(found.is_some_and(|value| !matches!(value, Value::Null))))
        }
        (Access::Optional, found) => Ok(found.map_or_else(Value::none, Value::some)),
        (Access::Value, found) if was_optional => Ok(found.map_or_else(Value::none, Value::some)),
        (Access::Value, Some(found)) => Ok(found),
        (Access::Value, None) => Err(EvalError::NoSuchKey(field.to_owned())),
    }
}

fn no_such_field(value: &Value, field: &str) -> EvalError {
    match value {
        Value::Null => EvalError::NoSuchKey(field.to_owned()),
        _ => EvalError::no_such_overload(),
    }
}

fn at_index<'a>(operand: Value<'a>, index: &Value<'a>, optional: bool) -> Evaluated<'a> {
    let (operand, was_optional) = match operand {
        Value::Optional(None) => return Ok(Value::none()),
        Value::Optional(Some(inner)) => ((*inner).clone(), true),
        other => (other, false),
    };
    let found = match (&operand, index) {
        (Value::Map(map), key) => map.get(key),
        (Value::List(list), Value::Int(_) | Value::Uint(_) | Value::Double(_)) => match Key::of(index) {
            Some(Key::Int(at)) => usize::try_from(at).ok().and_then(|at| list.get(at)),
            _ => None,
        },
        _ => return Err(EvalError::no_such_overload()),
    };
    match found {
        found if optional || was_optional => Ok(found.map_or_else(Value::none, Value::some)),
        Some(found) => Ok(found),
        None if matches!(operand, Value::Map(_)) => Err(EvalError::NoSuchKey(index.to_string())),
        None => Err(EvalError::failed(format!("index out of bounds: {index}"))),
    }
}

fn no_such_overload(call: &Call, args: &[Value]) -> EvalError {
    let names: Vec<&str> = args.iter().map(Value::type_name).collect();
    let is_member = call.overloads.first().is_some_and(|overload| overload.is_member);
    let shown = match (is_member, names.split_first()) {
        (true, Some((receiver, rest))) => format!(": {receiver}.{}({})", call.function, rest.join(", ")),
        _ => format!(": {}({})", call.function, names.join(", ")),
    };
    EvalError::NoSuchOverload(shown)
}
