//! What a feature keeps beside an object of its own: bytes under names, in the store but outside of objects.
//!
//! They are for what would bloat an object and is looked at seldom, as the history of a run. No watch serves them, and
//! they go in the commit that removes their object (`Strategy::keeps_records`).

use async_trait::async_trait;
use bytes::Bytes;
use thiserror::Error;

use crate::ResourceRef;

/// The records of all objects.
#[async_trait]
pub trait Records: Send + Sync {
    /// Those of the object with this UID, in the order of their names.
    async fn read(&self, uid: &str) -> Result<Vec<Record>, RecordsError>;

    /// Changes several at once, or none of them. Durable when it returns.
    async fn write(&self, uid: &str, change: RecordChange<'_>) -> Result<RecordOutcome, RecordsError>;

    /// Counts up an annotation of the object, so that whoever watches it looks at its records.
    async fn touch(&self, owner: Owner<'_>, annotation: &str) -> Result<(), RecordsError>;
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    pub name: String,
    pub value: Bytes,
    /// When it was written.
    pub revision: u64,
}

#[derive(Debug, Default)]
pub struct RecordChange<'a> {
    /// Made anew: none of them may exist.
    pub create: Vec<(String, Bytes)>,
    pub remove: Vec<String>,
    /// A record that must not have been written since.
    pub unchanged: Option<(&'a str, u64)>,
    /// Only while the object itself is as it was at this version.
    pub owner: Option<OwnerVersion<'a>>,
}

/// An object that has records.
#[derive(Debug, Clone, Copy)]
pub struct Owner<'a> {
    pub resource: ResourceRef<'a>,
    pub namespace: &'a str,
    pub name: &'a str,
}

/// An object as somebody saw it.
#[derive(Debug, Clone, Copy)]
pub struct OwnerVersion<'a> {
    pub object: Owner<'a>,
    pub revision: u64,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RecordOutcome {
    /// At this revision.
    Written(u64),
    /// Something was not as it had to be, and nothing has changed.
    Conflict,
}

/// The store did not answer.
#[derive(Debug, Error)]
#[error("{0}")]
pub struct RecordsError(pub String);
