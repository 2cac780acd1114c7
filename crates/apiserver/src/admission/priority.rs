//! A pod's priority comes from its class.

use async_trait::async_trait;
use serde_json::Value;

use super::{Admission, Operation, Request};
use crate::error::{ApiError, Result};
use crate::object::{Object, object_at};
use crate::registry::Registry;

pub struct Priority;

#[async_trait]
impl Admission for Priority {
    async fn admit(&self, registry: &Registry, request: &mut Request<'_>) -> Result<()> {
        if request.operation != Operation::Create || !request.is_core("pods") {
            return Ok(());
        }
        let classes = registry.built_in("scheduling.k8s.io", "v1", "priorityclasses")?;
        let wanted = request.object["spec"]["priorityClassName"].as_str().unwrap_or_default().to_owned();
        let class = if wanted.is_empty() {
            let all = registry.all(&classes, "").await?;
            let defaults = all.into_iter().filter(|class| class["globalDefault"] == true);
            defaults.min_by_key(|class| class["value"].as_i64().unwrap_or(0))
        } else {
            match registry.look(&classes, "", &wanted).await {
                Ok(class) => Some(class),
                Err(e) if e.code == 404 => {
                    let why = format!("no PriorityClass with name {wanted} was found");
                    let resource = Some(request.call.served.resource());
                    return Err(ApiError::forbidden(resource, request.object.name(), why));
                }
                Err(e) => return Err(e),
            }
        };
        let value = class.as_ref().and_then(|class| class["value"].as_i64()).unwrap_or(0);
        let policy = class
            .as_ref()
            .and_then(|class| class["preemptionPolicy"].as_str())
            .unwrap_or("PreemptLowerPriority");
        let given = request.object["spec"]["priority"].as_i64();
        if given.is_some_and(|given| given != value) {
            let why = format!(
                "the integer value of priority ({}) must not be provided in pod spec; priority admission controller computed {value} from the given PriorityClass name",
                given.unwrap_or(0)
            );
            return Err(ApiError::forbidden(
                Some(request.call.served.resource()),
                request.object.name(),
                why,
            ));
        }
        let spec = object_at(request.object, "spec");
        if let Some(class) = &class {
            spec.insert("priorityClassName".into(), class["metadata"]["name"].clone());
        }
        spec.insert("priority".into(), value.into());
        if spec.get("preemptionPolicy").is_none_or(Value::is_null) {
            spec.insert("preemptionPolicy".into(), policy.into());
        }
        Ok(())
    }
}
