//! Paths that are not objects: health, version, schemas, metrics, the token issuer.

use bytes::Bytes;
use http::Response;
use http::header::{ACCEPT, ACCEPT_ENCODING, ETAG, HeaderValue, IF_NONE_MATCH};
use serde_json::json;

use crate::answer::{self, Body, JSON};
use crate::api::Api;
use crate::dispatch::Incoming;
use crate::error::{ApiError, Result};
use crate::metrics::PageFormat;
use crate::{backup, gzip, handler, health};

/// The Kubernetes API level that is served.
pub const MINOR: &str = "37";

pub async fn answer<B>(api: &Api, incoming: Incoming<B>) -> Result<Response<Body>>
where
    B: http_body::Body<Data = Bytes> + Send + Unpin + 'static,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    if let Some(route) = api.route(&incoming.info) {
        return handler::answer(api, &*route.handler.clone(), incoming).await;
    }
    let incoming = &incoming.without_body();
    let path = incoming.info.path.trim_end_matches('/');
    if !matches!(*incoming.request.method(), http::Method::GET | http::Method::HEAD) {
        return Err(ApiError::method_not_allowed(incoming.request.method()));
    }
    match path {
        "" => Ok(answer::json(200, &json!({"paths": paths(api)}))),
        "/version" => Ok(answer::json(200, &version())),
        "/metrics" => {
            let format = PageFormat::choose(incoming.header(ACCEPT), api.tracer.is_some());
            Ok(answer::bytes(200, format.content_type(), api.metrics.text(api, format).await?))
        }
        "/metrics/kube-state" => {
            let text = crate::state_metrics::text(api).await?;
            Ok(answer::bytes(200, PageFormat::Classic.content_type(), text))
        }
        "/.well-known/openid-configuration" => {
            Ok(answer::json(200, &api.authenticator.issuer_configuration()))
        }
        "/openid/v1/jwks" => {
            let keys = api.authenticator.issuer_keys().to_string();
            Ok(answer::bytes(200, "application/jwk-set+json", keys))
        }
        backup::PATH => backup::answer(api, &incoming.user),
        "/openapi/v2" => Ok(gzip::offer(incoming.header(ACCEPT_ENCODING), openapi_v2(api, incoming)).await),
        "/openapi/v3" => Ok(answer::bytes(200, JSON, crate::schemas::v3_index(api))),
        _ if path.starts_with("/openapi/v3/") => {
            let answer = openapi_v3(api, incoming, &path["/openapi/v3/".len()..])?;
            Ok(gzip::offer(incoming.header(ACCEPT_ENCODING), answer).await)
        }
        _ => match health::answer(&api.health, path, &incoming.query).await {
            Some(response) => Ok(response),
            None => Err(ApiError::no_such_resource()),
        },
    }
}

pub fn version() -> serde_json::Value {
    json!({
        "major": "1", "minor": MINOR, "gitVersion": format!("v1.{MINOR}.0+minik8s-{}", env!("CARGO_PKG_VERSION")),
        "gitCommit": "", "gitTreeState": "clean", "buildDate": "1970-01-01T00:00:00Z",
        "goVersion": "none (Rust)", "compiler": "rustc",
        "platform": format!("{}/{}", std::env::consts::OS, go_arch()),
    })
}

/// Go's names, which clients expect in `platform`.
fn go_arch() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    }
}

fn paths(api: &Api) -> Vec<String> {
    let snapshot = api.registry.catalog.snapshot();
    let mut paths: Vec<String> = vec!["/api".into(), "/api/v1".into(), "/apis".into()];
    for (group, versions) in snapshot.groups() {
        if !group.is_empty() {
            paths.push(format!("/apis/{group}"));
            paths.extend(versions.iter().map(|version| format!("/apis/{group}/{version}")));
        }
    }
    let fixed = [
        "/.well-known/openid-configuration",
        "/healthz",
        "/livez",
        "/metrics",
        "/metrics/kube-state",
        "/openapi/v2",
        "/openapi/v3",
        "/openid/v1/jwks",
        "/readyz",
        "/version",
    ];
    paths.extend(fixed.map(str::to_owned));
    paths.extend(api.routes.iter().map(|route| route.path.to_owned()));
    paths.extend(api.protocols.iter().map(|protocol| protocol.root().to_owned()));
    paths.sort();
    paths
}

fn openapi_v2<B>(api: &Api, incoming: &Incoming<B>) -> Response<Body> {
    let wants_protobuf = incoming.header(ACCEPT).contains("proto-openapi.spec.v2");
    let (content_type, document) = if wants_protobuf {
        (minik8s_api::openapi::V2_PROTOBUF, crate::schemas::v2_protobuf(api))
    } else {
        (JSON, crate::schemas::v2_json(api))
    };
    with_etag(incoming, content_type, document)
}

fn openapi_v3<B>(api: &Api, incoming: &Incoming<B>, place: &str) -> Result<Response<Body>> {
    let (group, version) = match place.split('/').collect::<Vec<_>>().as_slice() {
        ["api", version] => (String::new(), (*version).to_owned()),
        ["apis", group, version] => ((*group).to_owned(), (*version).to_owned()),
        _ => return Err(ApiError::no_such_resource()),
    };
    let document =
        crate::schemas::v3_document(api, &group, &version).ok_or_else(ApiError::no_such_resource)?;
    Ok(with_etag(incoming, JSON, document))
}

/// Clients cache schemas by their hash.
fn with_etag<B>(incoming: &Incoming<B>, content_type: &str, document: Bytes) -> Response<Body> {
    let etag = format!("\"{}\"", crate::schemas::hash(&document));
    let known = incoming.header(IF_NONE_MATCH) == etag;
    let mut response = match known {
        true => answer::bytes(304, content_type, Bytes::new()),
        false => answer::bytes(200, content_type, document),
    };
    if let Ok(value) = HeaderValue::from_str(&etag) {
        response.headers_mut().insert(ETAG, value);
    }
    response
}
