//! A row of a table, from a stored object: `kubectl get` of thousands of objects.
//!
//! The cells come from the few fields that the kind's columns look at, and the metadata beside them is a copy of
//! the stored bytes. Only kinds whose stored form is not the served one are parsed as a whole.

use jiff::Timestamp;
use minik8s_api::{Cell, Column, FieldPath};
use minik8s_store::Entry;
use serde_json::Value;
use serde_json::value::RawValue;

use crate::catalog::Served;
use crate::codec;
use crate::error::{ApiError, Result};
use crate::field_tree::FieldTree;
use crate::form::Include;
use crate::managed_fields::WithoutManagedFields;

/// What the columns of kinds without their own look at.
const NAME_AND_AGE: &[FieldPath] = &[&["metadata", "name"], &["metadata", "creationTimestamp"]];

/// The kind's columns.
pub fn columns_of(served: &Served) -> Vec<Column> {
    let default = || vec![Column::new("Name", "string"), Column::new("Age", "date")];
    served.strategy.columns().unwrap_or_else(default)
}

/// A cell for each of them.
pub fn cells_of(served: &Served, object: &Value, now: Timestamp) -> Vec<Cell> {
    cells(served, served.strategy.columns().is_some(), object, now)
}

fn cells(served: &Served, has_columns: bool, object: &Value, now: Timestamp) -> Vec<Cell> {
    match has_columns {
        true => served.strategy.row(object, now),
        false => vec![object["metadata"]["name"].clone(), minik8s_api::age(object, now)],
    }
}

/// Rows of one table.
pub struct Rows {
    include: Include,
    now: Timestamp,
    /// Whether the kind has columns of its own: to make them for each row would cost more than the row.
    has_columns: bool,
    /// All that the cells are made of; None if that may be anything.
    fields: Option<FieldTree>,
}

impl Rows {
    pub fn new(served: &Served, include: Include, now: Timestamp) -> Self {
        let has_columns = served.strategy.columns().is_some();
        let paths = if has_columns { served.strategy.row_paths() } else { Some(NAME_AND_AGE) };
        Rows { include, now, has_columns, fields: paths.map(FieldTree::new) }
    }

    /// Appends the row of a stored object to `out`.
    pub fn write(&self, served: &Served, entry: &Entry, out: &mut Vec<u8>) -> Result<()> {
        let value = &entry.value;
        if !codec::is_served_form(served, value) {
            let object = codec::decode(served, entry)?;
            let cells = cells(served, self.has_columns, &object, self.now);
            return serde_json::to_writer(out, &self.include.row(cells, object)).map_err(ApiError::internal);
        }
        let (object, metadata) = self.read(served, value)?;
        let cells = cells(served, self.has_columns, &object, self.now);
        out.extend_from_slice(b"{\"cells\":");
        serde_json::to_writer(&mut *out, &cells).map_err(ApiError::internal)?;
        match self.include {
            Include::None => {}
            Include::Object => {
                out.extend_from_slice(b",\"object\":");
                codec::write_object(served, value, entry.revision, out)?;
            }
            Include::Metadata => {
                out.extend_from_slice(
                    b",\"object\":{\"kind\":\"PartialObjectMetadata\",\"apiVersion\":\"meta.k8s.io/v1\",\"metadata\":{",
                );
                codec::write_version(entry.revision, out);
                out.extend_from_slice(&metadata[1..]);
                out.push(b'}');
            }
        }
        out.push(b'}');
        Ok(())
    }

    /// What the cells are made of, and the bytes of the metadata.
    fn read<'a>(&self, served: &Served, value: &'a [u8]) -> Result<(Value, &'a [u8])> {
        let object = match &self.fields {
            Some(fields) => match fields.read_beside_metadata(value) {
                Some(read) => return Ok(read),
                None => fields.read(value),
            },
            None => serde_json::from_slice(value).map(|WithoutManagedFields(object)| object),
        };
        Ok((object.map_err(ApiError::internal)?, metadata(served, value)?))
    }
}

/// The bytes of the metadata, which stand where every stored form has them.
fn metadata<'a>(served: &Served, value: &'a [u8]) -> Result<&'a [u8]> {
    let from = value.get(served.head.len() - 1..).unwrap_or_default();
    let mut values = serde_json::Deserializer::from_slice(from).into_iter::<&RawValue>();
    let raw = values.next().ok_or_else(|| ApiError::internal("an object without metadata"))?;
    Ok(raw.map_err(ApiError::internal)?.get().as_bytes())
}
