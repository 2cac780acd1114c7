//! Where the objects of a kind come from.

use std::sync::Arc;

use async_trait::async_trait;
use jiff::Timestamp;
use serde_json::Value;
use thiserror::Error;

use crate::Stored;

/// Where the objects of a kind come from.
#[derive(Clone, Default)]
pub enum Backing {
    /// The store keeps them.
    #[default]
    Stored,
    /// They are questions: created, answered and forgotten.
    Review,
    /// They are made when somebody reads them.
    Computed(Arc<dyn Computed>),
}

/// Makes the objects of a kind when they are read. They can be listed and got, not watched or written.
#[async_trait]
pub trait Computed: Send + Sync {
    /// The objects in the scope, in the order of their names. Selectors are applied by whoever asks.
    async fn objects(&self, cluster: &dyn Objects, scope: Scope<'_>) -> Result<Vec<Value>, ReadError>;
}

/// Which objects are asked for, and when.
#[derive(Debug, Clone, Copy)]
pub struct Scope<'a> {
    /// Empty for all namespaces, and for kinds that have none.
    pub namespace: &'a str,
    /// Only the object of that name.
    pub name: Option<&'a str>,
    pub now: Timestamp,
}

/// The objects that the store keeps, for reading.
#[async_trait]
pub trait Objects: Send + Sync {
    /// The objects in the scope, without `managedFields`.
    async fn read(&self, resource: &ResourceRef<'_>, scope: Scope<'_>) -> Result<Vec<Value>, ReadError>;

    /// All objects of a kind, none of them parsed yet.
    async fn stored(&self, resource: &ResourceRef<'_>) -> Result<Stored, ReadError>;

    /// When the store was at which `resourceVersion`, the oldest that can still be read at first.
    fn moments(&self) -> Vec<(Timestamp, u64)> {
        Vec::new()
    }
}

/// A resource by its place in the API.
#[derive(Debug, Clone, Copy)]
pub struct ResourceRef<'a> {
    pub group: &'a str,
    pub version: &'a str,
    pub plural: &'a str,
}

/// The store could not be read.
#[derive(Debug, Error)]
#[error("{0}")]
pub struct ReadError(pub String);
