//! Checks the expressions of ValidatingAdmissionPolicies against the schemas of what they are about, and says in
//! `status.typeChecking` what looks wrong. A warning never changes what a policy does.
//!
//! Each generation is checked once, as upstream's controller does it: a schema that comes later is not looked at until
//! the policy changes.

mod declaration;
mod type_check;

use std::sync::Arc;
use std::time::Duration;

use minik8s_store::WatchItem;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::api::Api;
use crate::error::Result;
use crate::object::Object;
use crate::registry::Call;

const RETRY: Duration = Duration::from_secs(1);

/// Follows the policies until `stop`.
pub async fn run(api: Arc<Api>, stop: CancellationToken) {
    loop {
        let followed = tokio::select! {
            followed = follow(&api) => followed,
            () = stop.cancelled() => return,
        };
        if let Err(error) = followed {
            tracing::warn!(%error, "checking the types of admission policies failed; trying again");
        }
        tokio::select! {
            () = tokio::time::sleep(RETRY) => {}
            () = stop.cancelled() => return,
        }
    }
}

async fn follow(api: &Api) -> Result<()> {
    let registry = &api.registry;
    let served = registry.built_in("admissionregistration.k8s.io", "v1", "validatingadmissionpolicies")?;
    let revision = registry.store.revision().await?;
    let mut watch = registry.store.watch(&served.prefix, revision).await?;
    loop {
        for policy in registry.all(&served, "").await?.iter().filter(|policy| is_due(policy)) {
            let status = status(api, policy);
            let generation = generation(policy);
            let call = Call {
                subresource: "status".to_owned(),
                ..Call::internal(served.clone(), "", policy.name())
            };
            let changed = registry.change(&call, |old| {
                let mut new = old.clone();
                // Another generation is another check.
                if self::generation(old) == generation {
                    for field in ["observedGeneration", "typeChecking"] {
                        new["status"][field] = status[field].clone();
                    }
                }
                Ok(new)
            });
            match changed.await {
                Err(error) if error.code != 404 => return Err(error),
                _ => {}
            }
        }
        loop {
            match watch.next().await {
                Some(item) => match item? {
                    WatchItem::Event(_) => break,
                    WatchItem::Progress(_) => {}
                },
                None => return Ok(()),
            }
        }
    }
}

fn generation(policy: &Value) -> i64 {
    policy["metadata"]["generation"].as_i64().unwrap_or(1)
}

fn is_due(policy: &Value) -> bool {
    policy["status"]["observedGeneration"].as_i64().unwrap_or_default() < generation(policy)
}

fn status(api: &Api, policy: &Value) -> Value {
    let warnings = type_check::check(&api.registry.catalog.snapshot(), policy);
    let checking = match warnings.is_empty() {
        true => json!({}),
        false => json!({"expressionWarnings": warnings}),
    };
    json!({"observedGeneration": generation(policy), "typeChecking": checking})
}
