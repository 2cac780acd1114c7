//! Rules about writes that span several objects: one file each, one line in [`Chain::standard`].
//!
//! `admit` runs before validation and may change the object; `review` runs after it and may add to the
//! commit, so that what it counts (quota, addresses) changes atomically with the object; `release` gives
//! back what a vanishing object held. Webhooks and policies will be further entries of the chain.

mod creation;
mod definition_lifecycle;
mod limit_ranger;
mod namespace_lifecycle;
mod node_restriction;
mod priority;
mod quota;
mod rbac_escalation;
mod requester;
mod runtime_class;
mod service_account;
mod service_address;
mod storage_class;

use async_trait::async_trait;
use minik8s_store::Commit;
use serde_json::Value;

pub use service_address::AddressRanges;

use crate::authorizer::Authorizer;
use crate::error::Result;
use crate::registry::{Call, Registry};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operation {
    Create,
    Update,
    Delete,
}

/// A write on its way to the store.
pub struct Request<'a> {
    pub call: &'a Call,
    pub operation: Operation,
    /// The new object; for a delete, a copy of the old one.
    pub object: &'a mut Value,
    pub old: Option<&'a Value>,
    /// What is to be committed together with the object.
    pub also: &'a mut Commit,
}

impl<'a> Request<'a> {
    pub fn new(
        call: &'a Call,
        operation: Operation,
        object: &'a mut Value,
        old: Option<&'a Value>,
        also: &'a mut Commit,
    ) -> Self {
        Request { call, operation, object, old, also }
    }

    /// True for the resource itself (not a subresource) of that name in the core group.
    pub fn is_core(&self, plural: &str) -> bool {
        self.call.subresource.is_empty()
            && self.call.served.group.is_empty()
            && self.call.served.plural == plural
    }
}

#[async_trait]
pub trait Admission: Send + Sync {
    async fn admit(&self, _registry: &Registry, _request: &mut Request<'_>) -> Result<()> {
        Ok(())
    }

    async fn review(&self, _registry: &Registry, _request: &mut Request<'_>) -> Result<()> {
        Ok(())
    }

    async fn release(&self, _registry: &Registry, _request: &mut Request<'_>) -> Result<()> {
        Ok(())
    }
}

/// All rules, in order.
pub struct Chain(Vec<Box<dyn Admission>>);

impl Chain {
    pub fn standard(authorizer: std::sync::Arc<Authorizer>, addresses: AddressRanges) -> Self {
        Chain(vec![
            Box::new(creation::Creation { authorizer: authorizer.clone() }),
            Box::new(namespace_lifecycle::NamespaceLifecycle),
            Box::new(node_restriction::NodeRestriction),
            Box::new(definition_lifecycle::DefinitionLifecycle),
            Box::new(rbac_escalation::RbacEscalation { authorizer }),
            Box::new(requester::Requester),
            Box::new(service_account::ServiceAccounts),
            Box::new(priority::Priority),
            Box::new(runtime_class::RuntimeClasses),
            Box::new(storage_class::DefaultStorageClass),
            Box::new(limit_ranger::LimitRanger),
            Box::new(service_address::ServiceAddresses { ranges: addresses }),
            // Last: it counts what the others let through.
            Box::new(quota::Quota),
        ])
    }

    pub async fn admit(&self, registry: &Registry, request: &mut Request<'_>) -> Result<()> {
        for rule in &self.0 {
            rule.admit(registry, request).await?;
        }
        Ok(())
    }

    pub async fn review(&self, registry: &Registry, request: &mut Request<'_>) -> Result<()> {
        for rule in &self.0 {
            rule.review(registry, request).await?;
        }
        Ok(())
    }

    pub async fn release(&self, registry: &Registry, request: &mut Request<'_>) -> Result<()> {
        for rule in &self.0 {
            rule.release(registry, request).await?;
        }
        Ok(())
    }
}
