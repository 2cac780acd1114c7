//! Shows in aggregated ClusterRoles (admin, edit, view) the rules they stand for.
//!
//! Authorization does not need this copy: the policy aggregates by itself. People who read the role do.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::api::Api;
use crate::authorizer::Authorizer;
use crate::error::Result;
use crate::object::Object;
use crate::registry::{Call, Registry};

/// Changes of roles come in bursts; one pass follows each.
const QUIET: Duration = Duration::from_millis(100);

/// Keeps the copies current until `stop`.
pub async fn run(api: Arc<Api>, stop: CancellationToken) {
    loop {
        tokio::select! {
            _ = stop.cancelled() => return,
            _ = api.authorizer.policy_changed() => {}
        }
        tokio::time::sleep(QUIET).await;
        if let Err(error) = refresh(&api.registry, &api.authorizer).await {
            tracing::warn!(%error, "aggregated roles could not be brought up to date");
        }
    }
}

async fn refresh(registry: &Registry, authorizer: &Authorizer) -> Result<()> {
    let roles = registry.built_in("rbac.authorization.k8s.io", "v1", "clusterroles")?;
    for role in registry.all(&roles, "").await? {
        let Some(rules) = authorizer.policy().aggregated_rules(role.name()) else { continue };
        let rules = json!(rules);
        if rules == role["rules"] {
            continue;
        }
        let change = |old: &Value| {
            let mut new = old.clone();
            new["rules"] = rules.clone();
            Ok(new)
        };
        registry.change(&Call::internal(roles.clone(), "", role.name()), change).await?;
    }
    Ok(())
}
