//! Whether extension API servers answer, as the condition `Available` of their APIServices says.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::Request;
use http::header::{ACCEPT, HOST};
use http_body_util::{BodyExt, Empty, Limited};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use jiff::Timestamp;
use minik8s_auth::User;
use minik8s_meta::error_chain;
use serde_json::{Value, json};

use super::backend::{Backend, Known};
use super::proxy::add_user;
use crate::api::Api;
use crate::error::Result;
use crate::registry::{Call, Registry, timestamp};

pub const TIMEOUT: Duration = Duration::from_secs(5);
const MAX_ANSWER: usize = 8 << 20;

/// What was found, with upstream's reasons.
struct Found {
    status: &'static str,
    reason: &'static str,
    message: String,
}

/// Looks at all of them side by side, and writes what is new.
pub async fn check_all(api: &Arc<Api>) {
    let backends = api.aggregator.backends();
    let checked = backends.iter().map(|backend| async move {
        let found = look(&api.registry, backend).await;
        if let Err(error) = tell(&api.registry, &backend.name, &found).await {
            tracing::warn!(name = backend.name, %error, "the availability of an APIService could not be written");
        }
    });
    futures::future::join_all(checked).await;
}

async fn look(registry: &Registry, backend: &Backend) -> Found {
    let (name, namespace) = (&backend.service, &backend.namespace);
    let unavailable = |reason: &'static str, message: String| {
        backend.known.write().is_available = false;
        Found { status: "False", reason, message }
    };
    let service = match registry.built_in("", "v1", "services") {
        Ok(services) => registry.look(&services, namespace, name).await,
        Err(error) => Err(error),
    };
    if service.is_err() {
        let message = format!("service/{name} in {namespace:?} is not present");
        return unavailable("ServiceNotFound", message);
    }
    let address = match backend.endpoint(registry).await {
        Ok(address) => address,
        Err(_) => {
            let message = format!("endpoints for service/{name} in {namespace:?} have no addresses");
            return unavailable("MissingEndpoints", message);
        }
    };
    let path = format!("/apis/{}", backend.api_version());
    let asked = tokio::time::timeout(TIMEOUT, fetch(backend, address, &path)).await;
    match asked.unwrap_or_else(|_| Err("context deadline exceeded".to_owned())) {
        Ok(resources) => {
            let index = tokio::time::timeout(TIMEOUT, fetch(backend, address, "/openapi/v3")).await;
            let index = index.ok().and_then(std::result::Result::ok).unwrap_or_default();
            let schema_hash = schema_hash(&index, &backend.api_version());
            let resources = Some(Arc::new(resources));
            *backend.known.write() = Known { is_available: true, resources, schema_hash };
            Found { status: "True", reason: "Passed", message: "all checks passed".to_owned() }
        }
        Err(why) => {
            let message = format!("failing or missing response from https://{address}{path}: {why}");
            unavailable("FailedDiscoveryCheck", message)
        }
    }
}

/// Nothing else of the address is taken over: it is passed on to clients.
fn schema_hash(index: &Value, api_version: &str) -> Option<String> {
    let path = format!("apis/{api_version}");
    let address = index["paths"][path.as_str()]["serverRelativeURL"].as_str()?;
    let hash = address.split_once("hash=")?.1.split('&').next()?;
    let is_plain = !hash.is_empty() && hash.bytes().all(|byte| byte.is_ascii_alphanumeric());
    is_plain.then(|| hash.to_owned())
}

/// A JSON document of an extension server, read as the aggregator itself.
pub async fn fetch(
    backend: &Backend,
    address: std::net::SocketAddr,
    path: &str,
) -> std::result::Result<Value, String> {
    let stream = backend.connect(address).await?;
    let (mut sender, connection) =
        http1::handshake(TokioIo::new(stream)).await.map_err(|error| error_chain(&error))?;
    tokio::spawn(async move {
        if let Err(error) = connection.await {
            tracing::debug!(%error, "a connection to an extension API server ended");
        }
    });
    let mut request = Request::get(path)
        .header(HOST, format!("{}.{}.svc", backend.service, backend.namespace))
        .header(ACCEPT, "application/json")
        .body(Empty::<Bytes>::new())
        .map_err(|error| error_chain(&error))?;
    let aggregator = User::authenticated("system:kube-aggregator", &["system:masters"]);
    add_user(request.headers_mut(), &aggregator);
    let response = sender.send_request(request).await.map_err(|error| error_chain(&error))?;
    let status = response.status();
    let body = Limited::new(response.into_body(), MAX_ANSWER).collect().await;
    let body = body.map_err(|error| error_chain(&*error))?.to_bytes();
    if !status.is_success() {
        return Err(format!("bad status from it: {}", status.as_u16()));
    }
    serde_json::from_slice(&body).map_err(|error| error.to_string())
}

/// Writes the condition, if it is another one than before.
async fn tell(registry: &Registry, name: &str, found: &Found) -> Result<()> {
    let served = registry.built_in("apiregistration.k8s.io", "v1", "apiservices")?;
    let call = Call { subresource: "status".to_owned(), ..Call::internal(served.clone(), "", name) };
    let is_told = |object: &Value| {
        let mut conditions = object["status"]["conditions"].as_array().into_iter().flatten();
        conditions.any(|condition| {
            condition["type"] == "Available"
                && condition["status"] == found.status
                && condition["reason"] == found.reason
                && condition["message"] == found.message
        })
    };
    let now = Timestamp::now();
    let changed = match registry.look(&served, "", name).await {
        Ok(object) if is_told(&object) => return Ok(()),
        Err(error) => Err(error),
        Ok(_) => registry.change(&call, |old| Ok(with_condition(old, found, now))).await.map(drop),
    };
    match changed {
        Err(error) if error.code != 404 => Err(error),
        _ => Ok(()),
    }
}

fn with_condition(old: &Value, found: &Found, now: Timestamp) -> Value {
    let mut conditions = old["status"]["conditions"].as_array().cloned().unwrap_or_default();
    let place = conditions.iter().position(|condition| condition["type"] == "Available");
    let since = place.map(|place| &conditions[place]).filter(|before| before["status"] == found.status);
    let since = since.and_then(|before| before["lastTransitionTime"].as_str()).map(str::to_owned);
    let condition = json!({
        "type": "Available", "status": found.status, "reason": found.reason, "message": found.message,
        "lastTransitionTime": since.unwrap_or_else(|| timestamp(now)),
    });
    match place {
        Some(place) => conditions[place] = condition,
        // Clients look for it in the first place.
        None => conditions.insert(0, condition),
    }
    let mut new = old.clone();
    new["status"]["conditions"] = Value::Array(conditions);
    new
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hash_of_a_schema_is_taken_from_the_servers_index() {
        let check = |address: &str, expected: Option<&str>| {
            let index = json!({"paths": {"apis/g/v1": {"serverRelativeURL": address}}});
            assert_eq!(schema_hash(&index, "g/v1").as_deref(), expected, "{address}");
            assert_eq!(schema_hash(&index, "g/v2"), None);
        };
        check("/openapi/v3/apis/g/v1?hash=AB12", Some("AB12"));
        check("/openapi/v3/apis/g/v1?hash=AB12&x=y", Some("AB12"));
        check("/openapi/v3/apis/g/v1", None);
        check("/openapi/v3/apis/g/v1?hash=", None);
        check("https://elsewhere/?hash=../x", None);
        assert_eq!(schema_hash(&Value::Null, "g/v1"), None);
    }
}
