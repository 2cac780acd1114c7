//! Which field has which number, JSON name and type: the facts of Kubernetes' `generated.proto` files.
//!
//! One file below `fields/` per package, read when the first body arrives. A message is a line with its
//! name, followed by a line per field: ` NUMBER NAME TYPE`, e.g. ` 4 immutable ?bool`.
//!
//! - TYPE is `string`, `int`, `bool`, `float`, `bytes`, a form of its own (`time`, `microtime`, `quantity`,
//!   `intorstring`, `json`, `strings`: see [`crate::special`]), or a message of this or, as
//!   `core.v1.PodSpec`, of another package.
//! - `[]` before it makes a list, `{}` a map with text keys.
//! - `?` marks a pointer of the Go type: it is sent only when it is set, so that its zero means something
//!   (`replicas: 0`). `!` marks a value that Go's JSON shows also when it is zero. Every other scalar is
//!   sent always and shown only when it is not zero.
//! - NAME `~` puts the fields of the message beside those of the outer one, as Go's embedded structs.
//! - A message line `NAME | a b` has no JSON form of its own: it stands for the first of its fields `a`,
//!   `b` that is there.

use std::collections::HashMap;
use std::sync::LazyLock;

/// apiVersion, name in the tables, table.
const PACKAGES: &[(&str, &str, &str)] = &[
    ("meta.k8s.io/v1", "meta.v1", include_str!("fields/meta.v1.txt")),
    ("v1", "core.v1", include_str!("fields/core.v1.txt")),
    (
        "admissionregistration.k8s.io/v1",
        "admissionregistration.v1",
        include_str!("fields/admissionregistration.v1.txt"),
    ),
    ("apiextensions.k8s.io/v1", "apiextensions.v1", include_str!("fields/apiextensions.v1.txt")),
    ("apiregistration.k8s.io/v1", "apiregistration.v1", include_str!("fields/apiregistration.v1.txt")),
    ("apps/v1", "apps.v1", include_str!("fields/apps.v1.txt")),
    ("authentication.k8s.io/v1", "authentication.v1", include_str!("fields/authentication.v1.txt")),
    ("authorization.k8s.io/v1", "authorization.v1", include_str!("fields/authorization.v1.txt")),
    ("autoscaling/v1", "autoscaling.v1", include_str!("fields/autoscaling.v1.txt")),
    ("autoscaling/v2", "autoscaling.v2", include_str!("fields/autoscaling.v2.txt")),
    ("batch/v1", "batch.v1", include_str!("fields/batch.v1.txt")),
    ("certificates.k8s.io/v1", "certificates.v1", include_str!("fields/certificates.v1.txt")),
    ("coordination.k8s.io/v1", "coordination.v1", include_str!("fields/coordination.v1.txt")),
    ("discovery.k8s.io/v1", "discovery.v1", include_str!("fields/discovery.v1.txt")),
    ("events.k8s.io/v1", "events.v1", include_str!("fields/events.v1.txt")),
    ("flowcontrol.apiserver.k8s.io/v1", "flowcontrol.v1", include_str!("fields/flowcontrol.v1.txt")),
    ("networking.k8s.io/v1", "networking.v1", include_str!("fields/networking.v1.txt")),
    ("node.k8s.io/v1", "node.v1", include_str!("fields/node.v1.txt")),
    ("policy/v1", "policy.v1", include_str!("fields/policy.v1.txt")),
    ("rbac.authorization.k8s.io/v1", "rbac.v1", include_str!("fields/rbac.v1.txt")),
    ("resource.k8s.io/v1", "resource.v1", include_str!("fields/resource.v1.txt")),
    ("scheduling.k8s.io/v1", "scheduling.v1", include_str!("fields/scheduling.v1.txt")),
    ("storage.k8s.io/v1", "storage.v1", include_str!("fields/storage.v1.txt")),
    ("storagemigration.k8s.io/v1", "storagemigration.v1", include_str!("fields/storagemigration.v1.txt")),
];

/// All messages.
pub(crate) struct Table {
    messages: Vec<Message>,
    by_name: HashMap<(&'static str, &'static str), usize>,
}

pub(crate) struct Message {
    pub package: &'static str,
    pub name: &'static str,
    /// By number.
    fields: Vec<Field>,
    /// By the name that they have in JSON, those of embedded structs too.
    places: HashMap<&'static str, Place>,
    /// The JSON form is the first of these fields that is there, not an object.
    pub either: Vec<&'static str>,
}

/// Where a field of the JSON form stands on the wire.
#[derive(Debug, Clone)]
pub(crate) struct Place {
    /// The numbers of the embedded structs around it, the outermost first.
    pub inside: Vec<u32>,
    pub field: Field,
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Field {
    pub number: u32,
    pub name: &'static str,
    pub ty: Type,
    pub shape: Shape,
    pub zero: Zero,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Type {
    Text,
    Integer,
    Boolean,
    Float,
    /// Base64 in JSON.
    Bytes,
    Time,
    MicroTime,
    Quantity,
    IntOrString,
    /// A message around bytes that are JSON.
    Json,
    /// A message around a list of texts.
    Strings,
    /// By its place in the table.
    Message(usize),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Shape {
    One,
    List,
    Map,
    /// The message's fields stand beside those of the outer one.
    Inline,
}

/// What becomes of an empty scalar.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Zero {
    /// It is as good as not there.
    Dropped,
    /// It was sent on purpose.
    Kept,
    /// It is shown even if it was not sent.
    Shown,
}

impl Table {
    pub(crate) fn get() -> &'static Table {
        static TABLE: LazyLock<Table> = LazyLock::new(|| {
            // The text is part of the program, and a test reads it: no input leads here.
            Table::parse(PACKAGES).expect("the tables of this crate are well-formed")
        });
        &TABLE
    }

    /// The message of a kind.
    pub(crate) fn kind(&self, api_version: &str, kind: &str) -> Option<&Message> {
        let package = match kind {
            // Clients send it in the group of what they delete.
            "DeleteOptions" => "meta.v1",
            // Answers have it in the group of no object.
            "Status" if api_version == "v1" => "meta.v1",
            _ => PACKAGES.iter().find(|package| package.0 == api_version)?.1,
        };
        self.by_name.get(&(package, kind)).map(|&index| &self.messages[index])
    }

    pub(crate) fn message(&self, index: usize) -> &Message {
        &self.messages[index]
    }

    fn parse(packages: &[(&str, &'static str, &'static str)]) -> Result<Table, String> {
        let mut by_name = HashMap::new();
        for &(_, package, text) in packages {
            for line in text.lines().filter(|line| !line.starts_with(' ')) {
                let name = line.split(' ').next().unwrap_or_default();
                if by_name.insert((package, name), by_name.len()).is_some() {
                    return Err(format!("{package}.{name} stands there twice"));
                }
            }
        }
        let mut messages: Vec<Message> = Vec::with_capacity(by_name.len());
        for &(_, package, text) in packages {
            for line in text.lines() {
                if !line.starts_with(' ') {
                    messages.push(message(package, line));
                    continue;
                }
                let field = field(package, line, &by_name).ok_or_else(|| format!("{package}: {line:?}"))?;
                let message = messages.last_mut().ok_or_else(|| format!("{package} starts with a field"))?;
                if message.fields.last().is_some_and(|before| before.number >= field.number) {
                    return Err(format!("{package}.{}: {line:?} is out of order", message.name));
                }
                message.fields.push(field);
            }
        }
        let mut table = Table { messages, by_name };
        for index in 0..table.messages.len() {
            table.messages[index].places = table.places(index, &[]);
        }
        Ok(table)
    }

    fn places(&self, message: usize, inside: &[u32]) -> HashMap<&'static str, Place> {
        let mut all = HashMap::new();
        for &field in &self.messages[message].fields {
            match (field.shape, field.ty) {
                (Shape::Inline, Type::Message(index)) => {
                    all.extend(self.places(index, &[inside, &[field.number]].concat()));
                }
                _ => drop(all.insert(field.name, Place { inside: inside.to_vec(), field })),
            }
        }
        all
    }
}

impl Message {
    pub(crate) fn field(&self, number: u32) -> Option<&Field> {
        let index = self.fields.binary_search_by_key(&number, |field| field.number).ok()?;
        Some(&self.fields[index])
    }

    pub(crate) fn fields(&self) -> &[Field] {
        &self.fields
    }

    pub(crate) fn place(&self, name: &str) -> Option<&Place> {
        self.places.get(name)
    }

    /// What such a JSON value means in a message that has no JSON form of its own.
    pub(crate) fn alternative(&self, shape: Shape, fits: impl Fn(Type) -> bool) -> Option<&Field> {
        let is_one = |field: &&Field| self.either.contains(&field.name);
        self.fields.iter().filter(is_one).find(|field| field.shape == shape && fits(field.ty))
    }
}

fn message(package: &'static str, line: &'static str) -> Message {
    let (name, either) = line.split_once(" | ").unwrap_or((line, ""));
    let either = either.split_ascii_whitespace().collect();
    Message { package, name, fields: Vec::new(), places: HashMap::new(), either }
}

fn field(
    package: &'static str,
    line: &'static str,
    by_name: &HashMap<(&'static str, &'static str), usize>,
) -> Option<Field> {
    let mut words = line.split_ascii_whitespace();
    let (number, name, ty) = (words.next()?.parse().ok()?, words.next()?, words.next()?);
    let (shape, ty) = match (ty.strip_prefix("[]"), ty.strip_prefix("{}")) {
        (Some(element), _) => (Shape::List, element),
        (_, Some(value)) => (Shape::Map, value),
        _ if name == "~" => (Shape::Inline, ty),
        _ => (Shape::One, ty),
    };
    let (zero, ty) = match (ty.strip_prefix('?'), ty.strip_prefix('!')) {
        (Some(pointer), _) => (Zero::Kept, pointer),
        (_, Some(value)) => (Zero::Shown, value),
        _ => (Zero::Dropped, ty),
    };
    let ty = match ty {
        "string" => Type::Text,
        "int" => Type::Integer,
        "bool" => Type::Boolean,
        "float" => Type::Float,
        "bytes" => Type::Bytes,
        "time" => Type::Time,
        "microtime" => Type::MicroTime,
        "quantity" => Type::Quantity,
        "intorstring" => Type::IntOrString,
        "json" => Type::Json,
        "strings" => Type::Strings,
        message => Type::Message(*by_name.get(&message.rsplit_once('.').unwrap_or((package, message)))?),
    };
    words.next().is_none().then_some(Field { number, name, ty, shape, zero })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &'static str, expected: Result<(), &str>) {
        let got = Table::parse(&[("a/v1", "a.v1", text)]).map(|_| ());
        assert_eq!(got.as_ref().map_err(String::as_str), expected.as_ref().map_err(|e| *e), "{text}");
    }

    #[test]
    fn malformed_tables_are_refused() {
        check("M\n 1 name string\n 2 next M\n", Ok(()));
        check("M\nM\n", Err("a.v1.M stands there twice"));
        check(" 1 name string\n", Err("a.v1 starts with a field"));
        check("M\n 2 a string\n 1 b string\n", Err("a.v1.M: \" 1 b string\" is out of order"));
        check("M\n 1 a strin\n", Err("a.v1: \" 1 a strin\""));
        check("M\n 1 a\n", Err("a.v1: \" 1 a\""));
        check("M\n 1 a string more\n", Err("a.v1: \" 1 a string more\""));
        check("M\n x a string\n", Err("a.v1: \" x a string\""));
    }

    #[test]
    fn the_tables_are_well_formed() {
        let table = Table::get();
        for message in &table.messages {
            for field in &message.fields {
                let place = format!("{}.{}.{}", message.package, message.name, field.name);
                let is_message = matches!(field.ty, Type::Message(_));
                assert!(field.shape != Shape::Inline || is_message, "{place}: only messages are inlined");
                let scalar = matches!(field.ty, Type::Text | Type::Integer | Type::Boolean | Type::Float)
                    && field.shape == Shape::One;
                assert!(field.zero == Zero::Dropped || scalar, "{place}: only scalars have marks");
            }
            for name in &message.either {
                assert!(message.fields.iter().any(|f| f.name == *name), "{}: {name}", message.name);
            }
        }
    }
}
