//! From the fields of a message to JSON, as Go's encoder would have written it.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use jiff::Timestamp;
use serde_json::{Map, Number, Value, json};

use super::table::{Field, MESSAGES, Message, Shape, Type};
use super::wire::{self, Malformed, Token};

/// Messages nest at most this deep.
const MAX_DEPTH: usize = 64;
/// More unknown fields than this are not told.
const MAX_UNKNOWN: usize = 10;

type Result<T> = std::result::Result<T, Malformed>;

#[derive(Default)]
pub(super) struct Decoder {
    pub(super) unknown: Vec<String>,
    /// The fields that lead to the message at hand.
    path: Vec<&'static str>,
}

impl Decoder {
    /// Puts the message's fields into `object`.
    pub(super) fn fill(
        &mut self,
        message: &Message,
        bytes: &[u8],
        object: &mut Map<String, Value>,
    ) -> Result<()> {
        for field in wire::fields(bytes) {
            let (number, token) = field?;
            let Some(field) = message.field(number) else {
                self.note_unknown(number, token);
                continue;
            };
            match field.shape {
                Shape::Inline => {
                    if let Type::Message(name) = field.ty
                        && let Some(inner) = MESSAGES.get(&name)
                    {
                        self.fill(inner, token.bytes()?, object)?;
                    }
                }
                Shape::One => {
                    if let Some(value) = self.value(field, token)?
                        && (field.zero_counts || !is_zero(&value))
                    {
                        object.insert(field.name.to_owned(), value);
                    }
                }
                Shape::List => {
                    let entry = object.entry(field.name).or_insert_with(|| json!([]));
                    if let Value::Array(items) = entry {
                        self.push(field, token, items)?;
                    }
                }
                Shape::Map => {
                    let (key, value) = self.entry(field, token)?;
                    let entry = object.entry(field.name).or_insert_with(|| json!({}));
                    if let Value::Object(map) = entry {
                        map.insert(key, value);
                    }
                }
            }
        }
        Ok(())
    }

    /// Numbers may come one by one or packed together.
    fn push(&mut self, field: &Field, token: Token<'_>, items: &mut Vec<Value>) -> Result<()> {
        if let (Type::Int, Token::Bytes(mut packed)) = (field.ty, token) {
            while !packed.is_empty() {
                items.push((wire::varint(&mut packed)? as i64).into());
            }
            return Ok(());
        }
        items.push(self.value(field, token)?.unwrap_or(Value::Null));
        Ok(())
    }

    /// A map is a list of pairs; what a pair leaves out is empty.
    fn entry(&mut self, field: &Field, token: Token<'_>) -> Result<(String, Value)> {
        let (mut key, mut value) = (String::new(), Token::Bytes(&[]));
        for part in wire::fields(token.bytes()?) {
            match part? {
                (1, token) => key = token.text()?.to_owned(),
                (2, token) => value = token,
                _ => {}
            }
        }
        Ok((key, self.value(field, value)?.unwrap_or(Value::Null)))
    }

    /// None is what JSON writes as null.
    fn value(&mut self, field: &Field, token: Token<'_>) -> Result<Option<Value>> {
        Ok(Some(match field.ty {
            Type::String => token.text()?.into(),
            Type::Bool => (token.int()? != 0).into(),
            Type::Int => token.int()?.into(),
            Type::Double => double(token)?,
            Type::Bytes => BASE64_STANDARD.encode(token.bytes()?).into(),
            Type::Time => return time(token.bytes()?, "%Y-%m-%dT%H:%M:%SZ"),
            Type::MicroTime => return time(token.bytes()?, "%Y-%m-%dT%H:%M:%S.%6fZ"),
            Type::Quantity => quantity(token.bytes()?)?,
            Type::IntOrString => int_or_string(token.bytes()?)?,
            Type::Raw => return raw(token.bytes()?),
            Type::Message(name) => {
                let message = MESSAGES.get(&name).ok_or(Malformed::Mismatch)?;
                self.message(field.name, message, token.bytes()?)?
            }
        }))
    }

    fn message(&mut self, name: &'static str, message: &Message, bytes: &[u8]) -> Result<Value> {
        if self.path.len() >= MAX_DEPTH {
            return Err(Malformed::TooDeep);
        }
        self.path.push(name);
        let mut object = Map::new();
        self.fill(message, bytes, &mut object)?;
        self.path.pop();
        if message.is_union {
            return Ok(object.into_iter().next_back().map_or_else(|| json!([]), |(_, value)| value));
        }
        Ok(Value::Object(object))
    }

    fn note_unknown(&mut self, number: u64, token: Token<'_>) {
        // Go writes empty fields too: those say nothing.
        if !token.is_zero() && self.unknown.len() < MAX_UNKNOWN {
            let place = if self.path.is_empty() { "the object".to_owned() } else { self.path.join(".") };
            self.unknown
                .push(format!("unknown field number {number} in {place} was dropped: send JSON to keep it"));
        }
    }
}

fn is_zero(value: &Value) -> bool {
    match value {
        Value::Bool(value) => !value,
        Value::Number(number) => number.as_f64() == Some(0.0),
        Value::String(text) => text.is_empty(),
        _ => false,
    }
}

fn double(token: Token<'_>) -> Result<Value> {
    let Token::Fixed64(bits) = token else { return Err(Malformed::Mismatch) };
    let number = f64::from_bits(bits);
    // Go writes whole numbers without a point.
    if number.fract() == 0.0 && number.abs() < 1e15 {
        return Ok((number as i64).into());
    }
    Number::from_f64(number).map(Value::Number).ok_or(Malformed::Mismatch)
}

/// The empty message is no time at all.
fn time(bytes: &[u8], format: &str) -> Result<Option<Value>> {
    let (mut seconds, mut nanoseconds) = (0, 0);
    for field in wire::fields(bytes) {
        match field? {
            (1, token) => seconds = token.int()?,
            (2, token) => nanoseconds = token.int()?,
            _ => {}
        }
    }
    if seconds == 0 && nanoseconds == 0 {
        return Ok(None);
    }
    let nanoseconds = i32::try_from(nanoseconds).map_err(|_| Malformed::Time)?;
    let time = Timestamp::new(seconds, nanoseconds).map_err(|_| Malformed::Time)?;
    Ok(Some(time.strftime(format).to_string().into()))
}

fn quantity(bytes: &[u8]) -> Result<Value> {
    let mut text = "0";
    for field in wire::fields(bytes) {
        if let (1, token) = field? {
            text = token.text()?;
        }
    }
    Ok(text.into())
}

fn int_or_string(bytes: &[u8]) -> Result<Value> {
    let (mut is_text, mut number, mut text) = (false, 0, "");
    for field in wire::fields(bytes) {
        match field? {
            (1, token) => is_text = token.int()? != 0,
            (2, token) => number = token.int()?,
            (3, token) => text = token.text()?,
            _ => {}
        }
    }
    Ok(if is_text { text.into() } else { number.into() })
}

fn raw(bytes: &[u8]) -> Result<Option<Value>> {
    for field in wire::fields(bytes) {
        if let (1, token) = field?
            && !token.is_zero()
        {
            return serde_json::from_slice(token.bytes()?).map(Some).map_err(|_| Malformed::InnerJson);
        }
    }
    Ok(None)
}
