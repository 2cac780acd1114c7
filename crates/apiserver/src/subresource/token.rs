//! `serviceaccounts/token`: a token for an account, bound to a pod, node or secret if asked.

use std::sync::Arc;

use http::Response;
use jiff::SignedDuration;
use minik8s_api::{FieldErrors, Path};
use minik8s_auth::service_account_token::{ObjectRef, TokenSpec};
use serde_json::{Value, json};

use super::token_audience;
use crate::answer::{self, Body};
use crate::api::Api;
use crate::error::{ApiError, Result};
use crate::object::{Object, object_at};
use crate::registry::{Call, timestamp};

const SHORTEST: i64 = 600;
const LONGEST: i64 = 1 << 32;
const DEFAULT: i64 = 3600;
/// What pods ask for; such tokens live a year and warn clients that never renew, as upstream's do.
const POD_TOKEN: i64 = 3607;
const EXTENDED: i64 = 365 * 24 * 3600;

pub async fn issue(api: &Arc<Api>, call: &Call, mut request: Value) -> Result<Response<Body>> {
    let account = api.registry.get(&call.served, &call.namespace, &call.name).await?;
    let options = &api.authenticator.service_account_tokens;
    let wanted = check_seconds(call, &request["spec"]["expirationSeconds"])?;
    let seconds = options.max_expiration_seconds.map_or(wanted, |longest| wanted.min(longest));
    if seconds < wanted {
        call.warn(format!("requested expiration of {wanted} seconds shortened to {seconds} seconds"));
    }
    let audiences = request["spec"]["audiences"].as_array().into_iter().flatten();
    let audiences: Vec<String> = audiences.filter_map(Value::as_str).map(str::to_owned).collect();
    let mut spec = TokenSpec {
        namespace: call.namespace.clone(),
        service_account: ObjectRef::new(&call.name, account.uid()),
        audiences,
        ..TokenSpec::default()
    };
    let pod = bind(api, call, &request["spec"]["boundObjectRef"], &mut spec).await?;
    check_node(call, &spec)?;
    if call.user.node_name().is_some() {
        token_audience::check(api, call, &pod, &spec.audiences).await?;
    }
    let for_api_server =
        spec.audiences.is_empty() || spec.audiences == api.authenticator.issuer.api_audiences();
    let is_extended = !options.is_not_extended && seconds == POD_TOKEN;
    let lifetime = if is_extended && spec.pod.is_some() && for_api_server {
        spec.warn_after = Some(SignedDuration::from_secs(seconds));
        EXTENDED
    } else {
        seconds
    };
    let token = api
        .authenticator
        .issuer
        .issue(&spec, SignedDuration::from_secs(lifetime), call.now)
        .map_err(ApiError::internal)?;
    object_at(&mut request, "spec");
    if spec.audiences.is_empty() {
        request["spec"]["audiences"] = json!(api.authenticator.issuer.api_audiences());
    }
    request["kind"] = "TokenRequest".into();
    request["apiVersion"] = "authentication.k8s.io/v1".into();
    request["metadata"] = json!({
        "name": call.name, "namespace": call.namespace, "creationTimestamp": timestamp(call.now),
    });
    request["spec"]["expirationSeconds"] = seconds.into();
    let end = call.now + SignedDuration::from_secs(seconds);
    request["status"] = json!({"token": token, "expirationTimestamp": timestamp(end)});
    Ok(answer::json(201, &request))
}

/// A node asks for the tokens of its own pods only.
fn check_node(call: &Call, spec: &TokenSpec) -> Result<()> {
    let Some(node) = call.user.node_name() else { return Ok(()) };
    if spec.pod.is_some() && spec.node.as_ref().is_some_and(|bound| bound.name == node) {
        return Ok(());
    }
    let why = format!("node {node:?} may request tokens bound to pods on itself only");
    Err(ApiError::forbidden(Some(call.served.resource()), &call.name, why))
}

fn check_seconds(call: &Call, given: &Value) -> Result<i64> {
    let seconds = match given {
        Value::Null => return Ok(DEFAULT),
        value => value
            .as_i64()
            .ok_or_else(|| ApiError::bad_request("spec.expirationSeconds: must be a whole number"))?,
    };
    let why = match seconds {
        ..SHORTEST => "may not specify a duration less than 10 minutes",
        s if s > LONGEST => "may not specify a duration larger than 2^32 seconds",
        _ => return Ok(seconds),
    };
    let mut errors = FieldErrors::default();
    errors.invalid(Path::new("spec").field("expirationSeconds"), seconds, why);
    Err(ApiError::invalid("authentication.k8s.io", "TokenRequest", &call.name, errors))
}

/// Looks the bound object up and gives it back, null if there is none. It must exist, and a pod must run as this account.
async fn bind(api: &Arc<Api>, call: &Call, reference: &Value, spec: &mut TokenSpec) -> Result<Value> {
    if reference.is_null() {
        return Ok(Value::Null);
    }
    let name = reference["name"].as_str().unwrap_or_default();
    let wanted_uid = reference["uid"].as_str().unwrap_or_default();
    let (plural, namespace) = match reference["kind"].as_str() {
        Some("Pod") => ("pods", call.namespace.as_str()),
        Some("Secret") => ("secrets", call.namespace.as_str()),
        Some("Node") => ("nodes", ""),
        other => {
            let text = format!("cannot bind token for serviceaccount to object of kind {other:?}");
            return Err(ApiError::bad_request(text));
        }
    };
    let served = api.registry.built_in("", "v1", plural)?;
    let object = api.registry.get(&served, namespace, name).await?;
    if !wanted_uid.is_empty() && wanted_uid != object.uid() {
        let why = format!(
            "the UID in the bound object reference ({wanted_uid}) does not match the UID in record ({})",
            object.uid()
        );
        return Err(ApiError::conflict(served.resource(), name, why));
    }
    let bound = ObjectRef::new(name, object.uid());
    match plural {
        "pods" => {
            if object["spec"]["serviceAccountName"] != call.name.as_str() {
                let text = format!(
                    "cannot bind token for serviceaccount {:?} to pod running with different serviceaccount name.",
                    call.name
                );
                return Err(ApiError::bad_request(text));
            }
            if let Some(node) = object["spec"]["nodeName"].as_str().filter(|node| !node.is_empty()) {
                let nodes = api.registry.built_in("", "v1", "nodes")?;
                let uid = api
                    .registry
                    .get(&nodes, "", node)
                    .await
                    .map(|node| node.uid().to_owned())
                    .unwrap_or_default();
                spec.node = Some(ObjectRef::new(node, &uid));
            }
            spec.pod = Some(bound);
        }
        "secrets" => spec.secret = Some(bound),
        _ => spec.node = Some(bound),
    }
    Ok(object)
}
