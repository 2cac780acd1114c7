//! Administrative access to devices passes over everyone else's claims: only namespaces that an administrator has
//! labelled for it may ask for it.

use async_trait::async_trait;
use serde_json::Value;

use super::{Admission, Operation, Request};
use crate::error::{ApiError, Result};
use crate::registry::Registry;

const LABEL: &str = "resource.kubernetes.io/admin-access";

pub struct AdminAccess;

#[async_trait]
impl Admission for AdminAccess {
    async fn review(&self, registry: &Registry, request: &mut Request<'_>) -> Result<()> {
        let call = request.call;
        let spec = match (call.served.group.as_str(), call.served.plural.as_str()) {
            ("resource.k8s.io", "resourceclaims") => &request.object["spec"],
            ("resource.k8s.io", "resourceclaimtemplates") => &request.object["spec"]["spec"],
            _ => return Ok(()),
        };
        if request.operation != Operation::Create || !wants_admin(spec) {
            return Ok(());
        }
        let namespaces = registry.built_in("", "v1", "namespaces")?;
        let key = namespaces.key("", &call.namespace);
        let namespace = match registry.store.get(&key).await? {
            Some(entry) => serde_json::from_slice::<Value>(&entry.value).unwrap_or_default(),
            None => Value::Null,
        };
        if namespace["metadata"]["labels"][LABEL] == "true" {
            return Ok(());
        }
        let why =
            format!("admin access to devices requires the `{LABEL}: true` label on the containing namespace");
        Err(ApiError::forbidden(Some(call.served.resource()), request.name(), why))
    }
}

fn wants_admin(spec: &Value) -> bool {
    let requests = spec["devices"]["requests"].as_array().into_iter().flatten();
    requests.into_iter().any(|request| request["exactly"]["adminAccess"] == true)
}
