//! The messages that `messages.txt` describes; its head explains the format.

use std::collections::HashMap;
use std::sync::LazyLock;

/// By package and name.
pub(super) static MESSAGES: LazyLock<HashMap<Name, Message>> =
    LazyLock::new(|| include_str!("messages.txt").lines().filter_map(Message::parse).collect());

pub(super) type Name = (&'static str, &'static str);

#[derive(Debug, PartialEq, Eq)]
pub(super) struct Message {
    /// In JSON it is the value of its last field that is set.
    pub(super) is_union: bool,
    /// In the order of their numbers.
    fields: Vec<Field>,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) struct Field {
    number: u64,
    pub(super) name: &'static str,
    pub(super) ty: Type,
    pub(super) shape: Shape,
    /// Zero is written to JSON like any other value.
    pub(super) zero_counts: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Shape {
    One,
    List,
    Map,
    /// The message's fields are fields of the one around it.
    Inline,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Type {
    String,
    Bool,
    Int,
    Double,
    Bytes,
    Time,
    MicroTime,
    Quantity,
    IntOrString,
    /// JSON in a message of its own.
    Raw,
    Message(Name),
}

impl Message {
    pub(super) fn field(&self, number: u64) -> Option<&Field> {
        let index = self.fields.binary_search_by_key(&number, |field| field.number).ok()?;
        self.fields.get(index)
    }

    fn parse(line: &'static str) -> Option<(Name, Message)> {
        if line.starts_with('#') {
            return None;
        }
        let mut words = line.split(' ');
        let name = words.next()?;
        let (name, is_union) = name.strip_suffix('|').map_or((name, false), |name| (name, true));
        let (package, name) = name.rsplit_once('.')?;
        let mut number = 0;
        let fields = words.map(|word| Field::parse(word, package, &mut number)).collect();
        Some(((package, name), Message { is_union, fields }))
    }

    /// Every type that a field names.
    #[cfg(test)]
    pub(super) fn types(&self) -> impl Iterator<Item = Type> {
        self.fields.iter().map(|field| field.ty)
    }
}

impl Field {
    fn parse(word: &'static str, package: &'static str, number: &mut u64) -> Field {
        let (given, word) = word.split_once('=').unwrap_or(("", word));
        *number = given.parse().unwrap_or(*number + 1);
        let (word, zero_counts) = word.strip_suffix('!').map_or((word, false), |word| (word, true));
        let (name, ty, shape) = match word.strip_prefix('^') {
            Some(ty) => ("", ty, Shape::Inline),
            None => {
                let (name, ty) = word.split_once(':').unwrap_or((word, "string"));
                let (ty, shape) = match (ty.strip_suffix("[]"), ty.strip_suffix("{}")) {
                    (Some(ty), _) => (ty, Shape::List),
                    (_, Some(ty)) => (ty, Shape::Map),
                    _ => (ty, Shape::One),
                };
                (name, ty, shape)
            }
        };
        Field { number: *number, name, ty: Type::parse(ty, package), shape, zero_counts }
    }
}

impl Type {
    fn parse(text: &'static str, package: &'static str) -> Type {
        match text {
            "string" => Type::String,
            "bool" => Type::Bool,
            "int" => Type::Int,
            "double" => Type::Double,
            "bytes" => Type::Bytes,
            "Time" => Type::Time,
            "MicroTime" => Type::MicroTime,
            "Quantity" => Type::Quantity,
            "IntOrString" => Type::IntOrString,
            "Raw" => Type::Raw,
            name => Type::Message(name.rsplit_once('.').unwrap_or((package, name))),
        }
    }
}
