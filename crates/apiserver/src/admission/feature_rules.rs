//! The rules that features hand in, which know nothing of the registry.

use std::sync::Arc;

use async_trait::async_trait;
use minik8s_api::{AdmissionError, AdmissionRequest, AdmissionRule, ResourceRef};

use super::{Admission, Request};
use crate::error::{ApiError, Result};
use crate::object::Object;
use crate::registry::Registry;

pub struct FeatureRules(pub Vec<Arc<dyn AdmissionRule>>);

#[async_trait]
impl Admission for FeatureRules {
    async fn admit(&self, registry: &Registry, request: &mut Request<'_>) -> Result<()> {
        let call = request.call;
        let served = call.served.resource();
        for rule in &self.0 {
            let mut asked = AdmissionRequest {
                operation: request.operation,
                resource: ResourceRef {
                    group: &served.group,
                    version: &served.version,
                    plural: &served.plural,
                },
                subresource: &call.subresource,
                namespace: &call.namespace,
                object: &mut *request.object,
                old: request.old,
                now: call.now,
            };
            rule.admit(registry, &mut asked).await.map_err(|error| match error {
                AdmissionError::Forbidden(why) => {
                    ApiError::forbidden(Some(served), request.object.name(), why)
                }
                AdmissionError::Read(error) => ApiError::internal(error),
            })?;
        }
        Ok(())
    }
}
