//! Kinds that are questions: created, answered, never stored.

use std::sync::Arc;

use bytes::Bytes;
use http::Response;
use http::header::{ACCEPT, CONTENT_TYPE};
use minik8s_auth::{Attributes, Decision, User};
use serde_json::{Value, json};

use crate::answer::{self, Body};
use crate::api::Api;
use crate::dispatch::Incoming;
use crate::error::{ApiError, Result};
use crate::form::Accepted;
use crate::registry::Call;

pub async fn answer<B>(api: &Arc<Api>, call: &Call, mut incoming: Incoming<B>) -> Result<Response<Body>>
where
    B: http_body::Body<Data = Bytes> + Send + Unpin + 'static,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let accepted = Accepted::parse_whole(incoming.header(ACCEPT))?;
    let content_type = incoming.header(CONTENT_TYPE).to_owned();
    let body = incoming.body().await?;
    let mut object = api.registry.decode_body(call, &content_type, &body)?;
    let status = match call.served.kind.as_str() {
        "Binding" => {
            let pod = object["metadata"]["name"].as_str().unwrap_or_default().to_owned();
            return crate::subresource::bind(api, call, &pod, &object).await;
        }
        "SelfSubjectReview" => json!({"userInfo": user_info(&call.user)}),
        "TokenReview" => token_review(api, &object["spec"]).await,
        "SelfSubjectAccessReview" => access(api, &call.user, &object["spec"]).await?,
        "SubjectAccessReview" => access(api, &subject(&object["spec"])?, &object["spec"]).await?,
        "LocalSubjectAccessReview" => {
            if object["spec"]["resourceAttributes"]["namespace"].as_str().unwrap_or_default()
                != call.namespace
            {
                let text = "spec.resourceAttributes.namespace must match metadata.namespace";
                return Err(ApiError::bad_request(text));
            }
            access(api, &subject(&object["spec"])?, &object["spec"]).await?
        }
        "SelfSubjectRulesReview" => rules(api, &call.user, &object["spec"])?,
        _ => return Err(ApiError::no_such_resource()),
    };
    object["status"] = status;
    answer::object(201, &accepted.form.shape_one(&call.served, object, false), accepted.encoding)
}

fn user_info(user: &User) -> Value {
    let mut info = json!({"username": user.name, "groups": user.groups});
    if !user.uid.is_empty() {
        info["uid"] = user.uid.as_str().into();
    }
    if !user.extra.is_empty() {
        info["extra"] = json!(user.extra);
    }
    info
}

async fn token_review(api: &Arc<Api>, spec: &Value) -> Value {
    let token = spec["token"].as_str().unwrap_or_default();
    let asked = spec["audiences"].as_array().into_iter().flatten().filter_map(Value::as_str);
    let asked: Vec<String> = asked.map(str::to_owned).collect();
    match api.authenticator.review_token(&api.registry, token, &asked).await {
        Ok((user, audiences)) => {
            let mut status = json!({"authenticated": true, "user": user_info(&user)});
            if !audiences.is_empty() {
                status["audiences"] = json!(audiences);
            }
            status
        }
        Err(why) => json!({"user": {}, "error": why}),
    }
}

/// The user whom a SubjectAccessReview asks about.
fn subject(spec: &Value) -> Result<User> {
    let texts = |value: &Value| -> Vec<String> {
        value.as_array().into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect()
    };
    let user = User {
        name: spec["user"].as_str().unwrap_or_default().to_owned(),
        uid: spec["uid"].as_str().unwrap_or_default().to_owned(),
        groups: texts(&spec["groups"]),
        extra: spec["extra"].as_object().into_iter().flatten().map(|(k, v)| (k.clone(), texts(v))).collect(),
    };
    if user.name.is_empty() && user.groups.is_empty() {
        return Err(ApiError::bad_request("spec.user: at least one of user or group must be specified"));
    }
    Ok(user)
}

async fn access(api: &Arc<Api>, user: &User, spec: &Value) -> Result<Value> {
    let (resource, path) = (&spec["resourceAttributes"], &spec["nonResourceAttributes"]);
    let text = |value: &'_ Value, field: &str| value[field].as_str().unwrap_or_default().to_owned();
    let judged = match (resource.is_object(), path.is_object()) {
        (true, false) => {
            let part = |field: &str| text(resource, field);
            let (verb, group, version, plural) =
                (part("verb"), part("group"), part("version"), part("resource"));
            let (namespace, name, sub) = (part("namespace"), part("name"), part("subresource"));
            let wanted = Attributes::resource(&verb, &group, &plural)
                .in_namespace(&namespace)
                .named(&name)
                .subresource(&sub)
                .version(&version);
            api.authorizer.judge(user, &wanted).await
        }
        (false, true) => {
            let (verb, path) = (text(path, "verb"), text(path, "path"));
            api.authorizer.judge(user, &Attributes::path(&verb, &path)).await
        }
        _ => {
            let text = "exactly one of spec.resourceAttributes and spec.nonResourceAttributes must be given";
            return Err(ApiError::bad_request(text));
        }
    };
    let decision = judged.decision;
    let mut status = json!({"allowed": decision.is_allowed()});
    if matches!(decision, Decision::Deny { .. }) {
        status["denied"] = true.into();
    }
    if let Some(error) = judged.error {
        status["evaluationError"] = error.into();
    }
    if !decision.reason().is_empty() {
        status["reason"] = decision.reason().into();
    }
    Ok(status)
}

fn rules(api: &Arc<Api>, user: &User, spec: &Value) -> Result<Value> {
    let namespace = spec["namespace"].as_str().unwrap_or_default();
    if namespace.is_empty() {
        return Err(ApiError::bad_request("spec.namespace: no namespace on request"));
    }
    let mut status = api.authorizer.policy().rules_review(user, namespace);
    if api.authorizer.has_webhooks() {
        status["incomplete"] = true.into();
        status["evaluationError"] = "webhook authorizer does not support user rule resolution".into();
    }
    Ok(status)
}
