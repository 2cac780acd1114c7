//! Waiting for the end of a run.

use anyhow::{Context, bail};
use futures::TryStreamExt;
use kube::Api;
use kube::api::{WatchEvent, WatchParams};

use crate::kinds::{Phase, WorkflowRun};

/// The output of a run once it is over, after so many redrives; an error with its name and cause if it failed.
pub async fn until_over(runs: &Api<WorkflowRun>, name: &str, redrives: i64) -> anyhow::Result<String> {
    loop {
        let run = runs.get_opt(name).await?.with_context(|| format!("run {name} was deleted"))?;
        if let Some(ended) = ended(&run, redrives) {
            return ended;
        }
        let version = run.metadata.resource_version.unwrap_or_default();
        let only = WatchParams::default().fields(&format!("metadata.name={name}"));
        let mut changes = std::pin::pin!(runs.watch(&only, &version).await?);
        while let Ok(Some(change)) = changes.try_next().await {
            match change {
                WatchEvent::Added(run) | WatchEvent::Modified(run) => {
                    if let Some(ended) = ended(&run, redrives) {
                        return ended;
                    }
                }
                WatchEvent::Deleted(_) => bail!("run {name} was deleted"),
                WatchEvent::Bookmark(_) => {}
                // Too old, or cut off: begin again.
                WatchEvent::Error(_) => break,
            }
        }
    }
}

fn ended(run: &WorkflowRun, redrives: i64) -> Option<anyhow::Result<String>> {
    let status = run.status.as_ref()?;
    let phase = status.phase.filter(|phase| phase.is_over())?;
    if status.redrives.unwrap_or(0) < redrives {
        return None;
    }
    let name = run.metadata.name.as_deref().unwrap_or_default();
    Some(match phase {
        Phase::Succeeded => Ok(format!("{}\n", status.output.clone().unwrap_or_default())),
        phase => {
            let error = status.error.as_deref().unwrap_or("no error was named");
            let cause = status.cause.as_deref().map(|cause| format!(": {cause}")).unwrap_or_default();
            Err(anyhow::anyhow!("run {name} is {phase:?}: {error}{cause}"))
        }
    })
}
