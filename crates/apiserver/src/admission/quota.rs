//! ResourceQuotas: what a namespace may use in total.
//!
//! The quota's new usage is written in the same commit as the object it counts, so concurrent creates can
//! never exceed it. Usage goes down when the quota controller counts again after a delete.

use async_trait::async_trait;
use minik8s_api::Quantity;
use minik8s_api::quota::{self, Usage};
use minik8s_store::{Condition, Op, Range};
use serde_json::Value;

use super::{Admission, Operation, Request};
use crate::codec;
use crate::error::{ApiError, Result};
use crate::object::{Object, object_at};
use crate::registry::Registry;

pub struct Quota;

#[async_trait]
impl Admission for Quota {
    async fn review(&self, registry: &Registry, request: &mut Request<'_>) -> Result<()> {
        let call = request.call;
        let counts =
            request.operation != Operation::Delete && call.subresource.is_empty() && call.served.namespaced;
        if !counts {
            return Ok(());
        }
        let served = registry.built_in("", "v1", "resourcequotas")?;
        let range = Range { prefix: served.keys_in(&call.namespace), ..Range::default() };
        let page = registry.store.range(range).await?;
        if page.entries.is_empty() {
            return Ok(());
        }
        let before = request
            .old
            .map(|old| quota::usage_of(&call.served.group, &call.served.plural, old))
            .unwrap_or_default();
        let after = quota::usage_of(&call.served.group, &call.served.plural, request.object);
        let growth = quota::growth(&before, &after);
        if growth.is_empty() {
            return Ok(());
        }
        for entry in &page.entries {
            let mut object = codec::decode(&served, entry)?;
            if !quota::applies(&object, request.object) {
                continue;
            }
            if request.is_core("pods") {
                check_specified(request, &object)?;
            }
            if !charge(request, &mut object, &growth)? {
                continue;
            }
            request.also.conditions.push(Condition { key: entry.key.to_string(), revision: entry.revision });
            let value = codec::encode(&served, &object)?;
            request.also.ops.push(Op::Put { key: entry.key.to_string(), value });
        }
        Ok(())
    }
}

/// What cannot be counted cannot be limited: a limited resource must be given for every container.
fn check_specified(request: &Request<'_>, quota: &Value) -> Result<()> {
    let hard: Vec<&str> =
        quota["spec"]["hard"].as_object().into_iter().flatten().map(|(name, _)| name.as_str()).collect();
    let missing = quota::unspecified(&hard, request.object);
    if missing.is_empty() {
        return Ok(());
    }
    let why = format!("failed quota: {}: must specify {}", quota.name(), missing.join("; "));
    Err(ApiError::forbidden(Some(request.call.served.resource()), request.object.name(), why))
}

/// Adds the growth to the quota's usage; true if it counts any of it. Refuses when a hard limit is passed.
fn charge(request: &Request<'_>, quota: &mut Value, growth: &Usage) -> Result<bool> {
    let hard = quota["spec"]["hard"].as_object().cloned().unwrap_or_default();
    let relevant: Vec<(&String, Quantity)> = hard
        .iter()
        .filter(|(name, _)| growth.contains_key(name.as_str()))
        .filter_map(|(name, limit)| Some((name, limit.as_str()?.parse().ok()?)))
        .collect();
    if relevant.is_empty() {
        return Ok(false);
    }
    let used = quota["status"]["used"].clone();
    let (mut asked, mut have, mut allowed) = (Vec::new(), Vec::new(), Vec::new());
    let mut totals = Vec::new();
    for (name, limit) in relevant {
        let so_far: Quantity = used[name].as_str().and_then(|text| text.parse().ok()).unwrap_or_default();
        let more = growth[name.as_str()];
        let total = so_far + more;
        if total > limit {
            asked.push(format!("{name}={more}"));
            have.push(format!("{name}={so_far}"));
            allowed.push(format!("{name}={limit}"));
        }
        totals.push((name.clone(), total));
    }
    if !asked.is_empty() {
        let why = format!(
            "exceeded quota: {}, requested: {}, used: {}, limited: {}",
            quota.name(),
            asked.join(","),
            have.join(","),
            allowed.join(",")
        );
        return Err(ApiError::forbidden(Some(request.call.served.resource()), request.object.name(), why));
    }
    object_at(quota, "status");
    let status = object_at(&mut quota["status"], "used");
    for (name, total) in totals {
        status.insert(name, total.to_string().into());
    }
    Ok(true)
}
