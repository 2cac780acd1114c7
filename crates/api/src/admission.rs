//! What a feature has to say about writes before they are validated: it may complete an object, or refuse it.
//!
//! A rule reads other objects and never writes them: what must be committed together with the object (quota, addresses) is
//! the API server's own work.

use async_trait::async_trait;
use jiff::Timestamp;
use serde_json::Value;
use thiserror::Error;

use crate::{Objects, ReadError, ResourceRef};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operation {
    Create,
    Update,
    Delete,
    /// A stream to a pod: exec, attach, port-forward, proxy.
    Connect,
}

impl Operation {
    /// As webhooks and policies call it.
    pub fn name(self) -> &'static str {
        match self {
            Operation::Create => "CREATE",
            Operation::Update => "UPDATE",
            Operation::Delete => "DELETE",
            Operation::Connect => "CONNECT",
        }
    }
}

/// A rule about writes, asked about all of them in the order of features.
#[async_trait]
pub trait AdmissionRule: Send + Sync {
    /// May change the object. It is asked again when webhooks or policies have changed it.
    async fn admit(
        &self,
        cluster: &dyn Objects,
        request: &mut AdmissionRequest<'_>,
    ) -> Result<(), AdmissionError>;
}

/// A write on its way to the store.
#[derive(Debug)]
pub struct AdmissionRequest<'a> {
    pub operation: Operation,
    pub resource: ResourceRef<'a>,
    pub subresource: &'a str,
    /// Empty for kinds that have none.
    pub namespace: &'a str,
    /// The new object; for a delete, a copy of the old one.
    pub object: &'a mut Value,
    pub old: Option<&'a Value>,
    pub now: Timestamp,
}

impl AdmissionRequest<'_> {
    /// True for the resource itself (not a subresource) of that name in the core group.
    pub fn is_core(&self, plural: &str) -> bool {
        self.subresource.is_empty() && self.resource.group.is_empty() && self.resource.plural == plural
    }
}

#[derive(Debug, Error)]
pub enum AdmissionError {
    /// Why the object may not be written so.
    #[error("{0}")]
    Forbidden(String),
    #[error(transparent)]
    Read(#[from] ReadError),
}
