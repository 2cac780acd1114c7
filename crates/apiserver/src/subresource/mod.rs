//! Subresources beyond `status`: one file each.

mod binding;
mod connect;
mod eviction;
mod partial;
mod scale;
mod token;
mod token_audience;

use std::sync::Arc;

use bytes::Bytes;
use http::Response;
use http::header::CONTENT_TYPE;
use k8s_openapi::api::authentication::v1::TokenRequest;
use k8s_openapi::api::core::v1::Binding;
use k8s_openapi::api::policy::v1::Eviction;
use minik8s_api::Subresource;
use serde::de::DeserializeOwned;
use serde_json::Value;

pub use partial::restrict;

use crate::admission::Operation;
use crate::answer::{self, Body};
use crate::api::Api;
use crate::dispatch::Incoming;
use crate::error::{ApiError, Result};
use crate::handler;
use crate::registry::{Call, PatchKind, Written};

pub async fn answer<B>(api: &Arc<Api>, call: &Call, mut incoming: Incoming<B>) -> Result<Response<Body>>
where
    B: http_body::Body<Data = Bytes> + Send + Unpin + 'static,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    if let Some(handler) = call.served.handler(&call.subresource) {
        let verbs = call.served.subresources.iter().find_map(|one| match one {
            Subresource::Other { name, verbs, .. } if *name == call.subresource => Some(*verbs),
            _ => None,
        });
        return match verbs.is_some_and(|verbs| verbs.contains(&incoming.info.verb.as_str())) {
            true => handler::answer(api, &*handler.clone(), incoming).await,
            false => Err(ApiError::method_not_allowed(incoming.request.method())),
        };
    }
    let verb = incoming.info.verb.clone();
    let content_type = incoming.header(CONTENT_TYPE).to_owned();
    match (call.subresource.as_str(), verb.as_str()) {
        ("log" | "exec" | "attach" | "portforward" | "proxy", _) => {
            if call.subresource != "log" {
                let options = connect::options(call, &incoming.query);
                api.registry.admission.ask(&api.registry, call, Operation::Connect, &options).await?;
            }
            api.node_proxy.answer(api, call, incoming).await
        }
        ("scale", "get" | "update" | "patch") => scale::answer(api, call, &mut incoming).await,
        ("binding", "create") => {
            let body = typed_body::<Binding, _>(call, &mut incoming).await?;
            api.registry.admission.ask(&api.registry, call, Operation::Create, &body).await?;
            binding::bind(api, call, &call.name, &body).await
        }
        ("eviction", "create") => {
            let body = typed_body::<Eviction, _>(call, &mut incoming).await?;
            api.registry.admission.ask(&api.registry, call, Operation::Create, &body).await?;
            eviction::evict(api, call, &body).await
        }
        ("token", "create") => {
            let body = typed_body::<TokenRequest, _>(call, &mut incoming).await?;
            api.registry.admission.ask(&api.registry, call, Operation::Create, &body).await?;
            token::issue(api, call, body).await
        }
        ("approval" | "finalize" | "ephemeralcontainers" | "resize", verb) => {
            let accepted = incoming.accepted()?;
            let written = match verb {
                "get" => Written {
                    object: api.registry.get(&call.served, &call.namespace, &call.name).await?,
                    managed: None,
                    stored: None,
                    created: false,
                },
                "update" => {
                    let body = incoming.body().await?;
                    let object = api.registry.decode_body(call, &content_type, &body)?;
                    api.registry.update(call, object).await?
                }
                "patch" => {
                    let kind = PatchKind::of(&content_type)?;
                    let body = incoming.body().await?;
                    api.registry.patch(call, kind, &body).await?
                }
                _ => return Err(ApiError::method_not_allowed(incoming.request.method())),
            };
            api.written(call, &accepted, written)
        }
        _ => Err(ApiError::method_not_allowed(incoming.request.method())),
    }
}

pub use binding::bind;

/// A body of a kind that is not the resource's own. Any version of the kind will do: they look the same.
async fn typed_body<T, B>(call: &Call, incoming: &mut Incoming<B>) -> Result<Value>
where
    T: k8s_openapi::Resource + DeserializeOwned,
    B: http_body::Body<Data = Bytes> + Send + Unpin + 'static,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let content_type = incoming.header(CONTENT_TYPE).to_owned();
    let body = incoming.body().await?;
    let mut value = crate::registry::parse_any(call, &content_type, &body)?;
    check_typed::<T>(&value)?;
    // Webhooks and policies are told what it is.
    for (field, text) in [("apiVersion", T::API_VERSION), ("kind", T::KIND)] {
        if value[field].as_str().unwrap_or_default().is_empty() {
            value[field] = text.into();
        }
    }
    Ok(value)
}

/// Refuses an object that is not a `T`: by its kind, or by the type of any field.
fn check_typed<T: k8s_openapi::Resource + DeserializeOwned>(value: &Value) -> Result<()> {
    let kind = T::KIND;
    match &value["kind"] {
        Value::Null => {}
        Value::String(given) if given.is_empty() || given == kind => {}
        given => return Err(ApiError::bad_request(format!("the body must be a {kind}, not a {given}"))),
    }
    let mut unversioned = value.clone();
    if let Some(map) = unversioned.as_object_mut() {
        map.insert("apiVersion".to_owned(), T::API_VERSION.into());
        map.insert("kind".to_owned(), kind.into());
    }
    let decoded: std::result::Result<T, _> = serde_json::from_value(unversioned);
    decoded
        .map(drop)
        .map_err(|e| ApiError::bad_request(format!("the body cannot be handled as a {kind}: {e}")))
}

/// The usual answer of a subresource that makes nothing to show.
fn success(code: u16) -> Response<Body> {
    answer::json(
        code,
        &serde_json::json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": code,
        }),
    )
}
