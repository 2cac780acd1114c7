//! Applying the objects, waiting until they work, and deleting them.

use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use http::{Method, Request};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{Namespace, PersistentVolumeClaim, Pod};
use kube::api::{DeleteParams, ListParams};
use kube::{Api, Client};
use minik8s_monitoring::install::{CLAIM, Engine, LABEL, NAMESPACE, Placed, Settings, objects};
use serde_json::Value;

use crate::output;

/// The first pod on a node waits until its image is made.
const TIMEOUT: Duration = Duration::from_secs(600);
const LOOK: Duration = Duration::from_millis(500);
/// Who set the fields that are applied.
const MANAGER: &str = "minik8s-monitoring";
const DEPLOYMENTS: [&str; 2] = ["prometheus", "alertmanager"];

pub async fn enable(client: &Client, settings: &Settings, no_wait: bool) -> anyhow::Result<()> {
    for placed in objects(settings) {
        let (kind, name) = names(&placed);
        apply(client, &placed).await.with_context(|| format!("cannot apply {kind} {name}"))?;
    }
    output::line(format_args!("monitoring is in namespace {NAMESPACE}: {}", settings.engine.name()))?;
    if settings.claim.is_none() {
        output::line("without --claim, what it measures is lost when its pod moves")?;
    }
    if no_wait {
        return Ok(());
    }
    for name in DEPLOYMENTS {
        wait(client, name).await?;
        output::line(format_args!("{name} is ready"))?;
    }
    output::line("see it with `minik8s monitoring open`")?;
    Ok(())
}

/// Server-side, so that what others have set on these objects stays.
async fn apply(client: &Client, placed: &Placed) -> anyhow::Result<()> {
    let name = names(placed).1;
    let url = format!("{}/{name}?fieldManager={MANAGER}&force=true", placed.collection);
    let request = Request::builder().method(Method::PATCH).uri(url);
    let request = request.header("content-type", "application/apply-patch+yaml");
    let _: Value = client.request(request.body(placed.object.to_string().into_bytes())?).await?;
    Ok(())
}

fn names(placed: &Placed) -> (&str, &str) {
    let (kind, name) = (&placed.object["kind"], &placed.object["metadata"]["name"]);
    (kind.as_str().unwrap_or_default(), name.as_str().unwrap_or_default())
}

/// Until the newest pod of a Deployment answers; ends with what the node says where that cannot come.
async fn wait(client: &Client, name: &str) -> anyhow::Result<()> {
    let deployments: Api<Deployment> = Api::namespaced(client.clone(), NAMESPACE);
    let begun = Instant::now();
    let mut told = String::new();
    loop {
        let deployment = deployments.get(name).await?;
        let (generation, status) = (deployment.metadata.generation, deployment.status.unwrap_or_default());
        let is_seen = status.observed_generation >= generation;
        if is_seen && status.updated_replicas == Some(1) && status.available_replicas == Some(1) {
            return Ok(());
        }
        let why = waits_for(client, name).await?;
        if why.contains("is not installed on this node") {
            bail!("{name} cannot start: {why}");
        }
        if !why.is_empty() && why != told {
            eprintln!("{name} waits: {why}");
            told = why;
        }
        if begun.elapsed() > TIMEOUT {
            bail!("{name} is not ready after {} s: {told}", TIMEOUT.as_secs());
        }
        tokio::time::sleep(LOOK).await;
    }
}

/// What a pod of it says of why it does not run.
async fn waits_for(client: &Client, app: &str) -> anyhow::Result<String> {
    let pods: Api<Pod> = Api::namespaced(client.clone(), NAMESPACE);
    for pod in pods.list(&ListParams::default().labels(&format!("app={app}"))).await? {
        let status = pod.status.unwrap_or_default();
        let mut conditions = status.conditions.into_iter().flatten();
        let unscheduled = conditions.find(|one| one.type_ == "PodScheduled" && one.status == "False");
        if let Some(condition) = unscheduled {
            return Ok(condition.message.unwrap_or_default());
        }
        for container in status.container_statuses.into_iter().flatten() {
            let waiting = container.state.and_then(|state| state.waiting);
            if let Some(message) = waiting.and_then(|waiting| waiting.message.or(waiting.reason)) {
                return Ok(message);
            }
        }
    }
    Ok(String::new())
}

pub async fn disable(client: &Client, purge: bool) -> anyhow::Result<()> {
    // Whatever it was enabled with; a claim is kept unless it is said.
    let any = Settings {
        engine: Engine::Prometheus,
        retention: String::new(),
        interval: String::new(),
        claim: None,
        webhook: None,
    };
    let mut deleted = 0;
    for placed in objects(&any).iter().rev().filter(|placed| placed.object["kind"] != "Namespace") {
        let (kind, name) = names(placed);
        let path = format!("{}/{name}", placed.collection);
        let request = Request::builder().method(Method::DELETE).uri(path).body(Vec::new())?;
        match client.request::<Value>(request).await {
            Ok(_) => deleted += 1,
            Err(kube::Error::Api(status)) if status.code == 404 => {}
            Err(error) => return Err(error).with_context(|| format!("cannot delete {kind} {name}")),
        }
    }
    let claims: Api<PersistentVolumeClaim> = Api::namespaced(client.clone(), NAMESPACE);
    let claim = claims.get_opt(CLAIM).await?;
    if claim.is_some() && purge {
        claims.delete(CLAIM, &DeleteParams::default()).await?;
    }
    let is_kept = claim.is_some() && !purge;
    if deleted == 0 {
        output::line("monitoring was not enabled")?;
    } else {
        output::line("monitoring is disabled")?;
    }
    if is_kept {
        output::line(format_args!("what was measured is kept in claim {NAMESPACE}/{CLAIM}"))?;
    } else {
        remove_namespace(client).await?;
    }
    Ok(())
}

/// Only one that we made and in which nobody else has pods.
async fn remove_namespace(client: &Client) -> anyhow::Result<()> {
    let namespaces: Api<Namespace> = Api::all(client.clone());
    let Some(namespace) = namespaces.get_opt(NAMESPACE).await? else { return Ok(()) };
    let is_ours = namespace.metadata.labels.unwrap_or_default().get(LABEL.0).is_some_and(|of| of == LABEL.1);
    let pods: Api<Pod> = Api::namespaced(client.clone(), NAMESPACE);
    let others = pods.list(&ListParams::default().labels(&format!("{}!={}", LABEL.0, LABEL.1))).await?;
    if is_ours && others.items.is_empty() {
        namespaces.delete(NAMESPACE, &DeleteParams::default()).await?;
        output::line(format_args!("namespace {NAMESPACE} goes with it"))?;
    }
    Ok(())
}
