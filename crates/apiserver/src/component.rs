//! ComponentStatus: the server's own checks as objects, made when asked for and never stored.

use http::Response;
use serde_json::{Value, json};

use crate::answer::{self, Body};
use crate::api::Api;
use crate::error::{ApiError, Result};
use crate::form::Accepted;
use crate::health;
use crate::registry::Call;

/// One of them, or all if the call names none.
pub async fn answer(api: &Api, call: &Call, accepted: &Accepted) -> Result<Response<Body>> {
    let mut objects = Vec::new();
    for (name, found) in health::checks(api).await {
        objects.push(object(name, found));
    }
    let body = if call.name.is_empty() {
        accepted.form.shape_list(&call.served, json!({}), objects)
    } else {
        let one = objects.into_iter().find(|object| object["metadata"]["name"] == call.name.as_str());
        let one = one.ok_or_else(|| ApiError::not_found(&call.served, &call.name))?;
        accepted.form.shape_one(&call.served, one, false)
    };
    answer::object(200, &body, accepted.yaml)
}

fn object(name: &str, found: std::result::Result<(), String>) -> Value {
    let condition = match found {
        Ok(()) => json!({"type": "Healthy", "status": "True", "message": "ok"}),
        Err(why) => json!({"type": "Healthy", "status": "False", "error": why}),
    };
    json!({"apiVersion": "v1", "kind": "ComponentStatus", "metadata": {"name": name}, "conditions": [condition]})
}
