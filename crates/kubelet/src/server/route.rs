//! Which request is answered by what.

use std::sync::Arc;

use http::{Request, Response};
use hyper::body::Incoming;
use k8s_openapi::api::core::v1 as core;
use serde_json::json;

use super::answer::{self, Body, Refusal};
use super::{logs, measurements, stream};
use crate::context::Context;
use crate::pod::Blueprint;
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

pub async fn answer(context: Arc<Context>, request: Request<Incoming>, allowed: bool) -> Response<Body> {
    if !allowed {
        return Refusal::forbidden().into_response();
    }
    match route(&context, request).await {
        Ok(response) => response,
        Err(refusal) => refusal.into_response(),
    }
}

async fn route(context: &Arc<Context>, request: Request<Incoming>) -> Result<Response<Body>, Refusal> {
    let path = request.uri().path().to_owned();
    let query = Query::parse(request.uri().query().unwrap_or_default());
    let parts: Vec<&str> = path.trim_matches('/').split('/').collect();
    match parts.as_slice() {
        ["healthz"] => Ok(answer::text("ok")),
        ["pods"] => Ok(pods(context)),
        ["stats", "summary"] => Ok(answer::json(&stats::summary(&sample(context).await?))),
        ["metrics"] => {
            let page = stats::own(&sample(context).await?, &context.operations, stats::Process::measure());
            Ok(answer::metrics(page + &context.config.figures.page()))
        }
        ["metrics", "resource"] => Ok(answer::metrics(stats::resource(&sample(context).await?))),
        ["metrics", "node"] => Ok(answer::metrics(stats::Host::read(&context.config.data_dir).page())),
        ["metrics", "stream"] => Ok(measurements::everything(context)),
        ["metrics", "pods"] => measurements::of_pods(context, &query),
        ["metrics", "cadvisor"] => Ok(answer::metrics(stats::cadvisor(&sample(context).await?))),
        ["containerLogs", namespace, pod, container] => {
            let pod = find(context, namespace, pod)?;
            logs::answer(context, &pod, container, &query, request).await
        }
        ["exec", namespace, pod, container] => {
            let pod = find(context, namespace, pod)?;
            stream::exec(context, &pod, container, &query, request).await
        }
        ["attach", namespace, pod, container] => {
            let pod = find(context, namespace, pod)?;
            stream::attach(context, &pod, container, &query, request).await
        }
        ["portForward", namespace, pod] => {
            let pod = find(context, namespace, pod)?;
            stream::port_forward(context, &pod, &query, request).await
        }
        _ => Err(Refusal::not_found(format!("nothing at {path}"))),
    }
}

async fn sample(context: &Context) -> Result<stats::NodeSample, Refusal> {
    context.stats.collect(context).await.map_err(Refusal::internal)
}

fn find(context: &Context, namespace: &str, name: &str) -> Result<Blueprint, Refusal> {
    let pod = context.pods.by_name(namespace, name);
    let pod = pod.ok_or_else(|| Refusal::not_found(format!("pod \"{name}\" does not run on this node")))?;
    Ok(Blueprint::new(pod))
}

fn pods(context: &Context) -> Response<Body> {
    let pods = context.pods.all();
    let items: Vec<_> = pods.iter().map(AsRef::as_ref).collect::<Vec<&core::Pod>>();
    answer::json(&json!({"kind": "PodList", "apiVersion": "v1", "metadata": {}, "items": items}))
}
