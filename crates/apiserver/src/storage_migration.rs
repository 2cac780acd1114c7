//! StorageVersionMigrations (`storagemigration.k8s.io`): each is carried out once, by writing the objects of its resource
//! again where they lie in an old form, and says in its conditions how that went. It never changes what an object is.

use std::sync::Arc;

use jiff::Timestamp;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::api::Api;
use crate::catalog::Served;
use crate::error::{ApiError, Result};
use crate::following;
use crate::object::Object;
use crate::registry::Call;

/// Follows the migrations until `stop`.
pub async fn run(api: Arc<Api>, stop: CancellationToken) {
    following::always("migrating stored objects", stop, || follow(&api)).await;
}

async fn follow(api: &Api) -> Result<()> {
    let registry = &api.registry;
    let served = registry.built_in("storagemigration.k8s.io", "v1", "storageversionmigrations")?;
    let revision = registry.store.revision().await?;
    let mut watch = registry.store.watch(&served.prefix, revision).await?;
    loop {
        for migration in registry.all(&served, "").await?.iter().filter(|migration| !is_over(migration)) {
            migrate(api, &served, migration).await?;
        }
        if !following::changed(&mut watch).await? {
            return Ok(());
        }
    }
}

async fn migrate(api: &Api, served: &Arc<Served>, migration: &Value) -> Result<()> {
    tell(api, served, migration, "Running", "StorageVersionMigrationInProgress", "").await?;
    let wanted = &migration["spec"]["resource"];
    let (group, plural) =
        (wanted["group"].as_str().unwrap_or_default(), wanted["resource"].as_str().unwrap_or_default());
    let outcome = match resource(api, group, plural) {
        Some(resource) => api.registry.rewrite_all(&resource).await,
        None => Err(ApiError::bad_request(format!(
            "no resource {plural:?} of the group {group:?} is stored here"
        ))),
    };
    match outcome {
        Ok(written) => {
            tracing::info!(resource = plural, group, written, "stored objects were migrated");
            let message = format!("{written} objects were written again");
            tell(api, served, migration, "Succeeded", "StorageVersionMigrationSucceeded", &message).await
        }
        Err(error) => {
            tracing::warn!(resource = plural, group, %error, "stored objects could not be migrated");
            tell(api, served, migration, "Failed", "StorageVersionMigrationFailed", &error.message).await
        }
    }
}

/// In the version that is stored, where it is served; else in any.
fn resource(api: &Api, group: &str, plural: &str) -> Option<Arc<Served>> {
    let snapshot = api.registry.catalog.snapshot();
    let of = || snapshot.resources().iter().filter(|served| served.group == group && served.plural == plural);
    of().find(|served| served.stored_as.is_none()).or_else(|| of().next()).cloned()
}

/// Sets the condition, which ends the others.
async fn tell(
    api: &Api,
    served: &Arc<Served>,
    migration: &Value,
    condition: &str,
    reason: &str,
    message: &str,
) -> Result<()> {
    let call =
        Call { subresource: "status".to_owned(), ..Call::internal(served.clone(), "", migration.name()) };
    let revision = api.registry.store.revision().await?.to_string();
    let now = Timestamp::now().round(jiff::Unit::Second).unwrap_or_default().to_string();
    let told = api.registry.change(&call, |old| {
        let mut new = old.clone();
        if new.uid() != migration.uid() || is_over(old) {
            return Ok(new);
        }
        let was_running = condition != "Running" && old["status"]["conditions"].is_array();
        let mut conditions =
            vec![json!({"type": condition, "status": "True", "reason": reason, "message": message,
            "lastTransitionTime": now})];
        if was_running {
            let ended = json!({"type": "Running", "status": "False", "reason": reason, "message": "",
                "lastTransitionTime": now});
            conditions.insert(0, ended);
        }
        new["status"]["conditions"] = conditions.into();
        if new["status"]["resourceVersion"].is_null() {
            new["status"]["resourceVersion"] = revision.as_str().into();
        }
        Ok(new)
    });
    match told.await {
        Err(error) if error.code != 404 => Err(error),
        _ => Ok(()),
    }
}

fn is_over(migration: &Value) -> bool {
    let conditions = migration["status"]["conditions"].as_array().into_iter().flatten();
    let mut over =
        conditions.filter(|condition| condition["type"] == "Succeeded" || condition["type"] == "Failed");
    over.any(|condition| condition["status"] == "True")
}
