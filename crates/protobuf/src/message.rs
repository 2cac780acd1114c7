//! Messages by the table: from the wire's fields to a JSON object.
//!
//! Bounded in depth and in the number of values: two bytes on the wire can be a whole object in JSON.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value};

use crate::special;
use crate::table::{Field, Message, Shape, Table, Type, Zero};
use crate::wire::{Reader, Wire};
use crate::{DecodeError, Fault};

/// Messages inside messages. A CustomResourceDefinition's schema nests deepest.
pub(crate) const MAX_DEPTH: usize = 60;

/// An object of the size that requests may have, in a form that anyone would send, has far fewer.
pub(crate) const MAX_VALUES: usize = 500_000;

/// Unknown fields beyond these are not listed.
const MAX_UNKNOWN: usize = 10;

type Result<T, E = DecodeError> = std::result::Result<T, E>;

pub(crate) struct Decoder<'t> {
    table: &'t Table,
    depth: usize,
    values: usize,
    pub(crate) unknown: Vec<String>,
}

impl<'t> Decoder<'t> {
    pub(crate) fn new(table: &'t Table) -> Self {
        Decoder { table, depth: 0, values: 0, unknown: Vec::new() }
    }

    /// Adds a message's fields to `out`. What stood there before stays unless it is sent again.
    pub(crate) fn message(
        &mut self,
        message: &Message,
        bytes: &[u8],
        out: &mut Map<String, Value>,
    ) -> Result<()> {
        if self.depth == MAX_DEPTH {
            return Err(in_message(message)(Fault::TooDeep(MAX_DEPTH)));
        }
        self.depth += 1;
        let mut reader = Reader::new(bytes);
        while let Some((number, wire)) = reader.next().map_err(in_message(message))? {
            match message.field(number) {
                Some(field) => self.field(message, field, wire, out)?,
                None => self.unknown(message, number, wire),
            }
        }
        for field in message.fields() {
            if field.zero == Zero::Shown && !out.contains_key(field.name) {
                self.count().map_err(in_message(message))?;
                out.insert(field.name.to_owned(), zero(field.ty));
            }
        }
        self.depth -= 1;
        Ok(())
    }

    fn field(
        &mut self,
        message: &Message,
        field: &Field,
        wire: Wire<'_>,
        out: &mut Map<String, Value>,
    ) -> Result<()> {
        let at = |fault| in_field(message, field, fault);
        match (field.shape, field.ty) {
            (Shape::Inline, Type::Message(index)) => {
                self.message(self.table.message(index), wire.bytes().map_err(at)?, out)
            }
            (Shape::List, ty) => {
                let Value::Array(list) = out.entry(field.name).or_insert_with(|| Value::Array(Vec::new()))
                else {
                    return Ok(());
                };
                if let (Wire::Bytes(packed), Type::Integer | Type::Boolean | Type::Float) = (wire, ty) {
                    return self.packed(ty, packed, list).map_err(at);
                }
                list.push(self.value(message, field, wire)?);
                Ok(())
            }
            (Shape::Map, _) => {
                let (key, value) = self.entry(message, field, wire)?;
                if let Value::Object(map) = out.entry(field.name).or_insert_with(|| Value::Object(Map::new()))
                {
                    map.insert(key, value);
                }
                Ok(())
            }
            (_, Type::Message(index)) if self.table.message(index).either.is_empty() => {
                let bytes = wire.bytes().map_err(at)?;
                self.count().map_err(at)?;
                match out.entry(field.name).or_insert_with(|| Value::Object(Map::new())) {
                    Value::Object(inner) => self.message(self.table.message(index), bytes, inner),
                    _ => Ok(()),
                }
            }
            _ => {
                let value = self.value(message, field, wire)?;
                if value.is_null() || (field.zero == Zero::Dropped && is_dropped(field.ty, &value)) {
                    out.shift_remove(field.name);
                } else {
                    out.insert(field.name.to_owned(), value);
                }
                Ok(())
            }
        }
    }

    /// One value: of a field, an element of a list, a value of a map.
    fn value(&mut self, message: &Message, field: &Field, wire: Wire<'_>) -> Result<Value> {
        let at = |fault| in_field(message, field, fault);
        self.count().map_err(at)?;
        let Type::Message(index) = field.ty else {
            return scalar(field.ty, wire).map_err(at);
        };
        let inner = self.table.message(index);
        let mut fields = Map::new();
        self.message(inner, wire.bytes().map_err(at)?, &mut fields)?;
        if inner.either.is_empty() {
            return Ok(Value::Object(fields));
        }
        Ok(inner.either.iter().find_map(|&name| fields.shift_remove(name)).unwrap_or(Value::Null))
    }

    /// Numbers of a list without a tag each.
    fn packed(&mut self, ty: Type, bytes: &[u8], list: &mut Vec<Value>) -> Result<(), Fault> {
        let mut reader = Reader::new(bytes);
        while !reader.is_empty() {
            self.count()?;
            let wire = match ty {
                Type::Float => Wire::Fixed64(reader.fixed64()?),
                _ => Wire::Varint(reader.varint()?),
            };
            list.push(scalar(ty, wire)?);
        }
        Ok(())
    }

    /// An entry of a map: a message of key and value, either of which may be left out.
    fn entry(&mut self, message: &Message, field: &Field, wire: Wire<'_>) -> Result<(String, Value)> {
        let at = |fault| in_field(message, field, fault);
        let (mut key, mut value) = ("", None);
        let mut reader = Reader::new(wire.bytes().map_err(at)?);
        while let Some((number, wire)) = reader.next().map_err(at)? {
            match number {
                1 => key = wire.text().map_err(at)?,
                2 => value = Some(self.value(message, field, wire)?),
                _ => {}
            }
        }
        let value = match value {
            Some(value) => value,
            None if matches!(field.ty, Type::Integer | Type::Boolean | Type::Float) => zero(field.ty),
            None => self.value(message, field, Wire::Bytes(&[]))?,
        };
        Ok((key.to_owned(), value))
    }

    fn count(&mut self) -> Result<(), Fault> {
        self.values += 1;
        if self.values > MAX_VALUES { Err(Fault::TooMany(MAX_VALUES)) } else { Ok(()) }
    }

    fn unknown(&mut self, message: &Message, number: u32, wire: Wire<'_>) {
        if !wire.is_zero() && self.unknown.len() < MAX_UNKNOWN {
            self.unknown.push(format!("field {number} of {}.{}", message.package, message.name));
        }
    }
}

fn scalar(ty: Type, wire: Wire<'_>) -> Result<Value, Fault> {
    match ty {
        Type::Text => wire.text().map(Value::from),
        Type::Integer => wire.integer().map(Value::from),
        Type::Boolean => wire.number().map(|number| Value::from(number != 0)),
        Type::Float => special::float(wire.float()?),
        Type::Bytes => wire.bytes().map(|bytes| STANDARD.encode(bytes).into()),
        Type::Time => special::time(wire.bytes()?),
        Type::MicroTime => special::micro_time(wire.bytes()?),
        Type::Quantity => special::quantity(wire.bytes()?),
        Type::IntOrString => special::int_or_string(wire.bytes()?),
        Type::Json => special::json(wire.bytes()?),
        Type::Strings => special::strings(wire.bytes()?),
        Type::Message(_) => Err(Fault::Mismatch),
    }
}

fn zero(ty: Type) -> Value {
    match ty {
        Type::Integer | Type::Float => 0.into(),
        Type::Boolean => false.into(),
        _ => "".into(),
    }
}

/// Whether Go's `omitempty` leaves the value out. It never leaves out what is a struct in Go.
fn is_dropped(ty: Type, value: &Value) -> bool {
    match ty {
        Type::Text | Type::Bytes => value == "",
        Type::Integer | Type::Float => value == 0,
        Type::Boolean => value == false,
        _ => false,
    }
}

fn in_message(message: &Message) -> impl Fn(Fault) -> DecodeError {
    move |fault| DecodeError::at(format!("{}.{}", message.package, message.name), fault)
}

fn in_field(message: &Message, field: &Field, fault: Fault) -> DecodeError {
    DecodeError::at(format!("{}.{}.{}", message.package, message.name, field.name), fault)
}
