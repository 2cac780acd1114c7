//! ComponentStatus: the server's own checks as objects, made when asked for and never stored.

use std::sync::Arc;

use async_trait::async_trait;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::ComponentStatus;
use minik8s_api::{Cell, Column, Computed, Objects, ReadError, Resource, Scope, Strategy, table};
use serde_json::{Value, json};

use crate::health::Health;

pub fn resource(health: Arc<Health>) -> Resource {
    Resource::of::<ComponentStatus>(Components).short(&["cs"]).computed(Checks(health))
}

struct Components;

impl Strategy for Components {
    fn warnings(&self, _object: &Value) -> Vec<String> {
        vec!["v1 ComponentStatus is deprecated in v1.19+".to_owned()]
    }

    fn columns(&self) -> Option<Vec<Column>> {
        Some(table::texts(&["Name", "Status", "Message", "Error"]))
    }

    fn row(&self, object: &Value, _now: Timestamp) -> Vec<Cell> {
        let mut conditions = object["conditions"].as_array().into_iter().flatten();
        let healthy = conditions.find(|condition| condition["type"] == "Healthy");
        let text =
            |field: &str| healthy.map_or(String::new(), |condition| table::text_or(&condition[field], ""));
        let status = match healthy.and_then(|condition| condition["status"].as_str()) {
            Some("True") => "Healthy",
            Some("False") => "Unhealthy",
            _ => "Unknown",
        };
        vec![table::name(object), status.into(), text("message").into(), text("error").into()]
    }
}

/// The checks of this server.
struct Checks(Arc<Health>);

#[async_trait]
impl Computed for Checks {
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
