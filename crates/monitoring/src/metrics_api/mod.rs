//! `custom.metrics.k8s.io` and `external.metrics.k8s.io`: series of the engine, for autoscalers and whoever may read them.
//!
//! Every question is about one namespace, and only series with that namespace are looked at. An APIService of the same
//! group (KEDA, prometheus-adapter) is asked instead.

mod answer;
mod question;

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use async_trait::async_trait;
use http::{Method, Request, Response, StatusCode};
use jiff::Timestamp;
use kube::Client;
use minik8s_api::{Body, Handler, HandlerRequest, Objects, ResourceRef, Scope, respond};
use serde_json::{Value, json};

use question::{About, Question};

pub const PATHS: [&str; 2] = ["/apis/custom.metrics.k8s.io/", "/apis/external.metrics.k8s.io/"];

/// The API's client, once there is one.
pub type LateClient = Arc<OnceLock<Client>>;

const ENGINE: &str = "/api/v1/namespaces/monitoring/services/prometheus:9090/proxy/api/v1/query";
const TIMEOUT: Duration = Duration::from_secs(8);

pub struct MetricsApi(pub LateClient);

type Refusal = (StatusCode, &'static str, String);

#[async_trait]
impl Handler for MetricsApi {
    async fn handle(&self, request: HandlerRequest, cluster: &dyn Objects) -> Response<Body> {
        if request.method != Method::GET {
            return refuse((
                StatusCode::METHOD_NOT_ALLOWED,
                "MethodNotAllowed",
                "metrics are read".to_owned(),
            ));
        }
        if let Some(list) = answer::discovery(&request.path) {
            return respond(StatusCode::OK, "application/json", list.to_string());
        }
        match self.values(&request, cluster).await {
            Ok(values) => respond(StatusCode::OK, "application/json", values.to_string()),
            Err(refusal) => refuse(refusal),
        }
    }
}

impl MetricsApi {
    async fn values(&self, request: &HandlerRequest, cluster: &dyn Objects) -> Result<Value, Refusal> {
        let mut question = Question::parse(&request.path, &request.query)
            .map_err(|problem| (StatusCode::NOT_FOUND, "NotFound", problem))?;
        if let About::Objects { resource, names, selector } = &mut question.about
            && names.is_empty()
        {
            if resource != "pods" {
                let told = format!("{resource}: name one; only pods are selected by labels");
                return Err((StatusCode::BAD_REQUEST, "BadRequest", told));
            }
            let place = ResourceRef { group: "", version: "v1", plural: "pods" };
            let scope = Scope { namespace: &question.namespace, name: None, now: Timestamp::now() };
            let pods = cluster.read(&place, scope).await;
            let pods = pods
                .map_err(|error| (StatusCode::INTERNAL_SERVER_ERROR, "InternalError", error.to_string()))?;
            let chosen = pods.iter().filter(|pod| selector.matches(pod["metadata"]["labels"].as_object()));
            *names = chosen.filter_map(|pod| pod["metadata"]["name"].as_str().map(str::to_owned)).collect();
        }
        let query = question.query();
        let told = self.ask(&query).await?;
        answer::values(&question, &query, &told)
            .map_err(|problem| (StatusCode::NOT_FOUND, "NotFound", problem))
    }

    async fn ask(&self, query: &str) -> Result<Value, Refusal> {
        let unavailable = |cause: String| {
            let told =
                format!("the monitoring engine does not answer ({cause}); see `minik8s monitoring enable`");
            (StatusCode::SERVICE_UNAVAILABLE, "ServiceUnavailable", told)
        };
        let client = self.0.get().ok_or_else(|| unavailable("the server has just started".to_owned()))?;
        let encoded: String = form_urlencoded::byte_serialize(query.as_bytes()).collect();
        let request = Request::get(format!("{ENGINE}?query={encoded}")).body(Vec::new());
        let request = request.map_err(|error| unavailable(error.to_string()))?;
        let answer = tokio::time::timeout(TIMEOUT, client.request::<Value>(request)).await;
        let answer = answer.map_err(|_| unavailable("nothing within 8 s".to_owned()))?;
        answer.map_err(|error| unavailable(error.to_string()))
    }
}

fn refuse((status, reason, message): Refusal) -> Response<Body> {
    let body = json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "message": message, "reason": reason, "code": status.as_u16()});
    respond(status, "application/json", body.to_string())
}
