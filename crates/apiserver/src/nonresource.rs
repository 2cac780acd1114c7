//! Paths that are not objects: health, version, schemas, metrics, the token issuer. One table of them; a feature's are its
//! [`minik8s_api::Route`]s.

use bytes::Bytes;
use futures::future::BoxFuture;
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

/// How a page is made: of the request and its path without a slash at the end.
type Answer = for<'a> fn(&'a Api, &'a Incoming<()>, &'a str) -> BoxFuture<'a, Result<Response<Body>>>;

struct Page {
    path: &'static str,
    /// It answers for paths below its own, too.
    has_below: bool,
    answer: Answer,
}

impl Page {
    const fn at(path: &'static str, answer: Answer) -> Page {
        Page { path, has_below: false, answer }
    }

    const fn below(path: &'static str, answer: Answer) -> Page {
        Page { path, has_below: true, answer }
    }

    fn serves(&self, path: &str) -> bool {
        let rest = path.strip_prefix(self.path);
        rest.is_some_and(|rest| rest.is_empty() || (self.has_below && rest.starts_with('/')))
    }
}

/// The server's own pages, but for the list of paths.
static PAGES: &[Page] = &[
    Page::at("/.well-known/openid-configuration", |api, _, _| {
        Box::pin(async move { Ok(answer::json(200, &api.authenticator.issuer_configuration())) })
    }),
    Page::at(backup::PATH, |api, incoming, _| Box::pin(async move { backup::answer(api, &incoming.user) })),
    Page::below("/healthz", |api, incoming, path| Box::pin(health_page(api, incoming, path))),
    Page::below("/livez", |api, incoming, path| Box::pin(health_page(api, incoming, path))),
    Page::at("/metrics", |api, incoming, _| Box::pin(metrics_page(api, incoming))),
    Page::at("/metrics/kube-state", |api, _, _| Box::pin(state_metrics_page(api))),
    Page::at("/openapi/v2", |api, incoming, _| Box::pin(openapi_v2(api, incoming))),
    Page::below("/openapi/v3", |api, incoming, path| Box::pin(openapi_v3(api, incoming, path))),
    Page::at("/openid/v1/jwks", |api, _, _| {
        let keys = api.authenticator.issuer_keys().to_string();
        Box::pin(async move { Ok(answer::bytes(200, "application/jwk-set+json", keys)) })
    }),
    Page::below("/readyz", |api, incoming, path| Box::pin(health_page(api, incoming, path))),
    Page::at("/version", |_, _, _| Box::pin(async move { Ok(answer::json(200, &version())) })),
];

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
    if path.is_empty() {
        return Ok(answer::json(200, &json!({"paths": paths(api)})));
    }
    let page = PAGES.iter().find(|page| page.serves(path)).ok_or_else(ApiError::no_such_resource)?;
    (page.answer)(api, incoming, path).await
}

async fn health_page(api: &Api, incoming: &Incoming<()>, path: &str) -> Result<Response<Body>> {
    let answered = health::answer(&api.health, path, &incoming.query).await;
    answered.ok_or_else(ApiError::no_such_resource)
}

async fn metrics_page(api: &Api, incoming: &Incoming<()>) -> Result<Response<Body>> {
    let format = PageFormat::choose(incoming.header(ACCEPT), api.tracer.is_some());
    Ok(answer::bytes(200, format.content_type(), api.metrics.text(api, format).await?))
}

async fn state_metrics_page(api: &Api) -> Result<Response<Body>> {
    let text = crate::state_metrics::text(api).await?;
    Ok(answer::bytes(200, PageFormat::Classic.content_type(), text))
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
    paths.extend(PAGES.iter().map(|page| page.path.to_owned()));
    paths.extend(api.routes.iter().map(|route| route.path.to_owned()));
    paths.extend(api.protocols.iter().map(|protocol| protocol.root().to_owned()));
    paths.sort();
    paths
}

async fn openapi_v2(api: &Api, incoming: &Incoming<()>) -> Result<Response<Body>> {
    let wants_protobuf = incoming.header(ACCEPT).contains("proto-openapi.spec.v2");
    let (content_type, document) = if wants_protobuf {
        (minik8s_api::openapi::V2_PROTOBUF, crate::schemas::v2_protobuf(api).await)
    } else {
        (JSON, crate::schemas::v2_json(api).await)
    };
    Ok(gzip::offer(incoming.header(ACCEPT_ENCODING), with_etag(incoming, content_type, document)))
}

async fn openapi_v3(api: &Api, incoming: &Incoming<()>, path: &str) -> Result<Response<Body>> {
    let place: Vec<&str> = path.split('/').skip(3).collect();
    let (group, version) = match place.as_slice() {
        [] => return Ok(answer::bytes(200, JSON, crate::schemas::v3_index(api))),
        ["api", version] => ("", *version),
        ["apis", group, version] => (*group, *version),
        _ => return Err(ApiError::no_such_resource()),
    };
    let document = crate::schemas::v3_document(api, group, version).ok_or_else(ApiError::no_such_resource)?;
    Ok(gzip::offer(incoming.header(ACCEPT_ENCODING), with_etag(incoming, JSON, document)))
}

/// Clients cache schemas by their hash.
fn with_etag(incoming: &Incoming<()>, content_type: &str, document: Bytes) -> Response<Body> {
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
