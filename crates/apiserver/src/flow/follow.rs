//! Follows FlowSchemas and PriorityLevelConfigurations, has requests limited by them as they are now, and says in the status
//! of each schema whether its level is there.

use std::sync::Arc;

use jiff::Timestamp;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::Configuration;
use crate::api::Api;
use crate::error::Result;
use crate::following;
use crate::object::Object;
use crate::registry::{Call, timestamp};

const GROUP: &str = "flowcontrol.apiserver.k8s.io";

/// Limits requests by the objects that are there now.
pub async fn load(api: &Api) -> Result<()> {
    let (schemas, levels) = (all(api, "flowschemas").await?, all(api, "prioritylevelconfigurations").await?);
    api.in_flight.configure(Configuration::new(&schemas, &levels));
    for schema in &schemas {
        tell(api, schema, &levels).await?;
    }
    Ok(())
}

/// Until `stop`.
pub async fn run(api: Arc<Api>, stop: CancellationToken) {
    following::always("following the objects of flow control", stop, || until_broken(&api)).await;
}

async fn until_broken(api: &Api) -> Result<()> {
    let store = &api.registry.store;
    let revision = store.revision().await?;
    let prefix =
        |plural| Ok::<_, crate::error::ApiError>(api.registry.built_in(GROUP, "v1", plural)?.prefix.clone());
    let mut schemas = store.watch(&prefix("flowschemas")?, revision).await?;
    let mut levels = store.watch(&prefix("prioritylevelconfigurations")?, revision).await?;
    load(api).await?;
    loop {
        let is_changed = tokio::select! {
            changed = following::changed(&mut schemas) => changed?,
            changed = following::changed(&mut levels) => changed?,
        };
        if !is_changed {
            return Ok(());
        }
        load(api).await?;
    }
}

async fn all(api: &Api, plural: &str) -> Result<Vec<Value>> {
    let served = api.registry.built_in(GROUP, "v1", plural)?;
    api.registry.all(&served, "").await
}

/// Whether the schema's level is missing, in the words that people know.
async fn tell(api: &Api, schema: &Value, levels: &[Value]) -> Result<()> {
    let wanted = dangling(schema, levels);
    if is_told(schema, &wanted) {
        return Ok(());
    }
    let served = api.registry.built_in(GROUP, "v1", "flowschemas")?;
    let call = Call { subresource: "status".to_owned(), ..Call::internal(served, "", schema.name()) };
    let changed = api.registry.change(&call, |old| {
        let mut new = old.clone();
        let others = conditions(old).filter(|condition| condition["type"] != "Dangling").cloned();
        new["status"]["conditions"] = others.chain([wanted.clone()]).collect();
        Ok(new)
    });
    match changed.await {
        Err(error) if error.code != 404 => Err(error),
        _ => Ok(()),
    }
}

fn dangling(schema: &Value, levels: &[Value]) -> Value {
    let level = schema["spec"]["priorityLevelConfiguration"]["name"].as_str().unwrap_or_default();
    let refers = format!("This FlowSchema references the PriorityLevelConfiguration object named {level:?}");
    let (status, reason, message) = match levels.iter().any(|known| known.name() == level) {
        true => ("False", "Found", format!("{refers} and it exists")),
        false => ("True", "NotFound", format!("{refers} but there is no such object")),
    };
    let now = timestamp(Timestamp::now());
    json!({"type": "Dangling", "status": status, "reason": reason, "message": message, "lastTransitionTime": now})
}

fn is_told(schema: &Value, wanted: &Value) -> bool {
    let same = |told: &Value| {
        ["type", "status", "reason", "message"].iter().all(|field| told[*field] == wanted[*field])
    };
    conditions(schema).any(same)
}

fn conditions(schema: &Value) -> impl Iterator<Item = &Value> {
    schema["status"]["conditions"].as_array().into_iter().flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_schema_without_its_level_dangles_and_is_told_once() {
        let mut schema = json!({"spec": {"priorityLevelConfiguration": {"name": "low"}}});
        let missing = dangling(&schema, &[]);
        assert_eq!((&missing["status"], &missing["reason"]), (&json!("True"), &json!("NotFound")));
        let found = dangling(&schema, &[json!({"metadata": {"name": "low"}})]);
        assert_eq!((&found["status"], &found["reason"]), (&json!("False"), &json!("Found")));
        assert!(!is_told(&schema, &found));
        schema["status"] = json!({"conditions": [{"type": "Other"}, found]});
        assert!(is_told(&schema, &found) && !is_told(&schema, &missing));
    }
}
