//! `pods/eviction`: a delete that disruption budgets may refuse.
//!
//! The budget is charged in a commit of its own before the delete; a crash in between costs at most one
//! allowed disruption until the budget's controller counts again.

use std::sync::Arc;

use http::Response;
use minik8s_api::LabelSelector;
use serde_json::{Value, json};

use super::success;
use crate::answer::Body;
use crate::api::Api;
use crate::error::{ApiError, Result};
use crate::object::{Object, object_at};
use crate::registry::{Call, DeleteOptions, timestamp};
use crate::request::Query;

pub async fn evict(api: &Arc<Api>, call: &Call, eviction: &Value) -> Result<Response<Body>> {
    let options = match &eviction["deleteOptions"] {
        Value::Null => DeleteOptions::default(),
        given => DeleteOptions::parse(&Query::default(), given.clone())?,
    };
    let mut call = call.on(&call.namespace, &call.name);
    call.options.dry_run |= options.dry_run;
    call.subresource = String::new();
    let pod = api.registry.get(&call.served, &call.namespace, &call.name).await?;
    if counts_against_budget(&pod) {
        charge_budget(api, &call, &pod).await?;
    }
    mark_disrupted(api, &call, &pod).await?;
    api.registry.delete(&call, &options).await?;
    Ok(success(201))
}

/// Whoever looks at the pod's end (a Job's failure policy) can tell that it was not its own fault.
async fn mark_disrupted(api: &Arc<Api>, call: &Call, pod: &Value) -> Result<()> {
    if call.options.dry_run || pod.is_terminating() {
        return Ok(());
    }
    let mut on_status = call.on(&call.namespace, &call.name);
    on_status.subresource = "status".to_owned();
    on_status.options.field_manager = String::new();
    let condition = json!({
        "type": "DisruptionTarget",
        "status": "True",
        "reason": "EvictionByEvictionAPI",
        "message": "Eviction API: evicting",
        "lastTransitionTime": timestamp(call.now),
    });
    api.registry
        .change(&on_status, |old| {
            let mut new = old.clone();
            let conditions = object_at(&mut new, "status").entry("conditions").or_insert_with(|| json!([]));
            if let Some(all) = conditions.as_array_mut() {
                all.retain(|known| known["type"] != "DisruptionTarget");
                all.push(condition.clone());
            }
            Ok(new)
        })
        .await?;
    Ok(())
}

/// Pods that are done, dying or not yet running disrupt nothing.
fn counts_against_budget(pod: &Value) -> bool {
    !pod.is_terminating()
        && !matches!(pod["status"]["phase"].as_str(), Some("Succeeded" | "Failed" | "Pending"))
}

async fn charge_budget(api: &Arc<Api>, call: &Call, pod: &Value) -> Result<()> {
    let budgets = api.registry.built_in("policy", "v1", "poddisruptionbudgets")?;
    let all = api.registry.all(&budgets, &call.namespace).await?;
    let mut matching = all.iter().filter(|budget| {
        let selector = LabelSelector::from_value(budget["spec"].get("selector"));
        selector.is_ok_and(|selector| selector.matches(pod.labels()))
    });
    let Some(budget) = matching.next() else { return Ok(()) };
    if matching.next().is_some() {
        let text = "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.";
        return Err(ApiError::internal(text));
    }
    if is_unready_and_free(budget, pod) {
        return Ok(());
    }
    let mut on_budget = call.on(&call.namespace, budget.name());
    on_budget.served = budgets;
    on_budget.subresource = "status".to_owned();
    on_budget.options.field_manager = String::new();
    let now = timestamp(call.now);
    api.registry
        .change(&on_budget, |old| {
            let status = &old["status"];
            let behind = status["observedGeneration"].as_i64().unwrap_or(0)
                < old["metadata"]["generation"].as_i64().unwrap_or(0);
            let allowed = status["disruptionsAllowed"].as_i64().unwrap_or(0);
            if behind || allowed <= 0 {
                return Err(refusal(old, behind));
            }
            let mut new = old.clone();
            let status = object_at(&mut new, "status");
            status.insert("disruptionsAllowed".into(), (allowed - 1).into());
            object_at(&mut new["status"], "disruptedPods").insert(call.name.clone(), now.as_str().into());
            Ok(new)
        })
        .await?;
    Ok(())
}

/// `AlwaysAllow` lets unready pods go whatever the budget says.
fn is_unready_and_free(budget: &Value, pod: &Value) -> bool {
    let conditions = pod["status"]["conditions"].as_array().into_iter().flatten();
    let ready = conditions.into_iter().any(|c| c["type"] == "Ready" && c["status"] == "True");
    let healthy = budget["status"]["currentHealthy"].as_i64().unwrap_or(0);
    let desired = budget["status"]["desiredHealthy"].as_i64().unwrap_or(0);
    let policy = budget["spec"]["unhealthyPodEvictionPolicy"].as_str();
    !ready && (policy == Some("AlwaysAllow") || (healthy >= desired && desired > 0))
}

fn refusal(budget: &Value, behind: bool) -> ApiError {
    let name = budget.name();
    let (healthy, desired) = (&budget["status"]["currentHealthy"], &budget["status"]["desiredHealthy"]);
    let cause = match behind {
        true => format!("The disruption budget {name} is still being processed by the server."),
        false => {
            format!("The disruption budget {name} needs {desired} healthy pods and has {healthy} currently")
        }
    };
    let text = "Cannot evict pod as it would violate the pod's disruption budget.";
    ApiError::too_many_requests(10, text).caused_by("DisruptionBudget", &cause, "")
}
