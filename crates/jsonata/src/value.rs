//! Values of the language: JSON, and besides it nothing (undefined), functions, and sequences, which are arrays that
//! remember how they came to be.

use std::rc::Rc;

use indexmap::IndexMap;

use crate::function::{Function, TailCall};

#[derive(Debug, Clone)]
pub enum Value {
    Undefined,
    Null,
    Boolean(bool),
    Number(f64),
    String(Rc<str>),
    Array(Rc<Array>),
    Object(Rc<Object>),
    Function(Rc<Function>),
    /// A call that is still to be made; it never leaves the evaluator.
    Tail(Rc<TailCall>),
}

#[derive(Debug, Clone, Default)]
pub struct Array {
    pub items: Vec<Value>,
    /// Made by evaluation: one item is the item, none is nothing.
    pub sequence: bool,
    pub keep_singleton: bool,
    /// Made by `[…]`: never flattened.
    pub cons: bool,
    /// Items are tuples of bindings.
    pub tuples: bool,
    /// The evaluation's input array, as the only item.
    pub outer: bool,
}

#[derive(Debug, Clone, Default)]
pub struct Object(pub IndexMap<Rc<str>, Value>);

impl Drop for Array {
    /// Without recursion: values nest as deep as expressions like.
    fn drop(&mut self) {
        if self.items.iter().any(|item| matches!(item, Value::Array(_) | Value::Object(_))) {
            release(std::mem::take(&mut self.items));
        }
    }
}

impl Drop for Object {
    fn drop(&mut self) {
        if self.0.values().any(|item| matches!(item, Value::Array(_) | Value::Object(_))) {
            release(std::mem::take(&mut self.0).into_values().collect());
        }
    }
}

fn release(mut open: Vec<Value>) {
    while let Some(value) = open.pop() {
        match value {
            Value::Array(array) => {
                if let Ok(mut array) = Rc::try_unwrap(array) {
                    open.append(&mut array.items);
                }
            }
            Value::Object(object) => {
                if let Ok(mut object) = Rc::try_unwrap(object) {
                    open.extend(std::mem::take(&mut object.0).into_values());
                }
            }
            _ => {}
        }
    }
}

impl Value {
    pub fn text(text: impl Into<Rc<str>>) -> Self {
        Self::String(text.into())
    }

    pub fn array(items: Vec<Self>) -> Self {
        Self::Array(Rc::new(Array { items, ..Array::default() }))
    }

    pub fn sequence(items: Vec<Self>) -> Self {
        Self::Array(Rc::new(Array { items, sequence: true, ..Array::default() }))
    }

    pub fn tuples(items: Vec<Self>) -> Self {
        Self::Array(Rc::new(Array { items, sequence: true, tuples: true, ..Array::default() }))
    }

    pub fn object(fields: IndexMap<Rc<str>, Self>) -> Self {
        Self::Object(Rc::new(Object(fields)))
    }

    pub fn is_undefined(&self) -> bool {
        matches!(self, Self::Undefined)
    }

    pub fn is_function(&self) -> bool {
        matches!(self, Self::Function(_))
    }

    pub fn as_array(&self) -> Option<&Rc<Array>> {
        match self {
            Self::Array(array) => Some(array),
            _ => None,
        }
    }

    pub fn as_number(&self) -> Option<f64> {
        match self {
            Self::Number(number) => Some(*number),
            _ => None,
        }
    }

    pub fn as_text(&self) -> Option<&Rc<str>> {
        match self {
            Self::String(text) => Some(text),
            _ => None,
        }
    }

    pub fn is_tuples(&self) -> bool {
        matches!(self, Self::Array(array) if array.tuples)
    }

    /// Its items, or itself as the only one.
    pub fn items(&self) -> Vec<Self> {
        match self {
            Self::Array(array) => array.items.clone(),
            Self::Undefined => Vec::new(),
            value => vec![value.clone()],
        }
    }

    /// A field of an object.
    pub fn field(&self, name: &str) -> Self {
        match self {
            Self::Object(object) => object.0.get(name).cloned().unwrap_or(Self::Undefined),
            _ => Self::Undefined,
        }
    }

    /// Equal as the language has it: by content, never functions.
    pub fn equals(&self, other: &Self) -> bool {
        stacker::maybe_grow(64 * 1024, 1024 * 1024, || match (self, other) {
            (Self::Undefined, Self::Undefined) | (Self::Null, Self::Null) => true,
            (Self::Boolean(a), Self::Boolean(b)) => a == b,
            (Self::Number(a), Self::Number(b)) => a == b,
            (Self::String(a), Self::String(b)) => a == b,
            (Self::Array(a), Self::Array(b)) => {
                a.items.len() == b.items.len() && a.items.iter().zip(&b.items).all(|(a, b)| a.equals(b))
            }
            (Self::Object(a), Self::Object(b)) => {
                a.0.len() == b.0.len()
                    && a.0.iter().all(|(key, value)| b.0.get(key).is_some_and(|other| value.equals(other)))
            }
            (Self::Function(a), Self::Function(b)) => Rc::ptr_eq(a, b),
            _ => false,
        })
    }

    /// As a condition; nothing is none.
    pub fn truth(&self) -> Option<bool> {
        Some(match self {
            Self::Undefined => return None,
            Self::Null | Self::Function(_) | Self::Tail(_) => false,
            Self::Boolean(value) => *value,
            Self::Number(number) => *number != 0.0 && !number.is_nan(),
            Self::String(text) => !text.is_empty(),
            Self::Array(array) => match &array.items[..] {
                [one] => one.truth().unwrap_or(false),
                items => items.iter().any(|item| item.truth().unwrap_or(false)),
            },
            Self::Object(object) => !object.0.is_empty(),
        })
    }

    pub fn is_true(&self) -> bool {
        self.truth().unwrap_or(false)
    }
}

/// A number as JavaScript writes it.
pub fn number_text(number: f64) -> String {
    if number == 0.0 {
        return "0".into();
    }
    if !number.is_finite() {
        return if number.is_nan() {
            "NaN"
        } else if number > 0.0 {
            "Infinity"
        } else {
            "-Infinity"
        }
        .into();
    }
    let scientific = format!("{number:e}");
    let (mantissa, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if (-7..21).contains(&exponent) {
        return number.to_string();
    }
    format!("{mantissa}e{}{}", if exponent < 0 { '-' } else { '+' }, exponent.abs())
}

/// Rounded to fifteen significant digits, which is what `$string` shows.
pub fn fifteen_digits(number: f64) -> f64 {
    if number.fract() == 0.0 || !number.is_finite() {
        return number;
    }
    format!("{number:.14e}").parse().unwrap_or(number)
}

impl From<&serde_json::Value> for Value {
    fn from(value: &serde_json::Value) -> Self {
        match value {
            serde_json::Value::Null => Self::Null,
            serde_json::Value::Bool(value) => Self::Boolean(*value),
            serde_json::Value::Number(number) => Self::Number(number.as_f64().unwrap_or(f64::NAN)),
            serde_json::Value::String(text) => Self::text(text.as_str()),
            serde_json::Value::Array(items) => Self::array(items.iter().map(Self::from).collect()),
            serde_json::Value::Object(object) => Self::object(
                object.iter().map(|(key, value)| (Rc::from(key.as_str()), Self::from(value))).collect(),
            ),
        }
    }
}
