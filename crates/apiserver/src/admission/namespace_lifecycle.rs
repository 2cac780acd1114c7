//! Nothing is created in a namespace that does not exist or is going away; the first ones stay.

use async_trait::async_trait;
use minik8s_store::Condition;

use super::{Admission, Operation, Request};
use crate::error::{ApiError, Result};
use crate::object::Object;
use crate::registry::Registry;

/// Namespaces that cannot be deleted.
const PERMANENT: [&str; 3] = ["default", "kube-system", "kube-public"];

pub struct NamespaceLifecycle;

#[async_trait]
impl Admission for NamespaceLifecycle {
    async fn admit(&self, registry: &Registry, request: &mut Request<'_>) -> Result<()> {
        let call = request.call;
        if request.operation == Operation::Delete {
            if request.is_core("namespaces") && PERMANENT.contains(&call.name.as_str()) {
                let why = "this namespace may not be deleted";
                return Err(ApiError::forbidden(Some(call.served.resource()), &call.name, why));
            }
            return Ok(());
        }
        if request.operation != Operation::Create || !call.served.namespaced {
            return Ok(());
        }
        let namespaces = registry.built_in("", "v1", "namespaces")?;
        let key = namespaces.key("", &call.namespace);
        let Some(entry) = registry.store.get(&key).await? else {
            return Err(ApiError::not_found(namespaces.resource(), &call.namespace));
        };
        if crate::codec::is_terminating(&entry)? {
            let why = format!(
                "unable to create new content in namespace {} because it is being terminated",
                call.namespace
            );
            let error = ApiError::forbidden(Some(call.served.resource()), request.object.name(), why);
            let message = format!("namespace {} is being terminated", call.namespace);
            return Err(error.caused_by("NamespaceTerminating", &message, "metadata.namespace"));
        }
        // The namespace must still be as seen when the object is stored: none is left behind in a dead one.
        request.also.conditions.push(Condition { key, revision: entry.revision });
        Ok(())
    }
}
