//! The tables against the schemas: every field of every kind has its number and the right type.

use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;

use k8s_openapi::api::{authentication, autoscaling, core, policy};
use k8s_openapi::apimachinery::pkg::apis::meta::v1 as meta;
use minik8s_api::openapi::{schema_for, schema_of};
use minik8s_schema::{Schema, Type as SchemaType};

use crate::table::{Field, Message, Shape, Table, Type};

/// Fields whose messages are of an alpha version, which is not served. A client that sends one in protobuf
/// gets a warning that the field was ignored; in JSON it is taken.
const WITHOUT_NUMBER: &[&str] = &["batch.v1.JobSpec.scheduling"];

/// Bodies that are refused, and the client told to send JSON: our own kinds have no protobuf form, and nobody sends
/// metrics.
const WITHOUT_TABLE: &[&str] = &["DNS", "ScalingDecision", "NodeMetrics", "PodMetrics"];

#[test]
fn every_field_of_every_kind_has_its_number() {
    let mut walk = Walk::default();
    for resource in minik8s_kinds::all() {
        let found = Table::get().kind(&resource.api_version(), &resource.kind);
        assert_eq!(found.is_none(), WITHOUT_TABLE.contains(&resource.kind.as_str()), "{}", resource.kind);
        if let Some(message) = found {
            walk.object(message, &schema_of(&resource), true);
        }
    }
    let bodies: [(&str, &str, Arc<Schema>); 5] = [
        ("v1", "DeleteOptions", schema_for::<meta::DeleteOptions>()),
        ("autoscaling/v1", "Scale", schema_for::<autoscaling::v1::Scale>()),
        ("policy/v1", "Eviction", schema_for::<policy::v1::Eviction>()),
        ("v1", "Binding", schema_for::<core::v1::Binding>()),
        ("authentication.k8s.io/v1", "TokenRequest", schema_for::<authentication::v1::TokenRequest>()),
    ];
    for (api_version, kind, schema) in bodies {
        walk.object(Table::get().kind(api_version, kind).unwrap(), &schema, true);
    }
    assert!(walk.wrong.is_empty(), "{:#?}", walk.wrong);
    let missing: Vec<&str> = walk.missing.iter().map(String::as_str).collect();
    assert_eq!(missing, WITHOUT_NUMBER);
}

#[derive(Default)]
struct Walk {
    seen: HashSet<(&'static str, &'static str)>,
    missing: BTreeSet<String>,
    wrong: Vec<String>,
}

impl Walk {
    /// `is_kind`: has apiVersion and kind, which stand in the envelope.
    fn object(&mut self, message: &Message, schema: &Schema, is_kind: bool) {
        if schema.fields.is_empty() || !self.seen.insert((message.package, message.name)) {
            return;
        }
        let fields = flat(message);
        for (name, schema) in &schema.fields {
            let place = format!("{}.{}.{name}", message.package, message.name);
            match fields.iter().find(|field| *field.name == **name) {
                Some(field) => self.field(&place, field, schema),
                None if is_kind && matches!(&**name, "apiVersion" | "kind") => {}
                // An object inside another: Go leaves its type out of the protobuf form.
                None if name_of_type(name) && schema_is_kind(&fields) => {}
                None => drop(self.missing.insert(place)),
            }
        }
        for field in fields.iter().filter(|field| !schema.fields.contains_key(field.name)) {
            self.wrong.push(format!("{}.{}.{} is no field", message.package, message.name, field.name));
        }
    }

    fn field(&mut self, place: &str, field: &Field, schema: &Schema) {
        let (schema, fits) = match field.shape {
            Shape::List => (schema.items.as_deref(), schema.ty == SchemaType::Array),
            Shape::Map => (schema.values.as_deref(), schema.ty == SchemaType::Object),
            Shape::One | Shape::Inline => (Some(schema), true),
        };
        let Some(schema) = schema.filter(|_| fits) else {
            return self.wrong.push(format!("{place} is {:?}", field.shape));
        };
        let expected: &[SchemaType] = match field.ty {
            Type::Text | Type::Bytes | Type::Time | Type::MicroTime => &[SchemaType::String],
            Type::Integer => &[SchemaType::Integer],
            Type::Boolean => &[SchemaType::Boolean],
            Type::Float => &[SchemaType::Number],
            Type::Quantity | Type::IntOrString => &[SchemaType::IntOrString],
            Type::Json => &[SchemaType::Object, SchemaType::Any],
            Type::Strings => &[SchemaType::Array],
            Type::Message(_) => &[SchemaType::Object, SchemaType::Any],
        };
        let bytes = schema.format.as_deref() == Some("byte");
        let time = schema.format.as_deref() == Some("date-time");
        let marked =
            bytes == (field.ty == Type::Bytes) && time == matches!(field.ty, Type::Time | Type::MicroTime);
        if !expected.contains(&schema.ty) || !marked {
            self.wrong.push(format!("{place} is {:?}, {:?} in the schema", field.ty, schema.ty));
        }
        if let Type::Message(index) = field.ty {
            self.object(Table::get().message(index), schema, false);
        }
    }
}

/// The fields with those of embedded structs, as JSON shows them.
fn flat(message: &Message) -> Vec<Field> {
    let mut all = Vec::new();
    for field in message.fields() {
        match (field.shape, field.ty) {
            (Shape::Inline, Type::Message(index)) => all.extend(flat(Table::get().message(index))),
            _ => all.push(*field),
        }
    }
    all
}

fn name_of_type(name: &str) -> bool {
    matches!(name, "apiVersion" | "kind")
}

/// Whether a message is an object or options, which have their type in the envelope.
fn schema_is_kind(fields: &[Field]) -> bool {
    fields.iter().any(|f| matches!(f.name, "metadata" | "gracePeriodSeconds"))
}
