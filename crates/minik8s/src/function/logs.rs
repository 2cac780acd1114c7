//! `minik8s function logs`: what the instances have written.

use anyhow::{Context, bail};
use futures::{AsyncBufReadExt, TryStreamExt};
use k8s_openapi::api::core::v1::Pod;
use kube::api::{ListParams, LogParams};
use kube::{Api, Client};
use minik8s_meta::function::{FUNCTION_LABEL, Function};

use super::get;
use crate::output;

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
    let of_function = ListParams::default().labels(&format!("{FUNCTION_LABEL}={name}"));
    let mut instances = pods.list(&of_function).await?.items;
    instances.sort_by_key(|pod| pod.metadata.creation_timestamp.clone());
    let Some(newest) = instances.last() else {
        if let Some(failure) = function.status.and_then(|status| status.failure) {
            return Ok(output::line(format_args!("the last instance said:\n{}", failure.message))?);
        }
        bail!(
            "function {name} has no instance now, so there is no log; call it, or set scale.min to 1 to keep one"
        );
    };
    let parameters = LogParams { tail_lines: Some(tail), follow, ..LogParams::default() };
    if follow {
        let pod = newest.metadata.name.as_deref().unwrap_or_default();
        let lines = pods.log_stream(pod, &parameters).await.with_context(|| format!("no log of {pod}"))?;
        let mut lines = lines.lines();
        while let Some(line) = lines.try_next().await? {
            output::line(line)?;
        }
        return Ok(());
    }
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
