//! A claim that names no storage class gets the default one.

use async_trait::async_trait;

use super::{Admission, Operation, Request};
use crate::error::Result;
use crate::registry::Registry;

const IS_DEFAULT: &str = "storageclass.kubernetes.io/is-default-class";

pub struct DefaultStorageClass;

#[async_trait]
impl Admission for DefaultStorageClass {
    async fn admit(&self, registry: &Registry, request: &mut Request<'_>) -> Result<()> {
        let is_new_claim =
            request.operation == Operation::Create && request.is_core("persistentvolumeclaims");
        if !is_new_claim || request.object["spec"]["storageClassName"].is_string() {
            return Ok(());
        }
        let classes = registry.built_in("storage.k8s.io", "v1", "storageclasses")?;
        let all = registry.all(&classes, "").await?;
        let defaults = all.iter().filter(|class| class["metadata"]["annotations"][IS_DEFAULT] == "true");
        // The newest wins, as upstream, so that a new default can be tried beside the old one.
        let newest =
            defaults.max_by_key(|class| class["metadata"]["creationTimestamp"].as_str().unwrap_or_default());
        if let Some(class) = newest {
            request.object["spec"]["storageClassName"] = class["metadata"]["name"].clone();
        }
        Ok(())
    }
}
