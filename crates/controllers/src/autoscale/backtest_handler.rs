//! `…/scalingdecisions/NAME/backtest?spec=JSON`: what the autoscaler would have decided over the last hour if its spec were
//! patched so (RFC 7386). It reads, and changes nothing; whoever may get it may ask.

use std::sync::Arc;

use async_trait::async_trait;
use http::{Response, StatusCode};
use jiff::Timestamp;
use k8s_openapi::api::autoscaling::v2::HorizontalPodAutoscalerSpec;
use minik8s_api::{Body, Handler, HandlerRequest, Objects, ResourceRef, Scope, respond};
use minik8s_runtime::Key;
use serde_json::{Value, json};

use super::backtest::{MOST_REPLICAS, backtest};
use super::pace::bounds;
use super::past::Pasts;

pub struct BacktestHandler(pub Arc<Pasts>);

/// A refusal: its code, its reason and why.
type Refusal = (StatusCode, &'static str, String);

#[async_trait]
impl Handler for BacktestHandler {
    async fn handle(&self, request: HandlerRequest, cluster: &dyn Objects) -> Response<Body> {
        match self.answer(&request, cluster).await {
            Ok(found) => respond(StatusCode::OK, "application/json", found.to_string()),
            Err((code, reason, message)) => {
                let status = json!({
                    "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
                    "code": code.as_u16(), "reason": reason, "message": message,
                });
                respond(code, "application/json", status.to_string())
            }
        }
    }
}

impl BacktestHandler {
    async fn answer(&self, request: &HandlerRequest, cluster: &dyn Objects) -> Result<Value, Refusal> {
        let (namespace, name) = (request.namespace.as_str(), request.name.as_str());
        let resource =
            ResourceRef { group: "autoscaling", version: "v2", plural: "horizontalpodautoscalers" };
        let scope = Scope { namespace, name: Some(name), now: Timestamp::now() };
        let failed = |error: String| (StatusCode::INTERNAL_SERVER_ERROR, "InternalError", error);
        let found = cluster.read(&resource, scope).await.map_err(|error| failed(error.to_string()))?;
        let missing = |what: String| (StatusCode::NOT_FOUND, "NotFound", what);
        let autoscaler = found.into_iter().next().ok_or_else(|| {
            missing(format!("there is no HorizontalPodAutoscaler {name} in namespace {namespace}"))
        })?;
        let spec = patched(&autoscaler["spec"], &request.query)
            .map_err(|why| (StatusCode::BAD_REQUEST, "BadRequest", why))?;
        let past =
            self.0.of(&Key::new(namespace, name)).filter(|past| past.pod.is_some()).ok_or_else(|| {
                missing(format!(
                    "nothing is remembered of the pods that {name} scales: they were not measured yet"
                ))
            })?;
        let of = namespace.to_owned();
        // Hundreds of decisions over hundreds of pods are some work.
        let played = tokio::task::spawn_blocking(move || backtest(&spec, &of, &past)).await;
        let played = played.map_err(|error| failed(error.to_string()))?;
        let played = played.ok_or_else(|| missing(format!("nothing is remembered of {name} yet")))?;
        serde_json::to_value(played).map_err(|error| failed(error.to_string()))
    }
}

/// The spec with the patch of the query, if that is one that can be played through.
fn patched(spec: &Value, query: &str) -> Result<HorizontalPodAutoscalerSpec, String> {
    let mut spec = spec.clone();
    let given = form_urlencoded::parse(query.as_bytes()).find(|(name, _)| name == "spec");
    if let Some((_, text)) = given.filter(|(_, text)| !text.is_empty()) {
        let patch: Value =
            serde_json::from_str(&text).map_err(|error| format!("spec is not JSON: {error}"))?;
        if !patch.is_object() {
            return Err("spec must be a JSON object, such as {\"maxReplicas\": 5}".to_owned());
        }
        merge(&mut spec, patch);
    }
    let spec: HorizontalPodAutoscalerSpec =
        serde_json::from_value(spec).map_err(|error| format!("this is no spec of an autoscaler: {error}"))?;
    let least = spec.min_replicas.unwrap_or(1);
    if spec.max_replicas < 1 || least < 0 || least > spec.max_replicas {
        return Err(format!(
            "minReplicas {least} and maxReplicas {} are no bounds: the first must be 0 or more, and not above the second",
            spec.max_replicas
        ));
    }
    if bounds(&spec).1 > MOST_REPLICAS {
        return Err(format!("maxReplicas of up to {MOST_REPLICAS} can be played through"));
    }
    Ok(spec)
}

fn merge(target: &mut Value, patch: Value) {
    let Value::Object(patch) = patch else {
        *target = patch;
        return;
    };
    if !target.is_object() {
        *target = json!({});
    }
    let Some(fields) = target.as_object_mut() else { return };
    for (name, value) in patch {
        match value {
            Value::Null => drop(fields.remove(&name)),
            value => merge(fields.entry(name).or_insert(Value::Null), value),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patch_of_the_query_is_taken_and_bounded() {
        let spec = json!({
            "scaleTargetRef": {"kind": "Deployment", "name": "web"}, "minReplicas": 2, "maxReplicas": 9,
            "behavior": {"scaleDown": {"stabilizationWindowSeconds": 60}},
        });
        let check = |patch: &str| {
            let query: String =
                form_urlencoded::Serializer::new(String::new()).append_pair("spec", patch).finish();
            patched(&spec, &query)
        };
        assert_eq!(patched(&spec, "").unwrap().max_replicas, 9);
        let changed =
            check(r#"{"maxReplicas": 5, "minReplicas": null, "behavior": {"scaleUp": {}}}"#).unwrap();
        assert_eq!((changed.min_replicas, changed.max_replicas), (None, 5));
        let behavior = changed.behavior.unwrap();
        assert!(behavior.scale_up.is_some() && behavior.scale_down.is_some());
        for (bad, why) in [
            ("{", "not JSON"),
            ("[1]", "a JSON object"),
            (r#"{"maxReplicas": 1}"#, "are no bounds"),
            (r#"{"maxReplicas": "many"}"#, "no spec of an autoscaler"),
            (r#"{"maxReplicas": 1000000}"#, "up to 300"),
        ] {
            let told = check(bad).unwrap_err();
            assert!(told.contains(why), "{bad}: {told}");
        }
    }
}
