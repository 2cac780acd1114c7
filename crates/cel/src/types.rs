//! The types of CEL and how they are written in messages.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use crate::declaration::Declaration;

/// The type of an expression or a declared variable.
#[derive(Debug, Clone, PartialEq)]
pub enum Type {
    /// Known only when it runs.
    Dyn,
    /// Of an expression that is at fault already.
    Error,
    Null,
    Bool,
    Int,
    Uint,
    Double,
    String,
    Bytes,
    Duration,
    Timestamp,
    List(Arc<Type>),
    Map(Arc<(Type, Type)>),
    Optional(Arc<Type>),
    /// The type of a type: `type(1)`.
    Type(Option<Arc<Type>>),
    Object(Arc<ObjectType>),
    /// A type of a library, by its name: `net.IP`.
    Opaque(&'static str),
    /// A parameter in the signature of a function.
    Param(char),
    /// What a parameter or an empty list stands for in one place, until it is found out.
    Variable(usize),
}

/// An object with declared fields.
#[derive(Debug)]
pub struct ObjectType {
    pub name: String,
    /// By the name in expressions, which is escaped.
    pub fields: HashMap<String, ObjectField>,
}

#[derive(Debug)]
pub struct ObjectField {
    /// The name in JSON.
    pub name: String,
    pub declaration: Declaration,
}

/// Names are unique within an environment, as they are paths from its variables.
impl PartialEq for ObjectType {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl Type {
    pub fn list(element: Type) -> Self {
        Type::List(Arc::new(element))
    }

    pub fn map(key: Type, value: Type) -> Self {
        Type::Map(Arc::new((key, value)))
    }

    pub fn optional(of: Type) -> Self {
        Type::Optional(Arc::new(of))
    }

    pub fn of_type(of: Type) -> Self {
        Type::Type(Some(Arc::new(of)))
    }

    pub fn is_dyn_or_error(&self) -> bool {
        matches!(self, Type::Dyn | Type::Error)
    }

    /// What a type name in an expression stands for: `type(x) == int`.
    pub fn named(name: &str) -> Option<Type> {
        Some(match name {
            "bool" => Type::Bool,
            "int" => Type::Int,
            "uint" => Type::Uint,
            "double" => Type::Double,
            "string" => Type::String,
            "bytes" => Type::Bytes,
            "list" => Type::list(Type::Dyn),
            "map" => Type::map(Type::Dyn, Type::Dyn),
            "null_type" => Type::Null,
            "type" => Type::Type(None),
            "google.protobuf.Duration" => Type::Duration,
            "google.protobuf.Timestamp" => Type::Timestamp,
            "optional_type" => Type::optional(Type::Dyn),
            "net.IP" => Type::Opaque("net.IP"),
            "net.CIDR" => Type::Opaque("net.CIDR"),
            _ => return None,
        })
    }
}

impl fmt::Display for Type {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Type::Dyn => "dyn",
            Type::Error => "!error!",
            Type::Null => "null",
            Type::Bool => "bool",
            Type::Int => "int",
            Type::Uint => "uint",
            Type::Double => "double",
            Type::String => "string",
            Type::Bytes => "bytes",
            Type::Duration => "duration",
            Type::Timestamp => "timestamp",
            Type::Type(None) => "type",
            Type::Object(object) => &object.name,
            Type::Opaque(name) => name,
            Type::List(element) => return write!(f, "list({element})"),
            Type::Map(of) => return write!(f, "map({}, {})", of.0, of.1),
            Type::Optional(of) => return write!(f, "optional_type({of})"),
            Type::Type(Some(of)) => return write!(f, "type({of})"),
            Type::Param(name) => return write!(f, "{name}"),
            Type::Variable(number) => return write!(f, "_var{number}"),
        })
    }
}
