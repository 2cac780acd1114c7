//! No object of a custom kind is created once its definition is going away.
//!
//! The catalog says so too, but a request may have looked there a moment earlier. Without this rule its
//! object would outlive the definition, unseen, until a definition of the same name brings it back.

use async_trait::async_trait;
use minik8s_store::Condition;

use super::{Admission, Operation, Request};
use crate::error::{ApiError, Result};
use crate::object::Object;
use crate::registry::Registry;

pub struct DefinitionLifecycle;

#[async_trait]
impl Admission for DefinitionLifecycle {
    async fn admit(&self, registry: &Registry, request: &mut Request<'_>) -> Result<()> {
        let served = &request.call.served;
        if request.operation != Operation::Create || !served.is_custom() {
            return Ok(());
        }
        let definitions = registry.built_in("apiextensions.k8s.io", "v1", "customresourcedefinitions")?;
        let key = definitions.key("", &served.qualified());
        let Some(entry) = registry.store.get(&key).await? else {
            return Err(ApiError::no_such_resource());
        };
        if crate::codec::decode(&definitions, &entry)?.is_terminating() {
            let why = "create not allowed while custom resource definition is terminating";
            return Err(ApiError::new(405, "MethodNotAllowed", why));
        }
        // It must still be as seen when the object is stored.
        request.also.conditions.push(Condition { key, revision: entry.revision });
        Ok(())
    }
}
