//! Which request is answered by what.

use std::sync::Arc;

use http::{HeaderValue, Request, Response, header};
use http_body_util::{BodyExt, Limited};
use hyper::body::Incoming;
use k8s_openapi::api::core::v1 as core;
use serde_json::json;

use super::answer::{self, Body, Refusal};
use super::token_access::TokenAccess;
use super::{inventory, logs, measurements, mesh_tap, stream};
use crate::context::{ServerContext, VolumeContext};
use crate::csi;
use crate::ended_logs;
use crate::pod::{DesiredPod, PodIndex};
use crate::stats;

/// Parameters of the query, in order; a name may appear several times.
pub struct Query(Vec<(String, String)>);

impl Query {
    pub fn parse(text: &str) -> Self {
        Query(form_urlencoded::parse(text.as_bytes()).into_owned().collect())
    }

    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }

    pub fn all(&self, name: &str) -> Vec<String> {
        self.0.iter().filter(|(key, _)| key == name).map(|(_, value)| value.clone()).collect()
    }

    pub fn flag(&self, name: &str) -> bool {
        self.get(name).is_some_and(|value| matches!(value, "true" | "1" | "True"))
    }

    pub fn number<T: std::str::FromStr>(&self, name: &str) -> Result<Option<T>, Refusal> {
        match self.get(name) {
            None | Some("") => Ok(None),
            Some(text) => match text.parse() {
                Ok(number) => Ok(Some(number)),
                Err(_) => Err(Refusal::bad_request(format!("{name}: {text:?} is not a number"))),
            },
        }
    }
}

/// `strangers`: what those are asked who do not come from the API server.
pub async fn answer(
    context: Arc<ServerContext>,
    request: Request<Incoming>,
    strangers: Option<&TokenAccess>,
) -> Response<Body> {
    if let Some(access) = strangers
        && let Err(refusal) = access.check(request.method(), request.uri().path(), request.headers()).await
    {
        let mut response = refusal.into_response();
        // Nobody holds a connection open who has nothing to ask for.
        response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
        return response;
    }
    match route(&context, request).await {
        Ok(response) => response,
        Err(refusal) => refusal.into_response(),
    }
}

async fn route(context: &ServerContext, request: Request<Incoming>) -> Result<Response<Body>, Refusal> {
    let runtime = context.node.runtime.as_ref();
    let path = request.uri().path().to_owned();
    let query = Query::parse(request.uri().query().unwrap_or_default());
    let parts: Vec<&str> = path.trim_matches('/').split('/').collect();
    match parts.as_slice() {
        ["healthz"] => Ok(answer::text("ok")),
        ["pods"] => Ok(pods(&context.node.pods)),
        ["stats", "summary"] => Ok(answer::json(&stats::summary(&sample(context).await?))),
        ["metrics"] => {
            let page =
                stats::own(&sample(context).await?, &context.metrics.operations, stats::Process::measure());
            Ok(answer::metrics(page + &context.node.config.metrics.page()))
        }
        ["metrics", "resource"] => Ok(answer::metrics(stats::resource(&sample(context).await?))),
        ["metrics", "probes"] => Ok(answer::metrics(context.metrics.probes.page())),
        ["metrics", "node"] => Ok(answer::metrics(stats::Host::read(&context.node.config.data_dir).page())),
        ["metrics", "stream"] => Ok(measurements::everything(&context.metrics.sampler)),
        ["metrics", "pods"] => measurements::of_pods(&context.node, &query),
        ["metrics", "cadvisor"] => Ok(answer::metrics(stats::cadvisor(&sample(context).await?))),
        ["containers"] => inventory::containers(&context.node).await,
        ["images"] => inventory::images(&context.node, request.method(), &query).await,
        ["storage", "shared"] => super::shared_storage::answer(&context.volumes.shared, request).await,
        ["csi", driver, method] if request.method() == http::Method::POST => {
            let (driver, method) = ((*driver).to_owned(), (*method).to_owned());
            csi_call(&context.volumes, &driver, &method, request).await
        }
        ["containerLogs", namespace, pod, container] => {
            let pod = find(&context.node.pods, namespace, pod).await?;
            logs::answer(&context.node.runtime, &pod, container, &query, request).await
        }
        ["logSearch"] => logs::search(&context.node, &query).await,
        ["endedLogs"] => {
            let folder = context.node.config.ended_logs_dir();
            let pods = tokio::task::spawn_blocking(move || ended_logs::list(&folder)).await;
            Ok(answer::json(&pods.map_err(Refusal::internal)?))
        }
        ["endedLogs", namespace, pod, uid, container] => {
            logs::ended(&context.node.config, (namespace, pod, uid, container), &query)
        }
        ["exec", namespace, pod, container] => {
            let pod = find(&context.node.pods, namespace, pod).await?;
            stream::exec(runtime, &pod, container, &query, request).await
        }
        ["attach", namespace, pod, container] => {
            let pod = find(&context.node.pods, namespace, pod).await?;
            stream::attach(runtime, &pod, container, &query, request).await
        }
        ["portForward", namespace, pod] => {
            let pod = find(&context.node.pods, namespace, pod).await?;
            stream::port_forward(runtime, &pod, &query, request).await
        }
        ["meshTap", namespace, pod] => {
            let pod = find(&context.node.pods, namespace, pod).await?;
            mesh_tap::answer(&context.node.config, &pod, request.uri().query().unwrap_or_default()).await
        }
        other => {
            let page =
                context.node.config.pages.read(other).filter(|_| request.method() == http::Method::GET);
            let page = page.ok_or_else(|| Refusal::not_found(format!("nothing at {path}")))?;
            Ok(answer::with_type(page, "application/json"))
        }
    }
}

/// A call of a driver's controller service, in the driver's own form both ways.
async fn csi_call(
    context: &VolumeContext,
    driver: &str,
    method: &str,
    request: Request<Incoming>,
) -> Result<Response<Body>, Refusal> {
    let body = Limited::new(request.into_body(), csi::MOST_BYTES).collect().await;
    let message = body.map_err(|error| Refusal::bad_request(error.to_string()))?.to_bytes();
    match csi::relay(context, driver, method, message).await {
        Ok(answer) => Ok(answer::with_type(answer, "application/octet-stream")),
        Err(csi::RelayError::Call(error)) => {
            let status = http::StatusCode::BAD_GATEWAY;
            let code = error.code();
            let message = error.to_string();
            let mut response = Refusal { status, reason: "CSICallFailed", message }.into_response();
            if let Some(code) = code {
                response.headers_mut().insert(minik8s_csi::CODE_HEADER, code.0.into());
            }
            Ok(response)
        }
        Err(error) => Err(Refusal::not_found(error.to_string())),
    }
}

async fn sample(context: &ServerContext) -> Result<stats::NodeSample, Refusal> {
    context.metrics.stats.collect(&context.volumes).await.map_err(Refusal::internal)
}

async fn find(pods: &PodIndex, namespace: &str, name: &str) -> Result<DesiredPod, Refusal> {
    let pod = pods.awaited(namespace, name).await;
    let pod = pod.ok_or_else(|| Refusal::not_found(format!("pod \"{name}\" does not run on this node")))?;
    Ok(DesiredPod::new(pod))
}

fn pods(pods: &PodIndex) -> Response<Body> {
    let pods = pods.all();
    let items: Vec<_> = pods.iter().map(AsRef::as_ref).collect::<Vec<&core::Pod>>();
    answer::json(&json!({"kind": "PodList", "apiVersion": "v1", "metadata": {}, "items": items}))
}
