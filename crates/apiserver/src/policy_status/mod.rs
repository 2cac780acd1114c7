//! Checks the expressions of ValidatingAdmissionPolicies against the schemas of what they are about, and says in
//! `status.typeChecking` what looks wrong. A warning never changes what a policy does.
//!
//! Each generation is checked once, as upstream's controller does it: a schema that comes later is not looked at until
//! the policy changes.

mod declaration;
mod type_check;

use std::sync::Arc;

use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::api::Api;
use crate::error::Result;
use crate::following;
use crate::object::Object;
use crate::registry::Call;

/// Follows the policies until `stop`.
pub async fn run(api: Arc<Api>, stop: CancellationToken) {
    following::always("checking the types of admission policies", stop, || follow(&api)).await;
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
        if !following::changed(&mut watch).await? {
            return Ok(());
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
