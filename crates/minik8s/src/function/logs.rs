//! `minik8s function logs`: what the instances have written, also those that are gone where nodes keep that.
//!
//! Following goes on until it is interrupted: instances come and go, a function at zero has none.

use std::collections::BTreeSet;

use anyhow::{Context, bail};
use futures::{AsyncBufReadExt, StreamExt, TryStreamExt};
use http::Request;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{ListParams, LogParams, WatchEvent, WatchParams};
use kube::{Api, Client};
use minik8s_meta::function::{FUNCTION_LABEL, Function};
use serde_json::Value;
use tokio::sync::mpsc;

use super::get;
use crate::output;

/// Lines that wait to be printed.
const WAITING: usize = 256;

pub async fn run(
    client: &Client,
    namespace: &str,
    name: &str,
    follow: bool,
    tail: i64,
) -> anyhow::Result<()> {
    let functions: Api<Function> = Api::namespaced(client.clone(), namespace);
    let function = get(&functions, namespace, name).await?;
    let pods: Api<Pod> = Api::namespaced(client.clone(), namespace);
    if follow {
        return follow_all(&pods, name, tail).await;
    }
    let mut instances = pods.list(&ListParams::default().labels(&selector(name))).await?.items;
    instances.sort_by_key(|pod| pod.metadata.creation_timestamp.clone());
    if instances.is_empty() {
        return of_ended(client, namespace, &function, tail).await;
    }
    let parameters = LogParams { tail_lines: Some(tail), ..LogParams::default() };
    for pod in &instances {
        let pod = pod.metadata.name.as_deref().unwrap_or_default();
        match pods.logs(pod, &parameters).await {
            Ok(text) => {
                for line in text.lines() {
                    output::line(format_args!("[{pod}] {line}"))?;
                }
            }
            // One that does not run yet has none.
            Err(error) => output::line(format_args!("[{pod}] no log: {error}"))?,
        }
    }
    Ok(())
}

fn selector(function: &str) -> String {
    format!("{FUNCTION_LABEL}={function}")
}

/// What nodes have kept of instances that are gone; else why the last one failed.
async fn of_ended(client: &Client, namespace: &str, function: &Function, tail: i64) -> anyhow::Result<()> {
    let name = function.metadata.name.as_deref().unwrap_or_default();
    let label = selector(name).replace('/', "%2F").replace('=', "%3D");
    let path = format!(
        "/apis/logs.minik8s.io/v1/namespaces/{namespace}/logs?ended=true&limit={}&labelSelector={label}",
        tail.clamp(1, 10_000)
    );
    let found: kube::Result<Value> = client.request(Request::get(path).body(Vec::new())?).await;
    let found = found.unwrap_or_default();
    let lines = found["lines"].as_array().cloned().unwrap_or_default();
    for line in &lines {
        let text = |field: &str| line[field].as_str().unwrap_or_default().to_owned();
        output::line(format_args!("[{}] {}", text("pod"), text("text")))?;
    }
    if !lines.is_empty() {
        return Ok(());
    }
    if let Some(failure) = function.status.as_ref().and_then(|status| status.failure.as_ref()) {
        return Ok(output::line(format_args!("the last instance said:\n{}", failure.message))?);
    }
    bail!(
        "function {name} has no instance now, and no node has kept the log of one (`--log-retention` of `minik8s server` and \
         `agent`); call it, or follow with -f"
    );
}

/// Each instance from when it runs to its end.
async fn follow_all(pods: &Api<Pod>, name: &str, tail: i64) -> anyhow::Result<()> {
    let (sender, mut lines) = mpsc::channel::<String>(WAITING);
    let begun = k8s_openapi::jiff::Timestamp::now();
    let watched = WatchParams::default().labels(&selector(name));
    let mut followed = BTreeSet::new();
    loop {
        let events = pods.watch(&watched, "0").await.context("cannot watch the instances")?;
        let mut events = std::pin::pin!(events);
        loop {
            let event = tokio::select! {
                Some(line) = lines.recv() => {
                    output::line(line)?;
                    continue;
                }
                event = events.next() => event,
            };
            // A watch ends after a while, and is begun anew.
            let Some(Ok(event)) = event else { break };
            let (WatchEvent::Added(pod) | WatchEvent::Modified(pod)) = event else { continue };
            let pod_name = pod.metadata.name.clone().unwrap_or_default();
            if !has_begun(&pod) || !followed.insert(pod_name.clone()) {
                continue;
            }
            // Of those that come later all is new.
            let is_old = pod.metadata.creation_timestamp.as_ref().is_some_and(|time| time.0 < begun);
            let parameters =
                LogParams { tail_lines: is_old.then_some(tail), follow: true, ..LogParams::default() };
            tokio::spawn(pass_on(pods.clone(), pod_name, parameters, sender.clone()));
        }
    }
}

/// Whether there is a log: its container runs, or has run.
fn has_begun(pod: &Pod) -> bool {
    let containers = pod.status.as_ref().and_then(|status| status.container_statuses.as_ref());
    let mut states = containers.into_iter().flatten().filter_map(|container| container.state.as_ref());
    states.any(|state| state.running.is_some() || state.terminated.is_some())
}

async fn pass_on(pods: Api<Pod>, pod: String, parameters: LogParams, sender: mpsc::Sender<String>) {
    let text = match pods.log_stream(&pod, &parameters).await {
        Ok(text) => text,
        Err(error) => {
            let _ = sender.send(format!("[{pod}] no log: {error}")).await;
            return;
        }
    };
    let mut lines = text.lines();
    while let Ok(Some(line)) = lines.try_next().await {
        if sender.send(format!("[{pod}] {line}")).await.is_err() {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn instance_has_a_log_once_its_container_has_run() {
        let check = |state: Value, expected: bool| {
            let pod = json!({"metadata": {}, "status": {"containerStatuses": [
                {"name": "function", "state": state, "image": "", "imageID": "", "ready": false, "restartCount": 0},
            ]}});
            assert_eq!(has_begun(&serde_json::from_value(pod).unwrap()), expected);
        };
        check(json!({"waiting": {"reason": "ContainerCreating"}}), false);
        check(json!({"running": {}}), true);
        check(json!({"terminated": {"exitCode": 1}}), true);
        assert!(!has_begun(&Pod::default()));
    }
}
