//! `minik8s function result`: how a call ended that nobody waited for.

use std::time::Duration;

use anyhow::{Context, bail};
use kube::{Api, Client};
use minik8s_meta::invocation::Invocation;

use crate::output;

const LOOK: Duration = Duration::from_millis(100);

pub async fn run(client: &Client, namespace: &str, id: &str, wait: bool) -> anyhow::Result<()> {
    let invocations: Api<Invocation> = Api::namespaced(client.clone(), namespace);
    loop {
        let found = invocations.get_opt(id).await.with_context(|| format!("cannot read call {id}"))?;
        let found = found.with_context(|| {
            format!("there is no call {id} in namespace {namespace}; results are kept for an hour by default")
        })?;
        let ended = found.has_ended();
        let status = found.status.unwrap_or_default();
        match (ended, status.phase.as_str()) {
            (true, "Succeeded") => return Ok(output::line(status.result.unwrap_or_default().trim_end())?),
            (true, _) => bail!(
                "call {id} failed after {} attempts with code {}:\n{}",
                status.attempts,
                status.code.unwrap_or_default(),
                status.result.unwrap_or_default()
            ),
            (false, _) if !wait => bail!("call {id} has not ended yet; wait with --wait"),
            (false, _) => tokio::time::sleep(LOOK).await,
        }
    }
}
