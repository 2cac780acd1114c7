//! A claim grows only where its class lets volumes grow.

use async_trait::async_trait;
use minik8s_meta::Quantity;
use serde_json::Value;

use super::{Admission, Operation, Request};
use crate::error::{ApiError, Result};
use crate::registry::Registry;

pub struct VolumeGrowth;

#[async_trait]
impl Admission for VolumeGrowth {
    async fn admit(&self, registry: &Registry, request: &mut Request<'_>) -> Result<()> {
        let Some(old) = request.old else { return Ok(()) };
        if request.operation != Operation::Update || !request.is_core("persistentvolumeclaims") {
            return Ok(());
        }
        let size =
            |claim: &Value| Quantity::from_json(&claim["spec"]["resources"]["requests"]["storage"]).ok();
        if size(request.object) <= size(old) {
            return Ok(());
        }
        let name = old["spec"]["storageClassName"].as_str().unwrap_or_default();
        let classes = registry.built_in("storage.k8s.io", "v1", "storageclasses")?;
        let all = registry.all(&classes, "").await?;
        let class = all.iter().find(|class| class["metadata"]["name"] == name);
        if class.is_some_and(|class| class["allowVolumeExpansion"] == true) {
            return Ok(());
        }
        let why = "only dynamically provisioned pvc can be resized and the storageclass that provisions the pvc must support resize";
        let claim = request.object["metadata"]["name"].as_str().unwrap_or_default().to_owned();
        Err(ApiError::forbidden(Some(request.call.served.resource()), &claim, why.to_owned()))
    }
}
