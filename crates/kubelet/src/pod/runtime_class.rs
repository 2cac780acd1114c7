//! The runtime handler of a pod: what its RuntimeClass calls the way to run it.
//!
//! Asked for once per sandbox and only for pods that name a class, so there is nothing to watch or to cache.

use k8s_openapi::api::node::v1::RuntimeClass;
use kube::Api;
use thiserror::Error;

use super::desired_pod::DesiredPod;

#[derive(Debug, Error)]
pub enum RuntimeClassError {
    #[error("RuntimeClass \"{0}\" not found")]
    Missing(String),
    #[error("cannot look up RuntimeClass \"{0}\": {1}")]
    Unknown(String, kube::Error),
}

/// Empty for the node's default.
pub async fn handler(client: &kube::Client, desired_pod: &DesiredPod) -> Result<String, RuntimeClassError> {
    let name = desired_pod.spec().and_then(|spec| spec.runtime_class_name.clone());
    let Some(name) = name.filter(|name| !name.is_empty()) else { return Ok(String::new()) };
    let classes: Api<RuntimeClass> = Api::all(client.clone());
    match classes.get_opt(&name).await {
        Ok(Some(class)) => Ok(class.handler),
        Ok(None) => Err(RuntimeClassError::Missing(name)),
        Err(error) => Err(RuntimeClassError::Unknown(name, error)),
    }
}
