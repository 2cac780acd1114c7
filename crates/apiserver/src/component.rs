//! ComponentStatus: the server's own checks as objects, made when asked for and never stored.

use std::sync::Arc;

use async_trait::async_trait;
use minik8s_api::{Computed, Objects, ReadError, Scope};
use serde_json::{Value, json};

use crate::health::Health;

/// The checks of this server.
pub struct Components(pub Arc<Health>);

#[async_trait]
impl Computed for Components {
    async fn objects(&self, _cluster: &dyn Objects, scope: Scope<'_>) -> Result<Vec<Value>, ReadError> {
        let found = self.0.checks().await.into_iter();
        let asked = found.filter(|(name, _)| scope.name.is_none_or(|wanted| wanted == *name));
        Ok(asked.map(|(name, outcome)| object(name, outcome)).collect())
    }
}

fn object(name: &str, found: Result<(), String>) -> Value {
    let condition = match found {
        Ok(()) => json!({"type": "Healthy", "status": "True", "message": "ok"}),
        Err(why) => json!({"type": "Healthy", "status": "False", "error": why}),
    };
    json!({"apiVersion": "v1", "kind": "ComponentStatus", "metadata": {"name": name}, "conditions": [condition]})
}
